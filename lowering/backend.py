"""What a training step may do, and what runs it: the protocol both lowerings meet.

A step is written once, as a function of an `Engine` and of trees (nested dicts and lists of
arrays). Everything numeric of a model, a loss or an optimizer is an IR graph that the step calls;
the engine adds only what joins graphs: microbatches, several steps in a dispatch, selection, and
arithmetic on scalars. A `Backend` compiles such a function for one device.

Imports neither numpy nor jax: `open_backend` loads what the device needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from sexpgpu.diagnostics.codes.system import E_DEV_001
from sexpgpu.diagnostics.model import Diagnostic, SxError
from sexpgpu.ir.graph import Graph
from sexpgpu.ir.types import TensorType

Array: TypeAlias = Any  # numpy.ndarray on interp, jax.Array (or its tracer) on xla
Tree: TypeAlias = Any  # an Array, or a dict / list / tuple of trees

DEVICES = ("auto", "cpu", "cuda", "interp")


class Engine(Protocol):
    """What a step function may do with arrays. Every method is pure."""

    def call(self, graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The graph's outputs for inputs given by name (more than it has: the rest is unused)."""
        ...

    def call_often(self, graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """As `call`, for a graph that a step calls many times: its code is made once."""
        ...

    def accumulate(
        self,
        body: Callable[[Tree, Array], dict[str, Array]],
        batch: Tree,
        n: int,
        example: Mapping[str, TensorType] | None = None,
    ) -> dict[str, Array]:
        """The sum over n microbatches of `body(microbatch, index)`, entry by entry.

        Every array of `batch` is split along its leading axis into n consecutive equal parts;
        `index` is an i32 scalar from 0. With n = 1 the body is called once, without a loop.
        `example` gives the type of each result (None: found by one more trace of the body).
        """
        ...

    def fold_accumulate(
        self,
        body: Callable[[Tree, Array, Tree], tuple[dict[str, Array], Tree]],
        carry: Tree,
        batch: Tree,
        n: int,
        example: Mapping[str, TensorType] | None = None,
    ) -> tuple[dict[str, Array], Tree]:
        """As `accumulate`, with a tree handed from each microbatch to the next (buffers):
        `body(microbatch, index, carry) -> (results, carry)`; gives the sums and the last carry."""
        ...

    def scan_steps(
        self, body: Callable[[Tree, Tree], tuple[Tree, Tree]], state: Tree, batches: Tree, k: int
    ) -> tuple[Tree, Tree]:
        """k steps `body(state, batch) -> (state, outputs)` in a row.

        Every array of `batches` has a leading axis of k; gives the last state and the outputs
        stacked along a new leading axis of k.
        """
        ...

    def select(self, pred: Array, new: Tree, old: Tree) -> Tree:
        """`new` where the bool scalar holds, else `old` to the bit; trees of one structure."""
        ...

    def settled(self, values: dict[str, Array]) -> dict[str, Array]:
        """The same floats and bools, for many readers: how they were computed is not repeated in
        the code of each reader."""
        ...

    def scalar(self, value: float | int | bool, dtype: str) -> Array:
        """A scalar of an IR dtype."""
        ...

    def cast(self, x: Array, dtype: str) -> Array: ...

    def add(self, a: Array, b: Array) -> Array: ...

    def mul(self, a: Array, b: Array) -> Array: ...

    def div(self, a: Array, b: Array) -> Array:
        """True quotient of two floats of one dtype."""
        ...

    def less(self, a: Array, b: Array) -> Array: ...

    def logical_and(self, a: Array, b: Array) -> Array: ...

    def logical_not(self, a: Array) -> Array: ...

    def is_finite(self, x: Array) -> Array: ...

    def fold_key(self, key: Array, integer: Array | int) -> Array:
        """A new u32[2] key from a key and the low 32 bits of an integer (Threefry-2x32-20)."""
        ...


class Compiled(Protocol):
    """A function compiled for a device. Calling it donates the trees named when compiling."""

    @property
    def seconds(self) -> Mapping[str, float]:
        """Of `trace`, `lower`, `compile`."""
        ...

    def __call__(self, *trees: Tree) -> Tree: ...

    def cost(self) -> dict[str, float] | None:
        """`flops` and `bytes` of one call; None where not known (interp: before the first)."""
        ...

    def memory(self) -> dict[str, int] | None:
        """Bytes: `argument output alias temp` and `total` = argument + output - alias + temp;
        None where nothing is planned ahead (interp)."""
        ...

    def text(self) -> str:
        """The optimized HLO; on interp, where nothing is compiled, empty."""
        ...


class Backend(Protocol):
    """One device and how to use it."""

    @property
    def name(self) -> str:
        """cpu, cuda or interp."""
        ...

    def compile(
        self,
        function: Callable[..., Tree],
        examples: Sequence[Tree],
        donate: Sequence[int] = (0,),
    ) -> Compiled:
        """`function(engine, *trees)` for trees like the examples (arrays, or TensorType where
        only the type is known). `donate` names the trees whose memory the results may take."""
        ...

    def put(self, tree: Tree) -> Tree:
        """Host arrays to the device."""
        ...

    def stage(self, tree: Tree) -> Tree:
        """Host arrays made ready for one call, ahead of it: on their way to a GPU; left where they
        are for a device that reads the host's memory. Nobody may write to them any more."""
        ...

    def get(self, tree: Tree) -> Tree:
        """Device arrays to NumPy arrays; waits for them."""
        ...

    def snapshot(self, tree: Tree) -> Callable[[], Tree]:
        """The tree as it is now, though it may be donated as soon as this returns: what is given,
        called once by any thread, gives NumPy arrays that nothing writes to."""
        ...

    def block(self, tree: Tree) -> Tree:
        """Wait until every array of the tree is computed; gives the tree."""
        ...

    def memory_peak(self) -> int | None:
        """The most bytes held so far: of the device's memory on cuda, else of the process."""
        ...

    @property
    def profile(self) -> Callable[[str], Callable[[], None]] | None:
        """`profile(directory)` begins to record what the device does; what it gives ends that,
        and has then written a profile into the directory, which TensorBoard and XProf read.
        None: this device records nothing."""
        ...

    def describe(self) -> dict[str, Any]:
        """For manifests: `device`, `kind`, `count`, and the versions of what computes."""
        ...


def open_backend(device: str = "auto", *, deterministic: bool = True) -> Backend:
    """The backend of a device: `auto` (cuda where there is one, else cpu), cpu, cuda, interp.

    `deterministic`: on cuda, only kernels that give the same bits in every run.
    Raises SxError E-DEV-001 where the device does not exist here.
    """
    if device not in DEVICES:
        raise SxError(
            Diagnostic(
                E_DEV_001,
                f"no device is called {device!r}",
                fix=f"name one of {', '.join(DEVICES)}",
            )
        )
    if device == "interp":
        from sexpgpu.lowering.interp.backend import InterpBackend

        return InterpBackend()
    from sexpgpu.lowering.xla.backend import open_xla

    return open_xla(device, deterministic=deterministic)

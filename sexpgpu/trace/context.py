"""A graph being traced, and everything that is noted on the way.

The trace that runs is the last of `TRACES`. Knows ops only through the builder's inference.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from math import copysign
from typing import TYPE_CHECKING, Any

from sexpgpu.ir.graph import Builder, Graph, Value
from sexpgpu.ir.numerics import merge_numerics
from sexpgpu.ir.paths import is_selected
from sexpgpu.ir.types import FLOATS, TensorType
from sexpgpu.lisp.state import STATE, current_origin
from sexpgpu.ops import new_builder
from sexpgpu.source import NOWHERE, Origin, Span

if TYPE_CHECKING:
    from sexpgpu.trace.tensor import Tensor, TensorSource

MAX_NODES = 1_000_000  # of one graph; a session's own limit may be lower


class Frame:
    """One active call of a model: what its draws and the calls it makes are named by.

    path    the model's path;  chain  the names of the calls around it, outermost first
    draws   how many draws of each `:name` were made in this call
    calls   how often each model was called in this call
    """

    __slots__ = ("calls", "chain", "draws", "path")

    def __init__(self, path: str, chain: str) -> None:
        self.path = path
        self.chain = chain
        self.draws: dict[str, int] = {}
        self.calls: dict[str, int] = {}


class Draw:
    """A random draw of the graph. `batch`: the axis of examples; `mixed`: some axis counts
    examples but cannot be attributed to them."""

    __slots__ = ("batch", "mixed", "name", "origin", "shape")

    def __init__(
        self, name: str, shape: tuple[int, ...], batch: int | None, mixed: bool, origin: Origin
    ) -> None:
        self.name = name
        self.shape = shape
        self.batch = batch
        self.mixed = mixed
        self.origin = origin


class Metric:
    """A metric of the graph. For `mean` and `rms`, `value` is weight times the mean (of the
    squares), so that values and weights add up; else it is the value itself."""

    __slots__ = ("finish", "name", "origin", "reduce", "value", "weight")

    def __init__(
        self, name: str, reduce: str, value: Value, weight: Value, finish: Any, origin: Origin
    ) -> None:
        self.name = name
        self.reduce = reduce
        self.value = value
        self.weight = weight
        self.finish = finish  # a Lisp Function, or None
        self.origin = origin


class Term:
    """A loss term: its mean and its weight, f32 scalars."""

    __slots__ = ("mean", "name", "origin", "weight")

    def __init__(self, name: str, mean: Value, weight: Value, origin: Origin) -> None:
        self.name = name
        self.mean = mean
        self.weight = weight
        self.origin = origin


class Trace:
    """One graph being traced.

    name, domain   the graph's name, and what it is: train eval predict init update hyper
                   curriculum function
    batch          the extent of the batch that its examples come in, or None
    training       what `(ctx :training)` answers
    stage          the stage's name in a training graph
    context        types of the `ctx` keys that are tensors here: key -> TensorType
    prefix         what the names of metrics begin with (an optimizer's update: "optim/PATH/")
    metrics, terms, counters, draws, doubts, context_used   what the functions noted
    buffers        path -> the tensor it holds now;  written  path -> where it was set
    sources        parameters and other TensorSources -> their tensors here, made at first use
    bindings       parameters that stand for other tensors in the model that is called -> what
                   gives those
    repeats        whether it is the body of a loop: what it notes would be there many times
    examples_in_turn   whether the graph sees one example after another, so that a draw cannot tell
                   which it draws for
    node_limit     how many nodes the graph may have
    select         globs of the diagnostics that are taken
    remat          what the backward pass computes again: none, blocks (each part of a `repeat`) or
                   full (each submodel)
    """

    __slots__ = (
        "batch",
        "bindings",
        "buffers",
        "builder",
        "calls",
        "constants",
        "context",
        "context_used",
        "counters",
        "domain",
        "doubts",
        "draws",
        "emit",
        "examples_in_turn",
        "frames",
        "late",
        "metrics",
        "name",
        "node_limit",
        "path",
        "prefix",
        "remat",
        "repeats",
        "select",
        "sources",
        "stage",
        "terms",
        "training",
        "watched",
        "watched_at",
        "written",
    )

    def __init__(
        self,
        name: str,
        domain: str = "function",
        *,
        batch: int | None = None,
        training: bool = False,
        stage: str | None = None,
        context: dict[str, TensorType] | None = None,
        prefix: str = "",
    ) -> None:
        self.name = name
        self.domain = domain
        self.batch = batch
        self.training = training
        self.stage = stage
        self.context = {} if context is None else context
        self.prefix = prefix
        self.builder: Builder = new_builder()
        self.emit: Callable[..., Value] = self.builder.emit
        self.path = ""
        self.frames = [Frame("", "")]
        self.constants: dict[Any, Value] = {}
        self.metrics: dict[str, Metric] = {}
        self.terms: dict[str, Term] = {}
        self.counters: dict[str, Value] = {}
        self.buffers: dict[str, Any] = {}
        self.written: dict[str, Origin] = {}
        self.context_used: set[str] = set()
        self.draws: list[Draw] = []
        self.doubts: list[tuple[str, Origin]] = []  # calls of max and min that compare nothing
        # diagnostics: name -> the tensor (None: it is made only where it is selected) and its
        # reducers ("" for the scalar itself), and its place
        self.watched: dict[str, tuple[Value | None, tuple[str, ...]]] = {}
        self.watched_at: dict[str, Origin] = {}
        self.late: set[str] = set()  # inputs that only diagnostics have read so far
        self.bindings: Mapping[Any, Callable[[Trace], Tensor]] = {}
        self.sources: dict[Any, Tensor] = {}  # a parameter or other TensorSource -> its tensor here
        self.node_limit = MAX_NODES
        self.examples_in_turn = False
        self.repeats = False
        self.remat = "none"
        self.select: Sequence[str] = ()
        self.calls: dict[tuple[Any, ...], tuple[Span, ...]] = {}  # of the call stack's top

    # ------------------------------------------------------------------ places

    def locate(self) -> Origin:
        """Give the nodes that follow the place of the call being made: `current_origin()` and the
        model's path. The spans of the calls around it are kept from one node to the next."""
        site = STATE.site
        around = tuple(STATE.stack[-8:])
        calls = self.calls.get(around)
        span = site.span
        if calls is None or span is None:
            origin = current_origin()
            self.calls[around] = origin.calls
            if self.path and origin is not NOWHERE:
                origin.path = self.path
        else:
            expansions: tuple[tuple[str, Span], ...] = ()
            if site.expansions:
                expansions = tuple([(n, use) for n, use in site.expansions if use is not None])
            origin = Origin(span, calls, expansions, self.path)
        self.builder.origin = origin
        return origin

    # ------------------------------------------------------------------ values

    def input(self, name: str, type: TensorType) -> Value:
        """The graph input of that name, made at its first use."""
        found = self.builder.inputs.get(name)
        if found is None:
            return self.builder.input(name, type)
        if name in self.late:  # its place among the inputs is where it would be without them
            self.late.discard(name)
            self.builder.inputs[name] = self.builder.inputs.pop(name)
        return found

    @property
    def root(self) -> Trace:
        """The graph that is traced, of which this may be a body."""
        return self

    def tensor_of(self, source: TensorSource) -> Tensor:
        """The tensor that stands for a parameter or another source in this graph."""
        return self.bound(source) or self.unbound(source)

    def unbound(self, source: TensorSource) -> Tensor:
        """The same without regard to `with-params`."""
        return source.current_tensor(self)

    def bound(self, source: TensorSource) -> Tensor | None:
        """The tensor that `with-params` has put in place of a parameter."""
        make = source.make or self.bindings.get(source)
        return None if make is None else make(self)

    def noted(self, name: str) -> Metric | Term | None:
        """The metric or loss term of that name, if there is one yet."""
        return self.metrics.get(name) or self.terms.get(name)

    def counted(self, name: str) -> Value | None:
        """What has been added to a counter so far."""
        return self.counters.get(name)

    def adopt(self, tensor: Tensor) -> Tensor | None:
        """The tensor of this graph for one of another, where this graph is a body in that one."""
        return None

    def full(self, value: float | bool, shape: tuple[int, ...], dtype: str) -> Value:
        """A constant of one number, made once a trace. The number must fit the dtype."""
        if dtype in FLOATS:
            value = float(value)
            key = (value, copysign(1.0, value), shape, dtype)
        else:
            value = bool(value) if dtype == "bool" else int(value)
            key = (value, shape, dtype)
        found = self.constants.get(key)
        if found is None:
            found = self.emit("full", shape=shape, value=value, dtype=dtype, batch=None)
            self.constants[key] = found
        return found

    # ------------------------------------------------------------------ models

    def enter_model(self, path: str) -> None:
        """Begin a call of the model at that path; `leave_model` ends it."""
        caller = self.frames[-1]
        number = caller.calls.get(path, 0)
        caller.calls[path] = number + 1
        link = f"{path}@{number}" if number else path
        self.frames.append(Frame(path, f"{caller.chain}{link}>"))
        self.path = path

    def leave_model(self) -> None:
        self.frames.pop()
        self.path = self.frames[-1].path

    @contextmanager
    def model(self, path: str) -> Generator[None]:
        """A call of the model at that path."""
        self.enter_model(path)
        try:
            yield
        finally:
            self.leave_model()

    def draw_name(self, given: str = "") -> str:
        """The name of the next draw in this call: the chain of calls, then `:name` or nothing,
        then the ordinal among the draws of that name. Draws elsewhere do not change it."""
        frame = self.frames[-1]
        ordinal = frame.draws.get(given, 0)
        frame.draws[given] = ordinal + 1
        return f"{frame.chain}{given}#{ordinal}"

    @contextmanager
    def aside(self, name: str) -> Generator[None]:
        """What is traced meanwhile is for a diagnostic: the rest of the graph comes out as if it
        had not been: no constant, input or draw of it is shared with what follows."""
        frame = self.frames[-1]
        draws, origin = len(self.draws), self.builder.origin
        self.frames.append(Frame(frame.path, f"{frame.chain}diagnostic {name}>"))
        try:
            with self.apart():
                yield
        finally:
            self.frames.pop()
            self.builder.origin = origin
            del self.draws[draws:]

    @contextmanager
    def apart(self) -> Generator[None]:
        """What this graph is given meanwhile is not there for what follows."""
        constants, sources = dict(self.constants), dict(self.sources)
        inputs = set(self.builder.inputs)
        try:
            yield
        finally:
            self.constants, self.sources = constants, sources
            self.late |= set(self.builder.inputs) - inputs

    def watch(self, name: str, value: Value, reducers: tuple[str, ...]) -> None:
        """Note a diagnostic; the second of one name gets a number."""
        full = self._diagnostic_name(name)
        self.watched[full] = (value, reducers)
        self.watched_at[full] = self.builder.origin

    def watch_if_selected(self, name: str, make: Callable[[], Value]) -> None:
        """The same for a scalar that takes nodes of its own: it is made where it is selected."""
        full = self._diagnostic_name(name)
        value = None
        if is_selected(full, self.select):
            with self.aside(full):
                value = make()
        self.watched[full] = (value, ("",))
        self.watched_at[full] = self.builder.origin

    def _diagnostic_name(self, name: str) -> str:
        number, full = 1, name
        while self.is_watched(full):
            full = f"{name}@{number}"
            number += 1
        return full

    def is_watched(self, name: str) -> bool:
        """Whether there is a diagnostic of that name."""
        return name in self.watched

    # ------------------------------------------------------------------ numerics

    @contextmanager
    def numerics(self, **wanted: str) -> Generator[None]:
        """Nodes made meanwhile carry these numerics; what is not named stays as around."""
        builder = self.builder
        before = builder.numerics
        builder.numerics = merge_numerics(before, wanted)
        try:
            yield
        finally:
            builder.numerics = before

    # ------------------------------------------------------------------ the end

    def finish(self, outputs: dict[str, Value]) -> Graph:
        """The graph, with these outputs."""
        return self.builder.finish(self.name, outputs)


TRACES: list[Trace] = []


@contextmanager
def tracing(trace: Trace) -> Generator[Trace]:
    """Make a trace the one that tensor functions write to."""
    TRACES.append(trace)
    try:
        yield trace
    finally:
        TRACES.pop()

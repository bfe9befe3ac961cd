"""Random graphs made of the ops' own samples, for the tests of ir and passes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from hypothesis import strategies as st

from sexpgpu.diagnostics.model import SxError
from sexpgpu.ir.graph import Graph, Value
from sexpgpu.lowering.interp.dtypes import NUMPY
from sexpgpu.ops import OPS, new_builder
from sexpgpu.source import Origin, Source, Span

T = TypeVar("T")
SOURCE = Source("net.sx", '(defmodel net ()\n  (forward (x) (+ x "é" 1)))\n', "/home/u/net.sx")
LIBRARY = Source("nn.sx", "(defun f (x)\n  (* x x))\n", standard=True)
SAMPLES = [(op, sample) for op in OPS.values() for sample in op.samples]
NUMERICS = (None, None, None, "compute=f32", "accumulate=f32 compute=bf16 matmul=tf32")


def spans(source: Source) -> st.SearchStrategy[Span]:
    end = len(source.text)
    return st.tuples(st.integers(0, end), st.integers(0, end)).map(
        lambda ends: Span(source, min(ends), max(ends))
    )


ORIGINS = st.builds(
    Origin,
    st.one_of(st.none(), spans(SOURCE), spans(LIBRARY)),
    st.lists(spans(SOURCE), max_size=2).map(tuple),
    st.lists(st.tuples(st.sampled_from(["when", "m"]), spans(SOURCE)), max_size=1).map(tuple),
    st.sampled_from(["", "body/3/attn"]),
    st.sampled_from(["", "gradient"]),
)
NAMES = st.one_of(
    st.sampled_from(["param/w", "batch/x", "7", "", "two words", 'a"b\\', "%", ":key", "nan"]),
    st.text(max_size=6),
)


@st.composite
def graphs(draw: st.DrawFn, places: bool = True, only: str | None = None) -> Graph:
    """A graph of a few nodes; operands are earlier values of the type, or new inputs. `only`:
    just ops with a sample whose operands are all of that dtype or bools."""
    b = new_builder()
    values: list[Value] = []
    samples = SAMPLES
    if only is not None:
        samples = [(o, s) for o, s in SAMPLES if all(t.dtype in (only, "bool") for t in s.types)]
    for _ in range(draw(st.integers(1, 8))):
        op, sample = draw(st.sampled_from(samples))
        operands: list[Value] = []
        for type in sample.types:
            found = [v for v in values if v.type == type]
            if found and draw(st.booleans()):
                operands.append(draw(st.sampled_from(found)))
            else:
                name = draw(NAMES.filter(lambda name: name not in b.inputs))
                operands.append(b.input(name, type))
        if places:
            b.origin = draw(ORIGINS)
        b.numerics = draw(st.sampled_from(NUMERICS))
        values += operands
        values += b.node(op.name, tuple(operands), sample.attrs).results
    chosen = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    return b.finish(draw(NAMES), {f"out/{i}": value for i, value in enumerate(chosen)})


def attempt(read: Callable[[], T]) -> tuple[T | None, list[str]]:
    """What `read` gives, or the codes of the SxError that it raises."""
    try:
        return read(), []
    except SxError as error:
        return None, [diagnostic.code.id for diagnostic in error.diagnostics]


def arrays(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs for a graph: small integers, floats around 0 with NaN, infinities and both zeros."""
    rng = np.random.default_rng(seed)
    odd = np.array([0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, -1.0])
    made: dict[str, np.ndarray] = {}
    for name, value in graph.inputs.items():
        shape, dtype = value.shape, value.dtype
        if dtype == "bool":
            x = rng.integers(0, 2, shape)
        elif dtype[0] in "iu":
            x = rng.integers(0 if dtype[0] == "u" else -3, 7, shape)
        else:
            x = np.where(rng.random(shape) < 0.3, rng.choice(odd, shape), rng.normal(size=shape))
        made[name] = np.asarray(x).astype(NUMPY[dtype])
    return made


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal to the bit, all NaNs being one."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "iub":
        return bool(np.array_equal(a, b))
    nan = np.isnan(a)
    if not np.array_equal(nan, np.isnan(b)):
        return False
    word = {2: np.uint16, 4: np.uint32, 8: np.uint64}[a.dtype.itemsize]
    return bool(np.array_equal(a[~nan].view(word), b[~nan].view(word)))

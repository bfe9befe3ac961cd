"""How far the two backends are apart on this machine's CPU, by class of ops, as tables.

    python tests/ops/worst_ulps.py [DRAWS]

Every op on its samples, in each float dtype that it takes, with operands drawn a few times, NumPy
against XLA; functions of one number on thousands, over the whole range of the dtype, besides. What
rounds each result by itself is measured in units in the last place, sums and factors as shares of
the largest magnitude of their terms (see op_driving). Beside it stands what the tests allow, and
before it how many facets the registry has. docs/numerics.md has the tables.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from op_driving import (
    ACCUMULATING,
    ULPS,
    WIDE,
    draw,
    graph_of,
    greatest,
    in_dtype,
    named,
    normal,
    run_numpy,
    ulps_apart,
    whole_range,
)

from sexpgpu.ir.graph import Graph
from sexpgpu.ir.types import TensorType
from sexpgpu.lowering.interp.registry import RULES as NUMPY_RULES
from sexpgpu.lowering.xla.evaluate import evaluate as lower
from sexpgpu.lowering.xla.options import CpuTuning, Lowering
from sexpgpu.lowering.xla.registry import RULES as LAX_RULES
from sexpgpu.ops import OPS, NoGrad, OpDef, Sample

DTYPES = ("f32", "f64", "bf16", "f16")
MANY = 4096
"""Numbers of the whole range."""
TOGETHER = 10
"""Ops in one compilation: most of its time is spent once a compilation."""


class Case(NamedTuple):
    """One op on one sample in one dtype; `wide`: on numbers of the whole range."""

    op: OpDef
    dtype: str
    sample: Sample
    graph: Graph
    wide: bool = False

    def operands(self, seed: int) -> dict[str, np.ndarray]:
        return named(
            [whole_range(self.dtype, MANY, seed)] if self.wide else draw(self.sample, seed)
        )


def cases_of(op: OpDef) -> Iterator[Case]:
    """All samples in f32, the largest in the other float dtypes, and the whole range of each."""
    largest = max(op.samples, key=lambda s: max((t.size for t in s.types), default=0))
    for dtype in DTYPES:
        for sample in op.samples if dtype == "f32" else (largest,):
            made = sample if dtype == "f32" else in_dtype(op, sample, dtype)
            if made is not None and any(t.dtype == dtype for t in made.types):
                yield Case(op, dtype, made, graph_of(op, made))
        if op.name in WIDE:
            wide = Sample(TensorType((MANY,), dtype))
            yield Case(op, dtype, wide, graph_of(op, wide), True)


def compiled(cases: list[Case]) -> Callable[[list[Any]], Any]:
    """All cases in one executable, lowered as for this CPU."""

    def step(zero: jax.Array, inputs: list[dict[str, jax.Array]]) -> list[dict[str, jax.Array]]:
        lowering = Lowering(CpuTuning(), zero >= np.int32(0))
        return [lower(c.graph, given, lowering) for c, given in zip(cases, inputs, strict=True)]

    function = jax.jit(step)
    return lambda inputs: jax.tree.map(np.asarray, function(np.int32(0), inputs))


class Worst(NamedTuple):
    """The largest error of an op in a dtype: in ulps, or a share where it accumulates."""

    op: str
    dtype: str
    error: float


def errors_of(ops: list[OpDef], draws: int) -> list[Worst]:
    """The worst of each op and dtype over all samples and draws."""
    found: dict[tuple[str, str], float] = {}
    cases = [case for op in ops for case in cases_of(op)]
    with jax.enable_x64(True):
        run = compiled(cases)
        for seed in range(draws):
            inputs = [case.operands(seed) for case in cases]
            for case, given, got in zip(cases, inputs, run(inputs), strict=True):
                for name, want in run_numpy(case.graph, given).items():
                    want = np.asarray(want)
                    if want.dtype.kind in "iub":
                        continue
                    if case.op.name in ACCUMULATING:
                        error = share(got[name], want, list(given.values()))
                    else:
                        error = float(ulps_apart(*normal(got[name], want)))
                    key = (case.op.name, case.dtype)
                    found[key] = max(found.get(key, 0.0), error)
    return [Worst(op, dtype, error) for (op, dtype), error in found.items()]


def share(got: np.ndarray, want: np.ndarray, inputs: list[np.ndarray]) -> float:
    """The largest difference over the bound's scale (op_driving.agree)."""
    scale = max(1.0, greatest(want.astype(np.float64)))
    for x in inputs:
        if x.dtype.kind == "f":
            scale *= max(1.0, greatest(x))
    ill = ~np.isfinite(want.astype(np.float64))
    apart = np.abs(got.astype(np.float64) - want.astype(np.float64))[~ill]
    return float(apart.max(initial=0.0)) / scale


def family_of(op: OpDef) -> str:
    return op.infer.__module__.rpartition(".")[2]


def allowed(name: str) -> str:
    """What the tests allow in f32, and in f64 where that is another number."""
    if name in ACCUMULATING:
        return "32 eps"
    bound = ULPS.get(name, 0)
    if isinstance(bound, dict):
        return f"{bound['f32']} ulp (f64: {bound['f64']})"
    return f"{bound} ulp" if bound else "equal"


def class_of(op: OpDef) -> str:
    """The row of the table that an op is in: its name where it rounds as a function does."""
    if op.name in ACCUMULATING or not ULPS.get(op.name):
        return family_of(op)
    return allowed(op.name)


def cell(found: list[Worst], shares: bool) -> str:
    """The worst of some ops, and which it is."""
    if not found:
        return ""
    worst = max(found, key=lambda w: w.error)
    if not worst.error:
        return "0"
    return f"{worst.error:.0e} `{worst.op}`" if shares else f"{worst.error:.0f} `{worst.op}`"


def facets() -> str:
    """How many ops there are, and how much each states."""
    ops = OPS.values()
    derivatives = sum(not isinstance(op.vjp, NoGrad) for op in ops)
    stated = ("name", "doc", "operands", "attributes", "inference", "derivative", "precision class",
              "cost", "samples", "rejections")  # fmt: skip
    return (
        f"{len(OPS)} ops x {len(stated) + 2} facets ({', '.join(stated)}, a NumPy rule, a lax "
        f"rule): {derivatives} with a derivative, {len(OPS) - derivatives} with a reason why not; "
        f"{sum(len(op.samples) for op in ops)} samples, {sum(len(op.rejects) for op in ops)} "
        f"rejections, {len(NUMPY_RULES)} NumPy and {len(LAX_RULES)} lax rules"
    )


def table(shares: bool, found: list[Worst]) -> Iterator[str]:
    """The lines of one of the two tables."""
    title = "sums and factors" if shares else "operations"
    yield f"| {title} | allowed | f32 | f64 | bf16 | f16 |"
    yield "| --- | --- | --- | --- | --- | --- |"
    rows: dict[str, list[str]] = {}
    for op in OPS.values():
        if (op.name in ACCUMULATING) == shares and any(w.op == op.name for w in found):
            rows.setdefault(class_of(op), []).append(op.name)
    for names in rows.values():
        cells = [
            cell([w for w in found if w.op in names and w.dtype == dtype], shares)
            for dtype in DTYPES
        ]
        listed = " ".join(f"`{name}`" for name in names)
        yield f"| {listed} | {allowed(names[0])} | {' | '.join(cells)} |"


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(facets(), end="\n\n")
    ops = list(OPS.values())
    found: list[Worst] = []
    for at in range(0, len(ops), TOGETHER):
        found += errors_of(ops[at : at + TOGETHER], draws)
    for shares in (False, True):
        print(*table(shares, found), sep="\n", end="\n\n")


if __name__ == "__main__":
    main()

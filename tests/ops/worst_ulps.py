"""How far the two backends are apart on this machine's CPU, by family of ops, as a table.

    python tests/ops/worst_ulps.py [SEEDS]

Every op on all its samples, in each float dtype that it takes, with operands drawn for a few seeds;
NumPy against XLA. Ops that round each result by itself are measured in units in the last place,
sums and factors as shares of the largest magnitude of their terms (see op_driving). Beside it what
the tests allow, and how many facets the registry has.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np
from op_driving import (
    ACCUMULATING,
    ULPS,
    draw,
    graph_of,
    greatest,
    in_dtype,
    named,
    run_lax,
    run_numpy,
    ulps_apart,
)

from sexpgpu.lowering.interp.registry import RULES as NUMPY_RULES
from sexpgpu.lowering.xla.registry import RULES as LAX_RULES
from sexpgpu.ops import OPS, NoGrad, OpDef

DTYPES = ("f32", "f64", "bf16", "f16")


class Worst(NamedTuple):
    """The largest error of an op in a dtype: in ulps, or a share where `is_share`."""

    op: str
    dtype: str
    is_share: bool
    error: float


def errors_of(op: OpDef, seeds: int) -> list[Worst]:
    """The worst of each dtype over all samples and seeds."""
    found: dict[str, float] = {}
    shares = op.name in ACCUMULATING
    for dtype in DTYPES:
        samples = [
            made
            for sample in op.samples
            if (made := sample if dtype == "f32" else in_dtype(op, sample, dtype)) is not None
            and any(t.dtype == dtype for t in made.types)
        ]
        if not samples:
            continue
        cases = [(sample, draw(sample, seed)) for seed in range(seeds) for sample in samples]
        graphs = [graph_of(op, sample) for sample, _ in cases]
        given = [named(xs) for _, xs in cases]
        for graph, inputs, got in zip(graphs, given, run_lax(graphs, given, True), strict=True):
            for name, want in run_numpy(graph, inputs).items():
                want = np.asarray(want)
                if want.dtype.kind in "iub":
                    continue
                error = float(ulps_apart(got[name], want))
                if shares:
                    error = share(got[name], want, list(inputs.values()))
                found[dtype] = max(found.get(dtype, 0.0), error)
    return [Worst(op.name, dtype, shares, error) for dtype, error in found.items()]


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


def cell(found: list[Worst]) -> str:
    """The worst of some ops, and which it is."""
    if not found:
        return ""
    worst = max(found, key=lambda w: w.error)
    if not worst.error:
        return "0"
    said = f"{worst.error:.1e} of the largest" if worst.is_share else f"{worst.error:.0f} ulp"
    return f"{said} ({worst.op})"


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


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(facets(), end="\n\n")
    measured = {op.name: errors_of(op, seeds) for op in OPS.values()}
    for shares, title in ((False, "Rounded each by itself"), (True, "Sums and factors")):
        print(f"| {title} | ops | f32 | f64 | bf16 | f16 | allowed in f32 |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        families: dict[str, list[str]] = {}
        for op in OPS.values():
            if measured[op.name] and (op.name in ACCUMULATING) == shares:
                families.setdefault(family_of(op), []).append(op.name)
        for family, names in families.items():
            rows = [w for name in names for w in measured[name]]
            cells = [cell([w for w in rows if w.dtype == dtype]) for dtype in DTYPES]
            bounds = [ULPS.get(name, 0) for name in names]
            most = max(b["f32"] if isinstance(b, dict) else b for b in bounds)
            allowed = "32 eps of the largest" if shares else f"{most} ulp"
            print(f"| {family} | {len(names)} | {' | '.join(cells)} | {allowed} |")
        print()


if __name__ == "__main__":
    main()

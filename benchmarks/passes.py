"""What compiling a deep transformer takes: tracing, autodiff, and all passes of the training graph.

    python benchmarks/passes.py
    python benchmarks/passes.py --layers 48 --rounds 9 --precision :bf16

Processor time of `sx/gpt.sx`, medians over the rounds, in one process after one round that is not
counted. `front` is everything else: reading, evaluating, tracing, the other graphs.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from data import write_batches

import sexpgpu as sx
from sexpgpu.assemble import training

FILE = Path(__file__).parent / "sx" / "gpt.sx"


class Clock:
    """Adds up the time of calls by name."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **keys: Any) -> Any:
            start = time.process_time()
            try:
                return function(*arguments, **keys)
            finally:
                self.spent[name] = self.spent.get(name, 0.0) + time.process_time() - start

        return timed


def compiled(knobs: dict[str, Any]) -> tuple[dict[str, float], int]:
    """Seconds of each part, and the nodes of the training graph before the passes."""
    clock, nodes = Clock(), 0
    kept = training.gradients, training.optimized

    def optimized(graph: Any, precision: str) -> Any:
        nonlocal nodes
        nodes = max(nodes, len(graph.nodes))
        return kept[1](graph, precision)

    training.gradients = clock.around("autodiff", kept[0])
    training.optimized = clock.around("passes", optimized)
    start = time.process_time()
    try:
        sx.compile(str(FILE), knobs=knobs)
    finally:
        training.gradients, training.optimized = kept
    whole = time.process_time() - start
    return {"front": whole - sum(clock.spent.values()), **clock.spent}, nodes


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--precision", default=":f32")
    given = parser.parse_args()
    knobs: dict[str, Any] = {"layers": given.layers, "precision": given.precision}
    found: list[dict[str, float]] = []
    nodes = 0
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "batches.npz"
        write_batches("nano", 1, data)  # of which the compiler reads the header
        knobs["data"] = str(data)
        for _ in range(given.rounds + 1):
            parts, nodes = compiled(knobs)
            found.append(parts)
            gc.collect()
    print(f"{given.layers} layers, {given.precision}, {nodes:,} nodes")
    for name in found[0]:
        print(f"  {name:9}{statistics.median(parts[name] for parts in found[1:]):6.3f} s")


if __name__ == "__main__":
    main()

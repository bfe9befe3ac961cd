"""Attention as one operation beside its plain composition: time of its gradients, and workspace.

    python benchmarks/attention.py
    python benchmarks/attention.py 1024 2048 --rounds 15 --heads 8

Gradients of causal attention [1, T, heads, 64] in f32 with respect to q, k and v, on the CPU. All
programs are compiled in one process and take turns, so that what else the machine does falls on
each alike; times are medians over the rounds, a ratio the median of the rounds' ratios. Workspace
is what XLA plans for beside operands and results.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

import sexpgpu as sx
from sexpgpu.ir.text import parse_graph
from sexpgpu.lowering.backend import open_backend

OPERATION = "(lambda (q k v) (attention q k v :causal t))"
COMPOSITION = """(lambda (q k v)
  (let* ((n (dim q 1))
         (scores (/ (einsum "bthd,bshd->bhts" q k) (sqrt (float (dim q 3)))))
         (seen (>= (iota (list n n) 0) (iota (list n n) 1))))
    (einsum "bhts,bshd->bthd" (softmax (where seen scores -1e30)) v)))"""
SIZE = 64
WHOLE_SCORES = 4096
"""The longest that is measured with its scores held whole: they are gigabytes beyond."""


class Program(NamedTuple):
    """A compiled gradient. `workspace` in bytes."""

    name: str
    run: Callable[[], Any]
    workspace: int


def of_product(name: str, text: str, arrays: list[np.ndarray]) -> Program:
    function = sx.function(text, device="cpu")
    function.vjp(*arrays)
    graph = parse_graph(function.ir)
    backend = open_backend("cpu")
    names = [f"argument/{i}" for i in range(3)] + ["cotangent/0"]
    given = backend.put(dict(zip(names, arrays, strict=True)))
    made = backend.compile(lambda engine, tree: engine.call(graph, tree), [given], donate=())
    plan = made.memory()
    assert plan is not None
    return Program(name, lambda: backend.block(made(given)), plan["temp"])


def of_jax(arrays: list[np.ndarray]) -> Program:
    def gradient(q: Any, k: Any, v: Any, dout: Any) -> Any:
        def attend(q: Any, k: Any, v: Any) -> Any:
            return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="xla")

        return jax.vjp(attend, q, k, v)[1](dout)

    given = [jax.device_put(x) for x in arrays]
    made = jax.jit(gradient).lower(*given).compile()
    plan = made.memory_analysis()
    assert plan is not None
    return Program("jax.nn", lambda: jax.block_until_ready(made(*given)), plan.temp_size_in_bytes)


def programs(length: int, heads: int) -> list[Program]:
    """The operation first: ratios are to it."""
    rng = np.random.default_rng(0)
    shape = (1, length, heads, SIZE)
    arrays = [rng.normal(size=shape).astype(np.float32) for _ in range(4)]
    made = [of_product("attention", OPERATION, arrays)]
    if length <= WHOLE_SCORES:
        made += [of_product("composition", COMPOSITION, arrays), of_jax(arrays)]
    return made


def measured(made: list[Program], rounds: int) -> dict[str, list[float]]:
    """Seconds of each round, after one that is not counted."""
    times: dict[str, list[float]] = {program.name: [] for program in made}
    for round in range(rounds + 1):
        for program in made[:: 1 if round % 2 else -1]:
            start = time.perf_counter()
            program.run()
            if round:
                times[program.name].append(time.perf_counter() - start)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    default = [256, 512, 1024, 2048, 4096, 8192]
    parser.add_argument("lengths", nargs="*", type=int, metavar="T", default=default)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--heads", type=int, default=4)
    given = parser.parse_args()
    print("| T | program | ms | ratio | workspace MB |\n| --- | --- | --- | --- | --- |")
    for length in given.lengths:
        made = programs(length, given.heads)
        times = measured(made, given.rounds)
        base = times[made[0].name]
        for program in made:
            own = times[program.name]
            ratio = statistics.median(a / b for a, b in zip(own, base, strict=True))
            print(
                f"| {length} | {program.name} | {1e3 * statistics.median(own):.1f} | {ratio:.2f} | "
                f"{program.workspace / 1e6:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

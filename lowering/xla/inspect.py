"""A graph or a step as jax and XLA see it: jaxpr, StableHLO for any platform, and the program that
is compiled for a device, or for one that this machine does not have."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from sexpgpu.ir.graph import Graph
from sexpgpu.lowering.backend import Engine, Tree
from sexpgpu.lowering.xla.backend import planned_memory
from sexpgpu.lowering.xla.described import Target, compile_target
from sexpgpu.lowering.xla.options import CpuTuning, Lowering, compiler_options
from sexpgpu.lowering.xla.tracing import trace


class Program(NamedTuple):
    """A function lowered for a platform: StableHLO text, and of what it was compiled to the
    optimized HLO, the bytes planned (as `Compiled.memory`) and the target's name: None where
    nothing here compiles for the platform. `notes` say so, and what else differs from a run."""

    stablehlo: str
    hlo: str | None
    memory: dict[str, int] | None
    target: str | None
    notes: list[str]


def jaxpr(graph: Graph) -> str:
    """The jaxpr of the plain lowering."""
    with jax.enable_x64(True):
        return f"{_traced(*_of_graph(graph), (), 'cuda', None)[0].jaxpr}\n"


def stablehlo(graph: Graph, platform: str) -> str:
    """The StableHLO text for `cpu` or `cuda`; needs no device of that kind."""
    with jax.enable_x64(True):
        traced, _ = _traced(*_of_graph(graph), (), platform, None)
        return traced.lower(lowering_platforms=(platform,)).as_text()


def program(
    function: Callable[..., Tree], examples: Sequence[Tree], donate: Sequence[int], platform: str
) -> Program:
    """`function(engine, *trees)` lowered and compiled for `cpu` or `cuda`, with the options of a
    run: for a GPU of this machine, or for one that is only described."""
    target, problem = None, ""
    try:
        target = compile_target(platform)
    except RuntimeError as error:
        problem = _first_line(error)
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
        traced, notes = _traced(function, examples, donate, platform, target)
        lowered = traced.lower(lowering_platforms=(platform,))
        text = lowered.as_text()
        if target is not None:
            try:
                compiled = lowered.compile(compiler_options=compiler_options(platform))
                hlo = compiled.as_text() or ""
                return Program(text, hlo, planned_memory(compiled), target.name, notes)
            except RuntimeError as error:
                problem = f"{target.name}: {_first_line(error)}"
    notes.insert(
        0, f"not compiled for {platform} here ({problem}); StableHLO is what the compiler is given"
    )
    return Program(text, None, None, None, notes)


def _traced(
    function: Callable[..., Tree],
    examples: Sequence[Tree],
    donate: Sequence[int],
    platform: str,
    target: Target | None,
) -> tuple[Any, list[str]]:
    """The function traced as the platform's backend does, and what had to be otherwise."""
    lowering = Lowering(CpuTuning())
    sharding = None
    if platform == "cuda":
        capability = None if target is None else target.capability
        lowering = Lowering(device="cuda", capability=capability)
    if target is not None:
        sharding = jax.sharding.SingleDeviceSharding(target.device)
    try:
        return trace(function, examples, donate, lowering, sharding), []
    except RuntimeError as error:  # jax asks for the version of cuDNN while it traces
        if "cuDNN" not in str(error):
            raise
    other = trace(function, examples, donate, lowering._replace(cudnn=False), sharding)
    told = "cuDNN is not installed here: attention that it computes in a run is shown without it"
    return other, [told]


def _of_graph(graph: Graph) -> tuple[Callable[..., Tree], list[Tree]]:
    def function(engine: Engine, inputs: Tree) -> Tree:
        return engine.call(graph, inputs)

    return function, [{name: value.type for name, value in graph.inputs.items()}]


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__

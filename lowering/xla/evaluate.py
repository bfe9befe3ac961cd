"""Lowers a graph by running its lax rules inside a jit trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import jax
from jax import lax

from sexpgpu.ir.graph import Graph, Node, Value
from sexpgpu.lowering.xla import rules as _all_rules  # noqa: F401
from sexpgpu.lowering.xla.dtypes import LAX
from sexpgpu.lowering.xla.options import Lowering
from sexpgpu.lowering.xla.registry import RULES

# Called after each node with its traced results: collects intermediate values as outputs.
Watch: TypeAlias = Callable[[Node, tuple[jax.Array, ...]], None]


def evaluate(
    graph: Graph,
    inputs: Mapping[str, jax.Array],
    lowering: Lowering,
    watch: Watch | None = None,
    names: bool = False,
) -> dict[str, jax.Array]:
    """The graph's outputs. Inputs it does not have are ignored; a missing one is a KeyError.

    `names` puts each node under the name scope GRAPH/n0, GRAPH/n1, … (its place in the graph), so
    that a profile can be mapped back to source lines. That is metadata: the code is the same,
    and an executable from the compilation cache has the names it was first compiled with.
    """
    given = [inputs[name] for name in graph.inputs]
    return dict(zip(graph.outputs, run(graph, given, lowering, watch, names), strict=True))


def run(
    graph: Graph,
    inputs: Sequence[jax.Array],
    lowering: Lowering,
    watch: Watch | None = None,
    names: bool = False,
) -> list[jax.Array]:
    """The graph's outputs in order, for inputs in order (see `evaluate`)."""
    env: dict[Value, jax.Array] = {}
    for (name, value), given in zip(graph.inputs.items(), inputs, strict=True):
        if given.shape != value.shape or given.dtype != LAX[value.dtype]:
            raise TypeError(
                f"input {name} of {graph.name}: {value.type} is declared, "
                f"{given.dtype} {given.shape} was given"
            )
        env[value] = given
    within = Bodies(lowering, names)
    for i, node in enumerate(graph.nodes):
        operands = tuple([env[v] for v in node.operands])
        if names:
            with jax.named_scope(f"{graph.name}/n{i}"):
                results = apply(node, operands, within)
        else:
            results = apply(node, operands, within)
        env.update(zip(node.results, results, strict=True))
        if watch is not None:
            watch(node, results)
    return [env[value] for value in graph.outputs.values()]


class Bodies(NamedTuple):
    """Runs the graphs that nodes have as attributes. What happens in them is not watched: their
    values are those of one iteration, of which there may be many."""

    lowering: Lowering
    names: bool

    def __call__(self, graph: Graph, values: Sequence[jax.Array]) -> list[jax.Array]:
        return run(graph, values, self.lowering, None, self.names)


def apply(node: Node, operands: tuple[jax.Array, ...], within: Bodies) -> tuple[jax.Array, ...]:
    """One node's results; their types are those inferred for it."""
    rule = RULES[node.op]
    if rule.runs:
        results = rule.function(within, *operands, **node.attrs)
    elif rule.by_device:
        results = rule.function(within.lowering, *operands, **node.attrs)
    else:
        results = rule.function(*operands, **node.attrs)
    if not isinstance(results, tuple):
        results = (results,)
    for result, value in zip(results, node.results, strict=True):
        if result.shape != value.shape or result.dtype != LAX[value.dtype]:
            raise TypeError(
                f"{node.op}: {value.type} was inferred, lax has {result.dtype} {result.shape}"
            )
    return results


def opaque_true(zero: jax.Array) -> jax.Array:
    """A bool scalar that holds for the i32 zero given at run time; no compiler can know."""
    return lax.ge(zero, lax.full_like(zero, 0))

"""The first non-finite number of a step: the step is run again by the NumPy evaluator, and the
non-finite loss or gradient traced back to the node where finite operands gave it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sexpgpu.diagnostics.model import Diagnostic, Note, located
from sexpgpu.ir.graph import Graph, Node, Value
from sexpgpu.loop.step import Step, StepState
from sexpgpu.lowering.backend import Array
from sexpgpu.lowering.interp.backend import InterpEngine
from sexpgpu.lowering.interp.dtypes import is_float, widen
from sexpgpu.lowering.interp.evaluate import Plan, run
from sexpgpu.lowering.interp.registry import RULES

_CONSTANTS = frozenset({"full", "literal"})
_GUARDED = ("loss/", "grad/", "grad-norm")  # outputs that the finite guard looks at


class Culprit(Exception):
    """Where a non-finite number came from: a node, or an input of a graph."""

    def __init__(self, graph: Graph, output: str, node: Node | None, what: str) -> None:
        super().__init__(what)
        self.graph = graph
        self.output = output
        self.node = node
        self.what = what


class _TracingEngine(InterpEngine):
    """Stops at the first graph whose loss or gradients are not finite, with the culprit."""

    def call(self, graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
        given = [inputs[name] for name in graph.inputs]
        return dict(zip(graph.outputs, _watched(graph, given, _GUARDED), strict=True))


def _watched(graph: Graph, inputs: Sequence[Array], guarded: tuple[str, ...]) -> list[np.ndarray]:
    """The outputs of a graph; raises the culprit of the first of the guarded ones that is not
    finite. The graphs that a culprit runs are looked into."""
    ill: dict[Value, str] = {}  # values that are not finite, and how
    maker: dict[Value, Node] = {}

    def look(node: Node, results: tuple[np.ndarray, ...]) -> None:
        for value, array in zip(node.results, results, strict=True):
            maker[value] = node
            how = _ill(array)
            if how:
                ill[value] = how

    for value, array in zip(graph.inputs.values(), inputs, strict=True):
        how = _ill(np.asarray(array))
        if how:
            ill[value] = how
    outputs = run(Plan(graph), inputs, look)
    for name, value in graph.outputs.items():
        if value in ill and name.startswith(guarded):
            culprit = _trace(graph, name, value, ill, maker)
            if culprit.node is not None and RULES[culprit.node.op].runs:
                _look_into(culprit.node, _operands(graph, inputs, culprit.node))
            raise culprit
    return outputs


def _operands(graph: Graph, inputs: Sequence[Array], node: Node) -> list[np.ndarray]:
    """The operands of one node of a graph: it is run again, to have kept no more than these."""
    kept = dict(zip(graph.inputs.values(), map(np.asarray, inputs), strict=True))
    wanted = set(node.operands)

    def keep(made: Node, results: tuple[np.ndarray, ...]) -> None:
        kept.update((v, x) for v, x in zip(made.results, results, strict=True) if v in wanted)

    run(Plan(graph), inputs, keep)
    return [kept[value] for value in node.operands]


def _look_into(node: Node, operands: Sequence[np.ndarray]) -> None:
    """Raise the culprit in a graph that a node runs: the first iteration that has one."""
    count = 0

    def watched(body: Graph, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        nonlocal count
        try:
            results = _watched(body, inputs, ("",))
        except Culprit as culprit:
            if node.op == "scan":
                culprit.what += f", in iteration {count} of the scan"
            raise
        count += 1
        return results

    with np.errstate(all="ignore"):
        RULES[node.op].function(watched, *operands, **node.attrs)


def find(
    step: Step, state: StepState, feed: Mapping[str, Any], constants: Mapping[str, Any]
) -> Culprit | None:
    """The culprit of a step from host arrays of its state and feed; None when the evaluator
    finds everything finite (a device that computes otherwise)."""
    try:
        step(_TracingEngine(), state, feed, dict(constants))
    except Culprit as culprit:
        return culprit
    return None


def explained(diagnostic: Diagnostic, culprit: Culprit | None) -> Diagnostic:
    """The diagnostic with the culprit's place first, and what it did as a note."""
    if culprit is None:
        diagnostic.notes.append(
            Note("the NumPy evaluator finds every number of this step finite: it does not show why")
        )
        return diagnostic
    if culprit.node is not None:
        labels, notes = located(culprit.node.origin, culprit.what)
        diagnostic.labels[:0] = labels
        diagnostic.notes[:0] = notes
    diagnostic.headline += f"; first: {culprit.what}"
    return diagnostic


def _ill(array: np.ndarray) -> str | None:
    """`nan`, `inf`, or None for finite numbers, integers and bools."""
    if not is_float(array.dtype):
        return None
    array = widen(array)
    if np.isfinite(array).all():
        return None
    return "nan" if np.isnan(array).any() else "inf"


def _trace(
    graph: Graph, output: str, value: Value, ill: Mapping[Value, str], maker: Mapping[Value, Node]
) -> Culprit:
    """Back from an output through what is not finite, until the operands are (or are infinite
    by intent: a constant, as the -inf of a mask)."""
    while True:
        node = maker.get(value)
        if node is None:
            name = next(n for n, v in graph.inputs.items() if v is value)
            return Culprit(graph, output, None, f"the input {name} holds {ill[value]}")
        before = [
            operand
            for operand in node.operands
            if operand in ill and not _is_constant(operand, maker)
        ]
        if not before:
            place = node.origin.user_span
            where = f" at {place}" if place is not None else ""
            note = f" ({node.origin.note})" if node.origin.note else ""
            return Culprit(graph, output, node, f"{node.op} gives {ill[value]}{note}{where}")
        # a NaN comes from a NaN where there is one, else from an infinity
        value = next((o for o in before if ill[o] == "nan"), before[0])


def _is_constant(value: Value, maker: Mapping[Value, Node]) -> bool:
    """Whether a value is made of constants alone."""
    node = maker.get(value)
    if node is None:
        return False
    return node.op in _CONSTANTS or (
        bool(node.operands) and all(_is_constant(operand, maker) for operand in node.operands)
    )

"""The passes in their order. Knows no Lisp.

Autodiff is not among them: it runs where gradients are asked for, before.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeAlias

from sexpgpu.diagnostics.model import Note, SxError
from sexpgpu.ir.graph import Graph
from sexpgpu.ir.verify import verify
from sexpgpu.ops import infer
from sexpgpu.passes import cse, dce, fold, precision


class Options:
    """What passes are told: the precision policy of the run, "f32", "bf16" or "f16"."""

    __slots__ = ("precision",)

    def __init__(self, precision: str = "f32") -> None:
        self.precision = precision


Pass: TypeAlias = Callable[[Graph, Options], Graph]

PASSES: tuple[tuple[str, Pass], ...] = (
    ("dead", lambda graph, options: dce.run(graph)),
    ("simplify", lambda graph, options: fold.run(graph)),
    ("share", lambda graph, options: cse.run(graph)),
    ("sweep", lambda graph, options: dce.run(graph)),
    ("precision", lambda graph, options: precision.run(graph, options.precision)),
    ("simplify-casts", lambda graph, options: fold.run(graph)),
    ("share-casts", lambda graph, options: cse.run(graph)),
    ("dead-casts", lambda graph, options: dce.run(graph)),
)
"""Name -> pass, in order. Each gives a sound graph of a sound one, with the same inputs, and
outputs of the same names, shapes and order."""


def run(
    graph: Graph,
    options: Options,
    *,
    after: str | None = None,
    check: bool = False,
    seen: Callable[[str, Graph], None] | None = None,
) -> Graph:
    """The graph after all passes, or after the one named `after`.

    check   verify before the first pass and after each; a failure names the pass
    seen    called with each pass's name and what it gave
    Raises ValueError when there is no pass `after`.
    """
    if after is not None and after not in dict(PASSES):
        raise ValueError(f"there is no pass {after!r}: {' '.join(dict(PASSES))}")
    if check:
        verify(graph, infer)
    settled = False
    for name, step in PASSES:
        before = graph
        if not settled:
            graph = step(graph, options)
        # what follows the policy only tidies up after its casts
        settled = settled or (name == "precision" and graph is before)
        if check:
            _verify_after(name, graph)
        if seen is not None:
            seen(name, graph)
        if name == after:
            break
    return graph


STAGES = ("traced", *(name for name, _ in PASSES))
"""What `recorded` can ask for: the graph as it was traced and differentiated, or after a pass."""

# The innermost open record. A plain list: compiling has a thread of its own, one at a time.
_RECORDS: list[tuple[str, dict[str, Graph]]] = []


@contextmanager
def recorded(stage: str) -> Generator[dict[str, Graph]]:
    """Graphs by name as they are at a stage, of all that are optimized while this is open."""
    if stage not in STAGES:
        raise ValueError(f"there is no stage {stage!r}: {' '.join(STAGES)}")
    found: dict[str, Graph] = {}
    _RECORDS.append((stage, found))
    try:
        yield found
    finally:
        _RECORDS.pop()


def optimized(graph: Graph, precision: str) -> Graph:
    """The graph as a document holds it: after all passes, with the inputs that it needs."""
    if not _RECORDS:
        return dce.without_unused_inputs(run(graph, Options(precision)))
    wanted, found = _RECORDS[-1]
    if wanted == "traced":
        found[graph.name] = graph

    def see(name: str, made: Graph) -> None:
        if name == wanted:
            found[graph.name] = made

    return dce.without_unused_inputs(run(graph, Options(precision), seen=see))


def closed(graph: Graph) -> Graph:
    """The same for graphs that compute in f32 whatever the run's precision: initial values,
    schedules, updates."""
    return optimized(graph, "f32")


def _verify_after(name: str, graph: Graph) -> None:
    try:
        verify(graph, infer)
    except SxError as error:
        for diagnostic in error.diagnostics:
            diagnostic.notes.append(Note(f"after the pass {name}"))
        raise

"""`sexpgpu ir`: the IR document of a file at any stage, as text, JSON, DOT, jaxpr or StableHLO."""

from __future__ import annotations

from collections.abc import Mapping

import click

from sexpgpu.cli import output
from sexpgpu.cli.inputs import document_input
from sexpgpu.cli.options import PATH, json_flag, limit_flag, selection_flags
from sexpgpu.diagnostics.suggest import nearest_several
from sexpgpu.ir.document import Document
from sexpgpu.ir.graph import Graph
from sexpgpu.passes.pipeline import STAGES, recorded

FORMATS = ("text", "json", "dot", "jaxpr", "stablehlo")


@click.command("ir")
@click.argument("file", metavar="FILE", type=PATH)
@selection_flags
@json_flag
@click.option("--graph", "graph", metavar="NAME", help="One graph: train/main, update/…, init/….")
@click.option(
    "--after",
    type=click.Choice(STAGES),
    help="Graphs as they are after this stage: traced, or a pass.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="dot, jaxpr and stablehlo show one graph (the training graph unless --graph names one).",
)
@click.option(
    "--platform",
    type=click.Choice(("cpu", "cuda")),
    default="cpu",
    show_default=True,
    help="Of --format stablehlo; needs no such device.",
)
@limit_flag
def command(
    file: str,
    variants: tuple[str, ...],
    knobs: dict[str, str],
    as_json: bool,
    graph: str | None,
    after: str | None,
    form: str,
    platform: str,
    limits: dict[str, str],
) -> int:
    """The IR document that FILE compiles to: the whole experiment as text that reads back, or
    with --json the canonical document, which `sexpgpu run` takes as a FILE.

    \b
    sexpgpu ir digits.sx --graph train/main
    sexpgpu ir digits.sx --graph train/main --after traced
    sexpgpu ir digits.sx --format stablehlo --platform cuda
    sexpgpu ir digits.sx --format dot | dot -Tsvg > digits.svg
    """
    if as_json:
        if form not in ("text", "json"):
            raise click.UsageError(f"--json and --format {form} are two formats")
        form = "json"
    graphs: Mapping[str, Graph]
    if after is None:
        document, warnings = document_input(file, variants, knobs, limits)
        graphs = document.graphs
    else:
        with recorded(after) as graphs:
            document, warnings = document_input(file, variants, knobs, limits)
        if not graphs:
            raise click.UsageError(f"{file} is an IR document: its graphs have passed every stage")
        graphs = {name: graphs[name] for name in document.graphs if name in graphs}
    output.show(warnings)
    if graph is None and form in ("dot", "jaxpr", "stablehlo"):
        graph = next(name for name in graphs if name.startswith("train/"))
    if graph is not None:
        output.result(_one(_named(graphs, graph), form, platform))
    elif after is None:
        output.result(_whole(document, form))
    else:
        output.result("\n".join(_one(g, form, platform).rstrip("\n") for g in graphs.values()))
    return 0


def _named(graphs: Mapping[str, Graph], name: str) -> Graph:
    if name not in graphs:
        near = nearest_several(name, graphs) or list(graphs)
        raise click.BadParameter(
            f"there is no graph {name}; near it: {', '.join(near[:8])}", param_hint="--graph"
        )
    return graphs[name]


def _whole(document: Document, form: str) -> str:
    from sexpgpu.ir.document_json import document_text
    from sexpgpu.ir.document_text import print_document

    return document_text(document) if form == "json" else print_document(document)


def _one(graph: Graph, form: str, platform: str) -> str:
    """One graph in a format."""
    if form == "json":
        from sexpgpu.ir.serial import canonical, graph_to_json

        return canonical(graph_to_json(graph))
    if form == "dot":
        from sexpgpu.explain.dot import dot

        return dot(graph)
    if form in ("jaxpr", "stablehlo"):
        from sexpgpu.lowering.xla import inspect

        return inspect.jaxpr(graph) if form == "jaxpr" else inspect.stablehlo(graph, platform)
    from sexpgpu.ir.text import print_graph

    return print_graph(graph)

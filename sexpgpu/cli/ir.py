"""`sexpgpu ir`: the IR document of a file, as text or JSON. FILE may be such a document."""

from __future__ import annotations

import click

from sexpgpu.cli import output
from sexpgpu.cli.inputs import document_input
from sexpgpu.cli.options import json_flag, limit_flag, selection_flags
from sexpgpu.diagnostics.suggest import nearest_several


@click.command("ir")
@click.argument("file", metavar="FILE")
@selection_flags
@json_flag
@click.option("--graph", "graph", metavar="NAME", help="One graph: train/main, update/…, init/….")
@limit_flag
def command(
    file: str,
    variants: tuple[str, ...],
    knobs: dict[str, str],
    as_json: bool,
    graph: str | None,
    limits: dict[str, str],
) -> int:
    """The IR document that FILE compiles to: the whole experiment as text that reads back, or
    with --json the canonical document, which `sexpgpu run` takes as a FILE."""
    from sexpgpu.ir.document_json import document_text
    from sexpgpu.ir.document_text import print_document
    from sexpgpu.ir.serial import canonical, graph_to_json
    from sexpgpu.ir.text import print_graph

    document, warnings = document_input(file, variants, knobs, limits)
    output.show(warnings)
    if graph is None:
        output.result(document_text(document) if as_json else print_document(document))
        return 0
    if graph not in document.graphs:
        near = nearest_several(graph, document.graphs) or list(document.graphs)
        raise click.BadParameter(
            f"there is no graph {graph}; near it: {', '.join(near[:8])}", param_hint="--graph"
        )
    found = document.graphs[graph]
    output.result(canonical(graph_to_json(found)) if as_json else print_graph(found))
    return 0

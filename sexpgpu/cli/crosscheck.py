"""`sexpgpu crosscheck`: a few steps of a run on two backends, compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sexpgpu.cli import output
from sexpgpu.cli.options import PATH, device_flag, json_flag, limit_flag, selection_flags

if TYPE_CHECKING:
    from sexpgpu.loop.comparing import Crosscheck

DIFFER = 1


@click.command("crosscheck")
@click.argument("file", metavar="FILE", type=PATH)
@selection_flags
@device_flag("What is held against the NumPy evaluator.", ("auto", "cuda", "cpu"))
@click.option(
    "--steps", type=click.IntRange(1), default=3, show_default=True, metavar="N",
    help="Training steps to compare, and batches of each evaluation.",
)  # fmt: skip
@click.option("--by-node", is_flag=True, help="Every node, also where the outputs agree.")
@click.option(
    "--tolerance", type=click.FloatRange(0, min_open=True), metavar="X",
    help="Of outputs, as a share of each tensor's largest [default: f32 1e-5, bf16 and f16 3e-2].",
)  # fmt: skip
@json_flag
@limit_flag
def command(
    file: str,
    variants: tuple[str, ...],
    knobs: dict[str, str],
    device: str,
    steps: int,
    by_node: bool,
    tolerance: float | None,
    as_json: bool,
    limits: dict[str, str],
) -> int:
    """Run the first steps of FILE by the NumPy evaluator, its evaluations and a prediction, and
    each of their graphs on the device with the same inputs. Exit 1 when something differs beyond
    tolerance, with the first node to blame and its source line.

    \b
    sexpgpu crosscheck gpt.sx --steps 2 --set precision=:bf16
    """
    from sexpgpu.cli.inputs import document_input

    document, warnings = document_input(file, variants, knobs, limits)
    output.show(warnings)
    from sexpgpu.loop.crosscheck import crosscheck

    found = crosscheck(document, device, steps=steps, by_node=by_node, tolerance=tolerance)
    if as_json:
        output.json_result(found.to_json())
    else:
        output.result(report(found))
    diagnostic = found.diagnostic()
    if diagnostic is not None:
        output.show([diagnostic])
    return 0 if found.agrees else DIFFER


def report(found: Crosscheck) -> str:
    """The worst output of each graph, and of nodes the worst ten."""
    from sexpgpu.explain.text import table

    rows = [
        [w.graph, str(found.calls[g]), w.output, f"{w.error:.1e}", f"{w.tolerance:.1e}"]
        for g, w in found.worst.items()
    ]
    head = ("graph", "calls", "worst output", "apart", "allowed")
    verdict = "agree" if found.agrees else "differ"
    parts = [
        table(head, rows, right=(1, 3, 4)),
        f"{found.device} and interp {verdict} over {found.steps} step{'s' * (found.steps > 1)}",
    ]
    if found.nodes:
        worst = sorted(found.nodes, key=lambda n: n.error - n.tolerance, reverse=True)[:10]
        nodes: list[list[str]] = []
        for n in worst:
            span = n.node.origin.user_span
            place = "" if span is None else f"{span.source.name}:{span.line}"
            nodes.append([n.graph, str(n.index), n.node.op, n.direction, f"{n.error:.1e}", place])
        title = f"The worst of {len(found.nodes)} nodes, each on equal operands"
        columns = ("graph", "node", "op", "", "apart", "place")
        parts.insert(1, f"{title}\n" + table(columns, nodes, right=(1, 4)))
    return "\n\n".join(parts)

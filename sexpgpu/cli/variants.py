"""`sexpgpu variants`: what a file declares as variable, read without evaluating it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sexpgpu.cli import output
from sexpgpu.cli.inputs import declarations
from sexpgpu.cli.options import PATH, json_flag
from sexpgpu.forms.knobs import plain
from sexpgpu.lisp.printer import prin1_text

if TYPE_CHECKING:
    from sexpgpu.forms.knobs import Declarations, Knob


@click.command("variants")
@click.argument("file", metavar="FILE", type=PATH)
@json_flag
def command(file: str, as_json: bool) -> int:
    """The knobs, variants and sweeps that FILE declares. Nothing is evaluated."""
    declared = declarations(file)
    if as_json:
        output.json_result(as_data(declared))
    else:
        output.result(as_text(declared))
    return 0


def as_data(declared: Declarations) -> dict[str, object]:
    """The declarations as plain data: knobs, variants and sweeps, in the file's order."""
    return {
        "knobs": [
            {
                "name": knob.name,
                "default": plain(knob.default),
                "doc": knob.doc,
                "min": None if knob.minimum is None else plain(knob.minimum),
                "max": None if knob.maximum is None else plain(knob.maximum),
                "choices": None if knob.choices is None else [plain(c) for c in knob.choices],
            }
            for knob in declared.knobs.values()
        ],
        "variants": [
            {
                "name": variant.name,
                "doc": variant.doc,
                "values": {name: plain(value) for name, (value, _) in variant.values.items()},
            }
            for variant in declared.variants.values()
        ],
        "sweeps": [
            {"name": sweep.name, "clauses": [prin1_text(clause) for clause in sweep.clauses]}
            for sweep in declared.sweeps.values()
        ],
    }


def as_text(declared: Declarations) -> str:
    """The declarations for people."""
    lines: list[str] = []
    if declared.knobs:
        wide = max(len(name) for name in declared.knobs)
        lines.append("knobs")
        lines += [f"  {_knob(knob, wide)}" for knob in declared.knobs.values()]
    if declared.variants:
        lines.append("variants")
        for variant in declared.variants.values():
            values = "  ".join(f"{n}={prin1_text(v)}" for n, (v, _) in variant.values.items())
            doc = f"  {variant.doc}" if variant.doc else ""
            lines.append(f"  {variant.name}  {values}{doc}")
    if declared.sweeps:
        lines.append("sweeps (declared; a point is run by --set)")
        for sweep in declared.sweeps.values():
            lines.append(f"  {sweep.name}  {' '.join(map(prin1_text, sweep.clauses))}")
    return "\n".join(lines) if lines else "no knobs, variants or sweeps"


def _knob(knob: Knob, wide: int) -> str:
    parts = [f"{knob.name:<{wide}}  {prin1_text(knob.default)}"]
    if knob.choices is not None:
        parts.append(f"one of {' '.join(map(prin1_text, knob.choices))}")
    if knob.minimum is not None:
        parts.append(f"at least {prin1_text(knob.minimum)}")
    if knob.maximum is not None:
        parts.append(f"at most {prin1_text(knob.maximum)}")
    if knob.doc:
        parts.append(knob.doc)
    return "  ".join(parts)

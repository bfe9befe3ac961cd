"""What a platform's compiler is given and what it makes of it, as counts: the data of
`explain --lowering`."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from sexpgpu.ir.document import Document


def lowering(document: Document, platform: str) -> dict[str, Any]:
    """The training graph lowered for `cpu` or `cuda`. `stablehlo`: ops by count, `casts`, `loops`,
    `custom_calls`; `compiled`: the same of the optimized HLO with its `fusions`, or None with a
    `note` where this machine cannot compile for the platform. Every op of the IR has a rule
    of its own for both platforms, so nothing falls back."""
    from sexpgpu.lowering.xla import inspect

    graph = next(g for name, g in document.graphs.items() if name.startswith("train/"))
    text = inspect.stablehlo(graph, platform)
    ops = Counter(re.findall(r"\bstablehlo\.(\w+)", text))
    found: dict[str, Any] = {
        "graph": graph.name,
        "platform": platform,
        "stablehlo": {
            "ops": dict(ops.most_common()),
            "casts": ops["convert"],
            "loops": ops["while"],
            "custom_calls": _counted(r"custom_call\s*@([\w.$]+)", text),
        },
        "compiled": None,
        "note": None,
    }
    try:
        compiled = inspect.compiled_hlo(graph, platform)
    except RuntimeError as error:
        reason = str(error).strip().split("\n")[0]
        found["note"] = (
            f"not compiled for {platform} here ({reason}); StableHLO is what the compiler is given"
        )
        return found
    found["compiled"] = {
        "instructions": _counted(r"^\s*(?:ROOT )?%?[\w.-]+ = [^=]*? ([\w-]+)\(", compiled),
        "fusions": len(re.findall(r"= [^=]*? fusion\(", compiled)),
        "loops": len(re.findall(r"= [^=]*? while\(", compiled)),
        "custom_calls": _counted(r'custom_call_target="([^"]+)"', compiled),
    }
    return found


def _counted(pattern: str, text: str) -> dict[str, int]:
    return dict(Counter(re.findall(pattern, text, re.MULTILINE)).most_common())


def lowering_text(data: dict[str, Any]) -> str:
    """The report for people."""
    given, compiled = data["stablehlo"], data["compiled"]
    lines = [
        f"{data['graph']} lowered for {data['platform']}",
        f"  StableHLO: {sum(given['ops'].values())} ops: {_listed(given['ops'])}",
        f"  casts {given['casts']}, loops {given['loops']}",
        f"  custom calls {_listed(given['custom_calls']) or 'none'}",
    ]
    if compiled is not None:
        lines += [
            f"  compiled: {sum(compiled['instructions'].values())} instructions: "
            + _listed(compiled["instructions"]),
            f"  fusions {compiled['fusions']}, loops {compiled['loops']}",
            f"  custom calls {_listed(compiled['custom_calls']) or 'none'}",
        ]
    if data["note"]:
        lines.append(f"  note: {data['note']}")
    return "\n".join(lines)


def _listed(counts: dict[str, int], most: int = 12) -> str:
    shown = [f"{name} {count}" for name, count in list(counts.items())[:most]]
    return ", ".join([*shown, *(["…"] if len(counts) > most else [])])

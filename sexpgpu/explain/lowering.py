"""What a platform's compiler is given and what it makes of it, as counts: the data of
`explain --lowering`."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from sexpgpu.explain.text import scaled
from sexpgpu.ir.document import Document

_INSTRUCTION = r"^\s*(?:ROOT )?%?[\w.-]+ = [^=]*? ([\w-]+)\("


def lowering(document: Document, platform: str) -> dict[str, Any]:
    """The training step (all its microbatches, and the updates) lowered for `cpu` or `cuda`.

    `stablehlo`: `ops` by count, `casts`, `loops`, `custom_calls`. `compiled`: for which `target`,
    `instructions` of the optimized HLO by count, `fusions` by kind, `loops`, `custom_calls`, and
    `memory` in bytes: argument, output, alias, temp, total; None where this machine cannot compile
    for the platform. `notes` say why, and what differs from a run. Every op of the IR has a rule of
    its own for both platforms, so nothing falls back."""
    from sexpgpu.loop.planned import planned_step
    from sexpgpu.loop.stages import programs
    from sexpgpu.lowering.xla.inspect import program

    step, trees = planned_step(document, programs(document))
    made = program(step, trees, (0,), platform)
    ops = Counter(re.findall(r"\bstablehlo\.(\w+)", made.stablehlo))
    found: dict[str, Any] = {
        "stage": document.loader(document.run.train).stages[0].name,
        "platform": platform,
        "stablehlo": {
            "ops": dict(ops.most_common()),
            "casts": ops["convert"],
            "loops": ops["while"],
            "custom_calls": _counted(r"custom_call\s*@([\w.$]+)", made.stablehlo),
        },
        "compiled": None,
        "notes": made.notes,
    }
    if made.hlo is None:
        return found
    instructions = _counted(_INSTRUCTION, made.hlo)
    found["compiled"] = {
        "target": made.target,
        "instructions": instructions,
        "fusions": fusions(made.hlo),
        "loops": instructions.get("while", 0),
        "custom_calls": _counted(r'custom_call_target="([^"]+)"', made.hlo),
        "memory": made.memory,
    }
    return found


def fusions(hlo: str) -> dict[str, int]:
    """Fusions of an optimized HLO text by kind: `loop`, `input`, `output`, and of those that XLA
    writes kernels of its own for, the kernel's kind (`triton_gemm`)."""
    found: Counter[str] = Counter()
    for line in hlo.splitlines():
        if re.search(r" fusion\(", line) is None:
            continue
        kind = re.search(r"\bkind=k(\w+)", line)
        own = re.search(r'"fusion_backend_config":\{[^{}]*?"kind":"([\w$]+)"', line)
        name = own[1].strip("_") if own else kind[1].lower() if kind else "other"
        found[name] += 1
    return dict(found.most_common())


def _counted(pattern: str, text: str) -> dict[str, int]:
    return dict(Counter(re.findall(pattern, text, re.MULTILINE)).most_common())


def lowering_text(data: dict[str, Any]) -> str:
    """The report for people."""
    given, compiled = data["stablehlo"], data["compiled"]
    lines = [
        f"The training step of stage {data['stage']}, lowered for {data['platform']}",
        f"  StableHLO: {sum(given['ops'].values())} ops: {_listed(given['ops'])}",
        f"  casts {given['casts']}, loops {given['loops']}",
        f"  custom calls {_listed(given['custom_calls']) or 'none'}",
    ]
    if compiled is not None:
        lines += [
            f"Compiled for {compiled['target']}",
            f"  {sum(compiled['instructions'].values())} instructions: "
            + _listed(compiled["instructions"]),
            f"  fusions {sum(compiled['fusions'].values())}: {_listed(compiled['fusions'])}",
            f"  loops {compiled['loops']}",
            f"  custom calls {_listed(compiled['custom_calls']) or 'none'}",
        ]
        if compiled["memory"] is not None:
            lines.append(f"  memory {_memory(compiled['memory'])}")
    lines += [f"  note: {note}" for note in data["notes"]]
    return "\n".join(lines)


def _memory(plan: dict[str, int]) -> str:
    state, own = scaled(plan["argument"], "B"), scaled(plan["temp"], "B")
    return f"{scaled(plan['total'], 'B')}: {state} of state and batch, {own} of temporaries"


def _listed(counts: dict[str, int], most: int = 12) -> str:
    shown = [f"{name} {count}" for name, count in list(counts.items())[:most]]
    return ", ".join([*shown, *(["…"] if len(counts) > most else [])])

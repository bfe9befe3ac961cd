"""Diagnostics of tracing: what a function says of its operands, and where those were made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sexpgpu.diagnostics.codes.tensor import E_FLOW_002, E_FLOW_003, E_FLOW_005
from sexpgpu.diagnostics.model import Code, Diagnostic, Label, Note, SxError, located
from sexpgpu.lisp.state import current_origin
from sexpgpu.source import Origin

if TYPE_CHECKING:
    from sexpgpu.trace.tensor import Tensor

Named = Sequence[tuple[str, Any]]  # (what to call it, the value), tensors and others


def failure(
    code: Code,
    headline: str,
    operands: Named = (),
    *,
    fix: str | None = None,
    notes: Iterable[Note] = (),
) -> SxError:
    """An SxError at the call being made. Each tensor among `operands` is described in the label,
    and a note shows where it was made."""
    from sexpgpu.trace.context import TRACES
    from sexpgpu.trace.tensor import Tensor

    origin = current_origin()
    if TRACES and TRACES[-1].path:
        origin = Origin(origin.span, origin.calls, origin.expansions, TRACES[-1].path)
    said: list[str] = []
    made: list[Note] = []
    for name, value in operands:
        if isinstance(value, Tensor):
            said.append(f"{name} is {value.value.type}")
            span = value.origin.user_span
            if span is not None and span != origin.user_span:
                made.append(Note(f"{name} {_made(value)} here", span))
    labels, around = located(origin, ", ".join(said))
    if said and not labels:  # called from Python: there is no line to stand beside
        made.insert(0, Note(", ".join(said)))
    return SxError(Diagnostic(code, headline, labels, [*notes, *made, *around][:8], fix))


def _made(tensor: Tensor) -> str:
    """How a tensor came about: a parameter is declared, not made."""
    for source, made in tensor.trace.sources.items():
        if made is tensor:
            name = getattr(source, "path", None) or getattr(source, "name", "")
            return f"is the {source.lisp_type} {name}, declared"
    return "was made"


def foreign_tensor(tensor: Tensor) -> SxError:
    """E-FLOW-002: the tensor belongs to another graph than the one being traced."""
    from sexpgpu.trace.context import TRACES

    here = TRACES[-1].name
    labels, notes = located(current_origin(), f"used in the graph {here}")
    span = tensor.origin.user_span
    if span is not None:
        labels.append(Label(span, f"made in the graph {tensor.trace.name}"))
    return SxError(
        Diagnostic(
            E_FLOW_002,
            f"a tensor of the graph {tensor.trace.name} is used in the graph {here}",
            labels,
            notes,
            "make the tensor in the graph that uses it, or hand over its ordinary parts "
            "(shape, dtype)",
        )
    )


def check_noted_once(what: str) -> None:
    """E-FLOW-005: what is noted on the step's graph may not be noted in the body of a loop."""
    from sexpgpu.trace.context import TRACES

    if TRACES and TRACES[-1].repeats:
        raise failure(E_FLOW_005, f"{what} in the body of a scan, which runs many times")


def outside(name: str) -> SxError:
    """E-FLOW-003: a tensor function was called while no graph is traced."""
    labels, notes = located(current_origin(), "no graph is being traced here")
    return SxError(
        Diagnostic(
            E_FLOW_003, f"{name}: a tensor operation outside a traced function", labels, notes
        )
    )

"""What one run file has declared so far. Filled by the forms, read by `assemble`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sexpgpu.diagnostics.codes import run as codes
from sexpgpu.diagnostics.model import Diagnostic, Label, Note, SxError

if TYPE_CHECKING:
    from sexpgpu.forms.evaluations import EvaluationForm
    from sexpgpu.forms.knobs import Selection
    from sexpgpu.forms.loaders import LoaderForm
    from sexpgpu.forms.runs import RunForm
    from sexpgpu.ir.document import Diagnostics
    from sexpgpu.lisp.session import Session
    from sexpgpu.source import Span


class Experiment:
    """The declarations of one file. `base` is the folder that relative data paths start from;
    `begun` are the (kind, name) whose form was met, whether or not it could be evaluated."""

    __slots__ = (
        "base", "begun", "diagnostics", "evaluations", "loaders", "places", "run", "selection",
        "session",
    )  # fmt: skip

    def __init__(
        self,
        base: str,
        selection: Selection,
        session: Session,
        diagnostics: Diagnostics | None = None,
    ) -> None:
        self.base = base
        self.diagnostics = diagnostics  # selected from outside, in place of defrun's
        self.selection = selection
        self.session = session
        self.loaders: dict[str, LoaderForm] = {}
        self.evaluations: dict[str, EvaluationForm] = {}
        self.run: RunForm | None = None
        self.begun: set[tuple[str, str]] = set()
        self.places: dict[tuple[str, str], Span | None] = {}

    def declare(self, kind: str, name: str, span: Span | None) -> None:
        """Note a declaration; the second of one kind and name is an error."""
        key = (kind, name)
        if key in self.places:
            first = self.places[key]
            raise SxError(
                Diagnostic(
                    codes.E_RUN_003,
                    f"{kind} {name} is declared twice",
                    [Label(span)] if span else [],
                    [Note("the first is here", first)] if first else [],
                )
            )
        self.places[key] = span


_current: list[Experiment] = []


def current() -> Experiment:
    """The experiment being declared. Forms of a run file used elsewhere are E-RUN-004."""
    if not _current:
        from sexpgpu.lisp.state import current_origin

        span = current_origin().user_span
        raise SxError(
            Diagnostic(
                codes.E_RUN_004,
                "this form belongs to a run file that is being compiled",
                [Label(span)] if span else [],
            )
        )
    return _current[-1]


@contextmanager
def declaring(experiment: Experiment) -> Generator[Experiment]:
    _current.append(experiment)
    try:
        yield experiment
    finally:
        _current.pop()

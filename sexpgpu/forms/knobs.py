"""What a run may vary: knobs, variants and sweeps as declared, their values, and a selection."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sexpgpu.diagnostics.codes import run as codes
from sexpgpu.diagnostics.model import Code, Diagnostic, Label, Note, SxError
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.forms.parse import is_keyword, is_list
from sexpgpu.lisp.other_names import VARIABLES
from sexpgpu.lisp.printer import prin1_text as print_value
from sexpgpu.lisp.values import NIL, Cons, String, Symbol, T, python_list
from sexpgpu.source import Span

MOST_STEPS = (1 << 31) - 1  # steps are counted in i32, in graphs and checkpoints


class Knob:
    """A declared knob, with the value that the selection gave it and where that came from."""

    __slots__ = (
        "choices",
        "default",
        "doc",
        "maximum",
        "minimum",
        "name",
        "source",
        "span",
        "value",
    )

    def __init__(self, name: str, default: Any, span: Span | None) -> None:
        self.name = name
        self.default = default
        self.value = default
        self.source = "default"
        self.span = span
        self.doc = ""
        self.minimum: Any = None
        self.maximum: Any = None
        self.choices: list[Any] | None = None


class Variant:
    """A named set of knob values."""

    __slots__ = ("doc", "name", "span", "values")

    def __init__(self, name: str, doc: str, span: Span | None) -> None:
        self.name = name
        self.doc = doc
        self.span = span
        self.values: dict[str, tuple[Any, Span | None]] = {}


class Sweep:
    """A declared sweep: its clauses as read (`sexpgpu variants` shows them)."""

    __slots__ = ("clauses", "name", "span")

    def __init__(self, name: str, clauses: list[Any], span: Span | None) -> None:
        self.name = name
        self.clauses = clauses
        self.span = span


class Declarations:
    """All that a file declares as variable. `broken` are the names whose declaration is wrong."""

    __slots__ = ("broken", "knobs", "sweeps", "unused", "variants")

    def __init__(self) -> None:
        self.broken: set[str] = set()
        self.knobs: dict[str, Knob] = {}
        self.variants: dict[str, Variant] = {}
        self.sweeps: dict[str, Sweep] = {}
        self.unused: list[Diagnostic] = []  # warnings


class Selection:
    """The declarations with a selection applied. `overrides` are seed and steps given by --set
    where no such knob is declared."""

    __slots__ = ("declarations", "overrides", "variants")

    def __init__(self, declarations: Declarations) -> None:
        self.declarations = declarations
        self.variants: list[str] = []
        self.overrides: dict[str, int] = {}

    @property
    def knobs(self) -> dict[str, Knob]:
        return self.declarations.knobs

    def manifest(self) -> dict[str, Any]:
        """The selection as JSON data: variants, and each knob's value with its source."""
        return {
            "variants": list(self.variants),
            "knobs": {
                k.name: {"value": plain(k.value), "source": k.source} for k in self.knobs.values()
            },
            "overrides": dict(self.overrides),
        }


def plain(value: Any) -> Any:
    """A literal value as JSON data (keywords and symbols as their printed text)."""
    if isinstance(value, String):
        return value.text
    if value is NIL:
        return None
    if value is T:
        return True
    if isinstance(value, Cons):
        return [plain(v) for v in python_list(value)]
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, int | float):
        return value
    return print_value(value)


def is_literal(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, int | float | Fraction | String) or is_keyword(value):
        return True
    if value is T or value is NIL:
        return True
    return is_list(value) and all(is_literal(v) for v in python_list(value))


def same_kind(default: Any, value: Any) -> bool:
    """Whether a value is of a knob's kind: that of its default; an integer passes for a float."""
    if default is NIL or default is T:
        return value is NIL or value is T or default is NIL
    if isinstance(default, float | Fraction):
        return isinstance(value, int | float | Fraction)
    if isinstance(default, int):
        return isinstance(value, int)
    if isinstance(default, String):
        return isinstance(value, String)
    if is_keyword(default):
        return is_keyword(value)
    return is_list(value)


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, String) and isinstance(b, String):
        return a.text == b.text
    if is_list(a) and is_list(b):
        xs, ys = python_list(a), python_list(b)
        return len(xs) == len(ys) and all(equal(x, y) for x, y in zip(xs, ys, strict=True))
    return type(a) is type(b) and a == b


def knob_error(
    code: Code, headline: str, span: Span | None, fix: str | None = None, notes: Sequence[Note] = ()
) -> SxError:
    return SxError(Diagnostic(code, headline, [Label(span)] if span else [], notes, fix))


def unknown_knob(name: str, found: Declarations, span: Span | None) -> SxError:
    return knob_error(
        codes.E_KNOB_002,
        f"no knob is called {name}",
        span,
        did_you_mean(name, found.knobs)
        or (f"the knobs are {' '.join(found.knobs)}" if found.knobs else "the file declares none"),
    )


def check_value(knob: Knob, value: Any, span: Span | None) -> None:
    """Raise E-KNOB-003 unless the value may be the knob's."""
    shown = print_value(value)
    elsewhere = span is not None and knob.span is not None and knob.span != span
    notes = [Note("the knob is declared here", knob.span)] if elsewhere else []
    if not is_literal(value):
        raise knob_error(
            codes.E_KNOB_003,
            f"the knob {knob.name} takes a literal value, not the symbol {shown}",
            span or knob.span,
            _kind_fix(knob, value, span is None),
            notes,
        )
    if not same_kind(knob.default, value):
        raise knob_error(
            codes.E_KNOB_003,
            f"{shown} is not of the kind of the knob {knob.name}, whose default is "
            f"{print_value(knob.default)}",
            span or knob.span,
            _kind_fix(knob, value, span is None),
            notes,
        )
    number = isinstance(value, int | float | Fraction)
    if knob.minimum is not None and (not number or value < knob.minimum):
        raise knob_error(
            codes.E_KNOB_003,
            f"{shown} is below the least value of the knob {knob.name}, "
            f"{print_value(knob.minimum)}",
            span or knob.span,
            notes=notes,
        )
    if knob.maximum is not None and (not number or value > knob.maximum):
        raise knob_error(
            codes.E_KNOB_003,
            f"{shown} is above the greatest value of the knob {knob.name}, "
            f"{print_value(knob.maximum)}",
            span or knob.span,
            notes=notes,
        )
    if knob.choices is not None and not any(equal(value, c) for c in knob.choices):
        raise knob_error(
            codes.E_KNOB_003,
            f"{shown} is not among the choices of the knob {knob.name}",
            span or knob.span,
            f"choose one of {' '.join(print_value(c) for c in knob.choices)}",
            notes,
        )


def _kind_fix(knob: Knob, value: Any, setting: bool) -> str | None:
    """What to write for a value of another kind than the knob's, in the file or by --set."""
    write = f"write {knob.name}=" if setting else "write "
    choices = [print_value(c) for c in knob.choices or ()]
    default = print_value(knob.default)
    listed = f"choose one of {' '.join(choices)}" if choices else None
    word = value.name if isinstance(value, Symbol) else plain(value)
    if (
        isinstance(value, Symbol)
        and VARIABLES.get(value.name)
        and (knob.default is T or knob.default is NIL)
    ):
        return f"{write}{VARIABLES[value.name]}"
    if is_keyword(knob.default) and isinstance(word, str) and value is not NIL and value is not T:
        meant = f":{word.lstrip(':')}"
        if not choices or meant in choices:
            return f"{write}{meant}" + (f"; the choices are {' '.join(choices)}" if choices else "")
        return did_you_mean(meant, choices) or listed
    if listed:
        return listed
    if isinstance(knob.default, int | float | Fraction):
        return f"give a number such as {default}"
    if isinstance(knob.default, String) and isinstance(value, Symbol):
        return f'{write}"{word}"'
    if knob.default is T:
        return "write t or nil"
    return f"give a value such as {default}"


def select(
    declarations: Declarations, variants: Sequence[str], settings: Sequence[tuple[str, Any]]
) -> Selection:
    """Apply variants in order, then settings (knob name, value); settings win."""
    selection = Selection(declarations)
    for name in variants:
        variant = declarations.variants.get(name)
        if variant is None:
            raise knob_error(
                codes.E_KNOB_002,
                f"no variant is called {name}",
                None,
                did_you_mean(name, declarations.variants)
                or ("the variants are " + " ".join(declarations.variants)
                    if declarations.variants else "the file declares none"),
            )  # fmt: skip
        selection.variants.append(name)
        for knob_name, (value, _) in variant.values.items():
            knob = declarations.knobs[knob_name]
            knob.value, knob.source = _as_kind(knob, value), f"variant {name}"
    for name, value in settings:
        knob = declarations.knobs.get(name)
        if knob is None:
            if name in ("seed", "steps"):
                low, high = (0, (1 << 64) - 1) if name == "seed" else (1, MOST_STEPS)
                if not isinstance(value, int) or not low <= value <= high:
                    raise knob_error(
                        codes.E_KNOB_003,
                        f"{name} takes an integer from {low} to {high:,}, not {print_value(value)}",
                        None,
                    )
                selection.overrides[name] = value
                continue
            raise unknown_knob(name, declarations, None)
        check_value(knob, value, None)
        knob.value, knob.source = _as_kind(knob, value), "--set"
    return selection


def _as_kind(knob: Knob, value: Any) -> Any:
    return float(value) if isinstance(knob.default, float) else value

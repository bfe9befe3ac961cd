"""Reading the keyword arguments and shapes of def-forms.

One rule for all of them: values are evaluated; a list that begins with a keyword is a property
list whose values are evaluated; names of loaders, passes and stages are not evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from sexpgpu.diagnostics.codes import parameters as parameter_codes
from sexpgpu.diagnostics.codes import run as run_codes
from sexpgpu.diagnostics.model import Diagnostic, Label, SxError
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.lisp.hostforms import Context, call_host, quoted
from sexpgpu.lisp.printer import prin1_text as print_value
from sexpgpu.lisp.spans import car_span
from sexpgpu.lisp.state import current_origin
from sexpgpu.lisp.values import (
    CL,
    KEYWORD,
    NIL,
    Cons,
    Function,
    SrcCons,
    Symbol,
    Vector,
    lisp_list,
    python_list,
)
from sexpgpu.source import Span

MAX_SIZE = 1 << 40  # elements of a tensor
LIST = CL.own("list")
LAMBDA = CL.own("lambda")
LET = CL.own("let")
PROGN = CL.own("progn")
IF = CL.own("if")
FUNCTION = CL.own("function")


def call(function: Callable[..., Any], *forms: Any) -> Any:
    """The form that calls a Python function with the values of the forms."""
    return call_host(function, *forms)


def is_keyword(value: Any) -> bool:
    return isinstance(value, Symbol) and value.module is KEYWORD


def uncalled(value: Any) -> str | None:
    """The fix for a constructor given in place of what it makes."""
    named = isinstance(value, Function) and value.name not in ("", "lambda")
    return f"call it: ({value.name} …)" if named else None


def is_name(value: Any) -> bool:
    """A symbol that names something: not nil, t or a keyword."""
    return isinstance(value, Symbol) and not value.constant


def check_name(name: str, what: str, context: Context, place: Any = None) -> None:
    """E-RUN-005 for a name that could not be told from the rest of a series or graph that is called
    after it: eval/NAME/loss, hyper/NAME."""
    if not name or "/" in name:
        said = f"the name {name} has a slash" if name else "the name is empty"
        raise context.error(
            run_codes.E_RUN_005, f"{what}: {said}", at=place, fix="use letters, digits and dashes"
        )


def keyword_forms(
    rest: Any, allowed: Iterable[str], context: Context, form_name: str
) -> dict[str, tuple[Any, Any]]:
    """{key: (value form, place)} of `:key value…`. Unknown and repeated keys are errors."""
    allowed = tuple(allowed)
    found: dict[str, tuple[Any, Any]] = {}
    at = rest
    while at is not NIL:
        if not isinstance(at, Cons):
            raise context.error(
                run_codes.E_RUN_005, f"{form_name}: a dot has no meaning before {print_value(at)}"
            )
        key = at.car
        place = car_span(at)
        if not is_keyword(key):
            raise context.error(
                run_codes.E_RUN_005,
                f"{form_name}: a key such as :{allowed[0]} was expected, not {print_value(key)}",
                at=place,
            )
        if key.name not in allowed:
            raise context.error(
                run_codes.E_RUN_002,
                f"{form_name} has no key :{key.name}",
                at=place,
                fix=did_you_mean(f":{key.name}", [f":{k}" for k in allowed])
                or "the keys are " + " ".join(f":{k}" for k in allowed),
            )
        if key.name in found:
            raise context.error(
                run_codes.E_RUN_002, f"{form_name}: :{key.name} is given twice", at=place
            )
        if not isinstance(at.cdr, Cons):
            raise context.error(
                run_codes.E_RUN_005, f"{form_name}: :{key.name} has no value", at=place
            )
        found[key.name] = (at.cdr.car, car_span(at.cdr) or place)
        at = at.cdr.cdr
    return found


def placed(form: Any, at: Any) -> Any:
    """A form of an expansion with the place of the user's form that it stands for: what is wrong
    there is shown there, not at the whole use of the macro."""
    if not isinstance(at, SrcCons):
        return form
    source, start, end, _, _ = at.place
    return SrcCons(form.car, form.cdr, (source, start, end, -1, -1))


def value_form(form: Any, place: Span | None = None) -> Any:
    """The form that gives a key's value: a property list becomes a list of its values. `place` is
    a name's, which has none itself: what is wrong with the value is shown there."""
    if isinstance(form, Cons) and is_keyword(form.car):
        forms: list[Any] = [LIST]
        at: Any = form if _is_proper(form) else lisp_list([form])
        while at is not NIL:
            forms.append(value_form(at.car, car_span(at)))
            at = at.cdr
        return lisp_list(forms)
    if place is not None and is_name(form):
        return SrcCons(PROGN, lisp_list([form]), (place.source, place.start, place.end, -1, -1))
    return form


def init_form(keys: dict[str, tuple[Any, Any]], context: Context) -> Any:
    """(lambda (shape) form) of :init, where `shape` is the variable that the form may use; nil
    where it is not given."""
    if "init" not in keys:
        return NIL
    shape = context.module.intern("shape")
    ignorable = lisp_list([CL.own("declare"), lisp_list([CL.own("ignorable"), shape])])
    form = keys["init"][0]
    return placed(lisp_list([LAMBDA, lisp_list([shape]), ignorable, form]), form)


def state_form(
    make: Any, name: str, shape: Any, keys: dict[str, tuple[Any, Any]], context: Context
) -> Any:
    """The call of `make`(name, shape, dtype or nil, function of :init or nil) that a defstate
    stands for."""
    dtype = value_form(*keys["dtype"]) if "dtype" in keys else NIL
    return call(make, quoted(name), shape_form(shape), dtype, init_form(keys, context))


def shape_form(form: Any) -> Any:
    """The form of a shape position: its value is a Lisp list of integers."""
    if isinstance(form, Cons):
        return call(splice_shape, *python_list(form))
    if form is NIL:
        return NIL
    return call(check_shape, form)


def splice_shape(*items: Any) -> Any:
    """The elements of a shape; an element that is a list stands for its own elements."""
    result: list[Any] = []
    for item in items:
        if isinstance(item, Cons) or item is NIL:
            result.extend(python_list(item))
        elif isinstance(item, Vector):
            result.extend(item.items)
        else:
            result.append(item)
    return lisp_list(result)


def check_shape(value: Any) -> Any:
    """A whole shape given by a symbol: a list or vector of integers, or one integer."""
    if isinstance(value, Vector):
        return lisp_list(value.items)
    if isinstance(value, int):
        return lisp_list([value])
    return value


def shape_of(value: Any, what: str, minimum: int = 0) -> tuple[int, ...]:
    """A Lisp list of integers as a tuple; otherwise E-PARAM-004 at the call being made."""
    items = python_list(value) if _is_proper(value) else None
    if items is None or not all(isinstance(n, int) and n >= minimum for n in items):
        raise here(
            parameter_codes.E_PARAM_004,
            f"{what}: a shape is a list of integers from {minimum} up, not {print_value(value)}",
        )
    if math.prod(items) > MAX_SIZE:
        raise here(
            parameter_codes.E_PARAM_004,
            f"{what}: the shape {print_value(value)} has over 2^40 elements",
        )
    return tuple(items)


def here(code: Any, headline: str, fix: str | None = None, label: str = "") -> SxError:
    """An SxError at the call being made."""
    from sexpgpu.diagnostics.model import located

    labels, notes = located(current_origin(), label)
    return SxError(Diagnostic(code, headline, labels, notes, fix))


def at_place(code: Any, headline: str, place: Any, fix: str | None = None) -> SxError:
    """An SxError at a span that may be missing."""
    return SxError(Diagnostic(code, headline, [Label(place)] if place else [], (), fix))


def _is_proper(value: Any) -> bool:
    """Whether a chain of conses ends in NIL; one that runs in a circle does not."""
    behind, moved = value, False
    while isinstance(value, Cons):
        value = value.cdr
        if value is behind and value is not NIL:
            return False
        if moved:
            behind = behind.cdr  # at half the pace (Floyd): the two meet in a circle
        moved = not moved
    return value is NIL


def is_list(value: Any) -> bool:
    """A proper Lisp list."""
    return (value is NIL or isinstance(value, Cons)) and _is_proper(value)


def property_dict(value: Any) -> dict[str, Any] | None:
    """A property list as a dict, or None when the value is not one."""
    if not is_list(value):
        return None
    items = python_list(value)
    if len(items) % 2 or not all(is_keyword(k) for k in items[::2]):
        return None
    return {k.name: v for k, v in zip(items[::2], items[1::2], strict=True)}

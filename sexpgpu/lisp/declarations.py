"""Bodies: docstrings and declarations taken off. All but `special` are checked and dropped."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.analyze import malformed
from sexpgpu.lisp.values import CL, NIL, Cons, String, Symbol
from sexpgpu.reader.printer import brief

DECLARE = CL.own("declare")
_SPECIAL = CL.own("special")


def split_body(body: Any, doc: bool) -> tuple[Any, set[Symbol], str]:
    """(the forms, the names declared special, the docstring) of a body."""
    specials: set[Symbol] = set()
    text = ""
    found_doc = False
    while isinstance(body, Cons):
        form = body.car
        if isinstance(form, Cons) and form.car is DECLARE:
            collect(form, specials)
        elif doc and not found_doc and type(form) is String and isinstance(body.cdr, Cons):
            text = form.text
            found_doc = True
        else:
            break
        body = body.cdr
    return body, specials, text


def collect(form: Any, specials: set[Symbol]) -> None:
    """Add the names that a declare expression declares special."""
    at = form.cdr
    while isinstance(at, Cons):
        specifier = at.car
        if not isinstance(specifier, Cons):
            raise malformed(f"{brief(specifier)} is not a declaration", form)
        if specifier.car is _SPECIAL:
            names = specifier.cdr
            while isinstance(names, Cons):
                if not isinstance(names.car, Symbol):
                    raise malformed(f"{brief(names.car)} is not a variable", form)
                specials.add(names.car)
                names = names.cdr
        at = at.cdr
    if at is not NIL:
        raise malformed("a declaration is a dotted list", form)

"""Lambda lists: parsing them, with errors that name the function and the parameter.

One parser serves ordinary lambda lists and those of macros and destructuring-bind (which nest, may
be dotted, and know &whole, &body and &environment).
"""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.analyze import site_here
from sexpgpu.lisp.errors import program_error
from sexpgpu.lisp.values import NIL, Cons, Symbol, keyword
from sexpgpu.reader.names import nearest
from sexpgpu.reader.printer import brief

KEYWORDS = frozenset(
    (
        "&optional",
        "&rest",
        "&body",
        "&key",
        "&allow-other-keys",
        "&aux",
        "&whole",
        "&environment",
    )
)
_MACRO_ONLY = frozenset(("&body", "&whole", "&environment"))


class Optional:
    """An &optional or &key parameter. `target` is a symbol, or a nested list in macros."""

    __slots__ = ("default", "key", "supplied", "target")

    def __init__(self, target: Any, default: Any, supplied: Symbol | None, key: Any = None) -> None:
        self.target = target
        self.default = default
        self.supplied = supplied
        self.key = key


class LambdaList:
    """A parsed lambda list. `keys` is None without &key."""

    __slots__ = (
        "allow",
        "aux",
        "environment",
        "keys",
        "optional",
        "required",
        "rest",
        "text",
        "whole",
    )

    def __init__(self) -> None:
        self.required: list[Any] = []
        self.optional: list[Optional] = []
        self.rest: Any = None
        self.keys: list[Optional] | None = None
        self.allow = False
        self.aux: list[tuple[Symbol, Any]] = []
        self.whole: Any = None
        self.environment: Symbol | None = None
        self.text: Any = NIL

    @property
    def minimum(self) -> int:
        return len(self.required)

    @property
    def maximum(self) -> int | None:
        if self.rest is not None or self.keys is not None:
            return None
        return len(self.required) + len(self.optional)

    @property
    def simple(self) -> bool:
        """Only required parameters."""
        return not self.optional and self.rest is None and self.keys is None and not self.aux


def parse(form: Any, who: str, macro: bool = False) -> LambdaList:
    """Parse a lambda list. `who` names the function in errors."""
    result = LambdaList()
    result.text = form
    state = "required"
    at: Any = form
    seen: set[Any] = set()

    def bad(message: str, name: Any = None, near: str | None = None) -> Exception:
        message = f"lambda list of {who}: {message}"
        return program_error(message, site_here(), code="lambda-list", name=name, near=near)

    def target(item: Any) -> Any:
        if macro and item is NIL:
            return item
        if isinstance(item, Symbol):
            if item.constant:
                raise bad(f"{brief(item)} is a constant and cannot be a parameter", item)
            if item.name in KEYWORDS:
                raise bad(f"{item.name} is misplaced")
            if item.name[:1] == "&" and item.module is not None:
                near = nearest(item.name, sorted(KEYWORDS))
                raise bad(f"{item.name} is no lambda-list keyword", near=near)
            if item in seen:
                raise bad(f"{item.name} occurs twice", item)
            seen.add(item)
            return item
        if macro and (isinstance(item, Cons) or item is NIL):
            return item
        raise bad(f"{brief(item)} is not a parameter")

    def variable(item: Any) -> Symbol:
        if not isinstance(item, Symbol):
            raise bad(f"{brief(item)} is not a variable")
        return target(item)

    order = ["required", "optional", "rest", "key", "aux"]
    while isinstance(at, Cons):
        item = at.car
        at = at.cdr
        if isinstance(item, Symbol) and item.name in KEYWORDS and item.module is not None:
            word = item.name
            if word in _MACRO_ONLY and not macro:
                raise bad(f"{word} belongs to macros")
            if word == "&allow-other-keys":
                if state != "key":
                    raise bad("&allow-other-keys without &key")
                result.allow = True
                state = "allowed"
                continue
            if word in ("&rest", "&body", "&whole", "&environment"):
                if not isinstance(at, Cons):
                    raise bad(f"nothing after {word}")
                value = at.car
                at = at.cdr
                if word == "&whole":
                    result.whole = target(value)
                elif word == "&environment":
                    result.environment = variable(value)
                else:
                    if result.rest is not None or state in ("key", "allowed", "aux"):
                        raise bad(f"{word} is misplaced")
                    result.rest = target(value)
                    state = "rest"
                continue
            new = word[1:]
            current = "key" if state == "allowed" else state
            if order.index(new) <= order.index(current):
                raise bad(f"{word} is misplaced")
            state = new
            if state == "key":
                result.keys = []
            continue
        if state == "required":
            result.required.append(target(item))
        elif state == "optional":
            result.optional.append(_optional(item, target, variable, bad))
        elif state == "key":
            assert result.keys is not None
            result.keys.append(_key(item, target, variable, bad))
        elif state == "aux":
            if isinstance(item, Cons):
                rest = item.cdr
                value = rest.car if isinstance(rest, Cons) else NIL
                if isinstance(rest, Cons) and rest.cdr is not NIL:
                    raise bad(f"{brief(item)} is not (variable value)")
                result.aux.append((variable(item.car), value))
            else:
                result.aux.append((variable(item), NIL))
        else:
            raise bad(f"{brief(item)} is misplaced")
    if at is not NIL:
        if not macro or result.rest is not None or not isinstance(at, Symbol):
            raise bad("it is a dotted list" if isinstance(form, Cons) else "it is no list")
        result.rest = target(at)
    return result


def _parts(item: Cons, bad: Any) -> list[Any]:
    parts: list[Any] = []
    at: Any = item
    while isinstance(at, Cons):
        parts.append(at.car)
        at = at.cdr
    if at is not NIL or len(parts) > 3:
        raise bad(f"{brief(item)} is not (parameter default supplied-p)")
    return parts


def _optional(item: Any, target: Any, variable: Any, bad: Any) -> Optional:
    if not isinstance(item, Cons):
        return Optional(target(item), NIL, None)
    parts = _parts(item, bad)
    return Optional(
        target(parts[0]),
        parts[1] if len(parts) > 1 else NIL,
        variable(parts[2]) if len(parts) > 2 else None,
    )


def _key(item: Any, target: Any, variable: Any, bad: Any) -> Optional:
    if not isinstance(item, Cons):
        name = variable(item)
        return Optional(name, NIL, None, keyword(name.name))
    parts = _parts(item, bad)
    first = parts[0]
    if isinstance(first, Cons):
        if (
            not isinstance(first.cdr, Cons)
            or first.cdr.cdr is not NIL
            or not isinstance(first.car, Symbol)
        ):
            raise bad(f"{brief(first)} is not (keyword variable)")
        key, name = first.car, target(first.cdr.car)
    else:
        name = variable(first)
        key = keyword(name.name)
    return Optional(
        name,
        parts[1] if len(parts) > 1 else NIL,
        variable(parts[2]) if len(parts) > 2 else None,
        key,
    )

"""How builtins are declared. A builtin is a Python function with a Lisp lambda list.

    @builtin("member", "(item list &key key test test-not)")
    def member(item, list, key=None, test=None, test_not=None):
        "Docstring: becomes the Lisp documentation and the docs table."

The lambda list decides the arity and the keywords; `&optional` and `&key` parameters that were not
given take the Python defaults; `&rest` arrives as Python's *args (and then keywords are not
allowed beside it). `from-end` arrives as `from_end`; a Python keyword or builtin may be written
with a trailing underscore. Symbols are made in the layer named (CL unless said).
A builtin that has a keyword parameter and a Python `key=None` gets None when it was not given,
and also when NIL was given for `:key :test :test-not :end` (CL takes nil for "none" there).
Beside named keywords `&allow-other-keys` may stand. The builtin returns one value or an MV.

`(setf name)` as the name declares the function that `(setf (name …) new)` calls:

    @builtin("(setf gethash)", "(new key table &optional default)")

The builtins of evaluation (funcall apply values values-list eval macroexpand gensym functionp
fboundp boundp symbol-function …) are in lisp/evaluation.py, those of conditions (error signal warn
cerror make-condition invoke-restart and the readers) in lisp/signalling.py; the rest is in
lisp/builtins/, one file a chapter.

`overload=True` declares a CL function of numbers that also takes Foreign values: before it raises
a type-error for an argument that is not a number, it asks `Foreign.lisp_operate`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.values import CL, NIL, Function, Module, Symbol, keyword

BUILTINS: dict[str, Builtin] = {}


class Builtin:
    """The record behind a builtin: what the docs tables show."""

    __slots__ = ("chapter", "doc", "function", "lambda_list", "layer", "name", "overload", "python")

    def __init__(
        self,
        name: str,
        lambda_list: str,
        chapter: str,
        layer: Module,
        python: Callable[..., Any],
        overload: bool,
    ) -> None:
        self.name = name
        self.lambda_list = lambda_list
        self.chapter = chapter
        self.layer = layer
        self.python = python
        self.overload = overload
        self.doc = (python.__doc__ or "").strip()
        self.function: Function | None = None


def builtin(
    name: str,
    lambda_list: str,
    *,
    chapter: str = "",
    layer: Module = CL,
    overload: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a builtin function. `chapter` defaults to the defining file's name."""

    def declare(python: Callable[..., Any]) -> Callable[..., Any]:
        if name in BUILTINS:
            raise ValueError(f"builtin {name!r} is declared twice")
        record = Builtin(
            name,
            lambda_list,
            chapter or python.__module__.rpartition(".")[2],
            layer,
            python,
            overload,
        )
        BUILTINS[name] = record
        record.function = make_function(record)
        if name.startswith("(setf "):
            layer.own(name[6:-1]).setf = record.function
        else:
            layer.own(name).function = record.function
        return python

    return declare


# An explicit NIL for these keywords means the same as leaving the keyword out.
_NIL_IS_NONE = frozenset(("key", "test", "test_not", "end", "end1", "end2", "count"))


def python_name(name: str) -> str:
    """The Python parameter that a Lisp parameter arrives as (without a trailing underscore)."""
    return name.replace("-", "_")


def make_function(record: Builtin) -> Function:
    """The Function of a builtin: positional as it is, keywords through an adapter."""
    required, optional, rest, keys, others = _parameters(record.lambda_list)
    name, python = record.name, record.python
    minimum = len(required)
    maximum = None if rest or keys is not None else minimum + len(optional)
    call: Callable[..., Any] = python
    if keys is not None:
        if rest:
            raise ValueError(f"builtin {name!r}: &rest beside &key")
        call = _keyword_adapter(record, minimum + len(optional), keys, others)
    return Function(name, call, minimum, maximum, record.lambda_list, record.doc)


def _parameters(
    text: str,
) -> tuple[list[str], list[str], bool, list[str] | None, bool]:
    """(required, optional, has &rest, keys or None, &allow-other-keys) of a lambda list."""
    required: list[str] = []
    optional: list[str] = []
    keys: list[str] | None = None
    rest = others = False
    into: list[str] | None = required
    for word in text.strip()[1:-1].split():
        if word == "&optional":
            into = optional
        elif word in ("&rest", "&body"):
            rest, into = True, None
        elif word == "&key":
            keys = into = []
        elif word == "&allow-other-keys":
            others = True
        elif into is not None:
            into.append(word)
    return required, optional, rest, keys, others


def _keyword_adapter(
    record: Builtin, positional: int, keys: list[str], others: bool
) -> Callable[..., Any]:
    python = record.python
    named = set(python.__code__.co_varnames[: python.__code__.co_argcount])
    named.update(
        python.__code__.co_varnames[
            python.__code__.co_argcount : python.__code__.co_argcount
            + python.__code__.co_kwonlyargcount
        ]
    )
    table: dict[Symbol, str] = {}
    for key in keys:
        target = python_name(key)
        table[keyword(key)] = target if target in named else target + "_"
    lookup = table.get
    noneable = frozenset(t for t in table.values() if t in _NIL_IS_NONE)

    def call(*arguments: Any) -> Any:
        if len(arguments) <= positional:
            return python(*arguments)
        given: dict[str, Any] = {}
        unknown: Any = None
        allowed = others
        count = len(arguments)
        if (count - positional) % 2:
            raise _keyword_error(record, "the keyword arguments are not in pairs", arguments)
        allow_seen = False
        for at in range(positional, count, 2):
            target = lookup(arguments[at])
            if target is None:
                if arguments[at] is ALLOW_OTHER_KEYS:
                    if not allow_seen:
                        allow_seen = True
                        allowed = allowed or arguments[at + 1] is not NIL
                elif unknown is None:
                    unknown = arguments[at]
            elif target not in given:
                value = arguments[at + 1]
                given[target] = None if value is NIL and target in noneable else value
        if unknown is not None and not allowed:
            raise _unknown_key(record, unknown)
        return python(*arguments[:positional], **given)

    call.plain = python, positional  # type: ignore[attr-defined]
    return call


ALLOW_OTHER_KEYS = keyword("allow-other-keys")


def _keyword_error(record: Builtin, message: str, arguments: tuple[Any, ...]) -> Exception:
    from sexpgpu.lisp.errors import program_error

    return program_error(f"{record.name}: {message}", code="arguments", function=record.function)


def _unknown_key(record: Builtin, key: Any) -> Exception:
    from sexpgpu.lisp.errors import program_error
    from sexpgpu.reader.printer import brief

    return program_error(
        f"{record.name} has no keyword {brief(key)}",
        code="keyword",
        function=record.function,
        key=key,
    )

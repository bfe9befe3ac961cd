"""Forms written in Python: host macros, and the operator objects their expansions may use.

    @host_macro("defmodel", "(name lambda-list &body clauses)", layer=TENSOR)
    def defmodel(form, context):
        ...
        return expansion

The expansion is ordinary Lisp data. In operator position it may hold a Function (called directly)
or one of the Operator objects below (no symbol names them), and `(quote object)` may carry any Lisp
value; `quoted(object)` makes that. Reuse the user's own subforms: their places then stay known.
Programs can take an expansion apart (macroexpand): an operator must bear any arguments, and
`call_host` makes one that is good in that one form only.

Operators for expansions:

FLET_VALUES   (FLET_VALUES ((name form)…) body…): like flet, but each name is bound as a local
              function to the *value* of its form (a Function, or a Foreign with lisp_function).
VALUES_CALL   (VALUES_CALL function-form argument…): calls the value of the first form.
call_host(python-callable, argument…): the form that calls it with the values of the arguments.
THUNK         (THUNK body…): the Python callable of no arguments that evaluates the body.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sexpgpu.diagnostics.model import Code, Diagnostic, Label, Note, SxError
from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.scope import environment_scope
from sexpgpu.lisp.spans import span_of
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import (
    CL,
    NIL,
    Char,
    Cons,
    Function,
    Module,
    String,
    Symbol,
    Vector,
    lisp_list,
    new_cons,
)
from sexpgpu.source import Span

if TYPE_CHECKING:
    from collections.abc import Sequence


class Operator:
    """A special operator that expansions name by the object itself; the compiler fills it in."""

    __slots__ = ("analyze", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.analyze: Any = None

    def __repr__(self) -> str:
        return self.name


FLET_VALUES = Operator("%flet-values")
VALUES_CALL = Operator("%values-call")
THUNK = Operator("%thunk")

QUOTE = CL.own("quote")


class HostCall(Operator):
    """The operator of one call of a Python callable, with the argument forms it was made for."""

    __slots__ = ("constants", "forms", "function")

    def __init__(self, function: Callable[..., Any], forms: tuple[Any, ...]) -> None:
        super().__init__("%call-host")
        self.function = function
        self.forms = forms
        self.constants = {  # what was quoted for the callable cannot be changed under it
            at: form.cdr.car
            for at, form in enumerate(forms)
            if type(form) is Cons and form.car is QUOTE
        }
        self.analyze = self._analyze

    def _analyze(self, form: Any, scope: Any, tails: Any) -> Any:
        return analyze_host_call[0](self, form, scope)


analyze_host_call: list[Any] = [None]  # filled by lisp/hostoperators.py


def call_host(function: Callable[..., Any], *forms: Any) -> Cons:
    """The form that calls a Python callable with the values of the forms."""
    return new_cons(HostCall(function, forms), lisp_list(forms))


class HostValue:
    """A form whose value is one of Python's, which no program can change."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def quoted(value: Any) -> Any:
    """The form of a value, for an expansion."""
    if isinstance(value, int | float | Symbol | Cons | String | Vector | Char | Function):
        return new_cons(QUOTE, new_cons(value, NIL))
    return HostValue(value)


class HostMacro:
    """The record of a host macro: what the docs and the checker show."""

    __slots__ = ("doc", "lambda_list", "layer", "name", "python", "top_level")

    def __init__(
        self,
        name: str,
        lambda_list: str,
        layer: Module,
        python: Callable[[Any, Context], Any],
        top_level: bool,
    ) -> None:
        self.name = name
        self.lambda_list = lambda_list
        self.layer = layer
        self.python = python
        self.top_level = top_level
        self.doc = (python.__doc__ or "").strip()


HOST_MACROS: dict[str, HostMacro] = {}


class Context:
    """What a host macro may ask while it expands one form."""

    __slots__ = ("environment", "form", "span", "top_level")

    def __init__(self, form: Any, environment: Any) -> None:
        self.form = form
        self.environment = environment  # the compiler's Scope, or NIL when there is none
        self.span: Span | None = span_of(form) or STATE.site.span
        self.top_level: bool = environment_scope(environment).top_level

    @property
    def module(self) -> Module:
        """The module whose form is being expanded."""
        module = STATE.module
        assert module is not None
        return module

    def expand(self, form: Any) -> Any:
        """The form with macros at its head expanded until there is none."""
        from sexpgpu.lisp.macros import macroexpand

        return macroexpand(form, self.environment)[0]

    def error(
        self,
        code: Code,
        headline: str,
        at: Any = None,
        notes: Sequence[str | Note] = (),
        fix: str | None = None,
        label: str = "",
    ) -> SxError:
        """The SxError to raise for a malformed form. `at` is a form or a Span; where it has no
        place the whole use of the macro is shown."""
        span = at if isinstance(at, Span) else span_of(at)
        span = span or self.span
        made = [note if isinstance(note, Note) else Note(note) for note in notes]
        return SxError(Diagnostic(code, headline, [Label(span, label)] if span else [], made, fix))


def host_macro(
    name: str, lambda_list: str, *, layer: Module = CL, top_level: bool = False
) -> Callable[[Callable[[Any, Context], Any]], Callable[[Any, Context], Any]]:
    """Declare a macro written in Python. `top_level`: an error anywhere but at top level."""

    def declare(python: Callable[[Any, Context], Any]) -> Callable[[Any, Context], Any]:
        record = HostMacro(name, lambda_list, layer, python, top_level)
        HOST_MACROS[name] = record

        def expand(form: Any, environment: Any = NIL) -> Any:
            if not isinstance(form, Cons):
                raise type_error(form, "cons")
            from sexpgpu.lisp.analyze import check_finite

            check_finite(form)
            context = Context(form, environment)
            if top_level and not context.top_level:
                from sexpgpu.diagnostics.codes.lisp import E_MACRO_004

                raise context.error(E_MACRO_004, f"{name} belongs at the top level of a file")
            if _is_dotted(form):
                from sexpgpu.diagnostics.codes.lisp import E_ARG_004

                raise context.error(E_ARG_004, f"{name}: the form ends in a dot and an atom")
            return python(form, context)

        layer.own(name).macro = Function(
            name, expand, 2, 2, lambda_list=lambda_list, doc=record.doc
        )
        return python

    return declare


def _is_dotted(form: Any) -> bool:
    while isinstance(form, Cons):
        form = form.cdr
    return form is not NIL


def form_arguments(form: Any) -> list[Any]:
    """The subforms after the operator, as a Python list (a dotted tail is left out)."""
    return list(form.cdr) if isinstance(form.cdr, Cons) else []


def symbol(name: str) -> Symbol:
    """The CL symbol of that name, for expansions."""
    return CL.own(name)


def form(*items: Any) -> Any:
    """A list form, for expansions."""
    return lisp_list(items)

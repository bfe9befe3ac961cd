"""The builtins of evaluation: calls, values, function and macro slots, eval, gensym."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.analyze import SPECIAL, check_finite, run_node
from sexpgpu.lisp.builtins.designators import walked
from sexpgpu.lisp.calls import as_function, call_values, check_count, values_of
from sexpgpu.lisp.errors import (
    program_error,
    type_error,
    unbound_variable,
    undefined_function,
)
from sexpgpu.lisp.functions import lambda_node
from sexpgpu.lisp.journal import keep
from sexpgpu.lisp.macros import macroexpand, macroexpand_1
from sexpgpu.lisp.number_text import digits_of
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.scope import environment_scope, function_key, null_scope
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.toplevel import evaluate_top_level
from sexpgpu.lisp.values import (
    CL,
    MV,
    NIL,
    UNBOUND,
    Cons,
    Function,
    String,
    Symbol,
    T,
    lisp_list,
)

GENSYM_COUNTER = CL.own("*gensym-counter*")
GENSYM_COUNTER.special = True
GENSYM_COUNTER.value = 1


def spread(values: list[Any]) -> None:
    """Replace the last item, a list, by its elements."""
    last = values.pop()
    at = last
    count = 0
    while isinstance(at, Cons):
        values.append(at.car)
        at = at.cdr
        count += 1
        if count & 1023 == 0:
            walked(at, count)
    if at is not NIL:
        raise type_error(last, "list")


@builtin("funcall", "(function &rest arguments)")
def funcall(function: Any, *arguments: Any) -> Any:
    """Call FUNCTION with the arguments."""
    return call_values(as_function(function), *arguments)


@builtin("apply", "(function argument &rest more)")
def apply(function: Any, *arguments: Any) -> Any:
    """Call FUNCTION with the arguments, the last of which is a list of further ones."""
    values = list(arguments)
    spread(values)
    return call_values(as_function(function), *values)


@builtin("values", "(&rest values)")
def values(*items: Any) -> Any:
    """Return the arguments as several values."""
    return values_of(items)


@builtin("values-list", "(list)")
def values_list(list: Any) -> Any:
    """Return the elements of LIST as several values."""
    items: Any = [list]
    spread(items)
    return values_of(items)


@builtin("eval", "(form)")
def eval_(form: Any) -> Any:
    """Evaluate FORM in the null lexical environment."""
    from sexpgpu.lisp.analyze import AT

    saved = AT.place, AT.expansions
    site = STATE.site
    AT.place, AT.expansions = site.place, site.expansions
    STATE.stack.append(site)
    try:
        STATE.charge(1)
        if len(STATE.stack) > STATE.depth:
            from sexpgpu.lisp.state import limit

            raise limit("depth", STATE.depth)
        check_finite(form)
        return evaluate_top_level(form)
    finally:
        STATE.stack.pop()
        AT.place, AT.expansions = saved


@builtin("macroexpand", "(form &optional environment)")
def macroexpand_(form: Any, environment: Any = NIL) -> Any:
    """(values expansion expanded-p), until FORM is no macro call."""
    check_finite(form)
    expanded, more = macroexpand(form, environment)
    return MV((expanded, T if more else NIL))


@builtin("macroexpand-1", "(form &optional environment)")
def macroexpand_1_(form: Any, environment: Any = NIL) -> Any:
    """(values expansion expanded-p), once."""
    check_finite(form)
    expanded, more = macroexpand_1(form, environment)
    return MV((expanded, T if more else NIL))


@builtin("gensym", "(&optional prefix)")
def gensym(prefix: Any = None) -> Any:
    """A fresh symbol that no other form can name."""
    if isinstance(prefix, int):
        if prefix < 0:
            raise type_error(prefix, "(integer 0)")
        return Symbol(f"g{digits_of(prefix)}")
    text = "g"
    if prefix is not None:
        if not isinstance(prefix, String):
            raise type_error(prefix, "string")
        text = prefix.text
    counter = GENSYM_COUNTER.value
    if not isinstance(counter, int) or counter < 0:
        raise type_error(counter, "(integer 0)")
    keep(GENSYM_COUNTER)
    GENSYM_COUNTER.value = counter + 1
    return Symbol(f"{text}{digits_of(counter)}")


@builtin("gentemp", "(&optional prefix)")
def gentemp(prefix: Any = None) -> Any:
    """A symbol of the current module that did not exist."""
    text = "t"
    if prefix is not None:
        if not isinstance(prefix, String):
            raise type_error(prefix, "string")
        text = prefix.text
    module = STATE.module
    assert module is not None
    count = 0
    while module.find(f"{text}{count}") is not None:
        count += 1
    return module.own(f"{text}{count}")


@builtin("functionp", "(object)")
def functionp(object: Any) -> Any:
    """Whether OBJECT is a function."""
    return T if isinstance(object, Function) else NIL


@builtin("compiled-function-p", "(object)")
def compiled_function_p(object: Any) -> Any:
    """Whether OBJECT is a compiled function; all functions are."""
    return T if isinstance(object, Function) else NIL


def _symbol(value: Any) -> Symbol:
    if not isinstance(value, Symbol):
        raise type_error(value, "symbol")
    return value


@builtin("fboundp", "(name)")
def fboundp(name: Any) -> Any:
    """Whether NAME, a symbol or (setf symbol), names a function or macro."""
    key = function_key(name)
    if key is None:
        raise type_error(name, "function name")
    if isinstance(key, tuple):
        return T if isinstance(key[1].setf, Function) else NIL
    found = key.function is not None or key.macro is not None or key in SPECIAL
    return T if found else NIL


@builtin("boundp", "(symbol)")
def boundp(symbol: Any) -> Any:
    """Whether the dynamic variable SYMBOL has a value."""
    return T if _symbol(symbol).value is not UNBOUND else NIL


@builtin("symbol-value", "(symbol)")
def symbol_value(symbol: Any) -> Any:
    """The value of the dynamic variable SYMBOL."""
    value = _symbol(symbol).value
    if value is UNBOUND:
        raise unbound_variable(symbol)
    return value


def _settable(symbol: Any) -> Symbol:
    if _symbol(symbol).constant:
        raise program_error(f"{symbol.name} is a constant and cannot be set")
    keep(symbol)
    return symbol


@builtin("(setf symbol-value)", "(new symbol)")
def set_symbol_value(new: Any, symbol: Any) -> Any:
    """Set the dynamic variable SYMBOL."""
    _settable(symbol).value = new
    return new


@builtin("set", "(symbol value)")
def set_(symbol: Any, value: Any) -> Any:
    """Set the dynamic variable SYMBOL to VALUE."""
    _settable(symbol).value = value
    return value


@builtin("makunbound", "(symbol)")
def makunbound(symbol: Any) -> Any:
    """Take the value of the dynamic variable SYMBOL away."""
    _settable(symbol).value = UNBOUND
    return symbol


@builtin("symbol-function", "(symbol)")
def symbol_function(symbol: Any) -> Any:
    """The global function of SYMBOL."""
    return _definition(_symbol(symbol))


@builtin("fdefinition", "(name)")
def fdefinition(name: Any) -> Any:
    """The global function that NAME, a symbol or (setf symbol), names."""
    return _definition(name)


def _definition(name: Any) -> Any:
    key = function_key(name)
    if key is None:
        raise type_error(name, "function name")
    if isinstance(key, tuple):
        if isinstance(key[1].setf, Function):
            return key[1].setf
        raise undefined_function(name)
    found = key.function or key.macro
    if found is None:
        if key in SPECIAL:
            return Function(key.name, _refuse_special(key.name), 0, None, "", "", None)
        raise undefined_function(name)
    return found


def _refuse_special(name: str) -> Any:
    def refuse(*arguments: Any) -> Any:
        raise undefined_function(CL.own(name))

    return refuse


def redefinable(symbol: Symbol) -> None:
    """CL's own operators, and the places that they are, stay what they are."""
    if symbol is NIL or symbol is T:
        raise program_error(f"{symbol.name} is a constant and names no function", name=symbol)
    if symbol.module is CL and (
        symbol.function is not None or symbol.macro is not None or symbol in SPECIAL
    ):
        raise program_error(
            f"{symbol.name} is an operator of Common Lisp and cannot be redefined",
            code="cl-operator",
            name=symbol,
        )


@builtin("(setf fdefinition)", "(new name)")
def set_fdefinition(new: Any, name: Any) -> Any:
    """Set the global function that NAME names."""
    if not isinstance(new, Function):
        raise type_error(new, "function")
    key = function_key(name)
    if key is None:
        raise type_error(name, "function name")
    if isinstance(key, tuple):
        redefinable(key[1])
        keep(key[1])
        key[1].setf = new
        return new
    redefinable(key)
    keep(key)
    key.function = new
    key.macro = None
    return new


@builtin("(setf symbol-function)", "(new symbol)")
def set_symbol_function(new: Any, symbol: Any) -> Any:
    """Set the global function of SYMBOL."""
    return set_fdefinition(new, _symbol(symbol))


@builtin("fmakunbound", "(name)")
def fmakunbound(name: Any) -> Any:
    """Take the global function or macro of NAME away."""
    key = function_key(name)
    if key is None:
        raise type_error(name, "function name")
    symbol = key[1] if isinstance(key, tuple) else key
    if isinstance(key, tuple):
        keep(symbol)
        symbol.setf = None
        return name
    redefinable(symbol)
    keep(symbol)
    symbol.function = symbol.macro = None
    return name


@builtin("macro-function", "(symbol &optional environment)")
def macro_function_(symbol: Any, environment: Any = NIL) -> Any:
    """The expander of the macro that SYMBOL names, or nil."""
    from sexpgpu.lisp.scope import LocalFunction, LocalMacro

    _symbol(symbol)
    local = environment_scope(environment).function(symbol)
    if isinstance(local, LocalMacro):
        return local.function
    if isinstance(local, LocalFunction):
        return NIL
    return symbol.macro or NIL


@builtin("(setf macro-function)", "(new symbol &optional environment)")
def set_macro_function(new: Any, symbol: Any, environment: Any = NIL) -> Any:
    """Set the expander of the macro that SYMBOL names."""
    if not isinstance(new, Function):
        raise type_error(new, "function")
    redefinable(_symbol(symbol))
    check_count(new, 2)  # the form and the environment
    keep(symbol)
    symbol.macro = new
    symbol.function = None
    return new


@builtin("special-operator-p", "(symbol)")
def special_operator_p(symbol: Any) -> Any:
    """Whether SYMBOL names a special operator."""
    found = _symbol(symbol) in SPECIAL and symbol.macro is None
    return T if found and symbol.name not in ("lambda", "declare", "quasiquote") else NIL


@builtin("constantp", "(form &optional environment)")
def constantp(form: Any, environment: Any = NIL) -> Any:
    """Whether FORM always gives the same value: constants, quotations, self-evaluating objects."""
    if isinstance(form, Symbol):
        return T if form.constant else NIL
    if isinstance(form, Cons):
        return T if form.car is CL.own("quote") else NIL
    return T


@builtin("proclaim", "(declaration)")
def proclaim(declaration: Any) -> Any:
    """Make a declaration global; all but special are without effect."""
    if not isinstance(declaration, Cons) or not isinstance(declaration.car, Symbol):
        raise type_error(declaration, "a declaration")
    names: list[Any] = [declaration.cdr]
    spread(names)
    if declaration.car is CL.own("special"):
        for name in names:
            keep(_symbol(name))
            if name.constant:
                raise program_error(f"{name.name} is a constant and cannot be declared special")
            name.special = True
    return NIL


@builtin("function-lambda-expression", "(function)")
def function_lambda_expression(function: Any) -> Any:
    """(values nil t nil): the source of a function is not kept."""
    if not isinstance(function, Function):
        raise type_error(function, "function")
    return MV((NIL, T, NIL))


def lambda_function(form: Any) -> Function:
    """The function of a lambda expression, in the null lexical environment."""
    if not isinstance(form, Cons) or form.car is not CL.own("lambda"):
        raise type_error(form, "function")
    if not isinstance(form.cdr, Cons):
        raise program_error("malformed lambda: write (lambda (parameter…) form…)")
    check_finite(form)
    node = lambda_node("lambda", form.cdr.car, form.cdr.cdr, null_scope(), None, form)
    return run_node(node)


@builtin("documentation", "(object kind)")
def documentation(object: Any, kind: Any) -> Any:
    """The docstring of a function, macro or special operator, or nil."""
    found = object
    if isinstance(object, Symbol):
        found = object.function or object.macro
        if object in SPECIAL:
            return String((SPECIAL[object].__doc__ or "").strip())
    if isinstance(found, Function) and found.doc:
        return String(found.doc)
    return NIL


def _constants() -> None:
    for name, value in (
        ("call-arguments-limit", 4096),
        ("lambda-parameters-limit", 4096),
        ("multiple-values-limit", 4096),
        (
            "lambda-list-keywords",
            lisp_list(
                [
                    CL.own(word)
                    for word in (
                        "&allow-other-keys",
                        "&aux",
                        "&body",
                        "&environment",
                        "&key",
                        "&optional",
                        "&rest",
                        "&whole",
                    )
                ]
            ),
        ),
    ):
        symbol = CL.own(name)
        symbol.value = value
        symbol.constant = symbol.special = True


_constants()

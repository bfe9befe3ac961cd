"""The analyser: forms to nodes. Special forms are in tables, filled by lisp/special.py and kin.

`AT` is where the analysis is: the place of the form at hand, and the macro expansions around it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.callnodes import CallFixed, CallGlobal, CallLocal, CallValue, Defined
from sexpgpu.lisp.errors import LispError, program_error
from sexpgpu.lisp.hostforms import HostValue, Operator
from sexpgpu.lisp.nodes import Constant, Node, progn
from sexpgpu.lisp.other_names import ABSENT, OPERATORS
from sexpgpu.lisp.scope import DYNAMIC, LocalMacro, Scope, SymbolMacro, Var
from sexpgpu.lisp.state import STATE, Site, limit
from sexpgpu.lisp.values import (
    CL,
    NIL,
    UNBOUND,
    Cons,
    Function,
    SrcCons,
    Symbol,
    TemplateCons,
)
from sexpgpu.lisp.variable_nodes import GlobalRef, LocalRef
from sexpgpu.reader.printer import brief
from sexpgpu.source import Span

Tails = tuple[Any, ...]
Analyzer = Callable[[Any, Scope, Tails], Node]

SPECIAL: dict[Symbol, Analyzer] = {}  # CL's special operators
NATIVE: dict[Symbol, Analyzer] = {}  # macros of CL that are analysed directly
_QUOTE = CL.own("quote")

INLINE: dict[Symbol, Callable[[list[Node], Site], Node | None]] = {}  # functions done in place


class _At:
    """Where the analysis is."""

    __slots__ = (
        "checks",
        "depth",
        "expansions",
        "lazy",
        "nested",
        "place",
        "record",
        "templates",
    )

    def __init__(self) -> None:
        self.place: tuple[Any, ...] | None = None
        self.expansions: tuple[tuple[str, Span | None], ...] = ()
        self.depth = 0  # nested macro expansions
        self.nested = 0  # nested forms that no reader made
        self.lazy = False  # functions at top level are analysed when first called
        self.checks = False  # inside the expansion of a macro of the user's (lisp.hygiene)
        self.templates = False  # inside the definition of such a macro
        self.record: dict[int, Any] | None = None  # id of a macro call -> (call, expansion)


AT = _At()


def special(name: str) -> Callable[[Analyzer], Analyzer]:
    """Declare the analyser of a special operator."""

    def declare(analyzer: Analyzer) -> Analyzer:
        SPECIAL[CL.own(name)] = analyzer
        return analyzer

    return declare


def native(name: str) -> Callable[[Analyzer], Analyzer]:
    """Declare the direct analyser of a CL macro (its expansion is an operator object)."""

    def declare(analyzer: Analyzer) -> Analyzer:
        NATIVE[CL.own(name)] = analyzer
        return analyzer

    return declare


def site_here() -> Site:
    """The site of the form at hand."""
    return Site(AT.place, AT.expansions)


def malformed(message: str, form: Any = None, fix: str | None = None) -> LispError:
    """The program-error of a malformed special form or macro call."""
    place = form.place if type(form) is SrcCons else AT.place
    return program_error(message, Site(place, AT.expansions), code="form", fix=fix)


def parts(form: Any, low: int, high: int | None, usage: str) -> list[Any]:
    """The subforms after the operator, their number checked."""
    result: list[Any] = []
    at = form.cdr
    while isinstance(at, Cons):
        result.append(at.car)
        at = at.cdr
    if at is not NIL or len(result) < low or (high is not None and len(result) > high):
        raise malformed(f"malformed {brief(form.car)}: write {usage}", form)
    return result


def items_of(value: Any) -> list[Any]:
    """The elements of a list that a form is made of; a program-error when it is no proper list."""
    result: list[Any] = []
    at = value
    while isinstance(at, Cons):
        result.append(at.car)
        at = at.cdr
    if at is not NIL:
        raise malformed(f"{brief(value)} is not a list", value)
    return result


# ---------------------------------------------------------------- forms


def analyze(form: Any, scope: Scope, tails: Tails = ()) -> Node:
    """The node of a form."""
    kind = type(form)  # pyright: ignore[reportUnknownVariableType]
    if kind is SrcCons:
        saved = AT.place
        AT.place = form.place
        try:
            return _analyze_cons(form, scope, tails)
        finally:
            AT.place = saved
    if kind is Symbol:
        return variable(form, scope)
    if kind is Cons or kind is TemplateCons:
        # The reader limits the depth of what is written; this is for what programs make.
        AT.nested = nested = AT.nested + 1
        try:
            if nested > 10 * STATE.limits.nesting:
                raise limit("forms", 10 * STATE.limits.nesting)
            return _analyze_cons(form, scope, tails)
        finally:
            AT.nested = nested - 1
    return Constant(form.value if kind is HostValue else form)


def analyze_car(cell: Any, scope: Scope, tails: Tails = ()) -> Node:
    """The node of a cons's car; an atom's own place is used for its errors."""
    form = cell.car
    if type(form) is Symbol and type(cell) is SrcCons and cell.place[3] >= 0:
        saved = AT.place
        place = cell.place
        AT.place = (place[0], place[3], place[4])
        if AT.checks:
            hygiene().note_use(cell, scope)
        try:
            return variable(form, scope)
        finally:
            AT.place = saved
    if AT.checks and type(cell) is TemplateCons:
        hygiene().note_use(cell, scope)
    return analyze(form, scope, tails)


def hygiene() -> Any:
    """The module that warns of captured names; only what macros expand into needs it."""
    from sexpgpu.lisp import hygiene

    return hygiene


def arguments(cells: Any, scope: Scope, form: Any) -> list[Node]:
    """The nodes of a call's arguments."""
    result: list[Node] = []
    while isinstance(cells, Cons):
        result.append(analyze_car(cells, scope))
        cells = cells.cdr
    if cells is not NIL:
        raise malformed(f"the call of {brief(form.car)} is a dotted list", form)
    return result


def body(cells: Any, scope: Scope, tails: Tails = ()) -> Node:
    """The node of a body's forms."""
    nodes: list[Node] = []
    while isinstance(cells, Cons):
        rest = cells.cdr
        nodes.append(analyze_car(cells, scope, tails if rest is NIL else ()))
        cells = rest
    if cells is not NIL:
        raise malformed("a body is a dotted list")
    return progn(nodes)


def variable(symbol: Symbol, scope: Scope) -> Node:
    """The node of a variable."""
    found = scope.variable(symbol)
    if type(found) is Var:
        level = scope.level
        found.used = True
        if level is not found.level:
            found.captured = True
        return LocalRef(found, site_here())
    if type(found) is SymbolMacro:
        return _expand_symbol(found.expansion, scope)
    if symbol.constant and symbol.value is not UNBOUND:
        return Constant(symbol.value)
    if found is not DYNAMIC and symbol.symbol_macro is not UNBOUND:
        return _expand_symbol(symbol.symbol_macro, scope)
    return GlobalRef(symbol, site_here(), None if symbol.special else scope)


# Operators whose subforms may be names that are set, not evaluated.
_ASSIGNING = frozenset(
    (
        "setq",
        "setf",
        "psetq",
        "psetf",
        "incf",
        "decf",
        "push",
        "pushnew",
        "pop",
        "rotatef",
        "shiftf",
    )
)


def _expand_symbol(expansion: Any, scope: Scope) -> Node:
    """The node of a symbol macro's expansion."""
    STATE.charge(1)
    AT.depth += 1
    try:
        if AT.depth > STATE.limits.expansions:
            raise limit("expansion", STATE.limits.expansions)
        return analyze(expansion, scope)
    finally:
        AT.depth -= 1


_USUAL = 1 << 16  # conses of a form: each beyond these costs as many steps as looking at it takes


def check_finite(form: Any) -> None:
    """Charge fuel for every cons of a form that no reader made, before its analysis: a circular
    form, or one that shares parts without end, runs out of fuel here, before the clock does."""
    count = 0
    work = [form] if isinstance(form, Cons) and type(form) is not SrcCons else []
    while work:
        at = work.pop()
        if at.car is _QUOTE:
            continue  # its object is data, which may be circular
        while isinstance(at, Cons) and type(at) is not SrcCons:
            count += 1
            if count & 1023 == 0:
                STATE.charge(1024 if count <= _USUAL else 8 * 1024)
            car = at.car
            if isinstance(car, Cons) and type(car) is not SrcCons:
                work.append(car)
            at = at.cdr
    STATE.charge(count & 1023)


def _analyze_cons(form: Any, scope: Scope, tails: Tails) -> Node:
    STATE.fuel = fuel = STATE.fuel - 1
    if fuel < 0:
        STATE.refuel()
    head = form.car
    kind = type(head)  # pyright: ignore[reportUnknownVariableType]
    if kind is Symbol:
        found = SPECIAL.get(head) or NATIVE.get(head)
        if found is not None:
            if AT.checks and head.name in _ASSIGNING:
                at = form.cdr
                while isinstance(at, Cons):
                    hygiene().note_use(at, scope)
                    at = at.cdr
            return found(form, scope, tails)
        local = scope.function(head)
        if local is not None:
            if type(local) is LocalMacro:
                return expand_call(form, local.function, head.name, scope, tails)
            local.var.touch(scope.level)
            if AT.checks:
                hygiene().note_call(form, local)
            return CallLocal(local, arguments(form.cdr, scope, form), site_here())
        if head.macro is not None:
            return expand_call(form, head.macro, head.name, scope, tails)
        elsewhere = head.function is None and (head.name in OPERATORS or head.name in ABSENT)
        try:
            nodes = arguments(form.cdr, scope, form)
        except LispError as failure:
            if not elsewhere:
                raise
            return Defined(CallGlobal(head, [], site_here(), scope), failure)
        inline = INLINE.get(head)
        if inline is not None:
            made = inline(nodes, site_here())
            if made is not None:
                return made
        function = head.function
        if function is not None and head.module is CL:
            return CallFixed(function, nodes, site_here())
        session = STATE.session
        site = site_here()
        if function is not None:
            return CallGlobal(head, nodes, site)
        if session is not None:
            session.note_call(head, site, scope)
        made = CallGlobal(head, nodes, site, scope)
        return Defined(made) if elsewhere else made
    if isinstance(head, Function):
        return CallFixed(head, arguments(form.cdr, scope, form), site_here())
    if isinstance(head, Operator):
        return head.analyze(form, scope, tails)
    if isinstance(head, Cons) and isinstance(head.car, Symbol) and head.car.name == "lambda":
        function_node = analyze(head, scope)
        return CallValue(function_node, arguments(form.cdr, scope, form), site_here())
    raise malformed(f"{brief(head)} is not a function name", form)


def expand_call(form: Any, macro: Function, name: str, scope: Scope, tails: Tails) -> Node:
    """Expand a macro call and analyse its expansion."""
    saved, saved_checks = AT.expansions, AT.checks
    expansion = expand_once(form, macro, scope)
    place = AT.place
    use = Span(place[0], place[1], place[2]) if place is not None else None
    AT.expansions = ((name, use), *saved)
    AT.checks = is_checked(form, macro)
    AT.depth += 1
    try:
        if AT.depth > STATE.limits.expansions:
            raise limit("expansion", STATE.limits.expansions)
        return analyze(expansion, scope, tails)
    finally:
        AT.depth -= 1
        AT.expansions, AT.checks = saved, saved_checks


def is_checked(form: Any, macro: Function) -> bool:
    """Whether what a macro call expands into is looked at for captured names: the macro is the
    user's own and global."""
    origin = macro.origin
    return form.car.macro is macro and type(origin) is Span and not origin.source.standard


def expand_once(form: Any, macro: Function, scope: Any) -> Any:
    """The expansion of a macro call, once. Errors of the macro point at its use."""
    STATE.site = site = site_here()
    STATE.charge(1)
    try:
        expansion = macro.call(form, scope)
        check_finite(expansion)
    except LispError as error:
        error.uses.append((macro.name, site))
        raise
    if AT.record is not None:
        AT.record[id(form)] = (form, expansion)
    return expansion


def run_node(node: Node) -> Any:
    """Evaluate an analysed top-level form."""
    from sexpgpu.lisp.scope import Frame

    frame = Frame()
    run = node.emit(frame)
    return run([None] * frame.size)


def evaluate(form: Any, scope: Scope | None = None) -> Any:
    """Evaluate a form in the null lexical environment: its value, or an MV."""
    from sexpgpu.lisp.toplevel import evaluate_top_level

    return evaluate_top_level(form, scope)

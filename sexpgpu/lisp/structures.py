"""defstruct: constructors (keyword and BOA), accessors, predicate and copier of a structure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.analyze import (
    Tails,
    native,
)
from sexpgpu.lisp.builtins.designators import list_items
from sexpgpu.lisp.calls import call_values
from sexpgpu.lisp.definitions import definable
from sexpgpu.lisp.defstruct_form import (
    DEFINITIONS,
    Definition,
    layout_of,
    parse_defstruct,
    symbol_here,
)
from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.evaluation import redefinable
from sexpgpu.lisp.functions import lambda_node
from sexpgpu.lisp.journal import keep, keep_entry
from sexpgpu.lisp.lambda_lists import KEYWORDS
from sexpgpu.lisp.nodes import (
    Custom,
    Node,
    Run,
    single,
)
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.scope import Frame, Scope
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import (
    CL,
    NIL,
    PRELUDE,
    TENSOR,
    Cons,
    Function,
    Structure,
    StructureType,
    Symbol,
    T,
    Vector,
    keyword,
    lisp_list,
    new_cons,
)


def _target(name: Symbol) -> Symbol:
    """The symbol that gets a function of a structure: no operator of CL; the module's own where a
    lower layer has one of that name."""
    redefinable(name)
    module = STATE.module
    if module is None or module is name.module or name.module not in (PRELUDE, TENSOR):
        return name
    own = module.shadows[name] = module.own(name.name)
    return own


@native("defstruct")
def _defstruct(form: Any, scope: Scope, tails: Tails) -> Node:
    """Defines a structure: constructor, predicate, accessors, copier."""
    made = parse_defstruct(form)
    symbol = definable(made.name, "structure", form)
    slots = tuple(slot.name for slot in made.slots)
    include = made.include.kind if made.include is not None else None
    kind = made.kind = StructureType(symbol, slots, include)
    if made.include is not None and include is not None:
        kind.print_function = include.print_function
    layout = layout_of(made) if made.type else []
    build = _builder(made, kind, layout)
    nodes: list[tuple[Symbol, Node]] = []
    for name, boa in made.constructors:
        nodes.append((_target(name), _constructor(made, name, boa, build, scope, form)))
    made.predicate = _target(made.predicate) if made.predicate is not None else None
    made.copier = _target(made.copier) if made.copier is not None else None
    printer: Node | None = None
    if made.printer is not None and made.printer[1] is not None:
        from sexpgpu.lisp.analyze import analyze

        printer = analyze(lisp_list([CL.own("function"), made.printer[1]]), scope)
    depth = made.printer[0] == "print-function" if made.printer is not None else False
    # Visible while the rest of the same top-level form is analysed.
    keep_entry(DEFINITIONS, symbol)
    DEFINITIONS[symbol] = made
    if not made.type:
        _declare_type(kind)

    def make(frame: Frame) -> Run:
        runs = [(name, single(node, frame)) for name, node in nodes]
        run_printer = single(printer, frame) if printer is not None else None

        def run(env: Any) -> Any:
            for name, one in runs:
                keep(name)
                name.function = one(env)
                name.macro = None
            _accessors(made, kind, layout)
            if run_printer is not None:
                kind.print_function = _printer(run_printer(env), depth)
            return symbol

        return run

    return Custom(make, False)


def _printer(function: Any, depth: bool) -> Function:
    """The function of (structure stream) that prints an instance."""
    if not depth:
        return function

    def call(structure: Any, stream: Any) -> Any:
        return call_values(function, structure, stream, 0)

    return Function("print-function", call, 2, 2)


def _declare_type(kind: StructureType) -> None:
    from sexpgpu.lisp.builtins.type_specifiers import STRUCTURE_TYPES, define_structure_type

    keep_entry(STRUCTURE_TYPES, kind.name)
    define_structure_type(kind)


def _builder(made: Definition, kind: StructureType, layout: list[Any]) -> Callable[..., Any]:
    """The Python callable that makes an instance of its slots' values."""
    if not made.type:
        return lambda *items: Structure(kind, list(items))
    order = {slot.name: i for i, slot in enumerate(made.slots)}

    def elements(items: tuple[Any, ...]) -> list[Any]:
        return [
            NIL
            if place is None
            else place.car
            if isinstance(place, Cons)
            else items[order[place.name]]
            for place in layout
        ]

    if made.type == "list":
        return lambda *items: lisp_list(elements(items))
    return lambda *items: Vector(elements(items))


def _constructor(
    made: Definition,
    name: Symbol,
    boa: Any,
    build: Callable[..., Any],
    scope: Scope,
    form: Any,
) -> Node:
    builder = Function(f"{name.name} builder", build, 0, None)
    if boa is None:
        # The defaults are evaluated in the scope of the defstruct, not of the other slots.
        hidden = [Symbol(slot.name) for slot in made.slots]
        keys = [
            lisp_list([lisp_list([keyword(slot.name), h]), default])
            for slot, h, default in zip(made.slots, hidden, made.defaults, strict=True)
        ]
        lambda_list = new_cons(CL.own("&key"), lisp_list(keys)) if keys else NIL
        return _named(
            name, lambda_list, lisp_list([new_cons(builder, lisp_list(hidden))]), scope, form
        )
    by_name = {slot.name: i for i, slot in enumerate(made.slots)}
    seen: set[int] = set()
    result: list[Any] = []
    state = ""
    at = boa
    while isinstance(at, Cons):
        item = at.car
        at = at.cdr
        if isinstance(item, Symbol) and item.name in KEYWORDS:
            state = item.name
            result.append(item)
            continue
        target = item
        while isinstance(target, Cons):
            target = (
                target.car
                if state != "&key" or not isinstance(target.car, Cons)
                else (target.car.cdr.car)
            )
        index = by_name.get(target.name) if isinstance(target, Symbol) else None
        if index is not None:
            seen.add(index)
            if state in ("&optional", "&key", "&aux"):
                default = made.defaults[index]
                if not isinstance(item, Cons):
                    item = lisp_list([item, default]) if state != "&aux" else item
                elif item.cdr is NIL:
                    item = lisp_list([item.car, default])
                if state == "&aux" and not isinstance(item, Cons):
                    item = lisp_list([item, NIL])
        result.append(item)
    rest = [i for i in range(len(made.slots)) if i not in seen]
    names = {t.name: t for t in _targets(result)}
    values = [
        made.defaults[i] if i in rest else names[made.slots[i].name] for i in range(len(made.slots))
    ]
    return _named(
        name, lisp_list(result, at), lisp_list([new_cons(builder, lisp_list(values))]), scope, form
    )


def _targets(items: list[Any]) -> list[Symbol]:
    found: list[Symbol] = []
    for item in items:
        target = item
        if isinstance(target, Cons):
            target = target.car
            if isinstance(target, Cons):
                target = target.cdr.car
        if isinstance(target, Symbol) and target.name not in KEYWORDS:
            found.append(target)
    return found


def _named(name: Symbol, lambda_list: Any, forms: Any, scope: Scope, form: Any) -> Node:
    return lambda_node(name.name, lambda_list, forms, scope, None, form)


def _accessors(made: Definition, kind: StructureType, layout: list[Any]) -> None:
    """Define the accessors, the predicate and the copier."""
    for index, slot in enumerate(made.slots):
        name = _target(symbol_here(made.conc + slot.name))
        included = made.include
        if included is not None and included.conc == made.conc and index < len(included.slots):
            continue
        keep(name)
        place = index if not made.type else layout.index(slot)
        get, put = _slot_functions(made, kind, place, slot.name)
        name.function = Function(name.name, get, 1, 1, f"({made.name.name})")
        name.macro = None
        name.setf = None
        if not made.read_only[index]:
            name.setf = Function(f"(setf {name.name})", put, 2, 2, f"(new {made.name.name})")
    if made.predicate is not None:
        keep(made.predicate)
        made.predicate.function = Function(
            made.predicate.name, _predicate(made, kind, layout), 1, 1, "(object)"
        )
    if made.copier is not None:
        keep(made.copier)
        made.copier.function = Function(
            made.copier.name, _copier(made, kind), 1, 1, f"({made.name.name})"
        )


def _slot_functions(
    made: Definition, kind: StructureType, index: int, slot: str
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    if not made.type:

        def get(value: Any) -> Any:
            if type(value) is not Structure or (
                value.type is not kind and not value.type.is_a(kind)
            ):
                raise type_error(value, made.name)
            return value.items[index]

        def put(new: Any, value: Any) -> Any:
            if type(value) is not Structure or not value.type.is_a(kind):
                raise type_error(value, made.name)
            value.items[index] = new
            return new

        return get, put
    if made.type == "list":

        def get_list(value: Any) -> Any:
            return _cell(value, index).car

        def put_list(new: Any, value: Any) -> Any:
            _cell(value, index).car = new
            return new

        return get_list, put_list

    def get_vector(value: Any) -> Any:
        return _vector(value, index).items[index]

    def put_vector(new: Any, value: Any) -> Any:
        _vector(value, index).items[index] = new
        return new

    return get_vector, put_vector


def _cell(value: Any, index: int) -> Cons:
    at = value
    for _ in range(index):
        at = at.cdr if isinstance(at, Cons) else NIL
    if not isinstance(at, Cons):
        raise type_error(value, "list")
    return at


def _vector(value: Any, index: int) -> Vector:
    if not isinstance(value, Vector) or index >= len(value.items):
        raise type_error(value, "vector")
    return value


def _predicate(made: Definition, kind: StructureType, layout: list[Any]) -> Callable[[Any], Any]:
    if not made.type:

        def test(value: Any) -> Any:
            return T if type(value) is Structure and value.type.is_a(kind) else NIL

        return test
    place = max((i for i, item in enumerate(layout) if isinstance(item, Cons)), default=0)

    def test_typed(value: Any) -> Any:
        if made.type == "list":
            at = value
            for _ in range(place):
                at = at.cdr if isinstance(at, Cons) else NIL
            return T if isinstance(at, Cons) and at.car is made.name else NIL
        if not isinstance(value, Vector) or place >= len(value.items):
            return NIL
        return T if value.items[place] is made.name else NIL

    return test_typed


def _copier(made: Definition, kind: StructureType) -> Callable[[Any], Any]:
    def copy(value: Any) -> Any:
        if made.type == "list":
            return lisp_list(list_items(value))
        if made.type == "vector":
            if not isinstance(value, Vector):
                raise type_error(value, "vector")
            return Vector(list(value.items))
        if type(value) is not Structure or not value.type.is_a(kind):
            raise type_error(value, made.name)
        return Structure(value.type, list(value.items))

    return copy


@builtin("copy-structure", "(structure)")
def copy_structure(structure: Any) -> Any:
    """A structure with the same values in its slots."""
    if type(structure) is not Structure:
        raise type_error(structure, "structure-object")
    return Structure(structure.type, list(structure.items))

"""What a defstruct form says: its name, its options, its slots and those it includes."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.analyze import items_of, malformed, parts
from sexpgpu.lisp.errors import simple_error
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import (
    NIL,
    Char,
    Cons,
    String,
    StructureType,
    Symbol,
    keyword,
    new_cons,
)
from sexpgpu.reader.printer import brief


class Definition:
    """What a defstruct form says."""

    __slots__ = (
        "conc",
        "constructors",
        "copier",
        "defaults",
        "include",
        "initial",
        "kind",
        "name",
        "named",
        "predicate",
        "printer",
        "read_only",
        "slots",
        "type",
    )

    def __init__(self, name: Symbol) -> None:
        self.name = name
        self.conc = f"{name.name}-"
        self.constructors: list[tuple[Symbol, Any]] = []  # name, BOA list or None
        self.copier: Symbol | None = None
        self.predicate: Symbol | None = None
        self.include: Definition | None = None
        self.printer: tuple[str, Any] | None = None
        self.type: str | None = None  # "list" or "vector"
        self.named = False
        self.initial = 0
        self.slots: list[Symbol] = []
        self.defaults: list[Any] = []
        self.read_only: list[bool] = []
        self.kind: StructureType | None = None


DEFINITIONS: dict[Symbol, Definition] = {}


def symbol_here(text: str) -> Symbol:
    """The symbol of that name in the current module."""
    module = STATE.module
    if module is None:
        return Symbol(text)
    return module.intern(text)


def _name(value: Any) -> str:
    if isinstance(value, Symbol):
        return value.name
    if isinstance(value, String):
        return value.text
    if isinstance(value, Char):
        return chr(value.code)
    raise malformed(f"{brief(value)} is not a name")


def parse_defstruct(form: Any) -> Definition:
    """What the form says. Raises a program-error at what is no defstruct."""
    from sexpgpu.lisp.builtins.type_specifiers import STAR, typep

    cells = parts(form, 1, None, "(defstruct name slot…) or (defstruct (name option…) slot…)")
    head = cells[0]
    options = items_of(head.cdr) if isinstance(head, Cons) else []
    name = head.car if isinstance(head, Cons) else head
    if not isinstance(name, Symbol) or name is NIL:
        raise malformed(f"{brief(name)} is not a structure name", form)
    made = Definition(name)
    made.copier = symbol_here(f"copy-{name.name}")
    made.predicate = symbol_here(f"{name.name}-p")
    default_constructor = True
    given_predicate = False
    overrides: list[Any] = []
    element: Any = STAR
    for option in options:
        key = option.car if isinstance(option, Cons) else option
        values = items_of(option.cdr) if isinstance(option, Cons) else []
        if not isinstance(key, Symbol):
            raise malformed(f"{brief(option)} is not a defstruct option", form)
        word = key.name
        if word == "conc-name":
            made.conc = _name(values[0]) if values and values[0] is not NIL else ""
        elif word == "constructor":
            if not values:
                continue
            default_constructor = False
            if len(values) > 1 or values[0] is not NIL:
                made.constructors.append((values[0], values[1] if len(values) > 1 else None))
        elif word == "copier":
            if values:
                made.copier = values[0] if values[0] is not NIL else None
        elif word == "predicate":
            if values:
                given_predicate = True
                made.predicate = values[0] if values[0] is not NIL else None
        elif word == "include":
            found = DEFINITIONS.get(values[0]) if values else None
            if found is None:
                raise malformed(f"{brief(option)}: there is no such structure", form)
            made.include = found
            overrides = values[1:]
        elif word in ("print-function", "print-object"):
            made.printer = (word, values[0] if values else None)
        elif word == "type":
            kind = values[0] if values else NIL
            base = kind.car if isinstance(kind, Cons) else kind
            if not isinstance(base, Symbol) or base.name not in ("list", "vector"):
                raise malformed(f"{brief(option)}: the type is list or vector", form)
            made.type = base.name
            if isinstance(kind, Cons) and isinstance(kind.cdr, Cons):
                element = kind.cdr.car
        elif word == "named":
            made.named = True
        elif word == "initial-offset":
            made.initial = values[0]
        else:
            raise malformed(f"defstruct has no option {brief(key)}", form)
    if default_constructor or any(
        (isinstance(o, Symbol) and o.name == "constructor")
        or (isinstance(o, Cons) and o.car.name == "constructor" and o.cdr is NIL)
        for o in options
    ):
        made.constructors.append((symbol_here(f"make-{name.name}"), None))
    if made.type and not made.named:
        if given_predicate and made.predicate is not None:
            raise simple_error(f"defstruct {name.name}: a predicate needs :named")
        made.predicate = None
    if made.type and made.named and element is not STAR and not typep(name, element):
        raise simple_error(f"defstruct {name.name}: :named needs elements that can be symbols")
    if made.include is not None:
        _inherit(made, overrides, form)
    slots = cells[1:]
    if slots and isinstance(slots[0], String):
        slots = slots[1:]
    for spec in slots:
        _add_slot(made, spec, form)
    return made


def _inherit(made: Definition, overrides: list[Any], form: Any) -> None:
    assert made.include is not None
    made.slots = list(made.include.slots)
    made.defaults = list(made.include.defaults)
    made.read_only = list(made.include.read_only)
    for override in overrides:
        name = override.car if isinstance(override, Cons) else override
        at = next((i for i, s in enumerate(made.slots) if s.name == name.name), None)
        if at is None:
            raise malformed(f"{brief(name)} is no slot of {made.include.name.name}", form)
        made.defaults[at] = (
            override.cdr.car
            if isinstance(override, Cons) and isinstance(override.cdr, Cons)
            else NIL
        )


def _add_slot(made: Definition, spec: Any, form: Any) -> None:
    name = spec.car if isinstance(spec, Cons) else spec
    if not isinstance(name, Symbol):
        raise malformed(f"{brief(spec)} is not a slot", form)
    if any(slot.name == name.name for slot in made.slots):
        raise malformed(f"the slot {name.name} occurs twice", form)
    default: Any = NIL
    read_only = False
    if isinstance(spec, Cons) and isinstance(spec.cdr, Cons):
        default = spec.cdr.car
        at = spec.cdr.cdr
        while isinstance(at, Cons) and isinstance(at.cdr, Cons):
            if at.car is keyword("read-only"):
                read_only = at.cdr.car is not NIL
            at = at.cdr.cdr
    made.slots.append(name)
    made.defaults.append(default)
    made.read_only.append(read_only)


def layout_of(made: Definition) -> list[Any]:
    """For a :type structure, of each element: the slot, a list of the structure's name, or None
    where :initial-offset leaves it out."""
    before = layout_of(made.include) if made.include is not None else []
    added = made.slots[len(made.include.slots) if made.include is not None else 0 :]
    layout: list[Any] = [*before, *([None] * made.initial)]
    if made.named:
        layout.append(new_cons(made.name, NIL))
    return [*layout, *added]

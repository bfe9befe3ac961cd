"""The values of the Lisp, as Python objects. Knows nothing of evaluation or tensors.

| Lisp | Python |
| --- | --- |
| integer, ratio, float | int, fractions.Fraction, float (never bool) |
| nil, t, symbols, keywords | Symbol (NIL and T are singletons) |
| conses | Cons; SrcCons when the reader made it (it has a span) |
| strings, characters, vectors | String, Char, Vector |
| hash tables, structures, conditions | HashTable, Structure, Condition |
| functions | Function |
| several values | MV, only when the count is not 1 |
| values of other layers (tensors, models, optimizers) | subclasses of Foreign |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from sexpgpu.source import Span

if TYPE_CHECKING:
    from sexpgpu.source import Source


class Unbound:
    """The value of a symbol that has none."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "#<unbound>"


UNBOUND = Unbound()


class Module:
    """The only namespace: a table of symbols, inherited layers, aliases, and exports."""

    __slots__ = (
        "aliases",
        "deferred",
        "exports",
        "inherits",
        "name",
        "path",
        "shadows",
        "symbols",
        "version",
        "wanted",
    )

    def __init__(self, name: str, inherits: tuple[Module, ...] = (), path: str | None = None):
        self.name = name
        self.path = path
        self.inherits = inherits
        self.symbols: dict[str, Symbol] = {}
        self.aliases: dict[str, Module] = {}
        self.exports: set[str] | None = None  # None: everything that is not %private
        self.shadows: dict[Symbol, Symbol] = {}  # inherited symbol -> this module's own
        self.version = 0  # raised when a name came to mean another symbol
        self.deferred: dict[str, Any] = {}  # definitions that wait until their name is met
        self.wanted: list[Any] = []  # those whose name was met

    def local(self, name: str) -> Symbol | None:
        """The symbol of that name in this module itself, or None."""
        found = self.symbols.get(name)
        if found is None and name in self.deferred:
            found = self.symbols[name] = Symbol(name, self)
            self.wanted.append(self.deferred[name])
        return found

    def public(self) -> list[str]:
        """The names that other modules may see."""
        return [
            name
            for name in {**self.symbols, **self.deferred}
            if not name.startswith("%") and (self.exports is None or name in self.exports)
        ]

    def find(self, name: str) -> Symbol | None:
        """The symbol of that name that is visible here, or None."""
        found = self.local(name)
        if found is None:
            for layer in self.inherits:
                found = layer.symbols.get(name)
                if found is not None:
                    return found
        return found

    def intern(self, name: str) -> Symbol:
        """The visible symbol of that name, made here when there is none."""
        found = self.find(name)
        if found is None:
            found = self.symbols[name] = Symbol(name, self)
        return found

    def own(self, name: str) -> Symbol:
        """The symbol of that name that belongs to this module, made when there is none."""
        found = self.local(name)
        if found is None:
            found = self.symbols[name] = Symbol(name, self)
        return found

    def __repr__(self) -> str:
        return f"Module({self.name!r})"


class Symbol:
    """A symbol: global value, function, macro and property slots."""

    __slots__ = (
        "constant",
        "function",
        "macro",
        "module",
        "name",
        "plist",
        "setf",
        "special",
        "symbol_macro",
        "value",
    )

    def __init__(self, name: str, module: Module | None = None) -> None:
        self.name = name
        self.module = module  # None: uninterned
        self.value: Any = UNBOUND
        self.special = False
        self.constant = False
        self.function: Function | None = None
        self.macro: Function | None = None
        self.symbol_macro: Any = UNBOUND
        self.setf: Any = None  # (setf name) function or expander
        self.plist: Any = None  # NIL when it was never set

    def __repr__(self) -> str:
        return self.name


CL = Module("common-lisp")
KEYWORD = Module("keyword")
TENSOR = Module("tensor", (CL,))  # tensor builtins and def-forms; filled by trace/ and forms/
PRELUDE = Module("prelude", (TENSOR, CL))

NIL = CL.own("nil")
T = CL.own("t")
for _symbol in (NIL, T):
    _symbol.value = _symbol
    _symbol.constant = True


def keyword(name: str) -> Symbol:
    """The keyword of that name (without the colon)."""
    found = KEYWORD.symbols.get(name)
    if found is None:
        found = KEYWORD.symbols[name] = Symbol(name, KEYWORD)
        found.value = found
        found.constant = True
    return found


class Cons:
    """A pair. It is made empty, since Python calls no `__init__` then; `new_cons` fills it."""

    __slots__ = ("car", "cdr")

    car: Any
    cdr: Any

    def __iter__(self) -> Iterator[Any]:
        """The elements of a proper list; stops at an atom in the tail."""
        at: Any = self
        count = 0
        while isinstance(at, Cons):
            yield at.car
            at = at.cdr
            count += 1
            if count & 1023 == 0:
                from sexpgpu.lisp.builtins.designators import walked

                walked(at, count)  # a circular list must end


class SrcCons(Cons):
    """A pair that the reader made: it knows its place, and that of an atom in its car.

    `place` is (source, start, end, start of the car, its end); the car's are -1 when it is a
    list, which has a place of its own. `end` is the end of the whole list, on later conses too.
    """

    __slots__ = ("place",)

    def __init__(self, car: Any, cdr: Any, place: tuple[Source, int, int, int, int]) -> None:
        self.car = car
        self.cdr = cdr
        self.place = place

    @property
    def span(self) -> Span:
        """The whole list on its first cons; from here to the end on later ones."""
        place = self.place
        return Span(place[0], place[1], place[2])

    @property
    def car_span(self) -> Span | None:
        """The place of an atom in the car, None when the car is a list."""
        place = self.place
        return Span(place[0], place[3], place[4]) if place[3] >= 0 else None


class TemplateCons(Cons):
    """A pair that the template of a macro made. `constant`: the car stands in the template's text
    and came by no comma."""

    __slots__ = ("constant",)

    def __init__(self, car: Any, cdr: Any, constant: bool) -> None:
        self.car = car
        self.cdr = cdr
        self.constant = constant


def new_cons(car: Any, cdr: Any) -> Cons:
    """A new pair."""
    cell = Cons()
    cell.car = car
    cell.cdr = cdr
    return cell


def lisp_list(items: Any, tail: Any = NIL) -> Any:
    """A Lisp list of the items."""
    result = tail
    if type(items) not in (list, tuple):
        items = list(items)
    for item in reversed(items):
        cell = Cons()
        cell.car = item
        cell.cdr = result
        result = cell
    return result


def python_list(value: Any) -> list[Any]:
    """The elements of a proper list (NIL included). The caller has checked that it is one."""
    result: list[Any] = []
    while value is not NIL:
        result.append(value.car)
        value = value.cdr
    return result


class Char:
    """A character. Interned: compare with `is`. Make them with `char()`."""

    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        self.code = code


_CHARS: dict[int, Char] = {}


def char(code: int | str) -> Char:
    """The character of a code point or of a one-letter text."""
    if isinstance(code, str):
        code = ord(code)
    found = _CHARS.get(code)
    if found is None:
        found = _CHARS[code] = Char(code)
    return found


class String:
    """A mutable string of characters: a Python text that is replaced on change.

    `fill` is the fill pointer, or None. A literal may not be changed.
    """

    __slots__ = ("adjustable", "fill", "literal", "text")

    def __init__(self, text: str, literal: bool = False) -> None:
        self.text = text
        self.literal = literal
        self.fill: int | None = None
        self.adjustable = False

    def __repr__(self) -> str:
        return f"String({self.text!r})"


class Vector:
    """A vector of any values. `fill` is the fill pointer, or None."""

    __slots__ = ("adjustable", "fill", "items", "literal")

    def __init__(self, items: list[Any], literal: bool = False) -> None:
        self.items = items
        self.literal = literal
        self.fill: int | None = None
        self.adjustable = False


class MV(tuple[Any, ...]):
    """Several values (or none). Never of length 1, never stored in a variable or a cons."""

    __slots__ = ()


class Function:
    """A function: `call(*arguments)` gives its value or an MV.

    `minimum` and `maximum` (None: any) are the counts of arguments accepted; `call` may rely on
    them having been checked by the caller (`lisp.calls.check_count` and the compiled call nodes).
    """

    __slots__ = ("call", "doc", "lambda_list", "maximum", "minimum", "name", "origin")

    def __init__(
        self,
        name: str,
        call: Callable[..., Any],
        minimum: int = 0,
        maximum: int | None = None,
        lambda_list: str = "",
        doc: str = "",
        origin: Any = None,
    ) -> None:
        self.name = name
        self.call = call
        self.minimum = minimum
        self.maximum = maximum
        self.lambda_list = lambda_list
        self.doc = doc
        self.origin = origin  # the span of its definition, None for builtins


class Condition:
    """A condition object. `type` names its most specific type (a Python text for the standard
    ones, a Symbol for those of define-condition); slots are by name (lower case text)."""

    __slots__ = ("slots", "type")

    def __init__(self, type: Any, slots: dict[str, Any]) -> None:
        self.type = type
        self.slots = slots


class StructureType:
    """What defstruct defines: a name, slot names, and the type it includes."""

    __slots__ = ("include", "name", "print_function", "slots")

    def __init__(
        self, name: Symbol, slots: tuple[str, ...], include: StructureType | None = None
    ) -> None:
        self.name = name
        self.slots = slots  # all of them, the included ones first
        self.include = include
        self.print_function: Any = None  # a function of (structure stream), or None

    def is_a(self, other: StructureType) -> bool:
        at: StructureType | None = self
        while at is not None:
            if at is other:
                return True
            at = at.include
        return False


class Structure:
    """An instance of a structure type: the values of its slots, in order."""

    __slots__ = ("items", "type")

    def __init__(self, type: StructureType, items: list[Any]) -> None:
        self.type = type
        self.items = items


class Foreign:
    """A value that another layer brings into the Lisp (a tensor, a model, an optimizer).

    The Lisp asks it only what is below; each answer has an ordinary default.
    """

    __slots__ = ()

    lisp_type = "foreign"  # the type's name, for typep, type-of and messages

    def lisp_truth(self) -> bool:
        """Its truth in a test position. A tensor raises E-FLOW-001 here."""
        return True

    def lisp_print(self) -> str:
        """The text that the printer writes."""
        return f"#<{self.lisp_type}>"

    def lisp_operate(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """The result of a CL function of numbers that was given this value among its arguments.
        NotImplemented: it is not for that function (the Lisp raises its type-error)."""
        return NotImplemented

    def lisp_advice(self, expected: str, function: str = "") -> str | None:
        """What to write where a value of that type was wanted and this one given, or None;
        `function` is the builtin that wanted it, where one did."""
        return None

    def lisp_function(self) -> Function | None:
        """The function it acts as when called (a model), or None."""
        return None

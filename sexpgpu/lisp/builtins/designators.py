"""What builtins take for granted: function, sequence, string and bound designators.

Knows the values and the calling convention, nothing of the operators. Lisp functions are called
from plain Python loops only, never through Python's own callbacks (`sorted`, `map`), because those
use the C stack.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any

from sexpgpu.lisp.builtins.equality import FAST_TESTS, active_items, eql, text_of_string
from sexpgpu.lisp.calls import as_function, check_count
from sexpgpu.lisp.errors import index_error, literal_change, program_error, type_error
from sexpgpu.lisp.state import CELL, CONS, STATE, limit
from sexpgpu.lisp.values import (
    MV,
    NIL,
    Char,
    Cons,
    Foreign,
    Function,
    SrcCons,
    String,
    Symbol,
    T,
    Vector,
    char,
    lisp_list,
)

Unary = Callable[[Any], Any]
Binary = Callable[[Any, Any], Any]
Test = Callable[[Any], bool]


def true(value: Any) -> bool:
    """The truth of a value in a test. A tensor raises: it has none."""
    if value is NIL:
        return False
    return value.lisp_truth() if isinstance(value, Foreign) else True


def truth(value: bool) -> Any:
    """T or NIL."""
    return T if value else NIL


def given(value: Any) -> bool:
    """Whether an optional argument was given and is not nil."""
    return value is not None and value is not NIL


# ---------------------------------------------------------------- functions


def unary(designator: Any) -> Unary:
    """A Python function of one argument that calls the Lisp function, for its primary value."""
    function = as_function(designator)
    check_count(function, 1)

    def invoke(a: Any) -> Any:
        call = function.call
        result = call(a)
        if type(result) is MV:
            return result[0] if result else NIL
        return result

    return invoke


def binary(designator: Any) -> Binary:
    """A Python function of two arguments that calls the Lisp function, for its primary value."""
    function = as_function(designator)
    check_count(function, 2)

    def invoke(a: Any, b: Any) -> Any:
        call = function.call
        result = call(a, b)
        if type(result) is MV:
            return result[0] if result else NIL
        return result

    return invoke


def n_ary(designator: Any, count: int) -> Callable[..., Any]:
    """A Python function of `count` arguments that calls the Lisp function."""
    if count == 1:
        return unary(designator)
    if count == 2:
        return binary(designator)
    function = as_function(designator)
    check_count(function, count)

    def invoke(*arguments: Any) -> Any:
        result = function.call(*arguments)
        if type(result) is MV:
            return result[0] if result else NIL
        return result

    return invoke


def key_function(designator: Any) -> Unary | None:
    """The function of a `:key`, or None for the identity."""
    return unary(designator) if given(designator) else None


def _plain_predicate(function: Function, negate: bool) -> Test:
    check_count(function, 1)
    yes, no = not negate, negate

    def invoke(element: Any) -> bool:
        call = function.call
        result = call(element)
        if result is NIL:
            return no
        if result is T:
            return yes
        if type(result) is MV:
            result = result[0] if result else NIL
        return true(result) is yes

    return invoke


def predicate(designator: Any, key: Any = None, negate: bool = False) -> Test:
    """The test of a `-if` (or `-if-not`) function: predicate applied to the element's key."""
    get = key_function(key)
    if get is None:
        return _plain_predicate(as_function(designator), negate)
    call = unary(designator)
    if negate:
        return lambda element: not true(call(get(element)))
    return lambda element: true(call(get(element)))


def two_argument_test(test: Any, test_not: Any) -> Callable[[Any, Any], bool]:
    """The Python test of `:test` and `:test-not` (default eql), of (item, element)."""
    if given(test_not):
        if given(test):
            raise program_error(":test and :test-not were both given")
        call = binary(test_not)
        return lambda a, b: not true(call(a, b))
    if not given(test):
        return eql
    function = as_function(test)
    fast = FAST_TESTS.get(function)
    if fast is not None:
        return fast
    call = binary(function)
    return lambda a, b: true(call(a, b))


def item_test(item: Any, test: Any, test_not: Any, key: Any = None) -> Test:
    """The test of one item against elements' keys."""
    compare = two_argument_test(test, test_not)
    get = key_function(key)
    if compare is eql and isinstance(item, Symbol | Char | Cons):
        if get is None:
            return lambda element: element is item
        return lambda element: get(element) is item
    if get is None:
        return lambda element: compare(item, element)
    return lambda element: compare(item, get(element))


# ---------------------------------------------------------------- numbers


def index_argument(value: Any, what: str = "unsigned-byte") -> int:
    """A non-negative integer argument."""
    if not isinstance(value, int) or value < 0:
        raise type_error(value, what)
    return value


def integer_argument(value: Any) -> int:
    """An integer argument."""
    if not isinstance(value, int):
        raise type_error(value, "integer")
    return value


# ---------------------------------------------------------------- lists

_WALK_CHARGE = 1024


def walked(at: Any, count: int) -> None:
    """Charge 1024 more elements of a list that is walked to its end, of which `count` have come
    and `at` is next: little for an ordinary list, in full for a long one. A circular list is a
    type-error, soon."""
    STATE.charge(_WALK_CHARGE if count > 1 << 16 else _WALK_CHARGE >> 3)
    if is_circular_after(at, count):
        raise type_error(at, "list", "the list is circular")
    if count > STATE.limits.objects:
        raise limit("objects", STATE.limits.objects)


def is_circular_after(at: Any, count: int) -> bool:
    """Whether a list, of which `count` elements have been walked, comes back to where it was: asked
    now and then (Floyd's two runners), and no further than costs little beside the walk."""
    if count & (count - 1) or count <= 1 << 12:
        return False
    slow = at
    for _ in repeat(None, count >> 3):
        if not (isinstance(at, Cons) and isinstance(at.cdr, Cons)):
            return False
        at, slow = at.cdr.cdr, slow.cdr
        if at is slow:
            return isinstance(at, Cons)
    return False


def _gathered(value: Any, ends: Callable[[Any, int], object]) -> tuple[list[Any], Any]:
    """The elements of a list, and what stands at its end. `ends` is asked now and then, of the next
    cons and how many have come, whether to go no further: the end is that cons then."""
    items: list[Any] = []
    append = items.append
    at = value
    while True:
        try:
            for _ in repeat(None, _WALK_CHARGE):
                append(at.car)
                at = at.cdr
        except AttributeError:  # no cons has come: cheaper than to ask each
            return items, at
        if ends(at, len(items)):
            return items, at


def list_items(value: Any) -> list[Any]:
    """The elements of a proper list; a dotted list or an atom is a type-error."""
    items, end = _gathered(value, walked)
    if end is not NIL:
        raise type_error(end, "list")
    return items


def proper_items(value: Any) -> list[Any] | None:
    """The elements of a proper list; None of a dotted or circular one, and of what is none."""
    items, end = _gathered(value, _circular_or_walked)
    return items if end is NIL else None


def unwalked_items(value: Any) -> list[Any] | None:
    """As `proper_items`, but nothing is charged: the caller does."""
    items, end = _gathered(value, is_circular_after)
    return items if end is NIL else None


def _circular_or_walked(at: Any, count: int) -> object:
    return is_circular_after(at, count) or walked(at, count)


def list_conses(value: Any) -> list[Cons]:
    """The conses of a proper list."""
    conses: list[Cons] = []
    at = value
    while isinstance(at, Cons):
        conses.append(at)
        at = at.cdr
        if len(conses) & (_WALK_CHARGE - 1) == 0:
            walked(at, len(conses))
    if at is not NIL:
        raise type_error(at, "list")
    return conses


def new_list(items: list[Any], tail: Any = NIL) -> Any:
    """A Lisp list of the items, its conses charged."""
    if len(items) > 32:
        STATE.charge_memory(len(items) * CONS)
    return lisp_list(items, tail)


def changeable_cons(value: Any) -> Cons:
    """A cons that may be changed: not one that the reader made."""
    if type(value) is SrcCons:
        raise literal_change(value)
    if isinstance(value, Cons):
        return value
    raise type_error(value, "cons")


# ---------------------------------------------------------------- sequences


def not_a_sequence(value: Any, name: str = "sequence") -> Exception:
    """The error for an argument that is no sequence. A tensor explains itself."""
    if isinstance(value, Foreign):
        value.lisp_operate(name, (value,))
    return type_error(value, "sequence")


def sequence_items(value: Any) -> list[Any]:
    """The elements of a sequence as a Python list, which the caller must not change."""
    if value is NIL:
        return []
    if isinstance(value, Cons):
        return list_items(value)
    if type(value) is Vector:
        items = active_items(value)
    elif type(value) is String:
        items = [char(letter) for letter in text_of_string(value)]
    else:
        raise not_a_sequence(value)
    if len(items) > 32:
        STATE.charge(len(items) >> 3)
    return items


def sequence_length(value: Any, name: str = "length") -> int:
    """The length of a proper sequence."""
    if value is NIL:
        return 0
    if isinstance(value, Cons):
        count = 0
        at: Any = value
        try:
            while True:
                for _ in range(_WALK_CHARGE):
                    at = at.cdr
                    count += 1
                walked(at, count)
        except AttributeError:  # no cons has come: cheaper than to ask each
            pass
        if at is not NIL:
            raise type_error(at, "list")
        return count
    if type(value) is Vector:
        return len(value.items) if value.fill is None else value.fill
    if type(value) is String:
        return len(value.text) if value.fill is None else value.fill
    raise not_a_sequence(value, name)


def text_of_items(items: list[Any]) -> str:
    """The text of a list of characters; anything else is a type-error."""
    try:
        return "".join([chr(item.code) for item in items])
    except AttributeError:
        bad = next(item for item in items if type(item) is not Char)
        raise type_error(bad, "character") from None


def sequence_like(value: Any, items: list[Any]) -> Any:
    """A new sequence of the kind of `value` with the given elements."""
    if type(value) is String:
        STATE.charge_memory(len(items))
        return String(text_of_items(items))
    if type(value) is Vector:
        STATE.charge_memory(len(items) * CELL)
        return Vector(items)
    return new_list(items)


def store_items(value: Any, items: list[Any]) -> Any:
    """Put new elements, as many as there were, into a sequence in place."""
    if type(value) is String:
        text = text_of_items(items)
        if value.literal:
            if text == value.text:
                return value
            raise literal_change(value)
        value.text = text if value.fill is None else text + value.text[value.fill :]
    elif type(value) is Vector:
        if value.literal and any(a is not b for a, b in zip(items, value.items, strict=False)):
            raise literal_change(value)
        value.items[: len(items)] = items
    else:
        at = value
        for item in items:
            changeable_cons(at).car = item
            at = at.cdr
    return value


def bounds(length: int, start: Any, end: Any) -> tuple[int, int]:
    """The checked `:start` and `:end` of a sequence of that length."""
    low = 0 if start is None else start
    high = length if end is None or end is NIL else end
    if not isinstance(low, int) or low < 0:
        raise type_error(start, "unsigned-byte")
    if not isinstance(high, int) or high < 0:
        raise type_error(end, "unsigned-byte")
    if high > length:
        raise type_error(high, f"(integer 0 {length})")
    if low > high:
        raise type_error(low, f"(integer 0 {high})")
    return low, high


def check_index(sequence: Any, index: Any, length: int) -> int:
    """A valid index into a sequence of that length."""
    if not isinstance(index, int) or not 0 <= index < length:
        if isinstance(index, int):
            raise index_error(sequence, index)
        raise type_error(index, f"(integer 0 ({length}))")
    return index


# ---------------------------------------------------------------- strings


def string_text(value: Any) -> str:
    """The text of a string designator: a string, a symbol or a character."""
    if type(value) is String:
        return value.text if value.fill is None else value.text[: value.fill]
    if isinstance(value, Symbol):
        return value.name
    if type(value) is Char:
        return chr(value.code)
    raise type_error(value, "(or string symbol character)")


def character_argument(value: Any) -> Char:
    """A character argument."""
    if type(value) is not Char:
        raise type_error(value, "character")
    return value


def function_argument(value: Any) -> Function:
    """The function of a function designator."""
    return as_function(value)

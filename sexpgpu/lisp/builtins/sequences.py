"""Sequences: length, elements, copies, joining, mapping, reducing. Lists, vectors and strings."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.builtins.arithmetic import FAST_BINARY, add2
from sexpgpu.lisp.builtins.designators import (
    bounds,
    changeable_cons,
    check_index,
    index_argument,
    key_function,
    n_ary,
    new_list,
    not_a_sequence,
    sequence_items,
    sequence_length,
    sequence_like,
    store_items,
    text_of_items,
    true,
    walked,
)
from sexpgpu.lisp.builtins.equality import text_of_string
from sexpgpu.lisp.builtins.sequence_types import sequence_builder
from sexpgpu.lisp.calls import as_function, check_count
from sexpgpu.lisp.calls import call as call_function
from sexpgpu.lisp.errors import index_error, literal_change, type_error
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import MV, NIL, Char, Cons, Foreign, Function, String, T, Vector, char


@builtin("length", "(sequence)", overload=True)
def length(sequence: Any) -> Any:
    """The number of elements of a list, vector or string."""
    return sequence_length(sequence)


@builtin("elt", "(sequence index)", overload=True)
def elt(sequence: Any, index: Any) -> Any:
    """The element of SEQUENCE at INDEX; an index out of range is an error."""
    if type(sequence) is Vector:
        items = sequence.items
        count = len(items) if sequence.fill is None else sequence.fill
        return items[check_index(sequence, index, count)]
    if type(sequence) is String:
        text = text_of_string(sequence)
        return char(text[check_index(sequence, index, len(text))])
    if isinstance(sequence, Cons) or sequence is NIL:
        return _list_cell(sequence, index).car
    if isinstance(sequence, Foreign):
        result = sequence.lisp_operate("elt", (sequence, index))
        if result is not NotImplemented:
            return result
    raise type_error(sequence, "sequence")


def _list_cell(sequence: Any, index: Any) -> Cons:
    """The cons of a list that holds the element at an index."""
    wanted = index_argument(index)
    at = sequence
    count = 0
    while isinstance(at, Cons):
        if count == wanted:
            return at
        at = at.cdr
        count += 1
        if count & 1023 == 0:
            walked(at, count)
    raise index_error(sequence, index)


@builtin("(setf elt)", "(new sequence index)")
def set_elt(new: Any, sequence: Any, index: Any) -> Any:
    """Replace the element of SEQUENCE at INDEX."""
    if isinstance(sequence, Cons) or sequence is NIL:
        changeable_cons(_list_cell(sequence, index)).car = new
    elif type(sequence) is Vector:
        check_index(sequence, index, sequence_length(sequence))
        if sequence.literal:
            raise literal_change(sequence)
        sequence.items[index] = new
    elif type(sequence) is String:
        check_index(sequence, index, sequence_length(sequence))
        set_character(sequence, index, new)
    else:
        raise not_a_sequence(sequence, "elt")
    return new


def set_character(string: String, index: int, new: Any) -> None:
    """Replace one character of a string (the index is checked already)."""
    if string.literal:
        raise literal_change(string)
    if type(new) is not Char:
        raise type_error(new, "character")
    text = string.text
    if len(text) > 256:
        STATE.charge(len(text) // 256)
    string.text = text[:index] + chr(new.code) + text[index + 1 :]


@builtin("subseq", "(sequence start &optional end)")
def subseq(sequence: Any, start: Any, end: Any = None) -> Any:
    """A copy of the elements of SEQUENCE from START below END."""
    if type(sequence) is String:
        text = text_of_string(sequence)
        low, high = bounds(len(text), start, end)
        return String(text[low:high])
    items = sequence_items(sequence)
    low, high = bounds(len(items), start, end)
    return sequence_like(sequence, items[low:high])


@builtin("(setf subseq)", "(new sequence start &optional end)")
def set_subseq(new: Any, sequence: Any, start: Any, end: Any = None) -> Any:
    """Replace elements of SEQUENCE from START by those of NEW, as `replace` does."""
    replace(sequence, new, start1=start, end1=end)
    return new


@builtin("copy-seq", "(sequence)")
def copy_seq(sequence: Any) -> Any:
    """A copy of SEQUENCE."""
    if type(sequence) is String:
        return String(text_of_string(sequence))
    return sequence_like(sequence, list(sequence_items(sequence)))


@builtin("reverse", "(sequence)")
def reverse(sequence: Any) -> Any:
    """A sequence of the same kind with the elements in reverse order."""
    if type(sequence) is String:
        return String(text_of_string(sequence)[::-1])
    return sequence_like(sequence, sequence_items(sequence)[::-1])


@builtin("nreverse", "(sequence)")
def nreverse(sequence: Any) -> Any:
    """SEQUENCE reversed; vectors in place, a list may not be used afterwards."""
    items = sequence_items(sequence)[::-1]
    if isinstance(sequence, Cons) or sequence is NIL:
        return new_list(items)
    return store_items(sequence, items)


@builtin("fill", "(sequence item &key start end)")
def fill(sequence: Any, item: Any, start: Any = None, end: Any = None) -> Any:
    """Replace the elements of SEQUENCE from START below END by ITEM, in place."""
    items = list(sequence_items(sequence))
    low, high = bounds(len(items), start, end)
    items[low:high] = [item] * (high - low)
    if isinstance(sequence, Cons):
        at: Any = sequence
        for index in range(high):
            if index >= low:
                changeable_cons(at).car = item
            at = at.cdr
        return sequence
    return store_items(sequence, items)


@builtin("replace", "(target source &key start1 end1 start2 end2)")
def replace(
    target: Any,
    source: Any,
    start1: Any = None,
    end1: Any = None,
    start2: Any = None,
    end2: Any = None,
) -> Any:
    """Copy elements of SOURCE over those of TARGET, in place; gives TARGET."""
    into, items = sequence_items(target), sequence_items(source)
    low1, high1 = bounds(len(into), start1, end1)
    low2, high2 = bounds(len(items), start2, end2)
    count = min(high1 - low1, high2 - low2)
    moved = items[low2 : low2 + count]
    if isinstance(target, Cons):
        at: Any = target
        for _ in range(low1):
            at = at.cdr
        for item in moved:
            changeable_cons(at).car = item
            at = at.cdr
        return target
    if target is NIL:
        return NIL
    into = list(into)
    into[low1 : low1 + count] = moved
    return store_items(target, into)


@builtin("concatenate", "(result-type &rest sequences)")
def concatenate(result_type: Any, *sequences: Any) -> Any:
    """A new sequence of RESULT-TYPE with the elements of all SEQUENCES."""
    build = sequence_builder(result_type)
    if sequences and all(type(s) is String for s in sequences) and build.is_string:
        text = "".join([text_of_string(s) for s in sequences])
        STATE.charge_memory(len(text))
        build.check_length(len(text))
        return String(text)
    items: list[Any] = []
    for sequence in sequences:
        items += sequence_items(sequence)
    return build(items)


@builtin("make-sequence", "(result-type size &key initial-element)")
def make_sequence(result_type: Any, size: Any, initial_element: Any = None) -> Any:
    """A new sequence of RESULT-TYPE with SIZE equal elements."""
    build = sequence_builder(result_type)
    count = index_argument(size)
    STATE.charge_memory(count * build.bytes_each)
    STATE.charge(count)
    build.check_length(count)
    if build.is_string:
        if initial_element is None:
            return String("\0" * count)
        return String(text_of_items([initial_element]) * count)
    return build([NIL if initial_element is None else initial_element] * count)


def _rows(function: Any, sequences: tuple[Any, ...]) -> tuple[Any, list[tuple[Any, ...]]]:
    """The function to call and the argument tuples of successive elements."""
    call = n_ary(function, len(sequences))
    columns = [sequence_items(sequence) for sequence in sequences]
    rows = list(zip(*columns, strict=False))
    if len(rows) > 32:
        STATE.charge(len(rows))
    return call, rows


@builtin("map", "(result-type function sequence &rest sequences)")
def map_(result_type: Any, function: Any, first: Any, *sequences: Any) -> Any:
    """A sequence of RESULT-TYPE (nil: none) of FUNCTION's results on successive elements."""
    build = None if result_type is NIL else sequence_builder(result_type)
    call, rows = _rows(function, (first, *sequences))
    if build is None:
        for row in rows:
            call(*row)
        return NIL
    return build([call(*row) for row in rows])


@builtin("map-into", "(result function &rest sequences)")
def map_into(result: Any, function: Any, *sequences: Any) -> Any:
    """Put FUNCTION's results on successive elements into RESULT, in place."""
    call = n_ary(function, len(sequences))
    if type(result) in (Vector, String) and result.fill is not None:
        # The whole of a vector with a fill pointer is filled; the pointer then moves.
        limit = len(result.items if type(result) is Vector else result.text)
    else:
        limit = sequence_length(result)
    columns = [sequence_items(sequence) for sequence in sequences]
    count = min([limit, *(len(column) for column in columns)])
    STATE.charge(count)
    items = [call(*(column[index] for column in columns)) for index in range(count)]
    if isinstance(result, Cons):
        at: Any = result
        for item in items:
            changeable_cons(at).car = item
            at = at.cdr
        return result
    if result is NIL:
        return NIL
    if result.fill is not None:
        result.fill = count
    if type(result) is String:
        if result.literal:
            raise literal_change(result)
        result.text = text_of_items(items) + result.text[count:]
        return result
    return store_items(result, items)


@builtin("reduce", "(function sequence &key key from-end start end initial-value)")
def reduce(
    function: Any,
    sequence: Any,
    key: Any = None,
    from_end: Any = NIL,
    start: Any = None,
    end: Any = None,
    initial_value: Any = None,
) -> Any:
    """Combine the elements of SEQUENCE by a function of two arguments."""
    call = as_function(function)
    items = sequence_items(sequence)
    low, high = bounds(len(items), start, end)
    items = items[low:high]
    get = key_function(key)
    if get is not None:
        items = [get(item) for item in items]
    if from_end is not NIL:
        items = items[::-1]
    if initial_value is not None:
        items = [initial_value, *items]
    if not items:
        return call_function(call)
    if len(items) == 1:
        return items[0]
    check_count(call, 2)
    return invoke_between(call, items, from_end is not NIL)


def invoke_between(function: Function, items: list[Any], backward: bool) -> Any:
    """Combine items from the first on; `backward`: what was combined comes second."""
    combine = FAST_BINARY.get(function)
    if combine is add2 and set(map(type, items)) == {int}:
        return sum(items)
    total = items[0]
    for item in items[1:]:
        if combine is not None:
            total = combine(item, total) if backward else combine(total, item)
            continue
        call = function.call
        total = call(item, total) if backward else call(total, item)
        if type(total) is MV:
            total = total[0] if total else NIL
    return total


@builtin("every", "(predicate sequence &rest sequences)")
def every(predicate: Any, first: Any, *sequences: Any) -> Any:
    """Whether PREDICATE holds for all successive elements."""
    call, rows = _rows(predicate, (first, *sequences))
    for row in rows:
        if not true(call(*row)):
            return NIL
    return T


@builtin("some", "(predicate sequence &rest sequences)")
def some(predicate: Any, first: Any, *sequences: Any) -> Any:
    """The first true value of PREDICATE on successive elements, or nil."""
    call, rows = _rows(predicate, (first, *sequences))
    for row in rows:
        value = call(*row)
        if true(value):
            return value
    return NIL


@builtin("notany", "(predicate sequence &rest sequences)")
def notany(predicate: Any, first: Any, *sequences: Any) -> Any:
    """Whether PREDICATE holds for none of the successive elements."""
    return T if some(predicate, first, *sequences) is NIL else NIL


@builtin("notevery", "(predicate sequence &rest sequences)")
def notevery(predicate: Any, first: Any, *sequences: Any) -> Any:
    """Whether PREDICATE fails for one of the successive elements."""
    return T if every(predicate, first, *sequences) is NIL else NIL

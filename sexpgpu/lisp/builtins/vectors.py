"""Vectors: making them, elements, fill pointers, and the array functions for rank 1."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.builtins.atomic_types import ATOMIC
from sexpgpu.lisp.builtins.designators import (
    check_index,
    given,
    index_argument,
    sequence_items,
    text_of_items,
    truth,
)
from sexpgpu.lisp.builtins.sequences import set_character
from sexpgpu.lisp.builtins.type_specifiers import STAR, has_character_elements
from sexpgpu.lisp.errors import literal_change, simple_error, type_error
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.state import CELL, STATE
from sexpgpu.lisp.values import CL, NIL, Cons, Foreign, String, T, Vector, char, lisp_list


def capacity(value: Any) -> int:
    """The whole length of a vector or string, beyond its fill pointer too."""
    if type(value) is Vector:
        return len(value.items)
    if type(value) is String:
        return len(value.text)
    raise type_error(value, "vector")


@builtin("vector", "(&rest values)")
def vector(*values: Any) -> Any:
    """A new vector of the arguments."""
    return Vector(list(values))


def _dimension(dimensions: Any) -> int:
    """The one dimension that make-array was given."""
    if isinstance(dimensions, Cons) and dimensions.cdr is NIL:
        dimensions = dimensions.car
    if dimensions is NIL or isinstance(dimensions, Cons):
        raise simple_error("make-array: only vectors (rank 1) exist here; tensors have more axes")
    return index_argument(dimensions)


@builtin(
    "make-array",
    "(dimensions &key element-type initial-element initial-contents adjustable fill-pointer "
    "displaced-to displaced-index-offset)",
)
def make_array(
    dimensions: Any,
    element_type: Any = T,
    initial_element: Any = None,
    initial_contents: Any = None,
    adjustable: Any = NIL,
    fill_pointer: Any = NIL,
    displaced_to: Any = NIL,
    displaced_index_offset: Any = NIL,
) -> Any:
    """A new vector, or string when ELEMENT-TYPE is character; rank 1 only, never displaced."""
    size = _dimension(dimensions)
    if displaced_to is not NIL:
        raise simple_error("make-array: displaced arrays do not exist here")
    STATE.charge_memory(size if has_character_elements(element_type) else size * CELL)
    STATE.charge(size // 8)
    if initial_contents is not None:
        items = list(sequence_items(initial_contents))
        if len(items) != size:
            raise simple_error(
                f"make-array: {len(items)} initial contents for a vector of length {size}"
            )
    else:
        items = None
    made: String | Vector
    if has_character_elements(element_type):
        if items is not None:
            made = String(text_of_items(items))
        elif initial_element is not None:
            made = String(text_of_items([initial_element]) * size)
        else:
            made = String("\0" * size)
    else:
        default: Any = NIL if initial_element is not None or element_type is T else 0
        if items is None:
            items = [default if initial_element is None else initial_element] * size
        made = Vector(items)
    made.adjustable = adjustable is not NIL
    if fill_pointer is T:
        made.fill = size
    elif fill_pointer is not NIL:
        made.fill = index_argument(fill_pointer)
        if made.fill > size:
            raise type_error(fill_pointer, f"(integer 0 {size})")
    return made


def _aref(vector: Any, index: Any) -> Any:
    kind: Any = type(vector)  # pyright: ignore[reportUnknownVariableType]
    if kind is Vector:
        items = vector.items
        if type(index) is int and 0 <= index < len(items):
            return items[index]
        return items[check_index(vector, index, len(items))]
    if kind is String:
        return char(vector.text[check_index(vector, index, len(vector.text))])
    if isinstance(vector, Foreign):
        result = vector.lisp_operate("aref", (vector, index))
        if result is not NotImplemented:
            return result
    raise type_error(vector, "vector")


def _set_aref(new: Any, vector: Any, index: Any) -> Any:
    kind: Any = type(vector)  # pyright: ignore[reportUnknownVariableType]
    if kind is Vector:
        check_index(vector, index, len(vector.items))
        if vector.literal:
            raise literal_change(vector)
        vector.items[index] = new
    elif kind is String:
        check_index(vector, index, len(vector.text))
        set_character(vector, index, new)
    else:
        raise type_error(vector, "vector")
    return new


@builtin("aref", "(vector index)", overload=True)
def aref(vector: Any, index: Any) -> Any:
    """The element of VECTOR at INDEX."""
    return _aref(vector, index)


@builtin("(setf aref)", "(new vector index)")
def set_aref(new: Any, vector: Any, index: Any) -> Any:
    """Replace the element of VECTOR at INDEX."""
    return _set_aref(new, vector, index)


@builtin("row-major-aref", "(vector index)")
def row_major_aref(vector: Any, index: Any) -> Any:
    """The element of VECTOR at INDEX."""
    return _aref(vector, index)


@builtin("(setf row-major-aref)", "(new vector index)")
def set_row_major_aref(new: Any, vector: Any, index: Any) -> Any:
    """Replace the element of VECTOR at INDEX."""
    return _set_aref(new, vector, index)


def _simple_vector(value: Any) -> Any:
    if type(value) is not Vector or not ATOMIC["simple-vector"](value):
        raise type_error(value, "simple-vector")
    return value


@builtin("svref", "(vector index)")
def svref(vector: Any, index: Any) -> Any:
    """The element of a simple vector at INDEX."""
    return _aref(_simple_vector(vector), index)


@builtin("(setf svref)", "(new vector index)")
def set_svref(new: Any, vector: Any, index: Any) -> Any:
    """Replace the element of a simple vector at INDEX."""
    return _set_aref(new, _simple_vector(vector), index)


def _declare_predicate(name: str, doc: str) -> None:
    test = ATOMIC[name]

    def function(value: Any) -> Any:
        return truth(test(value))

    function.__doc__ = doc
    builtin(name + ("-p" if "-" in name else "p"), "(value)")(function)


_declare_predicate("vector", "Whether VALUE is a vector or a string.")
_declare_predicate("array", "Whether VALUE is a vector or a string (arrays have rank 1 here).")
_declare_predicate("simple-vector", "Whether VALUE is a vector without fill pointer.")
_declare_predicate("bit-vector", "Never: bit vectors do not exist here.")
_declare_predicate("simple-bit-vector", "Never: bit vectors do not exist here.")


@builtin("fill-pointer", "(vector)")
def fill_pointer(vector: Any) -> Any:
    """The fill pointer of VECTOR."""
    return _fill(vector)


def _fill(vector: Any) -> int:
    if type(vector) not in (Vector, String) or vector.fill is None:
        raise type_error(vector, "(and vector (satisfies array-has-fill-pointer-p))")
    return vector.fill


@builtin("(setf fill-pointer)", "(new vector)")
def set_fill_pointer(new: Any, vector: Any) -> Any:
    """Move the fill pointer of VECTOR."""
    _fill(vector)
    if index_argument(new) > capacity(vector):
        raise type_error(new, f"(integer 0 {capacity(vector)})")
    vector.fill = new
    return new


@builtin("array-has-fill-pointer-p", "(vector)")
def array_has_fill_pointer_p(vector: Any) -> Any:
    """Whether VECTOR has a fill pointer."""
    capacity(vector)
    return truth(vector.fill is not None)


def _store(vector: Any, index: int, item: Any) -> None:
    """Put an item at an index, which may be one past the end."""
    if type(vector) is Vector:
        if index < len(vector.items):
            vector.items[index] = item
        else:
            vector.items.append(item)
        return
    text = text_of_items([item])
    vector.text = vector.text[:index] + text + vector.text[index + 1 :]


@builtin("vector-push", "(item vector)")
def vector_push(item: Any, vector: Any) -> Any:
    """Put ITEM at the fill pointer and move it; gives its index, or nil when VECTOR is full."""
    at = _fill(vector)
    if at >= capacity(vector):
        return NIL
    _store(vector, at, item)
    vector.fill = at + 1
    return at


@builtin("vector-push-extend", "(item vector &optional extension)")
def vector_push_extend(item: Any, vector: Any, extension: Any = None) -> Any:
    """Put ITEM at the fill pointer and move it; a full VECTOR grows. Gives the index."""
    at = _fill(vector)
    if at >= capacity(vector):
        if not vector.adjustable:
            raise simple_error("vector-push-extend: the vector is full and not adjustable")
        if given(extension):
            index_argument(extension)
    _store(vector, at, item)
    vector.fill = at + 1
    return at


@builtin("vector-pop", "(vector)")
def vector_pop(vector: Any) -> Any:
    """Move the fill pointer down by one; gives the element there."""
    at = _fill(vector)
    if at == 0:
        raise simple_error("vector-pop: the vector is empty")
    vector.fill = at - 1
    return vector.items[at - 1] if type(vector) is Vector else char(vector.text[at - 1])


@builtin("array-rank", "(array)")
def array_rank(array: Any) -> Any:
    """The rank of ARRAY, which is 1."""
    capacity(array)
    return 1


@builtin("array-dimension", "(array axis)")
def array_dimension(array: Any, axis: Any) -> Any:
    """The length of ARRAY; AXIS must be 0."""
    size = capacity(array)
    if not isinstance(axis, int) or axis != 0:
        raise type_error(axis, "(integer 0 0)")
    return size


@builtin("array-dimensions", "(array)")
def array_dimensions(array: Any) -> Any:
    """The list of the one dimension of ARRAY."""
    return lisp_list([capacity(array)])


@builtin("array-total-size", "(array)")
def array_total_size(array: Any) -> Any:
    """The number of elements of ARRAY, beyond its fill pointer too."""
    return capacity(array)


@builtin("array-in-bounds-p", "(array &rest indices)")
def array_in_bounds_p(array: Any, *indices: Any) -> Any:
    """Whether the index is valid for ARRAY."""
    if len(indices) != 1:
        raise simple_error(f"array-in-bounds-p: {len(indices)} indices for a vector")
    if not isinstance(indices[0], int):
        raise type_error(indices[0], "integer")
    return truth(0 <= indices[0] < capacity(array))


@builtin("array-row-major-index", "(array &rest indices)")
def array_row_major_index(array: Any, *indices: Any) -> Any:
    """The index itself, checked."""
    if len(indices) != 1:
        raise simple_error(f"array-row-major-index: {len(indices)} indices for a vector")
    return check_index(array, indices[0], capacity(array))


@builtin("array-element-type", "(array)")
def array_element_type(array: Any) -> Any:
    """`character` for a string, t for a vector."""
    capacity(array)
    return CL.own("character") if type(array) is String else T


@builtin("upgraded-array-element-type", "(type &optional environment)")
def upgraded_array_element_type(type: Any, environment: Any = None) -> Any:
    """The element type of arrays made for TYPE: character or t."""
    if type is STAR:
        return STAR
    return CL.own("character") if has_character_elements(type) else T


@builtin("adjustable-array-p", "(array)")
def adjustable_array_p(array: Any) -> Any:
    """Whether ARRAY was made with :adjustable."""
    capacity(array)
    return truth(array.adjustable)


def _define_limits() -> None:
    for name, value in (
        ("array-dimension-limit", FIXNUM_LIMIT),
        ("array-total-size-limit", FIXNUM_LIMIT),
        ("array-rank-limit", 8),
    ):
        symbol = CL.own(name)
        symbol.value = value
        symbol.special = symbol.constant = True


FIXNUM_LIMIT = (1 << 62) - 3
_define_limits()

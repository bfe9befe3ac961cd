"""The result types of concatenate, map, make-sequence, merge and coerce."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.builtins.designators import new_list, text_of_items
from sexpgpu.lisp.builtins.type_specifiers import (
    STAR,
    array_size,
    expand_type,
    has_character_elements,
    type_parts,
    type_test,
)
from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.state import CELL, CONS, STATE
from sexpgpu.lisp.values import String, Vector

_STRINGS = frozenset(("string", "simple-string", "base-string", "simple-base-string"))
_VECTORS = frozenset(("vector", "simple-vector", "array", "simple-array"))


class SequenceBuilder:
    """Makes sequences of one result type from Python lists of elements."""

    __slots__ = ("is_list", "is_string", "size", "specifier")

    def __init__(self, specifier: Any, is_list: bool, is_string: bool, size: Any) -> None:
        self.specifier = specifier
        self.is_list = is_list
        self.is_string = is_string
        self.size = size  # `*`, or the exact length; for lists: a test of the result, or None

    @property
    def bytes_each(self) -> int:
        """What an element takes."""
        return 1 if self.is_string else CONS if self.is_list else CELL

    def check_length(self, count: int) -> None:
        """Raise a type-error when the type says another length."""
        if not self.is_list and self.size is not STAR and self.size != count:
            raise type_error(
                count, f"(eql {self.size})", "the sequence would not have the type's length"
            )

    def __call__(self, items: list[Any]) -> Any:
        if self.is_list:
            result = new_list(items)
            if self.size is not None and not self.size(result):
                raise type_error(result, self.specifier)
            return result
        self.check_length(len(items))
        STATE.charge_memory(len(items) * self.bytes_each)
        return String(text_of_items(items)) if self.is_string else Vector(list(items))


def sequence_builder(specifier: Any) -> SequenceBuilder:
    """The builder of a result type; a type-error when it is no kind of sequence."""
    expanded = expand_type(specifier)
    name, arguments = type_parts(expanded)
    if name == "list":
        return SequenceBuilder(expanded, True, False, None)
    if name in ("cons", "null"):
        return SequenceBuilder(expanded, True, False, type_test(expanded))
    if name in _STRINGS:
        return SequenceBuilder(expanded, False, True, arguments[0] if arguments else STAR)
    if name == "simple-vector":
        return SequenceBuilder(expanded, False, False, arguments[0] if arguments else STAR)
    if name in _VECTORS:
        text = has_character_elements(arguments[0]) if arguments else False
        size: Any = arguments[1] if len(arguments) > 1 else STAR
        if name in ("array", "simple-array"):
            size = array_size(expanded, size)
            if size is None:
                raise type_error(specifier, "sequence")
        return SequenceBuilder(expanded, False, bool(text), size)
    if name in ("or", "and", "sequence", "nil", "t"):
        raise type_error(specifier, "(member list vector string)")
    type_test(expanded)  # an unknown type is said to be one
    raise type_error(specifier, "(member list vector string)")

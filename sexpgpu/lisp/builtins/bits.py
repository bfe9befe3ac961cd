"""Bits of integers: logical operations, shifts, bytes, boole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.builtins.arithmetic import charged, foreign_or_error
from sexpgpu.lisp.builtins.designators import index_argument, integer_argument, truth
from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import CL, Cons, new_cons


def _declare_fold(
    name: str, doc: str, operate: Callable[[int, int], int], unit: int, overload: bool
) -> None:
    def fold(*integers: Any) -> Any:
        total: Any = unit
        for index, integer in enumerate(integers):
            if isinstance(total, int) and isinstance(integer, int):
                total = operate(total, integer)
            elif overload:
                pair = (integer,) if index == 0 else (total, integer)
                if index == 0 and len(integers) > 1:
                    total = integer  # combined with the next one
                    continue
                total = foreign_or_error(name, pair, "integer")
            else:
                raise type_error(integer, "integer")
        return total

    fold.__doc__ = doc
    builtin(name, "(&rest integers)", overload=overload)(fold)


_declare_fold("logand", "The bitwise and of the integers.", lambda a, b: a & b, -1, True)
_declare_fold("logior", "The bitwise or of the integers.", lambda a, b: a | b, 0, True)
_declare_fold("logxor", "The bitwise exclusive or of the integers.", lambda a, b: a ^ b, 0, True)
_declare_fold(
    "logeqv", "The bitwise equivalence of the integers.", lambda a, b: ~(a ^ b), -1, False
)

_PAIRS: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "logandc1": ("(not A) and B", lambda a, b: ~a & b),
    "logandc2": ("A and (not B)", lambda a, b: a & ~b),
    "lognand": ("not (A and B)", lambda a, b: ~(a & b)),
    "lognor": ("not (A or B)", lambda a, b: ~(a | b)),
    "logorc1": ("(not A) or B", lambda a, b: ~a | b),
    "logorc2": ("A or (not B)", lambda a, b: a | ~b),
}


def _declare_pairs() -> None:
    def declare(name: str, words: str, operate: Callable[[int, int], int]) -> None:
        def pair(a: Any, b: Any) -> Any:
            return operate(integer_argument(a), integer_argument(b))

        pair.__doc__ = f"{words}, bit by bit."
        builtin(name, "(a b)")(pair)

    for name, (words, operate) in _PAIRS.items():
        declare(name, words, operate)


_declare_pairs()


@builtin("lognot", "(integer)", overload=True)
def lognot(integer: Any) -> Any:
    """The bitwise complement of INTEGER."""
    if not isinstance(integer, int):
        return foreign_or_error("lognot", (integer,), "integer")
    return ~integer


@builtin("ash", "(integer count)", overload=True)
def ash(integer: Any, count: Any) -> Any:
    """INTEGER shifted left by COUNT bits (right when negative)."""
    if not (isinstance(integer, int) and isinstance(count, int)):
        for value in (integer, count):
            if not isinstance(value, int):
                return foreign_or_error("ash", (integer, count), "integer")
    if count <= 0:
        return integer >> min(-count, integer.bit_length() + 1)
    if integer == 0:
        return 0
    STATE.charge_memory((count + integer.bit_length()) >> 3)
    STATE.charge(count >> 6)
    return integer << count


@builtin("integer-length", "(integer)")
def integer_length(integer: Any) -> Any:
    """The number of bits INTEGER needs in two's complement, without the sign."""
    value = integer_argument(integer)
    return value.bit_length() if value >= 0 else (~value).bit_length()


@builtin("logcount", "(integer)")
def logcount(integer: Any) -> Any:
    """The number of one bits (of zero bits in a negative integer)."""
    value = integer_argument(integer)
    return (value if value >= 0 else ~value).bit_count()


@builtin("logbitp", "(index integer)")
def logbitp(index: Any, integer: Any) -> Any:
    """Whether the bit of INTEGER at INDEX is one."""
    at, value = index_argument(index), integer_argument(integer)
    return truth(bool(value >> min(at, value.bit_length() + 1) & 1))


@builtin("logtest", "(a b)")
def logtest(a: Any, b: Any) -> Any:
    """Whether the integers have a one bit in common."""
    return truth(bool(integer_argument(a) & integer_argument(b)))


# ---------------------------------------------------------------- bytes


def _byte(value: Any) -> tuple[int, int]:
    """Size and position of a byte specifier: a pair made by `byte`."""
    if not (isinstance(value, Cons) and isinstance(value.car, int) and isinstance(value.cdr, int)):
        raise type_error(value, "cons")
    STATE.charge_memory((value.car + value.cdr) >> 3)
    return value.car, value.cdr


@builtin("byte", "(size position)")
def byte(size: Any, position: Any) -> Any:
    """The specifier of SIZE bits from POSITION."""
    return new_cons(index_argument(size), index_argument(position))


@builtin("byte-size", "(bytespec)")
def byte_size(bytespec: Any) -> Any:
    """The size of a byte specifier."""
    return _byte(bytespec)[0]


@builtin("byte-position", "(bytespec)")
def byte_position(bytespec: Any) -> Any:
    """The position of a byte specifier."""
    return _byte(bytespec)[1]


@builtin("ldb", "(bytespec integer)")
def ldb(bytespec: Any, integer: Any) -> Any:
    """The bits of INTEGER that BYTESPEC names, as a non-negative integer."""
    size, position = _byte(bytespec)
    return integer_argument(integer) >> position & ((1 << size) - 1)


@builtin("ldb-test", "(bytespec integer)")
def ldb_test(bytespec: Any, integer: Any) -> Any:
    """Whether one of the bits that BYTESPEC names is one."""
    return truth(ldb(bytespec, integer) != 0)


@builtin("mask-field", "(bytespec integer)")
def mask_field(bytespec: Any, integer: Any) -> Any:
    """INTEGER with all bits zero but those that BYTESPEC names."""
    size, position = _byte(bytespec)
    return integer_argument(integer) & ((1 << size) - 1) << position


@builtin("dpb", "(new bytespec integer)")
def dpb(new: Any, bytespec: Any, integer: Any) -> Any:
    """INTEGER with the low bits of NEW in the place that BYTESPEC names."""
    size, position = _byte(bytespec)
    mask = (1 << size) - 1
    cleared = integer_argument(integer) & ~(mask << position)
    return cleared | (integer_argument(new) & mask) << position


@builtin("deposit-field", "(new bytespec integer)")
def deposit_field(new: Any, bytespec: Any, integer: Any) -> Any:
    """INTEGER with the bits that BYTESPEC names taken from NEW."""
    size, position = _byte(bytespec)
    mask = ((1 << size) - 1) << position
    return (integer_argument(integer) & ~mask) | (integer_argument(new) & mask)


# ---------------------------------------------------------------- boole

_BOOLE: dict[str, Callable[[int, int], int]] = {
    "clr": lambda a, b: 0,
    "set": lambda a, b: -1,
    "1": lambda a, b: a,
    "2": lambda a, b: b,
    "c1": lambda a, b: ~a,
    "c2": lambda a, b: ~b,
    "and": lambda a, b: a & b,
    "ior": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "eqv": lambda a, b: ~(a ^ b),
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "andc1": lambda a, b: ~a & b,
    "andc2": lambda a, b: a & ~b,
    "orc1": lambda a, b: ~a | b,
    "orc2": lambda a, b: a | ~b,
}
_BOOLE_TABLE = list(_BOOLE.values())

for _index, _name in enumerate(_BOOLE):
    _symbol = CL.own("boole-" + _name)
    _symbol.value = _index
    _symbol.special = _symbol.constant = True


@builtin("boole", "(operation a b)")
def boole(operation: Any, a: Any, b: Any) -> Any:
    """The bitwise operation that one of the boole- constants names."""
    if not isinstance(operation, int) or not 0 <= operation < len(_BOOLE_TABLE):
        raise type_error(operation, "(integer 0 15)")
    return charged(_BOOLE_TABLE[operation](integer_argument(a), integer_argument(b)))

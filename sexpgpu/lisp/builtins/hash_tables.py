"""Hash tables: all four tests, insertion order kept."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sexpgpu.lisp.builtins.designators import binary, index_argument, truth
from sexpgpu.lisp.builtins.equality import (
    eql_key,
    equal_key,
    equalp_key,
    text_of_string,
)
from sexpgpu.lisp.errors import program_error, type_error
from sexpgpu.lisp.hostforms import form, host_macro, quoted, symbol
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import (
    CL,
    MV,
    NIL,
    Char,
    Cons,
    Function,
    String,
    Symbol,
    T,
    lisp_list,
)

_KEYS: dict[str, Callable[[Any], Any]] = {
    "eq": eql_key,
    "eql": eql_key,
    "equal": equal_key,
    "equalp": equalp_key,
}


class HashTable:
    """A hash table. `entries` has the values by marks, Python keys that agree with the test, in
    insertion order; `keys` has the key of a mark that is not the key itself."""

    __slots__ = ("entries", "key_of", "keys", "size", "test_name")

    def __init__(self, test_name: str = "eql", size: int = 14) -> None:
        self.test_name = test_name
        self.key_of = _KEYS[test_name]
        self.entries: dict[Any, Any] = {}
        self.keys: dict[Any, Any] = {}
        self.size = size

    def __str__(self) -> str:
        return f"#<hash-table :test {self.test_name} :count {len(self.entries)}>"

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a key, or the default."""
        return self.entries.get(self.key_of(key), default)

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key; a known key keeps its place."""
        mark = self.key_of(key)
        if mark is not key and mark not in self.entries:
            self.keys[mark] = key
        self.entries[mark] = value

    def remove(self, key: Any) -> bool:
        """Remove a key; whether it was there."""
        mark = self.key_of(key)
        self.keys.pop(mark, None)
        return self.entries.pop(mark, None) is not None

    def clear(self) -> None:
        """Remove all keys."""
        self.entries.clear()
        self.keys.clear()

    def same_content(self, other: HashTable, same: Callable[[Any, Any], bool]) -> bool:
        """Whether both have the same test, the same keys, and the same values by `same`."""
        if self.test_name != other.test_name or len(self.entries) != len(other.entries):
            return False
        STATE.charge(len(self.entries))
        for mark, value in self.entries.items():
            found = other.entries.get(mark)
            if found is None or not same(value, found):
                return False
        return True


def hash_table_argument(value: Any) -> HashTable:
    """A hash table argument."""
    if not isinstance(value, HashTable):
        raise type_error(value, "hash-table")
    return value


def _test_name(test: Any) -> str:
    name = test.name if isinstance(test, Symbol | Function) else None
    if name in _KEYS and test in (CL.own(name), CL.own(name).function):
        return name
    raise program_error("make-hash-table: :test must be one of eq, eql, equal, equalp")


@builtin("make-hash-table", "(&key test size rehash-size rehash-threshold)")
def make_hash_table(
    test: Any = None, size: Any = 14, rehash_size: Any = None, rehash_threshold: Any = None
) -> Any:
    """A new, empty hash table; :test is eq, eql (the default), equal or equalp."""
    name = "eql" if test is None else _test_name(test)
    return HashTable(name, index_argument(size))


@builtin("hash-table-p", "(value)")
def hash_table_p(value: Any) -> Any:
    """Whether VALUE is a hash table."""
    return truth(isinstance(value, HashTable))


@builtin("gethash", "(key table &optional default)")
def gethash(key: Any, table: Any, default: Any = NIL) -> Any:
    """The value of KEY in TABLE (or DEFAULT), and whether it is there."""
    found = hash_table_argument(table).entries.get(table.key_of(key))
    return MV((default, NIL)) if found is None else MV((found, T))


@builtin("(setf gethash)", "(new key table &optional default)")
def set_gethash(new: Any, key: Any, table: Any, default: Any = NIL) -> Any:
    """Set the value of KEY in TABLE."""
    hash_table_argument(table).put(key, new)
    return new


@builtin("remhash", "(key table)")
def remhash(key: Any, table: Any) -> Any:
    """Remove KEY from TABLE; whether it was there."""
    return truth(hash_table_argument(table).remove(key))


@builtin("clrhash", "(table)")
def clrhash(table: Any) -> Any:
    """Remove all entries of TABLE; gives TABLE."""
    hash_table_argument(table).clear()
    return table


@builtin("maphash", "(function table)")
def maphash(function: Any, table: Any) -> Any:
    """Call FUNCTION with each key and value of TABLE, in the order they came in."""
    call = binary(function)
    entries, keys = hash_table_argument(table).entries, table.keys
    STATE.charge(len(entries))
    for mark in list(entries):
        value = entries.get(mark)  # the function may have removed it
        if value is not None:
            call(keys.get(mark, mark), value)
    return NIL


@builtin("hash-table-count", "(table)")
def hash_table_count(table: Any) -> Any:
    """The number of entries of TABLE."""
    return len(hash_table_argument(table).entries)


@builtin("hash-table-test", "(table)")
def hash_table_test(table: Any) -> Any:
    """The symbol of the test of TABLE."""
    return CL.own(hash_table_argument(table).test_name)


@builtin("hash-table-size", "(table)")
def hash_table_size(table: Any) -> Any:
    """The size that TABLE is made for."""
    return max(hash_table_argument(table).size, len(table.entries))


@builtin("hash-table-rehash-size", "(table)")
def hash_table_rehash_size(table: Any) -> Any:
    """The factor by which tables grow."""
    hash_table_argument(table)
    return 2.0


@builtin("hash-table-rehash-threshold", "(table)")
def hash_table_rehash_threshold(table: Any) -> Any:
    """How full tables become before they grow."""
    hash_table_argument(table)
    return 2 / 3


# ---------------------------------------------------------------- iteration


class HashIterator:
    """What with-hash-table-iterator and loop step through: the entries at the start."""

    __slots__ = ("marks", "table")

    def __init__(self, table: HashTable) -> None:
        STATE.charge(len(table.entries))
        self.table = table
        self.marks = iter(list(table.entries))

    def next(self) -> tuple[Any, Any] | None:
        """The next entry that is still there, or None."""
        for mark in self.marks:
            value = self.table.entries.get(mark)
            if value is not None:
                return self.table.keys.get(mark, mark), value
        return None


def _start(table: Any) -> Any:
    return HashIterator(hash_table_argument(table))


def _next(iterator: HashIterator) -> Any:
    entry = iterator.next()
    return NIL if entry is None else MV((T, entry[0], entry[1]))


START_ITERATION = Function("%hash-table-iterator", _start, 1, 1)
NEXT_ENTRY = Function("%next-entry", _next, 1, 1)


@host_macro("with-hash-table-iterator", "((name table) &body body)")
def with_hash_table_iterator(whole: Any, context: Any) -> Any:
    """Run BODY with the local macro NAME that gives, each time, T and the next key and value."""
    parts = list(whole.cdr)
    if not parts or not isinstance(parts[0], Cons):
        raise program_error("with-hash-table-iterator: needs (name table)")
    name, table = list(parts[0])
    variable = Symbol("iterator")
    local = form(name, NIL, quoted(form(NEXT_ENTRY, variable)))
    return form(
        symbol("let"),
        form(form(variable, form(START_ITERATION, table))),
        lisp_list([symbol("macrolet"), form(local), *parts[1:]]),
    )


# ---------------------------------------------------------------- sxhash

_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3
_POSITIVE = (1 << 62) - 1


def _hash_text(text: str, state: int = _FNV_OFFSET) -> int:
    for octet in text.encode("utf-8", "surrogatepass"):
        state = (state ^ octet) * _FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return state


def _hash(value: Any, depth: int) -> int:
    if isinstance(value, Symbol):
        return _hash_text(value.name, 1)
    if type(value) is String:
        return _hash_text(text_of_string(value))
    if type(value) is Char:
        return value.code * _FNV_PRIME & _POSITIVE
    if isinstance(value, int | float | Fraction):
        return _hash_text(repr(value), 2 if isinstance(value, float) else 3)
    if isinstance(value, Cons):
        state, count = _FNV_OFFSET, 0
        at: Any = value
        while isinstance(at, Cons) and count < 4 and depth < 4:
            state = (state ^ _hash(at.car, depth + 1)) * _FNV_PRIME & 0xFFFFFFFFFFFFFFFF
            at = at.cdr
            count += 1
        return state
    return _hash_text(type(value).__name__)


@builtin("sxhash", "(value)")
def sxhash(value: Any) -> Any:
    """A non-negative fixnum that is the same for equal values, in every run."""
    return _hash(value, 0) & _POSITIVE

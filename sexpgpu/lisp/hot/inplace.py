"""Writes some builtins in place, for the arguments they mostly have; others go to the builtin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.builtins.hash_tables import HashTable
from sexpgpu.lisp.callnodes import CallFixed
from sexpgpu.lisp.calls import truth
from sexpgpu.lisp.hot.calls import INLINED, SINGLE
from sexpgpu.lisp.hot.numbers import SMALL, both, in_order, integers, is_integer
from sexpgpu.lisp.hot.parts import Dest
from sexpgpu.lisp.hot.unit import Unit
from sexpgpu.lisp.hot.writer import TESTS, operands, truth_of, value
from sexpgpu.lisp.inline_numbers import BIG
from sexpgpu.lisp.nodes import Constant, Node
from sexpgpu.lisp.registry import BUILTINS
from sexpgpu.lisp.scope import Var
from sexpgpu.lisp.state import STATE, Site
from sexpgpu.lisp.values import Function, Vector
from sexpgpu.lisp.variable_nodes import LocalRef

Writer = Callable[[Unit, CallFixed, Dest], bool]


def function_of(name: str) -> Function:
    """The function of a builtin."""
    found = BUILTINS[name].function
    assert found is not None
    return found


def inplace(name: str) -> Callable[[Writer], Writer]:
    """Declare how a builtin is written in place."""

    def declare(writer: Writer) -> Writer:
        INLINED[function_of(name)] = writer
        return writer

    return declare


def by_builtin(function: Function, site: Site) -> Callable[..., Any]:
    """The slow path: the builtin, called from the site."""
    call, state = function.call, STATE

    def slow(*arguments: Any) -> Any:
        state.site = site
        return call(*arguments)

    return slow


def uses(node: Any, var: Var, places: Callable[[CallFixed], list[Node]]) -> int:
    """How often a variable stands among the `places` of calls, in a node and all inside it."""
    if isinstance(node, list | tuple):
        return sum(uses(item, var, places) for item in node)  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(node, Node):
        return 0
    count = 0
    if isinstance(node, CallFixed):
        count = sum(isinstance(part, LocalRef) and part.var is var for part in places(node))
    for kind in type(node).__mro__:
        for name in getattr(kind, "__slots__", ()):
            count += uses(getattr(node, name, None), var, places)
    return count


@inplace("mod")
def _mod(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    divisor = node.arguments[1]
    plain = isinstance(divisor, Constant) and type(divisor.value) is int and divisor.value != 0
    if plain and is_integer(unit, node.arguments[0]):
        unit.give("({} % {})".format(*in_order(unit, node.arguments)), dest)
        return True
    a, b = operands(unit, node.arguments)
    checks = integers(unit, node.arguments, [a, b])
    if not plain:
        # No zero, and none so long that dividing by it is charged.
        checks += [b, f"{unit.constant(SMALL)} < {b} < {unit.constant(BIG)}"]
    slow = unit.slow(by_builtin(node.function, node.site))
    done = f"{a} % {b}"
    unit.give(f"({done} if {both(checks)} else {slow}({a}, {b}))" if checks else done, dest)
    return True


def _divided(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    """floor and truncate by a positive integer that stands there."""
    divisor = node.arguments[-1]
    plain = isinstance(divisor, Constant) and type(divisor.value) is int and divisor.value > 0
    if not plain or len(node.arguments) != 2:
        return False
    a, b = operands(unit, node.arguments)
    checks = integers(unit, node.arguments, [a, b])
    if node.function is function_of("truncate"):  # which is floor where nothing is negative
        checks.append(f"{a} >= 0")
    slow = unit.slow(by_builtin(node.function, node.site))
    whole = f"{a} // {b}" if dest.single else f"MV(({a} // {b}, {a} % {b}))"
    if not checks:
        unit.give(whole, dest)
        return True
    name = unit.name("t")
    with unit.block(f"if {both(checks)}:"):
        unit.emit(f"{name} = {whole}")
    with unit.block("else:"):
        unit.give(f"{slow}({a}, {b})", Dest(name, dest.single), True)
    unit.give(name, dest)
    return True


for _name in ("floor", "truncate"):
    INLINED[function_of(_name)] = _divided


def _element(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    vector, index = operands(unit, node.arguments)
    vector = unit.named(vector)
    unit.names["Vector"] = Vector
    checks = [f"type({vector}) is Vector", *integers(unit, [node.arguments[1]], [index])]
    if node.function is not function_of("aref"):  # of a simple vector
        checks.append(f"{vector}.fill is None and not {vector}.adjustable")
    checks.append(f"0 <= {index} < len({vector}.items)")
    slow = unit.slow(by_builtin(node.function, node.site))
    other = f"{slow}({vector}, {index})"
    unit.give(f"({vector}.items[{index}] if {both(checks)} else {other})", dest)
    return True


for _name in ("aref", "svref"):
    INLINED[function_of(_name)] = _element


# ---------------------------------------------------------------- tests

Tester = Callable[[Unit, CallFixed], str | None]
TESTED: dict[Function, Tester] = {}
DECIDED: set[Function] = set()  # builtins whose value is never a tensor, nor several values


def tested(name: str) -> Callable[[Tester], Tester]:
    """Declare how the truth of a builtin's value is written in place; None: not in this call."""

    def declare(tester: Tester) -> Tester:
        TESTED[function_of(name)] = tester
        return tester

    return declare


def asking(node: CallFixed) -> Callable[..., bool]:
    """The slow path of a test: the truth of what the builtin says."""
    asked = by_builtin(node.function, node.site)

    def ask(*arguments: Any) -> bool:
        return truth(asked(*arguments))

    return ask


def _parity(unit: Unit, node: CallFixed) -> str:
    name = unit.atom(value(unit, node.arguments[0]))
    bit = "== 1" if node.function is function_of("oddp") else "== 0"
    return f"({name} & 1 {bit} if type({name}) is int else {unit.slow(asking(node))}({name}))"


TESTED[function_of("oddp")] = TESTED[function_of("evenp")] = _parity


def _fixed_test(unit: Unit, node: CallFixed) -> str:
    tester = TESTED.get(node.function)
    high = node.function.maximum
    count = len(node.arguments)
    fits = count >= node.function.minimum and (high is None or count <= high)
    if tester is not None and fits:
        written = tester(unit, node)
        if written is not None:
            return written
    name = unit.named(value(unit, node, raw=True))
    if node.function in DECIDED:
        return f"({name} is not NIL)"
    return truth_of(unit, name, node.site)


TESTS[CallFixed] = _fixed_test


# ---------------------------------------------------------------- hash tables


def _is_table(node: Node) -> bool:
    """Whether a node is known to give a hash table."""
    if isinstance(node, LocalRef):
        var = node.var
        return bool(var.inits) and not var.sets and all(map(_is_table, var.inits or ()))
    return isinstance(node, CallFixed) and node.function is function_of("make-hash-table")


def known_key(unit: Unit, nodes: list[Node], table: str, key: str) -> str:
    """The condition that a key is the same in all four kinds of tables: itself. `nodes` are those
    of the key and the table."""
    unit.names["HashTable"] = HashTable
    checks: list[str] = []
    if not _is_table(nodes[1]):
        checks.append(f"type({table}) is HashTable")
    if not is_integer(unit, nodes[0]):
        checks.append(f"(type({key}) is int or type({key}) is Symbol)")
    return both(checks) or "True"


@inplace("gethash")
def _gethash(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    given = operands(unit, node.arguments)
    given[1] = unit.named(given[1])
    key, table = given[:2]
    default = given[2] if len(given) == 3 else "NIL"
    slow = unit.slow(by_builtin(node.function, node.site))
    name = dest.name if dest.single and dest.name not in ("", "return") else unit.name("t")
    with unit.block(f"if {known_key(unit, node.arguments, table, key)}:"):
        if dest.single:
            unit.emit(f"{name} = {table}.entries.get({key}, {default})")
        else:
            unit.emit(f"{name} = {table}.entries.get({key})")
            unit.emit(f"{name} = MV(({default}, NIL)) if {name} is None else MV(({name}, T))")
    with unit.block("else:"):
        unit.emit(f"{name} = {slow}({', '.join(given)})")
        if dest.single:
            unit.emit(f"{name} = {name}[0]")
    if name != dest.name:
        unit.give(name, dest)
    return True


# Builtins that never give several values.
_NAMES = (
    "length nth nthcdr rem abs max min elt char schar string= string-upcase string-downcase "
    "concatenate search subseq append reverse nreverse list* member assoc mapcar mapc remove "
    "remove-if remove-if-not position find count sort reduce oddp evenp symbolp stringp numberp "
    "integerp listp make-hash-table make-array vector equal equalp format gcd lcm sqrt expt exp "
    "log sin cos / min string char= last list-length copy-list getf remhash hash-table-count"
)
SINGLE.update(
    function
    for name in _NAMES.split()
    if name in BUILTINS and (function := BUILTINS[name].function) is not None
)

_DECIDED = (
    "search position string= string/= string< string> char= equal equalp eql symbolp stringp "
    "numberp integerp listp functionp characterp vectorp consp hash-table-p member assoc"
)
DECIDED.update(
    function
    for name in _DECIDED.split()
    if name in BUILTINS and (function := BUILTINS[name].function) is not None
)

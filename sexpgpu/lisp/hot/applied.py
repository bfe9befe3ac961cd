"""Functions that builtins apply to elements, where they stand there as a lambda expression or as
one of CL's own: the body is written into a loop. Knows none of the builtins."""

from __future__ import annotations

from collections.abc import Callable

from sexpgpu.lisp.analyze import INLINE
from sexpgpu.lisp.callnodes import CallFixed
from sexpgpu.lisp.hot.parts import Dest
from sexpgpu.lisp.hot.unit import Unit
from sexpgpu.lisp.hot.writer import value, write
from sexpgpu.lisp.lambdas import LambdaNode
from sexpgpu.lisp.nodes import Constant, Node
from sexpgpu.lisp.scope import Level, Var
from sexpgpu.lisp.state import Site
from sexpgpu.lisp.values import CL, Function
from sexpgpu.lisp.variable_nodes import LocalRef


class Applied:
    """A function that is applied to elements: its variables, and the node of its value. `site`: of
    the calls, where these are calls of the program's own function."""

    __slots__ = ("body", "node", "site", "variables")

    def __init__(
        self, node: Node, variables: list[Var], body: Node, site: Site | None = None
    ) -> None:
        self.node = node
        self.variables = variables
        self.body = body
        self.site = site

    def bind(self, unit: Unit, given: list[str]) -> None:
        """Begin a call with these values."""
        if isinstance(self.node, LambdaNode):
            assert self.node.tier.frame is not None
            unit.own_frame(self.node.tier.frame)
        for var, name in zip(self.variables, given, strict=True):
            unit.emit(f"{unit.bind(var)} = {name}")


def find_applied(unit: Unit, node: Node, count: int, site: Site) -> Applied | None:
    """How a function of `count` arguments is applied in place; None: it is not."""
    if isinstance(node, LambdaNode):
        if node.minimum == count == node.maximum and node.tier.outer is unit.frame:
            assert node.body is not None
            return Applied(node, node.required, node.body, site)
        return None
    if not isinstance(node, Constant) or not isinstance(node.value, Function):
        return None
    function = node.value
    symbol = CL.symbols.get(function.name)
    if symbol is None or symbol.function is not function:
        return None
    if count < function.minimum or (function.maximum is not None and count > function.maximum):
        return None
    level = Level()
    variables = [Var(symbol, level) for _ in range(count)]
    nodes: list[Node] = [LocalRef(var) for var in variables]
    make = INLINE.get(symbol)
    body = make(nodes, site) if make is not None else None
    return Applied(node, variables, body or CallFixed(function, nodes, site))


def write_item(unit: Unit, node: Node, site: Site) -> Applied:
    """The test whether an element is eql to a node's value, which is evaluated here."""
    level = Level()
    element = Var(None, level)
    if not isinstance(node, Constant):
        item = Var(None, level)
        write(unit, node, Dest(unit.bind(item)))
        node = LocalRef(item)
    test = INLINE[CL.own("eql")]([node, LocalRef(element)], site)
    assert test is not None
    return Applied(node, [element], test)


def write_calls(
    unit: Unit,
    applied: Applied,
    item: str,
    turns: str,
    count: str,
    load: Callable[[], None],
    body: Callable[[], None],
) -> None:
    """Write a loop of calls, for each `item` of an iterator that knows what is left of `count`.
    `load` begins a call, `body` writes the rest of a turn. Calls of a function of the program's
    take fuel: each where its body may take fuel or look at it, else all of them when the loop is
    left."""
    site = applied.site
    marks, frame = unit.marks, unit.frame
    with unit.captured() as lines, unit.loop(f"for {item} in {turns}:"):
        load()
        with unit.captured() as inside:
            body()
        quiet = unit.marks == marks
        if site is not None and not quiet:
            unit.take_fuel(unit.constant(site))
        unit.put(inside)
    unit.frame = frame
    if site is None or not quiet:
        unit.put(lines)
        return
    with unit.block("try:"):
        unit.put(lines, 1)
    with unit.block("finally:"):
        unit.emit(f"state.fuel -= {count} - {turns}.__length_hint__()")
    unit.emit(f"if state.fuel < 0: state.refuel({unit.constant(site)})")
    unit.marks += 1


def write_around(unit: Unit, applied: Applied, loop: Callable[[], None]) -> None:
    """A loop with the site of the calls on the stack."""
    if applied.site is None:
        loop()
        return
    unit.site(applied.site)
    unit.emit("stack.append(state.site)")
    with unit.block("try:"):
        loop()
    with unit.block("finally:"):
        unit.emit("state.site = stack.pop()")


def write_calls_of(
    unit: Unit,
    applied: Applied,
    item: str,
    turns: str,
    count: str,
    given: list[str],
    body: Callable[[], None],
) -> None:
    """`write_calls` with these arguments, and their site on the stack."""

    def loop() -> None:
        write_calls(unit, applied, item, turns, count, lambda: applied.bind(unit, given), body)

    write_around(unit, applied, loop)


def function_expression(unit: Unit, applied: Applied) -> str:
    """The expression of the function, for the builtin."""
    return value(unit, applied.node)


def takes_elements(unit: Unit, node: CallFixed) -> bool:
    """Whether a call is one of a function that is applied in place, and a sequence."""
    return (
        len(node.arguments) == 2 and find_applied(unit, node.arguments[0], 1, node.site) is not None
    )

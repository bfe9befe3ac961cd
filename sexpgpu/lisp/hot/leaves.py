"""A function's calls of itself that return at once: `(if (< n 2) n …)` is decided by the
caller, where it is about to call with a small number. What is saved is paid for all the same."""

from __future__ import annotations

from sexpgpu.lisp.callnodes import CallGlobal
from sexpgpu.lisp.exits import BlockNode
from sexpgpu.lisp.hot.numbers import SIGNS, is_integer
from sexpgpu.lisp.hot.unit import Unit
from sexpgpu.lisp.inline import Endp, Kind, Not
from sexpgpu.lisp.inline_numbers import Comparison
from sexpgpu.lisp.nodes import Constant, If, Node
from sexpgpu.lisp.scope import Var
from sexpgpu.lisp.state import STATE, Site
from sexpgpu.lisp.variable_nodes import LocalRef

Given = dict[Var, tuple[str, bool]]  # of a parameter: the argument, and whether it is an integer


def leaf(site: Site) -> None:
    """Take the fuel of a call from `site` that is not made, at the depth that it would have."""
    STATE.site = site
    STATE.stack.append(site)
    try:
        STATE.take_ticket()
    finally:
        STATE.site = STATE.stack.pop()


def early_return(unit: Unit, node: CallGlobal, names: list[str]) -> tuple[str, str] | None:
    """(when the function that is being written returns at once for these arguments, what it
    returns), as expressions; None where that cannot be told without calling it."""
    own = unit.own
    if own is None or own[0] is not node.symbol.function:
        return None
    body = own[1].body
    while isinstance(body, BlockNode) and not body.block.exits:
        body = body.body
    parameters = own[1].required
    if not isinstance(body, If) or len(parameters) != len(names):
        return None
    if any(var.captured or var.sets for var in parameters):
        return None
    given: Given = {
        var: (name, is_integer(unit, item))
        for var, name, item in zip(parameters, names, node.arguments, strict=True)
    }
    for branch, outcome in ((body.yes, True), (body.no, False)):
        result = _simple(unit, branch, given)
        condition = _decided(unit, body.condition, outcome, given)
        if result is not None and condition is not None:
            return condition, result
    return None


def _simple(unit: Unit, node: Node, given: Given) -> str | None:
    """The expression of a constant or an argument."""
    if isinstance(node, Constant):
        return unit.constant(node.value)
    if isinstance(node, LocalRef) and node.var in given:
        return given[node.var][0]
    return None


def _decided(unit: Unit, node: Node, outcome: bool, given: Given) -> str | None:
    """A condition under which a test has this outcome, for certain and without doing anything."""
    if isinstance(node, Not):
        return _decided(unit, node.node, not outcome, given)
    if isinstance(node, Comparison):
        return _compared(unit, node, outcome, given)
    if isinstance(node, Kind | Endp):
        name = _simple(unit, node.node, given)
        if name is None or isinstance(node.node, Constant):
            return None
        name = unit.named(name)
        if isinstance(node, Endp) or node.name == "null":
            known = f"{name} is NIL"
        elif node.name == "consp":
            known = f"isinstance({name}, Cons)"
        else:
            known = f"not isinstance({name}, Cons)"
        if outcome:
            return known
        return None if isinstance(node, Endp) else f"not ({known})"
    return None


def _compared(unit: Unit, node: Comparison, outcome: bool, given: Given) -> str | None:
    checks: list[str] = []
    texts: list[str] = []
    for item in (node.first, node.second):
        text = _simple(unit, item, given)
        if text is None:
            return None
        texts.append(text)
        if isinstance(item, Constant):
            if type(item.value) is not int:
                return None
        elif isinstance(item, LocalRef) and not given[item.var][1]:
            checks.append(f"type({text}) is int")
    compared = f"{texts[0]} {SIGNS.get(node.name, node.name)} {texts[1]}"
    return " and ".join([*checks, compared if outcome else f"not {compared}"])

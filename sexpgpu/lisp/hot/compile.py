"""From a node to a Python callable: functions, and loops that are taken over in the middle."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from sexpgpu.lisp.exits import TagbodyNode
from sexpgpu.lisp.hot import blocks, loops
from sexpgpu.lisp.hot.parts import RETURN, Entry, MakeFrame
from sexpgpu.lisp.hot.unit import Line, Unit
from sexpgpu.lisp.hot.writer import branches, test, write, write_effect
from sexpgpu.lisp.nodes import If, Node, Progn
from sexpgpu.lisp.scope import Var
from sexpgpu.lisp.tiers import FunctionTier, LoopTier

Maker = Callable[[Any], Callable[..., Any]]

_WRITERS = "nodes numbers calls inplace places strings lists mapping choosing sorting"
for _name in _WRITERS.split():
    import_module(f"sexpgpu.lisp.hot.{_name}")  # they declare how kinds of nodes are written

_LONG = 120  # lines of a body that is not written twice


def compile_lambda(tier: FunctionTier) -> Maker | None:
    """The maker of hot callables over an enclosing frame; None where Python cannot nest so deep."""
    unit, given = _written(lambda keeps_bare: _lambda_unit(tier, keeps_bare))
    return _compiled(unit, ["def make(P0):", "{outer}", f"    def hot({given}):"], "    return hot")


def _written(write: Callable[[bool], tuple[Unit, str]]) -> tuple[Unit, str]:
    """The unit that `write` gives, and its parameters. A variable that holds a Python object in
    place of one of the Lisp is a local; where a closure turns out to look at one, all is written
    again without such."""
    unit, given = write(True)
    return write(False) if unit.bare & unit.boxed else (unit, given)


def _lambda_unit(tier: FunctionTier, keeps_bare: bool) -> tuple[Unit, str]:
    node, frame = tier.node, tier.frame
    assert frame is not None
    assert node.body is not None
    unit = Unit(frame, "e0", tier.outer)
    unit.keeps_bare = keeps_bare
    unit.indent = 2
    if tier.latest is not None and tier.bind is None and not frame.reaches:
        unit.own = tier.latest, node
    for var in node.required:
        unit.bind(var)
    count = len(node.required)
    if tier.bind is None:
        unit.take_ticket()
        unit.emit(MakeFrame(frame, {var.index: f"v{at}" for at, var in enumerate(node.required)}))
        _two_bodies(unit, node.body, node.required)
        given = ", ".join(f"v{at}" for at in range(count))
    else:
        _bound(unit, tier, count)
        given = "*given"
    return unit, given


def _two_bodies(unit: Unit, node: Node, parameters: list[Var]) -> None:
    """The body of a function; where it computes more than once with parameters that never change,
    it is written once more before, for the case that these are all integers."""
    unit.asked.clear()
    with unit.captured() as lines:
        _body(unit, node)
    whole = [var for var in parameters if unit.asked.get(var, 0) > 1]
    if whole and len(lines) < _LONG:
        saved = set(unit.whole), set(unit.unknown)
        unit.whole.update(whole)
        unit.unknown.clear()
        names = [unit.variable(var) for var in whole]
        with unit.block(f"if {' and '.join(f'type({name}) is int' for name in names)}:"):
            _body(unit, node)
        unit.whole, unit.unknown = saved
    unit.put(lines)


def _body(unit: Unit, node: Node) -> None:
    """The body of a function: on a path that makes no calls the site is not pushed."""
    marks = unit.marks
    if isinstance(node, If):
        with unit.captured() as lines:
            condition = test(unit, node.condition)
        if unit.marks == marks:
            unit.put(unit.settle(lines, False))
            branches(
                unit,
                unit.settled(condition, False),
                lambda: _body(unit, node.yes),
                lambda: _body(unit, node.no),
            )
            return
        with unit.captured() as more:
            branches(
                unit,
                condition,
                lambda: write(unit, node.yes, RETURN),
                lambda: write(unit, node.no, RETURN),
            )
        _pushed(unit, lines + more)
    elif isinstance(node, Progn):
        rest = node.nodes[1] if len(node.nodes) == 2 else Progn(node.nodes[1:])
        with unit.captured() as lines:
            write_effect(unit, node.nodes[0])
        if unit.marks == marks:
            unit.put(unit.settle(lines, False))
            _body(unit, rest)
            return
        with unit.captured() as more:
            write(unit, rest, RETURN)
        _pushed(unit, lines + more)
    else:
        with unit.captured() as lines:
            write(unit, node, RETURN)
        if unit.marks == marks:
            unit.put(unit.settle(lines, False))
        else:
            _pushed(unit, lines)


def _pushed(unit: Unit, lines: list[Line]) -> None:
    """Lines with the site of the call on the stack around them."""
    unit.emit("stack.append(state.site)")
    unit.emit("try:")
    unit.put(unit.settle(lines, True), 1)
    unit.emit("finally:")
    unit.emit("    state.site = stack.pop()")


def _bound(unit: Unit, tier: FunctionTier, low: int) -> None:
    """A function with more than required parameters: they are bound in the frame by the closure
    that does it, and taken out of it where they are Python variables."""
    node, frame = tier.node, tier.frame
    assert frame is not None
    assert node.body is not None
    variables = [*node.required]
    for var, _, supplied in node.optional:
        variables += [var] if supplied is None else [var, supplied]
    if node.rest is not None:
        variables.append(node.rest)
    for _, var, _, supplied in node.keys or ():
        variables += [var] if supplied is None else [var, supplied]
    for var in variables:
        unit.bind(var)
    unit.needed.add("e0")
    with unit.captured() as lines:
        unit.emit("state.fuel = f = state.fuel - 1")
        unit.emit("if f < 0: state.refuel()")
        padding = ", None" * (frame.size - 1 - low)
        unit.emit(f"e0 = [P0, *given[:{low}]{padding}]")
        unit.emit(f"{unit.constant(tier.bind)}(e0, given, stack[-1])")
        for var in variables:
            unit.emit(Entry(var))
        write(unit, node.body, RETURN)
    _pushed(unit, lines)


def compile_loop(tier: LoopTier) -> Callable[..., Any] | None:
    """What goes on with a loop: a callable of its frame and of what it hands over."""
    unit, given = _written(lambda keeps_bare: _loop_unit(tier, keeps_bare))
    head = f"    def hot({given}):"
    made = _compiled(unit, ["def make(_):", head, "{outer}"], "    return hot")
    return made(None) if made is not None else None


def _loop_unit(tier: LoopTier, keeps_bare: bool) -> tuple[Unit, str]:
    node, frame = tier.node, tier.frame
    assert frame is not None
    unit = Unit(frame, "e0", frame.parent)
    unit.keeps_bare = keeps_bare
    unit.indent = 3
    with unit.captured() as lines:
        if isinstance(node, TagbodyNode):
            _, segments = blocks.segments_of(node)
            places = dict(zip(node.targets, segments, strict=True))
            given = "given"
            unit.emit(f"given = {unit.constant(places)}[given]")
            blocks.write_tagbody(unit, node, RETURN, given)
        else:
            given = loops.write_resumed(unit, node, RETURN)
    lines = unit.settle(lines, True)
    outside = [var for var in unit.variables if var not in unit.bound]
    unit.indent = 2
    for var in outside:
        unit.emit(Entry(var))
    stored = [var for var in outside if var in unit.assigned]
    if stored:
        unit.emit("try:")
        unit.put(lines)
        unit.emit("finally:")
        unit.indent = 3
        unit.emit("pass")
        for var in stored:
            unit.emit(Entry(var, True))
    else:
        unit.put(lines, -1)
    return unit, f"e0, {given}" if given else "e0"


def exec_text(text: str, names: dict[str, Any]) -> None:
    """Evaluate a text of our own making."""
    exec(compile(text, "<hot>", "exec"), names)


def _compiled(unit: Unit, header: list[str], footer: str) -> Maker | None:
    text = unit.text(header, footer)
    try:
        exec_text(text, unit.names)
    except (SyntaxError, RecursionError, MemoryError) as refusal:
        if isinstance(refusal, SyntaxError) and "too many" not in str(refusal):
            raise
        return None  # nested more deeply than Python takes: it stays with its closures
    return unit.names["make"]

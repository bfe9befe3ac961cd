"""Writes blocks, tagbodies, unwind-protect and case. Exits to a place in the same code are
`return`, `break` and `continue`; others, and those out of closures, are exceptions."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.calls import truth
from sexpgpu.lisp.case_macros import Case, case_key
from sexpgpu.lisp.control import Jump
from sexpgpu.lisp.errors import LimitError, control_error
from sexpgpu.lisp.exits import BlockNode, Go, ReturnFrom, TagbodyNode, UnwindProtect
from sexpgpu.lisp.hot.parts import STATEMENT, Dest, Exit, Loop
from sexpgpu.lisp.hot.unit import Line, Unit
from sexpgpu.lisp.hot.writer import (
    WRITERS,
    branches,
    is_simple,
    value,
    write,
    write_closure,
)
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import Char, Foreign, Symbol

# ---------------------------------------------------------------- blocks


def _block(unit: Unit, node: BlockNode, dest: Dest) -> None:
    block = node.block
    if not block.exits:
        write(unit, node.body, dest)
        return
    saved = unit.frame
    token = ""
    if block.var.captured:
        frame = block.var.frame
        assert frame is not None
        if node.in_loop:
            unit.own_frame(frame)
        token = unit.name("b")
        unit.emit(f"{token} = Activation()")
        unit.emit(f"{unit.bind(block.var)} = {token}")
    loop = None if dest.name == "return" else Loop()
    exit = Exit(loop, "break", unit.name("x"), dest)
    unit.exits[block] = exit
    opaque = unit.opaque
    if loop is not None:
        unit.loops.append(loop)
    with unit.captured() as lines:
        write(unit, node.body, dest)
    del unit.exits[block]
    caught = bool(token) or unit.opaque > opaque
    if loop is None:
        _caught(unit, lines, caught, token or unit.constant(block), token, dest)
    else:
        if exit.used or loop.passing:
            unit.emit(f"{exit.flag} = False")
            unit.emit("while True:")
            unit.indent += 1
            deeper = [(indent + 1, text) for indent, text in lines]
            _caught(unit, deeper, caught, token or unit.constant(block), token, dest)
            unit.emit("break")
            unit.indent -= 1
        else:
            _caught(unit, lines, caught, token or unit.constant(block), token, dest)
        unit.loops.pop()
        unit.pass_on(loop)
    unit.frame = saved


def _caught(
    unit: Unit, lines: list[Line], caught: bool, target: str, token: str, dest: Dest
) -> None:
    """Lines whose exceptions for a block are caught, where there may be any."""
    if not caught:
        unit.put(lines or [(unit.indent, "pass")])
        return
    unit.emit("try:")
    unit.put(lines or [(unit.indent, "pass")], 1)
    leaving = unit.name("x")
    with unit.block(f"except BlockExit as {leaving}:"):
        unit.emit(f"if {leaving}.token is not {target}: raise")
        unit.give(f"{leaving}.value", dest, True)
    if token:
        with unit.block("finally:"):
            unit.emit(f"{token}.alive = False")


def _return_from(unit: Unit, node: ReturnFrom, dest: Dest) -> None:
    block, site = node.block, node.site
    exit = unit.exits.get(block)
    if exit is not None:
        write(unit, node.value, exit.dest)
        if exit.loop is not None:
            unit.leave(exit)
        return
    if not block.var.captured:
        result = unit.name("t")
        write(unit, node.value, Dest(result, single=False))
        unit.emit(f"raise BlockExit({unit.constant(block)}, {result})")
        return

    def left() -> Any:
        STATE.site = site
        raise control_error(f"block {block.name.name} was left before")

    token = unit.name("b")
    unit.emit(f"{token} = {unit.variable(block.var)}")
    result = unit.name("t")
    write(unit, node.value, Dest(result, single=False))
    unit.emit(f"if not {token}.alive: {unit.slow(left)}()")
    unit.emit(f"raise BlockExit({token}, {result})")


WRITERS[BlockNode] = _block
WRITERS[ReturnFrom] = _return_from


# ---------------------------------------------------------------- tagbodies


def _tagbody(unit: Unit, node: TagbodyNode, dest: Dest) -> None:
    tagbody = node.tagbody
    if tagbody.exits and tagbody.var.captured:
        write_closure(unit, node, dest)
        return
    write_tagbody(unit, node, dest, "")


def segments_of(node: TagbodyNode) -> tuple[list[int], tuple[int, ...]]:
    """(the statements where control may come in, the segment of each tag)."""
    starts = sorted({0, *node.targets})
    return starts, tuple(starts.index(target) for target in node.targets)


def write_tagbody(unit: Unit, node: TagbodyNode, dest: Dest, resumed: str) -> None:
    """A tagbody: its segments in order, those before the one where control goes on left out.
    `resumed`: the name that holds that one at the beginning."""
    tagbody = node.tagbody
    starts, segments = segments_of(node)
    loop = Loop()
    at = resumed or unit.name("at")
    exit = Exit(loop, "continue", unit.name("x"), dest)
    exit.at, exit.segments, exit.site = at, segments, unit.constant(node.site)
    unit.exits[tagbody] = exit
    unit.loops.append(loop)
    opaque = unit.opaque
    parts: list[list[Line]] = []
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else len(node.statements)
        with unit.captured() as lines:
            for statement in node.statements[start:end]:
                write(unit, statement, STATEMENT)
        parts.append(lines)
    caught = tagbody.exits and unit.opaque > opaque
    if not (exit.used or loop.passing or caught or resumed):
        for lines in parts:
            unit.put(lines)
        del unit.exits[tagbody]
        unit.loops.pop()
        unit.give("NIL", dest)
        return
    unit.emit(f"{exit.flag} = False")
    if not resumed:
        unit.emit(f"{at} = 0")
    unit.emit("while True:")
    unit.indent += 1
    if caught:
        unit.emit("try:")
        unit.indent += 1
    base = unit.indent - (2 if caught else 1)
    for number, lines in enumerate(parts):
        last = number == len(parts) - 1
        if not lines:
            continue
        if last or len(parts) == 1:
            unit.put(lines, unit.indent - base)
        else:
            unit.emit(f"if {at} <= {number}:")
            unit.put(lines, unit.indent - base + 1)
    if caught:
        unit.emit("pass")
        unit.indent -= 1
        going = unit.name("x")
        with unit.block(f"except GoExit as {going}:"):
            unit.emit(f"if {going}.token is not {unit.constant(tagbody)}: raise")
            unit.emit(f"{at} = {unit.constant(segments)}[{going}.index]")
            unit.take_fuel(exit.site)
            unit.emit("continue")
    unit.emit("break")
    unit.indent -= 1
    del unit.exits[tagbody]
    unit.loops.pop()
    unit.pass_on(loop)
    unit.give("NIL", dest)


def _go(unit: Unit, node: Go, dest: Dest) -> None:
    tagbody, site = node.tagbody, node.site
    exit = unit.exits.get(tagbody)
    if exit is not None:
        _go_to(unit, exit, str(exit.segments[node.index]))
        return
    if node.near:
        unit.emit(f"return {unit.constant(Jump(tagbody, node.index))}")
        return
    if not tagbody.var.captured:
        unit.emit(f"raise GoExit({unit.constant(tagbody)}, {node.index})")
        return

    def left() -> Any:
        STATE.site = site
        raise control_error("the tagbody of this tag was left before")

    token = unit.name("b")
    unit.emit(f"{token} = {unit.variable(tagbody.var)}")
    unit.emit(f"if not {token}.alive: {unit.slow(left)}()")
    unit.emit(f"raise GoExit({token}, {node.index})")


def _go_to(unit: Unit, exit: Exit, segment: str) -> None:
    unit.emit(f"{exit.at} = {segment}")
    unit.take_fuel(exit.site)
    unit.leave(exit)


def take_jump(unit: Unit, name: str) -> None:
    """What a statement's closure gave may be a Jump to a tag of a tagbody around it."""
    with unit.block(f"if type({name}) is Jump:"):
        for tagbody, exit in reversed(list(unit.exits.items())):
            if exit.act == "continue":
                with unit.block(f"if {name}.body is {unit.constant(tagbody)}:"):
                    _go_to(unit, exit, f"{unit.constant(exit.segments)}[{name}.index]")
        unit.emit(f"return {name}")


WRITERS[TagbodyNode] = _tagbody
WRITERS[Go] = _go


# ---------------------------------------------------------------- unwind-protect


def _unwind_protect(unit: Unit, node: UnwindProtect, dest: Dest) -> None:
    """The cleanup is written as a function of no arguments would be: once, in its closure."""
    cleanup = unit.closure(node.cleanup)
    limits = unit.constant((LimitError, RecursionError, KeyboardInterrupt))
    unit.names.setdefault("BaseException", BaseException)
    result = unit.name("t")
    loops, exits = unit.loops, unit.exits
    unit.loops, unit.exits = [], {}
    with unit.block("try:"):
        write(unit, node.body, Dest(result, single=False))
    unit.loops, unit.exits = loops, exits
    with unit.block(f"except {limits}:"):
        unit.emit("raise")
    with unit.block("except BaseException:"):
        unit.emit(cleanup)
        unit.emit("raise")
    unit.emit(cleanup)
    unit.give(result, dest, node.body.multi)


WRITERS[UnwindProtect] = _unwind_protect


# ---------------------------------------------------------------- case


def _case(unit: Unit, node: Case, dest: Dest) -> None:
    key = unit.named(unit.held(value(unit, node.key)))
    _case_from(unit, node, dest, key, 0)


def _case_from(unit: Unit, node: Case, dest: Dest, key: str, at: int) -> None:
    while at < len(node.keys) and not node.keys[at]:
        at += 1
    if at == len(node.keys):
        _case_default(unit, node, dest, key)
        return
    conditions = [_is_key(unit, key, item) for item in node.keys[at]]
    nothing = at + 1 == len(node.keys) and not node.strict and not dest.name
    branches(
        unit,
        " or ".join(conditions),
        lambda: write(unit, node.bodies[at], dest),
        None
        if nothing and not node.asks and is_simple(node.default)
        else lambda: _case_from(unit, node, dest, key, at + 1),
    )


def _case_default(unit: Unit, node: Case, dest: Dest, key: str) -> None:
    site, failure = node.site, node.failure

    def ask(item: Any) -> bool:
        return truth(item, site)

    if node.asks:
        unit.names.setdefault("Foreign", Foreign)
        unit.emit(f"if isinstance({key}, Foreign): {unit.slow(ask)}({key})")
    if not node.strict:
        write(unit, node.default, dest)
        return

    def fail(item: Any) -> Any:
        STATE.site = site
        raise failure(item)

    unit.give(f"{unit.slow(fail)}({key})", dest)


def _is_key(unit: Unit, name: str, key: Any) -> str:
    if isinstance(key, Symbol | Char):
        return f"{name} is {unit.constant(key)}"
    if type(key) is int:
        return f"type({name}) is int and {name} == {unit.constant(key)}"
    return f"{unit.constant(case_key)}({name}) == {unit.constant(case_key(key))}"


WRITERS[Case] = _case

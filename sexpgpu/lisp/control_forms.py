"""Special operators that transfer control, and those of multiple values."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.analyze import (
    Tails,
    analyze_car,
    arguments,
    body,
    malformed,
    parts,
    site_here,
    special,
)
from sexpgpu.lisp.calls import as_function, values_list
from sexpgpu.lisp.control import CATCH_TAGS, ThrowExit
from sexpgpu.lisp.errors import control_error
from sexpgpu.lisp.exits import (
    BlockNode,
    Go,
    ReturnFrom,
    TagbodyNode,
    UnwindProtect,
)
from sexpgpu.lisp.nodes import (
    Constant,
    Custom,
    Node,
    Progn,
    Run,
    single,
)
from sexpgpu.lisp.scope import (
    Block,
    Frame,
    Scope,
    Tagbody,
)
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import (
    NIL,
    Cons,
    Symbol,
)
from sexpgpu.reader.printer import brief

_BLOCK_FIX = "name the function or the block around the form, or a loop's block nil: (return value)"
_TAG_FIX = "go to a tag of a tagbody, prog or do around the form"


def block_body(name: Symbol | None, forms: Any, scope: Scope, tails: Tails = ()) -> Node:
    """A body in a block (none: without one)."""
    if name is None:
        return body(forms, scope, tails)
    level = scope.level
    block = Block(name, level)
    inner = Scope(scope, level)
    inner.blocks = {name: block}
    in_loop = level.loops > 0
    made = body(forms, inner, (block, *tails))
    return BlockNode(block, made, in_loop) if block.exits else made


# ---------------------------------------------------------------- control


@special("block")
def _block(form: Any, scope: Scope, tails: Tails) -> Node:
    """A place that return-from leaves."""
    name = parts(form, 1, None, "(block name form…)")[0]
    if not isinstance(name, Symbol):
        raise malformed(f"{brief(name)} is not a block name", form)
    return block_body(name, form.cdr.cdr, scope, tails)


@special("return-from")
def _return_from(form: Any, scope: Scope, tails: Tails) -> Node:
    """Leaves a block with a value."""
    cells = parts(form, 1, 2, "(return-from name [value])")
    name = cells[0]
    if not isinstance(name, Symbol):
        raise malformed(f"{brief(name)} is not a block name", form)
    return return_from(name, form.cdr.cdr if len(cells) == 2 else None, scope, tails, form)


def return_from(name: Symbol, value_cell: Any, scope: Scope, tails: Tails, form: Any) -> Node:
    """A return: the value itself where the form is the last act of the block."""
    block = scope.block(name)
    if block is None:
        raise malformed(
            f"there is no block named {brief(name)} around this return", form, _BLOCK_FIX
        )
    if block in tails:
        return Constant(NIL) if value_cell is None else analyze_car(value_cell, scope, tails)
    value = Constant(NIL) if value_cell is None else analyze_car(value_cell, scope)
    far = block.level is not scope.level
    if far:
        block.var.captured = True
    return ReturnFrom(block, value, far, site_here())


def tag_key(tag: Any) -> Any:
    """The key of a tag: symbols by identity, integers by value."""
    return tag if isinstance(tag, Symbol) else ("integer", tag)


def is_tag(item: Any) -> bool:
    """Whether an item of a tagbody is a tag."""
    return isinstance(item, Symbol | int)


@special("tagbody")
def _tagbody(form: Any, scope: Scope, tails: Tails) -> Node:
    """Statements with tags that go jumps to; gives nil."""
    return tagbody_node(form.cdr, scope, tails, form)


def tagbody_node(cells: Any, scope: Scope, tails: Tails, form: Any) -> Node:
    """A tagbody of statements and tags."""
    level = scope.level
    tagbody = Tagbody(level)
    items: list[Any] = []
    at = cells
    count = 0
    targets: list[int] = []
    while isinstance(at, Cons):
        item = at.car
        if is_tag(item):
            key = tag_key(item)
            if key in tagbody.indices:
                raise malformed(f"the tag {brief(item)} occurs twice", form)
            tagbody.indices[key] = len(targets)
            targets.append(count)
        else:
            items.append(at)
            count += 1
        at = at.cdr
    if at is not NIL:
        raise malformed("a tagbody is a dotted list", form)
    inner = scope
    in_loop = level.loops > 0
    outer = tuple(t for t in tails if type(t) is Tagbody)
    if targets:
        inner = Scope(scope, level)
        inner.tags = dict.fromkeys(tagbody.indices, tagbody)
        level.loops += 1
    try:
        around = (tagbody, *outer)
        statements = [analyze_car(cell, inner, around) for cell in items]
    finally:
        if targets:
            level.loops -= 1
    if not targets:
        if not statements:
            return Constant(NIL)
        if not outer:
            return Progn([*statements, Constant(NIL)])
    return TagbodyNode(tagbody, statements, targets, in_loop, site_here())


@special("go")
def _go(form: Any, scope: Scope, tails: Tails) -> Node:
    """Jumps to a tag."""
    (tag,) = parts(form, 1, 1, "(go tag)")
    if not is_tag(tag):
        raise malformed(f"{brief(tag)} is not a tag", form)
    key = tag_key(tag)
    tagbody = scope.tag(key)
    if tagbody is None:
        raise malformed(f"there is no tag {brief(tag)} here", form, _TAG_FIX)
    if tagbody.level is not scope.level:
        tagbody.var.captured = True
    return Go(tagbody, tagbody.indices[key], tagbody in tails, site_here())


@special("catch")
def _catch(form: Any, scope: Scope, tails: Tails) -> Node:
    """A place that throw leaves, found at run time by its tag."""
    parts(form, 1, None, "(catch tag form…)")
    tag = analyze_car(form.cdr, scope)
    inside = body(form.cdr.cdr, scope)

    def make(frame: Frame) -> Run:
        tag_of, run_body = single(tag, frame), inside.emit(frame)

        def run(env: Any) -> Any:
            value = tag_of(env)
            depth = len(CATCH_TAGS)
            CATCH_TAGS.append(value)
            try:
                return run_body(env)
            except ThrowExit as thrown:
                if thrown.tag is not value:
                    raise
                return thrown.value
            finally:
                del CATCH_TAGS[depth:]

        return run

    return Custom(make)


@special("throw")
def _throw(form: Any, scope: Scope, tails: Tails) -> Node:
    """Leaves the innermost catch of a tag."""
    parts(form, 2, 2, "(throw tag value)")
    tag, value = analyze_car(form.cdr, scope), analyze_car(form.cdr.cdr, scope)
    site = site_here()

    def make(frame: Frame) -> Run:
        tag_of, value_of = single(tag, frame), value.emit(frame)

        def run(env: Any) -> Any:
            wanted = tag_of(env)
            result = value_of(env)
            for active in reversed(CATCH_TAGS):
                if active is wanted or (
                    type(active) is int and type(wanted) is int and active == wanted
                ):
                    raise ThrowExit(active, result)
            STATE.site = site
            raise control_error(f"no catch for the tag {brief(wanted)}")

        return run

    return Custom(make)


@special("unwind-protect")
def _unwind_protect(form: Any, scope: Scope, tails: Tails) -> Node:
    """Evaluates a form, then the cleanup, however the form is left."""
    parts(form, 1, None, "(unwind-protect form cleanup…)")
    protected = analyze_car(form.cdr, scope)
    if form.cdr.cdr is NIL:
        return protected
    return UnwindProtect(protected, body(form.cdr.cdr, scope))


# ---------------------------------------------------------------- multiple values


@special("multiple-value-call")
def _multiple_value_call(form: Any, scope: Scope, tails: Tails) -> Node:
    """Calls a function with all values of the forms."""
    parts(form, 1, None, "(multiple-value-call function form…)")
    function = analyze_car(form.cdr, scope)
    nodes = arguments(form.cdr.cdr, scope, form)
    site = site_here()

    def make(frame: Frame) -> Run:
        from sexpgpu.lisp.calls import call_values

        function_of = single(function, frame)
        runs = tuple(node.emit(frame) for node in nodes)

        def run(env: Any) -> Any:
            target = function_of(env)
            values: list[Any] = []
            for one in runs:
                values.extend(values_list(one(env)))
            STATE.site = site
            return call_values(as_function(target), *values)

        return run

    return Custom(make)


@special("multiple-value-prog1")
def _multiple_value_prog1(form: Any, scope: Scope, tails: Tails) -> Node:
    """Evaluates in order; all values of the first form."""
    parts(form, 1, None, "(multiple-value-prog1 form form…)")
    first = analyze_car(form.cdr, scope)
    from sexpgpu.lisp.control_macros import First

    return First(first, body(form.cdr.cdr, scope), all_values=True)

"""The interpreter of `format` directives.

One `Run` is one control string at work on its arguments; nested strings (~?) and iterations over
sublists are Runs of their own on the same stream.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sexpgpu.lisp.builtins.arithmetic import to_float
from sexpgpu.lisp.builtins.designators import list_items
from sexpgpu.lisp.builtins.strings import capitalize, downcase, upcase
from sexpgpu.lisp.calls import call
from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.format import floats, integers
from sexpgpu.lisp.format.parse import COUNT, Directive, Node, V, format_error, parse
from sexpgpu.lisp.format.streams import OutputStream, StringOutput
from sexpgpu.lisp.number_text import PRINT_BASE, PRINT_RADIX
from sexpgpu.lisp.printer import (
    PRINT_ESCAPE,
    PRINT_LENGTH,
    PRINT_LEVEL,
    PRINT_PRETTY,
    character_name,
    is_graphic,
    prin1_text,
    princ_text,
    written_text,
)
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import NIL, Char, Foreign, Function, String, Symbol, T

_STEPS = 8  # of fuel for a directive, or a round of ~{: it takes as long as some calls


class _Leave(Exception):
    """~^: leave the iteration, or (`all`: ~:^) the whole of a ~:{."""

    def __init__(self, all: bool) -> None:
        self.all = all


def _text_with(bindings: list[tuple[Symbol, Any]], show: Callable[[Any], str], value: Any) -> str:
    """The text of a value with printer variables bound."""
    saved = [(variable, variable.value) for variable, _ in bindings]
    for variable, setting in bindings:
        variable.value = setting
    try:
        return show(value)
    finally:
        for variable, before in saved:
            variable.value = before


class Run:
    """A control string at work: its arguments, how many were used, where it writes."""

    __slots__ = ("at", "control", "items", "out", "outer")

    def __init__(
        self, control: str, items: list[Any], out: OutputStream, outer: list[Any] | None = None
    ) -> None:
        self.control = control
        self.items = items
        self.at = 0
        self.out = out
        self.outer = outer  # the sublists left, inside ~:{

    # ------------------------------------------------------------ arguments

    def error(self, message: str, directive: Directive) -> Exception:
        return format_error(message, self.control, directive.position)

    def next(self, directive: Directive) -> Any:
        """The next argument."""
        if self.at >= len(self.items):
            raise self.error("no argument is left", directive)
        self.at += 1
        return self.items[self.at - 1]

    def parameters(self, directive: Directive, *defaults: Any) -> list[Any]:
        """The directive's parameters, with defaults for those left out or nil."""
        given = directive.parameters
        if len(given) > len(defaults):
            raise self.error(f"too many parameters for ~{directive.kind}", directive)
        values: list[Any] = []
        for index, default in enumerate(defaults):
            value: Any = given[index] if index < len(given) else None
            if value is V:
                value = self.next(directive)
                if value is NIL:
                    value = None
                elif type(value) is Char:
                    value = chr(value.code)
                elif not isinstance(value, int):
                    raise type_error(value, "(or null integer character)")
            elif value is COUNT:
                value = len(self.items) - self.at
            if value is not None and default is not None:
                wanted = type(default) if isinstance(default, str) else int
                if not isinstance(value, wanted):
                    raise self.error(f"a wrong parameter for ~{directive.kind}", directive)
            values.append(default if value is None else value)
        return values

    def count(self, directive: Directive, default: int = 1) -> int:
        """The one parameter of a directive that repeats."""
        (count,) = self.parameters(directive, default)
        if count < 0:
            raise self.error("a negative count", directive)
        STATE.charge_memory(count)
        STATE.charge(count // 8)
        return count

    # ------------------------------------------------------------ running

    def run(self, nodes: list[Node]) -> None:
        """Do the directives."""
        out = self.out
        for node in nodes:
            if type(node) is str:
                out.write(node)
            else:
                STATE.charge(_STEPS)
                _DIRECTIVES[node.kind](self, node)  # type: ignore[union-attr]

    def captured(self, nodes: list[Node]) -> tuple[str, _Leave | None]:
        """What the directives write, kept back, and the ~^ that ended them."""
        saved, inner = self.out, StringOutput()
        inner.at = saved.column
        self.out = inner
        leave: _Leave | None = None
        try:
            self.run(nodes)
        except _Leave as raised:
            leave = raised
        finally:
            self.out = saved
        return inner.take(), leave

    def lay(self, text: str, field: list[Any], left: bool) -> None:
        """Write text in a field of (mincol, colinc, minpad, padchar)."""
        width, step, least, pad = field
        count = max(least, 0)
        if len(text) + count < width:
            step = max(step, 1)
            count += -(-(width - len(text) - count) // step) * step
        if count:
            STATE.charge_memory(count)
            STATE.charge(count // 8)
            padding = pad * count
            text = padding + text if left else text + padding
        self.out.write(text)


Handler = Callable[[Run, Directive], None]

# ---------------------------------------------------------------- values


def aesthetic(value: Any) -> str:
    """The text of ~a."""
    if type(value) is String:
        return princ_text(value)
    return _text_with([(PRINT_ESCAPE, NIL)], princ_text, value)


def _value(run: Run, directive: Directive) -> None:
    """~a and ~s"""
    field = run.parameters(directive, 0, 1, 0, " ") if directive.parameters else None
    value = run.next(directive)
    if value is NIL and directive.colon:
        text = "()"
    else:
        text = aesthetic(value) if directive.kind == "a" else prin1_text(value)
    if field is None:
        run.out.write(text)
    else:
        run.lay(text, field, directive.at)


def _write(run: Run, directive: Directive) -> None:
    """~w"""
    bindings: list[tuple[Symbol, Any]] = []
    if directive.colon:
        bindings.append((PRINT_PRETTY, T))
    if directive.at:
        bindings += [(PRINT_LENGTH, NIL), (PRINT_LEVEL, NIL)]
    run.out.write(_text_with(bindings, written_text, run.next(directive)))


def _character(run: Run, directive: Directive) -> None:
    """~c"""
    value = run.next(directive)
    if type(value) is not Char:
        raise type_error(value, "character")
    if directive.at and not directive.colon:
        run.out.write(prin1_text(value))
    elif directive.colon:
        shown = is_graphic(value.code) and value.code != 32
        run.out.write(chr(value.code) if shown else character_name(value.code) or chr(value.code))
    else:
        run.out.write(chr(value.code))


# ---------------------------------------------------------------- numbers

_BASES = {"d": 10, "b": 2, "o": 8, "x": 16}


def _integer(run: Run, directive: Directive) -> None:
    """~d ~b ~o ~x"""
    width, pad, comma, interval = run.parameters(directive, 0, " ", ",", 3)
    _print_integer(run, directive, _BASES[directive.kind], width, pad, comma, interval)


def _print_integer(
    run: Run, directive: Directive, base: int, width: int, pad: str, comma: str, interval: int
) -> None:
    value = run.next(directive)
    if not isinstance(value, int):
        if isinstance(value, Foreign):
            run.out.write(value.lisp_print())
            return
        bindings = [(PRINT_ESCAPE, NIL), (PRINT_BASE, base), (PRINT_RADIX, NIL)]
        run.out.write(_text_with(bindings, princ_text, value))
        return
    run.out.write(
        integers.integer_field(
            value, base, width, pad, comma, interval, directive.colon, directive.at
        )
    )


def _radix(run: Run, directive: Directive) -> None:
    """~r"""
    base, width, pad, comma, interval = run.parameters(directive, None, 0, " ", ",", 3)
    if base is not None:
        if not 2 <= base <= 36:
            raise run.error("a radix is from 2 to 36", directive)
        _print_integer(run, directive, base, width, pad, comma, interval)
        return
    value = run.next(directive)
    if not isinstance(value, int):
        raise type_error(value, "integer")
    if directive.at:
        if not 0 < value < (5000 if directive.colon else 4000):
            raise run.error("the number has no Roman numeral", directive)
        run.out.write(integers.roman(value, directive.colon))
        return
    if abs(value) >= integers.LARGEST_IN_WORDS:
        raise run.error("the number is too large to be written in words", directive)
    run.out.write(integers.ordinal(value) if directive.colon else integers.cardinal(value))


def _plural(run: Run, directive: Directive) -> None:
    """~p"""
    if directive.colon:
        if run.at == 0:
            raise run.error("~:p has no argument before it", directive)
        run.at -= 1
    value = run.next(directive)
    one = isinstance(value, int) and value == 1
    if directive.at:
        run.out.write("y" if one else "ies")
    elif not one:
        run.out.write("s")


def _as_float(value: Any) -> float | None:
    """The float that a float directive prints, or None for what is no number."""
    if isinstance(value, float):
        return value
    if isinstance(value, int | Fraction):
        return to_float(value)
    return None


def _float(run: Run, directive: Directive) -> None:
    """~f ~e ~g"""
    kind = directive.kind
    if kind == "f":
        width, places, scale, overflow, pad = run.parameters(directive, None, None, 0, None, " ")
        exponent, marker = None, "e"
    else:
        width, places, exponent, scale, overflow, pad, marker = run.parameters(
            directive, None, None, None, 1, None, " ", "e"
        )
    for number in (width, places, exponent):
        if number is not None and (not isinstance(number, int) or number < 0):
            raise run.error("a negative width or number of digits", directive)
    value = run.next(directive)
    number = _as_float(value)
    if number is None or not floats.is_finite(number):
        text = _text_with([(PRINT_BASE, 10), (PRINT_RADIX, NIL)], aesthetic, value)
        run.out.write(integers.padded_left(text, width or 0, pad))
        return
    plus = directive.at
    if kind == "f":
        text = floats.fixed(number, width, places, scale, overflow, pad, plus)
    elif kind == "e":
        text = floats.exponential(
            number, width, places, exponent, scale, overflow, pad, marker, plus
        )
    else:
        text = floats.general(number, width, places, exponent, scale, overflow, pad, marker, plus)
    run.out.write(text)


def _money(run: Run, directive: Directive) -> None:
    """~$"""
    places, least, width, pad = run.parameters(directive, 2, 1, 0, " ")
    value = run.next(directive)
    number = _as_float(value)
    if number is None or not floats.is_finite(number):
        run.out.write(integers.padded_left(aesthetic(value), width, pad))
        return
    run.out.write(floats.money(number, places, least, width, pad, directive.at, directive.colon))


# ---------------------------------------------------------------- layout


def _newlines(run: Run, directive: Directive) -> None:
    """~%"""
    run.out.write("\n" * run.count(directive))


def _fresh_line(run: Run, directive: Directive) -> None:
    """~&"""
    count = run.count(directive)
    if count:
        run.out.write("\n" * (count - (run.out.column == 0)))


def _pages(run: Run, directive: Directive) -> None:
    """~|"""
    run.out.write("\f" * run.count(directive))


def _tildes(run: Run, directive: Directive) -> None:
    """~~"""
    run.out.write("~" * run.count(directive))


def _tabulate(run: Run, directive: Directive) -> None:
    """~t"""
    if directive.colon:
        raise run.error("pretty printing (~:t) is not here", directive)
    first, step = run.parameters(directive, 1, 1)
    column = run.out.column
    if directive.at:
        count = first
        if step > 0:
            count += -(column + first) % step
    elif column < first:
        count = first - column
    else:
        count = step - (column - first) % step if step > 0 else 0
    STATE.charge_memory(max(count, 0))
    STATE.charge(max(count, 0) // 8)
    run.out.write(" " * count)


# ---------------------------------------------------------------- control


def _goto(run: Run, directive: Directive) -> None:
    """~*"""
    if directive.at:
        (target,) = run.parameters(directive, 0)
    else:
        (count,) = run.parameters(directive, 1)
        target = run.at - count if directive.colon else run.at + count
    if not 0 <= target <= len(run.items):
        raise run.error("~* leads outside the arguments", directive)
    run.at = target


def _nested(run: Run, directive: Directive) -> None:
    """~?"""
    control = run.next(directive)
    if directive.at:
        items = run.items[run.at :]
        left = _run_control(control, items, run.out)
        run.at = len(run.items) - len(left)
    else:
        _run_control(control, list_items(run.next(directive)), run.out)


def _run_control(control: Any, items: list[Any], out: OutputStream) -> list[Any]:
    """Do a control string or a formatter; gives the arguments not used."""
    if isinstance(control, Function):
        return list_items(call(control, out, *items))
    if type(control) is not String:
        raise type_error(control, "(or string function)")
    return format_to(princ_text(control), items, out)


def format_to(control: str, items: list[Any], out: OutputStream) -> list[Any]:
    """Do a control string on a stream; gives the arguments not used."""
    return run_nodes(control, parse(control), items, out)


def run_nodes(control: str, nodes: list[Node], items: list[Any], out: OutputStream) -> list[Any]:
    """Do parsed directives on a stream; gives the arguments not used."""
    run = Run(control, items, out)
    try:
        run.run(nodes)
    except _Leave:
        return run.items[run.at :]
    return run.items[run.at :]


def _case(run: Run, directive: Directive) -> None:
    """~( ~)"""
    text, leave = run.captured(directive.clauses[0])
    if directive.colon and directive.at:
        text = upcase(text)
    elif directive.colon:
        text = capitalize(text)
    elif directive.at:
        text = downcase(text)
        first = next((i for i, letter in enumerate(text) if letter.isalnum()), len(text))
        text = text[:first] + upcase(text[first : first + 1]) + text[first + 1 :]
    else:
        text = downcase(text)
    run.out.write(text)
    if leave is not None:
        raise leave


def _choose(run: Run, directive: Directive) -> None:
    """~[ ~]"""
    clauses = directive.clauses
    if directive.colon:
        run.run(clauses[0 if run.next(directive) is NIL else 1])
        return
    if directive.at:
        if run.next(directive) is NIL:
            return
        run.at -= 1
        run.run(clauses[0])
        return
    (chosen,) = run.parameters(directive, None)
    if chosen is None:
        chosen = run.next(directive)
        if not isinstance(chosen, int):
            raise type_error(chosen, "integer")
    separators = directive.separators
    last_is_default = bool(separators) and separators[-1].colon
    if 0 <= chosen < len(clauses) - last_is_default:
        run.run(clauses[chosen])
    elif last_is_default:
        run.run(clauses[-1])


def _iterate(run: Run, directive: Directive) -> None:
    """~{ ~}"""
    (most,) = run.parameters(directive, None)
    nodes, control = directive.clauses[0], run.control
    function: Any = None
    if directive.bare:
        given = run.next(directive)
        if isinstance(given, Function):
            function = given
        elif type(given) is String:
            control = princ_text(given)
            nodes = parse(control)
        else:
            raise type_error(given, "(or string function)")
    items = run.items[run.at :] if directive.at else list_items(run.next(directive))
    closer = directive.closer
    at_least_once = closer is not None and closer.colon
    used = 0
    if directive.colon:
        used = _over_sublists(run, control, nodes, function, items, most, at_least_once)
    else:
        inner = Run(control, items, run.out)
        rounds = 0
        try:
            while (most is None or rounds < most) and (
                inner.at < len(items) or (at_least_once and rounds == 0)
            ):
                STATE.charge(_STEPS)
                rounds += 1
                if function is not None:
                    left = _run_control(function, items[inner.at :], run.out)
                    inner.at = len(items) - len(left)
                else:
                    inner.run(nodes)
        except _Leave:
            pass
        used = inner.at
    if directive.at:
        run.at += used


def _over_sublists(
    run: Run,
    control: str,
    nodes: list[Node],
    function: Any,
    items: list[Any],
    most: int | None,
    at_least_once: bool,
) -> int:
    """~:{: one round for each sublist; gives how many were used."""
    used = 0
    while (most is None or used < most) and (used < len(items) or (at_least_once and used == 0)):
        STATE.charge(_STEPS)
        arguments = list_items(items[used]) if used < len(items) else []
        used += 1
        if function is not None:
            _run_control(function, arguments, run.out)
            continue
        inner = Run(control, arguments, run.out, items[used:])
        try:
            inner.run(nodes)
        except _Leave as leave:
            if leave.all:
                break
    return min(used, len(items))


def _escape(run: Run, directive: Directive) -> None:
    """~^"""
    parameters = run.parameters(directive, None, None, None)
    given = [
        ord(value) if isinstance(value, str) else value
        for value in parameters[: len(directive.parameters)]
        if value is not None
    ]
    if not given:
        if directive.colon:
            leaves = not run.outer
        else:
            leaves = run.at >= len(run.items)
    elif len(given) == 1:
        leaves = given[0] == 0
    elif len(given) == 2:
        leaves = given[0] == given[1]
    else:
        leaves = given[0] <= given[1] <= given[2]
    if leaves:
        raise _Leave(directive.colon)


def _justify(run: Run, directive: Directive) -> None:
    """~< ~>: segments spread over a field."""
    width, step, least, pad = run.parameters(directive, 0, 1, 0, " ")
    segments: list[str] = []
    prefix: str | None = None
    spare, line = 0, 72
    clauses = directive.clauses
    separators = directive.separators
    for index, clause in enumerate(clauses):
        text, leave = run.captured(clause)
        if leave is not None:
            break
        if index == 0 and separators and separators[0].colon:
            spare, line = run.parameters(separators[0], 0, 72)
            prefix = text
        else:
            segments.append(text)
    text = _spread(segments, width, max(step, 1), least, pad, directive.colon, directive.at)
    if prefix is not None and run.out.column + len(text) + spare > line:
        run.out.write(prefix)
    run.out.write(text)


def _spread(
    segments: list[str], width: int, step: int, least: int, pad: str, before: bool, after: bool
) -> str:
    """The segments with padding between them, and before and after where asked."""
    if not segments:
        segments = [""]
    gaps = len(segments) - 1 + before + after
    lone = gaps == 0
    if lone:
        gaps = 1
        before = True
    length = sum(len(segment) for segment in segments)
    total = length + least * gaps
    if total > width:
        total = width + -(-(total - width) // step) * step
    total = max(total, width)
    STATE.charge_memory(total)
    STATE.charge(total // 8)
    missing = total - length
    sizes = [missing * (i + 1) // gaps - missing * i // gaps for i in range(gaps)]
    parts: list[str] = []
    if before:
        parts.append(pad * sizes.pop(0))
    for index, segment in enumerate(segments):
        if index:
            parts.append(pad * sizes.pop(0))
        parts.append(segment)
    if after:
        parts.append(pad * sizes.pop(0))
    return "".join(parts)


_DIRECTIVES: dict[str, Handler] = {
    "a": _value,
    "s": _value,
    "w": _write,
    "c": _character,
    "d": _integer,
    "b": _integer,
    "o": _integer,
    "x": _integer,
    "r": _radix,
    "p": _plural,
    "f": _float,
    "e": _float,
    "g": _float,
    "$": _money,
    "%": _newlines,
    "&": _fresh_line,
    "|": _pages,
    "~": _tildes,
    "t": _tabulate,
    "*": _goto,
    "?": _nested,
    "(": _case,
    "[": _choose,
    "{": _iterate,
    "^": _escape,
    "<": _justify,
}

"""Directives that print an argument: ~a ~s ~w ~c, and the numbers ~d ~b ~o ~x ~r ~p ~f ~e ~g ~$."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sexpgpu.lisp.builtins.arithmetic import to_float
from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.format import floats, integers
from sexpgpu.lisp.format.parse import Directive
from sexpgpu.lisp.format.run import Run, does
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
from sexpgpu.lisp.values import NIL, Char, Foreign, String, Symbol, T


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


def _aesthetic(value: Any) -> str:
    """The text of ~a."""
    if type(value) is String:
        return princ_text(value)
    return _text_with([(PRINT_ESCAPE, NIL)], princ_text, value)


@does("a", "s")
def _value(run: Run, directive: Directive) -> None:
    """~a and ~s"""
    field = run.parameters(directive, 0, 1, 0, " ") if directive.parameters else None
    value = run.next(directive)
    if value is NIL and directive.colon:
        text = "()"
    else:
        text = _aesthetic(value) if directive.kind == "a" else prin1_text(value)
    if field is None:
        run.out.write(text)
    else:
        run.lay(text, field, directive.at)


@does("w")
def _write(run: Run, directive: Directive) -> None:
    """~w"""
    bindings: list[tuple[Symbol, Any]] = []
    if directive.colon:
        bindings.append((PRINT_PRETTY, T))
    if directive.at:
        bindings += [(PRINT_LENGTH, NIL), (PRINT_LEVEL, NIL)]
    run.out.write(_text_with(bindings, written_text, run.next(directive)))


@does("c")
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


_BASES = {"d": 10, "b": 2, "o": 8, "x": 16}


@does("d", "b", "o", "x")
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


@does("r")
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


@does("p")
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


@does("f", "e", "g")
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
        text = _text_with([(PRINT_BASE, 10), (PRINT_RADIX, NIL)], _aesthetic, value)
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


@does("$")
def _money(run: Run, directive: Directive) -> None:
    """~$"""
    places, least, width, pad = run.parameters(directive, 2, 1, 0, " ")
    value = run.next(directive)
    number = _as_float(value)
    if number is None or not floats.is_finite(number):
        run.out.write(integers.padded_left(_aesthetic(value), width, pad))
        return
    run.out.write(floats.money(number, places, least, width, pad, directive.at, directive.colon))

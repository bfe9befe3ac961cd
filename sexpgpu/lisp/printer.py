"""The printer: the text of a value, as `prin1`, `princ` and `format` write it.

Works with an explicit stack, so that deep structure needs no deep Python; every object printed is
charged, so that a circular list ends in a limit. Knows nothing of streams or of `format`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sexpgpu.lisp.errors import make_error, type_error
from sexpgpu.lisp.number_text import (
    DIGITS,
    PRINT_BASE,
    float_text,
    integer_text,
    print_base,
    printer_variable,
    ratio_text,
)
from sexpgpu.lisp.sharing import Labels, is_circular
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import (
    CL,
    KEYWORD,
    NIL,
    Char,
    Condition,
    Cons,
    Foreign,
    Function,
    Module,
    String,
    Structure,
    Symbol,
    T,
    Vector,
    keyword,
)

PRINT_ESCAPE = printer_variable("*print-escape*", T)
PRINT_READABLY = printer_variable("*print-readably*", NIL)
PRINT_CASE = printer_variable("*print-case*", keyword("downcase"))
PRINT_LENGTH = printer_variable("*print-length*", NIL)
PRINT_LEVEL = printer_variable("*print-level*", NIL)
PRINT_PRETTY = printer_variable("*print-pretty*", NIL)
PRINT_CIRCLE = printer_variable("*print-circle*", NIL)
PRINT_GENSYM = printer_variable("*print-gensym*", T)
PRINT_ARRAY = printer_variable("*print-array*", T)
PRINT_LINES = printer_variable("*print-lines*", NIL)
PRINT_RIGHT_MARGIN = printer_variable("*print-right-margin*", NIL)
PRINT_MISER_WIDTH = printer_variable("*print-miser-width*", NIL)

_DOWNCASE = keyword("downcase")
_UPCASE = keyword("upcase")
_CAPITALIZE = keyword("capitalize")
_QUOTE = CL.own("quote")
_FUNCTION = CL.own("function")
_QUASIQUOTE = CL.own("quasiquote")
_UNQUOTE = CL.own("unquote")
_UNQUOTE_SPLICING = CL.own("unquote-splicing")
_PREFIXES = {
    _QUOTE: "'",
    _FUNCTION: "#'",
    _QUASIQUOTE: "`",
    _UNQUOTE: ",",
    _UNQUOTE_SPLICING: ",@",
}

# Fuel for one object printed: printing is slower than evaluation steps, and a circular list
# must end in seconds.
_FUEL_PER_OBJECT = 8
# After so many objects a value may be circular: then it is looked at.
_SUSPECT = 1 << 14
_CIRCULAR = "a circular object has no end to print while *print-circle* is nil"

CHARACTER_NAMES = {
    0: "Nul",
    8: "Backspace",
    9: "Tab",
    10: "Newline",
    12: "Page",
    13: "Return",
    27: "Escape",
    32: "Space",
    127: "Rubout",
    160: "No-Break_Space",
}


def prin1_text(value: Any) -> str:
    """The text that `prin1` writes: it reads back where the value can be read."""
    return text_of(value, escape=True)


def princ_text(value: Any) -> str:
    """The text that `princ` writes: for people."""
    if type(value) is String:
        return value.text if value.fill is None else value.text[: value.fill]
    if type(value) is Char:
        return chr(value.code)
    return text_of(value, escape=False)


def written_text(value: Any) -> str:
    """The text that `write` writes: escaped as `*print-escape*` says."""
    if PRINT_ESCAPE.value is NIL and PRINT_READABLY.value is NIL:
        return princ_text(value)
    return prin1_text(value)


class _Style:
    """The printer variables, read once for one object printed."""

    __slots__ = ("array", "case", "escape", "gensym", "labels", "length", "level", "pretty")

    def __init__(self, escape: bool) -> None:
        readably = PRINT_READABLY.value is not NIL
        length, level = _count_of(PRINT_LENGTH), _count_of(PRINT_LEVEL)
        self.escape = escape or readably
        self.length: int | None = None if length is NIL or readably else length
        self.level: int | None = None if level is NIL or readably else level
        self.gensym = PRINT_GENSYM.value is not NIL or readably
        self.array = PRINT_ARRAY.value is not NIL or readably
        self.pretty = PRINT_PRETTY.value is not NIL
        self.case = PRINT_CASE.value
        self.labels: Labels | None = None


def _count_of(variable: Symbol) -> Any:
    """The value of *print-length* or *print-level*."""
    value = variable.value
    if value is NIL or (type(value) is int and value >= 0):
        return value
    raise type_error(value, "(or null unsigned-byte)")


class _At:
    """A value to print at a depth."""

    __slots__ = ("depth", "value")

    def __init__(self, value: Any, depth: int) -> None:
        self.value = value
        self.depth = depth


class _Rest:
    """The rest of a list to print: after the `count`-th element."""

    __slots__ = ("count", "depth", "value")

    def __init__(self, value: Any, depth: int, count: int) -> None:
        self.value = value
        self.depth = depth
        self.count = count


def text_of(value: Any, escape: bool) -> str:
    """The text of a value, with or without escapes. A circular one is an error, unless it is
    labelled (*print-circle*) or cut (*print-length*, *print-level*)."""
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is int:
        return integer_text(value)
    style = _Style(escape)
    if kind is Symbol:
        return symbol_text(value, style.escape, style.case, style.gensym)
    if PRINT_CIRCLE.value is not NIL:
        style.labels = Labels(value)
    out: list[str] = []
    endless = style.labels is None and (style.length is None or style.level is None)
    work: list[Any] = [_At(value, 0)]
    count = 0
    while work:
        item = work.pop()
        kind = type(item)  # pyright: ignore[reportUnknownVariableType]
        if kind is str:
            out.append(item)
            continue
        STATE.charge(_FUEL_PER_OBJECT)
        count += 1
        if count & (count - 1) == 0 and count >= _SUSPECT and endless and is_circular(value):
            raise make_error("simple-error", message=_CIRCULAR, fix="bind *print-circle* to t")
        if kind is _Rest:
            _print_rest(item, style, out, work)
            continue
        if style.labels is not None and style.labels.has(item.value):
            mark, whole = style.labels.mark(item.value)
            out.append(mark)
            if whole:
                continue
        if isinstance(item.value, Cons):
            _print_cons(item, style, out, work)
        elif type(item.value) is Vector:
            _print_vector(item, style, out, work)
        else:
            _print_other(item, style, out, work)
    return "".join(out)


def _print_cons(item: _At, style: _Style, out: list[str], work: list[Any]) -> None:
    value, depth = item.value, item.depth
    prefix = _PREFIXES.get(value.car) if isinstance(value.car, Symbol) else None
    if prefix is not None and isinstance(value.cdr, Cons) and value.cdr.cdr is NIL:
        out.append(prefix)
        work.append(_At(value.cdr.car, depth))
        return
    if style.level is not None and depth >= style.level:
        out.append("#")
        return
    out.append("(")
    if style.length is not None and style.length <= 0:
        out.append("...)")
        return
    work.append(_Rest(value.cdr, depth, 1))
    work.append(_At(value.car, depth + 1))


def _print_rest(item: _Rest, style: _Style, out: list[str], work: list[Any]) -> None:
    value = item.value
    if value is NIL:
        out.append(")")
    elif isinstance(value, Cons) and not (style.labels is not None and style.labels.has(value)):
        if style.length is not None and item.count >= style.length:
            out.append(" ...)")
            return
        out.append(" ")
        work.append(_Rest(value.cdr, item.depth, item.count + 1))
        work.append(_At(value.car, item.depth + 1))
    else:
        out.append(" . ")
        work.append(")")
        work.append(_At(value, item.depth + 1))


def _push_sequence(
    items: list[Any], depth: int, opening: str, style: _Style, out: list[str], work: list[Any]
) -> None:
    """`#(a b c)` and its kin, with *print-length* and *print-level*."""
    if style.level is not None and depth >= style.level:
        out.append("#")
        return
    out.append(opening)
    work.append(")")
    if style.length is not None and len(items) > style.length:
        work.append("..." if style.length <= 0 else " ...")
        items = items[: max(style.length, 0)]
    for index in range(len(items) - 1, -1, -1):
        work.append(_At(items[index], depth + 1))
        if index:
            work.append(" ")


def _print_vector(item: _At, style: _Style, out: list[str], work: list[Any]) -> None:
    vector = item.value
    if not style.array:
        out.append("#<vector>")
        return
    items = vector.items if vector.fill is None else vector.items[: vector.fill]
    _push_sequence(items, item.depth, "#(", style, out, work)


def _print_other(item: _At, style: _Style, out: list[str], work: list[Any]) -> None:
    value = item.value
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is Symbol:
        out.append(symbol_text(value, style.escape, style.case, style.gensym))
    elif kind is String:
        text = value.text if value.fill is None else value.text[: value.fill]
        if style.escape:
            text = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
        out.append(text)
    elif kind is Char:
        out.append(character_text(value) if style.escape else chr(value.code))
    elif kind is float:
        out.append(float_text(value))
    elif kind is Fraction:
        out.append(ratio_text(value))
    elif isinstance(value, int):
        out.append(integer_text(value))
    else:
        parts = object_parts(value, style.escape)
        if isinstance(parts, str):
            out.append(parts)
        elif style.level is not None and item.depth >= style.level:
            out.append("#")
        else:
            opening, slots = parts
            out.append(opening)
            work.append(")")
            for name, slot in reversed(slots):
                work.append(_At(slot, item.depth + 1))
                work.append(f" {symbol_text(keyword(name), True, style.case)} ")


def object_parts(value: Any, escape: bool) -> str | tuple[str, list[tuple[str, Any]]]:
    """The text of an object without a syntax, or the opening and the slots of a structure."""
    if isinstance(value, Function):
        return f"#<function {value.name}>"
    if isinstance(value, Foreign):
        return value.lisp_print()
    if isinstance(value, Structure):
        if value.type.print_function is not None:
            from sexpgpu.lisp.format.streams import printed_by

            return printed_by(value.type.print_function, value)
        name = symbol_text(value.type.name, True, PRINT_CASE.value)
        return f"#S({name}", list(zip(value.type.slots, value.items, strict=True))
    if isinstance(value, Condition):
        return _condition_text(value, escape)
    from sexpgpu.lisp.signalling import Restart

    if isinstance(value, Restart):
        return f"#<restart {value.name.name}>" if escape else value.describe()
    if isinstance(value, Module):
        return f"#<module {value.name}>"
    return str(value)


def _condition_text(condition: Condition, escape: bool) -> str:
    """A condition's report, or with escapes its type and the beginning of its report; only the
    type where the report is the program's to make."""
    from sexpgpu.lisp.conditions import TYPES, report, type_symbol

    if not escape:
        return report(condition)
    kind = TYPES[condition.type]
    name = type_symbol(kind).name
    if any(at.report is not None for at in kind.linear):
        return f"#<{name}>"
    from sexpgpu.lisp.reports import safe_report
    from sexpgpu.reader.printer import brief

    return f"#<{name} {brief(String(safe_report(condition)))}>"


def symbol_text(
    symbol: Symbol, escape: bool = True, case: Symbol = _DOWNCASE, gensym: bool = True
) -> str:
    """A symbol's name as it is printed, with `:` or `#:` and bars when escaping."""
    name = symbol.name
    if escape and not _plain(name):
        text = "|" + name.replace("\\", "\\\\").replace("|", "\\|") + "|"
    elif case is _DOWNCASE:
        text = name
    elif case is _UPCASE:
        text = _upcased(name)
    else:
        text = _capitalized(name)
    if not escape:
        return text
    if symbol.module is KEYWORD:
        return ":" + text
    if symbol.module is None and gensym:
        return "#:" + text
    return text


def _upcased(name: str) -> str:
    # Only what folding made small: a name read with its case kept stays as it is.
    return "".join(c.upper() if len(c.upper()) == 1 else c for c in name)


def _capitalized(name: str) -> str:
    letters: list[str] = []
    inside = False
    for letter in name:
        letters.append(letter if inside or len(letter.upper()) != 1 else letter.upper())
        inside = letter.isalnum()
    return "".join(letters)


_PLAIN_START = frozenset("abcdefghijklmnopqrstuvwxyz*/<=>!?$%&_~@[]{}")
_PLAIN = _PLAIN_START | frozenset("0123456789+-.^#")
_NEEDS_BARS = frozenset("()'\"`,;:|\\ \t\n\r\f\b\x7f")


def _plain(name: str) -> bool:
    """Whether a name reads back as this symbol without bars."""
    if not name:
        return False
    if name[0] in _PLAIN_START and _PLAIN.issuperset(name):
        return PRINT_BASE.value == 10 or not _looks_numeric(name)
    for letter in name:
        if letter in _NEEDS_BARS or letter.lower() != letter or letter.isspace():
            return False
    if name[0] == "#" or not name.strip("."):
        return False
    return not _looks_numeric(name)


def _looks_numeric(name: str) -> bool:
    """Whether the reader would take the token for a number (in the base it reads)."""
    body = name[1:] if name[0] in "+-" else name
    base = print_base()
    if base > 10 and all(c.upper() in DIGITS[:base] or c == "/" for c in body):
        return bool(body)
    if not body or not (body[0].isdigit() or body[0] == "."):
        return False
    if body.rstrip(".").isdigit() and body.count(".") <= 1:
        return True
    upper, slash, lower = body.partition("/")
    if slash:
        return upper.isdigit() and lower.isdigit()
    for marker in "esfdl":
        mantissa, found, exponent = body.partition(marker)
        if found:
            digits = exponent[1:] if exponent[:1] in ("+", "-") else exponent
            return digits.isdigit() and mantissa.replace(".", "", 1).isdigit()
    return body.replace(".", "", 1).isdigit()


def character_text(value: Char) -> str:
    """`#\\a`, `#\\Space`."""
    name = character_name(value.code)
    return "#\\" + (name if name is not None else chr(value.code))


def is_graphic(code: int) -> bool:
    """Whether a character can be seen (Space included)."""
    return 32 <= code < 127 or (code >= 160 and not 0xD800 <= code < 0xE000)


def character_name(code: int) -> str | None:
    """The name of a character that has one (the blanks and the controls), else None."""
    name = CHARACTER_NAMES.get(code)
    if name is not None:
        return name
    if code < 32 or 127 < code < 160 or 0xD800 <= code < 0xE000:
        return f"U+{code:04X}"
    return None

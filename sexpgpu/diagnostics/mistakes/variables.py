"""Variables without a value: habits of Python, forms with a parenthesis amiss."""

from __future__ import annotations

import re

from sexpgpu.diagnostics.codes import lisp
from sexpgpu.diagnostics.mistakes.mend import NAME, NUMBER, Mend, after, before, replaced, says
from sexpgpu.diagnostics.model import Diagnostic
from sexpgpu.source import Span

ATTRIBUTES = {
    "shape": "(shape {})", "t": "(transpose {})", "dtype": "(dtype {})", "ndim": "(rank {})",
    "size": "(size {})",
}  # fmt: skip
"""What array libraries keep as attributes, as the calls that give it here."""
OWN_SHAPE = "a list here is one of sizes; that of the parameter is (param-shape)"


def python_constant(found: Diagnostic, span: Span) -> Mend | None:
    ours = {"true": "t", "false": "nil", "none": "nil", "null": "nil"}.get(span.text.lower())
    if ours is None:
        return None
    return Mend(f"write {ours}", replaced(span, ours), safe=True)


def underscored_number(found: Diagnostic, span: Span) -> Mend | None:
    if not re.fullmatch(r"[-+]?\d[\d_]*_[\d_]*(\.\d+)?", span.text):
        return None
    plain = span.text.replace("_", "")
    return Mend(f"a number has no underscores: write {plain}", replaced(span, plain), safe=True)


def subscript(found: Diagnostic, span: Span) -> Mend | None:
    match = re.fullmatch(r"([^\[\]]+)\[([^\[\]]*)\]?", span.text)
    if match is None:
        return None
    name, index = match.groups()
    if re.fullmatch(r"-?\d+", index):
        ours = f"(at {name} {index})"
        told = f"an element is taken with a call: {ours}"
        return Mend(told, replaced(span, ours), safe=True)
    return Mend(f"an element is taken with a call: (at {name} i), a part (at {name} (slice a b))")


def field_in_brackets(found: Diagnostic, span: Span) -> Mend | None:
    """`batch["x"]`, `batch.x`."""
    match = re.fullmatch(r"(batch)(?:\[|\.([A-Za-z][\w-]*)|\[[:']?([\w-]+)'?\])", span.text)
    if match is None:
        return None
    name, end = match[2] or match[3], span.end
    if name is None:
        inner = after(span, r'"([^"]+)"\]')
        if inner is None:
            return None
        name, end = inner[1], span.end + inner.end()
    ours = f"(field batch :{name})"
    return Mend(f"a field of a batch is {ours}", (span.start, end, ours), safe=True)


def float_suffix(found: Diagnostic, span: Span) -> Mend | None:
    """`1.0f`, and numbers with a typographic minus."""
    text = span.text.replace("\u2212", "-").replace("\u2013", "-")
    text = re.sub(r"(?<=[\d.])[fFlL]$", "", text)
    if text == span.text or not re.fullmatch(NUMBER, text.lower()):
        return None
    return Mend(f"write {text}", replaced(span, text), safe=True)


typographic_quotes = says(
    'these quotes come from a word processor: a text stands in straight ones, "…"',
    written="[\u201c\u201d\u2018\u2019\u201e]",
)


def slashes_comment(found: Diagnostic, span: Span) -> Mend | None:
    if not span.text.startswith("//"):
        return None
    place = (span.start, span.start + 2)
    return Mend("a comment begins with a semicolon: ; …", (*place, ";"), safe=True)


STATEMENTS = frozenset(
    ("import", "from", "def", "class", "return", "pass", "for", "while", "if", "with", "global")
)


def python_statement(found: Diagnostic, span: Span) -> Mend | None:
    """A line of Python."""
    word = span.text.lower()
    if word not in STATEMENTS or not re.search(r"(^|\n)\s*$", span.source.text[: span.start]):
        return None
    ours = {"import": '(require "sexpgpu/nn" :as nn)', "from": '(require "sexpgpu/nn" :as nn)'}
    told = ours.get(word, "(defun f (x) …)")
    return Mend(f"that is Python: here everything is a form in parentheses, such as {told}")


def no_infinity(found: Diagnostic, span: Span) -> Mend | None:
    name = span.text.lower().rpartition(".")[2]
    if name not in ("inf", "-inf", "infinity", "+inf", "nan"):
        return None
    return Mend(
        "no number is infinite or NaN in a file: what is masked out is chosen by (where mask a b), "
        "in attention by :mask; a bound is a large number such as 1e30"
    )


def quoted_function(found: Diagnostic, span: Span) -> Mend | None:
    """`(funcall #'model x)` of a parameter."""
    match = re.fullmatch(rf"#'({NAME})", span.text)
    if match is None:
        return None
    text = span.source.text
    form = text[max(text.rfind("\n(", 0, span.start), 0) : span.start]
    if not re.search(rf"\((?:defun\s+{NAME}|forward|lambda)\s+\([^()]*\b{match[1]}\b", form):
        return None
    told = f"{match[1]} is a variable here, which holds a function: write {match[1]}"
    return Mend(told, (span.start, span.start + 2, ""), safe=True)


def attribute(found: Diagnostic, span: Span) -> Mend | None:
    name, dot, attribute = span.text.rpartition(".")
    call = ATTRIBUTES.get(attribute.lower())
    if not dot or not name or "." in name or call is None:
        return None
    ours = call.format(name)
    return Mend(f"a value has no attributes: write {ours}", replaced(span, ours), safe=True)


def keyword_argument(found: Diagnostic, span: Span) -> Mend | None:
    match = re.fullmatch(r"([A-Za-z][\w-]*)=(.*)", span.text)
    if match is None:
        return None
    name, value = match.group(1).replace("_", "-"), match.group(2)
    shown = f":{name} {value}".rstrip()
    told = f"a keyword argument is written {shown}; one given by place is the value alone"
    return Mend(told, replaced(span, f":{name}{' ' if value else ''}{value}"))


brackets = says(
    "brackets have no meaning here: a list is (list 1 2), or '(1 2) of constants", written=r"^\["
)


def flat_let(found: Diagnostic, span: Span) -> Mend | None:
    """`(let (h (f x)) …)`, which binds h to nil and f to x."""
    text = span.source.text
    begin = max(text.rfind("\n(", 0, span.start), 0)
    lets = [*re.finditer(rf"\(let\*?\s+\(({NAME})\s+\(", text[begin : span.end])]
    if not lets or not ("nil" in found.headline or found.code is lisp.E_NAME_001):
        return None
    match = lets[-1]
    start = begin + match.start(1)
    return Mend(
        f"let's bindings are lists in a list: write (let (({match[1]} …)) …)",
        place=(begin + match.start(), start + len(match[1])),
    )


def let_closed(found: Diagnostic, span: Span) -> Mend | None:
    """A variable that a let binds is used among its bindings, or behind its end."""
    text = span.source.text
    begin = max(text.rfind("\n(", 0, span.start), 0)
    lets = rf"\((let\*?)\s+\((?=\({re.escape(span.text)}\s|.*\n?.*\({re.escape(span.text)}\s)"
    for match in reversed([*re.finditer(lets, text[begin : span.start])]):
        depth = _depth(text[begin + match.start() : span.start])
        if depth < 1:
            return Mend(
                f"the {match[1]} that binds {span.text} ends before this: move its last "
                "parenthesis behind what uses it"
            )
        if _depth(text[begin + match.end() - 1 : span.start]) > 0 and match[1].lower() == "let":
            return Mend(
                "a let's bindings end before its body, ((a …) (b …)), and do not see each other: "
                "close them earlier, or write let* for one that needs another"
            )
    return None


def _depth(text: str) -> int:
    """How many parentheses of a text are open at its end; -1 where one was closed too many."""
    depth = 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|;[^\n]*|[()]', text):
        depth += {"(": 1, ")": -1}.get(token.group(), 0)
        if token.group() == ")" and depth == 0:
            return depth
    return depth


def assignment(found: Diagnostic, span: Span) -> Mend | None:
    if not re.fullmatch(NAME, span.text):
        return None
    name = span.text
    if before(span, r"\(\s*=\s+"):
        return Mend(
            f"= compares numbers: to name a value write (let (({name} …)) …), to change a "
            f"variable (setq {name} …)"
        )
    if name == "=":
        return Mend("a value is named with (defparameter name value), one to vary with defknob")
    if after(span, r"\s*=(\s|$)"):
        return Mend(f"a value is named with let: (let (({name} …)) …)")
    return None


def prefixed_string(found: Diagnostic, span: Span) -> Mend | None:
    if span.text.lower() not in ("f", "r", "b", "u") or not after(span, '"'):
        return None
    return Mend('a string has no prefix; to put values in it write (format nil "… ~a …" value)')


def field_name(found: Diagnostic, span: Span) -> Mend | None:
    if not before(span, rf"\(field\s+{NAME}\s+"):
        return None
    ours = f":{span.text}"
    return Mend(f"a field is named by a keyword: write {ours}", replaced(span, ours), safe=True)


def setq_first(found: Diagnostic, span: Span) -> Mend | None:
    match = re.match(rf"\((?:setq|setf)\s+({NAME})", span.text)
    if match is None or "[" in match[1]:
        return None
    return Mend(
        f"setq changes a variable that exists: name the value with (let (({match[1]} …)) …), or "
        f"define it for the file with (defvar {match[1]} …)"
    )


def cond_clause(found: Diagnostic, span: Span) -> Mend | None:
    if not before(span, r"\(cond\s+\("):
        return None
    return Mend(f"a clause of cond is a list that begins with its test: (({span.text} …) …)")


def quoted_shape(found: Diagnostic, span: Span) -> Mend | None:
    match = re.search(rf"\(\s*defparam\s+{NAME}\s+(')\(", span.text)
    if match is None:
        return None
    at = span.start + match.start(1)
    told = "a parameter's shape is not quoted, its extents are evaluated: remove the quote"
    return Mend(told, (at, at + 1, ""), safe=True, place=(at, at + 2))


def called_shape(found: Diagnostic, span: Span) -> Mend | None:
    """A call in the place of a shape, whose list is read as one of sizes."""
    match = re.match(rf"\(\s*(defstate|defparam|defbuffer)\s+{NAME}\s+\((shape|dim)\s", span.text)
    if match is None:
        return None
    if match[1] == "defstate":
        return Mend(OWN_SHAPE)
    return Mend(
        f"a list here is one of sizes, such as (64 32): ({match[2]} …) is read as two of them"
    )


def state_shape(found: Diagnostic, span: Span) -> Mend | None:
    """`(defstate m p)`, as where a state is made like an array."""
    match = re.match(rf"\(\s*defstate\s+{NAME}\s+\(?({NAME})", span.text)
    if match is None or f"variable {match[1].lower()} " not in found.headline:
        return None
    return Mend(OWN_SHAPE)


def clause_in_forward(found: Diagnostic, span: Span) -> Mend | None:
    match = before(span, r"\(\s*(submodel|defparam|defbuffer)\s+")
    return match and Mend(f"{match[1]} is a clause of defmodel: write it before forward")


def bare_metric(found: Diagnostic, span: Span) -> Mend | None:
    """`(metric accuracy …)`: its name without the colon."""
    match = re.match(rf"\(\s*(metric|loss-term|diagnostic|counter)\s+({NAME})", span.text)
    if match is None or f"variable {match[2].lower()} " not in found.headline:
        return None
    at = span.start + match.start(2)
    told = f"a {match[1]} is named by a keyword: write :{match[2]}"
    return Mend(told, (at, at, ":"), safe=True, place=(at, span.start + match.end(2)))


def near_variable(found: Diagnostic, span: Span) -> Mend | None:
    match = re.fullmatch(r"write (\S+)", found.fix or "")
    if match is None or not re.fullmatch(NAME, span.text):
        return None
    return Mend(found.fix or "", replaced(span, match[1]))

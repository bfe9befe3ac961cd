"""Clauses and values of def-forms that are not written as they are read."""

from __future__ import annotations

import re

from sexpgpu.diagnostics.mistakes.mend import NAME, NUMBER, Mend, before, replaced, says
from sexpgpu.diagnostics.model import Diagnostic
from sexpgpu.source import Span

FORM = r"\([^()]*(?:\([^()]*\)[^()]*)*\)"
"""A list with lists in it that have none."""


def submodel_name(found: Diagnostic, span: Span) -> Mend | None:
    """`(submodel (up form))`, `(submodel :up form)`, `(submodel "up" form)`."""
    match = re.match(
        rf"\((submodel|defparam|defbuffer)\s+(?:\(({NAME})|[:\"]({NAME}?)\"?(?=[\s)]))", span.text
    )
    if match is None or "a name was expected" not in found.headline:
        return None
    return Mend(f"the name stands bare behind {match[1]}: ({match[1]} {match[2] or match[3]} …)")


def clause_by_place(found: Diagnostic, span: Span) -> Mend | None:
    """A value behind a clause's arguments that wants its key, or a list around it."""
    match = re.match(r"(\S+) (\S+): a key such as :\S+ was expected, not ", found.headline)
    if match is None:
        return None
    clause, name = match.groups()
    if clause == "submodel":
        return Mend(f"to apply several in a row write (submodel {name} (stack a b …))")
    if clause == "defparam":
        shape = before(span, rf"\(\s*defparam\s+{NAME}\s+({NUMBER}|{NAME})\s+")
        if shape is not None and not span.text.startswith("("):
            place = (span.start - len(shape[0]) + shape.start(1) - shape.start(), span.end)
            ours = f"({shape[1]} {span.text})"
            return Mend(f"a shape is one list: write {ours}", (*place, ours), place=place)
        ours = f":init {span.text}"
        return Mend(
            f"the initial value has a key: write {ours}", (span.start, span.start, ":init ")
        )
    if clause == "defeval":
        ours = f":loader {span.text}"
        return Mend(f"the loader has a key: write {ours}", (span.start, span.start, ":loader "))
    return None


def loader_name(found: Diagnostic, span: Span) -> Mend | None:
    """`:loader 'valid`, `:loader "valid"`."""
    match = re.search(rf":loader\s+('|\")({NAME}?)\"?(?=[\s)])", span.text)
    if match is None or "takes the name of a loader" not in found.headline:
        return None
    place = (span.start + match.start(1), span.start + match.end())
    return Mend(f"a name stands bare: write {match[2]}", (*place, match[2]), safe=True, place=place)


def field_form(found: Diagnostic, span: Span) -> Mend | None:
    if "a field is (name dtype shape" not in found.headline:
        return None
    match = re.match(rf"\(\s*:({NAME})", span.text)
    if match is not None:
        at = span.start + match.start(1) - 1
        return Mend(f"a field's name has no colon: write {match[1]}", (at, at + 1, ""), safe=True)
    match = re.fullmatch(rf"\(\s*({NAME}\s+:{NAME})\s*\)", span.text)
    if match is None:
        return None
    return Mend(f"say the shape of a record: ({match[1]} ()) for a number, ({match[1]} (8)) for 8")


def batch_declared(found: Diagnostic, span: Span) -> Mend | None:
    """The batch's axis in the shape of a field."""
    match = re.search(r"declared with shape \((\d+ )(.*)\); the data has \((.*)\)", found.headline)
    if match is None or match[2] != match[3]:
        return None
    return Mend(f"a field's shape is that of one record: write ({match[3]})")


def optimizer_value(found: Diagnostic, span: Span) -> Mend | None:
    """`:optimizer :adamw`, `:model #'net`."""
    match = re.search(r":(optimizer|model) takes an? ", found.headline)
    word = re.fullmatch(rf"(#'|:|\")({NAME}?)\"?", span.text)
    if match is None or word is None:
        return None
    name = word[2].lower()
    ours = f"({name})"
    if match[1] == "optimizer" and word[1] != "#'":
        ours = f"(optim:{name} :lr 1e-3)"
    elif match[1] == "optimizer":
        ours = f"({name} :lr 1e-3)"
    return Mend(f"write {ours}, a call that makes one", replaced(span, ours))


def checkpoint_value(found: Diagnostic, span: Span) -> Mend | None:
    if ":checkpoint takes a property list" not in found.headline:
        return None
    ours = f"(:every {span.text if span.text.isdigit() else 100})"
    return Mend(f"write {ours}: a save every so many steps", replaced(span, ours))


def whole_float(found: Diagnostic, span: Span) -> Mend | None:
    """`:steps 1e4`, `:steps 20.0`."""
    if not re.fullmatch(NUMBER, span.text.lower()) or "integer" not in found.headline:
        return None
    value = float(span.text.lower().replace("d", "e"))
    if not value.is_integer() or value < 1:
        return None
    return Mend(f"write {value:.0f}", replaced(span, f"{value:.0f}"), safe=True)


def source_path(found: Diagnostic, span: Span) -> Mend | None:
    """`:source "train.npz"`."""
    if ":source takes a source" not in found.headline or not re.fullmatch(r'".+"', span.text):
        return None
    maker = "text" if span.text.endswith('.txt"') else "npz"
    ours = f"({maker} {span.text})" if maker == "npz" else f"(text {span.text} :window 256)"
    return Mend(f"write {ours}", replaced(span, ours), safe=span.text.endswith('.npz"'))


def source_folder(found: Diagnostic, span: Span) -> Mend | None:
    match = re.fullmatch(r"(.*[^/])/* is a folder", found.headline)
    if match is not None:
        return Mend(f'name its files by a pattern: "{match[1]}/*.npz"')
    if re.search(r'"~', span.text):
        return Mend("~ means nothing here: write the path from the root, or from the run file")
    return None


def initial_value(found: Diagnostic, span: Span) -> Mend | None:
    match = re.search(r"initial value of \S+ is (.*); it must have the shape", found.headline)
    if match is None:
        return None
    numbers = {":zeros": "0.0", ":ones": "1.0", ":zero": "0.0", ":one": "1.0"}
    if match[1] in numbers:
        return Mend(f"an initial value may be a number: :init {numbers[match[1]]}")
    if match[1].startswith("("):
        return Mend(f"a list of numbers becomes a tensor by (constant '{match[1]})")
    if match[1][:1].isalpha():
        return Mend(
            "in :init the variable `shape` is the parameter's own: (* 0.02 (random-normal shape))"
        )
    return None


def part_of_stack(found: Diagnostic, span: Span) -> Mend | None:
    """`(stack a :relu)`, `(repeat form 3)`."""
    match = re.search(r"a model or a function was expected, not [:\"]?([\w-]+)\"?$", found.headline)
    if match is not None and not match[1].isdigit():
        return Mend(f"a function stands there as #'{match[1]}")
    if re.search(r"^repeat: a positive integer .* not #<", found.headline):
        return Mend("the number comes first: (repeat 3 (nn:linear 8 8))")
    return None


def listed_shape(found: Diagnostic, span: Span) -> Mend | None:
    """`(defparam w (list in out))`, whose first extent would be `list`."""
    match = re.search(rf"\(\s*def(?:param|state|buffer)\s+{NAME}\s+\((list)\s+", span.text)
    if match is None or "variable list " not in found.headline:
        return None
    start = span.start + match.start(1)
    place = (start - 1, start + len(match[1]))
    told = "here a shape is a list as it stands: remove `list`"
    return Mend(told, (start, span.start + match.end(), ""), safe=True, place=place)


def inline_lists(found: Diagnostic, span: Span) -> Mend | None:
    """`(inline (x ((0.0 1.0) (1.0 0.0))))`: all records in one list."""
    match = re.search(r"different counts: .*?(\S+) has 1\b", found.headline)
    if match is None:
        return None
    return Mend(f"the records stand side by side behind the name: ({match[1]} (0.0 1.0) (1.0 0.0))")


distribution = says(
    "write all four: (x :f32 (4) (:normal 0 1)) for floats, (label :i32 () (:integers 0 10)) "
    "for integers below 10",
    headline=r"^synthetic: \(name dtype shape",
)

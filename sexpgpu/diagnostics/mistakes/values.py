"""Arguments, forms and values of a run that are of the wrong kind."""

from __future__ import annotations

import re

from sexpgpu.diagnostics.mistakes.mend import NAME, NUMBER, Mend, before, operator, replaced, says
from sexpgpu.diagnostics.model import Diagnostic
from sexpgpu.source import Span


def unquoted_list(found: Diagnostic, span: Span) -> Mend | None:
    if before(span, rf"\(\s*def(?:param|buffer|state)\s+{NAME}\s+'"):
        told = "a shape is not quoted, its extents are evaluated: remove the quote"
        return Mend(told, (span.start - 1, span.start, ""), safe=True)
    around = before(span, rf"\(\s*(defparam|submodel|forward|defstate)\s+{NAME}\s+")
    if around is not None:
        return Mend(f"{around[1]} is a clause of defmodel or defoptimizer: move it there")
    if not re.fullmatch(rf'\((?:\s*(?:{NUMBER}|"[^"]*"|:{NAME}))+\s*\)', span.text):
        return None
    told = f"a list of constants is quoted: '{span.text}"
    return Mend(told, (span.start, span.start, "'"), safe=True)


early_return = says(
    "a function gives its last form's value: write the form alone; to leave early, wrap the "
    "body in (block name …) and write (return-from name value)",
    written=r"^\(return",
)


several_branches = says(
    "join the forms of a branch: (if test (progn …) (progn …)); for several tests, cond",
    headline="malformed if",
    written=r"^\(if\b",
)


def bare_parameter(found: Diagnostic, span: Span) -> Mend | None:
    match = re.search(rf"\(lambda\s+({NAME})(?=\s)", span.text)
    if match is None or "no list" not in found.headline:
        return None
    at = span.start + match.start(1)
    place = (span.start + match.start(), span.start + match.end(1))
    told = f"parameters are a list: (lambda ({match[1]}) …)"
    return Mend(told, (at, at + len(match[1]), f"({match[1]})"), safe=True, place=place)


KEYWORDS = {
    "dim": "axis", "dims": "axis", "axes": "axis", "keepdim": "keep", "keepdims": "keep",
    "keep-dims": "keep", "learning-rate": "lr", "rate": "lr", "weight-decay": "decay",
    "wd": "decay", "beta1": "b1", "beta2": "b2", "beta-1": "b1", "beta-2": "b2", "epsilon": "eps",
    "use-bias": "bias", "kernel-size": "size", "strides": "stride", "type": "dtype",
}  # fmt: skip
"""What other libraries call keyword arguments of this one."""


BY_PLACE = (
    "kernel-size|filter-size|in-features|out-features|in-channels|out-channels|channels|units|"
    "filters|features|num-embeddings|embedding-dim|hidden-size|input-size|num-features|dim"
)
"""What other libraries name among the first arguments of a layer, which stand by place here."""


def layer_argument(found: Diagnostic, span: Span) -> Mend | None:
    """`(nn:conv2d 1 8 :kernel-size 3)`."""
    match = re.search(rf"\s(:(?:{BY_PLACE}))(\s+)(?={NAME})", span.text.replace("_", "-"))
    name = operator(span)[2]
    if match is None or ":" not in name:
        return None
    place = (span.start + match.start(1), span.start + match.end(2))
    told = f"the first arguments of {name} have no names: leave {match[1]} out"
    return Mend(told, (*place, ""))


def model_uncalled(found: Diagnostic, span: Span) -> Mend | None:
    """`(nn:cross-entropy model x y)`."""
    match = re.fullmatch(rf"\(\s*({NAME})\s+(model)\s+({NAME})\s+({NAME})\s*\)", span.text)
    if match is None:
        return None
    ours = f"({match[1]} (funcall model {match[3]}) {match[4]})"
    return Mend(f"the model is called first: {ours}", replaced(span, ours), safe=True)


def part_called(found: Diagnostic, span: Span) -> Mend | None:
    """`(stack a (relu))`."""
    if not re.fullmatch(rf"\({NAME}\)", span.text) or "0 given" not in found.headline:
        return None
    if before(span, r"\((?:stack|submodel|repeat)\s[^\n]*") is None:
        return None
    name = span.text[1:-1]
    return Mend(f"a function stands there as #'{name}", replaced(span, f"#'{name}"))


def stream_first(found: Diagnostic, span: Span) -> Mend | None:
    """`(format "~a" x)`."""
    match = re.match(r'\(\s*format\s+(?=")', span.text)
    if match is None:
        return None
    at = span.start + match.end()
    return Mend("where to comes first: (format t …) prints", (at, at, "t "), safe=True)


def knob_assigned(found: Diagnostic, span: Span) -> Mend | None:
    match = re.match(rf"\(\s*set[fq]\s+({NAME})\s", span.text)
    if match is None or "is not a place" not in found.headline:
        return None
    name = re.escape(match[1])
    if not re.search(rf"\(\s*defknob\s+{name}[\s)]", span.source.text, re.IGNORECASE):
        return None
    return Mend(
        f"a knob is set from outside, --set {match[1]}=…, or by a variant; to change its default "
        "edit the defknob"
    )


loop_range = says(
    "write (loop for i below n …), or (loop for x in list …)", headline="^loop: `for` needs"
)


def keyword_left_out(found: Diagnostic, span: Span) -> Mend | None:
    """A last argument by place, of a function whose further arguments have names."""
    match = re.search(r"keyword arguments \((:\S+?)[ )].* not in pairs", found.headline)
    last = re.search(rf"\s({NAME})\s*\)$", span.text)
    if match is None or last is None or last[1].startswith(":"):
        return None
    name = operator(span)[2]
    if "pool" in name and re.fullmatch(NUMBER, last[1]):
        return Mend(
            f"{name} makes a layer of its size: write (submodel pool ({name} {last[1]})), and call "
            "that: (pool x)"
        )
    return Mend(f"what comes after the first arguments has a name: write {match[1]} {last[1]}")


def keyword_name(found: Diagnostic, span: Span) -> Mend | None:
    match = re.search(r"has no keyword :(\S+)$", found.headline)
    if match is None:
        return None
    wrong = match[1]
    near = re.fullmatch(r"write (:\S+)|did you mean (:\S+)\?", found.fix or "")
    ours = KEYWORDS.get(wrong.replace("_", "-"))
    known = re.findall(r":[\w-]+", found.fix or "")
    written = f":{ours}" if ours and f":{ours}" in known else None
    if written is None and near is not None:
        written = near[1] or near[2]
    if written is None:
        return None
    at = [
        m.start()
        for m in re.finditer(rf"(?<![\w-]):{re.escape(wrong)}(?![\w-])", span.text.lower())
    ]
    if len(at) != 1:
        return Mend(f"write {written}")
    start = span.start + at[0]
    edit = (start, start + len(wrong) + 1, written)
    return Mend(f"write {written}", edit, safe=ours is not None and written == f":{ours}")


def axis_by_place(found: Diagnostic, span: Span) -> Mend | None:
    name = operator(span)[2]
    if "not in pairs" not in found.headline:
        return None
    if name in ("concat", "stack-tensors"):
        return Mend(f"the tensors are one list: ({name} (list a b) :axis …)")
    match = re.search(r"\s(-?\d+)\s*\)$", span.text)
    if match is None or "&key" not in (found.fix or "") or "axis" not in (found.fix or ""):
        return None
    at = span.start + match.start(1)
    return Mend(f"the axis is a keyword argument: :axis {match[1]}", (at, at, ":axis "), safe=True)


def key_of_form(found: Diagnostic, span: Span) -> Mend | None:
    near = re.fullmatch(r"did you mean (:\S+)\?", found.fix or "")
    if near is None or not span.text.startswith(":"):
        return None
    return Mend(found.fix or "", replaced(span, near[1]))


def operator_name(found: Diagnostic, span: Span) -> Mend | None:
    match = re.match(rf"\((def\w+)\s+\(?({NAME})", span.text)
    if match is None:
        return None
    other = f"{match[2]}-model" if match[1] == "defmodel" else f"my-{match[2]}"
    place = (span.start + match.start(2), span.start + match.end(2))
    return Mend(f"choose another name, such as {other}, here and where it is used", place=place)


def quoted_value(found: Diagnostic, span: Span) -> Mend | None:
    """A quote, or the quotes of a text, around what should have been evaluated."""
    if span.text.startswith("'"):
        ours = span.text[1:]
        told = f"a quote keeps a form from being evaluated: write {ours}"
        return Mend(told, (span.start, span.start + 1, ""), safe=True)
    match = re.search(rf"(')({NAME})(?=[\s)])", span.text)
    if match is not None and f"not {match[2]}" in found.headline:
        at = span.start + match.start()
        told = f"a quote makes a symbol of it: write {match[2]}"
        return Mend(told, (at, at + 1, ""), safe=True, place=(at, at + len(match.group())))
    match = re.search(rf'"({NUMBER})"', span.text)
    if match is not None and match.group() in found.headline:
        place = (span.start + match.start(), span.start + match.end())
        told = f"a number has no quotes: write {match[1]}"
        return Mend(told, (*place, match[1]), safe=True, place=place)
    return None


labels_first = says(
    "the model's logits come first, then the labels",
    headline=r"logits (\(\d+\)) need .* shape .*, not \(\d+ \d+\)",
)


batch_lost = says(
    "the logits have lost their batch axis: keep axis 0 in the model; the loss takes the mean "
    "over examples",
    headline="need integer labels of shape nil",
)


def all_flattened(found: Diagnostic, span: Span) -> Mend | None:
    """`(flatten x)` before a layer, which has taken the batch axis, too."""
    for note in found.notes:
        at = note.span
        if note.text.startswith("a was made here") and at is not None:
            match = re.fullmatch(rf"\(\s*flatten\s+({NAME}|\(.*\))\s*\)", at.text, re.DOTALL)
            if match is not None and at.source is span.source:
                end = at.start + match.end(1)
                told = (
                    f"flatten takes the batch axis, too: keep it with (flatten {match[1]} :from 1)"
                )
                return Mend(told, (end, end, " :from 1"))
    return None


averaged_twice = says(
    "it is one number already: a loss of sexpgpu/nn takes the mean over the batch itself, so "
    "remove the second reduction",
    headline=r"axis -?\d+ of a tensor of rank 0",
)


model_first = says(
    "the model is the first argument of objective, evaluate and predict",
    headline="^#<tensor .* is not of type function",
    written=rf"^\(\s*funcall\s+{NAME}\s",
)


def parameter_set(found: Diagnostic, span: Span) -> Mend | None:
    """`(setf w …)` of a parameter in forward: its variable then holds a tensor of that graph."""
    match = before(span, rf"\(\s*(?:setf|setq|incf|decf)\s+({NAME})\s+")
    name = match[1] if match is not None else ""
    if not re.search(rf"\(\s*defparam\s+{re.escape(name)}\s", span.source.text):
        return None
    return Mend(
        f"{name} is a parameter, which the optimizer changes: name a value made of it with "
        f"(let (({name} …)) …); what training keeps besides is a defbuffer"
    )


def schedule_by_default(found: Diagnostic, span: Span) -> Mend | None:
    if "#<function" not in found.headline:
        return None
    text = span.source.text
    if text.rfind("(defoptimizer", 0, span.start) <= text.rfind("\n(", 0, span.start):
        return None
    return Mend("a hyperparameter may be a schedule where its default is a number: (&key (lr 0.1))")


float_labels = says(
    "class labels are integers: cast them with (cast labels :i32), or declare their field so; "
    "floats are taken as a probability for each class",
    headline="logits .* need probabilities of shape",
)

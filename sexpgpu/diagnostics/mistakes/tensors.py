"""Calls of tensor operations as other libraries have them."""

from __future__ import annotations

import re

from sexpgpu.diagnostics.mistakes.mend import NAME, NUMBER, Mend, before, operator, replaced, says
from sexpgpu.diagnostics.model import Diagnostic
from sexpgpu.source import Span

ITEM = rf"(?:{NAME}|\([^()]*\))"
MAKERS = (
    "zeros", "ones", "random-normal", "random-uniform", "random-truncated-normal", "random-gumbel",
)  # fmt: skip


def shape_by_place(found: Diagnostic, span: Span) -> Mend | None:
    """`(zeros 3 4)`, `(reshape x -1 4)`."""
    name = operator(span)[2].lower()
    if name in MAKERS:
        match = re.fullmatch(rf"\(\s*{name}((?:\s+{ITEM})+)\s*\)", span.text)
        lead = ""
    elif name in ("reshape", "broadcast-to"):
        match = re.fullmatch(rf"\(\s*{name}\s+(?:{NAME}|\(.*?\))((?:\s+{ITEM})+)\s*\)", span.text)
        lead = "x "
    else:
        return None
    if match is None or " :" in match[1]:
        return None
    start = span.start + match.start(1)
    sizes = " ".join(match[1].split())
    told = f"a shape is one list: ({name} {lead}(list {sizes}))"
    return Mend(told, (start, span.start + match.end(1), f" (list {sizes})"), safe=True)


def quoted_sizes(found: Diagnostic, span: Span) -> Mend | None:
    """`(zeros '(3 width))`."""
    match = re.search(r"'\(([^()]*)\)", span.text)
    if match is None or not re.search(r"the shape \(.*\) holds [^-\d]", found.headline):
        return None
    place = (span.start + match.start(), span.start + match.end())
    ours = f"(list {match[1]})"
    told = f"a quote keeps names from being evaluated: write {ours}"
    return Mend(told, (*place, ours), safe=True)


def extent(found: Diagnostic, span: Span) -> Mend | None:
    """`(shape x 0)`, `(size x 0)`."""
    match = re.match(r"\(\s*(shape|size)\s", span.text)
    if match is None or "takes 1 argument, 2 given" not in found.headline:
        return None
    at = span.start + match.start(1)
    told = "the extent of an axis is (dim x axis)"
    return Mend(told, (at, at + len(match[1]), "dim"), safe=True)


axes_swapped = says(
    "the axes are one list, each in its new place: (transpose x '(1 0 2)); without it the last "
    "two change places",
    headline="3 given",
    written=r"^\(\s*transpose\s",
)


third_operand = says(
    "add what comes after the product: (+ (matmul x w) b)",
    headline="3 given",
    written=r"^\(\s*matmul\s",
)
tensor_element = says(
    "an element of a tensor is (at x i j)", headline="[3-9] given", written=r"^\(\s*aref\s"
)


def axes_by_place(found: Diagnostic, span: Span) -> Mend | None:
    """`(sum x '(0 1))`."""
    match = re.search(r"\s('\([-\d\s]+\)|\(list [^()]*\))\s*\)$", span.text)
    if (
        match is None
        or "not in pairs" not in found.headline
        or "axis" not in (found.fix or "")
        or operator(span)[2] in MAKERS
    ):
        return None
    at = span.start + match.start(1)
    told = f"the axes are a keyword argument: :axis {match[1]}"
    return Mend(told, (at, at, ":axis "), safe=True)


def greatest(found: Diagnostic, span: Span) -> Mend | None:
    """`(max x :axis 1)`: max is that of its arguments."""
    match = re.match(r"(max|min): .* is :(axis|keep)\b", found.headline)
    start, end, name = operator(span)
    if match is None or name.lower() != match[1]:
        return None
    ours = f"a{match[1]}"
    told = f"{match[1]} compares its arguments; along an axis it is ({ours} x :axis 1)"
    return Mend(told, (start, end, ours), safe=True)


model_as_tensor = says(
    "a model is no tensor, its output is: (funcall model x)", headline="is #<model"
)


numbers_as_tensor = says(
    "a list of numbers becomes a tensor by (constant (list 1.0 2.0))",
    headline=r" is #?\(.*wanted a tensor or a number",
)


equation_first = says(
    'the equation comes first: (einsum "bi,ij->bj" x w)', headline="^einsum: spec is"
)


def subscript_range(found: Diagnostic, span: Span) -> Mend | None:
    """`(at x (0 8))`, `(at x '(0 8))`, `(at x :)`."""
    if not found.headline.startswith("at: the subscript"):
        if not re.fullmatch(rf"\(\s*{NUMBER}\s+{NUMBER}\s*\)", span.text):
            return None
        if before(span, r"\(\s*at\s[^\n]*") is None:
            return None
        ours = f"(slice {span.text[1:-1].strip()})"
        return Mend(f"a range of places is {ours}", replaced(span, ours))
    match = re.search(r"subscript \(([^()]*)\)", found.headline)
    if match is not None:
        return Mend(
            f"a range of places is (slice {match[1]}), places one by one (constant '({match[1]}))"
        )
    return Mend("a whole axis is :all") if "subscript :|| " in found.headline else None


def set_element(found: Diagnostic, span: Span) -> Mend | None:
    """`(setf (at x 0) 1.0)`, `(setf x[0] 1.0)`, `(setf (aref x 0) 1.0)` of a tensor."""
    match = re.match(
        rf"\(\s*setf\s+(?:\((?:at|aref)\s+({NAME})\s([^()]*)\)|({NAME}?)\[([^\]]*)\])", span.text
    )
    if match is None or not re.search(r"\(setf a|has no value|tensor", found.headline):
        return None
    name, index = (match[1], match[2]) if match[1] else (match[3], match[4])
    return Mend(
        f"a tensor does not change; a new one with another element is (set-at {name} value {index})"
    )


tensor_coerced = says(
    "the dtype of a tensor changes with (cast x :f32)", headline="^coerce: #<tensor"
)
array_made = says(
    "in a traced function write (zeros (list 2 3)), of literal numbers (constant …)",
    headline="^make-array: only vectors",
)


def field_of_batch(found: Diagnostic, span: Span) -> Mend | None:
    """`(getf batch :x)`, `(gethash :x batch)`, `(batch :x)`."""
    match = re.fullmatch(
        rf"\(\s*(?:getf|aref|elt|at)\s+({NAME})\s+[:'\"]?({NAME}?)\"?\s*\)"
        rf"|\(\s*gethash\s+[:'\"]?({NAME}?)\"?\s+({NAME})\s*\)",
        span.text,
    )
    if match is not None and "#<batch of" in found.headline:
        batch, field = (match[1], match[2]) if match[1] else (match[4], match[3])
    else:
        match = re.fullmatch(rf"\(\s*(batch)\s+[:'\"]({NAME}?)\"?\s*\)", span.text)
        if match is None or "is not defined" not in found.headline:
            return None
        batch, field = match.groups()
    ours = f"(field {batch} :{field})"
    return Mend(f"a field of a batch is {ours}", replaced(span, ours), safe=True)


def one_shape(found: Diagnostic, span: Span) -> Mend | None:
    """A loss's prediction and target of different shapes."""
    match = re.search(
        r"the prediction is (\(.*\)|nil) but the target is (\(.*\)|nil)", found.headline
    )
    if match is None:
        return None
    first, second = (word.strip("()").split() for word in match.groups())
    if first[:-1] == second and first[-1:] == ["1"]:
        return Mend(
            f"drop the prediction's last axis, (squeeze y :axis {len(second)}), or give the target "
            f"one: (expand-dims target {len(second)})"
        )
    if second[:-1] == first and second[-1:] == ["1"]:
        return Mend(f"drop the target's last axis: (squeeze target :axis {len(first)})")
    if first[:-1] == second:
        return Mend(
            "class labels and a score for each class are compared by nn:cross-entropy; for one "
            "number a record the model's last layer has one unit"
        )
    return Mend("both have a number for each output of each record")


argmax_first = says(
    "give it the logits: it takes the greatest itself",
    headline="accuracy: logits .* need labels of shape",
    written="argmax",
)


def tensor_spread(found: Diagnostic, span: Span) -> Mend | None:
    """`(apply model x)` of a tensor."""
    match = re.match(r"\(\s*(apply)\s", span.text)
    if match is None or "#<tensor" not in found.headline:
        return None
    at = span.start + match.start(1)
    told = "apply's last argument is a list of arguments: write funcall"
    return Mend(told, (at, at + len(match[1]), "funcall"), safe=True)

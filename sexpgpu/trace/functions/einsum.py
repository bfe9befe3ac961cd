"""einsum: sums of products by labelled axes, as in NumPy.

`"bij,bjk->bik"`: letters name axes; without `->` the result has the letters that occur once, in
alphabetical order; `...` stands for leading axes that broadcast; a letter twice in one operand
takes its diagonal. Several operands are contracted pair by pair, in the order that costs least.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from sexpgpu.diagnostics.codes.tensor import E_OP_001, E_SHAPE_002, E_SHAPE_005
from sexpgpu.diagnostics.model import SxError
from sexpgpu.ir.graph import Value
from sexpgpu.lisp.values import String
from sexpgpu.trace.arguments import bad, tensor
from sexpgpu.trace.context import TRACES, Trace
from sexpgpu.trace.declare import tensor_function
from sexpgpu.trace.errors import Named, failure
from sexpgpu.trace.functions.contract import contract, spread
from sexpgpu.trace.primitives import reshape, transpose
from sexpgpu.trace.promote import NUMBER, same_dtype
from sexpgpu.trace.tensor import Tensor, wrap

Label = Hashable  # a letter, or ("...", place from the right)
DOTS = "..."
EXHAUSTIVE = 7  # operands up to which every order is tried


@tensor_function("einsum", "(spec &rest operands)")
def einsum(spec: Any, *operands: Any) -> Tensor:
    """The sum of products that the string names: (einsum "bij,bjk->bik" a b)."""
    if not isinstance(spec, String):
        raise bad("einsum", "spec", spec, 'a string such as "ij,jk->ik"')
    trace = TRACES[-1]
    listed = [tensor("einsum", f"operand {i + 1}", x) for i, x in enumerate(operands)]
    told: Named = [(f"operand {i + 1}", t) for i, t in enumerate(listed)]
    terms, result = _parse(spec.text, listed, told)
    values = same_dtype("einsum", listed, NUMBER)
    extents = _extents(spec.text, terms, listed, told)
    for label in result:
        if label not in extents:
            raise _wrong(spec.text, f"the result's {_said(label)} is in no operand", told)
    parts: list[tuple[Value, list[Label]]] = []
    for value, labels in zip(values, terms, strict=True):
        value, labels = _thinned(trace, value, labels, extents)
        parts.append(_diagonal(trace, value, labels))
    return wrap(_contracted(trace, parts, result, extents))


def _said(label: Label) -> str:
    return f"axis {label!r}" if isinstance(label, str) else "..."


def _wrong(spec: str, message: str, told: Named) -> SxError:
    return failure(E_OP_001, f'einsum "{spec}": {message}', told)


# ---------------------------------------------------------------------------- reading


def _parse(spec: str, listed: list[Tensor], told: Named) -> tuple[list[list[Label]], list[Label]]:
    """The labels of each operand's axes, and of the result's."""
    text = spec.replace(" ", "")
    left, arrow, right = text.partition("->")
    words = left.split(",")
    if len(words) != len(listed) or not listed:
        raise _wrong(spec, f"{len(words)} terms for {len(listed)} operands", told)
    terms: list[list[Label]] = []
    most = 0
    for at, (word, t) in enumerate(zip(words, listed, strict=True)):
        rank = len(t.type.shape)
        head, dots, tail = _term(spec, word, told)
        count = rank - len(head) - len(tail)
        if count < 0 or (count > 0 and not dots):
            raise failure(
                E_SHAPE_005,
                f'einsum "{spec}": the term {word} names {len(head) + len(tail)} axes, '
                f"operand {at + 1} has {rank}",
                told,
            )
        most = max(most, count)
        terms.append([*head, *[(DOTS, count - i) for i in range(count)], *tail])
    every = [(DOTS, most - i) for i in range(most)]
    if not arrow:
        letters = [label for term in terms for label in term if isinstance(label, str)]
        return terms, [*every, *sorted(x for x in set(letters) if letters.count(x) == 1)]
    head, dots, tail = _term(spec, right, told)
    if most and not dots:
        raise _wrong(spec, "the result lacks the ... of the operands", told)
    result: list[Label] = [*head, *(every if dots else []), *tail]
    if len(set(result)) != len(result):
        raise _wrong(spec, "the result names an axis twice", told)
    return terms, result


def _term(spec: str, word: str, told: Named) -> tuple[list[str], bool, list[str]]:
    head, dots, tail = word.partition(DOTS)
    for letter in head + tail:
        if not (letter.isascii() and letter.isalpha()):
            raise _wrong(spec, f"{letter!r} is no letter", told)
    return list(head), bool(dots), list(tail)


def _extents(
    spec: str, terms: list[list[Label]], listed: list[Tensor], told: Named
) -> dict[Label, int]:
    """The extent of each label; E-SHAPE-002 where two differ."""
    found: dict[Label, int] = {}
    owner: dict[Label, int] = {}
    for at, (labels, t) in enumerate(zip(terms, listed, strict=True)):
        for label, extent in zip(labels, t.type.shape, strict=True):
            known = found.get(label)
            if known is None or (known == 1 and not isinstance(label, str)):
                found[label] = extent
                owner[label] = at
            elif extent != known and not (extent == 1 and not isinstance(label, str)):
                raise failure(
                    E_SHAPE_002,
                    f'einsum "{spec}": {_said(label)} is {known} in operand {owner[label] + 1} '
                    f"and {extent} in operand {at + 1}",
                    told,
                )
    return found


# ---------------------------------------------------------------------------- one operand


def _thinned(
    trace: Trace, x: Value, labels: list[Label], extents: dict[Label, int]
) -> tuple[Value, list[Label]]:
    """x without axes of extent 1 that broadcast against a longer one."""
    shape = x.type.shape
    keep = [i for i, label in enumerate(labels) if shape[i] == extents[label]]
    if len(keep) == len(labels):
        return x, labels
    return reshape(trace, x, tuple([shape[i] for i in keep])), [labels[i] for i in keep]


def _diagonal(trace: Trace, x: Value, labels: list[Label]) -> tuple[Value, list[Label]]:
    """x with each label once: the diagonal over axes that share one."""
    while True:
        double = next((label for label in labels if labels.count(label) > 1), None)
        if double is None:
            return x, labels
        i = labels.index(double)
        j = labels.index(double, i + 1)
        n = x.type.shape[i]
        rest = [k for k in range(len(labels)) if k not in (i, j)]
        x = transpose(trace, x, (*rest, i, j))
        outer = tuple([x.type.shape[k] for k in range(len(rest))])
        x = reshape(trace, x, (*outer, n * n))
        zeros, ones = (0,) * len(outer), (1,) * len(outer)
        x = trace.emit(
            "slice", x, starts=(*zeros, 0), limits=(*outer, n * n), strides=(*ones, n + 1)
        )
        labels = [*[labels[k] for k in rest], double]


def _summed(
    trace: Trace, x: Value, labels: list[Label], wanted: set[Label]
) -> tuple[Value, list[Label]]:
    """x summed over the labels that nothing else wants."""
    axes = tuple([i for i, label in enumerate(labels) if label not in wanted])
    if not axes:
        return x, labels
    return trace.emit("sum", x, axes=axes), [label for label in labels if label in wanted]


# ---------------------------------------------------------------------------- all of them

Part = tuple[Value, list[Label]]


def _contracted(
    trace: Trace, parts: list[Part], result: list[Label], extents: dict[Label, int]
) -> Value:
    """The parts multiplied pair by pair down to one."""
    work = list(parts)
    for i, j in _order([set(labels) for _, labels in parts], set(result), extents):
        others = [labels for k, (_, labels) in enumerate(work) if k not in (i, j)]
        outside = set(result).union(*others)
        a, a_labels = _summed(trace, *work[i], outside | set(work[j][1]))
        b, b_labels = _summed(trace, *work[j], outside | set(work[i][1]))
        present = {*a_labels, *b_labels}
        if others:
            out = [x for x in (*a_labels, *b_labels) if x in outside]
            out = [x for x in a_labels if x in outside and x in b_labels] + [
                x for x in out if not (x in a_labels and x in b_labels)
            ]
        else:
            out = [x for x in result if x in present]
        made = contract(trace, a, a_labels, b, b_labels, out)
        work = [part for k, part in enumerate(work) if k not in (i, j)] + [(made, out)]
    x, labels = _summed(trace, *work[0], set(result))
    shape = tuple([extents[label] for label in result])
    return spread(trace, x, labels, result, shape)


def _order(
    sets: list[set[Label]], result: set[Label], extents: dict[Label, int]
) -> list[tuple[int, int]]:
    """Which two parts to multiply at each turn; the product goes to the end of the list."""
    if len(sets) <= 2:
        return [(0, 1)] if len(sets) == 2 else []
    if len(sets) <= EXHAUSTIVE:
        return _cheapest(tuple(map(frozenset, sets)), frozenset(result), extents, {})[1]
    turns: list[tuple[int, int]] = []
    work: list[set[Label]] = list(sets)
    while len(work) > 1:
        pairs = [(i, j) for i in range(len(work)) for j in range(i + 1, len(work))]
        i, j = min(pairs, key=lambda p: _elements(work[p[0]] | work[p[1]], extents))
        others = [s for k, s in enumerate(work) if k not in (i, j)]
        left: set[Label] = (work[i] | work[j]) & result.union(*others)
        work = [*others, left]
        turns.append((i, j))
    return turns


def _elements(labels: Any, extents: dict[Label, int]) -> int:
    n = 1
    for label in labels:
        n *= extents[label]
    return n


Sets = tuple[frozenset[Label], ...]
Plan = tuple[int, list[tuple[int, int]]]


def _cheapest(
    sets: Sets, result: frozenset[Label], extents: dict[Label, int], known: dict[Sets, Plan]
) -> Plan:
    """(multiplications, turns) of the cheapest order, by trying all."""
    if len(sets) == 1:
        return 0, []
    found = known.get(sets)
    if found is not None:
        return found
    best: Plan | None = None
    for i in range(len(sets)):
        for j in range(i + 1, len(sets)):
            others = tuple([s for k, s in enumerate(sets) if k not in (i, j)])
            joined = sets[i] | sets[j]
            left = joined & result.union(*others)
            cost, turns = _cheapest((*others, left), result, extents, known)
            cost += _elements(joined, extents)
            if best is None or cost < best[0]:
                best = cost, [(i, j), *turns]
    assert best is not None
    known[sets] = best
    return best

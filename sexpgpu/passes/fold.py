"""Folds constants and identities that change no bit of any result. Knows no Lisp.

Integers, bools and shapes are computed here; floats are not, since backends round their functions
each in its own way: of floats only what is exact by IEEE 754 is rewritten (x * 1, x - 0, casts of
constants, moving a constant about). Types stay as they are, the batch axis too.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isinf, isnan, prod
from struct import pack, unpack
from typing import Any, TypeAlias

from sexpgpu.ir.graph import Graph, Node, OpError, Value
from sexpgpu.ir.types import FLOATS, INTEGERS, integer_range
from sexpgpu.ops import infer
from sexpgpu.passes.rewrite import rebuilt, substituted, with_bodies

# A value to use instead, an (op, operands, attributes) to put instead, or None.
Folded: TypeAlias = "Value | tuple[str, tuple[Value, ...], dict[str, Any]] | None"
Definitions: TypeAlias = dict[Value, Node]
FoldRule: TypeAlias = Callable[[Node, Definitions], Folded]


def run(graph: Graph) -> Graph:
    """The graph with constants and identities folded; the graph itself when there are none."""
    replaced: dict[Value, Value] = {}
    definitions: Definitions = {}
    kept: list[Node] = []
    changed = False
    for old in graph.nodes:
        node = with_bodies(substituted(old, replaced), run)
        changed = changed or node is not old
        rule = RULES.get(node.op)
        folded = rule(node, definitions) if rule is not None else None
        if node.op == "custom-vjp":  # gradients have been taken
            replaced.update(zip(node.results, node.operands, strict=False))
            continue
        if isinstance(folded, Value):
            if folded.type == node.result.type:
                replaced[node.result] = folded
                continue
        elif folded is not None:
            node, made = _instead(node, *folded)
            changed = changed or made
        kept.append(node)
        for value in node.results:
            definitions[value] = node
    return rebuilt(graph, kept, replaced) if replaced or changed else graph


def _instead(
    node: Node, op: str, operands: tuple[Value, ...], attrs: dict[str, Any]
) -> tuple[Node, bool]:
    """Another node with the same result, if it has the same type, batch axis included."""
    try:
        types = infer(op, tuple([v.type for v in operands]), attrs)
    except OpError:
        return node, False
    if types != (node.result.type,):
        return node, False
    return Node(op, operands, attrs, node.results, node.origin, node.numerics), True


# -- numbers ------------------------------------------------------------------------------------


def number_of(value: Value, definitions: Definitions) -> int | float | bool | None:
    """The one number that a tensor holds throughout, as its dtype holds it, if that is known."""
    node = definitions.get(value)
    if node is None or node.op != "full":
        return None
    number = node.attrs["value"]
    return rounded(float(number), value.dtype) if value.dtype in FLOATS else number


def rounded(number: float, dtype: str) -> float:
    """A float rounded to a float dtype: to nearest, ties to even, overflow to infinity."""
    if dtype == "f64" or isnan(number) or isinf(number):
        return number
    try:
        if dtype == "f16":
            return float(unpack("<e", pack("<e", number))[0])
        single = float(unpack("<f", pack("<f", number))[0])
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
    if dtype == "f32" or isinf(single):
        return single
    (bits,) = unpack("<I", pack("<f", single))
    bits += 0x7FFF + ((bits >> 16) & 1)
    return float(unpack("<f", pack("<I", bits & 0xFFFF0000))[0])


def wrapped(number: int, dtype: str) -> int:
    """An integer modulo the range of its dtype."""
    low, high = integer_range(dtype)
    return (number - low) % (high - low + 1) + low


def _is_exactly(number: float | None, wanted: float) -> bool:
    """Equality that tells -0.0 from 0.0."""
    return (
        number is not None
        and type(number) is not bool
        and number == wanted
        and (number != 0 or type(number) is int or repr(float(number)) == repr(float(wanted)))
    )


def _full(node: Node, value: float) -> Folded:
    """A constant of the node's type."""
    shape, dtype, batch = node.result.type
    return "full", (), {"shape": shape, "value": value, "dtype": dtype, "batch": batch}


# -- moving elements ----------------------------------------------------------------------------


def _moved(rule: FoldRule) -> FoldRule:
    """The rule, for an op that moves the elements of its only operand: constants stay constants."""

    def fold(node: Node, definitions: Definitions) -> Folded:
        x = node.operands[0]
        source = definitions.get(x)
        if source is not None and source.op == "full":
            return _full(node, source.attrs["value"])
        return rule(node, definitions)

    return fold


def _fold_reshape(node: Node, definitions: Definitions) -> Folded:
    (x,) = node.operands
    if x.shape == node.attrs["shape"]:
        return x
    source = definitions.get(x)
    if source is None:
        return None
    if source.op == "reshape":
        inner = source.operands[0]
        if inner.type == node.result.type:
            return inner
        return "reshape", (inner,), {"shape": node.attrs["shape"]}
    if source.op == "literal":
        return "literal", (), {**source.attrs, "shape": node.attrs["shape"]}
    return None


def _fold_transpose(node: Node, definitions: Definitions) -> Folded:
    (x,) = node.operands
    perm = node.attrs["perm"]
    source = definitions.get(x)
    if source is not None and source.op == "transpose":
        x = source.operands[0]
        perm = tuple([source.attrs["perm"][axis] for axis in perm])
    if perm == tuple(range(len(perm))):
        return x
    return ("transpose", (x,), {"perm": perm}) if x is not node.operands[0] else None


def _fold_broadcast(node: Node, definitions: Definitions) -> Folded:
    (x,) = node.operands
    if x.shape == node.attrs["shape"]:
        return x
    source = definitions.get(x)
    if source is None or source.op != "broadcast":
        return None
    dims = tuple([node.attrs["dims"][axis] for axis in source.attrs["dims"]])
    return "broadcast", source.operands, {"shape": node.attrs["shape"], "dims": dims}


def _fold_slice(node: Node, definitions: Definitions) -> Folded:
    (x,) = node.operands
    return x if x.shape == node.result.shape else None  # of equal shape: all, in steps of 1


def _fold_pad(node: Node, definitions: Definitions) -> Folded:
    (x,) = node.operands
    attrs = node.attrs
    if not (any(attrs["low"]) or any(attrs["high"]) or any(attrs["interior"])):
        return x
    number = number_of(x, definitions)
    value = attrs["value"]
    if x.dtype in FLOATS:
        value = rounded(float(value), x.dtype)
    if number is not None and repr(number) == repr(value):
        return _full(node, number)
    return None


def _fold_reverse(node: Node, definitions: Definitions) -> Folded:
    (x,) = node.operands
    axes: tuple[int, ...] = node.attrs["axes"]
    if all(x.shape[axis] == 1 for axis in axes):
        return x
    source = definitions.get(x)
    if source is not None and source.op == "reverse" and source.attrs == node.attrs:
        return source.operands[0]
    return None


def _fold_concat(node: Node, definitions: Definitions) -> Folded:
    return node.operands[0] if len(node.operands) == 1 else None


def _fold_reduction(node: Node, definitions: Definitions) -> Folded:
    axes: tuple[int, ...] = node.attrs["axes"]
    if not axes:
        return node.operands[0]
    x = node.operands[0]
    number = number_of(x, definitions)
    if number is None or x.dtype in FLOATS or 0 in x.shape:
        return None
    if node.op == "sum":
        count = prod([x.shape[axis] for axis in axes])
        return _full(node, wrapped(int(number) * count, x.dtype))
    return _full(node, number) if node.op in ("max-reduce", "min-reduce", "any", "all") else None


def _fold_iota(node: Node, definitions: Definitions) -> Folded:
    shape = node.attrs["shape"]
    if shape[node.attrs["axis"]] != 1:
        return None
    return _full(node, 0.0 if node.attrs["dtype"] in FLOATS else 0)


# -- casts --------------------------------------------------------------------------------------

# dtype -> dtypes that hold each of its values exactly
_WIDER = {
    "bf16": {"f32", "f64"},
    "f16": {"f32", "f64"},
    "f32": {"f64"},
    "i8": {"i16", "i32", "i64", "f32", "f64", "f16", "bf16"},
    "u8": {"u16", "u32", "u64", "i16", "i32", "i64", "f32", "f64", "f16", "bf16"},
    "i16": {"i32", "i64", "f32", "f64"},
    "u16": {"u32", "u64", "i32", "i64", "f32", "f64"},
    "i32": {"i64", "f64"},
    "u32": {"u64", "i64", "f64"},
    "bool": INTEGERS | FLOATS,
}


def _fold_cast(node: Node, definitions: Definitions) -> Folded:
    (x,) = node.operands
    dtype = node.attrs["dtype"]
    if x.dtype == dtype:
        return x
    source = definitions.get(x)
    if source is not None and source.op == "cast":
        inner = source.operands[0]
        if inner.dtype == dtype and x.dtype in _WIDER.get(dtype, ()):
            return inner
    number = number_of(x, definitions)
    if number is None:
        return None
    if dtype == "bool":
        return _full(node, bool(number != 0))
    if dtype in FLOATS:
        exact = type(number) is float or abs(number) <= 1 << 53
        if x.dtype == "f64" and dtype == "bf16" and rounded(float(number), "f32") != number:
            return None  # the backends round it once
        return _full(node, rounded(float(number), dtype)) if exact else None
    return None if type(number) is float else _full(node, wrapped(int(number), dtype))


# -- arithmetic ---------------------------------------------------------------------------------


def _truncated(x: int, y: int) -> int:
    """The remainder with the sign of x; x when y is 0."""
    if y == 0:
        return x
    rest = abs(x) % abs(y)
    return -rest if x < 0 else rest


_INTEGER_OPS: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "max": max,
    "min": min,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "rem": _truncated,
    "mod": lambda x, y: x % y if y else x,
}
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}
# op -> the constant that leaves x as it is, to the right and to the left; for floats -0.0 is the
# neutral element of addition, since 0.0 + -0.0 is 0.0
_NEUTRAL_FLOAT: dict[str, tuple[float | None, float | None]] = {
    "add": (-0.0, -0.0),
    "sub": (0.0, None),
    "mul": (1.0, 1.0),
    "div": (1.0, None),
}
_NEUTRAL_INTEGER: dict[str, tuple[int | None, int | None]] = {
    "add": (0, 0),
    "sub": (0, None),
    "mul": (1, 1),
    "or": (0, 0),
    "xor": (0, 0),
    "shift-left": (0, None),
    "shift-right": (0, None),
}


def _fold_binary(node: Node, definitions: Definitions) -> Folded:
    x, y = node.operands
    if x is y and node.op in ("and", "or", "max", "min"):
        return x
    a, b = number_of(x, definitions), number_of(y, definitions)
    if a is None and b is None:
        return None
    if x.dtype in FLOATS:
        right, left = _NEUTRAL_FLOAT.get(node.op, (None, None))
        if right is not None and _is_exactly(b, right):
            return x
        return y if left is not None and _is_exactly(a, left) else None
    if x.dtype == "bool":
        return _fold_logic(node, a, b)
    operation = _INTEGER_OPS.get(node.op)
    if a is not None and b is not None:
        if operation is None:
            return None
        return _full(node, wrapped(operation(int(a), int(b)), x.dtype))
    right, left = _NEUTRAL_INTEGER.get(node.op, (None, None))
    if right is not None and b == right:
        return x
    if left is not None and a == left:
        return y
    if node.op in ("mul", "and") and 0 in (a, b):
        return _full(node, 0)
    return None


def _fold_logic(node: Node, a: float | None, b: float | None) -> Folded:
    """and, or, xor of bools with a constant among them."""
    if a is not None and b is not None:
        return _full(node, bool(_INTEGER_OPS[node.op](int(a), int(b))))
    x, y = node.operands
    constant, other = (a, y) if a is not None else (b, x)
    if node.op == "xor":
        return ("not", (other,), {}) if constant else other
    absorbing = node.op == "or"
    return _full(node, absorbing) if bool(constant) == absorbing else other


def _fold_comparison(node: Node, definitions: Definitions) -> Folded:
    x, y = node.operands
    if x.dtype in FLOATS:
        return None
    if x is y:
        return _full(node, node.op in ("eq", "le", "ge"))
    a, b = number_of(x, definitions), number_of(y, definitions)
    if a is None or b is None:
        return None
    return _full(node, _COMPARISONS[node.op](int(a), int(b)))


def _fold_select(node: Node, definitions: Definitions) -> Folded:
    test, x, y = node.operands
    if x is y:
        return x
    chosen = number_of(test, definitions)
    return None if chosen is None else x if chosen else y


def _fold_neg(node: Node, definitions: Definitions) -> Folded:
    (x,) = node.operands
    source = definitions.get(x)
    if source is not None and source.op == "neg":
        return source.operands[0]
    number = number_of(x, definitions)
    if number is None:
        return None
    return _full(node, -number if x.dtype in FLOATS else wrapped(-int(number), x.dtype))


def _fold_not(node: Node, definitions: Definitions) -> Folded:
    (x,) = node.operands
    source = definitions.get(x)
    if source is not None and source.op == "not":
        return source.operands[0]
    number = number_of(x, definitions)
    if number is None:
        return None
    if x.dtype == "bool":
        return _full(node, not number)
    return _full(node, wrapped(~int(number), x.dtype))


RULES: dict[str, FoldRule] = {
    "reshape": _moved(_fold_reshape),
    "transpose": _moved(_fold_transpose),
    "broadcast": _moved(_fold_broadcast),
    "slice": _moved(_fold_slice),
    "reverse": _moved(_fold_reverse),
    "pad": _fold_pad,
    "concat": _fold_concat,
    "iota": _fold_iota,
    "cast": _fold_cast,
    "select": _fold_select,
    "neg": _fold_neg,
    "not": _fold_not,
    **dict.fromkeys(
        ("sum", "mean", "prod", "max-reduce", "min-reduce", "any", "all"), _fold_reduction
    ),
    **dict.fromkeys(("div", "shift-left", "shift-right", *_INTEGER_OPS), _fold_binary),
    **dict.fromkeys(_COMPARISONS, _fold_comparison),
}
"""Op -> how it folds."""

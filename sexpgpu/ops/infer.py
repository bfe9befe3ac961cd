"""Type inference of a node: the checks common to all ops, then the op's own rule."""

from __future__ import annotations

from typing import NoReturn

from sexpgpu.diagnostics.codes.tensor import E_DTYPE_001, E_OP_001, E_OP_002, E_OP_003, E_OP_004
from sexpgpu.ir.graph import Attrs
from sexpgpu.ir.types import DTYPES, TensorType
from sexpgpu.ops.attributes import described
from sexpgpu.ops.schema import OPS, OpDef, OpError, Types


def infer(name: str, types: Types, attrs: Attrs) -> Types:
    """The types of an op's results. Raises OpError when the op refuses."""
    op = OPS.get(name)
    if op is None:
        raise OpError(E_OP_004, f"there is no operation {name!r}")
    operands = op.operands
    if len(types) != len(operands):
        if not op.variadic or len(types) < len(operands) - 1:
            _refuse_count(op, len(types))
        operands = operands[:-1] + operands[-1:] * (len(types) - len(operands) + 1)
    for type, allowed in zip(types, operands, strict=True):
        if type.dtype not in allowed:
            _refuse_dtype(op, types, operands)
    checks = op.checks
    if len(attrs) != len(checks):
        _refuse_names(op, attrs)
    for key, check, kind in checks:
        if key not in attrs:
            _refuse_names(op, attrs)
        if not check(attrs[key]):
            raise OpError(E_OP_001, f"{name}: {key} is {attrs[key]!r}, wanted {described(kind)}")
    result = op.infer(types, attrs)
    return (result,) if isinstance(result, TensorType) else result


def _refuse_count(op: OpDef, given: int) -> NoReturn:
    least = len(op.operands) - 1 if op.variadic else len(op.operands)
    wanted = f"at least {least}" if op.variadic else str(least)
    raise OpError(E_OP_002, f"{op.name}: {wanted} operands wanted, {given} given")


def _refuse_dtype(op: OpDef, types: Types, operands: tuple[frozenset[str], ...]) -> NoReturn:
    for index, (type, allowed) in enumerate(zip(types, operands, strict=True)):
        if type.dtype not in allowed:
            wanted = " ".join(dtype for dtype in DTYPES if dtype in allowed)
            which = f"operand {index}" if len(types) > 1 else "the operand"
            raise OpError(
                E_DTYPE_001, f"{op.name}: {which} is {type}, wanted one of {wanted}", operand=index
            )
    raise AssertionError("no operand to refuse")


def _refuse_names(op: OpDef, attrs: Attrs) -> NoReturn:
    given, wanted = " ".join(sorted(attrs)) or "none", " ".join(op.attrs) or "none"
    raise OpError(E_OP_003, f"{op.name}: attributes given: {given}; wanted: {wanted}")

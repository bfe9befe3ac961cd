"""Counter-based random bits: Threefry-2x32, 20 rounds (Salmon et al., SC 2011). Knows no backend.

A draw's bits depend on its key and on the place of each element alone, so that neither the split
into microbatches and devices nor the precision changes one.
"""

from __future__ import annotations

from sexpgpu.diagnostics.codes.tensor import (
    E_DTYPE_001,
    E_OP_001,
    E_SHAPE_001,
    E_SHAPE_003,
    E_SHAPE_005,
    E_SHAPE_008,
)
from sexpgpu.ir.graph import Attrs
from sexpgpu.ir.types import TensorType
from sexpgpu.ops.cost import per_element
from sexpgpu.ops.rules import check_rank, check_shape, list_of
from sexpgpu.ops.samples import f32, i32, u32
from sexpgpu.ops.schema import NoGrad, OpDef, OpError, Reject, Sample, Types, define

_U32 = frozenset({"u32"})
_BITS = NoGrad("random bits do not depend on a float")
KEY = TensorType((2,), "u32")


def _check_key(name: str, key: TensorType) -> None:
    if key.shape != KEY.shape:
        raise OpError(E_SHAPE_001, f"{name}: the key is {key}, wanted {KEY}", operand=0)


def _infer_key(types: Types, attrs: Attrs) -> TensorType:
    _check_key("random-key", types[0])
    return KEY


def _infer_bits(types: Types, attrs: Attrs) -> TensorType:
    key, offset = types
    shape, batch, rows = attrs["shape"], attrs["batch"], attrs["per_example"]
    _check_key("random-bits", key)
    check_rank("random-bits", offset, 0, "the offset", 1)
    check_shape("random-bits", shape, batch)
    if rows < 1 or (batch is None and rows != 1) or (batch is not None and shape[batch] % rows):
        raise OpError(
            E_OP_001,
            f"random-bits: {rows} rows of an example along batch axis {batch} of {list_of(shape)}",
        )
    return TensorType(shape, "u32", batch)


RANDOM_KEY = define(
    OpDef(
        name="random-key",
        doc="The key with a name folded in: threefry of the name's FNV-1a hash (32 bits) under it.",
        operands=(_U32,),
        attrs={"name": "str"},
        infer=_infer_key,
        vjp=_BITS,
        precision="fixed",
        cost=per_element(40),
        samples=(
            Sample(u32(2), low=0, high=1 << 30, name="dropout/0", grad=False),
            Sample(u32(2), low=0, high=1 << 30, name="", grad=False),
        ),
        rejects=(
            Reject(E_SHAPE_001, u32(3), name="a"),
            Reject(E_DTYPE_001, i32(2), name="a"),
            Reject(E_OP_001, u32(2), name=1),
        ),
    )
)


def _infer_fold(types: Types, attrs: Attrs) -> TensorType:
    _check_key("random-fold", types[0])
    check_rank("random-fold", types[1], 0, "the integer", 1)
    return KEY


RANDOM_FOLD = define(
    OpDef(
        name="random-fold",
        doc="The key with an integer folded in: threefry of the integer under it.",
        operands=(_U32, _U32),
        attrs={},
        infer=_infer_fold,
        vjp=_BITS,
        precision="fixed",
        cost=per_element(40),
        samples=(Sample(u32(2), u32(), low=0, high=1 << 30, grad=False),),
        rejects=(
            Reject(E_SHAPE_001, u32(3), u32()),
            Reject(E_SHAPE_005, u32(2), u32(1)),
            Reject(E_DTYPE_001, u32(2), i32()),
        ),
    )
)
RANDOM_BITS = define(
    OpDef(
        name="random-bits",
        doc="32 random bits an element. Along a batch axis the counter is the example's place in "
        "the whole batch, `offset` examples before it, `per_example` rows each; without one it is "
        "the element's row-major index.",
        operands=(_U32, _U32),
        attrs={"shape": "ints", "batch": "axis?", "per_example": "int"},
        infer=_infer_bits,
        vjp=_BITS,
        precision="fixed",
        cost=per_element(100),
        samples=(
            Sample(
                u32(2), u32(), low=0, high=1000, shape=(3, 4), batch=0, per_example=1, grad=False
            ),
            Sample(
                u32(2), u32(), low=0, high=1000, shape=(6, 2), batch=0, per_example=3, grad=False
            ),
            Sample(
                u32(2), u32(), low=0, high=1000, shape=(2, 3), batch=1, per_example=1, grad=False
            ),
            Sample(u32(2), u32(), low=0, high=9, shape=(5,), batch=None, per_example=1, grad=False),
            Sample(u32(2), u32(), low=0, high=9, shape=(), batch=None, per_example=1, grad=False),
        ),
        rejects=(
            Reject(E_SHAPE_001, u32(3), u32(), shape=(2,), batch=None, per_example=1),
            Reject(E_SHAPE_005, u32(2), u32(1), shape=(2,), batch=None, per_example=1),
            Reject(E_SHAPE_003, u32(2), u32(), shape=(2,), batch=1, per_example=1),
            Reject(E_SHAPE_008, u32(2), u32(), shape=(-2,), batch=None, per_example=1),
            Reject(E_OP_001, u32(2), u32(), shape=(5,), batch=0, per_example=2),
            Reject(E_OP_001, u32(2), u32(), shape=(4,), batch=None, per_example=2),
            Reject(E_DTYPE_001, f32(2), u32(), shape=(2,), batch=None, per_example=1),
        ),
    )
)

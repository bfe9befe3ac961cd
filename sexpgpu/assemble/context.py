"""The `ctx` keys that are tensors, and in which graphs they are known (docs/run-file.md)."""

from __future__ import annotations

from sexpgpu.ir.types import TensorType

_I32 = TensorType((), "i32")
_F32 = TensorType((), "f32")
_I64 = TensorType((), "i64")

STEP: dict[str, TensorType] = {
    "step": _I32,
    "updates": _I32,
    "steps": _I32,
    "progress": _F32,
    "epoch": _I32,
    "stage": _I32,
    "stage-step": _I32,
    "samples": _I64,
    "seed": TensorType((), "u32"),
}
TRAIN = {**STEP, "microbatch": _I32}

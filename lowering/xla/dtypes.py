"""IR dtypes as jax's, and values of them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from sexpgpu.ir.types import FLOATS

LAX: dict[str, np.dtype] = {
    "f32": np.dtype("float32"),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f16": np.dtype("float16"),
    "f64": np.dtype("float64"),
    "i8": np.dtype("int8"),
    "i16": np.dtype("int16"),
    "i32": np.dtype("int32"),
    "i64": np.dtype("int64"),
    "u8": np.dtype("uint8"),
    "u16": np.dtype("uint16"),
    "u32": np.dtype("uint32"),
    "u64": np.dtype("uint64"),
    "bool": np.dtype("bool"),
}
F32 = LAX["f32"]
I32 = LAX["i32"]
U32 = LAX["u32"]
_FLOATS = frozenset(LAX[name] for name in FLOATS)
_HALVES = frozenset({LAX["bf16"], LAX["f16"]})


def is_float(x: Any) -> bool:
    return np.dtype(x.dtype) in _FLOATS


def is_half(x: Any) -> bool:
    return np.dtype(x.dtype) in _HALVES


def value_of(x: Any, number: float) -> np.ndarray:
    """A number in the dtype of x, strongly typed."""
    return np.asarray(number).astype(x.dtype)


def lowest(x: Any) -> np.ndarray:
    """The identity of max in the dtype of x."""
    return value_of(x, -np.inf) if is_float(x) else np.asarray(np.iinfo(x.dtype).min, x.dtype)


def out_of_range_value(x: Any) -> np.ndarray:
    """What a gather gives for an index out of range: NaN, the maximum, or true."""
    if np.dtype(x.dtype).kind == "b":
        return np.asarray(True)
    return value_of(x, np.nan) if is_float(x) else np.asarray(np.iinfo(x.dtype).max, x.dtype)

"""IR dtypes as NumPy dtypes, and the rounding rule of 16-bit floats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from sexpgpu.ir.types import TensorType

NUMPY: dict[str, np.dtype] = {
    "f32": np.dtype(np.float32),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f16": np.dtype(np.float16),
    "f64": np.dtype(np.float64),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    "bool": np.dtype(np.bool_),
}
IR: dict[np.dtype, str] = {numpy: name for name, numpy in NUMPY.items()}

HALVES = frozenset({NUMPY["bf16"], NUMPY["f16"]})
F32 = NUMPY["f32"]
I32 = NUMPY["i32"]
U32 = NUMPY["u32"]


def type_of(array: np.ndarray) -> TensorType:
    """An array's shape and dtype."""
    return TensorType(array.shape, IR[array.dtype])


def types_of(arrays: Mapping[str, np.ndarray]) -> dict[str, TensorType]:
    """The types of named arrays."""
    return {name: type_of(array) for name, array in arrays.items()}


def is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or dtype == NUMPY["bf16"]


def widen(x: np.ndarray) -> np.ndarray:
    """A 16-bit float as f32 (exact); anything else as it is.

    NumPy would accumulate, and mix with Python numbers, in the 16-bit dtype: nothing is ever
    computed in one.
    """
    return x.astype(F32) if x.dtype in HALVES else x


def highest(dtype: np.dtype) -> Any:
    """The identity of min: infinity, or the integer dtype's maximum."""
    if dtype.kind == "b":
        return np.True_
    return dtype.type(np.inf) if is_float(dtype) else dtype.type(np.iinfo(dtype).max)


def lowest(dtype: np.dtype) -> Any:
    """The identity of max: minus infinity, or the integer dtype's minimum."""
    if dtype.kind == "b":
        return np.False_
    return dtype.type(-np.inf) if is_float(dtype) else dtype.type(np.iinfo(dtype).min)


def out_of_range_value(dtype: np.dtype) -> Any:
    """What a gather gives for an index out of range: NaN, the maximum, or true."""
    if dtype.kind == "b":
        return np.True_
    return dtype.type(np.nan) if is_float(dtype) else dtype.type(np.iinfo(dtype).max)

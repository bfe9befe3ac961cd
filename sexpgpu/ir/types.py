"""Tensor types: shape, dtype, and which axis is the batch. Knows nothing of values."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

DType: TypeAlias = Literal[
    "f32", "bf16", "f16", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool"
]

DTYPES: tuple[DType, ...] = (
    "f32", "bf16", "f16", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool",
)  # fmt: skip

FLOATS = frozenset({"f32", "bf16", "f16", "f64"})
SIGNED = frozenset({"i8", "i16", "i32", "i64"})
UNSIGNED = frozenset({"u8", "u16", "u32", "u64"})
INTEGERS = SIGNED | UNSIGNED
NUMBERS = FLOATS | INTEGERS
ANY = NUMBERS | {"bool"}
BOOL = frozenset({"bool"})

ITEMSIZE: dict[str, int] = {
    "f32": 4, "bf16": 2, "f16": 2, "f64": 8, "i8": 1, "i16": 2, "i32": 4, "i64": 8,
    "u8": 1, "u16": 2, "u32": 4, "u64": 8, "bool": 1,
}  # fmt: skip

GREATEST = {
    "f16": 65504.0,
    "bf16": 3.3895313892515355e38,
    "f32": 3.4028234663852886e38,
    "f64": 1.7976931348623157e308,
}
"""The largest number of each float dtype."""


def kind(dtype: str) -> str:
    """float, int or bool."""
    return "float" if dtype in FLOATS else "bool" if dtype == "bool" else "int"


def integer_range(dtype: str) -> tuple[int, int]:
    """The least and greatest value of an integer dtype."""
    bits = 8 * ITEMSIZE[dtype]
    if dtype in UNSIGNED:
        return 0, (1 << bits) - 1
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


class TensorType(NamedTuple):
    """shape, dtype, and the axis along which examples lie (None: none, or mixed).

    An axis may hold several rows of one example (a batch of B flattened with T positions gives
    B*T): the batch is then its major part.
    """

    shape: tuple[int, ...]
    dtype: str
    batch: int | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        n = 1
        for extent in self.shape:
            n *= extent
        return n

    @property
    def nbytes(self) -> int:
        return self.size * ITEMSIZE[self.dtype]

    def same_value(self, other: TensorType) -> bool:
        """Whether shape and dtype agree (the batch axis is not part of a value)."""
        return self.shape == other.shape and self.dtype == other.dtype

    def __str__(self) -> str:
        return f"{self.dtype} ({' '.join(map(str, self.shape))})"


SCALAR_F32 = TensorType((), "f32")
SCALAR_I32 = TensorType((), "i32")

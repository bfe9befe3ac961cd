"""Promotion, broadcasting, constants: each rule of docs/tensors.md."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from trace_driving import NAMES, at, call, refused, said, world

F = np.zeros(2, np.float32)


def of(dtype: str, shape: tuple[int, ...] = (2,)) -> np.ndarray:
    import ml_dtypes

    numpy = {v: k for k, v in NAMES.items()}[dtype]
    return np.ones(shape, ml_dtypes.bfloat16 if dtype == "bf16" else numpy)


@pytest.mark.parametrize(
    "a, b, result",
    [
        ("f32", "bf16", "f32"), ("f16", "f32", "f32"), ("f32", "f64", "f64"), ("i8", "i32", "i32"),
        ("u8", "u16", "u16"), ("u8", "i32", "i32"), ("u8", "i8", "i16"), ("u32", "i32", "i64"),
        ("u16", "i8", "i32"), ("i64", "u32", "i64"), ("f32", "f32", "f32"),
    ],
)  # fmt: skip
def test_two_tensors_of_one_kind(a: str, b: str, result: str) -> None:
    with world() as w:
        assert w("+", of(a), of(b)).type.dtype == result
        assert w("+", of(b), of(a)).type.dtype == result


@pytest.mark.parametrize(
    "a, b", [("bf16", "f16"), ("f32", "i32"), ("bool", "f32"), ("bool", "i32"), ("u64", "i64")]
)
def test_kinds_that_do_not_combine(a: str, b: str) -> None:
    with world() as w:
        text = said(refused("E-DTYPE-002", lambda: w("+", of(a), of(b))))
        assert "cast" in text
        assert a in text
        assert b in text


def test_a_number_takes_the_tensors_dtype() -> None:
    with world() as w:
        assert w("*", of("bf16"), 2).type.dtype == "bf16"
        assert w("*", of("bf16"), 0.5).type.dtype == "bf16"
        assert w("*", of("u8"), 2).type.dtype == "u8"
        assert w("*", of("i32"), 0.5).type.dtype == "f32"
        assert w("*", of("i64"), Fraction(1, 2)).type.dtype == "f32"
        assert w("/", of("i32"), 2).type.dtype == "f32"
        assert w("/", of("i32"), of("i32")).type.dtype == "f32"
        assert w("sqrt", of("i32")).type.dtype == "f32"
        assert w("mean", of("i32")).type.dtype == "f32"
        assert w("mean", of("bool")).type.dtype == "f32"
        assert w("sum", of("bool")).type.dtype == "i32"
        assert w("sum", of("u8")).type.dtype == "i32"


@pytest.mark.parametrize(
    "dtype, number",
    [("u8", 256), ("u8", -1), ("i8", 128), ("f16", 70000), ("f32", 10**40), ("f64", 10**400)],
)
def test_a_number_that_does_not_fit(dtype: str, number: int) -> None:
    with world() as w:
        assert "does not fit" in refused("E-DTYPE-003", lambda: w("+", of(dtype), number)).headline
        refused("E-DTYPE-003", lambda: call("full", [2], number, dtype=f":{dtype}"))


def test_infinities_are_numbers_of_every_float() -> None:
    with world() as w:
        assert np.all(np.isinf(w.numbers("+", of("f16"), float("inf"))))


def test_bools_are_not_numbers() -> None:
    with world() as w:
        assert "where" in said(refused("E-DTYPE-001", lambda: w("+", of("bool"), of("bool"))))
        refused("E-DTYPE-001", lambda: w("*", of("bool"), 2))
        refused("E-DTYPE-001", lambda: w("sqrt", of("bool")))
        refused("E-DTYPE-001", lambda: w("logand", of("f32"), 1))


def test_arguments_that_are_no_numbers() -> None:
    with world() as w:
        refused("E-OP-001", lambda: w("+", F, "text"))
        refused("E-OP-001", lambda: w("+", F, True))
        refused("E-OP-001", lambda: w("relu", [1, 2]))


def test_a_mismatch_names_shapes_axis_and_places() -> None:
    with world() as w:
        with at("digits.sx", "(defparam a (3 4))"):
            a = w.tensor(np.zeros((3, 4), np.float32))
        with at("digits.sx", "\n\n(defparam b (5))"):
            b = w.tensor(np.zeros(5, np.float32))
        with at("digits.sx", "(+ a b)"):
            diagnostic = refused("E-SHAPE-001", lambda: call("+", a, b))
        assert "(3 4)" in diagnostic.headline
        assert "(5)" in diagnostic.headline
        assert "axis -1 is 4 in one and 5 in the other" in diagnostic.headline
        assert diagnostic.labels[0].span.text == "(+ a b)"
        assert "f32 (3 4)" in diagnostic.labels[0].text
        assert [n.span.text.strip() for n in diagnostic.notes] == [
            "(defparam a (3 4))", "(defparam b (5))"
        ]  # fmt: skip


@pytest.mark.parametrize(
    "a, b",
    [
        ((3, 1), (4,)),
        ((1, 1), (2, 3)),
        ((2, 1, 4), (3, 1)),
        ((), (2, 2)),
        ((0, 2), (1, 2)),
        ((1,), (0,)),
    ],
)
def test_broadcasting_is_numpys(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    with world() as w:
        x, y = np.ones(a, np.float32), np.ones(b, np.float32)
        assert w("+", x, y).type.shape == (x + y).shape


def test_constants_are_made_once() -> None:
    with world() as w:
        x = w.tensor(F)
        call("+", x, 1)
        call("*", x, 1.0)
        call("-", x, 1)
        assert [n.op for n in w.trace.builder.nodes] == ["full", "add", "mul", "sub"]
        call("*", x, 0.0)
        call("*", x, -0.0)
        assert [n.op for n in w.trace.builder.nodes].count("full") == 3


def test_equal_operands_add_no_nodes() -> None:
    with world() as w:
        call("+", w.tensor(F), w.tensor(F))
        assert [n.op for n in w.trace.builder.nodes] == ["add"]

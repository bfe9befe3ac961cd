"""The table of public functions: each name of the language's tensor operations is there, says
what it does, and is not there before its time."""

from __future__ import annotations

import pytest
import trace_driving  # noqa: F401

from sexpgpu.lisp.hostforms import HOST_MACROS
from sexpgpu.lisp.registry import BUILTINS
from sexpgpu.lisp.values import TENSOR
from sexpgpu.trace.tensor import OPERATIONS, REFUSED

TENSOR_NAMES = """
zeros ones full constant arange linspace iota eye one-hot tril triu
expm1 log1p rsqrt cbrt sigmoid erf erfc lgamma digamma relu softplus square reciprocal clip
where nan-p inf-p finite-p logical-and logical-or logical-not logical-xor
sum mean prod amax amin any all var std logsumexp count-nonzero norm
argmax argmin cumsum cumprod cummax cummin
softmax log-softmax
tensor-sort argsort top-k searchsorted
reshape flatten transpose broadcast-to expand-dims squeeze concat stack-tensors split pad flip roll
tile repeat-elements
at slice set-at add-at take take-along gather scatter scatter-add dynamic-slice
dynamic-update-slice crop
matmul dot outer einsum tensordot
cholesky qr svd eigh det slogdet solve triangular-solve inverse
conv max-pool avg-pool resize unfold stop-gradient
random-normal random-uniform random-bernoulli random-int random-truncated-normal random-gumbel
random-categorical random-permutation dropout
cast bitcast shape dim rank size dtype tensorp counter field ctx
"""

MACROS = ["f32", "with-numerics", "metric", "loss-term"]

CL_NAMES = """
+ - * / mod rem expt exp log sqrt abs signum floor ceiling round truncate sin cos tan asin acos atan
sinh cosh tanh asinh acosh atanh max min = /= < <= > >= logand logior logxor lognot ash 1+ 1-
"""


@pytest.mark.parametrize("name", TENSOR_NAMES.split())
def test_a_function_is_declared_and_documented(name: str) -> None:
    record = BUILTINS[name]
    assert record.layer is TENSOR
    assert len(record.doc) > 15
    assert record.lambda_list.startswith("(")
    for word in record.lambda_list.strip("()").split():
        assert word.startswith("&") or word == word.lower()


@pytest.mark.parametrize("name", MACROS)
def test_a_macro_is_declared_and_documented(name: str) -> None:
    assert HOST_MACROS[name].layer is TENSOR
    assert HOST_MACROS[name].doc


@pytest.mark.parametrize("name", CL_NAMES.split())
def test_arithmetic_takes_tensors(name: str) -> None:
    assert name in OPERATIONS
    assert BUILTINS[name].overload


def test_every_overloaded_function_has_an_answer_for_tensors() -> None:
    overloaded = {name for name, record in BUILTINS.items() if record.overload}
    assert overloaded <= OPERATIONS.keys() | REFUSED.keys()

"""What an op is: one record an op, every facet a required field. No defaults that hide a gap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from sexpgpu.ir.graph import Attrs, Builder, Node, OpError, Value
from sexpgpu.ir.types import TensorType
from sexpgpu.ops.attributes import checker

__all__ = ["OPS", "NoGrad", "OfBody", "OpDef", "OpError", "Reject", "Sample", "define"]

if TYPE_CHECKING:
    from sexpgpu.diagnostics.model import Code

Types: TypeAlias = tuple[TensorType, ...]
Cotangents: TypeAlias = "tuple[Value | None, ...]"
InferRule: TypeAlias = "Callable[[Types, Attrs], TensorType | tuple[TensorType, ...]]"
# vjp(builder, node, cotangents of the results) -> cotangents of the operands (None: zero)
VjpRule: TypeAlias = "Callable[[Builder, Node, Cotangents], Cotangents]"
# cost(operand types, result types, attrs) -> (floating point operations, bytes read and written)
CostRule: TypeAlias = "Callable[[Types, Types, Attrs], tuple[int, int]]"

# How the precision pass treats an op (spec/tensors.md, Precision):
#   matmul   bf16 operands, f32 accumulation, bf16 result
#   follow   computes in its operands' dtype; float operands are brought to one dtype
#   f32      operands raised to f32, result in the operands' dtype
#   fixed    dtypes are part of its meaning (casts, random bits, integer ops): never rewritten
#   body     runs a graph, whose ops are treated each in its own way
Precision: TypeAlias = Literal["matmul", "follow", "f32", "fixed", "body"]


class NoGrad:
    """The op passes no gradient, and why. Spelled out: a missing rule is never a default.

    `refuses`: a derivative exists in mathematics but not here, so that asking for it is an error;
    otherwise the derivative is zero, or the result carries none.
    """

    __slots__ = ("reason", "refuses")

    def __init__(self, reason: str, refuses: bool = False) -> None:
        self.reason = reason
        self.refuses = refuses


class OfBody:
    """The derivative of an op with a body: made of the body's, by `passes/`."""

    __slots__ = ()


class Sample:
    """Operands and attributes that every generated test runs: types, and the range of values.

    `values`: one of these words, or a tuple of one for each operand:
        uniform, integers   in [low, high);  distinct  without ties;  sorted  along the last axis
        definite            symmetric positive definite matrices;  regular  far from singular
        spread              matrices of well separated singular values and eigenvalues
    Integer operands get integers and bools get either, whatever the word. `grad`: whether VJP tests
    run on it. Attributes are keywords, or `attrs` where their names are taken.
    """

    __slots__ = ("attrs", "grad", "high", "low", "types", "values")

    def __init__(
        self,
        *types: TensorType,
        low: float = -2.0,
        high: float = 2.0,
        values: str | tuple[str, ...] = "uniform",
        grad: bool = True,
        attrs: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        self.types = types
        self.attrs: dict[str, Any] = {**(attrs or {}), **more}
        self.low = low
        self.high = high
        self.values = values
        self.grad = grad


class Reject:
    """Operands and attributes that `infer` must refuse with that code."""

    __slots__ = ("attrs", "code", "types")

    def __init__(self, code: Code, *types: TensorType, **attrs: Any) -> None:
        self.code = code
        self.types = types
        self.attrs: dict[str, Any] = attrs


class OpDef:
    """One op.

    operands    allowed dtypes of each operand; with `variadic` the last set stands for any number
    attrs       name -> kind, one of ops/attributes.py (a trailing `?` allows None). A node carries
                every attribute of its op, and no other
    infer       operand types and attributes -> result type, or a tuple of them; raises OpError
    vjp         emits the cotangents of the operands, or says why there are none
    keeps       of the class matmul: the places of operands that stay f32 under every policy
    """

    __slots__ = (
        "attrs",
        "checks",
        "cost",
        "doc",
        "infer",
        "keeps",
        "name",
        "operands",
        "precision",
        "rejects",
        "samples",
        "variadic",
        "vjp",
    )

    def __init__(
        self,
        *,
        name: str,
        doc: str,
        operands: tuple[frozenset[str], ...],
        attrs: Mapping[str, str],
        infer: InferRule,
        vjp: VjpRule | NoGrad | OfBody,
        precision: Precision,
        cost: CostRule,
        samples: tuple[Sample, ...],
        rejects: tuple[Reject, ...],
        variadic: bool = False,
        keeps: tuple[int, ...] = (),
    ) -> None:
        self.name = name
        self.doc = doc
        self.operands = operands
        self.attrs = dict(attrs)
        self.checks = tuple((key, checker(kind), kind) for key, kind in attrs.items())
        self.infer = infer
        self.vjp = vjp
        self.precision: Precision = precision
        self.cost = cost
        self.samples = samples
        self.rejects = rejects
        self.variadic = variadic
        self.keeps = keeps


OPS: dict[str, OpDef] = {}


def define(op: OpDef) -> OpDef:
    """Register an op. Its lax and NumPy rules carry the same name."""
    if op.name in OPS:
        raise ValueError(f"op {op.name!r} is defined twice")
    OPS[op.name] = op
    return op

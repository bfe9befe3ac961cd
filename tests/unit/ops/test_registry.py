"""Every op's declaration, from the registry: samples infer, rejects are refused with their code."""

from __future__ import annotations

import pytest

from sexpgpu.diagnostics.codes import tensor as codes
from sexpgpu.diagnostics.model import CODES
from sexpgpu.ir.types import FLOATS, ITEMSIZE, TensorType
from sexpgpu.ops import OPS, NoGrad, OpDef, OpError, infer, new_builder
from sexpgpu.ops.attributes import KINDS
from sexpgpu.passes.autodiff import vjp

ALL = [pytest.param(op, id=op.name) for op in OPS.values()]
REJECTS = [
    pytest.param(op, reject, id=f"{op.name}-{reject.code.id}-{i}")
    for op in OPS.values()
    for i, reject in enumerate(op.rejects)
]


@pytest.mark.parametrize("op", ALL)
def test_a_declaration_is_complete(op: OpDef) -> None:
    assert op.doc.endswith(".")
    assert len(op.doc) < 260
    assert op.name == op.name.lower()
    assert op.samples
    assert op.rejects
    assert op.precision in ("matmul", "follow", "f32", "fixed", "body")
    assert all(kind.removesuffix("?") in KINDS for kind in op.attrs.values())
    if isinstance(op.vjp, NoGrad):
        assert op.vjp.reason


@pytest.mark.parametrize("op", ALL)
def test_samples_are_taken(op: OpDef) -> None:
    for sample in op.samples:
        types = infer(op.name, sample.types, sample.attrs)
        assert types
        assert all(type(t) is TensorType and t.dtype in ITEMSIZE for t in types)
        assert all(t.batch is None or t.batch < t.rank for t in types)
        flops, nbytes = op.cost(sample.types, types, sample.attrs)
        assert flops >= 0
        assert nbytes >= sum(t.nbytes for t in types)


@pytest.mark.parametrize("op, reject", REJECTS)
def test_rejects_are_refused_with_their_code(op: OpDef, reject) -> None:
    with pytest.raises(OpError) as caught:
        infer(op.name, reject.types, reject.attrs)
    assert caught.value.code is reject.code
    assert caught.value.message.startswith(op.name)
    operand = caught.value.operand
    assert operand is None or operand < len(reject.types)


def test_the_families_of_refusal_are_all_shown() -> None:
    shown = {reject.code.id for op in OPS.values() for reject in op.rejects}
    raised = {f"E-SHAPE-00{n}" for n in range(1, 9)} | {f"E-DTYPE-00{n}" for n in range(1, 4)}
    assert raised <= shown
    assert shown <= set(CODES)


@pytest.mark.parametrize("op", ALL)
def test_operands_and_attributes_are_counted(op: OpDef) -> None:
    sample = op.samples[0]
    with pytest.raises(OpError) as caught:
        infer(op.name, sample.types, {**sample.attrs, "colour": 1})
    assert caught.value.code is codes.E_OP_003
    for key in sample.attrs:
        rest = {k: v for k, v in sample.attrs.items() if k != key}
        with pytest.raises(OpError) as caught:
            infer(op.name, sample.types, rest)
        assert caught.value.code is codes.E_OP_003
        with pytest.raises(OpError) as caught:
            infer(op.name, sample.types, {**sample.attrs, key: object()})
        assert caught.value.code is codes.E_OP_001
    if not op.variadic:
        with pytest.raises(OpError) as caught:
            infer(op.name, (*sample.types, TensorType((), "f32")), sample.attrs)
        assert caught.value.code is codes.E_OP_002


def test_an_unknown_op_is_refused() -> None:
    with pytest.raises(OpError) as caught:
        infer("frobnicate", (), {})
    assert caught.value.code is codes.E_OP_004


@pytest.mark.parametrize("op", ALL)
def test_a_derivative_has_the_types_of_the_operands(op: OpDef) -> None:
    if isinstance(op.vjp, NoGrad):
        return
    for sample in op.samples:
        b = new_builder()
        operands = tuple(b.input(str(i), type) for i, type in enumerate(sample.types))
        node = b.node(op.name, operands, sample.attrs)
        if node.results[0].dtype not in FLOATS:
            continue
        grads = vjp(b, node, tuple(b.input(f"g{i}", v.type) for i, v in enumerate(node.results)))
        assert len(grads) == len(operands)
        for operand, grad in zip(operands, grads, strict=True):
            assert grad is None or grad.type.same_value(operand.type)
            assert grad is None or operand.dtype in FLOATS


MESSAGES = [
    (
        "add",
        (TensorType((2, 3), "f32"), TensorType((2, 4), "f32")),
        {},
        "add: shapes (2 3) and (2 4) differ on axis 1, 3 and 4",
    ),
    (
        "sum",
        (TensorType((2, 3), "f32"),),
        {"axes": (2,)},
        "sum: axis 2 of a tensor of rank 2, f32 (2 3)",
    ),
    (
        "reshape",
        (TensorType((2, 3), "f32"),),
        {"shape": (4, 2)},
        "reshape: shape (2 3) has 6 elements, (4 2) has 8",
    ),
    (
        "concat",
        (TensorType((2, 3), "f32"), TensorType((3, 3), "f32")),
        {"axis": 1},
        "concat along axis 1: shapes (2 3) and (3 3) differ on axis 0, 2 and 3",
    ),
    (
        "sqrt",
        (TensorType((2,), "i32"),),
        {},
        "sqrt: the operand is i32 (2), wanted one of f32 bf16 f16 f64",
    ),
    (
        "slice",
        (TensorType((5,), "f32"),),
        {"starts": (2,), "limits": (6,), "strides": (1,)},
        "slice: 2 to 6 of axis 0, whose extent is 5, of f32 (5)",
    ),
]


@pytest.mark.parametrize("name, types, attrs, message", MESSAGES, ids=[m[0] for m in MESSAGES])
def test_messages_name_shapes_and_axis(name, types, attrs, message) -> None:
    with pytest.raises(OpError) as caught:
        infer(name, types, attrs)
    assert caught.value.message == message


def test_a_product_names_the_inner_dimensions() -> None:
    attrs = OPS["dot"].samples[0].attrs
    with pytest.raises(OpError) as caught:
        infer("dot", (TensorType((128, 64), "f32"), TensorType((128, 10), "f32")), attrs)
    assert caught.value.message == (
        "dot: inner dimensions differ, 64 and 128: axis 1 of (128 64) and axis 0 of (128 10)"
    )
    assert caught.value.operand == 1


def test_a_weight_gradient_is_the_input_transposed_by_the_cotangent() -> None:
    """XLA:CPU then transposes neither: x and dy of two axes, axis 0 of both contracted."""
    b = new_builder()
    x = b.input("x", TensorType((4, 5, 6), "f32", 0))
    w = b.input("w", TensorType((6, 7), "f32"))
    attrs = {"a_contract": (2,), "b_contract": (0,), "a_batch": (), "b_batch": ()}
    node = b.node("dot", (x, w), {**attrs, "accumulate": None, "mode": "highest"})
    before = len(b.nodes)
    vjp = OPS["dot"].vjp
    assert not isinstance(vjp, NoGrad)
    _, dw = vjp(b, node, (b.input("dy", node.result.type),))
    made = b.nodes[before:]
    assert dw is not None
    last = next(n for n in made if dw in n.results)
    assert last.op == "dot"
    assert [v.shape for v in last.operands] == [(20, 6), (20, 7)]
    assert (last.attrs["a_contract"], last.attrs["b_contract"]) == ((0,), (0,))
    assert not any(n.op == "transpose" for n in made)

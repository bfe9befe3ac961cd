"""The precision pass: where each class of op computes, what is cast and why, islands, outputs."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from sampled_graphs import arrays, graphs, same_bits

from sexpgpu.diagnostics.model import SxError
from sexpgpu.ir.graph import Builder, Graph, Node, Value
from sexpgpu.ir.numerics import merge_numerics, parse_numerics
from sexpgpu.ir.text import print_graph
from sexpgpu.ir.types import TensorType
from sexpgpu.ir.verify import verify
from sexpgpu.lowering.interp.evaluate import Plan, evaluate
from sexpgpu.ops import infer, new_builder
from sexpgpu.ops.building import full_like, scaled
from sexpgpu.ops.linalg import dot
from sexpgpu.passes import cse, dce, fold, pipeline, precision
from sexpgpu.passes.autodiff import differentiate

GOLDEN = Path(__file__).parents[2] / "golden" / "passes"


def matmul(b: Builder, x: Value, w: Value) -> Value:
    return dot(b, x, w, ((len(x.shape) - 1,), (0,)))


def start() -> tuple[Builder, Value, Value]:
    b = new_builder()
    x = b.input("batch/x", TensorType((4, 3), "f32", 0))
    return b, x, b.input("param/w", TensorType((3, 2), "f32"))


def run(graph: Graph, policy: str = "bf16") -> Graph:
    made = dce.run(cse.run(fold.run(precision.run(graph, policy))))
    verify(made, infer)
    assert made.inputs == graph.inputs
    assert {n: v.type for n, v in made.outputs.items()} == {
        n: v.type for n, v in graph.outputs.items()
    }
    return made


def node(graph: Graph, op: str) -> Node:
    (found,) = [n for n in graph.nodes if n.op == op]
    return found


def dtypes(found: Node) -> list[str]:
    return [v.dtype for v in (*found.operands, *found.results)]


# -- classes ------------------------------------------------------------------------------------


def test_f32_changes_nothing() -> None:
    b, x, w = start()
    graph = b.finish("g", {"loss/a": b.emit("mean", b.emit("tanh", matmul(b, x, w)), axes=(0, 1))})
    assert precision.run(graph, "f32") is graph


def test_products_take_bf16_and_follow_ops_follow() -> None:
    b, x, w = start()
    graph = run(b.finish("g", {"out/0": b.emit("tanh", matmul(b, x, w))}))
    assert dtypes(node(graph, "dot")) == ["bf16"] * 3
    assert dtypes(node(graph, "tanh")) == ["bf16"] * 2
    assert node(graph, "dot").attrs["accumulate"] is None
    reasons = [n.origin.note for n in precision.casts(graph)]
    assert reasons == [
        "cast to bf16: dot takes bf16 operands",
        "cast to bf16: dot takes bf16 operands",
        "cast to f32: the output out/0 is f32",
    ]


def test_f32_ops_raise_their_operands() -> None:
    b, x, w = start()
    y = b.emit("softmax", matmul(b, x, w), axis=1)
    graph = run(b.finish("g", {"out/0": b.emit("sin", y)}))
    assert dtypes(node(graph, "softmax")) == ["f32", "f32"]
    assert dtypes(node(graph, "sin")) == ["bf16", "bf16"]


def test_f32_ops_in_a_row_are_not_rounded_in_between() -> None:
    b, x, w = start()
    y = b.emit("log", b.emit("sum", b.emit("exp", matmul(b, x, w)), axes=(1,)))
    graph = run(b.finish("g", {"out/0": y}))
    assert [n.op for n in graph.nodes if n.op == "cast"] == ["cast"] * 3  # x, w, the product


def test_batch_fields_and_constants_are_f32_until_they_meet_bf16() -> None:
    b, x, w = start()
    scaled_x = b.emit("sub", scaled(b, x, 1 / 255), full_like(b, 0.5, x))
    graph = run(b.finish("g", {"out/0": scaled(b, matmul(b, scaled_x, w), 3.0)}))
    assert dtypes(node(graph, "sub")) == ["f32"] * 3
    assert [dtypes(n) for n in graph.nodes if n.op == "mul"] == [["f32"] * 3, ["bf16"] * 3]


def test_a_parameter_is_rounded_where_it_is_used_once_for_all_uses() -> None:
    b, x, w = start()
    turned = b.emit("transpose", w, perm=(1, 0))
    y = b.emit("add", matmul(b, x, w), matmul(b, b.emit("neg", x), w))
    z = b.emit("add", w, w)
    graph = run(b.finish("g", {"a": y, "b": z, "c": turned}))
    casts = [n for n in precision.casts(graph) if n.operands[0] is graph.inputs["param/w"]]
    assert len(casts) == 1
    assert graph.outputs["c"] in node(graph, "transpose").results  # the master, moved


def test_scalars_are_not_rounded() -> None:
    b, x, w = start()
    d = matmul(b, x, w)
    mean = b.emit("mean", b.emit("mul", d, d), axes=(0, 1))
    graph = run(b.finish("g", {"loss/objective/sum": scaled(b, mean, 1 / 3)}))
    assert dtypes(graph.nodes[-1]) == ["f32"] * 3


def test_random_draws_do_not_change() -> None:
    """Bits to uniforms to a comparison: all f32, though what is dropped is bf16."""
    b, x, w = start()
    key = b.emit("random-key", b.input("rng/key", TensorType((2,), "u32")), name="dropout")
    offset = b.input("rng/offset", TensorType((), "u32"))
    bits = b.emit("random-bits", key, offset, shape=(4, 2), batch=0, per_example=1)
    shifts = b.emit("full", shape=(4, 2), value=8, dtype="u32", batch=0)
    uniform = scaled(b, b.emit("cast", b.emit("shift-right", bits, shifts), dtype="f32"), 2.0**-24)
    kept = b.emit("lt", uniform, full_like(b, 0.9, uniform))
    y = matmul(b, x, w)
    graph = b.finish("g", {"out/0": b.emit("select", kept, y, full_like(b, 0.0, y)), "kept": kept})
    made = run(graph)
    assert dtypes(node(made, "lt")) == ["f32", "f32", "bool"]
    assert dtypes(node(made, "select")) == ["bool", "bf16", "bf16", "bf16"]
    inputs = {**arrays(graph), "rng/key": np.array([1, 2], np.uint32)}
    want = evaluate(Plan(graph), inputs)["kept"]
    assert np.array_equal(evaluate(Plan(made), inputs)["kept"], want)


def test_dtypes_of_the_file_are_kept() -> None:
    b, x, w = start()
    y = b.emit("exp", b.emit("cast", matmul(b, x, w), dtype="f64"))
    z = b.emit("sum", b.emit("cast", x, dtype="bf16"), axes=(1,))
    graph = run(b.finish("g", {"out/0": y, "out/1": z}))
    assert dtypes(node(graph, "exp")) == ["f64", "f64"]
    assert dtypes(node(graph, "sum")) == ["bf16", "bf16"]


def test_losses_metrics_and_gradients_are_f32() -> None:
    b, x, _w = start()
    low = b.emit("sum", b.emit("cast", x, dtype="bf16"), axes=(0, 1))
    graph = precision.run(b.finish("g", {"loss/a/sum": low, "metric/m/value": low}), "bf16")
    assert {value.dtype for value in graph.outputs.values()} == {"f32"}


def test_the_other_policy_is_f16() -> None:
    b, x, w = start()
    graph = run(b.finish("g", {"out/0": matmul(b, x, w)}), "f16")
    assert dtypes(node(graph, "dot")) == ["f16"] * 3
    with pytest.raises(SxError, match="precision 'f8'") as caught:
        precision.run(graph, "f8")
    assert caught.value.diagnostics[0].code.id == "E-NUM-001"


# -- islands ------------------------------------------------------------------------------------


def test_an_island_computes_in_f32_and_so_does_its_backward_pass() -> None:
    b, x, w = start()
    y = matmul(b, x, w)
    b.numerics = "compute=f32"
    z = b.emit("tanh", y)
    b.numerics = None
    graph = b.finish("g", {"loss/a/sum": b.emit("mean", b.emit("sin", z), axes=(0, 1))})
    made = run(differentiate(graph, "loss/a/sum", {"grad/w": "param/w"}))
    assert dtypes(node(made, "tanh")) == ["f32", "f32"]
    backward = [n for n in made.nodes if n.numerics == "compute=f32" and n.op in ("mul", "sub")]
    assert backward
    assert all(set(dtypes(n)) == {"f32"} for n in backward)
    assert made.outputs["grad/w"].dtype == "f32"


def test_an_island_sees_the_master_of_a_parameter() -> None:
    b, _x, w = start()
    turned = b.emit("transpose", w, perm=(1, 0))
    b.numerics = "compute=f32"
    graph = run(b.finish("g", {"out/0": b.emit("exp", turned)}))
    assert [n.op for n in graph.nodes] == ["transpose", "exp"]


def test_an_island_of_bf16_under_f32() -> None:
    b, x, w = start()
    b.numerics = "compute=bf16"
    y = matmul(b, x, w)
    b.numerics = None
    graph = run(b.finish("g", {"out/0": b.emit("tanh", y)}), "f32")
    assert dtypes(node(graph, "dot")) == ["bf16"] * 3
    assert dtypes(node(graph, "tanh")) == ["f32", "f32"]


def test_accumulation_and_matmul_mode_are_set() -> None:
    b, x, w = start()
    b.numerics = "accumulate=f64 matmul=tf32"
    graph = run(b.finish("g", {"out/0": matmul(b, x, w)}), "f32")
    found = node(graph, "dot")
    assert (found.attrs["accumulate"], found.attrs["mode"]) == ("f64", "tf32")


def test_they_reach_convolutions_and_their_gradients() -> None:
    b = new_builder()
    x = b.input("batch/x", TensorType((2, 5, 3), "f32", 0))
    w = b.input("param/w", TensorType((3, 3, 4), "f32"))
    b.numerics = "accumulate=f64 matmul=tf32"
    how = {"strides": (1,), "pads": ((1, 1),), "dilation": (1,), "groups": 1}
    y = b.emit("conv", b.emit("tanh", x), w, **how, accumulate=None, mode="highest")
    b.numerics = None
    total = b.emit("sum", b.emit("mul", y, y), axes=(0, 1, 2))
    graph = b.finish("g", {"out/0": total})
    graph = run(differentiate(graph, "out/0", {"grad/x": "batch/x", "grad/w": "param/w"}), "f32")
    made = {n.op: n for n in graph.nodes if n.op.startswith("conv")}
    assert sorted(made) == ["conv", "conv-input-grad", "conv-weight-grad"]
    for found in made.values():
        assert (found.attrs["accumulate"], found.attrs["mode"]) == ("f64", "tf32")


def test_numerics_merge_key_by_key() -> None:
    assert merge_numerics(None, {"compute": "f32"}) == "compute=f32"
    outer = "compute=f32 matmul=tf32"
    assert merge_numerics(outer, {"compute": "bf16"}) == "compute=bf16 matmul=tf32"
    for text in ("", "compute", "compute=f8", "matmul=tf32 compute=f32", "compute=f32 compute=f32"):
        with pytest.raises(ValueError, match="numerics"):
            parse_numerics(text)


# -- whole graphs -------------------------------------------------------------------------------


def network() -> Graph:
    """Two layers with a norm in an island, a residual, softmax cross-entropy; its gradients."""
    b = new_builder()
    x = b.input("batch/x", TensorType((4, 3), "f32", 0))
    labels = b.input("batch/y", TensorType((4, 1), "i32", 0))
    w1 = b.input("param/w1", TensorType((3, 3), "f32"))
    w2 = b.input("param/w2", TensorType((3, 5), "f32"))
    h = b.emit("add", b.emit("tanh", matmul(b, x, w1)), x)
    b.numerics = "compute=f32"
    mean = b.emit("mean", b.emit("mul", h, h), axes=(1,))
    scale = b.emit("rsqrt", b.emit("add", mean, full_like(b, 1e-6, mean)))
    h = b.emit("mul", h, b.emit("broadcast", scale, shape=h.shape, dims=(0,)))
    b.numerics = None
    scores = b.emit("log-softmax", matmul(b, h, w2), axis=1)
    loss = b.emit("neg", b.emit("mean", b.emit("take-along", scores, labels, axis=1), axes=(0, 1)))
    graph = b.finish("train/0", {"loss/objective/sum": loss})
    return differentiate(
        graph, "loss/objective/sum", {"grad/w1": "param/w1", "grad/w2": "param/w2"}
    )


def test_a_network_under_bf16_is_near_the_one_under_f32() -> None:
    graph = network()
    rng = np.random.default_rng(0)
    inputs = {n: rng.normal(size=v.shape).astype(np.float32) for n, v in graph.inputs.items()}
    inputs["batch/y"] = rng.integers(0, 5, (4, 1)).astype(np.int32)
    want = evaluate(Plan(pipeline.run(graph, pipeline.Options("f32"), check=True)), inputs)
    got = evaluate(Plan(pipeline.run(graph, pipeline.Options("bf16"), check=True)), inputs)
    for name, value in want.items():
        assert got[name].dtype == np.float32
        scale = float(np.abs(value).max())
        np.testing.assert_allclose(got[name], value, atol=3e-2 * scale, err_msg=name)
        assert not np.array_equal(got[name], value)


@pytest.mark.parametrize("policy", ["f32", "bf16"])
def test_golden_network(policy: str, golden) -> None:
    made = pipeline.run(network(), pipeline.Options(policy), check=True)
    golden(GOLDEN / f"network.{policy}.ir", print_graph(made))


@given(graph=graphs(places=False))
def test_any_graph_stays_sound_and_keeps_its_types(graph: Graph) -> None:
    for policy in precision.POLICIES:
        made = precision.run(graph, policy)
        verify(made, infer)
        assert {n: v.type for n, v in made.outputs.items()} == {
            n: v.type for n, v in graph.outputs.items()
        }
        if not any(n.numerics for n in graph.nodes) and policy == "f32":
            assert made is graph


def test_bf16_rounds_as_ml_dtypes_does() -> None:
    b, _x, w = start()
    graph = run(b.finish("g", {"out/0": b.emit("add", w, w)}))
    value = np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)
    low = value.astype(ml_dtypes.bfloat16)
    want = (low + low).astype(np.float32)
    got = evaluate(Plan(graph), {"batch/x": np.zeros((4, 3), np.float32), "param/w": value})
    assert same_bits(got["out/0"], want)


# -- the pipeline -------------------------------------------------------------------------------


def test_any_stage_can_be_seen() -> None:
    graph = network()
    seen: list[str] = []
    pipeline.run(graph, pipeline.Options("bf16"), seen=lambda name, made: seen.append(name))
    assert seen == [name for name, _ in pipeline.PASSES]
    early = pipeline.run(graph, pipeline.Options("bf16"), after="share")
    assert not precision.casts(early)
    with pytest.raises(ValueError, match="there is no pass 'magic'"):
        pipeline.run(graph, pipeline.Options(), after="magic")


def test_a_pass_that_breaks_a_graph_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(graph: Graph, options: pipeline.Options) -> Graph:
        return Graph(graph.name, graph.inputs, graph.nodes[1:], graph.outputs)

    monkeypatch.setattr(pipeline, "PASSES", (("spoil", broken),))
    with pytest.raises(SxError, match="not defined before") as caught:
        pipeline.run(network(), pipeline.Options(), check=True)
    assert "after the pass spoil" in [n.text for n in caught.value.diagnostics[0].notes]


def test_inputs_that_nothing_reads_are_dropped_from_what_a_document_holds() -> None:
    b, x, _w = start()
    graph = b.finish("g", {"out/0": b.emit("neg", x)})
    assert list(pipeline.optimized(graph, "bf16").inputs) == ["batch/x"]
    assert list(pipeline.closed(graph).inputs) == ["batch/x"]

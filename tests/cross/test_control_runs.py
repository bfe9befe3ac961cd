"""Run files with scan, recompute and inner gradients: microbatches, precision, and MAML in jax."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference_programs import compiled

import sexpgpu as sx
from sexpgpu.ir.graph import Graph, Node, nodes_within

DEVICES = ["interp", "cpu"]
EXAMPLES = Path(__file__).parents[2] / "examples"

RNN = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defknob parts 1)
(defknob precision :f32)
(defknob batch 8)
(defknob drop 0.4)
(defloader train
  :source (synthetic 16 (x :f32 (5 3) (normal)) (y :i32 () (integers 0 4)))
  :batch batch :shuffle t)
(defun prepare (batch) (values (field batch :x) (field batch :y)))
(defmodel rnn ()
  (defparam wx (3 6) :init (* 0.5 (random-normal shape)))
  (defparam wh (6 6) :init (* 0.5 (random-normal shape)))
  (submodel out (nn:linear 6 4))
  (forward (x)
    (let ((cell (lambda (h x)
                  (let ((h (tanh (+ (matmul x wx) (matmul (dropout h drop) wh)))))
                    (values h (dropout h drop))))))
      (multiple-value-bind (h hs) (scan cell (zeros (list (dim x 0) 6)) (transpose x (list 1 0 2)))
        (metric :spread (mean (square hs)))
        (out (+ h (mean hs :axis 0)))))))
(defun objective (model x y) (nn:cross-entropy (funcall model x) y))
(defrun rnn :model (rnn) :optimizer (optim:adamw :lr 0.05) :steps 4 :log-every 1
  :microbatches parts :precision precision)
"""


def trained(text: str, folder: Path, device: str, **knobs: Any) -> Any:
    name = "-".join(f"{k}{v}".replace(":", "") for k, v in knobs.items())
    return sx.compile_text(text, knobs=knobs).run(runs=str(folder / name / device), device=device)


def losses(run: Any) -> Any:
    return run.metrics["train/loss"].values


def train_graph(text: str, **knobs: Any) -> Graph:
    return sx.compile_text(text, knobs=knobs).document.graphs["train/main"]


def scans(graph: Graph) -> list[Node]:
    return [node for node in nodes_within(graph) if node.op == "scan"]


# -- draws and the batch -------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_microbatches_draw_the_same_in_a_scan(device: str, tmp_path: Path) -> None:
    whole = trained(RNN, tmp_path, device, parts=1)
    for parts in (2, 4) if device == "interp" else (4,):  # each is a compilation
        split = trained(RNN, tmp_path, device, parts=parts)
        np.testing.assert_allclose(losses(split), losses(whole), rtol=2e-5)
        for path, value in whole.parameters.items():
            np.testing.assert_allclose(split.parameters[path], value, rtol=2e-4, atol=2e-5)


def test_both_backends_agree(tmp_path: Path) -> None:
    a, b = (trained(RNN, tmp_path, device, parts=1) for device in DEVICES)
    np.testing.assert_allclose(losses(a), losses(b), rtol=1e-5)
    for path, value in a.parameters.items():
        np.testing.assert_allclose(b.parameters[path], value, rtol=1e-3, atol=1e-5)


def test_each_iteration_draws_for_itself_and_each_scan_too() -> None:
    function = sx.function(
        """(lambda (x) (flet ((noise () (nth-value 1
             (scan (lambda (c x) (values c (random-uniform (list 3)))) nil x))))
           (values (noise) (noise)
                   (nth-value 1 (scan (lambda (c row)
                     (values c (nth-value 1 (scan (lambda (c x)
                       (values c (random-uniform nil))) nil row)))) nil (ones (list 4 3)))))))"""
    )
    first, second, nested = function(np.ones(4, np.float32), seed=3)
    drawn = np.concatenate([first.reshape(-1), second.reshape(-1), nested.reshape(-1)])
    assert len(np.unique(drawn)) == drawn.size
    again, *_ = function(np.ones(4, np.float32), seed=3)
    np.testing.assert_array_equal(again, first)


def test_a_reversed_scan_draws_by_the_element_not_by_the_order() -> None:
    text = """(lambda (x) (nth-value 1
      (scan (lambda (c x) (values c (random-uniform nil))) nil x :reverse {r})))"""
    forth, back = (sx.function(text.format(r=r))(np.ones(5, np.float32)) for r in ("nil", "t"))
    np.testing.assert_array_equal(forth, back)


def test_a_draw_while_scanning_the_examples_is_warned_of() -> None:
    text = RNN.replace("(transpose x (list 1 0 2))", "x").replace("(dim x 0)", "(dim x 1)")
    text = text.replace("(out (+ h (mean hs :axis 0)))", "(out (mean hs :axis 1))")
    assert sx.compile_text(text).diagnostics == []
    found = {d.code.id for d in sx.compile_text(text, knobs={"parts": 2}).diagnostics}
    assert "W-RUN-003" in found


def marked(graph: Graph) -> list[Any]:
    return [
        (node.op, [(v.type.batch, v.type.rank) for v in node.results])
        for node in nodes_within(graph)
    ]


def test_two_batch_sizes_give_the_same_graph_but_for_the_marked_axes() -> None:
    small, large = train_graph(RNN, batch=4), train_graph(RNN, batch=8)
    assert marked(small) == marked(large)
    for a, b in zip(nodes_within(small), nodes_within(large), strict=True):
        if a.op not in ("scan", "random-bits"):  # constants and their kin are the same for each
            continue
        pairs = list(zip(a.results, b.results, strict=True))
        if a.op == "scan":
            bodies = [node.attrs["body"].inputs.values() for node in (a, b)]
            pairs += list(zip(*bodies, strict=True))
        for x, y in pairs:
            for axis, (m, n) in enumerate(zip(x.shape, y.shape, strict=True)):
                assert n == (2 * m if axis == x.type.batch else m), (a, x.type, y.type)


# -- precision -----------------------------------------------------------------------------------


def test_bf16_in_the_body(tmp_path: Path) -> None:
    """Products in bf16, gradients of the masters added up in f32, weights cast once, outside."""
    graph = train_graph(RNN, precision=":bf16")
    forward, backward = scans(graph)
    for scan in (forward, backward):
        body = scan.attrs["body"]
        products = [node for node in body.nodes if node.op == "dot"]
        assert products
        assert {v.dtype for node in products for v in node.operands} == {"bf16"}
        captured = set(
            list(body.inputs.values())[scan.attrs["carries"] + scan.attrs["sequences"] :]
        )
        assert not [n for n in body.nodes if n.op == "cast" and n.operands[0] in captured]
    assert forward.results[0].dtype == "bf16"  # the carry: what the body computes
    sums = [v for v in backward.results[: backward.attrs["carries"]] if v.shape in ((3, 6), (6, 6))]
    assert [v.dtype for v in sums] == ["f32", "f32"]
    runs = [trained(RNN, tmp_path, device, precision=":bf16", drop=0.0) for device in DEVICES]
    np.testing.assert_allclose(losses(runs[0]), losses(runs[1]), rtol=5e-3)
    plain = trained(RNN, tmp_path, "interp", precision=":f32", drop=0.0)
    np.testing.assert_allclose(losses(runs[0]), losses(plain), rtol=3e-2)


# -- recompute -----------------------------------------------------------------------------------

NOTED = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train
  :source (synthetic 16 (x :f32 (4) (normal)) (y :i32 () (integers 0 3))) :batch 8)
(defun prepare (batch) (values (field batch :x) (field batch :y)))
(defmodel net ()
  (submodel a (nn:linear 4 8))
  (defbuffer level (8))
  (submodel b (nn:linear 8 3))
  (forward (x)
    (flet ((layer (x)
             (let ((h (dropout (tanh (- (a x) level)) 0.3)))
               (metric :size (mean (square h)))
               (metric :level (sum level))
               (loss-term :small (* 0.1 (mean (square h))))
               (incf (counter :calls))
               (setf level (+ (* 0.9 level) (* 0.1 (mean h :axis 0))))
               h)))
      (b {call}))))
(defun objective (model x y) (nn:cross-entropy (funcall model x) y))
(defrun net :model (net) :optimizer (optim:sgd :lr 0.5) :steps 3 :log-every 1)
"""


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_what_is_noted_passes_through_recompute(precision: str, tmp_path: Path) -> None:
    """Metrics, loss terms, counters, a buffer that is read and set, draws: all the same bits."""
    text = NOTED.replace(":steps 3", f":steps 3 :precision :{precision}")
    plain, again = (
        trained(text.replace("{call}", call), tmp_path / name, "interp")
        for name, call in (("plain", "(layer x)"), ("again", "(recompute #'layer x)"))
    )
    assert set(plain.metrics) == set(again.metrics)
    for name in ("train/loss", "train/size", "train/small", "train/level"):
        np.testing.assert_array_equal(plain.metrics[name].values, again.metrics[name].values)
    assert np.abs(plain.metrics["train/level"].values[-1]) > 0
    for path, value in plain.parameters.items():
        np.testing.assert_array_equal(value, again.parameters[path], err_msg=path)


def test_the_same_metric_twice_is_refused_across_recompute() -> None:
    text = NOTED.replace("{call}", "(progn (metric :size 1.0) (recompute #'layer x))")
    with pytest.raises(sx.CompileError) as caught:
        sx.compile_text(text)
    assert caught.value.diagnostics[0].code.id == "E-METRIC-001"


@pytest.mark.parametrize(
    "form",
    [
        "(metric :a (mean h))",
        "(loss-term :a (mean h))",
        "(incf (counter :a))",
        "(setf b h)",
    ],
)
def test_nothing_is_noted_in_a_scan(form: str) -> None:
    text = f"""
(require "sexpgpu/optim" :as optim)
(defloader train :source (inline (x (0.0 1.0))) :batch 1)
(defun prepare (batch) (field batch :x))
(defmodel net () (defparam w (2)) (defbuffer b (2))
  (forward (x) (scan (lambda (h e) {form} (+ (* h w) e)) (zeros (list 2)) x)))
(defun objective (model x) (mean (funcall model x)))
(defrun net :model (net) :optimizer (optim:sgd :lr 0.1) :steps 2)
"""
    with pytest.raises(sx.CompileError) as caught:
        sx.compile_text(text)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code.id == "E-FLOW-005"
    assert form.strip("()").split()[0] in diagnostic.span.text


# -- meta-learning -------------------------------------------------------------------------------


def net(p: Any, x: Any) -> Any:
    for name in ("a", "b"):
        x = jnp.tanh(x @ p[f"{name}/w"] + p[f"{name}/b"])
    return x @ p["c/w"] + p["c/b"]


def mse(p: Any, x: Any, y: Any) -> Any:
    return jnp.mean((net(p, x) - y) ** 2)


def meta_loss(p: Any, tasks: Any, rate: float, steps: int, order: int) -> Any:
    def one(task: Any) -> Any:
        x, y, u, v = task
        q = p
        for _ in range(steps):
            slopes = jax.grad(mse)(q, x, y)
            if order == 1:
                slopes = jax.lax.stop_gradient(slopes)
            q = jax.tree.map(lambda a, g: a - rate * g, q, slopes)
        return mse(q, u, v)

    return jnp.mean(jax.vmap(one)(tasks))


@pytest.mark.slow
@pytest.mark.parametrize("device, order", [("interp", 1), ("interp", 2), ("cpu", 2)])
def test_maml_against_jax(device: str, order: int, tmp_path: Path) -> None:
    """One step of plain gradient descent, from the parameters of a step that does not move."""
    rng = np.random.default_rng(0)
    a, p = rng.uniform(0.5, 2, 3), rng.uniform(0, 3, 3)
    x, u = (rng.uniform(-4, 4, (3, 4, 1)) for _ in range(2))
    rows = " ".join(
        f"({name} {' '.join(_lisp(v) for v in value)})"
        for name, value in {"amplitude": a, "phase": p, "x": x, "u": u}.items()
    )
    text = (EXAMPLES / "maml.sx").read_text()
    start, end = text.index("(defloader train"), text.index("(defun prepare")
    text = f"{text[:start]}(defloader train :source (inline {rows}) :batch 3)\n{text[end:]}"
    start, end = text.index("(defeval"), text.index("(defrun")
    text = text[:start] + text[end:]
    text = text.replace("(optim:adam :lr lr)", "(optim:sgd :lr lr)").replace(":clip-norm 10.0", "")
    knobs = {"width": 5, "rate": 0.1, "order": order, "steps": 1}
    before, after = (
        trained(text, tmp_path, device, **knobs, lr=lr).parameters for lr in (1e-30, 1.0)
    )
    f32 = [np.float32(v) for v in (a, p, x, u)]
    with jax.enable_x64(True):
        a, p, x, u = (np.float64(v) for v in f32)
        a, p = a.reshape(-1, 1, 1), p.reshape(-1, 1, 1)
        tasks = (x, a * np.sin(x + p), u, a * np.sin(u + p))
        params = {k: np.float64(v) for k, v in before.items()}
        wanted = compiled(jax.grad(lambda p: meta_loss(p, tasks, 0.1, 2, order)))(params)
    for path, want in wanted.items():
        scale = float(np.abs(want).max())
        np.testing.assert_allclose(
            before[path] - after[path], want, atol=3e-5 * scale, rtol=1e-4, err_msg=path
        )


def _lisp(value: Any) -> str:
    if np.ndim(value) == 0:
        return repr(float(np.float32(value)))
    return "(" + " ".join(_lisp(v) for v in value) + ")"


def test_frozen_models_and_bound_parameters(tmp_path: Path) -> None:
    text = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train :source (inline (x (1.0) (2.0))) :batch 2)
(defun prepare (batch) (field batch :x))
(defmodel net ()
  (submodel student (nn:linear 1 1))
  (submodel teacher (nn:linear 1 1))
  (forward (x) (mean (square (- (student x) (+ 1 (funcall (frozen teacher) x)))))))
(defun objective (model x)
  (let* ((shifted (with-params model (mapcar (lambda (p) (+ p 1)) (params model))))
         (w (param shifted "student/w")))
    (metric :shift (mean (- w (param model "student/w"))))
    (metric :inner (sum (param (part shifted "teacher") "b")))
    (+ (funcall model x) (* 0 (funcall shifted x)))))
(defrun net :model (net) :optimizer (optim:sgd :lr 0.1) :steps 2 :log-every 1)
"""
    experiment = sx.compile_text(text)
    for warning in experiment.diagnostics:  # of w and of b
        assert (warning.code.id, "teacher" in warning.headline) == ("W-RUN-001", True)
    run = experiment.run(runs=str(tmp_path), device="interp")
    np.testing.assert_allclose(run.metrics["train/shift"].values, 1, rtol=1e-6)
    np.testing.assert_allclose(run.metrics["train/inner"].values, 1)  # its bias is 0
    still = sx.compile_text(text.replace(":lr 0.1", ":lr 1e-30")).run(
        runs=str(tmp_path / "still"), device="interp"
    )
    for path, value in run.parameters.items():
        moved = not np.array_equal(value, still.parameters[path])
        assert moved == path.startswith("student"), path


def test_the_step_fields_and_buffers_are_seen_in_a_body(tmp_path: Path) -> None:
    text = """
(require "sexpgpu/optim" :as optim)
(defloader train :source (inline (x (1.0) (2.0))) :batch 2)
(defun prepare (batch)
  (values (scan (lambda (c x) (+ c x (* 0 (sum (field batch :x)))))
                (zeros (list 2)) (transpose (field batch :x)))))
(defmodel net () (defparam w ()) (defbuffer b () :init 5.0)
  (forward (x)
    (setf b (+ b 1))
    (nth-value 1 (scan (lambda (c x)
                         (values c (recompute (lambda (x)
                                                (+ (* w x) (cast (ctx :step) :f32) b)) x)))
                       nil x))))
(defun objective (model x)
  (let ((y (funcall model x))) (metric :y (sum y)) (mean y)))
(defrun net :model (net) :optimizer (optim:sgd :lr 1e-30) :steps 2 :log-every 1)
"""
    for device in DEVICES:
        run = sx.compile_text(text).run(runs=str(tmp_path / device), device=device)
        np.testing.assert_allclose(run.metrics["train/y"].values, [12.0, 16.0])

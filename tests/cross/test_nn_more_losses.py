"""The other losses of sexpgpu/nn against optax and NumPy, and metrics that need a whole pass."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from reference_programs import compiled

import sexpgpu as sx

RANDOM = np.random.default_rng(2)
Y = RANDOM.standard_normal((7, 3)).astype(np.float32)
TARGET = (Y + 2 * RANDOM.standard_normal((7, 3))).astype(np.float32)
OTHER = RANDOM.standard_normal((7, 3)).astype(np.float32)
SIGNS = np.where(RANDOM.random((7, 3)) < 0.5, 1.0, -1.0).astype(np.float32)
BITS = (RANDOM.random((7, 3)) < 0.5).astype(np.float32)
SHARES = np.array(jax.nn.softmax(jnp.asarray(OTHER)))
SHARES[0] = (1.0, 0.0, 0.0)
LOG = np.asarray(jax.nn.log_softmax(jnp.asarray(Y)))
LABELS = RANDOM.integers(0, 3, 7).astype(np.int32)


def standardly(function: Any) -> Any:
    def call(*arguments: Any) -> Any:
        with jax.numpy_dtype_promotion("standard"):
            return function(*arguments)

    return call


def smooth_l1(y: Any, t: Any) -> Any:
    e = jnp.abs(y - t)
    return jnp.where(e < 0.5, e * e / (2 * 0.5), e - 0.25)


def dice(p: Any, t: Any) -> Any:
    return 1 - (2 * (p * t).sum(1) + 1) / (p.sum(1) + t.sum(1) + 1)


def cosine(a: Any, b: Any) -> Any:
    size = jnp.linalg.norm(a, axis=-1, keepdims=True)
    return (a / size) @ (b / jnp.linalg.norm(b, axis=-1, keepdims=True)).T


def info_nce(a: Any, b: Any) -> Any:
    logits = cosine(a, b) / 0.2
    return jax.nn.logsumexp(logits, 1) - jnp.diag(logits)


def both_ways(a: Any, b: Any) -> Any:
    return (info_nce(a, b) + info_nce(b, a)) / 2


CASES: dict[str, Any] = {
    "(nn:smooth-l1 a b :beta 0.5)": ((Y, TARGET), smooth_l1),
    "(nn:cosine-similarity-loss a b)": ((Y, TARGET), lambda a, b: 1 - jnp.diag(cosine(a, b))),
    "(nn:hinge a b)": ((Y, SIGNS), optax.hinge_loss),
    "(nn:kl-divergence a b)": ((LOG, SHARES), optax.losses.kl_divergence),
    "(nn:nll a (cast b :i32))": (
        (LOG, LABELS.astype(np.float32)),
        lambda a, b: -jnp.take_along_axis(a, b.astype(jnp.int32)[:, None], 1)[:, 0],
    ),
    "(nn:focal a b)": ((Y, BITS), optax.sigmoid_focal_loss),
    "(nn:focal a b :gamma 1.5 :alpha 0.25)": (
        (Y, BITS),
        lambda a, b: optax.sigmoid_focal_loss(a, b, alpha=0.25, gamma=1.5),
    ),
    "(nn:dice (sigmoid a) b)": ((Y, BITS), lambda a, b: dice(jax.nn.sigmoid(a), b)),
    "(nn:info-nce a b :temperature 0.2)": ((Y, TARGET), info_nce),
    "(nn:info-nce a b :temperature 0.2 :symmetric t)": ((Y, TARGET), both_ways),
    "(nn:triplet a b (- b) :margin 0.5)": (
        (Y, TARGET),
        lambda a, b: optax.losses.triplet_margin_loss(a, b, -b, margin=0.5),
    ),
}


@pytest.mark.parametrize("form", CASES)
def test_value_weight_and_gradient(standard: Any, near: Any, form: str) -> None:
    arrays, losses = CASES[form]
    losses = standardly(losses)
    first, second = map(jnp.asarray, arrays)
    gradient_of = jax.grad(lambda x: losses(x, second).mean())
    wanted, gradient = compiled(lambda x: (losses(x, second), gradient_of(x)))(first)
    function = standard(f"(lambda (a b) {form})")
    mean, weight = function(*arrays)
    near(mean, wanted.mean())
    assert weight == wanted.size
    slope = function.grad(*arrays)
    near(slope[0] if isinstance(slope, tuple) else slope, gradient)
    each = standard(f"(lambda (a b) {form[:-1]} :reduce nil))")(*arrays)
    near(each, wanted)


@pytest.mark.parametrize("name", ["smooth-l1", "hinge", "focal"])
def test_masks_and_weights(standard: Any, near: Any, name: str) -> None:
    mask, weight = RANDOM.random((7, 1)) < 0.6, RANDOM.random((7, 3)).astype(np.float32)
    each = standard(f"(lambda (a b) (nn:{name} a b :reduce nil))")(Y, BITS)
    mean, total = standard(f"(lambda (a b m w) (nn:{name} a b :mask m :weight w))")(
        Y, BITS, mask, weight
    )
    near(mean, (each * mask * weight).sum() / (mask * weight).sum())
    near(total, (mask * weight).sum())


@pytest.mark.parametrize(
    "form",
    ["nn:info-nce a b", "nn:info-nce a b :symmetric t", "nn:dice (sigmoid a) (sigmoid b)"],
)
def test_a_masked_example_is_as_if_it_were_not_there(standard: Any, near: Any, form: str) -> None:
    mask = np.array([1, 0, 1, 1, 0, 1, 1], bool)
    masked = standard(f"(lambda (a b m) ({form} :mask m))")
    plain = standard(f"(lambda (a b) ({form}))")
    for found, wanted in zip(masked(Y, TARGET, mask), plain(Y[mask], TARGET[mask]), strict=True):
        near(found, wanted)
    for found, wanted in zip(
        masked.grad(Y, TARGET, mask), plain.grad(Y[mask], TARGET[mask]), strict=False
    ):
        near(found[mask], wanted)
        assert not found[~mask].any()


# -- cross-entropy in chunks ----------------------------------------------------------------------

X = RANDOM.standard_normal((2, 6, 4)).astype(np.float32)
W = RANDOM.standard_normal((4, 9)).astype(np.float32)
IDS = RANDOM.integers(0, 9, (2, 6)).astype(np.int32)
IDS[0, 1] = -1
OPTIONS = ["", ":ignore-index -1", ":ignore-index -1 :label-smoothing 0.1 :z-loss 0.01"]


@pytest.mark.parametrize("options", OPTIONS)
def test_chunks_change_nothing(standard: Any, near: Any, options: str) -> None:
    ids = IDS if options else np.abs(IDS)
    logits = X @ W
    plain = standard(f"(lambda (x y) (nn:cross-entropy x y {options}))")
    parts = standard(f"(lambda (x y) (nn:cross-entropy x y :chunk 2 {options}))")
    for found, wanted in zip(parts(logits, ids), plain(logits, ids), strict=True):
        near(found, wanted)
    near(parts.grad(logits, ids), plain.grad(logits, ids))


@pytest.mark.parametrize("options", OPTIONS)
def test_logits_need_not_exist(standard: Any, near: Any, options: str) -> None:
    ids = IDS if options else np.abs(IDS)
    plain = standard(f"(lambda (x w y) (nn:cross-entropy (matmul x w) y {options}))")
    parts = standard(f"(lambda (x w y) (nn:linear-cross-entropy x w y :chunk 3 {options}))")
    for found, wanted in zip(parts(X, W, ids), plain(X, W, ids), strict=True):
        near(found, wanted)
    for found, wanted in zip(parts.grad(X, W, ids), plain.grad(X, W, ids), strict=True):
        near(found, wanted)


def test_the_whole_logits_are_in_no_graph_of_a_chunked_loss() -> None:
    """8192 tokens and 131,072 classes: the largest tensor is that of a chunk's logits."""
    text = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train :batch 8
  :source (synthetic 8 (x :f32 (1024 64) (:normal 0 1)) (y :i32 (1024) (:integers 0 131072))))
(defun prepare (batch) (values (field batch :x) (field batch :y)))
(defmodel head () (defparam w (64 131072))
  (forward (x y) (nn:linear-cross-entropy x w y :chunk 32)))
(defun objective (model x y) (funcall model x y))
(defrun head :model (head) :optimizer (optim:sgd) :steps 1)
"""
    graph = sx.compile_text(text).document.graphs["train/main"]

    def largest(graph: Any) -> int:
        inner = [a for node in graph.nodes for a in node.attrs.values() if type(a) is type(graph)]
        own = [v.type.size for node in graph.nodes for v in node.results]
        return max([*own, *map(largest, inner)])

    assert largest(graph) <= 8 * 32 * 131072


def test_a_chunk_must_divide_the_positions(standard: Any) -> None:
    with pytest.raises(sx.CompileError, match="does not divide the 6 positions"):
        standard("(lambda (x y) (nn:cross-entropy x y :chunk 4))")(X, IDS)


# -- ctc ------------------------------------------------------------------------------------------


def ctc_case() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    logits = RANDOM.standard_normal((3, 7, 5)).astype(np.float32)
    labels = np.array([[1, 1, 2], [3, 2, 0], [4, 0, 0]], np.int32)
    return logits, labels, np.arange(7) < np.array([[7], [5], [7]]), labels > 0


@pytest.mark.slow
def test_ctc(standard: Any, near: Any) -> None:
    logits, labels, live, kept = ctc_case()

    def reference(x: Any) -> Any:
        with jax.numpy_dtype_promotion("standard"):
            return optax.ctc_loss(
                x, jnp.asarray(1.0 - live), jnp.asarray(labels), jnp.asarray(1.0 - kept)
            )

    text = "(lambda (x y live kept) (nn:ctc x y :logit-mask live :label-mask kept {}))"
    given = (logits, labels, live, kept)
    gradient_of = jax.grad(lambda x: reference(x).mean())
    wanted, gradient = compiled(lambda x: (reference(x), gradient_of(x)))(logits)
    near(standard(text.format(":reduce nil"))(*given), wanted, 1e-4)
    function = standard(text.format(""))
    assert function(*given)[1] == 3
    near(function.grad(*given), gradient, 1e-4)


# -- metrics --------------------------------------------------------------------------------------

LOGITS = RANDOM.standard_normal((40, 5)).astype(np.float32)
TRUE = RANDOM.integers(0, 5, 40).astype(np.int32)


def test_top_k_accuracy(standard: Any) -> None:
    for k in (1, 3):
        best = np.argsort(-LOGITS, 1)[:, :k]
        share, count = standard(f"(lambda (x y) (nn:top-k-accuracy x y :k {k}))")(LOGITS, TRUE)
        np.testing.assert_allclose(share, (best == TRUE[:, None]).any(1).mean(), rtol=1e-6)
        assert count == 40


def counts() -> np.ndarray:
    found = np.zeros((5, 5))
    np.add.at(found, (TRUE, LOGITS.argmax(1)), 1)
    return found


def test_confusion_and_f1(standard: Any) -> None:
    table = counts()
    found = standard("(lambda (x y) (nn:confusion x y))")(LOGITS, TRUE)
    np.testing.assert_array_equal(found, table)
    each = 2 * np.diag(table) / (table.sum(0) + table.sum(1))
    f1 = standard(
        "(lambda (c) (values (nn:f1 c) (nn:f1 c :average :micro) (nn:f1 c :average nil)))"
    )
    macro, micro, classes = f1(found)
    np.testing.assert_allclose(macro, each.mean(), rtol=1e-5)
    np.testing.assert_allclose(micro, (LOGITS.argmax(1) == TRUE).mean(), rtol=1e-5)
    np.testing.assert_allclose(classes, each, rtol=1e-5)


def test_auroc(standard: Any) -> None:
    """Of scores that share no bin, the share of pairs in the right order."""
    scores = RANDOM.permutation(np.arange(40) / 40 + 0.01).astype(np.float32)
    truth = (RANDOM.random(40) < 0.4).astype(np.int32)
    ones, zeros = scores[truth == 1], scores[truth == 0]
    wanted = (ones[:, None] > zeros).mean()
    made = standard("(lambda (s y) (nn:auroc (nn:score-counts s y)))")
    np.testing.assert_allclose(made(scores, truth), wanted, rtol=1e-5)
    same = np.full(40, 0.5, np.float32)
    np.testing.assert_allclose(made(same, truth), 0.5, rtol=1e-6)


def test_r2(standard: Any) -> None:
    wanted = 1 - ((Y - TARGET) ** 2).sum() / ((TARGET - TARGET.mean()) ** 2).sum()
    found = standard("(lambda (y target) (nn:r2 (nn:r2-sums y target)))")(Y, TARGET)
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_metrics_of_a_whole_pass(tmp_path: Any) -> None:
    """Summed over batches, and worked out once: not the mean of the batches' F1."""
    text = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train :source (synthetic 40 (x :f32 (5) (:normal 0 1)) (y :i32 () (:integers 0 5)))
  :batch 7)
(defun prepare (batch) (values (field batch :x) (field batch :y)))
(defmodel net () (submodel out (nn:linear 5 5)) (forward (x) (out x)))
(defun objective (model x y) (nn:cross-entropy (funcall model x) y))
(defun evaluate (model x y)
  (let ((logits (funcall model x)))
    (metric :f1 (nn:confusion logits y) :reduce :sum :finish #'nn:f1)
    (multiple-value-bind (loss n) (nn:cross-entropy logits y)
      (metric :perplexity loss :weight n :finish #'nn:perplexity)
      (values loss n))))
(defeval all :loader train)
(defrun net :model (net) :optimizer (optim:sgd) :steps 1)
"""
    made = sx.compile_text(text)
    run = made.run(runs=str(tmp_path), device="interp")
    from sexpgpu.loop.data.loader import EvaluationBatches

    stage = made.document.loader("train").stages[0]
    reader = EvaluationBatches(stage, "train", 0, "all", None)
    try:
        records = [reader.read(i) for i in range(len(reader))]
    finally:
        reader.close()
    x, y = (np.concatenate([r[k] for r in records]) for k in ("x", "y"))
    logits = x @ run.parameters["out/w"] + run.parameters["out/b"]
    table = np.zeros((5, 5))
    np.add.at(table, (y, logits.argmax(1)), 1)
    both = table.sum(0) + table.sum(1)
    wanted = np.mean(2 * np.diag(table) / np.where(both == 0, 1, both))
    np.testing.assert_allclose(run.metrics["eval/all/f1"].values, [wanted], rtol=1e-5)
    np.testing.assert_allclose(
        run.metrics["eval/all/perplexity"].values,
        np.exp(run.metrics["eval/all/loss"].values), rtol=1e-5,
    )  # fmt: skip

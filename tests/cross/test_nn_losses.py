"""The losses and metrics of sexpgpu/nn: both values and the gradient, against optax and numpy."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from reference_programs import compiled

import sexpgpu as sx

RANDOM = np.random.default_rng(1)
LOGITS = (3 * RANDOM.standard_normal((4, 6, 5))).astype(np.float32)
LABELS = RANDOM.integers(0, 5, (4, 6)).astype(np.int32)
MASK = RANDOM.random((4, 6)) < 0.6
WEIGHT = RANDOM.random((4, 6)).astype(np.float32)
DEVICES = ("interp", "cpu")


def smoothed(e: float) -> Any:
    onehot = np.eye(5, dtype=np.float32)[LABELS]
    return jnp.asarray(optax.smooth_labels(jnp.asarray(onehot), e))


def agrees(
    standard: Any, near: Any, text: str, arrays: list[Any], losses: Any, weight: Any
) -> None:
    """mean, weight and gradient of `text` are those of the per-element `losses(first, ...)`."""

    def mean(x: Any, *rest: Any) -> Any:
        each = losses(x, *rest)
        w = jnp.broadcast_to(jnp.asarray(weight, jnp.float32), each.shape)
        return (each * w).sum() / w.sum()

    total = np.broadcast_to(weight, np.shape(losses(*map(jnp.asarray, arrays[:2])))).sum()
    value, gradient = compiled(jax.value_and_grad(mean))(*map(jnp.asarray, arrays[:2]))
    for device in DEVICES:
        function = standard(text, device)
        found = function(*arrays)
        near(found[0], value)
        near(found[1], np.float32(total))
        slope = function.grad(*arrays)
        near(slope[0] if isinstance(slope, tuple) else slope, gradient)


def integer_losses(x: Any, y: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(x, y)


def test_cross_entropy(standard: Any, near: Any) -> None:
    agrees(
        standard,
        near,
        "(lambda (x y) (nn:cross-entropy x y))",
        [LOGITS, LABELS],
        integer_losses,
        1.0,
    )


def test_cross_entropy_of_other_integers(standard: Any, near: Any) -> None:
    for dtype in (np.uint8, np.int64):
        found = standard("(lambda (x y) (nn:cross-entropy x y))")(LOGITS, LABELS.astype(dtype))
        near(found[0], integer_losses(jnp.asarray(LOGITS), jnp.asarray(LABELS)).mean())


def test_cross_entropy_with_a_mask_and_weights(standard: Any, near: Any) -> None:
    text = "(lambda (x y m) (nn:cross-entropy x y :mask m))"
    agrees(standard, near, text, [LOGITS, LABELS, MASK], integer_losses, MASK)
    text = "(lambda (x y m) (nn:cross-entropy x y :mask (cast m :i32)))"
    agrees(standard, near, text, [LOGITS, LABELS, MASK], integer_losses, MASK)
    text = "(lambda (x y w) (nn:cross-entropy x y :weight w))"
    agrees(standard, near, text, [LOGITS, LABELS, WEIGHT], integer_losses, WEIGHT)
    text = "(lambda (x y m w) (nn:cross-entropy x y :mask m :weight w))"
    agrees(standard, near, text, [LOGITS, LABELS, MASK, WEIGHT], integer_losses, MASK * WEIGHT)


def test_cross_entropy_ignores_an_index(standard: Any, near: Any) -> None:
    labels = np.where(MASK, LABELS, -100).astype(np.int32)
    text = "(lambda (x y) (nn:cross-entropy x y :ignore-index -100))"
    agrees(
        standard, near, text, [LOGITS, labels],
        lambda x, y: integer_losses(x, jnp.maximum(y, 0)), MASK,
    )  # fmt: skip


def test_cross_entropy_with_label_smoothing(standard: Any, near: Any) -> None:
    text = "(lambda (x y) (nn:cross-entropy x y :label-smoothing 0.1))"
    agrees(
        standard, near, text, [LOGITS, LABELS],
        lambda x, y: optax.softmax_cross_entropy(x, smoothed(0.1)), 1.0,
    )  # fmt: skip


def test_cross_entropy_with_z_loss(standard: Any, near: Any) -> None:
    text = "(lambda (x y) (nn:cross-entropy x y :z-loss 0.01))"
    agrees(
        standard, near, text, [LOGITS, LABELS],
        lambda x, y: integer_losses(x, y) + 0.01 * jax.nn.logsumexp(x, -1) ** 2, 1.0,
    )  # fmt: skip


def test_cross_entropy_of_probabilities(standard: Any, near: Any) -> None:
    soft = np.asarray(jax.nn.softmax(jnp.asarray(RANDOM.standard_normal((4, 6, 5)), jnp.float32)))
    text = "(lambda (x y) (nn:cross-entropy x y))"
    agrees(standard, near, text, [LOGITS, soft], optax.softmax_cross_entropy, 1.0)
    text = "(lambda (x y) (nn:cross-entropy x y :label-smoothing 0.2))"
    agrees(
        standard, near, text, [LOGITS, soft],
        lambda x, y: optax.softmax_cross_entropy(x, optax.smooth_labels(y, 0.2)), 1.0,
    )  # fmt: skip


def test_each_loss_by_itself(standard: Any, near: Any) -> None:
    each = np.asarray(integer_losses(jnp.asarray(LOGITS), jnp.asarray(LABELS)))
    near(standard("(lambda (x y) (nn:cross-entropy x y :reduce nil))")(LOGITS, LABELS), each)
    found = standard("(lambda (x y m w) (nn:cross-entropy x y :mask m :weight w :reduce nil))")
    near(found(LOGITS, LABELS, MASK, WEIGHT), each * MASK * WEIGHT)


@pytest.mark.parametrize("device", DEVICES)
def test_uniform_logits_cost_the_log_of_their_number_under_any_mask(
    standard: Any, device: str
) -> None:
    function = standard("(lambda (x y m) (nn:cross-entropy x y :mask m))", device)
    for mask in (np.ones((4, 6), bool), MASK, np.eye(4, 6, dtype=bool)):
        loss, weight = function(np.zeros((4, 6, 5), np.float32), LABELS, mask)
        np.testing.assert_allclose(loss, np.log(5), rtol=1e-6)
        assert weight == mask.sum()


@pytest.mark.parametrize("device", DEVICES)
def test_nothing_counts(standard: Any, device: str) -> None:
    function = standard("(lambda (x y) (nn:cross-entropy x y :ignore-index -100))", device)
    loss, weight = function(LOGITS, np.full((4, 6), -100, np.int32))
    assert (loss, weight) == (0, 0)
    assert not function.grad(LOGITS, np.full((4, 6), -100, np.int32)).any()


@pytest.mark.parametrize("device", DEVICES)
def test_a_label_out_of_range_is_nan_unless_masked(standard: Any, device: str) -> None:
    labels = LABELS.copy()
    labels[0, 0] = 5
    each = standard("(lambda (x y) (nn:cross-entropy x y :reduce nil))", device)(LOGITS, labels)
    assert np.isnan(each[0, 0])
    assert np.isfinite(each.ravel()[1:]).all()
    mask = np.ones((4, 6), bool)
    mask[0, 0] = False
    function = standard("(lambda (x y m) (nn:cross-entropy x y :mask m))", device)
    assert np.isfinite(function(LOGITS, labels, mask)[0])
    assert np.isfinite(function.grad(LOGITS, labels, mask)).all()


@pytest.mark.parametrize("device", DEVICES)
def test_large_logits_stay_finite(standard: Any, device: str) -> None:
    function = standard("(lambda (x y) (nn:cross-entropy x y))", device)
    x = np.array([[1e4, -1e4, 0.0]], np.float32)
    np.testing.assert_allclose(function(x, np.array([1], np.int32))[0], 2e4)
    np.testing.assert_allclose(function.grad(x, np.array([1], np.int32)), [[1.0, -1.0, 0.0]])


Y = RANDOM.standard_normal((7, 3)).astype(np.float32)
TARGET = (Y + 2 * RANDOM.standard_normal((7, 3))).astype(np.float32)
ROWS = RANDOM.random((7, 1)) < 0.5


def huber(y: Any, t: Any, delta: float) -> Any:
    with jax.numpy_dtype_promotion("standard"):
        return optax.huber_loss(y, t, delta=delta)


ELEMENTWISE = {
    "mse": optax.squared_error,
    "mae": lambda y, t: jnp.abs(y - t),
    "huber": lambda y, t: huber(y, t, 1.0),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_loss(standard: Any, near: Any, name: str) -> None:
    losses = ELEMENTWISE[name]
    for options, weight in (("", 1.0), (":mask m", ROWS)):
        text = f"(lambda (y target m) (nn:{name} y target {options}))"
        agrees(standard, near, text, [Y, TARGET, ROWS], losses, weight)
    near(
        standard(f"(lambda (y target) (nn:{name} y target :reduce nil))")(Y, TARGET),
        losses(jnp.asarray(Y), jnp.asarray(TARGET)),
    )


def test_huber_delta(standard: Any, near: Any) -> None:
    text = "(lambda (y target) (nn:huber y target :delta 0.5))"
    agrees(standard, near, text, [Y, TARGET], lambda y, t: huber(y, t, 0.5), 1.0)


def test_binary_cross_entropy(standard: Any, near: Any) -> None:
    targets = RANDOM.random((7, 3)).astype(np.float32)
    text = "(lambda (x t1) (nn:binary-cross-entropy-with-logits x t1))"
    agrees(standard, near, text, [TARGET, targets], optax.sigmoid_binary_cross_entropy, 1.0)
    found = standard(text)(TARGET, targets > 0.5)
    near(
        found[0],
        optax.sigmoid_binary_cross_entropy(
            jnp.asarray(TARGET), jnp.asarray((targets > 0.5).astype(np.float32))
        ).mean(),
    )
    far = standard(text)(np.array([-1e4, 1e4], np.float32), np.array([1.0, 1.0], np.float32))
    np.testing.assert_allclose(far[0], 5e3)


@pytest.mark.parametrize(
    "text, message",
    [
        ("(lambda (x y) (nn:mse x (at y :all 0)))", r"mse: the prediction is \(7 3\)"),
        ("(lambda (x y) (nn:cross-entropy x (cast (at y :all :new 0) :i32)))", r"integer labels"),
        ("(lambda (x y) (nn:cross-entropy x y :ignore-index 1))", r"not for probabilities"),
        ("(lambda (x y) (nn:cross-entropy (at x :all (slice 0 1)) (at y :all (slice 0 1))))",
         r"with one class the loss is 0"),
        ("(lambda (x y) (nn:cross-entropy (at x :all (slice 0 1)) (cast (at y :all 0) :i32)))",
         r"with one class the loss is 0"),
        ("(lambda (x y) (nn:mse x y :mask (at (> x 0) :all 0)))",
         r":mask \(7\) does not stretch to the losses \(7 3\)"),
        ("(lambda (x y) (nn:cross-entropy x (softmax y) :weight (ones (list 3))))",
         r":weight \(3\) does not stretch to the losses \(7\)"),
        ("(lambda (x y) (nn:cross-entropy x (softmax y) :chunk 7))", r":chunk takes positions"),
        ("(lambda (x y) (nn:cross-entropy x (softmax y) :label-smoothing 1.1))", r"from 0 to 1"),
        ("(lambda (x y) (nn:accuracy x y))", r"accuracy: logits \(7 3\)"),
        ("(lambda (x y) (nn:huber x y :delta 0))", r"delta must be above 0, not 0"),
        ("(lambda (x y) (nn:smooth-l1 x y :beta -1.0))", r"beta must be above 0"),
        ("(lambda (x y) (nn:info-nce x y :temperature 0.0))", r"temperature must be above 0"),
    ],
)  # fmt: skip
def test_mistakes_are_explained(standard: Any, text: str, message: str) -> None:
    with pytest.raises(sx.CompileError, match=message):
        standard(text)(Y, TARGET)


def test_accuracy(standard: Any) -> None:
    right = LOGITS.argmax(-1) == LABELS
    for device in DEVICES:
        share, count = standard("(lambda (x y) (nn:accuracy x y))", device)(LOGITS, LABELS)
        np.testing.assert_allclose(share, right.mean(), rtol=1e-6)
        assert count == 24
        share, count = standard("(lambda (x y m) (nn:accuracy x y :mask m))", device)(
            LOGITS, LABELS, MASK
        )
        np.testing.assert_allclose(share, right[MASK].mean(), rtol=1e-6)
        assert count == MASK.sum()

"""PyTorch as a second referee, where it is installed: convolution, pooling, resampling, unfolding,
order, matrices and losses, with their gradients. Its channels come second, ours last. The lock
leaves it out: the index's build for Linux brings gigabytes of CUDA libraries with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from trace_driving import call, graph_of, world

import sexpgpu.compiler  # noqa: F401
from sexpgpu.ir.graph import Value
from sexpgpu.ir.types import TensorType
from sexpgpu.lisp.session import Session
from sexpgpu.lowering.interp.evaluate import Plan, evaluate
from sexpgpu.passes.autodiff import differentiate, gradients
from sexpgpu.source import Source
from sexpgpu.trace.context import Trace
from sexpgpu.trace.tensor import resolve

torch = pytest.importorskip("torch")
F = torch.nn.functional

RNG = np.random.default_rng(11)


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def ours(
    make: Callable[..., Any], arrays: list[np.ndarray], weights: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray]]:
    """A result, and the gradients of its sum (each element times its weight)."""
    with world() as w:
        given = [w.tensor(x) for x in arrays]
        y: Value = resolve(make(*given)).value
        b = w.trace.builder
        wrt = [t.value for t in given]
        grads = gradients(b, [(y, b.input("seed", y.type))], wrt)
        outputs = {"y": y, **{f"d{i}": g for i, g in enumerate(grads) if g is not None}}
        results = evaluate(Plan(b.finish("g", outputs)), {**w.given, "seed": weights})
        return results["y"], [results[f"d{i}"] for i in range(len(given))]


def agree(make: Callable[..., Any], theirs: Callable[..., Any], arrays: list[np.ndarray]) -> None:
    """Values and gradients, in f64."""
    leaves = [torch.tensor(x, requires_grad=True) for x in arrays]
    result = theirs(*leaves)
    weights = np.random.default_rng(1).normal(size=result.shape)
    got, grads = ours(make, arrays, weights)
    np.testing.assert_allclose(got, result.detach().numpy(), rtol=1e-9, atol=1e-10)
    (result * torch.tensor(weights)).sum().backward()
    for leaf, grad in zip(leaves, grads, strict=True):
        np.testing.assert_allclose(grad, leaf.grad.numpy(), rtol=1e-8, atol=1e-9)


CONVS = [
    ((2, 9, 4), (3, 4, 6), {}, {}),
    ((2, 9, 4), (3, 2, 6), {"stride": 2, "padding": 1, "groups": 2},
     {"stride": 2, "padding": 1, "groups": 2}),
    ((2, 9, 3), (3, 3, 5), {"padding": ":same", "dilation": 2},
     {"padding": "same", "dilation": 2}),
    ((2, 7, 8, 4), (3, 2, 2, 6), {"stride": [2, 1], "padding": [1, 0], "groups": 2},
     {"stride": (2, 1), "padding": (1, 0), "groups": 2}),
    ((2, 7, 8, 4), (3, 3, 1, 4), {"padding": 1, "groups": 4}, {"padding": 1, "groups": 4}),
    ((1, 5, 4, 6, 2), (2, 3, 2, 2, 3), {"stride": 2, "padding": 1, "dilation": [2, 1, 1]},
     {"stride": 2, "padding": 1, "dilation": (2, 1, 1)}),
]  # fmt: skip


@pytest.mark.parametrize("x, w, keys, theirs", CONVS)
def test_convolution(x: tuple, w: tuple, keys: dict, theirs: dict) -> None:
    count = len(x) - 2
    function = [F.conv1d, F.conv2d, F.conv3d][count - 1]
    order = (count + 1, count, *range(count))
    a, k = draw(*x), draw(*w)

    def convolved(a: Any, k: Any) -> Any:
        return function(a, k.permute(order), **theirs).movedim(1, -1)

    agree(
        lambda a, k: call("conv", a, k, **keys),
        lambda a, k: convolved(a.movedim(-1, 1), k),
        [a, k],
    )


TRANSPOSED = [
    ((2, 5, 4), (3, 4, 6), {"stride": 2}, {"stride": 2}),
    ((2, 5, 4), (3, 2, 6), {"stride": 2, "padding": 1, "groups": 2},
     {"stride": 2, "padding": 1, "groups": 2}),
    ((2, 4, 5, 4), (3, 2, 2, 6), {"stride": [2, 3], "groups": 2, "dilation": [1, 2]},
     {"stride": (2, 3), "groups": 2, "dilation": (1, 2)}),
    ((1, 3, 4, 3, 2), (2, 3, 2, 2, 3), {"stride": 2, "padding": [0, 1, 0]},
     {"stride": 2, "padding": (0, 1, 0)}),
]  # fmt: skip


@pytest.mark.parametrize("x, w, keys, theirs", TRANSPOSED)
def test_transposed_convolution(x: tuple, w: tuple, keys: dict, theirs: dict) -> None:
    """Ours holds the filter [spatial, C/groups, O]; torch's [C, O/groups, spatial]."""
    count = len(x) - 2
    function = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d][count - 1]
    groups = theirs.get("groups", 1)

    def convolved(a: Any, k: Any) -> Any:
        spatial, (inner, out) = k.shape[:-2], k.shape[-2:]
        split = k.reshape(*spatial, inner, groups, out // groups)
        order = (count + 1, count, count + 2, *range(count))
        filter = split.permute(order).reshape(groups * inner, out // groups, *spatial)
        return function(a.movedim(-1, 1), filter, **theirs).movedim(1, -1)

    agree(
        lambda a, k: call("conv", a, k, transposed=True, **keys),
        convolved,
        [draw(*x), draw(*w)],
    )


POOLS = [
    ((2, 9, 3), 3, {}, {}),
    ((2, 9, 3), 3, {"stride": 2, "padding": 1}, {"stride": 2, "padding": 1}),
    ((2, 7, 8, 3), [2, 3], {"stride": [2, 1], "padding": [1, 1]},
     {"stride": (2, 1), "padding": (1, 1)}),
    ((1, 5, 4, 6, 2), 2, {"stride": 1}, {"stride": 1}),
]  # fmt: skip


@pytest.mark.parametrize("x, size, keys, theirs", POOLS)
def test_pooling(x: tuple, size: Any, keys: dict, theirs: dict) -> None:
    count = len(x) - 2
    window = tuple(size) if isinstance(size, list) else size
    maxima = [F.max_pool1d, F.max_pool2d, F.max_pool3d][count - 1]
    means = [F.avg_pool1d, F.avg_pool2d, F.avg_pool3d][count - 1]
    a = draw(*x)
    agree(
        lambda a: call("max-pool", a, size, **keys),
        lambda a: maxima(a.movedim(-1, 1), window, **theirs).movedim(1, -1),
        [a],
    )
    for counts in (True, False):
        agree(
            lambda a, counts=counts: call("avg-pool", a, size, count_pads=counts, **keys),
            lambda a, counts=counts: means(
                a.movedim(-1, 1), window, count_include_pad=counts, **theirs
            ).movedim(1, -1),
            [a],
        )


@pytest.mark.parametrize("new", [(4, 5), (11, 14), (6, 3), (1, 1), (7, 7)])
@pytest.mark.parametrize("method", ["linear", "cubic", "nearest"])
@pytest.mark.parametrize("how", ["areas", "points", "smooth"])
def test_resampling(new: tuple, method: str, how: str) -> None:
    if method == "nearest" and how != "areas":
        return
    mode = {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest-exact"}[method]
    theirs: dict[str, Any] = {} if method == "nearest" else {"align_corners": how == "points"}
    keys = {}
    if how == "smooth":
        theirs["antialias"] = keys["antialias"] = True
    if how == "points":
        keys["align-corners"] = True
    agree(
        lambda a: call("resize", a, list(new), method=f":{method}", **keys),
        lambda a: F.interpolate(a.movedim(-1, 1), size=new, mode=mode, **theirs).movedim(1, -1),
        [draw(2, 7, 6, 3)],
    )


def test_unfolding() -> None:
    """torch's rows have the channel slowest."""
    a = draw(2, 6, 7, 3)

    def unfolded(a: Any) -> Any:
        y = F.unfold(a.movedim(-1, 1), (2, 3), stride=(2, 1), padding=(1, 0))
        y = y.reshape(2, 3, 2, 3, 4, 5)  # B, C, the window's, the places
        return y.permute(0, 4, 5, 2, 3, 1).reshape(2, 4, 5, 18)

    agree(
        lambda a: call("unfold", a, [2, 3], stride=[2, 1], padding=[1, 0]),
        unfolded,
        [a],
    )


def test_order() -> None:
    a = draw(3, 6, 4)
    agree(lambda a: call("tensor-sort", a, axis=1), lambda a: a.sort(1).values, [a])
    agree(
        lambda a: call("tensor-sort", a, axis=0, descending=True),
        lambda a: a.sort(0, descending=True).values,
        [a],
    )
    agree(lambda a: call("top-k", a, 2, axis=1)[0], lambda a: a.topk(2, 1).values, [a])
    agree(
        lambda a: call("top-k", a, 3, smallest=True)[0],
        lambda a: a.topk(3, largest=False).values,
        [a],
    )


@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (5, 3), (3, 5)])
def test_matrices(shape: tuple) -> None:
    """Values that do not depend on the signs of factors."""
    a = draw(*shape)
    agree(lambda a: call("svd", a)[1], torch.linalg.svdvals, [a])
    reduced = lambda a: torch.linalg.qr(a)[1].abs()  # noqa: E731
    if shape[-1] <= shape[-2]:
        agree(lambda a: call("abs", call("qr", a)[1]), reduced, [a])
    if shape[-1] != shape[-2]:
        return
    b = draw(*shape[:-1], 2)
    agree(lambda a: call("det", a), torch.linalg.det, [a])
    agree(lambda a: call("slogdet", a)[1], lambda a: torch.linalg.slogdet(a)[1], [a])
    agree(lambda a: call("inverse", a), torch.linalg.inv, [a])
    agree(lambda a, b: call("solve", a, b), torch.linalg.solve, [a, b])
    agree(lambda a: call("eigh", a)[0], lambda a: torch.linalg.eigvalsh((a + a.mT) / 2), [a])
    agree(
        lambda a: call("cholesky", call("+", call("matmul", a, call("transpose", a)), 1e-3)),
        lambda a: torch.linalg.cholesky(a @ a.mT + 1e-3),
        [a],
    )
    triangle = np.tril(a) + 3 * np.eye(shape[-1])
    agree(
        lambda a, b: call("triangular-solve", a, b),
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=False),
        [triangle, b],
    )


LABELS = np.array([0, 2, -1, 1, 2], np.int32)
LOSSES = {
    "(nn:mse x y)": lambda x, y, ids: F.mse_loss(x, y),
    "(nn:mae x y)": lambda x, y, ids: F.l1_loss(x, y),
    "(nn:huber x y :delta 0.7)": lambda x, y, ids: F.huber_loss(x, y, delta=0.7),
    "(nn:smooth-l1 x y :beta 0.5)": lambda x, y, ids: F.smooth_l1_loss(x, y, beta=0.5),
    "(nn:binary-cross-entropy-with-logits x (sigmoid y))": lambda x, y, ids: (
        F.binary_cross_entropy_with_logits(x, torch.sigmoid(y))
    ),
    "(nn:kl-divergence (log-softmax x) (softmax y))": lambda x, y, ids: F.kl_div(
        F.log_softmax(x, -1), F.softmax(y, -1), reduction="batchmean"
    ),
    "(nn:cross-entropy x (softmax y) :label-smoothing 0.1)": lambda x, y, ids: F.cross_entropy(
        x, F.softmax(y, -1), label_smoothing=0.1
    ),
    "(nn:cross-entropy x ids :ignore-index -1 :label-smoothing 0.2)": lambda x, y, ids: (
        F.cross_entropy(x, ids, ignore_index=-1, label_smoothing=0.2)
    ),
}


@pytest.mark.parametrize("form", LOSSES)
def test_losses(form: str) -> None:
    session = Session()
    text = f'(require "sexpgpu/nn" :as nn)\n(defun f (x y ids) (values {form}))'
    function = session.function(session.load(Source("a.sx", text), "a"), "f")
    assert function is not None
    arrays = {"x": draw(5, 3).astype("f"), "y": draw(5, 3).astype("f"), "ids": LABELS}
    types = {"x": ("f32", (5, 3)), "y": ("f32", (5, 3)), "ids": ("i32", (5,))}
    made = {name: TensorType(shape, dtype) for name, (dtype, shape) in types.items()}
    graph = graph_of(session, function, made, Trace("g"))
    loss = next(iter(graph.outputs))
    whole = differentiate(graph, loss, {"dx": "x"})
    got = evaluate(Plan(whole), arrays)
    x, y = [torch.tensor(arrays[name], requires_grad=True) for name in ("x", "y")]
    want = LOSSES[form](x, y, torch.tensor(LABELS.astype(np.int64)))
    want.backward()
    np.testing.assert_allclose(got[loss], want.detach().numpy(), rtol=1e-5)
    np.testing.assert_allclose(got["dx"], x.grad.numpy(), rtol=1e-4, atol=1e-6)

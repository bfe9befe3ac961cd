"""The normalisations of sexpgpu/nn against PyTorch's, where it is installed: outputs, and gradients
of the input, the scale and the bias. Its channels come second, ours last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

Values = dict[str, Any]


def channels_second(norm: Callable[[Any, Values], Any]) -> Callable[[Any, Values], Any]:
    return lambda x, p: norm(x.movedim(-1, 1), p).movedim(1, -1)


NORMS: dict[str, tuple[tuple[int, ...], Callable[[Any, Values], Any]]] = {
    "(nn:layer-norm 6)": (
        (4, 3, 6),
        lambda x, p: F.layer_norm(x, (6,), p["scale"], p["bias"], 1e-5),
    ),
    "(nn:layer-norm 6 :bias nil :eps 1e-3)": (
        (4, 6),
        lambda x, p: F.layer_norm(x, (6,), p["scale"], None, 1e-3),
    ),
    "(nn:rms-norm 6)": ((4, 3, 6), lambda x, p: F.rms_norm(x, (6,), p["scale"], 1e-6)),
    "(nn:group-norm 3 6)": (
        (2, 5, 4, 6),
        channels_second(lambda x, p: F.group_norm(x, 3, p["scale"], p["bias"], 1e-5)),
    ),
    "(nn:group-norm 1 6 :bias nil)": (
        (2, 5, 6),
        channels_second(lambda x, p: F.group_norm(x, 1, p["scale"], None, 1e-5)),
    ),
    "(nn:group-norm 6 6)": (
        (2, 3, 4, 2, 6),
        channels_second(
            lambda x, p: F.instance_norm(x, weight=p["scale"], bias=p["bias"], eps=1e-5)
        ),
    ),
}


def compared(layer: Any, norm: Callable[[Any, Values], Any], x: np.ndarray, near: Any) -> Any:
    """torch's output for the layer's parameters; the gradients of both are held together."""
    leaves = {k: torch.tensor(v, requires_grad=True) for k, v in layer.parameters.items()}
    below = {k.removeprefix("layer/"): v for k, v in leaves.items()}
    y = norm(torch.tensor(x) + below.pop("shift"), below)
    places = torch.arange(y.numel(), dtype=torch.float32).reshape(y.shape)
    (y * torch.cos(places)).mean().backward()
    found = layer.gradients("interp")
    assert set(found) == set(leaves)
    for path, gradient in found.items():
        near(gradient, leaves[path].grad.numpy(), 1e-5, path)
    return y.detach().numpy()


@pytest.mark.parametrize("layer", NORMS)
def test_norms(layer: str, probe: Any, near: Any) -> None:
    shape, norm = NORMS[layer]
    x = np.random.default_rng(5).normal(size=shape).astype(np.float32)
    made = probe(layer, {"x": x})
    near(made.output("interp"), compared(made, norm, x, near), 1e-5, "output")


def test_batch_norm(probe: Any, near: Any) -> None:
    """In training by the batch's statistics, which torch keeps with the unbiased variance; in
    evaluation by the running ones."""
    x = np.random.default_rng(5).normal(1.0, 2.0, (4, 5, 6)).astype(np.float32)
    made = probe("(nn:batch-norm 6 :momentum 0.8)", {"x": x})
    running = np.random.default_rng(6).uniform(0.5, 1.5, (2, 6)).astype(np.float32)
    made.buffers = {"layer/mean": running[0], "layer/var": running[1]}
    mean, var = torch.tensor(running[0]), torch.tensor(running[1])

    def norm(x: Any, p: Values) -> Any:
        y = x.movedim(-1, 1)
        return F.batch_norm(y, mean, var, p["scale"], p["bias"], True, 0.2, 1e-5).movedim(1, -1)

    compared(made, norm, x, near)
    new = made.train("interp")
    count = x.size // x.shape[-1]
    near(new["buffer/layer/mean"], mean.numpy(), 1e-5, "running mean")
    unbiased = (new["buffer/layer/var"] - 0.8 * running[1]) * (count / (count - 1))
    near(unbiased, var.numpy() - 0.8 * running[1], 1e-5, "running variance")
    evaluated = made.output("interp")
    p = {k.removeprefix("layer/"): torch.tensor(v) for k, v in made.parameters.items()}
    shifted = (torch.tensor(x) + p["shift"]).movedim(-1, 1)
    wanted = F.batch_norm(
        shifted, torch.tensor(running[0]), torch.tensor(running[1]), p["scale"], p["bias"]
    )
    near(evaluated, wanted.movedim(1, -1).numpy(), 1e-5, "output")

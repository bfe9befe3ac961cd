"""The examples compile without a warning, give the same numbers on both backends, and learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sexpgpu as sx

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("*.sx"))

# fmt: off
SMALL: dict[str, dict[str, Any]] = {
    "digits": {"width": 16, "steps": 6},
    "digits-batchnorm": {"channels": 2, "blocks": 1, "steps": 6},
    "digits-conv": {"channels": 2, "steps": 6},
    "digits-diffusion": {"hidden": 8, "times": 5, "steps": 6},
    "digits-gan": {"latent": 3, "hidden": 8, "steps": 6},
    "digits-lora": {"update-rank": 2, "steps": 6},
    "digits-simclr": {"channels": 2, "compared": 4, "steps": 6},
    "digits-vae": {"latent": 2, "hidden": 8, "warm": 3, "steps": 6},
    "digits-vit": {"layers": 1, "heads": 2, "width": 8, "steps": 6},
    "gpt-char": {"layers": 1, "heads": 2, "width": 8, "context": 8, "batch": 2, "steps": 6},
    "gpt-rope": {
        "layers": 1, "heads": 2, "kv-heads": 1, "width": 12, "context": 8, "batch": 2, "steps": 6,
    },
    "gru-char": {"width": 4, "context": 6, "batch": 2, "steps": 6},
    "line": {},
    "moe-char": {
        "experts": 2, "layers": 1, "heads": 2, "width": 8, "context": 6, "batch": 2, "steps": 6,
    },
    "maml": {"width": 8, "tasks": 4, "points": 3, "steps": 6},
}
# fmt: on


def test_all_are_here() -> None:
    assert {path.stem for path in FILES} == set(SMALL)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_compiles_without_a_warning(path: Path) -> None:
    assert sx.check(path) == []


QUICK = ("digits", "line")


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=() if p.stem in QUICK else pytest.mark.slow) for p in FILES],
    ids=lambda p: p.stem,
)
def test_both_backends_agree(path: Path, tmp_path: Path) -> None:
    """Six updates, dropout included: the losses and the parameters."""
    experiment = sx.compile(path, knobs=SMALL[path.stem])
    runs = [
        experiment.run(steps=6, runs=str(tmp_path / device), device=device)
        for device in ("cpu", "interp")
    ]
    a, b = (run.metrics["train/loss"].values for run in runs)
    assert len(a) > 0
    np.testing.assert_allclose(a, b, rtol=1e-4)
    for name, value in runs[0].parameters.items():
        np.testing.assert_allclose(value, runs[1].parameters[name], rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_both_backends_agree_in_bf16(tmp_path: Path) -> None:
    """A rounding of the other kind here and there, but the same computation."""
    experiment = sx.compile(
        EXAMPLES / "gpt-char.sx", knobs={**SMALL["gpt-char"], "precision": ":bf16", "drop": 0.0}
    )
    a, b = (
        experiment.run(runs=str(tmp_path / device), device=device).metrics["eval/valid/loss"].values
        for device in ("cpu", "interp")
    )
    np.testing.assert_allclose(a, b, rtol=2e-3)


def test_line_is_found(tmp_path: Path) -> None:
    run = sx.compile(EXAMPLES / "line.sx").run(runs=str(tmp_path), device="interp")
    np.testing.assert_allclose(run.parameters["fit/w"], [[2.0]], atol=1e-2)
    np.testing.assert_allclose(run.parameters["fit/b"], [1.0], atol=1e-2)
    np.testing.assert_allclose(run.predict(x=[[10.0]]), [[21.0]], atol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("name, accuracy", [("digits", 0.97), ("digits-conv", 0.975)])
def test_digits_are_learnt(name: str, accuracy: float, tmp_path: Path) -> None:
    run = sx.compile(EXAMPLES / f"{name}.sx").run(runs=str(tmp_path), device="cpu")
    assert run.metrics["eval/test/accuracy"].values[-1] >= accuracy


@pytest.mark.slow
def test_gpt_learns_some_english(tmp_path: Path) -> None:
    experiment = sx.compile(EXAMPLES / "gpt-char.sx", variants=["tiny"], knobs={"steps": 100})
    run = experiment.run(runs=str(tmp_path), device="cpu")
    loss = run.metrics["eval/valid/loss"].values[-1]
    assert loss < 2.9, "a model that knows only how often each byte occurs has about 3.1"

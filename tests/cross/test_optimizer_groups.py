"""Groups, wrappers and averages in whole runs, against the same steps written in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import sexpgpu as sx
from sexpgpu.explain.summary import parameters
from sexpgpu.loop.weights import export

LINE = (Path(__file__).parents[2] / "examples" / "line.sx").read_text()
X = np.array([[0.0], [1.0], [2.0]], np.float32)
Y = np.array([[1.0], [3.0], [5.0]], np.float32)


def experiment(optimizer: str, steps: int = 12, more: str = "", passes: str = "") -> sx.Experiment:
    text = LINE.replace(":optimizer (optim:sgd :lr 0.1) :steps 200", f":optimizer {optimizer} "
                        f":steps {steps} :log-every 1 {more}")  # fmt: skip
    return sx.compile_text(text.replace("(defrun", passes + "(defrun"))


def start(made: sx.Experiment) -> dict[str, np.ndarray]:
    from sexpgpu.loop.initial import initial_state

    return {k.removeprefix("fit/"): v for k, v in initial_state(made.document)["param"].items()}


def gradient(p: dict[str, Any]) -> dict[str, Any]:
    error = X @ p["w"] + p["b"] - Y
    return {"w": 2 * X.T @ error / 3, "b": 2 * error.sum(0) / 3}


def loss(p: dict[str, Any]) -> float:
    return float(np.mean((X @ p["w"] + p["b"] - Y) ** 2))


def trained(made: sx.Experiment, folder: Path, **options: Any) -> dict[str, np.ndarray]:
    run = made.run(runs=str(folder), device=options.pop("device", "interp"), **options)
    return {k.removeprefix("fit/"): v for k, v in run.parameters.items()}


class Adam:
    """Adam with a count of its own, as the paper has it."""

    def __init__(self, lr: float) -> None:
        self.lr, self.t, self.m, self.v = lr, 0, 0.0, 0.0

    def __call__(self, p: Any, g: Any) -> Any:
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * g
        self.v = 0.999 * self.v + 0.001 * g * g
        m, v = self.m / (1 - 0.9**self.t), self.v / (1 - 0.999**self.t)
        return p - self.lr * m / (np.sqrt(v) + 1e-8)


@pytest.mark.parametrize("device", ["interp", "cpu"])
def test_a_group_of_every_third_step_counts_its_own_updates(device: str, tmp_path: Path) -> None:
    made = experiment(
        "(optimizer-groups (optim:sgd :lr 0.05) "
        '(group biases "**/b" :optimizer (optim:adam :lr 0.1) :every 3))'
    )
    p, adam = start(made), Adam(0.1)
    for step in range(12):
        g = gradient(p)
        p = {"w": p["w"] - 0.05 * g["w"], "b": adam(p["b"], g["b"]) if step % 3 == 0 else p["b"]}
    found = trained(made, tmp_path, device=device)
    for name in p:
        np.testing.assert_allclose(found[name], p[name], rtol=2e-5)


def test_the_count_of_a_group_goes_on_after_a_resume(tmp_path: Path) -> None:
    made = experiment(
        "(optimizer-groups (optim:adam :lr 0.05) (group biases (rank 1) :every 2))",
        more=":checkpoint (:every 5)",
    )
    whole = trained(made, tmp_path / "whole")
    trained(made, tmp_path / "cut", slug="run", steps=5)
    rest = trained(made, tmp_path / "cut", slug="run", steps=12, resume="latest", allow_change=True)
    for name, array in whole.items():
        np.testing.assert_array_equal(rest[name], array)


def test_a_schedule_may_read_the_updates_of_its_group(tmp_path: Path) -> None:
    made = experiment(
        "(optimizer-groups (optim:sgd :lr 0.05) (group biases (rank 1) :every 3 :lr "
        "(lambda (step) (/ 0.1 (+ 1 (ctx :updates))))))"
    )
    p = start(made)
    for step in range(12):
        g = gradient(p)
        rate = 0.1 / (1 + step // 3) if step % 3 == 0 else 0.0
        p = {"w": p["w"] - 0.05 * g["w"], "b": p["b"] - rate * g["b"]}
    found = trained(made, tmp_path)
    for name in p:
        np.testing.assert_allclose(found[name], p[name], rtol=2e-5)


@pytest.mark.parametrize("device", ["interp", "cpu"])
def test_each_group_is_clipped_by_its_own_norm_after_the_global_one(
    device: str, tmp_path: Path
) -> None:
    made = experiment(
        "(optimizer-groups (optim:sgd :lr 0.1) (group biases (rank 1) :clip-norm 0.2))",
        more=":clip-norm 2.0",
    )
    p, norms = start(made), []
    for _ in range(12):
        g = gradient(p)
        size = np.sqrt(sum((v**2).sum() for v in g.values()))
        g = {k: v * min(1.0, 2.0 / size) for k, v in g.items()}
        own = np.sqrt((g["b"] ** 2).sum())
        norms.append((size, own))
        g["b"] = g["b"] * min(1.0, 0.2 / own)
        p = {k: p[k] - 0.1 * g[k] for k in p}
    run = made.run(runs=str(tmp_path), device=device)
    for name in p:
        np.testing.assert_allclose(run.parameters[f"fit/{name}"], p[name], rtol=2e-5)
    np.testing.assert_allclose(
        run.metrics["train/grad-norm"].values, [n for n, _ in norms], rtol=1e-4
    )
    np.testing.assert_allclose(
        run.metrics["optim/biases/grad-norm"].values, [n for _, n in norms], rtol=1e-4
    )


def test_sums_over_the_parameters_of_a_group(tmp_path: Path) -> None:
    """The step is divided by 1 + the sum of all |p|, then by 1 + the sum of what that gives."""
    norming = """
(defoptimizer normed (&key (lr 0.1))
  (optimizer-update (p g)
    (let* ((weights (global-sum (sum (abs p))))
           (scaled (/ g (+ 1 weights)))
           (steps (global-sum (sum (square scaled)))))
      (- p (* lr (/ scaled (+ 1 steps)) (min 1.0 (global-grad-norm)))))))
"""
    made = experiment("(normed)", more=":clip-norm 1.5", passes=norming)
    p = start(made)
    for _ in range(12):
        g = gradient(p)
        size = np.sqrt(sum((v**2).sum() for v in g.values()))
        g = {k: v * min(1.0, 1.5 / size) for k, v in g.items()}
        weights = sum(np.abs(v).sum() for v in p.values())
        scaled = {k: v / (1 + weights) for k, v in g.items()}
        steps = sum((v**2).sum() for v in scaled.values())
        p = {k: p[k] - 0.1 * scaled[k] / (1 + steps) * min(1.0, size, 1.5) for k in p}
    found = trained(made, tmp_path)
    for name in p:
        np.testing.assert_allclose(found[name], p[name], rtol=2e-5)


@pytest.mark.slow
def test_prodigy_in_a_run_shares_its_distance(tmp_path: Path) -> None:
    made = experiment("(optim:prodigy :d0 1e-3)", steps=30)
    p = {k: jnp.asarray(v) for k, v in start(made).items()}
    with jax.numpy_dtype_promotion("standard"):
        twin = optax.contrib.prodigy(estim_lr0=1e-3)
        state = twin.init(p)
        for _ in range(30):
            g = {k: jnp.asarray(v) for k, v in gradient(p).items()}
            change, state = twin.update(g, state, p)
            p = optax.apply_updates(p, change)
    found = trained(made, tmp_path)
    for name in p:
        np.testing.assert_allclose(found[name], p[name], rtol=1e-4)


VALID = "(defeval seen :loader train :every 4) (defeval raw :loader train :every 4 :weights :raw)\n"


@pytest.mark.parametrize("device", ["interp", "cpu"])
def test_evaluations_and_predictions_use_the_average(device: str, tmp_path: Path) -> None:
    made = experiment(
        "(optim:ema (optim:sgd :lr 0.05) :decay 0.8)", passes=VALID,
        more=":checkpoint (:every 6)",
    )  # fmt: skip
    p = start(made)
    average, weight = dict.fromkeys(p, 0.0), 0.0
    raw, seen = [], []
    for step in range(12):
        p = {k: p[k] - 0.05 * g for k, g in gradient(p).items()}
        average = {k: 0.8 * average[k] + 0.2 * p[k] for k in p}
        weight = 0.8 * weight + 0.2
        if step % 4 == 3:
            raw.append(loss(p))
            seen.append(loss({k: v / weight for k, v in average.items()}))
    run = made.run(runs=str(tmp_path), device=device)
    np.testing.assert_allclose(run.metrics["eval/raw/loss"].values, raw, rtol=1e-4)
    np.testing.assert_allclose(run.metrics["eval/seen/loss"].values, seen, rtol=1e-4)
    for name in p:
        np.testing.assert_allclose(run.parameters[f"fit/{name}"], p[name], rtol=2e-5)
    line = {k: v / weight for k, v in average.items()}
    np.testing.assert_allclose(run.predict(x=[[3.0]]), 3 * line["w"] + line["b"], rtol=1e-4)
    for weights, wanted in (("averaged", line), ("raw", p)):
        target = str(tmp_path / f"{weights}.npz")
        export(f"{run.directory}/checkpoints/12", target, weights=weights)
        found = np.load(target)
        for name in p:
            np.testing.assert_allclose(found[f"fit/{name}"], wanted[name], rtol=1e-4)


def test_a_resume_goes_on_with_weights_and_averages(tmp_path: Path) -> None:
    made = experiment(
        "(optim:schedule-free-adamw :lr 0.05)", passes=VALID, more=":checkpoint (:every 5)"
    )
    whole = made.run(runs=str(tmp_path / "whole"), device="interp")
    made.run(runs=str(tmp_path / "cut"), device="interp", slug="run", steps=5)
    rest = made.run(runs=str(tmp_path / "cut"), device="interp", slug="run", steps=12,
                    resume="latest", allow_change=True)  # fmt: skip
    for name, array in whole.parameters.items():
        np.testing.assert_array_equal(rest.parameters[name], array)
    assert rest.metrics["eval/seen/loss"].values[-1] == whole.metrics["eval/seen/loss"].values[-1]
    np.testing.assert_array_equal(rest.predict(x=[[3.0]]), whole.predict(x=[[3.0]]))


def test_a_run_without_updates_evaluates_its_parameters(tmp_path: Path) -> None:
    """Averages that have taken nothing in yet are the parameters themselves."""
    for optimizer in (
        "(optim:ema (optim:sgd))", "(optim:lookahead (optim:sgd))", "(optim:schedule-free-sgd)",
        "(optim:schedule-free-adamw)",
    ):  # fmt: skip
        made = experiment(optimizer, steps=1, passes="(defeval v :loader train :at-start t)\n")
        run = made.run(runs=str(tmp_path / optimizer), device="interp")
        np.testing.assert_allclose(
            run.metrics["eval/v/loss"].values[0], loss(start(made)), rtol=1e-5
        )


def test_lookahead_meets_every_third_step(tmp_path: Path) -> None:
    made = experiment(
        "(optim:lookahead (optim:adam :lr 0.1) :period 3 :rate 0.4)",
        passes="(defeval v :loader train)\n",
    )
    p = start(made)
    slow, fast = dict(p), {k: Adam(0.1) for k in p}
    for step in range(12):
        g = gradient(p)
        p = {k: fast[k](p[k], g[k]) for k in p}
        if step % 3 == 2:
            slow = {k: slow[k] + 0.4 * (p[k] - slow[k]) for k in p}
            p = dict(slow)
    run = made.run(runs=str(tmp_path), device="interp")
    for name in p:
        np.testing.assert_allclose(run.parameters[f"fit/{name}"], p[name], rtol=2e-5)
    np.testing.assert_allclose(run.metrics["eval/v/loss"].values, [loss(slow)], rtol=1e-4)


def test_cautious_steps_only_downhill(tmp_path: Path) -> None:
    made = experiment("(optim:cautious (optim:sgd :lr 0.1 :momentum 0.9))", steps=40)
    p = start(made)
    v = dict.fromkeys(p, 0.0)
    for _ in range(40):
        g = gradient(p)
        v = {k: 0.9 * v[k] + g[k] for k in p}
        for k in p:
            down = (v[k] * g[k] > 0).astype(np.float32)
            p[k] = p[k] - 0.1 * v[k] * down / max(down.mean(), 1e-3)
    found = trained(made, tmp_path)
    for name in p:
        np.testing.assert_allclose(found[name], p[name], rtol=1e-3)


def test_clip_by_norm_takes_each_parameter_by_itself(tmp_path: Path) -> None:
    made = experiment("(optim:clip-by-norm (optim:sgd :lr 0.1) :limit 0.5)")
    p = start(made)
    for _ in range(12):
        p = {
            k: p[k] - 0.1 * g * min(1.0, 0.5 / max(float(np.sqrt((g**2).sum())), 1e-30))
            for k, g in gradient(p).items()
        }
    found = trained(made, tmp_path)
    for name in p:
        np.testing.assert_allclose(found[name], p[name], rtol=2e-5)


def test_a_wrapper_around_groups_wraps_each() -> None:
    made = experiment(
        "(optim:ema (optimizer-groups (optim:adam :lr (optim:linear 0.1 0.2 10)) "
        "(group biases (rank 1) :optimizer (optim:sgd :lr 0.3) :every 2)) :decay 0.9)"
    )
    groups = {g.name: g for g in made.document.groups}
    assert groups["default"].optimizer == "ema of adam"
    assert groups["default"].schedules == ["inner/lr"]
    assert groups["biases"].optimizer == "ema of sgd"
    assert groups["biases"].constants["inner/lr"] == 0.3
    assert groups["biases"].every == 2
    assert all(u.average is not None for u in made.document.updates.values())


def test_explain_tells_weight_decay_from_the_decay_of_an_average() -> None:
    for optimizer, wanted in (
        ("(optim:ema (optim:adamw :decay 0.03) :decay 0.9)", 0.03),
        ("(optim:ema (optim:lookahead (optim:lion :decay 0.2)) :decay 0.9)", 0.2),
        ("(optim:ema (optim:adam) :decay 0.9)", 0.0),
        ("(optim:adamw :decay 0.05)", 0.05),
    ):
        found = {p["path"]: p["decay"] for p in parameters(experiment(optimizer).document)}
        assert found == {"fit/w": wanted, "fit/b": 0.0}, optimizer


def test_a_group_reaches_what_a_wrapper_wraps() -> None:
    made = experiment(
        "(optimizer-groups (optim:lookahead (optim:adamw :lr 0.1)) (group biases (rank 1) :lr 0.3))"
    )
    groups = {g.name: g for g in made.document.groups}
    assert groups["biases"].constants["inner/lr"] == 0.3
    assert groups["default"].constants["inner/lr"] == 0.1


@pytest.mark.parametrize(
    "optimizer, code, words",
    [
        ("(optimizer-groups (optim:sgd) (group a (rank 1) :every 0))", "E-OPT-003", "positive"),
        ("(optimizer-groups (optim:sgd) (group a (rank 1) :clip-norm 0))", "E-OPT-003", "positive"),
        ("(optimizer-groups (optim:sgd) (group a (rank 1) :evry 2))", "E-OPT-004", "every"),
        ("(optimizer-groups (optim:ema (optim:sgd)) (group a (rank 1) :lrr 2))", "E-OPT-004", "lr"),
        ("(optim:muon)", "E-COND-001", "matrices"),
    ],
)
def test_mistakes_have_a_code(optimizer: str, code: str, words: str) -> None:
    with pytest.raises(sx.CompileError, match=words) as caught:
        experiment(optimizer)
    assert caught.value.diagnostics[0].code.id == code


MALFORMED = {
    "a sum that one parameter leaves out": (
        (
            "(defoptimizer bad (&key (lr 0.1)) (optimizer-update (p g) "
            "(if (> (param-rank) 1) (- p (* lr g (global-sum (sum g)))) (- p (* lr g)))))"
        ),
        "E-OPT-006",
    ),
    "a sum of a matrix": (
        ("(defoptimizer bad (&key (lr 0.1)) (optimizer-update (p g) (- p (* (global-sum p) g))))"),
        "E-OPT-002",
    ),
    "an average of the gradient's schedule": (
        (
            "(defoptimizer bad (&key (lr 0.1)) (evaluation-parameter (p) (* p lr)) "
            "(optimizer-update (p g) (- p (* lr g))))"
        ),
        "E-OPT-006",
    ),
    "an average of another shape": (
        (
            "(defoptimizer bad (&key (lr 0.1)) (evaluation-parameter (p) (sum p)) "
            "(optimizer-update (p g) (- p (* lr g))))"
        ),
        "E-OPT-002",
    ),
    "update outside an update": (
        (
            "(defoptimizer bad (&key (lr 0.1)) (update (optim:sgd) 1 2) "
            "(optimizer-update (p g) (- p (* lr g))))"
        ),
        "E-OPT-005",
    ),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_optimizer_has_a_code(what: str) -> None:
    text, code = MALFORMED[what]
    lr = ":lr (optim:linear 0.1 0.2 9)" if "schedule" in what else ""
    with pytest.raises(sx.CompileError) as caught:
        experiment(f"(bad {lr})", passes=text + "\n")
    assert caught.value.diagnostics[0].code.id == code

"""The step against the same training written in plain NumPy, in f64."""

from typing import Any

import jax
import numpy as np
import pytest
from jax.extend.random import threefry_2x32
from loop_documents import columns, make, run

OUT, IN = 3, 4


def fold(key: np.ndarray, n: int) -> np.ndarray:
    wrapped = jax.random.wrap_key_data(key, impl="threefry2x32")
    return np.asarray(jax.random.key_data(jax.random.fold_in(wrapped, np.uint32(n))))


def fnv(text: str) -> int:
    value = 2166136261
    for byte in text.encode():
        value = (value ^ byte) * 16777619 % 2**32
    return value


def bits(key: np.ndarray, high: np.ndarray, low: np.ndarray) -> np.ndarray:
    both = np.asarray(
        threefry_2x32(key, np.concatenate([high.reshape(-1), low.reshape(-1)]).astype(np.uint32))
    )
    half = len(both) // 2
    return (both[:half] ^ both[half:]).reshape(high.shape)


def key_of(seed: int, *words: int) -> np.ndarray:
    key = np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)
    for word in words:
        key = fold(key, word)
    return key


def ascii_word(word: str) -> int:
    return int.from_bytes(word.encode(), "big")


def reference(
    arrays: dict[str, np.ndarray], order: list[np.ndarray], seed: int, clip: float
) -> Any:
    """Parameters, moments and losses after a step for each batch of `order`."""
    key = fold(key_of(seed, ascii_word("init"), fnv("fit/w")), fnv("init"))
    n = np.arange(IN * OUT)
    unit = (bits(key, n * 0, n) >> 8) * 2.0**-24
    w = (unit.reshape(IN, OUT) - 0.5).astype(np.float64)
    b = np.zeros(OUT)
    moments = {n: np.zeros_like(p) for n, p in (("wm", w), ("wv", w), ("bm", b), ("bv", b))}
    losses, norms = [], []
    for step, records in enumerate(order):
        x, y, m = (arrays[n][records].astype(np.float64) for n in "xym")
        key = fold(key_of(seed, ascii_word("trai"), step), fnv("noise"))
        row, column = np.indices(x.shape)
        keep = (bits(key, row, column) >> 8) * 2.0**-24 < 0.8
        x = np.where(keep, x * 1.25, 0)
        error = x @ w + b - y
        losses.append((m * (error**2).mean(1)).sum() / m.sum())
        d = m[:, None] * error * 2 / OUT / m.sum()
        gw, gb = x.T @ d, d.sum(0)
        norm = np.sqrt((gw**2).sum() + (gb**2).sum())
        norms.append(norm)
        scale = clip / max(norm, clip)
        lr = 0.05 / (1 + 0.01 * step)
        for name, p, g in (("w", w, gw * scale), ("b", b, gb * scale)):
            mm, v = moments[name + "m"], moments[name + "v"]
            mm *= 0.9
            mm += 0.1 * g
            v *= 0.99
            v += 0.01 * g * g
            p -= lr * mm / (np.sqrt(v) + 1e-3)
    return {"fit/w": w, "fit/b": b}, moments, losses, norms


def events_of(directory: str | None, kind: str) -> list[dict[str, Any]]:
    from sexpgpu.loop.events import read_events

    return [e for e in read_events(f"{directory}/events.jsonl") if e["kind"] == kind]


@pytest.mark.parametrize("device", ["interp", "cpu"])
@pytest.mark.parametrize("microbatches", [1, 2, 4])
def test_against_numpy(tmp_path: Any, device: str, microbatches: int) -> None:
    document = make(steps=12, microbatches=microbatches, log_every=1, shuffle=False, valid=0)
    result = run(document, tmp_path, device=device)
    assert result.exit_status == 0, result.diagnostics
    order = [np.arange(8) + 8 * (s % 6) for s in range(12)]
    parameters, _, losses, norms = reference(columns(50), order, 3, 1.0)
    for path, wanted in parameters.items():
        np.testing.assert_allclose(result.parameters[path], wanted, atol=2e-6)
    events = events_of(result.directory, "train")
    assert [e["step"] for e in events] == list(range(1, 13))
    np.testing.assert_allclose([e["metrics"]["train/loss"] for e in events], losses, rtol=2e-6)
    np.testing.assert_allclose([e["metrics"]["train/grad-norm"] for e in events], norms, rtol=4e-6)
    rates = [e["metrics"]["optim/default/lr"] for e in events]
    np.testing.assert_allclose(rates, [0.05 / (1 + 0.01 * s) for s in range(12)], rtol=1e-6)
    assert events[-1]["metrics"]["counter/records"] == 96


def test_metrics_that_do_not_add_up_over_microbatches(tmp_path: Any) -> None:
    found = []
    for microbatches in (1, 4):
        document = make(steps=6, microbatches=microbatches, log_every=3, valid=0)
        result = run(document, tmp_path, slug=f"m{microbatches}")
        found.append([e["metrics"]["train/largest"] for e in events_of(result.directory, "train")])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


@pytest.mark.parametrize("device", ["interp", "cpu"])
def test_buffers_go_through_microbatches_in_order(tmp_path: Any, device: str) -> None:
    from sexpgpu.loop.checkpoint import load

    document = make(steps=2, microbatches=4, shuffle=False, valid=0)
    result = run(document, tmp_path, device=device)
    seen = np.zeros(IN)
    for step in range(2):
        key = fold(key_of(3, ascii_word("trai"), step), fnv("noise"))
        x = columns(50)["x"][step * 8 : step * 8 + 8].astype(np.float64)
        row, column = np.indices(x.shape)
        x = np.where((bits(key, row, column) >> 8) * 2.0**-24 < 0.8, x * 1.25, 0)
        for part in np.split(x, 4):
            seen = 0.9 * seen + 0.1 * part.mean(0)
    tensors, _ = load(f"{result.directory}/checkpoints/2")
    np.testing.assert_allclose(tensors["buffer/seen"], seen, rtol=1e-5)


@pytest.mark.parametrize("device", ["interp", "cpu"])
def test_several_steps_in_a_dispatch_change_nothing(tmp_path: Any, device: str) -> None:
    from sexpgpu.loop.checkpoint import load

    tensors = []
    for together in (1, 3):
        document = make(steps=20, together=together, log_every=2, eval_every=9)
        result = run(document, tmp_path, slug=f"k{together}", device=device)
        assert result.exit_status == 0, result.diagnostics
        tensors.append(load(f"{result.directory}/checkpoints/20")[0])
        assert [e["step"] for e in events_of(result.directory, "train")] == list(range(2, 21, 2))
    for name, array in tensors[0].items():
        assert array.tobytes() == tensors[1][name].tobytes(), name


def test_every_n(tmp_path: Any) -> None:
    one = run(make(steps=1, valid=0), tmp_path, slug="one").parameters
    three = run(make(steps=3, valid=0, group_every=3), tmp_path, slug="three").parameters
    four = run(make(steps=4, valid=0, group_every=3), tmp_path, slug="four").parameters
    assert np.array_equal(one["fit/w"], three["fit/w"])
    assert not np.array_equal(three["fit/w"], four["fit/w"])

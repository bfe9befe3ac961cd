"""Small documents built by hand: a noisy linear regression with every part the loop drives.

Importable by test modules and by the child processes that fault tests kill.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from sexpgpu.ir import document as ir
from sexpgpu.ir.graph import Builder, Graph, Value
from sexpgpu.ir.types import TensorType
from sexpgpu.loop.run import RunOptions, RunResult, execute
from sexpgpu.ops import new_builder
from sexpgpu.source import Source

IN, OUT = 4, 3
HANG = 600  # seconds that a child hangs: longer than anything waits for it


def t(dtype: str, *shape: int, batch: int | None = None) -> TensorType:
    return TensorType(shape, dtype, batch)


class G:
    """A builder with the few composed operations these graphs need."""

    def __init__(self) -> None:
        self.b: Builder = new_builder()

    def __getattr__(self, name: str) -> Any:
        return lambda *operands, **attrs: self.b.emit(name.replace("_", "-"), *operands, **attrs)

    def input(self, name: str, type: TensorType) -> Value:
        return self.b.inputs.get(name) or self.b.input(name, type)

    def fill(self, value: float, like: Value | None = None, shape: tuple[int, ...] = ()) -> Value:
        shape = like.shape if like is not None else shape
        dtype = like.dtype if like is not None else "f32"
        return self.b.emit("full", shape=shape, value=value, dtype=dtype, batch=None)

    def spread(self, x: Value, like: Value, *dims: int) -> Value:
        return self.b.emit("broadcast", x, shape=like.shape, dims=tuple(dims))

    def times(self, x: Value, factor: float) -> Value:
        return self.b.emit("mul", x, self.fill(factor, x))

    def sum(self, x: Value, *axes: int) -> Value:
        return self.b.emit("sum", x, axes=axes)


def forward(g: G, rows: int, noise: bool) -> tuple[Value, Value, Value, Value]:
    """x (rows in), error (rows out), weight of each record, Σ weight·(mean square error)."""
    x = g.input("batch/x", t("f32", rows, IN, batch=0))
    y = g.input("batch/y", t("f32", rows, OUT, batch=0))
    m = g.input("batch/m", t("f32", rows, batch=0))
    z = g.input("batch/z", t("f32", rows, batch=0))
    w = g.input("param/fit/w", t("f32", IN, OUT))
    bias = g.input("param/fit/b", t("f32", OUT))
    if noise:
        key = g.random_key(g.input("rng/key", t("u32", 2)), name="noise")
        bits = g.random_bits(
            key, g.input("rng/offset", t("u32")), shape=(rows, IN), batch=0, per_example=1
        )
        shifted = g.cast(g.shift_right(bits, g.fill(8, bits)), dtype="f32")
        keep = g.lt(g.times(shifted, 2.0**-24), g.fill(0.8, shape=(rows, IN)))
        x = g.select(keep, g.times(x, 1.25), g.fill(0.0, x))
    product = g.dot(x, w, a_contract=(1,), b_contract=(0,), a_batch=(), b_batch=(),
                    accumulate=None, mode="highest")  # fmt: skip
    error = g.sub(g.add(product, g.spread(bias, product, 1)), y)
    poison = g.times(g.log(z), 0.0)  # NaN where z is negative
    error = g.add(error, g.spread(poison, error, 0))
    each = g.times(g.sum(g.mul(error, error), 1), 1.0 / OUT)
    return x, error, m, g.sum(g.mul(m, each), 0)


def train_graph(batch: int, microbatches: int) -> Graph:
    rows = batch // microbatches
    g = G()
    x, error, m, total = forward(g, rows, noise=True)
    weight = g.sum(m, 0)
    share = g.mul(g.spread(m, error, 0), g.times(error, 2.0 / OUT))
    divisor = g.spread(g.input("total/objective", t("f32")), error)
    d = g.div(share, divisor)
    grad_w = g.dot(x, d, a_contract=(0,), b_contract=(0,), a_batch=(), b_batch=(),
                   accumulate=None, mode="highest")  # fmt: skip
    old = g.input("buffer/seen", t("f32", IN))
    seen = g.add(g.times(old, 0.9), g.times(g.sum(x, 0), 0.1 / rows))
    size = g.max_reduce(g.reshape(g.abs(error), shape=(rows * OUT,)), axes=(0,))
    outputs = {
        "loss/objective/sum": total,
        "loss/objective/weight": weight,
        "grad/fit/w": grad_w,
        "grad/fit/b": g.sum(d, 0),
        "metric/bias/value": g.sum(g.mul(m, g.times(g.sum(error, 1), 1.0 / OUT)), 0),
        "metric/bias/weight": weight,
        "metric/largest/value": size,
        "metric/largest/weight": g.fill(1.0),
        "buffer/seen": seen,
        "counter/records": g.full(shape=(), value=rows, dtype="i32", batch=None),
    }  # fmt: skip
    return g.b.finish("train/only", outputs)


def weights_graph(batch: int, microbatches: int) -> Graph:
    g = G()
    m = g.input("batch/m", t("f32", batch // microbatches, batch=0))
    return g.b.finish("weights/only", {"loss/objective/weight": g.sum(m, 0)})


def eval_graph(name: str, rows: int) -> Graph:
    g = G()
    _, _, m, total = forward(g, rows, noise=False)
    weight = g.sum(m, 0)
    return g.b.finish(name, {"metric/loss/value": total, "metric/loss/weight": weight})


def clip_graph(limit: float | None) -> Graph:
    g = G()
    grads = {n: g.input(n, s) for n, s in (("grad/fit/w", t("f32", IN, OUT)),
                                           ("grad/fit/b", t("f32", OUT)))}  # fmt: skip
    parts = [g.sum(g.mul(v, v), *range(len(v.shape))) for v in grads.values()]
    norm = g.sqrt(g.add(*parts))
    outputs: dict[str, Value] = dict(grads)
    if limit is not None:
        bound = g.fill(limit)
        scale = g.div(bound, g.max(norm, bound))
        outputs = {n: g.mul(v, g.spread(scale, v)) for n, v in grads.items()}
    return g.b.finish("clip", {**outputs, "grad-norm": norm})


def update_graph(name: str, shape: tuple[int, ...]) -> Graph:
    """Adam without its bias correction: two states, one schedule."""
    g = G()
    p, grad = g.input("p", t("f32", *shape)), g.input("g", t("f32", *shape))
    m, v = g.input("state/m", t("f32", *shape)), g.input("state/v", t("f32", *shape))
    m = g.add(g.times(m, 0.9), g.times(grad, 0.1))
    v = g.add(g.times(v, 0.99), g.times(g.mul(grad, grad), 0.01))
    lr = g.spread(g.input("hyper/lr", t("f32")), p)
    step = g.div(g.mul(lr, m), g.add(g.sqrt(v), g.fill(1e-3, v)))
    new = g.sub(p, step)
    outputs = {"p": new, "state/m": m, "state/v": v}
    outputs["metric/size/value"] = g.sum(g.mul(step, step), *range(len(shape)))
    outputs["metric/size/weight"] = g.fill(1.0)
    return g.b.finish(name, outputs)


def hyper_graph() -> Graph:
    g = G()
    step = g.cast(g.input("ctx/step", t("i32")), dtype="f32")
    lr = g.div(g.fill(0.05), g.add(g.times(step, 0.01), g.fill(1.0)))
    return g.b.finish("hyper/default", {"lr": lr})


def init_graph(name: str, shape: tuple[int, ...], std: float) -> Graph:
    g = G()
    if std == 0:
        return g.b.finish(name, {"value": g.fill(0.0, shape=shape)})
    key = g.random_key(g.input("rng/key", t("u32", 2)), name="init")
    zero = g.b.emit("full", shape=(), value=0, dtype="u32", batch=None)
    bits = g.random_bits(key, zero, shape=shape, batch=None, per_example=1)
    unit = g.times(g.cast(g.shift_right(bits, g.fill(8, bits)), dtype="f32"), 2.0**-24)
    return g.b.finish(name, {"value": g.times(g.sub(unit, g.fill(0.5, unit)), 2 * std)})


def columns(count: int, seed: int = 1, bad: int | None = None) -> dict[str, np.ndarray]:
    """Records of the regression; record `bad` makes the loss NaN."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, IN)).astype(np.float32)
    z = np.ones(count, np.float32)
    if bad is not None:
        z[bad] = -1.0
    return {
        "x": x,
        "y": (x[:, :OUT] * 2 - 1 + rng.normal(size=(count, OUT)) * 0.1).astype(np.float32),
        "m": rng.integers(1, 9, count).astype(np.float32),
        "z": z,
    }


def inline(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    return {
        "kind": "inline",
        "count": len(arrays["x"]),
        "columns": {
            name: {"dtype": "f32", "shape": list(a.shape[1:]), "values": a.reshape(-1).tolist()}
            for name, a in arrays.items()
        },
    }


def stage(source: dict[str, Any], batch: int, **changes: Any) -> ir.Stage:
    fields = [
        ir.Field(name=n, dtype="f32", shape=s, range=None)
        for n, s in (("x", (IN,)), ("y", (OUT,)), ("m", ()), ("z", ()))
    ]
    given: dict[str, Any] = {
        "name": "only", "source": source, "base": ".", "fields": fields, "batch": batch,
        "shuffle": True, "drop_last": True, "microbatches": None, "records": None, "streams": False,
    }  # fmt: skip
    return ir.Stage(**given | changes)


def make(
    *,
    count: int = 50,
    valid: int = 21,
    batch: int = 8,
    eval_batch: int = 4,
    microbatches: int = 2,
    steps: int | None = 30,
    epochs: int | None = None,
    every: int | None = 10,
    eval_every: int | None = 10,
    at_start: bool = False,
    log_every: int = 5,
    finite: str = "abort",
    bad: int | None = None,
    keep: int | None = None,
    keep_every: int | None = None,
    best: tuple[str, str] | None = None,
    clip: float | None = 1.0,
    together: int | str = 1,
    group_every: int = 1,
    shuffle: bool = True,
    drop_last: bool = True,
    seed: int = 3,
    name: str = "tiny",
    init_from: ir.InitFrom | None = None,
    stop: ir.Stop | None = None,
    diagnostics: ir.Diagnostics | None = None,
) -> ir.Document:
    """A whole document."""
    rest = valid % eval_batch
    graphs = [
        train_graph(batch, microbatches),
        weights_graph(batch, microbatches),
        clip_graph(clip),
        hyper_graph(),
        update_graph("update/0", (IN, OUT)),
        update_graph("update/1", (OUT,)),
        init_graph("init/0", (IN, OUT), 0.5),
        init_graph("init/1", (OUT,), 0.0),
        init_graph("init/2", (IN,), 0.0),
        init_graph("init/3", (IN, OUT), 0.0),
        eval_graph("eval/valid", eval_batch),
    ]
    if rest:
        graphs.append(eval_graph("eval/valid/rest", rest))
    mean = ir.Metric(finish=None, name="loss", reduce="mean")

    def parameter(path: str, shape: tuple[int, ...], init: str) -> ir.Parameter:
        return ir.Parameter(
            aliases=[], dtype="f32", group="default", init=init, path=path, shape=shape, tags=[],
            trainable=True,
        )  # fmt: skip

    def update(graph: str, shape: tuple[int, ...], init: str) -> ir.Update:
        states = [ir.State(dtype="f32", init=init, name=n, shape=shape) for n in ("m", "v")]
        return ir.Update(average=None, graph=graph, group="default", states=states, sums=[])

    return ir.Document(
        manifest={"entry": "tiny.sx", "selection": {"variants": [], "knobs": {}, "overrides": {}}},
        sources=[Source("tiny.sx", "(defrun tiny)\n")],
        run=ir.Run(
            checkpoint=ir.Checkpointing(best=best, every=every, keep=keep, keep_every=keep_every),
            clip_norm=clip, epochs=epochs, evaluations=["valid"] if valid else [], finite=finite,
            init_from=init_from, stop=stop, diagnostics=diagnostics,
            log_every=log_every, microbatches=microbatches, name=name, precision="f32",
            remat="none", seed=seed,
            steps=steps if epochs is None else None, steps_per_dispatch=together, train="train",
        ),
        loaders=[
            ir.Loader(
                name="train",
                stages=[
                    stage(inline(columns(count, 1, bad)), batch, shuffle=shuffle,
                          drop_last=drop_last)
                ],
            ),
            ir.Loader(
                name="valid", stages=[stage(inline(columns(valid, 2)), eval_batch, shuffle=False)]
            ),
        ],
        parameters=[parameter("fit/w", (IN, OUT), "init/0"), parameter("fit/b", (OUT,), "init/1")],
        buffers=[ir.Buffer(dtype="f32", init="init/2", path="seen", shape=(IN,), per=None)],
        groups=[
            ir.Group(
                clip_norm=None, constants={}, every=group_every, frozen=False,
                hyper="hyper/default", name="default", optimizer="adam", schedules=["lr"],
            )
        ],
        updates={
            "fit/w": update("update/0", (IN, OUT), "init/3"),
            "fit/b": update("update/1", (OUT,), "init/1"),
        },
        graphs={graph.name: graph for graph in graphs},
        evaluations=[
            ir.Evaluation(
                name="valid", loader="valid", every=eval_every, batches=None, at_start=at_start,
                at_end=True, graph="eval/valid", rest="eval/valid/rest" if rest else None,
                rest_batch=rest, weights="averaged",
            )
        ] if valid else [],
        metrics={
            "train/only": [
                ir.Metric(finish=None, name="bias", reduce="mean"),
                ir.Metric(finish=None, name="largest", reduce="max"),
            ],
            "eval/valid": [mean],
            "eval/valid/rest": [mean],
            "update/0": [ir.Metric(finish=None, name="size", reduce="mean")],
            "update/1": [ir.Metric(finish=None, name="size", reduce="mean")],
        },
        terms={"train/only": ["objective"]},
        counters=["records"],
    )  # fmt: skip


def run(document: ir.Document, runs: Path | str, **options: Any) -> RunResult:
    """`execute` with the defaults of these tests; the IR's text and hash are stand-ins."""
    told = repr([document.run.name, document.run.seed, document.run.finite, document.run.clip_norm])
    given: dict[str, Any] = {"device": "interp", "quiet": True, "slug": "run"}
    return execute(
        document,
        RunOptions(runs=str(runs), **given | options),
        ir_text="{}",
        ir_hash=hashlib.sha256(told.encode()).hexdigest(),
    )


def _child(arguments: list[str]) -> None:
    """`python loop_documents.py RUNS DOCUMENT OPTIONS [slow …]`: a run to be killed.

    DOCUMENT and OPTIONS are JSON for `make` and `run`; `slow compile`, `slow data`, `slow open`
    and `slow passes` hang there, as a large model or a far file server does.
    """
    import json
    import os
    import time

    runs, document, options, *slow = arguments
    if "compile" in slow:
        import ctypes

        from sexpgpu.lowering.interp.backend import InterpBackend

        def hang(*_: Any, **__: Any) -> Any:
            ctypes.CDLL(None).sleep(HANG)  # never comes back to the interpreter, as XLA does not

        InterpBackend.compile = hang  # type: ignore[method-assign]
    if "open" in slow or "passes" in slow:
        from sexpgpu.loop.data.loader import EvaluationBatches, TrainingBatches

        batches = TrainingBatches if "open" in slow else EvaluationBatches
        batches.__init__ = lambda *_, **__: time.sleep(HANG)  # type: ignore[method-assign]
    if "data" in slow:
        from sexpgpu.loop.data import records
        from sexpgpu.loop.data.loader import TrainingBatches

        records.AT_ONCE = -1  # nothing is at hand

        read = TrainingBatches.read

        def late(self: TrainingBatches, position: int) -> dict[str, np.ndarray]:
            if position == 20:
                time.sleep(HANG)
            return read(self, position)

        TrainingBatches.read = late  # type: ignore[method-assign]
    result = run(make(**json.loads(document)), runs, **json.loads(options))
    for found in result.diagnostics:
        print(found.code.id, found.headline, flush=True)
    os._exit(result.exit_status)


if __name__ == "__main__":
    import sys

    _child(sys.argv[1:])

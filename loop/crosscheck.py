"""Two backends on the same numbers: every graph of a run, over its first batches.

The NumPy evaluator trains a few steps of each stage; then it evaluates the first batches of each
pass, and predicts for the first batch. Each graph that is called on the way (weights, forward and
backward, clip, schedules, updates, diagnostics, averages, evaluations, prediction) also runs on the
other device, on the same inputs (`comparing.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sexpgpu.ir.document import Document
from sexpgpu.loop.averages import averaged
from sexpgpu.loop.comparing import TOLERANCE, Comparing, Crosscheck
from sexpgpu.loop.context import StepContext
from sexpgpu.loop.data.loader import TrainingBatches
from sexpgpu.loop.data.opened import Opened
from sexpgpu.loop.evaluate import Pass
from sexpgpu.loop.feeds import Feeder
from sexpgpu.loop.initial import flattened, initial_state
from sexpgpu.loop.predict import Predictor, surroundings
from sexpgpu.loop.rows import first_rows, with_rows
from sexpgpu.loop.schedule import Schedule
from sexpgpu.loop.stages import Leg, programs
from sexpgpu.loop.statistics import compute as statistics
from sexpgpu.loop.step import Step, StepState, context_types
from sexpgpu.lowering.backend import open_backend


def crosscheck(
    document: Document,
    device: str = "auto",
    *,
    steps: int = 3,
    by_node: bool = False,
    tolerance: float | None = None,
) -> Crosscheck:
    """Compare a device with the NumPy evaluator over the first steps of a run (of each stage whose
    steps differ), and over as many batches (and the last, where it is smaller) of each pass.

    `by_node` compares every node of every graph once, also where outputs agree. `tolerance`: of
    outputs, in place of the precision's. Raises SxError for data and devices that fail."""
    run = document.run
    backend = open_backend(device)
    result = Crosscheck(backend.name, steps)
    limit = TOLERANCE[run.precision] if tolerance is None else tolerance
    engine = Comparing(backend, result, limit, by_node)
    passes = {evaluation.name: evaluation for evaluation in document.evaluations}
    constants = statistics(document)
    data = Opened(document)
    try:
        data.open()
        readers = data.training
        total = run.steps or data.steps_of(run.epochs or 0)
        state = _trained(document, engine, readers, total, constants, steps)
        for name in run.evaluations:
            one = Pass(document, passes[name], data.passes[name], backend)
            context = StepContext(readers[0], total, run.seed, one.context_keys())
            _evaluated(document, engine, one, state, context.values(steps), constants, steps)
        if "predict" in document.graphs:
            known = StepContext(readers[0], total, run.seed, {}).known(steps)
            tensors = {**flattened(state), **constants}
            around = surroundings(document, tensors, known)
            _predicted(document, engine, state, around, readers[0].read(0))
    finally:
        data.close()
    return result


def _trained(
    document: Document,
    engine: Comparing,
    readers: Sequence[TrainingBatches],
    total: int,
    constants: Mapping[str, Any],
    steps: int,
) -> StepState:
    """The state after so many steps of the evaluator in each stage, of a run of `total`."""
    state = initial_state(document)
    done: list[Step] = []
    for at, program in enumerate(programs(document)):
        step, watching = program.step, program.watching
        if step in done:
            continue
        types = context_types(document, step.train)
        if watching is not None:
            types |= context_types(document, watching.train)
        first = len(done) * steps
        if done:
            batch = document.loader(document.run.train).stages[at].batch
            rows = {b.path: first_rows(document, b, batch) for b in with_rows(document)}
            state = {**state, "buffer": {**state["buffer"], **rows}}
        leg = Leg(at, first, 0, 0)
        context = StepContext(readers[at], total, document.run.seed, types, leg)
        schedule = Schedule(document, [], total, 1)
        feeds = Feeder(document, readers[at], context, schedule, engine.backend, first)
        for number in range(first, first + steps):
            engine.step = number
            feed = feeds.one(number)
            if watching is not None:
                watching.take(engine, state, feed, dict(constants))
            state, _ = step(engine, state, feed, dict(constants))
        done.append(step)
    return state


def _evaluated(
    document: Document,
    engine: Comparing,
    one: Pass,
    state: StepState,
    context: Mapping[str, np.ndarray],
    constants: Mapping[str, Any],
    count: int,
) -> None:
    """The first batches of a pass, and its last where that is a smaller one."""
    seen = one.first_seen(state)
    if one.evaluation.weights == "averaged":
        seen["param"] = averaged(engine, document, state["param"], state["state"])
    indices = [*range(min(count, one.batches.whole))]
    if one.batches.rest:
        indices.append(one.batches.whole)
    for index in indices:
        engine.step = index
        _, rows = one.graph_of(index)(engine, seen, one.feed(index, context), constants)
        seen["buffer"] = {**seen["buffer"], **rows}


def _predicted(
    document: Document,
    engine: Comparing,
    state: StepState,
    around: Mapping[str, Any],
    batch: Mapping[str, np.ndarray],
) -> None:
    """The prediction for a training batch, by the averaged parameters where there are some.
    `around`: what the graph reads besides."""
    engine.step = 0
    params = averaged(engine, document, state["param"], state["state"])
    model = {f"buffer/{path}": value for path, value in state["buffer"].items()}
    model |= {f"param/{path}": value for path, value in params.items()}
    predictor = Predictor(document, {**model, **around}, engine.backend.name)
    count = len(next(iter(batch.values())))
    engine.call(predictor.graph, predictor.inputs_of(batch, 0, count))

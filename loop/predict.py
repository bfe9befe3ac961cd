"""Prediction: the `predict` graph on records, in batches of the extent it was traced for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sexpgpu.diagnostics.codes import data as codes
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.ir.document import STREAM_START, Document
from sexpgpu.loop.failure import failure
from sexpgpu.loop.keys import domain
from sexpgpu.loop.rows import first_rows, with_rows
from sexpgpu.lowering.backend import Backend, Compiled, open_backend
from sexpgpu.lowering.interp.dtypes import NUMPY


class Predictor:
    """`predict` of a document for the values of a model, compiled when it is first called.

    `model`: every `param/PATH` and `buffer/PATH`, and the `surroundings`. Called with records
    by field, each an array [records, …], it gives an array [records, …], or a tuple of them.
    Records are fed in batches of the graph's extent; the last is filled up with copies of the last
    record, whose outputs are dropped. An output whose first axis is not the batch's is the same
    for all records: it is given as it is. Raises SxError for a missing or unknown field, and for a
    shape that does not fit."""

    def __init__(self, document: Document, model: Mapping[str, np.ndarray], device: str) -> None:
        if "predict" not in document.graphs:
            raise failure(
                codes.E_EVAL_033,
                "the file has no way to predict: its model takes several values",
                fix="define (defun predict (model …) …) in the file",
            )
        self.document = document
        self.graph = document.graphs["predict"]
        self.fields = {
            name.removeprefix("batch/"): value.type
            for name, value in self.graph.inputs.items()
            if name.startswith("batch/")
        }
        self._fixed: dict[str, Any] = dict(model)
        self._fixed["rng/key"] = np.array(domain(document.run.seed, "pred"), np.uint32)
        made = [v.type for v in self.graph.outputs.values() if v.type.batch == 0]
        self.extent = next((t.shape[0] for t in (*self.fields.values(), *made)), 1)
        self._device = device
        self._run: Compiled | None = None
        self._backend: Backend | None = None

    def __call__(self, fields: Mapping[str, Any]) -> Any:
        stage = self.document.loader(self.document.run.train).stages[0]
        known = {*(f.name for f in stage.fields), *([STREAM_START] if stage.streams else [])}
        for name in fields:
            if name not in known:
                raise failure(
                    codes.E_DATA_002,
                    f"predict: the loader {self.document.run.train} has no field {name}",
                    did_you_mean(name, known) or f"it has {', '.join(sorted(known))}",
                )
        arrays: dict[str, np.ndarray] = {}
        for name, type in self.fields.items():
            if name not in fields:
                raise failure(codes.E_DATA_002, f"predict needs the field {name}")
            arrays[name] = _records(name, fields[name], type.shape[1:], NUMPY[type.dtype])
        counts = {len(a) for a in arrays.values()}
        # a model that draws what it gives (a generator) reads no field: it is told how many
        counts |= {len(a) for n, a in fields.items() if n not in arrays and np.ndim(a)}
        if len(counts) > 1:
            raise failure(codes.E_DATA_003, "predict: the fields have different numbers of records")
        if counts == {0}:
            raise failure(codes.E_DATA_004, "predict: there are no records")
        return self._outputs(arrays, next(iter(counts), 0))

    def inputs_of(self, arrays: Mapping[str, np.ndarray], start: int, count: int) -> dict[str, Any]:
        """The inputs of the graph for the records from `start` on, as many as it takes at once;
        past the last of `count` copies of that."""
        index = np.minimum(np.arange(start, start + self.extent), max(count - 1, 0))
        inputs = {f"batch/{name}": arrays[name][index] for name in self.fields}
        inputs["rng/offset"] = np.asarray(start, np.uint32)
        fixed = self._fixed
        return {n: fixed[n] if n in fixed else inputs[n] for n in self.graph.inputs}

    def _outputs(self, arrays: Mapping[str, np.ndarray], count: int) -> Any:
        graph = self.graph
        if self._run is None or self._backend is None:
            self._backend = open_backend(self._device)
            self._run = self._backend.compile(
                lambda engine, tree: engine.call(graph, tree),
                [{n: v.type for n, v in graph.inputs.items()}],
                donate=(),
            )
        parts: list[dict[str, np.ndarray]] = []
        for start in range(0, max(count, 1), self.extent):
            given = self.inputs_of(arrays, start, count)
            parts.append(self._backend.get(self._run(self._backend.put(given))))
        results: list[np.ndarray] = []
        for name, value in graph.outputs.items():
            if value.type.batch == 0:
                results.append(np.concatenate([p[name] for p in parts])[:count])
            else:
                results.append(np.asarray(parts[0][name]))
        return results[0] if len(results) == 1 else tuple(results)


def surroundings(
    document: Document, tensors: Mapping[str, np.ndarray], known: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """What the `predict` graph reads besides parameters, buffers and records: `statistic/…`, and
    `ctx/…` as they stood (`known`, of a checkpoint's meta data) when the parameters were taken; and
    buffers with a row for each example as they begin."""
    graph = document.graphs.get("predict")
    found: dict[str, np.ndarray] = {}
    rows = {buffer.path: buffer for buffer in with_rows(document)}
    for name, value in graph.inputs.items() if graph is not None else ():
        kind, _, key = name.partition("/")
        if key in rows and kind == "buffer":
            found[name] = first_rows(document, rows[key], value.type.shape[0])
        if kind not in ("ctx", "statistic"):
            continue
        number = tensors.get(name if kind == "statistic" else key)  # updates, counter/NAME
        if number is None:
            number = 0 if key == "microbatch" else known.get(key)
        if number is None:
            raise failure(
                codes.E_EVAL_033,
                f"predict reads {name}, which the run has not kept",
                fix="use parameters of a run of this very file",
            )
        found[name] = np.asarray(number).astype(NUMPY[value.dtype])
    return found


def _records(name: str, given: Any, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """The records of a field in its dtype; E-DATA-003 for values that it cannot hold."""
    try:
        found = np.asarray(given)
    except ValueError:
        raise failure(codes.E_DATA_003, f"predict: the records of {name} differ in shape") from None
    if found.shape[1:] != shape or not found.shape:
        raise failure(
            codes.E_DATA_003,
            f"predict: {name} is an array [records{''.join(f', {n}' for n in shape)}], "
            f"not of shape {found.shape}",
        )
    kinds = "biuf" if dtype.kind not in "biu" else "biu"
    if found.size and found.dtype.kind not in kinds and found.dtype != NUMPY["bf16"]:
        raise failure(codes.E_DATA_003, f"predict: {name} is {dtype}, which {found.dtype} is not")
    with np.errstate(over="ignore"):
        array = found.astype(dtype)
    if dtype.kind in "biu" and not np.array_equal(array, found):
        bad = found[array != found].flat[0]
        raise failure(codes.E_DATA_003, f"predict: {bad} of {name} does not fit {dtype}")
    return array

"""The guard of an update graph: where it is false, nothing changes by a bit."""

import numpy as np
import pytest

from sexpgpu.compiler import compile_text
from sexpgpu.ir.graph import Graph
from sexpgpu.ir.types import TensorType
from sexpgpu.loop.guarded import APPLIED, guarded
from sexpgpu.loop.step import Step
from sexpgpu.lowering.backend import open_backend
from sexpgpu.ops import new_builder

ROWS = 48
FILE = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train :batch 16
  :source (synthetic 64 (x :f32 (96) (:normal 0 1))) :fields ((x :f32 (96))))
(defun prepare (batch) (field batch :x))
(defmodel net () (submodel body (stack (nn:linear 96 512) (nn:linear 512 96)))
  (forward (x) (body x)))
(defun objective (model x) (nn:mse (funcall model x) x))
(defrun net :model (net) :optimizer (optim:adam :lr 1e-3) :steps 2)
"""


def update() -> Graph:
    """An update whose outputs are awkward: one state is an input of another name, two are one
    value, one is unchanged, one is read by what comes after it, one is never read."""
    b = new_builder()
    names = ("p", "g", "state/moved", "state/last", "state/same", "state/twin", "state/still")
    value = {name: b.input(name, TensorType((ROWS,), "f32")) for name in names}
    moved = b.emit("add", value["state/moved"], value["g"])
    twin = b.emit("mul", moved, value["g"])
    p = b.emit("sub", value["p"], b.emit("mul", moved, twin))
    return b.finish(
        "update",
        {
            "p": p, "state/moved": moved, "state/last": value["g"], "state/same": twin,
            "state/twin": twin, "state/still": value["state/still"],
            "state/unread": b.emit("mul", value["g"], value["g"]),
            "metric/size/value": b.emit("sum", moved, axes=(0,)),
        },
    )  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", "interp"])
def test_a_guarded_update_is_all_or_nothing(device: str) -> None:
    graph = update()
    backend = open_backend(device)
    rng = np.random.default_rng(0)
    names = [*graph.inputs, "state/unread"]
    given = {name: rng.standard_normal(ROWS).astype(np.float32) for name in names}

    def call(graph: Graph, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        run = backend.compile(lambda engine, x: engine.call(graph, x), (inputs,), donate=())
        return backend.get(run(backend.put(inputs)))

    plain = call(graph, given)
    done = call(guarded(graph), {**given, APPLIED: np.asarray(True)})
    kept = call(guarded(graph), {**given, APPLIED: np.asarray(False)})
    for name in graph.outputs:
        np.testing.assert_array_equal(done[name], plain[name], err_msg=name)
        if not name.startswith("metric/"):
            np.testing.assert_array_equal(kept[name], given[name], err_msg=name)


def test_optimizer_states_are_updated_in_place() -> None:
    """No copy of a state or a parameter is in the program that XLA makes of a step."""
    document = compile_text(FILE).checked()
    step = Step(document, document.loaders[0].stages[0].name, 1)
    backend = open_backend("cpu")
    weight = TensorType((96, 512), "f32")
    assert any(p.shape == weight.shape for p in document.parameters)
    scalar = TensorType((), "i32")
    shapes = {p.path: TensorType(p.shape, p.dtype) for p in document.parameters}
    state = {
        "param": shapes,
        "buffer": {},
        "state": {path: {"m": type, "v": type} for path, type in shapes.items()},
        "group": {},
        "counter": {},
        "step": scalar, "updates": scalar, "bad": scalar, "halted": TensorType((), "bool"),
    }  # fmt: skip
    feed = {
        "batch": {"x": TensorType((16, 96), "f32")}, "key": TensorType((2,), "u32"),
        "ctx": {}, "active": {},
    }  # fmt: skip
    text = backend.compile(step, (state, feed, {})).text()
    copies = [line for line in text.splitlines() if " copy(" in line and "f32[96,512]" in line]
    assert not copies

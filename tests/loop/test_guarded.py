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
(defrun net :model (net) :steps 2
  :optimizer (optim:adam :lr (optim:warmup-cosine :peak 1e-3 :warmup 1 :steps 4)))
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


@pytest.fixture(scope="module")
def program() -> list[str]:
    """The lines of the program that XLA makes of a step."""
    document = compile_text(FILE).checked()
    step = Step(document, document.loaders[0].stages[0].name, 1)
    backend = open_backend("cpu")
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
        "ctx": {"step": scalar, "steps": scalar}, "active": {},
    }  # fmt: skip
    return backend.compile(step, (state, feed, {})).text().splitlines()


def test_optimizer_states_are_updated_in_place(program: list[str]) -> None:
    """No copy of a state or a parameter."""
    assert not [line for line in program if " copy(" in line and "f32[96,512]" in line]


def test_what_all_updates_read_is_computed_once(program: list[str]) -> None:
    """The schedule and the guard's flag are not part of the code of each parameter's update."""
    assert len([line for line in program if " cosine(" in line]) == 1
    assert len([line for line in program if " is-finite(" in line]) == 2  # loss, norm

"""What the tests of the standard modules stand on: functions of a module on arrays, and a layer
put into a run file so that its output and gradients can be had from both backends."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference_programs import compiled

import sexpgpu as sx
from sexpgpu.lowering.backend import open_backend

sys.path.insert(0, str(Path(__file__).parent))  # for what tests import from here

REQUIRE = '(require "sexpgpu/nn" :as nn) (require "sexpgpu/optim" :as optim) '

PROBE = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train :source (synthetic {n} {fields}) :batch {n})
(defun prepare (batch) (values {values}))
(defmodel probe ()
  (submodel layer {layer})
  {shift}
  (forward ({names}) {call}))
(defun objective (model {names})
  (let ((y (funcall model {names})))
    (mean (* y (cos (cast (reshape (arange (size y)) (shape y)) :f32))))))
(defun predict (model {names}) (funcall model {names}))
(defrun probe :model (probe) :optimizer (optim:sgd :lr 0.1) :steps 1)
"""

DTYPES = {"float32": ":f32", "int32": ":i32", "bool": ":bool"}


@pytest.fixture(scope="session")
def standard() -> Callable[..., Any]:
    """`standard("(lambda (x) (nn:gelu x))", device)`: a traced function that sees nn and optim."""

    def make(text: str, device: str = "interp") -> Any:
        return sx.function(REQUIRE + text, device=device)

    return make


class Probe:
    """A layer in a run file, with parameters that are not what it starts from.

    The first array is shifted by a parameter `shift` when it is a float, so that `grad["shift"]`
    is the gradient of the layer's input.
    """

    def __init__(self, layer: str, arrays: dict[str, np.ndarray], call: str | None = None) -> None:
        first = next(iter(arrays))
        self.arrays = arrays
        shifted = arrays[first].dtype == np.float32
        n = arrays[first].shape[0]
        fields = " ".join(
            f"({k} {DTYPES[a.dtype.name]} ({' '.join(map(str, a.shape[1:]))}) {_range(a)})"
            for k, a in arrays.items()
        )
        x = f"(+ {first} shift)" if shifted else first
        self.text = PROBE.format(
            n=n,
            fields=fields,
            values=" ".join(f"(field batch :{k})" for k in arrays),
            names=" ".join(arrays),
            layer=layer,
            shift=f"(defparam shift ({' '.join(map(str, arrays[first].shape))}))"
            if shifted
            else "",
            call=(call or "(layer {x})").format(x=x),
        )
        self.document = sx.compile_text(self.text).document
        self.buffers: dict[str, np.ndarray] = {}
        random = np.random.default_rng(3)
        self.parameters = {
            p.path: (0.5 * random.standard_normal(p.shape)).astype(np.float32)
            for p in self.document.parameters
        }

    def _call(self, name: str, device: str) -> dict[str, np.ndarray]:
        graph = self.document.graphs[name]
        given: dict[str, Any] = {f"param/{k}": v for k, v in self.parameters.items()}
        given |= {f"buffer/{k}": v for k, v in self.buffers.items()}
        given |= {f"batch/{k}": v for k, v in self.arrays.items()}
        given["rng/key"] = np.array([1, 2], np.uint32)
        given["rng/offset"] = np.uint32(0)
        backend = open_backend(device)
        run = backend.compile(
            lambda engine, tree: engine.call(graph, tree),
            [{n: v.type for n, v in graph.inputs.items()}],
            donate=(),
        )
        return backend.get(run(backend.put({n: given[n] for n in graph.inputs})))

    def output(self, device: str) -> np.ndarray:
        return self._call("predict", device)["out/0"]

    def train(self, device: str) -> dict[str, np.ndarray]:
        """The outputs of the training graph."""
        return self._call("train/main", device)

    def gradients(self, device: str) -> dict[str, np.ndarray]:
        found = self.train(device)
        return {k.removeprefix("grad/"): v for k, v in found.items() if k.startswith("grad/")}

    def agrees(self, reference: Callable[..., Any], tolerance: float = 1e-5) -> None:
        """The layer's output and gradients are those of `reference(parameters, *arrays)`, whose
        parameters are a dict by the paths below `layer/`."""
        names = list(self.arrays)

        def apply(parameters: dict[str, Any]) -> Any:
            below = {k.removeprefix("layer/"): v for k, v in parameters.items()}
            arrays = {k: jnp.asarray(v) for k, v in self.arrays.items()}
            if "shift" in below:
                arrays[names[0]] = arrays[names[0]] + below.pop("shift")
            return reference(below, *arrays.values())

        def loss(parameters: dict[str, Any]) -> Any:
            y = apply(parameters)
            return jnp.mean(y * jnp.cos(jnp.arange(y.size, dtype=jnp.float32).reshape(y.shape)))

        given = {k: jnp.asarray(v) for k, v in self.parameters.items()}
        with jax.default_matmul_precision("highest"):
            wanted, gradients = compiled(lambda p: (apply(p), jax.grad(loss)(p)))(given)
        for device in ("interp", "cpu"):
            close(self.output(device), wanted, tolerance, f"output on {device}")
            found = self.gradients(device)
            assert set(found) == set(gradients)
            # a gradient that vanishes (of an attention's key bias) is known to within the others'
            least = 0.1 * max(float(jnp.abs(g).max()) for g in gradients.values())
            for path, gradient in gradients.items():
                close(found[path], gradient, tolerance, f"{path} on {device}", least)


def _range(array: np.ndarray) -> str:
    if array.dtype == np.float32:
        return "(:normal 0 1)"
    return f"(:integers 0 {int(array.max()) + 1})"


def close(
    found: Any, wanted: Any, tolerance: float = 1e-5, what: str = "", least: float = 1e-3
) -> None:
    """Equal within the tolerance, relative to the largest magnitude (at least `least`)."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape, what
    scale = max(float(np.max(np.abs(wanted), initial=0.0)), least)
    np.testing.assert_allclose(found / scale, wanted / scale, rtol=0, atol=tolerance, err_msg=what)


@pytest.fixture(scope="session")
def probe() -> type[Probe]:
    return Probe


@pytest.fixture(scope="session")
def near() -> Callable[..., None]:
    return close


UPDATED = """
(require "sexpgpu/optim" :as optim)
(defloader train :source (synthetic 2 (x :f32 (3) (:normal 0 1))) :batch 2)
(defun prepare (batch) (field batch :x))
(defmodel m ()
  (defparam w (3 4) :init (random-normal shape))
  (defparam b (4) :init (random-normal shape))
  (forward (x) (+ (matmul x w) b)))
(defun objective (model x) (mean (funcall model x)))
(defrun m :model (m) :optimizer {optimizer} :steps 40)
"""


class Updates:
    """The update graphs of a file, run by hand as the loop does."""

    def __init__(self, optimizer: str, device: str) -> None:
        self.document = sx.compile_text(UPDATED.format(optimizer=optimizer)).document
        self.backend = open_backend(device)
        self.compiled: dict[str, Any] = {}
        self.states = {
            (path, s.name): self.call(s.init, {})["value"]
            for path, update in self.document.updates.items()
            for s in update.states
        }

    def call(self, name: str, given: dict[str, Any]) -> dict[str, np.ndarray]:
        graph = self.document.graphs[name]
        if name not in self.compiled:
            self.compiled[name] = self.backend.compile(
                lambda engine, tree: engine.call(graph, tree),
                [{n: v.type for n, v in graph.inputs.items()}],
                donate=(),
            )
        given = self.backend.put({n: given[n] for n in graph.inputs})
        return self.backend.get(self.compiled[name](given))

    def step(self, step: int, p: dict[str, Any], g: dict[str, Any]) -> dict[str, Any]:
        context = {"ctx/step": np.int32(step), "ctx/updates": np.int32(step)}
        given: dict[str, dict[str, Any]] = {}
        for group in self.document.groups:
            given[group.name] = dict(context)
            if group.hyper:
                found = self.call(group.hyper, context)
                given[group.name] |= {f"hyper/{k}": v for k, v in found.items()}
            members = [q for q, u in self.document.updates.items() if u.group == group.name]
            for k in range(len(self.document.updates[members[0]].sums) if members else 0):
                parts = [
                    self.call(
                        self.document.updates[q].sums[k],
                        {**given[group.name], **self.own(q), "p": p[q], "g": g[q]},
                    )["part"]
                    for q in members
                ]
                given[group.name][f"global/{k}"] = np.float32(sum(parts))
        new = {}
        for path, update in self.document.updates.items():
            inputs = {**given[update.group], **self.own(path), "p": p[path], "g": g[path]}
            found = self.call(update.graph, inputs)
            new[path] = found["p"]
            self.states |= {(path, s.name): found[f"state/{s.name}"] for s in update.states}
        return new

    def own(self, path: str) -> dict[str, Any]:
        return {f"state/{n}": v for (at, n), v in self.states.items() if at == path}

    def average(self, path: str, p: Any) -> Any:
        """What an evaluation would see for a parameter."""
        name = self.document.updates[path].average
        return self.call(name, {**self.own(path), "p": p})["p"]


@pytest.fixture(scope="session")
def updates() -> type[Updates]:
    return Updates

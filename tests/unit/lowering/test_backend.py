"""Opening devices, what a compiled step says of itself, and what the process keeps to itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

from sexpgpu import ops
from sexpgpu.diagnostics.codes.system import E_DEV_001
from sexpgpu.diagnostics.model import SxError
from sexpgpu.ir.types import TensorType
from sexpgpu.lowering.backend import open_backend
from sexpgpu.lowering.xla.backend import XlaBackend, cache_directory
from sexpgpu.lowering.xla.options import CpuTuning
from sexpgpu.passes.autodiff import gradients


def test_an_unknown_device() -> None:
    with pytest.raises(SxError) as caught:
        open_backend("tpu")
    assert caught.value.diagnostics[0].code is E_DEV_001


def test_cuda_where_there_is_none() -> None:
    try:
        has_cuda = bool(jax.devices("cuda"))
    except RuntimeError:
        has_cuda = False
    if has_cuda:
        assert open_backend("cuda").name == "cuda"
        return
    with pytest.raises(SxError) as caught:
        open_backend("cuda")
    diagnostic = caught.value.diagnostics[0]
    assert diagnostic.code is E_DEV_001
    assert diagnostic.headline.startswith("no CUDA device: ")


def test_auto_takes_what_there_is() -> None:
    assert open_backend("auto").name in ("cpu", "cuda")


def test_a_backend_describes_itself() -> None:
    for name in ("cpu", "interp"):
        backend = open_backend(name)
        said = backend.describe()
        assert said["device"] == backend.name == name
        assert said["count"] == 1
        assert said["numpy"] == np.__version__
        peak = backend.memory_peak()
        assert peak is not None
        assert peak > 1 << 20


def deep_graph(blocks: int):
    """tanh(x w) repeated, with boundaries, and its gradient."""
    b = ops.new_builder()
    x = start = b.input("x", TensorType((8, 16), "f32", 0))
    w = b.input("w", TensorType((16, 16), "f32"))
    dims = {"a_contract": (1,), "b_contract": (0,), "a_batch": (), "b_batch": ()}
    for i in range(blocks):
        y = b.emit("tanh", b.emit("dot", x, w, **dims, accumulate=None, mode="highest"))
        x = b.emit("boundary", b.emit("add", x, y), key=f"body/{i}")
    loss = b.emit("sum", x, axes=(0, 1))
    one = b.emit("full", shape=(), value=1.0, dtype="f32", batch=None)
    dx, dw = gradients(b, [(loss, one)], [start, w])
    assert dx is not None
    assert dw is not None
    return b.finish("deep", {"loss": loss, "dx": dx, "dw": dw})


def test_the_fence_changes_no_value_and_can_be_left_out() -> None:
    graph = deep_graph(3)
    rng = np.random.default_rng(0)
    inputs = {
        "x": rng.normal(size=(8, 16)).astype(np.float32),
        "w": rng.normal(size=(16, 16)).astype(np.float32) / 8,
    }
    want = open_backend("interp").compile(lambda e, i: e.call(graph, i), ())(inputs)
    fences = []
    for fence in (True, False):
        backend = XlaBackend("cpu", jax.devices("cpu"), tuning=CpuTuning(fence=fence))
        compiled = backend.compile(lambda e, i: e.call(graph, i), (inputs,), donate=())
        fences.append(compiled.text().count("conditional("))
        got = backend.get(compiled(backend.put(inputs)))
        for name, value in want.items():
            np.testing.assert_allclose(got[name], value, rtol=2e-5, atol=2e-5)
    assert fences == [3, 0], "one conditional a boundary of the backward pass, none without"


def test_a_compiled_step_accounts_for_itself() -> None:
    graph = deep_graph(2)
    backend = open_backend("cpu")
    example = {"x": TensorType((8, 16), "f32"), "w": TensorType((16, 16), "f32")}
    compiled = backend.compile(lambda e, i: e.call(graph, i), (example,), donate=())
    cost, memory = compiled.cost(), compiled.memory()
    assert cost is not None
    assert cost["flops"] >= 2 * 3 * 2 * 8 * 16 * 16 * 0.9
    assert memory is not None
    assert memory["argument"] >= 4 * (8 * 16 + 16 * 16)
    assert memory["total"] == (
        memory["argument"] + memory["output"] - memory["alias"] + memory["temp"]
    )
    assert set(compiled.seconds) == {"trace", "lower", "compile"}
    assert all(value > 0 for value in compiled.seconds.values())
    assert "ENTRY" in compiled.text()


@pytest.fixture
def no_cache():
    """A cached executable has the names of the process that made it."""
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()  # jax asks once only whether it has one
    yield
    jax.config.update("jax_enable_compilation_cache", True)
    compilation_cache.reset_cache()


@pytest.mark.usefixtures("no_cache")
def test_node_names_reach_the_executable_and_change_nothing_else() -> None:
    graph = deep_graph(2)
    example = {"x": TensorType((8, 16), "f32"), "w": TensorType((16, 16), "f32")}
    texts = []
    for names in (True, False):
        backend = XlaBackend("cpu", jax.devices("cpu"), names=names)
        text = backend.compile(lambda e, i: e.call(graph, i), (example,), donate=()).text()
        assert ("deep/n0/" in text) == names
        code = re.sub(r", metadata=\{[^}]*\}", "", text[text.index("ENTRY") :])
        texts.append(re.sub(r"[%\w.-]+(?= = |[,)])", "", code))
    assert texts[0] == texts[1]


def test_donated_arrays_are_gone_and_others_stay() -> None:
    backend = open_backend("cpu")

    def step(engine, state, batch):
        return {"w": engine.add(state["w"], batch)}

    state, batch = backend.put({"w": np.ones(4, np.float32)}), backend.put(np.ones(4, np.float32))
    compiled = backend.compile(step, (state, batch))
    new = backend.block(compiled(state, batch))
    np.testing.assert_array_equal(backend.get(new)["w"], 2)
    assert state["w"].is_deleted()
    np.testing.assert_array_equal(backend.get(batch), 1)


def test_64_bit_dtypes_stay_ours() -> None:
    """They work in our steps; the process's own jax code sees 32 bits, as before."""
    backend = open_backend("cpu")
    x = backend.put(np.array([2**40], np.int64))
    assert x.dtype == np.int64
    compiled = backend.compile(lambda e, x: e.add(x, e.scalar(1, "i64")), (x,), donate=())
    assert int(backend.get(compiled(x))[0]) == 2**40 + 1
    assert jax.numpy.asarray(np.zeros(1, np.float64)).dtype == np.float32


def test_where_the_cache_is() -> None:
    assert cache_directory({"SEXPGPU_CACHE": "/c"}) == Path("/c")
    assert cache_directory({"SEXPGPU_CACHE": ""}) is None
    assert cache_directory({"XDG_CACHE_HOME": "/x"}) == Path("/x/sexpgpu")
    assert cache_directory({}) == Path.home() / ".cache" / "sexpgpu"


_COMPILE = """
import numpy as np
from sexpgpu.lowering.backend import open_backend
backend = open_backend("cpu")
backend.compile(lambda e, x: e.mul(x, e.scalar(3, "f32")), (np.ones(3, np.float32),), donate=())
"""


def test_executables_are_kept_in_the_cache(tmp_path: Path) -> None:
    environment = {**os.environ, "SEXPGPU_CACHE": str(tmp_path / "cache"), "JAX_PLATFORMS": "cpu"}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", _COMPILE],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
    files = list((tmp_path / "cache").rglob("*-cache"))
    assert len(files) == 1, "the second process found the first one's executable"


_NO_JAX = """
import sys
from sexpgpu.lowering.backend import open_backend
open_backend("interp")
assert "jax" not in sys.modules
"""


def test_the_interpreter_loads_no_jax() -> None:
    subprocess.run([sys.executable, "-c", _NO_JAX], check=True)

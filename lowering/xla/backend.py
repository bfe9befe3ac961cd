"""XLA devices: the process's set-up, compilation, and moving arrays.

jax is set up without touching what a notebook's own jax code sees: 64-bit dtypes are enabled only
around our traces and transfers, compiler flags go with each compilation, the platform is chosen
only where jax was not loaded before.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sexpgpu.diagnostics.codes.system import E_DEV_001
from sexpgpu.diagnostics.model import Diagnostic, SxError
from sexpgpu.lowering.backend import Tree
from sexpgpu.lowering.memory import process_memory_peak
from sexpgpu.lowering.xla.options import CpuTuning, Lowering, compiler_options

_JAX_LOADED_BEFORE = "jax" in sys.modules

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jaxlib.version import __version__ as jaxlib_version  # noqa: E402

from sexpgpu.lowering.xla.evaluate import Watch  # noqa: E402
from sexpgpu.lowering.xla.tracing import ZERO, trace  # noqa: E402

CACHE_VARIABLE = "SEXPGPU_CACHE"  # a directory; empty: no compilation cache


def open_xla(device: str, *, deterministic: bool = True) -> XlaBackend:
    """The backend of `auto`, `cpu` or `cuda`. Raises SxError E-DEV-001."""
    _use_compilation_cache()
    if device == "cpu" and not _JAX_LOADED_BEFORE and not os.environ.get("JAX_PLATFORMS"):
        jax.config.update("jax_platforms", "cpu")  # else jax takes most of a GPU's memory, too
    if device in ("auto", "cuda"):
        cuda = _local_devices("cuda")
        if cuda:
            return XlaBackend("cuda", cuda, deterministic=deterministic)
        if device == "cuda":
            raise SxError(Diagnostic(E_DEV_001, f"no CUDA device: {_why_no_cuda()}"))
    cpu = _local_devices("cpu")
    if not cpu:
        raise SxError(
            Diagnostic(
                E_DEV_001,
                "jax offers no CPU device",
                fix="unset JAX_PLATFORMS, or add cpu to it",
            )
        )
    return XlaBackend("cpu", cpu, deterministic=deterministic)


def _setting(name: str) -> Any:
    return getattr(jax.config, name)


def _local_devices(platform: str) -> list[Any]:
    try:
        return list(jax.local_devices(backend=platform))
    except RuntimeError:  # jax's way to say that it has no such backend
        return []


def _why_no_cuda() -> str:
    platforms = os.environ.get("JAX_PLATFORMS") or _setting("jax_platforms")
    if platforms and "cuda" not in platforms and "gpu" not in platforms:
        return f"jax is restricted to {platforms} (JAX_PLATFORMS)"
    from importlib.util import find_spec

    if not any(find_spec(f"jax_cuda{version}_plugin") for version in (13, 12)):
        return "jax is installed without CUDA support (pip install 'sexpgpu[cuda]')"
    if not os.path.exists("/dev/nvidiactl"):
        return "no NVIDIA driver is loaded"
    return "jax cannot use the NVIDIA driver that is loaded"


def cache_directory(environment: Mapping[str, str] | None = None) -> Path | None:
    """Where compiled steps are kept; None: nowhere."""
    environment = os.environ if environment is None else environment
    chosen = environment.get(CACHE_VARIABLE)
    if chosen is not None:
        return Path(chosen).expanduser() if chosen else None
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sexpgpu"


def _use_compilation_cache() -> None:
    """jax keeps every executable, unless the process has a cache of its own."""
    directory = cache_directory()
    if directory is None or _setting("jax_compilation_cache_dir"):
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # without a cache every start compiles again; `doctor` says so
    jax.config.update("jax_compilation_cache_dir", str(directory))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


class XlaBackend:
    """One CPU or CUDA device of this process."""

    def __init__(
        self,
        name: str,
        devices: Sequence[Any],
        *,
        deterministic: bool = True,
        tuning: CpuTuning | None = None,
        names: bool = True,
    ) -> None:
        self.name = name
        self.devices = list(devices)
        self.deterministic = deterministic
        self.tuning = (tuning or CpuTuning()) if name == "cpu" else None
        self.names = names
        capability = getattr(self.devices[0], "compute_capability", None)
        self.capability = None if capability is None else float(capability)
        self._sharding = jax.sharding.SingleDeviceSharding(self.devices[0])
        self._zero = self.put(ZERO)

    def compile(
        self,
        function: Callable[..., Tree],
        examples: Sequence[Tree],
        donate: Sequence[int] = (0,),
        *,
        watch: Watch | None = None,
    ) -> XlaCompiled:
        lowering = Lowering(self.tuning, None, self.name, self.capability)
        options = compiler_options(self.name, self.deterministic)
        clock = [time.perf_counter()]
        with jax.enable_x64(True), warnings.catch_warnings():
            # a donated array that no result has the shape of: nothing the user can mend
            warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
            traced = trace(
                function, examples, donate, lowering, self._sharding, watch=watch, names=self.names
            )
            clock.append(time.perf_counter())
            lowered = traced.lower()
            clock.append(time.perf_counter())
            compiled = lowered.compile(compiler_options=options)
            clock.append(time.perf_counter())
        parts = ("trace", "lower", "compile")
        seconds = {k: b - a for k, a, b in zip(parts, clock, clock[1:], strict=False)}
        return XlaCompiled(compiled, self._zero, seconds)

    def put(self, tree: Tree) -> Tree:
        with jax.enable_x64(True):
            return jax.device_put(tree, self._sharding)

    def stage(self, tree: Tree) -> Tree:
        return tree if self.name == "cpu" else self.put(tree)

    def get(self, tree: Tree) -> Tree:
        return jax.tree.map(np.asarray, tree)

    def snapshot(self, tree: Tree) -> Callable[[], Tree]:
        if self.name == "cpu":
            # its arrays are seen in place, and the next step writes to what it is given
            views = self.get(tree)
            copies = jax.tree.map(np.empty_like, views)
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                list(pool.map(np.copyto, jax.tree.leaves(copies), jax.tree.leaves(views)))
            return lambda: copies
        if self._has_room_for(tree):
            # a copy on the device takes a thousandth of the way to the host
            with jax.enable_x64(True):
                copies = jax.tree.map(lambda x: x.copy(), tree)
            return lambda: self.get(copies)
        now = self.get(tree)
        return lambda: now

    def _has_room_for(self, tree: Tree) -> bool:
        """Whether the device's memory holds the tree once more, at its fullest."""
        stats = self.devices[0].memory_stats() or {}
        limit = stats.get("bytes_limit")
        size = sum(x.nbytes for x in jax.tree.leaves(tree))
        return limit is not None and stats.get("peak_bytes_in_use", limit) + size < 0.95 * limit

    def block(self, tree: Tree) -> Tree:
        return jax.block_until_ready(tree)

    def memory_peak(self) -> int | None:
        if self.name == "cpu":
            return process_memory_peak()
        stats = self.devices[0].memory_stats() or {}
        peak = stats.get("peak_bytes_in_use")
        return None if peak is None else int(peak)

    def profile(self, directory: str) -> Callable[[], None]:
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0  # the loop's own calls would be nearly all of it
        jax.profiler.start_trace(directory, profiler_options=options)
        return jax.profiler.stop_trace

    def describe(self) -> dict[str, Any]:
        return {
            "device": self.name,
            "kind": self.devices[0].device_kind,
            "count": len(self.devices),
            "deterministic": self.deterministic,
            "jax": jax.__version__,
            "jaxlib": jaxlib_version,
            "numpy": np.__version__,
        }


class XlaCompiled:
    """One executable."""

    def __init__(
        self, compiled: jax.stages.Compiled, zero: jax.Array, seconds: Mapping[str, float]
    ) -> None:
        self._compiled = compiled
        self._zero = zero
        self.seconds = seconds

    def __call__(self, *trees: Tree) -> Tree:
        with jax.enable_x64(True):
            return self._compiled(self._zero, *trees)

    def cost(self) -> dict[str, float] | None:
        found = self._compiled.cost_analysis()
        if not found:
            return None
        return {
            "flops": float(found.get("flops", 0.0)),
            "bytes": float(found.get("bytes accessed", 0.0)),
        }

    def memory(self) -> dict[str, int] | None:
        return planned_memory(self._compiled)

    def text(self) -> str:
        return self._compiled.as_text() or ""


def planned_memory(compiled: jax.stages.Compiled) -> dict[str, int] | None:
    """`Compiled.memory` of an executable of jax."""
    plan = compiled.memory_analysis()
    if plan is None:
        return None
    parts = {
        "argument": plan.argument_size_in_bytes,
        "output": plan.output_size_in_bytes,
        "alias": plan.alias_size_in_bytes,
        "temp": plan.temp_size_in_bytes,
    }
    # the plan's own peak leaves the temporaries out where arguments are donated
    total = parts["argument"] + parts["output"] - parts["alias"] + parts["temp"]
    return {**parts, "total": total}

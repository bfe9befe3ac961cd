"""The device that a report is compiled for: this machine's, or a GPU that is only described.

XLA's GPU compiler needs no GPU, only the facts about one: `h200.txtpb` has those of an H200, from
NVIDIA's data sheet and what its driver reports, as a GpuTargetConfigProto of XLA. What only a
device can tell is missing: nothing is timed, so products are not given to cuBLAS but to XLA's own
kernels, and workspaces of cuDNN are not counted. `jax.experimental.topologies` is no stable
interface: whatever goes wrong in it is a RuntimeError with a reason, never a failed report.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import jax

GPU = "h200"
DRIVER = "/dev/nvidiactl"
VERSIONS = ("13", "12")  # of CUDA, the newest first
PLUGIN = "pip install 'sexpgpu[cuda-report]'"


class Target(NamedTuple):
    """A jax device (perhaps one that can only be compiled for), its compute capability, and what
    to call it."""

    device: Any
    capability: float | None
    name: str


def compile_target(platform: str) -> Target:
    """What to compile for on `cpu` or `cuda`. RuntimeError where this machine can do neither."""
    plugin = next((v for v in VERSIONS if find_spec(f"jax_cuda{v}_plugin")), None)
    if plugin and not os.path.exists(DRIVER) and not os.environ.get("JAX_PLATFORMS"):
        jax.config.update("jax_platforms", "cpu")  # else the plugin looks for a GPU, and complains
    if platform == "cpu":
        return Target(jax.local_devices(backend="cpu")[0], None, "this machine's CPU")
    try:
        device = jax.local_devices(backend="cuda")[0]
    except RuntimeError:  # jax's way to say that it has no such backend
        if plugin is None:
            raise RuntimeError(f"jax's compiler for CUDA is not installed: {PLUGIN}") from None
        return _described()
    return Target(device, float(device.compute_capability), f"this machine's {device.device_kind}")


def _described() -> Target:
    from jax.experimental import topologies

    config = (Path(__file__).parent / f"{GPU}.txtpb").read_text(encoding="utf-8")
    try:
        described = topologies.get_topology_desc(
            platform="cuda", target_config=config, topology="1x1x1"
        )
        device = described.devices[0]
    except Exception as error:  # noqa: BLE001 - see the module's docstring
        told = str(error).strip().splitlines() or [type(error).__name__]
        raise RuntimeError(
            f"this jax cannot compile for a GPU it does not have: {told[0]}"
        ) from None
    return Target(device, 9.0, "an NVIDIA H200, described (no GPU here: nothing is timed)")

"""What is measured: a table of jobs, each the product and its peers on the same batches.

A job names the run file and knobs of the product, and the command of each peer. The words JAX and
TORCH stand for the interpreters that have jax with optax, and torch.
"""

from __future__ import annotations

from typing import NamedTuple

HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


class Peer(NamedTuple):
    """A program written by hand. `caches`: it keeps what it compiled in PEERS_CACHE, so that a warm
    start is measured as well."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str] = {}
    caches: bool = True


class Job(NamedTuple):
    """One comparison. `data` is what `data.py` makes batches of; `steps` are timed, after one
    first step and `warmup` more; the first peer is what ratios are taken to."""

    name: str
    file: str
    data: str
    knobs: dict[str, str | int]
    steps: int
    warmup: int
    peers: tuple[Peer, ...]
    device: str = "auto"


def _gpt(size: str, *more: str) -> tuple[str, ...]:
    return ("JAX", "jax_gpt.py", "--size", size, *more)


def _tuned(size: str, *more: str) -> Peer:
    command = _gpt(size, "--wgrad", "direct", "--fence", *more)
    return Peer("jax tuned by hand", command, HUGE_PAGES)


def _torch(size: str, *more: str) -> Peer:
    return Peer("torch", ("TORCH", "torch_gpt.py", "--size", size, *more), caches=False)


NANO = {"layers": 4, "heads": 4, "width": 128, "context": 128, "batch": 16}
MICRO = {"layers": 6, "heads": 6, "width": 384, "context": 256, "batch": 12}
BF16 = ("--precision", "bf16")

JOBS = (
    Job("nano f32", "gpt.sx", "nano", NANO, 32, 7,
        (Peer("jax", _gpt("nano")), _tuned("nano"), _torch("nano"))),
    Job("micro f32", "gpt.sx", "micro", MICRO, 8, 7,
        (Peer("jax", _gpt("micro")), _tuned("micro"), _torch("micro"))),
    Job("nano bf16", "gpt.sx", "nano", {**NANO, "precision": ":bf16"}, 32, 7,
        (Peer("jax", _gpt("nano", *BF16)), _tuned("nano", *BF16), _torch("nano", *BF16))),
    Job("mlp", "mlp.sx", "mlp", {}, 192, 7, (Peer("jax", ("JAX", "jax_mlp.py")),)),
    Job("mlp, numpy", "mlp.sx", "mlp", {}, 64, 7,
        (Peer("numpy", ("JAX", "numpy_mlp.py"), caches=False),), device="interp"),
    Job("conv", "conv.sx", "conv", {}, 32, 7,
        (Peer("jax", ("JAX", "jax_conv.py")),
         Peer("jax tuned by hand", ("JAX", "jax_conv.py", "--impl", "tuned"), HUGE_PAGES))),
    Job("nano, 24 layers", "gpt.sx", "nano", {**NANO, "layers": 24}, 8, 7,
        (Peer("jax", _gpt("nano", "--depth", "24")),
         Peer("jax scan", _gpt("nano", "--depth", "24", "--scan-layers"), HUGE_PAGES),
         _tuned("nano", "--depth", "24"))),
)  # fmt: skip

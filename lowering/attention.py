"""How a device computes an attention: the choice, with its reason. Imports no backend.

    plain    the scores [B,H,T,S] are held whole, and the weights kept for the gradient: the fastest
             while they fit the caches
    chunked  blocks of queries by blocks of keys, with a running maximum and sum (Milakov and
             Gimelshein, 2018; Rabe and Staats, 2021): memory is linear in T and S, blocks that a
             causal mask or a window hides are not computed, and the gradient computes the weights
             again (Dao et al., 2022)
    flash    cuDNN's fused kernels

`explain` reports the choice, the lax rules make it.
"""

from __future__ import annotations

from typing import NamedTuple

from sexpgpu.ir.graph import Attrs
from sexpgpu.ir.types import TensorType

# Scores of all heads, and positions, up to which holding them whole is the faster.
WHOLE = {"cpu": (1 << 18, 64), "cuda": (1 << 26, 1024)}
# Scores in a block of all heads together (128 KiB in f32 on CPU: its caches), and the positions of
# the smallest and the largest block.
BLOCK_SCORES = {"cpu": 1 << 15, "cuda": 1 << 24}
BLOCKS = {"cpu": (64, 128), "cuda": (256, 1024)}
FLASH_HEAD = 128  # the largest head of cuDNN's kernels; from compute capability 9.0 on twice that
HOPPER = 9.0


class Choice(NamedTuple):
    """`way`: plain, chunked or flash; `why` is a clause. `block`: positions, of chunked."""

    way: str
    why: str
    block: int = 0


def choose(
    device: str,
    q: TensorType,
    k: TensorType,
    attrs: Attrs,
    capability: float | None = None,
    cudnn: bool = True,
) -> Choice:
    """The way of a device (cpu, cuda) for queries [B,T,H,D] and keys [B,S,K,D].

    `capability`: the compute capability of the GPU, None where it is not known; `cudnn`: whether
    it may be used."""
    batch, queries, heads, _ = q.shape
    scores = batch * heads * queries * k.shape[1]
    obstacle = "" if cudnn else "cuDNN is not used"
    if device == "cuda" and cudnn:
        obstacle = _no_flash(q, k, attrs, capability)
    if device == "cuda" and not obstacle:
        return Choice("flash", f"{q.dtype}, and masks that cuDNN knows")
    most, short = WHOLE[device]
    length = max(queries, k.shape[1])
    if length <= short or scores <= most:
        return Choice("plain", _because(obstacle, f"{scores:,} scores"))
    block = block_of(device, batch * heads, length)
    return Choice("chunked", _because(obstacle, f"{scores:,} scores, in blocks of {block}"), block)


def block_of(device: str, heads: int, length: int) -> int:
    """Positions in a block: as many as keep the scores of all heads in fast memory."""
    least, block = BLOCKS[device]
    while block > least and (heads * block * block > BLOCK_SCORES[device] or block > length):
        block //= 2
    return block


def _because(obstacle: str, why: str) -> str:
    return f"{why}; {obstacle}" if obstacle else why


def _no_flash(q: TensorType, k: TensorType, attrs: Attrs, capability: float | None) -> str:
    """Why cuDNN cannot; empty where it can."""
    size = q.shape[3]
    most = FLASH_HEAD if capability is None or capability < HOPPER else 2 * FLASH_HEAD
    if q.dtype not in ("bf16", "f16"):
        return f"cuDNN takes bf16 and f16, not {q.dtype}"
    if size > most or size % 8:
        return f"cuDNN takes heads up to {most} that 8 divides, not {size}"
    for key, what in (("bias", "an f32 bias"), ("mask", "a mask"), ("segments", "segments")):
        if attrs[key]:
            return f"cuDNN knows no exact form of {what}"
    if attrs["softcap"] is not None:
        return "cuDNN knows no softcap"
    if attrs["window"] is not None and not attrs["causal"]:
        return "cuDNN knows a window only of what is before"
    if attrs["causal"] and q.shape[1] != k.shape[1]:
        return "cuDNN aligns a causal mask at the first key, not at the last"
    if attrs.get("lse_cotangent"):
        return "cuDNN gives no derivative of the log-sum-exp"
    if not q.shape[1] or not k.shape[1]:
        return "there is nothing to attend to"
    return ""

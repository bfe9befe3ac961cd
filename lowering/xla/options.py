"""Every choice of the lowering that depends on the device, in one place.

They were measured on XLA:CPU, whose fusion recomputes producers and whose convolutions and 16-bit
dots are slow. On a GPU the plain form of each op is the right one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jax import lax

PRECISION = {"highest": lax.Precision.HIGHEST, "tf32": lax.Precision.DEFAULT}
"""The `mode` of a product -> how XLA may round its f32 operands."""


class CpuTuning(NamedTuple):
    """What XLA:CPU is given in place of the plain form of an op.

    fence          the gradient between repeated blocks passes through a conditional that XLA
                   cannot see through: else its fusion recomputes the gradient of every later
                   block in each block, and cost grows with the square of the depth
                   (`optimization_barrier` is dropped before fusion)
    patches_conv   a convolution is a product with the patches of its input, and the weight
                   gradient patches^T.dy
    patches_limit  bytes of patches above which the plain convolution is used after all
    widen_halves   16-bit operands of products are raised to f32 (exact, and the accumulation is
                   in f32 anyway): bf16 x bf16 -> f32 has no implementation in larger graphs
    packed_sort    elements of up to 32 bits are sorted as integers that hold their places, too
    """

    fence: bool = True
    patches_conv: bool = True
    patches_limit: int = 1 << 29
    widen_halves: bool = True
    packed_sort: bool = True


class Lowering(NamedTuple):
    """What a rule may know besides its operands.

    tuning          None except on CPU
    pred            on CPU a bool scalar that is true at run time and that no compiler knows to be
    device          cpu or cuda
    capability      the GPU's compute capability, such as 9.0; None where it is not known
    cudnn           whether attention may be given to cuDNN (False in reports without it)
    attention_block positions of a block of attention, in place of the choice by size
    kept            what the attentions of this trace leave to their gradients, by their `lse`
    """

    tuning: CpuTuning | None = None
    pred: Any = None
    device: str = "cpu"
    capability: float | None = None
    cudnn: bool = True
    attention_block: int = 0
    kept: dict[int, Any] | None = None


PLAIN = Lowering()

# Rounding to a 16-bit dtype is part of a graph's meaning.
_OPTIONS: dict[str, Any] = {"xla_allow_excess_precision": False}
# No kernel whose sums come in another order each time, no choice of kernels by stopwatch.
_DETERMINISTIC: dict[str, Any] = {
    "xla_gpu_deterministic_ops": True,
    "xla_gpu_exclude_nondeterministic_ops": True,
}


def compiler_options(device: str, deterministic: bool = True) -> dict[str, Any]:
    """What XLA is told for a device (cpu, cuda)."""
    if device == "cuda" and deterministic:
        return {**_OPTIONS, **_DETERMINISTIC}
    return dict(_OPTIONS)

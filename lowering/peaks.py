"""What devices can do at most, for MFU: dense multiply-adds a second, in FLOPs (a multiply-add is
two), from their makers' data sheets (without sparsity).

A device that is not listed, and any CPU, has no known peak: `--peak-flops` gives one.
"""

from __future__ import annotations

# A part of the device's kind as jax reports it -> (bf16 or f16, f32: TF32 where the maker has it).
# The first that matches counts, so the longer names come first.
_PEAKS: tuple[tuple[str, float, float], ...] = (
    ("GB200", 2.25e15, 1.1e15),
    ("B200", 2.25e15, 1.1e15),
    ("GH200", 9.89e14, 4.945e14),
    ("H200", 9.89e14, 4.945e14),
    ("H100 PCIe", 7.56e14, 3.78e14),
    ("H100 NVL", 8.35e14, 4.175e14),
    ("H100", 9.89e14, 4.945e14),
    ("A100", 3.12e14, 1.56e14),
    ("A10G", 7.0e13, 3.5e13),
    ("A10", 1.25e14, 6.25e13),
    ("A30", 1.65e14, 8.2e13),
    ("A40", 1.497e14, 7.48e13),
    ("L40S", 3.62e14, 1.83e14),
    ("L40", 1.81e14, 9.05e13),
    ("L4", 1.21e14, 6.0e13),
    ("V100", 1.25e14, 1.57e13),
    ("T4", 6.5e13, 8.1e12),
    ("RTX 4090", 1.65e14, 8.26e13),
    ("RTX 3090", 7.1e13, 3.56e13),
)


def peak_flops(kind: str, precision: str) -> float | None:
    """FLOPs a second of one device in a run's precision; None where not known.

    f32 products run on the tensor cores only where TF32 is allowed, which it is not by default:
    MFU of an f32 run is against what the device could do in TF32.
    """
    for name, half, single in _PEAKS:
        if name in kind:
            return single if precision == "f32" else half
    return None

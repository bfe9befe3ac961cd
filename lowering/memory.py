"""The host's memory: huge pages for a training process on Linux, and how much it took.

XLA:CPU allocates its temporary arena anew at each execution and frees it again, so every step
pays a page fault per 4 KiB of it. glibc (2.35 and later) backs malloc with transparent huge pages
when GLIBC_TUNABLES says so, but reads that only when a process starts: the command line calls
`training_environment` first thing and, where it gives one, executes itself again with it.

Imports nothing heavy: it runs before jax and numpy are loaded.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Mapping

TUNABLES = "GLIBC_TUNABLES"
HUGE_PAGES = "glibc.malloc.hugetlb"
_THP_SWITCH = "/sys/kernel/mm/transparent_hugepage/enabled"
_CUDA_DEVICE = "/dev/nvidiactl"


def training_environment(
    device: str,
    environment: Mapping[str, str] | None = None,
    *,
    platform: str = sys.platform,
    libc: str | None = None,
    thp_switch: str = _THP_SWITCH,
    cuda_device: str = _CUDA_DEVICE,
) -> dict[str, str] | None:
    """The environment a training process should be executed again with; None: stay as it is.

    `device` is the command line's ("auto" counts as "cpu" where no CUDA driver is loaded).
    None also where the variable is set already (so a process never executes itself twice), the C
    library is not a glibc that knows it, or the kernel has huge pages switched off.
    The keyword arguments are the probes, for tests.
    """
    environment = os.environ if environment is None else environment
    if device == "auto":
        device = "cuda" if os.path.exists(cuda_device) else "cpu"
    tunables = environment.get(TUNABLES, "")
    if (
        device != "cpu"
        or platform != "linux"
        or HUGE_PAGES in tunables
        or not _knows_huge_pages(_libc_version() if libc is None else libc)
        or not _huge_pages_allowed(thp_switch)
    ):
        return None
    setting = f"{HUGE_PAGES}=1"
    return {**environment, TUNABLES: f"{tunables}:{setting}" if tunables else setting}


def _libc_version() -> str:
    """As `glibc 2.36`; empty for another C library."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError, AttributeError):
        return ""


def _knows_huge_pages(libc: str) -> bool:
    name, _, version = libc.partition(" ")
    major, _, minor = version.partition(".")
    if name != "glibc" or not major.isdigit() or not minor.split(".")[0].isdigit():
        return False
    return (int(major), int(minor.split(".")[0])) >= (2, 35)


def _huge_pages_allowed(switch: str) -> bool:
    """Whether the kernel gives huge pages to who asks (`always` or `madvise` chosen)."""
    try:
        with open(switch, encoding="ascii") as file:
            return "[never]" not in file.read()
    except OSError:
        return False


def process_memory_peak() -> int:
    """The process's largest resident set so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024

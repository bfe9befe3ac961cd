"""Which environment a training process is executed again with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sexpgpu.lowering.memory import training_environment

WANTED = "glibc.malloc.hugetlb=1"


@pytest.fixture
def probes(tmp_path: Path) -> dict[str, str]:
    """A Linux with glibc 2.36 and huge pages on request, without a GPU."""
    switch = tmp_path / "enabled"
    switch.write_text("always [madvise] never\n")
    return {
        "platform": "linux",
        "libc": "glibc 2.36",
        "thp_switch": str(switch),
        "cuda_device": str(tmp_path / "nvidiactl"),
    }


def test_cpu_on_linux_gets_huge_pages(probes) -> None:
    for device in ("cpu", "auto"):
        made = training_environment(device, {"HOME": "/h"}, **probes)
        assert made == {"HOME": "/h", "GLIBC_TUNABLES": WANTED}


def test_other_tunables_are_kept(probes) -> None:
    made = training_environment("cpu", {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"}, **probes)
    assert made == {"GLIBC_TUNABLES": f"glibc.malloc.arena_max=1:{WANTED}"}


def test_a_process_is_never_executed_twice(probes) -> None:
    made = training_environment("cpu", {}, **probes)
    assert made is not None
    assert training_environment("cpu", made, **probes) is None
    assert (
        training_environment("cpu", {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=0"}, **probes) is None
    )


@pytest.mark.parametrize("device", ["cuda", "interp"])
def test_other_devices_stay_as_they_are(probes, device: str) -> None:
    assert training_environment(device, {}, **probes) is None


def test_auto_with_a_gpu_stays_as_it_is(probes) -> None:
    Path(probes["cuda_device"]).touch()
    assert training_environment("auto", {}, **probes) is None


@pytest.mark.parametrize(
    "change",
    [{"platform": "darwin"}, {"libc": "glibc 2.34"}, {"libc": ""}, {"libc": "musl 1.2"},
     {"thp_switch": "/nonexistent"}],
)  # fmt: skip
def test_where_it_cannot_help_nothing_changes(probes, change: dict[str, str]) -> None:
    assert training_environment("cpu", {}, **{**probes, **change}) is None


def test_a_kernel_that_forbids_huge_pages(probes) -> None:
    Path(probes["thp_switch"]).write_text("always madvise [never]\n")
    assert training_environment("cpu", {}, **probes) is None


def test_it_loads_nothing_heavy() -> None:
    code = (
        "import sys, sexpgpu.lowering.memory as m; m.training_environment('cpu');"
        "heavy = {'jax', 'numpy', 'ml_dtypes'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_bare_name_is_refused() -> None:
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", "import lowering"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "import sexpgpu.lowering" in done.stderr

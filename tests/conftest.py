"""What every test stands on: a fixed hypothesis profile, golden files, the GPU mark."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Callable

sys.path.insert(0, str(Path(__file__).parent))  # for `reference_programs`

# Two dtypes that meet without being told to are an error in our own lowering.
os.environ.setdefault("JAX_NUMPY_DTYPE_PROMOTION", "strict")

# One compilation cache for the whole test run, shared by its workers and by the processes that
# tests start, and never the user's own.
if "SEXPGPU_CACHE" not in os.environ:
    os.environ["SEXPGPU_CACHE"] = tempfile.mkdtemp(prefix="sexpgpu-test-cache-")
    atexit.register(shutil.rmtree, os.environ["SEXPGPU_CACHE"], ignore_errors=True)

# The processes that tests start find the package compiled, whatever this one was told.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell that runs the suite in the background has it ignore interrupts, `nohup` the end of the
# terminal, and so would the processes that tests start and send those signals.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

settings.register_profile(
    "fixed",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fixed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write golden files instead of comparing"
    )
    parser.addoption(
        "--hot", action="store_true", help="Lisp runs as generated Python from its first call on"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--hot"):
        from sexpgpu.lisp.tiers import THRESHOLDS

        THRESHOLDS.calls = THRESHOLDS.turns = 0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not has_cuda():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def has_cuda() -> bool:
    """Whether jax finds a CUDA device; asked only when a test needs one."""
    import jax

    try:
        return bool(jax.devices("cuda"))
    except RuntimeError:
        return False


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compares a text with a golden file, or writes it under `--update-golden`."""
    update = request.config.getoption("--update-golden")

    def compare(path: Path, text: str) -> None:
        if update:
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"{path.name} is missing: run pytest --update-golden"
        assert text == path.read_text(encoding="utf-8")

    return compare

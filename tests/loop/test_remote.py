"""Data behind URLs: fetched once, tried again where that may help, final errors at once."""

import errno
from pathlib import Path

import fsspec
import numpy as np
import pytest
from loop_documents import columns, make, run

from sexpgpu.diagnostics.model import SxError
from sexpgpu.loop.data import remote


class Clock:
    """Time that passes only in pauses."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def __call__(self) -> float:
        return self.now


class HttpError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status}}


def retried(errors: list[Exception], deadline: float = 60.0) -> tuple[object, Clock]:
    clock = Clock()
    left = list(errors)

    def action() -> str:
        if left:
            raise left.pop(0)
        return "read"

    result: object
    try:
        result = remote.retried("s3://b/x", action, deadline, clock.pause, clock)
    except SxError as error:
        result = error.diagnostics[0].code.id
    return result, clock


def test_what_may_pass_is_tried_again() -> None:
    result, clock = retried(
        [HttpError(503), ConnectionResetError(), TimeoutError(), HttpError(500)]
    )
    assert result == "read"
    assert clock.pauses == [0.5, 1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    "error, code",
    [
        (HttpError(404), "E-STORE-001"),
        (HttpError(403), "E-STORE-002"),
        (FileNotFoundError(), "E-STORE-001"),
        (PermissionError(), "E-STORE-002"),
        (OSError(errno.ENOSPC, "full"), "E-STORE-004"),
    ],
)
def test_what_is_final_fails_at_once(error: Exception, code: str) -> None:
    result, clock = retried([error])
    assert result == code
    assert clock.pauses == []


def test_the_deadline() -> None:
    result, clock = retried([HttpError(503)] * 1000)
    assert result == "E-STORE-003"
    assert 30 < clock.now <= 60


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEXPGPU_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_training_from_a_url_is_training_from_files(cache: Path, tmp_path: Path) -> None:
    arrays = columns(50)
    memory = fsspec.filesystem("memory")
    for name, part in (("b", slice(20, 50)), ("a", slice(0, 20))):
        np.savez(tmp_path / f"{name}.npz", **{k: v[part] for k, v in arrays.items()})
        memory.pipe_file(f"/bucket/{name}.npz", (tmp_path / f"{name}.npz").read_bytes())
    results = []
    for source in (
        {"kind": "npz", "path": "memory://bucket/*.npz"},
        {"kind": "npz", "path": str(tmp_path / "?.npz")},
    ):
        document = make(steps=8, valid=0)
        document.loaders[0].stages[0].source = source
        results.append(run(document, tmp_path / "runs", fresh=True))
        assert results[-1].exit_status == 0, results[-1].diagnostics
    inline = run(make(steps=8, valid=0), tmp_path / "runs", fresh=True)
    for result in results:
        assert np.array_equal(result.parameters["fit/w"], inline.parameters["fit/w"])
    assert len(list(cache.rglob("*.npz"))) == 2


def test_fetched_once_and_again_when_changed(cache: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/bucket/x.txt", b"one")
    ((_, first),) = remote.fetch("memory://bucket/x.txt")
    stamp = Path(first).stat().st_mtime_ns
    ((_, again),) = remote.fetch("memory://bucket/x.txt")
    assert again == first
    assert Path(first).stat().st_mtime_ns == stamp
    memory.pipe_file("/bucket/x.txt", b"three")
    ((_, other),) = remote.fetch("memory://bucket/x.txt")
    assert Path(other).read_bytes() == b"three"
    assert not list(cache.rglob("*.partial"))


def test_kinds_and_places_that_do_not_exist(cache: Path) -> None:
    for url, code in (
        ("nosuch://x/y.npz", "E-STORE-005"),
        ("memory://bucket/nothing.npz", "E-STORE-001"),
        ("memory://bucket/nothing-*.npz", "E-STORE-001"),
    ):
        with pytest.raises(SxError) as caught:
            remote.fetch(url)
        assert caught.value.diagnostics[0].code.id == code

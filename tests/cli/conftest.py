"""The command line called in this process: its exit code, stdout and stderr."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from sexpgpu.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))  # for `newcomer`


class Result(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """stdout as one JSON document."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """stdout as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def sx(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """`sx("check", "a.sx")`: runs the command line; `stdin=` gives standard input, where a lone
    surrogate, from U+DC80 on, stands for a byte that is no UTF-8 text."""

    def call(*words: str, stdin: str = "") -> Result:
        data = stdin.encode(errors="surrogateescape")
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main(words)
        out, err = capsys.readouterr()
        code = stop.value.code
        assert isinstance(code, int)
        assert "Traceback" not in err or "--traceback" in words
        return Result(code, out, err)

    return call


@pytest.fixture
def process() -> Callable[..., subprocess.CompletedProcess[str]]:
    """`process("check", "a.sx")`: the same in a process of its own, from the working folder."""

    def call(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path, **options.pop("env", {})}
        return subprocess.run(
            [sys.executable, "-m", "sexpgpu", *words],
            env=environment,
            capture_output=options.pop("capture_output", True),
            text=True,
            encoding="utf-8",
            check=False,
            timeout=600,
            **options,
        )

    return call

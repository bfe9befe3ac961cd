"""Programs as a user of Common Lisp writes them. Each ends with a comment of what it prints; SBCL,
where it is installed, prints the same, but for the case of symbols."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sexpgpu.lisp.session import Session
from sexpgpu.lisp.state import STATE
from sexpgpu.source import Source

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.lisp"))


def expected(path: Path) -> str:
    return path.read_text().rpartition("#|\n")[2].partition("|#")[0]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_it_prints_what_it_should(path: Path) -> None:
    session = Session()
    source = Source(path.name, path.read_text(), str(path))

    def run() -> str:
        session.load(source)
        return STATE.output.take()

    try:
        assert session.run(run).lower() == expected(path).lower()
    finally:
        session.close()
    warned = {d.code.id for d in session.diagnostics}
    assert warned <= {"W-NAME-001"}  # a name of the tensor operations, defined anew


@pytest.mark.skipif(shutil.which("sbcl") is None, reason="SBCL is not installed")
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_sbcl_prints_the_same(path: Path) -> None:
    words = ["sbcl", "--noinform", "--no-userinit", "--no-sysinit", "--disable-debugger"]
    quiet = "(declaim (sb-ext:muffle-conditions warning sb-ext:compiler-note))"
    plain = "(setf *print-pretty* nil)"
    ran = subprocess.run(
        [*words, "--eval", quiet, "--eval", plain, "--load", str(path), "--eval", "(sb-ext:exit)"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.stdout.lower(), ran.returncode) == (expected(path).lower(), 0), ran.stderr[-2000:]

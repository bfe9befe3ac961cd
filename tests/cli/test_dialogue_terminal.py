"""The dialogue on a real terminal (a pty): history, completion, several lines, Ctrl-C, Ctrl-D."""

from __future__ import annotations

import os
import pty
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Terminal:
    """A process behind a pty. `see` waits for a text; what came before it is gone."""

    def __init__(self, home: Path) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "XDG_STATE_HOME": str(home),
            "TERM": "xterm",
            "NO_COLOR": "1",
        }
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            words = [sys.executable, "-m", "sexpgpu", "eval", "--limit", "seconds=60"]
            words += ["--limit", "fuel=1000000000000"]  # an empty loop takes little time a turn
            os.execve(sys.executable, words, environment)
        self.seen = ""

    def write(self, text: str) -> None:
        os.write(self.file, text.encode())

    def see(self, wanted: str, seconds: float = 60.0) -> str:
        end = time.monotonic() + seconds
        while wanted not in self.seen:
            ready, _, _ = select.select([self.file], [], [], max(end - time.monotonic(), 0))
            assert ready, f"{wanted!r} does not come: {self.seen!r}"
            try:
                self.seen += os.read(self.file, 4096).decode(errors="replace")
            except OSError:  # Linux: the other side is closed
                raise AssertionError(f"ended before {wanted!r}: {self.seen!r}") from None
        before, _, self.seen = self.seen.partition(wanted)
        return before

    def interrupt(self) -> str:
        """Ctrl-C until there is a prompt: one that comes just before the line editor listens is not
        noticed until the next key."""
        for _ in range(20):
            self.write("\x03")
            ready, _, _ = select.select([self.file], [], [], 3.0)
            if ready:
                return self.see("sx> ")
        raise AssertionError("no prompt comes after Ctrl-C")

    def status(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path)
    made.see("sx> ")
    yield made
    os.close(made.file)


def test_forms_errors_and_the_end(terminal: Terminal, tmp_path: Path) -> None:
    terminal.write("(defun twice (x)\n")
    terminal.see("... ")
    terminal.write("  (* 2 x))\n")
    terminal.see("sx> ")
    terminal.write("(twice 21)\n")
    assert "42" in terminal.see("sx> ")
    terminal.write("(twyce 21)\n")
    assert "write twice" in terminal.see("sx> ")
    terminal.write(":doc car\n")
    assert "(car list)" in terminal.see("sx> ")
    terminal.write("\x04")
    assert terminal.status() == 0
    assert "(twice 21)" in (tmp_path / "sexpgpu" / "history").read_text()


def test_interrupts(terminal: Terminal) -> None:
    terminal.write("(list 1\n")
    terminal.see("... ")
    terminal.interrupt()
    terminal.write("(progn (princ 'begun) (loop))\n")
    terminal.see("(loop))")
    time.sleep(1.0)
    assert "interrupted" in terminal.interrupt()
    terminal.write("(+ 1 1)\n")
    assert "2" in terminal.see("sx> ")
    terminal.write(":quit\n")
    assert terminal.status() == 0


def test_completion_and_history(terminal: Terminal) -> None:
    pytest.importorskip("readline")
    terminal.write("(multiple-value-li\t")
    terminal.see("multiple-value-list")
    terminal.write(" (values 1 2))\n")
    assert "(1 2)" in terminal.see("sx> ")
    terminal.write("\x10\n")  # Ctrl-P: the line before
    assert "(1 2)" in terminal.see("sx> ")
    terminal.write("\x04")
    assert terminal.status() == 0

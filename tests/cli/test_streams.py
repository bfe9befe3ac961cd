"""Streams that end early, are full or closed; terminals of all kinds; interrupts. No traceback."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "sexpgpu"]
LINE = str(ROOT / "examples" / "line.sx")
WRONG = '(defun f (x) (car 5))\n(f "' + "ü" * 200 + '")\n(cdr 6)\n'


def shell(script: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A line of the shell in a folder, where `$SX` is the command and `$LINE` an example."""
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "SX": " ".join(COMMAND), "LINE": LINE, **more,
    }  # fmt: skip
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True,
        encoding="utf-8", check=False, timeout=600,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wrong file, and a run."""
    import sexpgpu as sx

    place = tmp_path_factory.mktemp("streams")
    (place / "wrong.sx").write_text(WRONG, encoding="utf-8")
    sx.compile(LINE).run(device="interp", runs=str(place / "runs"), slug="r", steps=5)
    return place


@pytest.mark.parametrize(
    "words",
    [
        "docs nn | head -1",
        "check wrong.sx 2>&1 | head -1",
        "check wrong.sx --json 2>&1 | true",
        "explain $LINE --json | head -1",
        "status runs --json 2>&1 | true",
        "run $LINE --device interp --fresh --slug p --json 2>&1 | head -1",
        "run $LINE --device interp --fresh --slug q 2>&1 | true",
    ],
)
def test_a_reader_that_goes_away_is_no_fault(folder: Path, words: str) -> None:
    done = shell(f"$SX {words}; echo ${{PIPESTATUS[0]}} >&2", folder)
    assert "Traceback" not in done.stdout + done.stderr
    assert "Exception ignored" not in done.stderr
    status = done.stderr.strip().splitlines()[-1]
    assert status in ("0", "1", "2"), done


@pytest.mark.parametrize("words", ["docs nn", "check wrong.sx --json", "eval -e 1"])
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_under_stdout_has_a_code(folder: Path, words: str) -> None:
    done = shell(f"$SX {words} >/dev/full", folder)
    assert done.returncode == 1
    assert "E-STORE-004" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


FAILING = {
    "check": "check none.sx --json",
    "explain": "explain none.sx --json",
    "diff": "diff none.sx none.sx --json",
    "ir": "ir none.sx --json",
    "fmt": "fmt none.sx --json",
    "macroexpand": "macroexpand none.sx --json",
    "eval": "eval -e '(car 5)' --json",
    "variants": "variants none.sx --json",
    "run": "run none.sx --json",
    "predict": "predict none.sx --checkpoint none --json",
    "status": "status none --json",
    "tail": "tail none --json",
    "annotate": "annotate none text --json",
    "checkpoint": "checkpoint list none --json",
    "crosscheck": "crosscheck none.sx --json",
    "bench": "bench none.sx --json",
}


def test_every_verb_with_json_is_here() -> None:
    from importlib import import_module

    from sexpgpu.cli.main import VERBS

    flags = {
        verb: {f for p in import_module(f"sexpgpu.cli.{verb}").command.params for f in p.opts}
        for verb in VERBS
    }
    with_json = {verb for verb, names in flags.items() if "--json" in names}
    assert with_json - {"watch"} <= set(FAILING)


@pytest.mark.parametrize("verb", FAILING)
def test_under_json_an_error_is_a_document(sx, verb: str, tmp_path: Path, monkeypatch) -> None:
    import shlex

    monkeypatch.chdir(tmp_path)
    found = sx(*shlex.split(FAILING[verb]))
    assert found.code in (1, 3)
    document = json.loads(found.out)
    first = document.get("error") or document["diagnostics"][0]
    assert first["code"].startswith("E-")
    assert first["message"]


# -- terminals ------------------------------------------------------------------------------------


def on_terminal(
    words: list[str], folder: Path, columns: int = 80, **environment: str
) -> tuple[int, str]:
    """The exit code and all output of a command on a terminal of a width."""
    pty = pytest.importorskip("pty")
    fcntl = pytest.importorskip("fcntl")
    termios = pytest.importorskip("termios")
    import struct

    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "TERM")}
    process = subprocess.Popen(
        [*COMMAND, *words], cwd=folder, stdin=follower, stdout=follower, stderr=follower,
        env={**kept, "PYTHONPATH": str(ROOT), "TERM": "xterm", **environment}, close_fds=True,
    )  # fmt: skip
    os.close(follower)
    output = b""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if select.select([leader], [], [], 0.2)[0]:
            try:
                data = os.read(leader, 65536)
            except OSError:  # the other end is closed
                break
            if not data:
                break
            output += data
        elif process.poll() is not None:
            break
    os.close(leader)
    return process.wait(60), output.decode("utf-8", errors="replace")


@pytest.mark.parametrize(
    "columns, environment, coloured",
    [
        (1, {}, True), (0, {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}, True),
        (500, {"TERM": "dumb"}, False), (80, {"NO_COLOR": "1"}, False),
    ],
)  # fmt: skip
def test_diagnostics_on_terminals(
    folder: Path, columns: int, environment: dict[str, str], coloured: bool
) -> None:
    code, text = on_terminal(["check", "wrong.sx"], folder, columns, **environment)
    assert code == 1
    assert "Traceback" not in text
    assert ("\x1b[" in text) is coloured
    assert "wrong.sx: 2 errors" in text


def test_progress_on_a_narrow_terminal(folder: Path) -> None:
    words = ["run", LINE, "--device", "interp", "--fresh", "--slug", "n", "--steps", "20"]
    code, text = on_terminal(words, folder, 10)
    assert code == 0
    assert "Traceback" not in text


def test_a_home_that_cannot_be_written_to(folder: Path, tmp_path: Path) -> None:
    """HOME that is no folder at all, which not even root can write into."""
    (tmp_path / "home").write_text("")
    home = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": "", "XDG_STATE_HOME": ""}
    script = (
        "unset SEXPGPU_CACHE; $SX check $LINE && $SX run $LINE --device cpu --steps 2 --fresh "
        "--slug home --quiet"
    )
    done = shell(script, folder, **home)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    code, text = on_terminal(["eval", "-e", "(+ 1 2)"], folder, 80, **home)
    assert (code, text.strip()) == (0, "3")


# -- interrupts -----------------------------------------------------------------------------------


# As `python -m sexpgpu`; it says when the interpreter is up: an interrupt before that is Python's.
STARTED = """
import signal
signal.signal(signal.SIGINT, signal.SIG_DFL)
print("started", flush=True)
from sexpgpu.__main__ import main
main()
"""


@pytest.mark.parametrize(
    "words, sign",
    [
        (["check", "endless.sx", "--limit", "fuel=10000000000", "--limit", "seconds=600"], ""),
        (["watch", "wrong.sx"], "errors"),
        (["tail", "alive", "-f"], ""),
        (["docs", "--serve", "--port", "0"], "http"),
        (["check", "-"], ""),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_an_interrupt_ends_any_verb(folder: Path, words: list[str], sign: str) -> None:
    (folder / "endless.sx").write_text("(loop)\n")
    (folder / "alive").mkdir(exist_ok=True)
    (folder / "alive" / "events.jsonl").write_text("")
    process = subprocess.Popen(
        [sys.executable, "-c", STARTED, *words], cwd=folder, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        said = ""
        while sign and sign not in said:
            said += process.stdout.readline()
            assert process.poll() is None, said
        if not sign:
            time.sleep(1.0)  # nothing tells that it is at work
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "Traceback" not in said
    if process.returncode == -signal.SIGINT and not sign:
        return  # it had not begun yet: what loads modules ends as any program does
    assert process.returncode == 130, said
    assert "interrupted" in said

"""The entry of the command line: help, usage, exit codes, streams, and how it fails."""

from __future__ import annotations

import errno
import os
import re
import resource
import subprocess
import sys
import types

import click
import pytest

from sexpgpu import __version__
from sexpgpu.cli import main as entry
from sexpgpu.cli import output
from sexpgpu.diagnostics.codes import system
from sexpgpu.diagnostics.codes.read import E_READ_009
from sexpgpu.diagnostics.model import Diagnostic, SxError


@pytest.fixture
def verb(monkeypatch):
    """Adds a verb `boom` that does what it is given."""

    def add(work):
        module = types.ModuleType("sexpgpu.cli.boom")

        @click.command("boom")
        @click.option("--json", "as_json", is_flag=True)
        @click.option("--steps", type=int)
        def command(as_json, steps):
            return work()

        module.command = command
        monkeypatch.setitem(sys.modules, "sexpgpu.cli.boom", module)
        monkeypatch.setitem(entry.VERBS, "boom", "Fails.")

    return add


def raising(error):
    def work():
        raise error

    return work


def test_help_lists_every_verb(sx) -> None:
    for words in (["--help"], ["-h"]):
        result = sx(*words)
        assert result.code == 0
        assert result.err == ""
        for name, line in entry.VERBS.items():
            assert re.search(rf"^  {name} +{re.escape(line)}$", result.out, re.MULTILINE)


@pytest.mark.parametrize("name", entry.VERBS)
def test_every_verb_has_a_file_and_help(sx, name: str) -> None:
    result = sx(name, "--help")
    assert result.code == 0
    assert result.out.startswith(f"Usage: sexpgpu {name} ")


def test_version(sx) -> None:
    assert sx("--version").out == f"sexpgpu {__version__}\n"


def test_no_verb_at_all_shows_the_help_and_is_a_usage_error(sx) -> None:
    result = sx()
    assert result.code == 2
    assert "Verbs" in result.err + result.out


@pytest.mark.parametrize(
    "words, said",
    [
        (["sweep", "a.sx"], "no verb sweep: it is not in this release\n  fix: a point is run by"),
        (["chekc", "a.sx"], "no verb chekc\n  fix: did you mean check?\n  see: sexpgpu --help"),
        (["check", "a.sx", "--jsno"], "no flag --jsno\n  fix: did you mean --json?"),
        (["run", "a.sx", "--lr", "3"], "no flag --lr\n  fix: a knob is set by --set lr=VALUE"),
        (["run", "a.sx", "--step", "3"], "no flag --step\n  fix: did you mean --steps?"),
        (["run", "a.sx", "--steps", "many"], "'many' is not a valid integer"),
        (["run", "a.sx", "--steps", "0"], "--steps"),
        (["run", "a.sx", "--device", "gpu"], "'gpu' is not one of"),
        (["run", "a.sx", "--time-limit", "soon"], "'soon' is no length of time"),
        (["check"], "Missing argument 'FILE…'"),
        (["check", "a.sx", "--set", "lr"], "'lr' is not of the form KNOB=VALUE"),
        (["check", "a.sx", "--limit", "feul=3"], "no limit feul; did you mean fuel?"),
        (["check", "a.sx", "--limit", "fuel=-1"], "'-1' is not a positive number"),
        (["check", "-", "-"], "standard input can be read only once"),
        (["docs", "quickstrat"], "did you mean quickstart?"),
    ],
)
def test_usage_errors_are_two_and_say_what_was_meant(sx, tmp_path, words, said) -> None:
    file = tmp_path / "a.sx"
    file.write_text("(defknob lr 0.1)\n")
    result = sx(*(str(file) if word == "a.sx" else word for word in words))
    assert result.code == 2
    assert result.out == ""
    assert said in result.err
    assert re.search(r"^  see: sexpgpu.* --help$", result.err, re.MULTILINE)


def test_a_usage_error_under_json_is_a_document(sx) -> None:
    result = sx("check", "a.sx", "--json", "--sett", "lr=1")
    assert result.code == 2
    assert result.json["kind"] == "error"
    assert result.json["error"] == {
        "code": "usage", "severity": "error", "message": "`sexpgpu check` has no flag --sett",
        "fix": "did you mean --set?",
    }  # fmt: skip


@pytest.mark.parametrize(
    "error, code, said",
    [
        (SxError(Diagnostic(E_READ_009, "cannot")), 1, "error[E-READ-009]: cannot"),
        (SxError(Diagnostic(system.E_CKPT_002, "torn")), 3, "error[E-CKPT-002]: torn"),
        (SxError(Diagnostic(system.E_DEV_001, "none")), 5, "error[E-DEV-001]: none"),
        (SxError(Diagnostic(system.W_CKPT_001, "odd")), 0, "warning[W-CKPT-001]: odd"),
        (FileNotFoundError(errno.ENOENT, "No such file", "x.sx"), 1, "error[E-STORE-001]: x.sx"),
        (PermissionError(errno.EACCES, "Denied", "x.sx"), 1, "error[E-STORE-002]: x.sx"),
        (OSError(errno.ENOSPC, "Full", "x"), 1, "error[E-STORE-004]: x: Full"),
        (MemoryError(), 5, "error[E-DEV-004]"),
        (
            ModuleNotFoundError("no", name="pandas"),
            5,
            "error[E-DEV-005]: the Python package pandas",
        ),
        (ModuleNotFoundError("no", name="sexpgpu.gone"), 3, "error[E-INT-001]"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (click.Abort(), 130, "interrupted"),
    ],
)
def test_what_is_raised_becomes_a_code(sx, verb, error, code, said) -> None:
    verb(raising(error))
    result = sx("boom")
    assert result.code == code
    assert said in result.err
    assert result.out == ""


def test_a_fault_of_ours_says_so(sx, verb) -> None:
    verb(raising(ValueError("first\nsecond")))
    result = sx("boom", "--steps", "3")
    assert result.code == 3
    assert result.err.startswith(
        "error[E-INT-001]: this is a bug in sexpgpu: ValueError: first\n"
        "  note: raised in sexpgpu.cli."
    )
    assert f"note: sexpgpu {__version__}, Python {sys.version_info[0]}." in result.err
    assert "note: the command was: sexpgpu boom --steps 3" in result.err
    assert "--traceback" in result.err
    assert "Traceback" not in result.err


def test_the_traceback_comes_when_asked_for(sx, verb) -> None:
    verb(raising(ValueError("why")))
    for words in (["--traceback", "boom"], ["boom", "--traceback"]):
        result = sx(*words)
        assert result.code == 3
        assert "Traceback (most recent call last)" in result.err
        assert "ValueError: why" in result.err
    assert entry.without_traceback(["a", "--", "--traceback"]) == (
        ["a", "--", "--traceback"],
        False,
    )


def test_under_json_a_failure_is_an_object_on_stdout(sx, verb) -> None:
    verb(raising(SxError(Diagnostic(system.W_CKPT_001, "odd"), Diagnostic(E_READ_009, "cannot"))))
    result = sx("boom", "--json")
    assert result.code == 1
    assert result.json["kind"] == "error"
    assert result.json["error"]["code"] == "E-READ-009"
    assert [d["code"] for d in result.json["diagnostics"]] == ["W-CKPT-001", "E-READ-009"]
    verb(raising(ValueError("ours")))
    assert sx("boom", "--json").json["error"]["code"] == "E-INT-001"


def test_a_verbs_number_is_the_exit_code(sx, verb) -> None:
    for code in (0, 1, 4, 75):
        verb(lambda code=code: code)
        assert sx("boom").code == code
    verb(lambda: None)
    assert sx("boom").code == 0


def test_a_reader_that_has_seen_enough_is_no_error(process) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        result = process("docs", capture_output=False, stdout=write, stderr=subprocess.PIPE)
    finally:
        os.close(write)
    assert result.returncode == 0
    assert result.stderr == ""


def test_stdout_is_utf8_whatever_the_terminal(process) -> None:
    result = process("docs", "index", env={"LC_ALL": "C", "PYTHONIOENCODING": "ascii"})
    assert result.returncode == 0
    assert "—" in result.stdout or "·" in result.stdout or result.stdout.isascii()


@pytest.mark.parametrize(
    "tty, environment, expected",
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_colour_only_on_a_terminal(monkeypatch, tty, environment, expected) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: tty, raising=False)
    assert output.has_colour(sys.stderr) is expected


def test_help_starts_fast_and_loads_nothing_heavy(process) -> None:
    code = (
        "import sys; from sexpgpu.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "own = {name for name in sys.modules if name.startswith('sexpgpu')}\n"
        "assert not loaded & {'numpy', 'jax', 'orbax', 'fsspec'}, loaded\n"
        "assert not {n for n in own if '.lisp' in n or '.ir' in n or '.ops' in n}, own\n"
    )
    path = os.path.dirname(os.path.dirname(os.path.dirname(entry.__file__)))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2  # seconds


def test_time_limits() -> None:
    from sexpgpu.cli.run import seconds_of

    parameter = click.Option(["--time-limit"])
    context = click.Context(click.Command("run"))
    for text, seconds in {
        "90": 90, "90s": 90, "3h55m": 14_100, "1.5h": 5_400, "2d": 172_800,
        "3:55:00": 14_100, "10:30": 630,
    }.items():  # fmt: skip
        assert seconds_of(context, parameter, text) == seconds
    for text in ("", "h", "3x", "3h55", "1h 5", "-3", "::", "1:75:00"):
        with pytest.raises(click.BadParameter):
            seconds_of(context, parameter, text)

"""Files and streams that are no run files: a code and an end, from every verb that reads one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINE = (ROOT / "examples" / "line.sx").read_text(encoding="utf-8")
READERS = {
    "check": ["check", "FILE"],
    "explain": ["explain", "FILE"],
    "ir": ["ir", "FILE"],
    "diff": ["diff", "FILE", "FILE"],
    "fmt": ["fmt", "--check", "FILE"],
    "variants": ["variants", "FILE"],
    "macroexpand": ["macroexpand", "FILE"],
    "eval": ["eval", "FILE", "-e", "1"],
    "new": ["new", "FILE", "TO"],
    "run": ["run", "FILE", "--device", "interp"],
    "crosscheck": ["crosscheck", "FILE"],
    "predict": ["predict", "FILE", "--checkpoint", "nothing"],
}


def call(words: list[str], folder: Path, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "sexpgpu", *words], cwd=folder, input=data, capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False, timeout=600,
    )  # fmt: skip


def make(kind: str, folder: Path) -> None:
    """`odd.sx` in a folder."""
    path = folder / "odd.sx"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "endless":
        path.symlink_to("/dev/zero")
    elif kind == "long":
        path.write_bytes(b"; a comment\n" * 1_500_000)
    elif kind == "binary":
        path.write_bytes(bytes(range(256)) * 40)
    elif kind == "latin-1":
        path.write_bytes("; Gr\u00f6\u00dfe\n".encode("latin-1"))
    elif kind == "utf-16":
        path.write_bytes(LINE.encode("utf-16"))


WRONG = {
    "nothing": "E-STORE-001", "folder": "E-STORE-006", "loop": "E-STORE-006",
    "endless": "E-STORE-006", "long": "E-STORE-006", "binary": "E-READ-011",
    "latin-1": "E-READ-011", "utf-16": "E-READ-011",
}  # fmt: skip


@pytest.mark.parametrize("verb", READERS)
def test_what_is_no_run_file_has_a_code(sx, verb: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for kind, code in WRONG.items():
        folder = tmp_path / kind
        folder.mkdir()
        monkeypatch.chdir(folder)
        make(kind, folder)
        if verb == "fmt" and kind == "folder":
            continue  # a folder is what is in it
        words = ["odd.sx" if word == "FILE" else word for word in READERS[verb]]
        found = sx(*words)
        assert found.code == 1, (kind, found)
        assert code in found.err, (kind, found)
        assert found.out == "" or verb == "check"


@pytest.mark.parametrize(
    "words",
    [
        ["new", "--template", "mlp", "no/where/OUT.sx"],
        ["explain", "a.sx", "--html", "no/where/OUT.html"],
        ["explain", "a.sx", "--html", "folder"],
        ["run", "a.sx", "--device", "interp", "--runs", "a.sx"],
    ],
    ids=" ".join,
)
def test_what_cannot_be_written_is_named_as_it_was_given(
    sx, words: list[str], tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.sx").write_text(LINE)
    (tmp_path / "folder").mkdir()
    found = sx(*words)
    assert found.code in (1, 3)
    assert found.out == ""
    assert f"{words[-1]}" in found.err
    assert ".new" not in found.err
    if "no/where" in words[-1]:
        assert "there is no folder no/where" in found.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.sx", "folder"]


def test_a_pipe_that_nobody_writes_to_is_an_empty_file(sx, tmp_path: Path) -> None:
    make("fifo", tmp_path)
    found = sx("check", str(tmp_path / "odd.sx"))
    assert found.code == 1
    assert "E-RUN-001" in found.err


def test_a_pipe_is_read_as_a_file(tmp_path: Path) -> None:
    """As the shell gives one for `<(…)`."""
    read, write = os.pipe()
    try:
        done: list[subprocess.CompletedProcess[bytes]] = []

        def check() -> None:
            done.append(
                subprocess.run(
                    [sys.executable, "-m", "sexpgpu", "check", f"/dev/fd/{read}"],
                    cwd=ROOT, pass_fds=[read], capture_output=True, check=False, timeout=600,
                )
            )  # fmt: skip

        thread = threading.Thread(target=check)
        thread.start()
        with os.fdopen(write, "wb") as stream:
            stream.write(LINE.encode())
        thread.join()
    finally:
        os.close(read)
    assert done[0].returncode == 0, done[0].stderr


@pytest.mark.parametrize("data, code", [(b"\xff\xfe(\x00", "E-READ-011"), (b"", "E-RUN-001")])
def test_standard_input_that_is_no_text(data: bytes, code: str, tmp_path: Path) -> None:
    done = call(["check", "-", "--json"], tmp_path, data)
    assert done.returncode == 1
    assert json.loads(done.stdout)["diagnostics"][0]["code"] == code


@pytest.mark.parametrize("end", ["\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_marks_of_other_systems_mean_the_same(
    sx, tmp_path: Path, end: str, mark: str
) -> None:
    text = LINE if end == "\r\n" else "\n".join(x for x in LINE.split("\n") if x[:1] != ";")
    (tmp_path / "a.sx").write_bytes((mark + text.replace("\n", end)).encode())
    (tmp_path / "b.sx").write_text(text)
    assert sx("check", str(tmp_path / "a.sx")).code == 0
    found = sx("diff", str(tmp_path / "a.sx"), str(tmp_path / "b.sx"), "--json").json
    assert found["same"] is True


def test_ten_megabytes_are_read_in_time(sx, tmp_path: Path) -> None:
    """A long list of definitions: fuel ends it, not the machine."""
    line = "(defparameter *x{}* (list 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20))\n"
    with open(tmp_path / "long.sx", "w", encoding="utf-8") as file:
        file.writelines(line.format(i) for i in range(1000))
        file.write('(defparameter *text* "' + "a" * 9_000_000 + '")\n')
    found = sx("check", str(tmp_path / "long.sx"), "--json")
    assert found.code == 1
    assert found.json["diagnostics"][0]["code"] in ("E-RUN-001", "E-LIMIT-003")

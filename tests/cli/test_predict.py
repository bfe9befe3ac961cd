"""`sexpgpu predict`: the model of a checkpoint on records, from and to npz, JSON and pipes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
LINE = (ROOT / "examples" / "line.sx").read_text()
TWICE = "(defun twice (model x y)\n  (values (* 2 (funcall model x)) 1.0))\n\n(defrun line"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, np.ndarray]:
    """A file, a run of it, and its parameters w and b."""
    import sexpgpu as sx

    folder = tmp_path_factory.mktemp("trained")
    file = folder / "line.sx"
    file.write_text(LINE.replace("(defrun line", TWICE))
    run = sx.compile(file).run(device="interp", runs=str(folder), slug="r", steps=20)
    return str(file), str(folder / "r"), run.parameters


def test_from_a_pipe(sx, trained) -> None:
    file, run, parameters = trained
    wanted = 3.0 * parameters["fit/w"] + parameters["fit/b"]
    for words in ([file, "--checkpoint", run], [run], [f"{run}/checkpoints/20"]):
        found = sx("predict", *words, "--device", "interp", stdin='{"x": [[3.0], [3.0]]}')
        assert found.code == 0
        np.testing.assert_allclose(found.json["out"], np.repeat(wanted, 2, 0), rtol=1e-6)
    records = sx("predict", run, "--device", "interp", stdin='[{"x": [3.0]}]')
    np.testing.assert_allclose(records.json["out"], wanted, rtol=1e-6)


def test_files(sx, trained, tmp_path: Path) -> None:
    file, run, parameters = trained
    x = np.linspace(-1, 1, 7, dtype=np.float32).reshape(7, 1)
    np.savez(tmp_path / "in.npz", x=x)
    words = (file, "--checkpoint", f"{run}@20", "--input", str(tmp_path / "in.npz"))
    told = sx("predict", *words, "--output", str(tmp_path / "out.npz"), "--json", "--device", "cpu")
    assert told.json["shapes"] == {"out": [7, 1]}
    wanted = x * parameters["fit/w"] + parameters["fit/b"]
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["out"], wanted, rtol=1e-5)
    sx("predict", *words, "--output", str(tmp_path / "out.json"), "--device", "interp")
    data = json.loads((tmp_path / "out.json").read_text())
    np.testing.assert_allclose(data["out"], wanted, rtol=1e-5)


def test_another_function(sx, trained) -> None:
    file, run, parameters = trained
    words = (file, "--checkpoint", run, "--device", "interp", "--function", "twice")
    found = sx("predict", *words, stdin='{"x": [[3.0]], "y": [[0.0]]}').json
    np.testing.assert_allclose(
        found["out0"], 2 * (3 * parameters["fit/w"] + parameters["fit/b"]), rtol=1e-6
    )
    assert found["out1"] == 1.0
    wrong = sx("predict", *words[:-1], "twise", stdin="{}")
    assert wrong.code == 1
    assert "did you mean twice?" in wrong.err


@pytest.mark.parametrize(
    "stdin, code",
    [("{", "E-DATA-001"), ("3", "E-DATA-001"), ('{"z": [1.0]}', "E-DATA-002"), ("{}", "E-DATA-002"),
     ('{"x": [1.0]}', "E-DATA-003"), ('[{"x": [1]}, {"y": [1]}]', "E-DATA-003")],
)  # fmt: skip
def test_records_that_do_not_fit(sx, trained, stdin: str, code: str) -> None:
    found = sx("predict", trained[1], "--device", "interp", "--json", stdin=stdin)
    assert found.code != 0
    assert found.json["error"]["code"] == code


def test_json_that_is_not_utf_8_is_refused(sx, trained, tmp_path: Path) -> None:
    """Not read with some character in place of the byte: it might be part of a name."""
    words = ("predict", trained[1], "--device", "interp", "--json")
    given = '{"x": [[1.0]]}'
    (tmp_path / "bad.json").write_bytes(
        given.replace("x", "\udce9").encode(errors="surrogateescape")
    )
    for found in (
        sx(*words, stdin=given.replace("x", "\udce9")),
        sx(*words, "--input", str(tmp_path / "bad.json")),
    ):
        assert (found.code, found.json["error"]["code"]) == (1, "E-DATA-001")
        assert "byte 2 cannot be decoded" in found.json["error"]["message"]
    (tmp_path / "mark.json").write_text(f"\ufeff{given}", encoding="utf-8")
    assert sx(*words, "--input", str(tmp_path / "mark.json")).code == 0


def test_a_checkpoint_of_another_model(sx, trained, tmp_path: Path) -> None:
    other = tmp_path / "other.sx"
    other.write_text(LINE.replace("(nn:linear 1 1)", "(nn:linear 1 1 :bias nil)").replace(
        "(submodel fit", "(submodel fat").replace("(fit x)", "(fat x)"))  # fmt: skip
    found = sx("predict", str(other), "--checkpoint", trained[1], stdin='{"x": [[1.0]]}')
    assert found.code == 3
    assert "E-CKPT-004" in found.err


def test_usage(sx, trained, tmp_path: Path) -> None:
    assert sx("predict", trained[0]).code == 2
    assert sx("predict", trained[1], "--output", "a.csv").code == 2
    assert sx("predict", "-", "--checkpoint", trained[1]).code == 2
    assert sx("predict", trained[1], "--input", str(tmp_path / "none.npz")).code != 0

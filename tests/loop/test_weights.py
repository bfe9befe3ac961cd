"""Weights that a run begins with, and those that a checkpoint gives away."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loop_documents import make, run
from safetensors.numpy import load_file, save_file

import sexpgpu as sx
from sexpgpu.ir.document import InitFrom, Rename
from sexpgpu.ir.document_json import document_hash
from sexpgpu.loop import named, weights
from sexpgpu.loop.checkpoint import load
from sexpgpu.loop.run import RunResult

W = np.arange(12, dtype=np.float32).reshape(4, 3)
B = np.array([7, 8, 9], np.float32)
SEEN = np.ones(4, np.float32)


def taken(path: Any, *maps: tuple[str, str | None, bool], **changes: Any) -> InitFrom:
    renames = [Rename(source=s, target=t, transpose=x) for s, t, x in maps]
    given: dict[str, Any] = {"base": ".", "map": renames, "missing": [], "extra": []}
    return InitFrom(path=str(path), **given | changes)


def begun(tmp_path: Path, init_from: InitFrom, **changes: Any) -> RunResult:
    """A run of one step whose learning rate moves next to nothing: read at step 0 by a pass."""
    document = make(steps=1, every=None, eval_every=None, init_from=init_from, **changes)
    return run(document, tmp_path, fresh=True)


def at_start(result: RunResult, init_from: InitFrom) -> dict[str, np.ndarray]:
    from sexpgpu.loop.initial import initial_state

    state, _ = weights.initialized(
        make(init_from=init_from), initial_state(make(init_from=init_from))
    )
    assert result.exit_status == 0, result.diagnostics
    return {**state["param"], **state["buffer"]}


@pytest.mark.parametrize("kind", ["safetensors", "npz"])
def test_from_a_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"w.{kind}"
    given = {"fit/w": W, "fit/b": B, "seen": SEEN}
    save_file(given, path) if kind == "safetensors" else np.savez(path, **given)  # type: ignore[arg-type]
    wanted = taken(path)
    found = at_start(begun(tmp_path, wanted), wanted)
    for name, array in given.items():
        assert found[name].tolist() == array.tolist()
    event = archive_open(tmp_path)
    assert event["init_from"] == {"path": str(path), "taken": 3, "initialized": []}


def archive_open(tmp_path: Path) -> dict[str, Any]:
    from sexpgpu.loop.events import read_events

    return next(iter(read_events(str(tmp_path / "run" / "events.jsonl"))))


def test_names_are_mapped(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    given = {"net.fit.weight": np.ascontiguousarray(W.T), "net.fit.bias": B, "step": np.zeros(1)}
    save_file(given, path)
    wanted = taken(
        path,
        ("net.*.weight", "*/w", True),
        ("net.*.bias", "*/b", False),
        ("step", None, False),
        missing=["se*"],
    )
    found = at_start(begun(tmp_path, wanted), wanted)
    assert found["fit/w"].tolist() == W.tolist()
    assert found["fit/b"].tolist() == B.tolist()
    assert found["seen"].tolist() == [0.0] * 4
    assert archive_open(tmp_path)["init_from"]["initialized"] == ["seen"]


def test_from_runs_and_checkpoints(tmp_path: Path) -> None:
    first = run(make(steps=20, every=10), tmp_path, slug="first")
    final = {**load(f"{first.directory}/checkpoints/20")[0]}
    middle = {**load(f"{first.directory}/checkpoints/10")[0]}
    for reference, tensors in (
        (first.directory, final),
        (f"{first.directory}@10", middle),
        (f"{first.directory}@latest", final),
        (f"{first.directory}/checkpoints/10", middle),
    ):
        wanted = taken(reference)
        found = at_start(begun(tmp_path, wanted), wanted)
        for path in ("fit/w", "fit/b"):
            assert found[path].tobytes() == tensors[f"param/{path}"].tobytes()
        assert found["seen"].tobytes() == tensors["buffer/seen"].tobytes()


def test_the_same_bits_when_resumed(tmp_path: Path) -> None:
    first = run(make(steps=10), tmp_path, slug="first")
    wanted = taken(first.directory)
    document = make(steps=20, every=10, init_from=wanted)
    whole = run(document, tmp_path, slug="whole")
    again = run(document, tmp_path, slug="whole", resume="10")
    assert {n: a.tobytes() for n, a in whole.parameters.items()} == {
        n: a.tobytes() for n, a in again.parameters.items()
    }
    assert whole.parameters["fit/w"].tobytes() != first.parameters["fit/w"].tobytes()


def refused(tmp_path: Path, given: dict[str, np.ndarray], *maps: Any, **changes: Any) -> list[str]:
    path = tmp_path / "w.safetensors"
    save_file(given, path)
    result = begun(tmp_path, taken(path, *maps, **changes))
    assert result.exit_status == 3
    (found,) = result.diagnostics
    assert found.code.id == "E-CKPT-012"
    return [found.headline, *(note.text for note in found.notes)]


ALL = {"fit/w": W, "fit/b": B, "seen": SEEN}


def test_everything_that_does_not_fit_is_named(tmp_path: Path) -> None:
    said = "\n".join(
        refused(tmp_path, {"fit/ww": W, "fit/b": np.zeros(4, np.float32), "seen": SEEN})
    )
    assert "nothing gives fit/w: did you mean fit/ww?" in said
    assert "fit/ww is no parameter or buffer: did you mean fit/w?" in said
    assert "fit/b has shape (3), what is given has (4)" in said


@pytest.mark.parametrize(
    "given, maps, said",
    [
        (ALL | {"fit/w": np.ascontiguousarray(W.T)}, [], ":transpose t in its :map entry would"),
        (ALL | {"fit/b": np.arange(3)}, [], "fit/b is float32, what is given is int64"),
        (ALL, [("fit/ww", "fit/w", False)], ":map fit/ww matches no name: did you mean fit/w?"),
        (ALL | {"a": W}, [("a", "fit/w", False)], "two arrays are to be fit/w"),
        (ALL | {"a": W}, [], "a is no parameter or buffer"),
    ],
)
def test_what_does_not_fit(tmp_path: Path, given: Any, maps: Any, said: str) -> None:
    assert any(said in line for line in refused(tmp_path, given, *maps))


def test_extra_names_may_be_allowed(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file(ALL | {"head/w": W}, path)
    assert begun(tmp_path, taken(path, extra=["head/**"])).exit_status == 0


@pytest.mark.parametrize("how", ["cut", "no zip", "pickled"])
def test_npz_files_that_are_none(tmp_path: Path, how: str) -> None:
    path = tmp_path / "w.npz"
    np.savez(path, x=np.array([{}], object)) if how == "pickled" else np.savez(path, **ALL)  # type: ignore[arg-type]
    if how == "cut":
        path.write_bytes(path.read_bytes()[:-40])
    elif how == "no zip":
        path.write_bytes(b"PK nonsense")
    result = begun(tmp_path, taken(path))
    assert result.exit_status == 3
    assert result.diagnostics[0].code.id == "E-CKPT-011"


def test_nothing_there(tmp_path: Path) -> None:
    result = begun(tmp_path, taken(tmp_path / "none.safetensors"))
    assert result.diagnostics[0].code.id == "E-CKPT-001"


@pytest.mark.parametrize("kind", [".safetensors", ".npz"])
def test_export_gives_what_was_trained(tmp_path: Path, kind: str) -> None:
    first = run(make(steps=10), tmp_path, slug="first")
    path, target = named.find(str(first.directory)), str(tmp_path / f"w{kind}")
    assert weights.export(path, target) == ["fit/b", "fit/w", "seen"]
    found = load_file(target) if kind == ".safetensors" else dict(np.load(target))
    for name, array in first.parameters.items():
        assert found[name].tobytes() == array.tobytes()
    if kind == ".npz":
        assert zipfile.is_zipfile(target)
    wanted = taken(target)
    back = at_start(begun(tmp_path, wanted), wanted)
    assert back["seen"].tobytes() == found["seen"].tobytes()


def test_export_chooses_and_never_overwrites(tmp_path: Path) -> None:
    from sexpgpu.diagnostics.model import SxError

    first = run(make(steps=2), tmp_path, slug="first")
    path, target = named.find(str(first.directory)), str(tmp_path / "w.safetensors")
    assert weights.export(path, target, ["fit/*"]) == ["fit/b", "fit/w"]
    before = Path(target).read_bytes()
    for arguments, code in (
        ((target,), "E-STORE-008"),
        ((target + ".txt",), "E-CKPT-013"),
        ((str(tmp_path / "x.npz"), ["none/**"]), "E-CKPT-013"),
    ):
        with pytest.raises(SxError) as caught:
            weights.export(path, *arguments)
        assert caught.value.diagnostics[0].code.id == code
    assert Path(target).read_bytes() == before
    every = weights.export(path, str(tmp_path / "all.safetensors"), states=True)
    assert {"state/fit/w#m", "param/fit/w", "step", "counter/records"} <= set(every)


def test_by_the_api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the file does not say; the experiment itself stays as it was."""
    text = """
    (require "sexpgpu/nn" :as nn)
    (require "sexpgpu/optim" :as optim)
    (defloader train :source (inline (x (1.0)) (y (2.0))) :batch 1)
    (defun prepare (batch) (values (field batch :x) (field batch :y)))
    (defmodel line () (submodel fit (nn:linear 1 1)) (forward (x) (fit x)))
    (defun objective (model x y) (nn:mse (funcall model x) y))
    (defrun line :model (line) :optimizer (optim:sgd :lr 1e-30) :steps 1)
    """
    monkeypatch.chdir(tmp_path)
    save_file({"w": np.full((1, 1), 7, np.float32), "spare": B}, "given.safetensors")
    experiment = sx.compile_text(text)
    before = document_hash(experiment.document)
    run = experiment.run(
        device="interp", init_from=Path("given.safetensors"),
        init_map={"w": "fit/w", "spare": None}, init_missing=["fit/b"],
    )  # fmt: skip
    assert run.parameters["fit/w"] == 7
    assert run.events[0]["init_from"]["initialized"] == ["fit/b"]
    assert document_hash(experiment.document) == before
    assert run.document.run.init_from is not None
    again = experiment.run(device="interp", init_from=run.directory, slug="again")
    assert again.parameters["fit/w"] == 7

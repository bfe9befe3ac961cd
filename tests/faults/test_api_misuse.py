"""The Python API called wrongly, interrupted, and with records that do not fit."""

from __future__ import annotations

import _thread
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sexpgpu as sx

LINE = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defknob lr 0.1)
(defloader train :batch 2 :source (inline (x 0 1) (y (1.0) (3.0)))
  :fields ((x :u8 ()) (y :f32 (1))))
(defun prepare (batch)
  (values (reshape (cast (field batch :x) :f32) (list 2 1)) (field batch :y)))
(defmodel line () (submodel fit (nn:linear 1 1)) (forward (x) (fit x)))
(defun objective (model x y) (nn:mse (funcall model x) y))
(defrun line :model (line) :optimizer (optim:sgd :lr lr) :steps 2)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    runs = tmp_path_factory.mktemp("runs")
    return sx.compile_text(LINE).run(runs=str(runs), device="interp")


@pytest.mark.parametrize(
    "fields, code",
    [
        ({}, "E-DATA-002"),
        ({"x": [1], "z": [1]}, "E-DATA-002"),
        ({"x": 3}, "E-DATA-003"),
        ({"x": [[1]]}, "E-DATA-003"),
        ({"x": [300]}, "E-DATA-003"),
        ({"x": [-1]}, "E-DATA-003"),
        ({"x": [1.5]}, "E-DATA-003"),
        ({"x": ["a"]}, "E-DATA-003"),
        ({"x": [1j]}, "E-DATA-003"),
        ({"x": [[1], [2, 3]]}, "E-DATA-003"),
        ({"x": np.zeros(0, np.uint8)}, "E-DATA-004"),
        ({"x": None}, "E-DATA-003"),
    ],
)
def test_predict_refuses_records_that_do_not_fit(
    trained: Any, fields: dict[str, Any], code: str
) -> None:
    with pytest.raises(sx.RunError) as refused:
        trained.predict(**fields)
    assert [d.code.id for d in refused.value.diagnostics] == [code]


def test_predict_takes_any_integer_dtype_that_fits(trained: Any) -> None:
    assert np.array_equal(trained.predict(x=[1, 2]), trained.predict(x=np.array([1, 2], np.int64)))


def test_an_interrupted_compilation_leaves_nothing_behind() -> None:
    """A notebook's stop button, then the next cell."""
    endless = LINE.replace("(nn:mse (funcall model x) y)", "(loop)")
    timer = threading.Timer(0.4, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        sx.compile_text(endless)
    timer.join()
    assert [p.path for p in sx.compile_text(LINE).parameters] == ["fit/w", "fit/b"]
    assert sx.evaluate("(+ 1 2)") == 3


def test_a_circular_value_is_not_printed_for_ever() -> None:
    with pytest.raises(sx.CompileError) as refused:
        sx.evaluate("(let ((x (list 1))) (setf (cdr x) x) x)")
    assert refused.value.diagnostics[0].code.id == "E-COND-001"


def test_knobs_may_be_scalars_of_numpy() -> None:
    given = sx.compile_text(LINE, knobs={"lr": np.float64(0.25)}).document
    plain = sx.compile_text(LINE, knobs={"lr": 0.25}).document
    assert given.manifest["selection"] == plain.manifest["selection"]
    with pytest.raises(TypeError, match="a knob takes"):
        sx.compile_text(LINE, knobs={"lr": object()})


@pytest.mark.parametrize(
    "options",
    [
        {"steps": "3"}, {"steps": 2.5}, {"steps": True}, {"steps": 0}, {"runs": 3}, {"slug": 7},
        {"device": 1}, {"time_limit": "1h"}, {"time_limit": -1}, {"fresh": "yes"}, {"log": "csv"},
        {"log": [3]}, {"on_event": 4}, {"peak_flops": "fast"}, {"quiet": None},
        {"allow_change": 1}, {"log": ["csvv"]},
    ],
    ids=str,
)  # fmt: skip
def test_options_of_another_type_are_told(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(sx.RunError) as refused:
        sx.compile_text(LINE).run(**{"device": "interp", **options})
    (found,) = refused.value.diagnostics
    assert found.code.id == "E-RUN-033"
    assert not list(tmp_path.iterdir())


def test_paths_may_be_path_objects(tmp_path: Path) -> None:
    run = sx.compile_text(LINE).run(runs=tmp_path, slug="it", device="interp")
    again = sx.compile_text(LINE).run(
        runs=tmp_path / "more", device="interp", resume=tmp_path / "it", allow_change=True
    )
    assert (run.state, again.state) == ("finished", "finished")


@pytest.mark.parametrize("runs", ["", "s3://bucket/runs"])
def test_runs_are_kept_in_a_local_folder(runs: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(sx.RunError) as refused:
        sx.compile_text(LINE).run(runs=runs, device="interp")
    assert [d.code.id for d in refused.value.diagnostics] == ["E-RUN-033"]
    assert not list(tmp_path.iterdir())


def test_arrays_of_a_traced_function() -> None:
    f = sx.function("(lambda (x) (+ x 1))")
    assert f([1 << 40])[0] == (1 << 40) + 1
    assert np.array_equal(f(np.ones(2, ">f4")), [2, 2])
    with pytest.raises(sx.CompileError):
        f([[1], [2, 3]])
    with pytest.raises(sx.CompileError):
        sx.function("(lambda (x) x)", device="tpu")(1.0)


def test_a_first_compilation_leaves_the_recursion_limit_as_it_was() -> None:
    """In a process of its own: only the first one loads the language."""
    code = (
        "import sys, sexpgpu as sx; before = sys.getrecursionlimit();"
        f"sx.compile_text({LINE!r}); assert sys.getrecursionlimit() == before"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    "options, code",
    [
        ({"init_from": 3}, "E-RUN-033"),
        ({"init_from": ""}, "E-RUN-033"),
        ({"init_from": "it", "init_map": {"a": 1}}, "E-RUN-033"),
        ({"init_from": "it", "init_map": ["a"]}, "E-RUN-033"),
        ({"init_from": "it", "init_missing": "fit/b"}, "E-RUN-033"),
        ({"init_from": "it", "init_extra": [1]}, "E-RUN-033"),
        ({"init_missing": ["fit/b"]}, "E-RUN-033"),
        ({"init_from": "nothing-there"}, "E-CKPT-001"),
    ],
)
def test_weights_to_begin_with_that_are_none(
    tmp_path: Path, options: dict[str, Any], code: str
) -> None:
    with pytest.raises(sx.RunError) as refused:
        sx.compile_text(LINE).run(runs=str(tmp_path), device="interp", **options)
    assert [d.code.id for d in refused.value.diagnostics] == [code]


def test_an_annotation_is_an_event(tmp_path: Path) -> None:
    run = sx.compile_text(LINE).run(device="interp", runs=str(tmp_path), slug="a", steps=4)
    before = len(run.events)
    said = run.annotate("too high a rate", step=2)
    assert (said["kind"], said["step"], said["text"]) == ("annotation", 2, "too high a rate")
    assert run.annotate("at the end")["step"] == 4
    assert sx.open_run(tmp_path / "a").events == run.events
    assert [e["seq"] for e in run.events] == list(range(before + 2))
    shutil.rmtree(tmp_path / "a")
    with pytest.raises(sx.RunError) as refused:
        run.annotate("nobody hears")
    assert refused.value.diagnostics[0].code.id == "E-CKPT-008"

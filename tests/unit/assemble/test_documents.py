"""Documents: both forms read back exactly, hashes, and damage that is refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sexpgpu as sx
from sexpgpu.diagnostics.model import SxError
from sexpgpu.ir.document_json import document_hash, document_text, read_document
from sexpgpu.ir.document_text import parse_document, print_document
from sexpgpu.ops import infer

EXAMPLES = Path(__file__).parents[3] / "examples"
SMALL = {"layers": 1, "heads": 1, "width": 8, "context": 8, "batch": 2}


def document(name: str) -> Any:
    return sx.compile(EXAMPLES / f"{name}.sx", knobs=SMALL if name == "gpt-char" else {}).document


@pytest.mark.parametrize("name", ["line", "digits", "digits-conv", "gpt-char", "maml"])
def test_json_reads_back_to_the_byte(name: str) -> None:
    text = document_text(document(name))
    assert document_text(read_document(text, infer)) == text


@pytest.mark.parametrize("name", ["line", "gpt-char", "maml"])
def test_the_text_form_reads_back_to_the_same_document(name: str) -> None:
    made = document(name)
    read = parse_document(print_document(made), infer)
    assert document_hash(read) == document_hash(made)
    assert print_document(read, origins=False) == print_document(made, origins=False)


def test_comments_and_layout_do_not_change_the_hash_but_numbers_do() -> None:
    text = (EXAMPLES / "line.sx").read_text()
    hashes = [
        document_hash(sx.compile_text(t).document)
        for t in (text, "; a comment\n\n" + text.replace("(forward", "\n   (forward"),
                  text.replace(":lr 0.1", ":lr 0.2"))
    ]  # fmt: skip
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_document_alone_trains_to_the_same_parameters(tmp_path: Path) -> None:
    from sexpgpu.loop.run import RunOptions, execute

    made = document("line")
    text = document_text(made)
    results = [
        execute(
            d,
            RunOptions(device="interp", runs=str(tmp_path / n), quiet=True, handle_signals=False),
            ir_text=text,
            ir_hash=document_hash(made),
        )
        for n, d in (("a", made), ("b", read_document(text, infer)))
    ]
    for path, value in results[0].parameters.items():
        assert (value == results[1].parameters[path]).all()


BODIES = """
(require "sexpgpu/optim" :as optim)
(defloader train :source (inline (x (0.0 1.0) (1.0 3.0))) :batch 2)
(defun prepare (batch) (field batch :x))
(defmodel net () (defparam w (2))
  (forward (x)
    (recompute (lambda (x) (scan (lambda (h e) (values (tanh (+ (* h w) e)) (dropout h 0.5)))
                                 (zeros (list (dim x 1))) x))
               x)))
(defun objective (model x) (mean (funcall model x)))
(defrun net :model (net) :optimizer (optim:sgd :lr 0.1) :steps 2)
"""
"""Graphs in graphs in graphs."""

LINE = json.loads(document_text(document("line")))
NESTED = json.loads(document_text(sx.compile_text(BODIES).document))


def places(data: Any, path: tuple[Any, ...] = ()) -> Any:
    """Every place of the data but in the free parts: manifest, sources, constants."""
    yield path
    if isinstance(data, dict):
        for key, value in data.items():
            if key not in ("manifest", "sources", "constants", "source"):
                yield from places(value, (*path, key))
    elif isinstance(data, list):
        for i, value in enumerate(data):
            yield from places(value, (*path, i))


PLACES = [("line", p) for p in places(LINE) if p] + [
    ("nested", p) for p in places(NESTED) if p and p[0] == "graphs"
]
WHOLE = {"line": LINE, "nested": NESTED}
JUNK = st.sampled_from([None, True, -1, 0, 3, 1.5, "x", "", [], {}, [1], {"a": 1}, "train/main"])


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(PLACES), st.sampled_from(["drop", "set", "copy"]), JUNK, st.sampled_from(PLACES)
)
def test_damage_is_refused_or_harmless(target: Any, how: str, junk: Any, origin: Any) -> None:
    """A dropped, retyped or exchanged part gives a coded error, or a document that is sound."""
    (name, place), (other_name, other) = target, origin
    data = copy.deepcopy(WHOLE[name])
    at, source = data, WHOLE[other_name]
    for key in place[:-1]:
        at = at[key]
    if how == "drop":
        del at[place[-1]]
    elif how == "set":
        at[place[-1]] = junk
    else:
        for key in other:
            source = source[key]
        at[place[-1]] = copy.deepcopy(source)
    try:
        read = read_document(json.dumps(data), infer)
    except SxError as error:
        codes = {d.code.id.rpartition("-")[0] for d in error.diagnostics}
    else:
        codes = set()
        assert document_text(read_document(document_text(read), infer)) == document_text(read)
    assert codes <= {"E-IR", "E-SHAPE", "E-DTYPE", "E-OP"}


@pytest.mark.parametrize("number", ["1e999", "-1e999", "[1.0,1e999]", '{"a":1e999}'])
@pytest.mark.parametrize("place", ['"clip_norm":', '"manifest":', '"range":', '"constants":'])
def test_a_number_that_no_float_holds_is_refused(place: str, number: str) -> None:
    text = json.dumps(LINE, ensure_ascii=False, separators=(",", ":"))
    at = text.index(place) + len(place)
    end = at + len(json.dumps(json.JSONDecoder().raw_decode(text[at:])[0], separators=(",", ":")))
    with pytest.raises(SxError) as refused:
        read_document(text[:at] + number + text[end:], infer)
    assert refused.value.diagnostics[0].code.id == "E-IR-003"


def test_an_infinity_in_text_is_refused() -> None:
    text = print_document(read_document(json.dumps(LINE), infer))
    for number in ("inf", "-inf", "nan", "1e999"):
        with pytest.raises(SxError) as refused:
            parse_document(text.replace('"clip_norm" none', f'"clip_norm" {number}'), infer)
        assert refused.value.diagnostics[0].code.id in ("E-IR-003", "E-IR-009")


@pytest.mark.parametrize("dtype", ["(f32)", "()", '"f32"', "x"])
def test_a_dtype_that_is_none_is_refused(dtype: str) -> None:
    text = print_document(read_document(json.dumps(LINE), infer))
    assert "(%p (f32 (1 1)))" in text
    with pytest.raises(SxError) as refused:
        parse_document(text.replace("(%p (f32 (1 1)))", f"(%p ({dtype} (1 1)))"), infer)
    assert refused.value.diagnostics[0].code.id == "E-IR-009"


def of_source(source: dict[str, Any]) -> str:
    data = copy.deepcopy(LINE)
    data["loaders"][0]["stages"][0]["source"] = source
    return json.dumps(data)


@pytest.mark.parametrize(
    "dtype, values",
    [
        ("f32", [1e39]),
        ("f16", [-65600.0]),
        ("i32", [1.5]),
        ("i8", [128]),
        ("u8", [-1]),
        ("bool", [2]),
    ],
)
def test_inline_values_that_do_not_fit_are_refused(dtype: str, values: list[Any]) -> None:
    column = {"dtype": dtype, "shape": [], "values": values}
    with pytest.raises(SxError, match=r".") as refused:
        read_document(of_source({"kind": "inline", "count": 1, "columns": {"x": column}}), infer)
    assert f"values do not fit {dtype}" in refused.value.diagnostics[0].headline


@pytest.mark.parametrize(
    "dtype, drawn",
    [
        ("i32", ["integers", 3, 3]), ("i8", ["integers", 0, 129]), ("i32", ["integers", 0.0, 2.0]),
        ("f32", ["integers", 0, 2]), ("i32", ["normal", 0, 1]), ("bool", ["normal", 0, 1]),
        ("f32", ["normal", 0, -1]), ("f32", ["uniform", 1, 0]), ("f16", ["uniform", 0, 1e6]),
    ],
)  # fmt: skip
def test_distributions_that_cannot_be_drawn_are_refused(dtype: str, drawn: list[Any]) -> None:
    column = {"dtype": dtype, "shape": [], "distribution": drawn}
    with pytest.raises(SxError, match=r".") as refused:
        read_document(of_source({"kind": "synthetic", "count": 9, "columns": {"x": column}}), infer)
    assert f"distribution gives no {dtype}" in refused.value.diagnostics[0].headline


RENAMED = [
    ("train/main", "batch/x"), ("train/main", "batch/y"), ("init/0", "rng/key"), ("update/0", "g"),
    ("update/0", "hyper/lr"), ("update/0", "ctx/updates"), ("clip", "grad/fit/w"),
    ("hyper/default", "ctx/step"),
]  # fmt: skip
SCHEDULED = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train :source (inline (x (0.0) (1.0)) (y (1.0) (3.0))) :batch 2)
(defun prepare (batch) (values (field batch :x) (field batch :y)))
(defmodel line () (submodel fit (nn:linear 1 1)) (forward (x) (fit x)))
(defun objective (model x y) (nn:mse (funcall model x) y))
(defrun line :model (line) :optimizer (optim:adamw :lr (optim:cosine 0.1 6)) :steps 6)
"""


def test_an_input_that_the_loop_does_not_know_is_refused() -> None:
    """Whatever input of whatever graph has another name: there is nothing to give it."""
    whole = json.loads(document_text(sx.compile_text(SCHEDULED).document))
    names = {(g, i["name"]) for g, row in whole["graphs"].items() for i in row["inputs"]}
    assert set(RENAMED) <= names
    for graph, name in sorted(names):
        data = copy.deepcopy(whole)
        row = next(i for i in data["graphs"][graph]["inputs"] if i["name"] == name)
        row["name"] += "-other"
        with pytest.raises(SxError) as refused:
            read_document(json.dumps(data), infer)
        assert refused.value.diagnostics[0].code.id == "E-IR-004", (graph, name)

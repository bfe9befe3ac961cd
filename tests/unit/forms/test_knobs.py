"""Knobs, variants and selections: what is read before evaluation."""

import pytest

from sexpgpu.compiler import declarations, read_value
from sexpgpu.diagnostics.model import SxError
from sexpgpu.forms import knobs
from sexpgpu.forms.knobs import plain, select
from sexpgpu.source import Source

FILE = """
(defknob lr 3e-4 :doc "peak" :min 0.0 :max 1.0)
(defknob act :gelu :choices (:gelu :relu))
(defknob width 64)
(defknob name "a")
(defknob flag nil)
(defknob sizes (1 2))
(defvariant wide "wider" (width 1024) (lr 1e-4))
(defvariant hot (lr 1))
(defsweep lrs (:grid (lr 1e-4 1e-3) (width 128 256)))
"""


def scan(text):
    declared, problems = declarations(Source("x.sx", text))
    return declared, [d.code.id for d in problems]


def values(selection):
    return {k.name: plain(k.value) for k in selection.knobs.values()}


def test_defaults_with_their_sources():
    declared, problems = scan(FILE)
    assert problems == []
    selection = select(declared, [], [])
    assert values(selection) == {
        "lr": 3e-4, "act": ":gelu", "width": 64, "name": "a", "flag": None, "sizes": [1, 2],
    }  # fmt: skip
    assert {k.source for k in selection.knobs.values()} == {"default"}


def test_later_variants_win_and_settings_win_over_variants():
    declared, _ = scan(FILE)
    selection = select(declared, ["wide", "hot"], [("width", read_value("width", "8"))])
    assert values(selection)["lr"] == 1.0
    assert values(selection)["width"] == 8
    sources = {k.name: k.source for k in selection.knobs.values()}
    assert (sources["lr"], sources["width"], sources["act"]) == ("variant hot", "--set", "default")


def test_an_integer_is_accepted_for_a_float_knob_and_becomes_a_float():
    declared, _ = scan(FILE)
    value = select(declared, ["hot"], []).knobs["lr"].value
    assert type(value) is float
    assert value == 1.0


@pytest.mark.parametrize(
    "name,text",
    [
        ("lr", "2.0"), ("lr", "-1"), ("lr", ":a"), ("lr", '"x"'), ("lr", "t"), ("act", ":tanh"),
        ("act", "1"), ("width", "1.5"), ("width", "t"), ("name", "1"), ("sizes", "3"),
        ("lr", "(+ 1 2"), ("lr", ""), ("lr", "1 2"), ("lr", "x"), ("lr", "#.1"),
    ],
)  # fmt: skip
def test_values_of_another_kind_or_out_of_range(name, text):
    declared, _ = scan(FILE)
    with pytest.raises(SxError) as caught:
        select(declared, [], [(name, read_value(name, text))])
    assert caught.value.diagnostics[0].code.id == "E-KNOB-003"


@pytest.mark.parametrize(
    "variants,settings,nearest", [([], [("widht", 3)], "width"), (["wied"], [], "wide")]
)
def test_unknown_names_get_the_nearest(variants, settings, nearest):
    declared, _ = scan(FILE)
    with pytest.raises(SxError) as caught:
        select(declared, variants, settings)
    found = caught.value.diagnostics[0]
    assert found.code.id == "E-KNOB-002"
    assert nearest in found.fix


def test_seed_and_steps_override_the_run_where_no_such_knob_is():
    declared, _ = scan(FILE)
    assert select(declared, [], [("seed", 3), ("steps", 7)]).overrides == {"seed": 3, "steps": 7}
    declared, _ = scan("(defknob steps 5)")
    selection = select(declared, [], [("steps", 7)])
    assert selection.overrides == {}
    assert values(selection) == {"steps": 7}


@pytest.mark.parametrize(
    "text,code",
    [
        ("(defknob lr (/ 1 10))", "E-KNOB-001"),
        ("(defknob)", "E-KNOB-001"),
        ("(defknob lr)", "E-KNOB-001"),
        ("(defknob lr x)", "E-KNOB-001"),
        ("(defknob lr 1 :mni 0)", "E-RUN-002"),
        ("(defknob lr 1 :min :a)", "E-KNOB-001"),
        ("(defknob lr 1 :min)", "E-KNOB-001"),
        ("(defknob lr 1 :choices 3)", "E-KNOB-001"),
        ("(defknob lr 1) (defknob lr 2)", "E-KNOB-004"),
        ("(defknob t 1)", "E-KNOB-004"),
        ("(defknob pi 1)", "E-KNOB-004"),
        ("(defknob lr 5 :max 1)", "E-KNOB-003"),
        ("(defknob lr 1) (defvariant v (lr :a))", "E-KNOB-003"),
        ("(defknob lr 1) (defvariant v (rl 2))", "E-KNOB-002"),
        ("(defknob lr 1) (defvariant v (lr (+ 1 2)))", "E-KNOB-001"),
        ("(defknob lr 1) (defvariant v (lr 2)) (defvariant v (lr 3))", "E-KNOB-004"),
        ("(defsweep s (grid (lr 1)))", "E-KNOB-001"),
        ("(defsweep s (:grid (lr 1)))", "E-KNOB-002"),
    ],
)
def test_declarations_that_cannot_be(text, code):
    assert scan(text)[1] == [code]


def test_several_mistakes_are_found_together():
    assert scan("(defknob a x)\n(defknob b 1)\n(defvariant v (c 1))")[1] == [
        "E-KNOB-001",
        "E-KNOB-002",
    ]


def test_equal_compares_kind_and_content():
    assert knobs.equal(1, 1)
    assert not knobs.equal(1, 1.0)

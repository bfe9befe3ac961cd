"""Selectors of optimizer groups: each kind, how they combine, and groups that take nothing."""

from __future__ import annotations

import pytest

import sexpgpu as sx

FILE = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train :source (synthetic 4 (x :f32 (3) (:normal 0 1))) :batch 4)
(defun prepare (batch) (field batch :x))
(defun wide-p (p) (> (reduce #'max (getf p :shape)) 4))
(defmodel layer (in out)
  (defparam w (in out) :init (random-normal shape) :tags (:matrix))
  (defparam b (out))
  (forward (x) (+ (matmul x w) b)))
(defmodel net ()
  (submodel up (layer 3 5))
  (submodel body (repeat 2 (layer 5 5)))
  (submodel down (layer 5 2))
  (defparam scale () :init 1.0 :tags (:scalar :last))
  (forward (x) (* scale (down (body (up x))))))
(defun objective (model x) (mean (square (funcall model x))))
(defrun net :model (net) :optimizer (optimizer-groups (optim:sgd) {groups}) :steps 1)
"""
ALL = {
    "up/w", "up/b", "body/0/w", "body/0/b", "body/1/w", "body/1/b", "down/w", "down/b", "scale",
}  # fmt: skip
B = {path for path in ALL if path.endswith("/b")}
W = {path for path in ALL if path.endswith("/w")}

SELECTED = {
    '"up/w"': {"up/w"},
    '"up/*"': {"up/w", "up/b"},
    '"*/w"': {"up/w", "down/w"},
    '"*"': {"scale"},
    '"**/b"': B,
    '"**"': ALL,
    '"body/**/w"': {"body/0/w", "body/1/w"},
    '"body/*/b"': {"body/0/b", "body/1/b"},
    '"*o*n/?"': set(),
    "(rank 0)": {"scale"},
    "(rank 0 1)": B | {"scale"},
    "(dtype :f32)": ALL,
    "(dtype :bf16)": set(),
    "(tag :matrix)": W,
    "(tag :last :matrix)": W | {"scale"},
    "(size > 15)": {"body/0/w", "body/1/w"},
    "(size <= 2)": {"down/b", "scale"},
    "(size = 15)": {"up/w"},
    '(and (rank 2) (not "body/**"))': {"up/w", "down/w"},
    '(or "scale" (and "down/**" (rank 1)))': {"scale", "down/b"},
    "(not (rank 1))": W | {"scale"},
    "(lambda (p) (equal (getf p :shape) '(5 2)))": {"down/w"},
    "(lambda (p) (member :scalar (getf p :tags)))": {"scale"},
    "(and (rank 1 2) #'wide-p)": {"up/w", "up/b", "body/0/w", "body/0/b", "body/1/w", "body/1/b",
                                  "down/w"},
}  # fmt: skip


def groups(text: str) -> tuple[dict[str, str | None], list[str]]:
    made = sx.compile_text(FILE.format(groups=text))
    warnings = [d.headline for d in made.diagnostics if d.code.id == "W-OPT-001"]
    return {p.path: p.group for p in made.document.parameters}, warnings


@pytest.mark.parametrize("selector", SELECTED)
def test_each_selector(selector: str) -> None:
    found, warnings = groups(f"(group chosen {selector} :lr 0.5)")
    assert {path for path, group in found.items() if group == "chosen"} == SELECTED[selector]
    assert bool(warnings) == (not SELECTED[selector])


def test_the_first_match_wins_and_the_rest_is_the_base() -> None:
    found, warnings = groups(
        '(group a (rank 2) :lr 0.1) (group b "body/**" :lr 0.2) (group c (rank 2) :lr 0.3)'
    )
    assert found == {
        **dict.fromkeys(W, "a"), "body/0/b": "b", "body/1/b": "b", "up/b": "default",
        "down/b": "default", "scale": "default",
    }  # fmt: skip
    assert len(warnings) == 1
    assert "the earlier group a took all" in warnings[0]


def test_a_frozen_group_has_no_update() -> None:
    made = sx.compile_text(FILE.format(groups='(group still "body/**" :frozen t)')).document
    assert set(made.updates) == {path for path in ALL if not path.startswith("body")}
    assert not [n for n in made.graphs["train/main"].outputs if n.startswith("grad/body")]


@pytest.mark.parametrize(
    "selector, code",
    [
        ("(rank -1)", "E-OPT-003"),
        ("(dtype :f33)", "E-OPT-003"),
        ("(size ~ 3)", "E-OPT-003"),
        ("(tags :matrix)", "E-OPT-003"),
        ("(tag matrix)", "E-NAME-001"),
    ],
)
def test_a_malformed_selector_has_a_code(selector: str, code: str) -> None:
    with pytest.raises(sx.CompileError) as caught:
        groups(f"(group chosen {selector} :lr 0.5)")
    assert caught.value.diagnostics[0].code.id == code

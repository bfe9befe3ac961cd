"""The typical mistakes of newcomers: `check` names each with its mend, and `check --fix` mends
those that can mean only one thing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from newcomer import ADAMW, BODY, CALL, GOOD, LOSS, UP

if TYPE_CHECKING:
    from collections.abc import Callable


class Mistake(NamedTuple):
    """`old` of the good file replaced by `new` gives `code` at `place` (its text's beginning), and
    a fix that says `says`. `mended`: what `check --fix` makes of `new`, or None."""

    name: str
    old: str
    new: str
    code: str
    place: str
    says: str
    mended: str | None = None


# fmt: off
MISTAKES = [
    # transpositions, shapes, reductions
    Mistake("weights transposed", BODY, "(matmul x (transpose (param up \"w\")))",
            "E-SHAPE-002", "(matmul x (transpose", "first axis of b must be 2"),
    Mistake("wrong width", "(nn:linear 2 width)", "(nn:linear 3 width)",
            "E-SHAPE-002", "(up x)", "must be 2, the last axis of a"),
    Mistake("batch flattened", BODY, "(head (flatten (relu (up x))))",
            "E-SHAPE-002", "(head", "(flatten (relu (up x)) :from 1)"),
    Mistake("batch averaged in the model", BODY, f"(mean {BODY} :axis 0)",
            "E-COND-001", LOSS, "keep axis 0"),
    Mistake("batch reduced twice", LOSS, f"(mean {LOSS} :axis 0)",
            "E-SHAPE-003", "(mean", "remove the second reduction"),
    Mistake("no reduction", LOSS, CALL, "E-RUN-008", "(defun objective", "take the mean"),
    Mistake("axis by place", LOSS, "(mean (sum (funcall model x) 1))",
            "E-ARG-001", "(sum", ":axis 1", "(mean (sum (funcall model x) :axis 1))"),
    Mistake("dim for axis", LOSS, "(mean (sum (funcall model x) :dim 1))",
            "E-ARG-002", "(sum", "write :axis", "(mean (sum (funcall model x) :axis 1))"),
    Mistake("tensors to join by place", BODY, "(head (concat (up x) (up x)))",
            "E-ARG-001", "(concat", "(concat (list a b) :axis …)"),
    Mistake("a named argument by place", UP, "(submodel up (nn:linear 2 width nil))",
            "E-ARG-002", "(nn:linear", "write :bias nil"),
    Mistake("a pooling layer called as a function", BODY, "(head (nn:max-pool2d (up x) 2))",
            "E-ARG-002", "(nn:max-pool2d", "(submodel pool (nn:max-pool2d 2))"),
    Mistake("a call as a shape", "(defparam scale (width)", "(defparam scale (shape width)",
            "E-NAME-001", "(defparam scale", "(shape …) is read as two"),
    Mistake("a bare metric", LOSS, f"(metric size (mean x)) {LOSS}",
            "E-NAME-001", "size", "write :size", f"(metric :size (mean x)) {LOSS}"),
    # losses, labels, optimizers
    Mistake("softmax before cross-entropy", LOSS,
            "(nn:cross-entropy (softmax (funcall model x)) y)",
            "W-NUM-001", "(softmax", "remove the softmax"),
    Mistake("labels as floats", "(y :i32 ())", "(y :f32 ())",
            "E-COND-001", LOSS, "(cast labels :i32)"),
    Mistake("labels before logits", LOSS, "(nn:cross-entropy y (funcall model x))",
            "E-COND-001", "(nn:cross-entropy y", "logits come first"),
    Mistake("learning rate as an integer", ADAMW, "(optim:adamw :lr (progn lr 1))",
            "W-OPT-002", "(optim:adamw", "as a float"),
    Mistake("learning rate as a text", ADAMW, '(optim:adamw :lr "1e-3" :decay (* 0 lr))',
            "E-OPT-001", '"1e-3"', "write 1e-3", "(optim:adamw :lr 1e-3 :decay (* 0 lr))"),
    Mistake("quoted knob", ADAMW, "(optim:adamw :lr 'lr)",
            "E-OPT-001", "'lr", "write lr", ADAMW),
    Mistake("torch's keyword", ADAMW, "(optim:adamw :lr lr :weight_decay 0.1)",
            "E-ARG-002", "(optim:adamw", "write :decay", "(optim:adamw :lr lr :decay 0.1)"),
    Mistake("layer of another library", "(nn:linear 2 width)", "(nn:dense 2 width)",
            "E-READ-007", "nn:dense", "write nn:linear"),
    # names and modules
    Mistake("call for funcall", CALL, "(call model x)",
            "E-NAME-002", "(call", "write funcall", CALL),
    Mistake("model called as a function", CALL, "(model x)",
            "E-NAME-002", "(model", "model is a variable here", CALL),
    Mistake("block as a model's name", "(defmodel net ()",
            "(defun net () (block))\n(defmodel block ()",
            "E-NAME-004", "block", "choose another name, such as block-model"),
    Mistake("forgotten :as", '(require "sexpgpu/nn" :as nn)', '(require "sexpgpu/nn")',
            "E-READ-007", "nn:linear", ":as nn", '(require "sexpgpu/nn" :as nn)'),
    Mistake("forgotten require", '(require "sexpgpu/nn" :as nn)\n', "",
            "E-READ-007", "nn:linear", "begin the file with",
            '(require "sexpgpu/nn" :as nn)\n'),
    Mistake("forgotten prefix", "(nn:linear 2 width)", "(linear 2 width)",
            "E-NAME-002", "(linear", "write nn:linear", "(nn:linear 2 width)"),
    Mistake("dotted name", "(nn:linear 2 width)", "(nn.linear 2 width)",
            "E-NAME-002", "(nn.linear", "write nn:linear", "(nn:linear 2 width)"),
    Mistake("two colons", "(nn:linear 2 width)", "(nn::linear 2 width)",
            "E-READ-006", "nn::linear", "write nn:linear", "(nn:linear 2 width)"),
    Mistake("constructor not called", UP, "(submodel up nn:linear)",
            "E-NAME-001", "(submodel", "write (nn:linear …) to call it"),
    Mistake("function without #'", BODY, "(head (reduce + (list (up x) (up x))))",
            "E-NAME-001", "+", "#'+ for the function itself"),
    Mistake("def for defun", "(defun prepare", "(def prepare",
            "E-NAME-002", "(def prepare", "write defun", "(defun prepare"),
    Mistake("define as in Scheme", "(defun prepare (batch)", "(define (prepare batch)",
            "E-NAME-002", "(define", "(defun prepare (batch) …)", "(defun prepare (batch)"),
    Mistake("misspelt key", ":optimizer (", ":optimiser (",
            "E-RUN-002", ":optimiser", "did you mean :optimizer?"),
    # habits of Python
    Mistake("= for assignment", BODY, f"(= h (up x)) {BODY}",
            "E-NAME-001", "h", "= compares numbers"),
    Mistake("infix assignment", BODY, f"h = (up x) {BODY}",
            "E-NAME-001", "h", "named with let: (let ((h …)) …)"),
    Mistake("setq of nothing", BODY, "(progn (setq h (up x)) (head h))",
            "E-NAME-001", "(setq h", "name the value with (let ((h …)) …)"),
    Mistake("x[0]", LOSS, "(mean (square (- (at (funcall model x) 0 0) x[0])))",
            "E-NAME-001", "x[0]", "(at x 0)",
            "(mean (square (- (at (funcall model x) 0 0) (at x 0))))"),
    Mistake("x.shape", BODY, "(head (reshape (up x) (list (first x.shape) width)))",
            "E-NAME-001", "x.shape", "write (shape x)",
            "(head (reshape (up x) (list (first (shape x)) width)))"),
    Mistake("name=value", BODY, "(softmax (head (up x)) axis=1)",
            "E-NAME-001", "axis=1", ":axis 1"),
    Mistake("f(x)", CALL, "model(x)", "E-NAME-002", "model(x)", "(model x)"),
    Mistake("f(x, y)", LOSS, "(nn:cross-entropy (funcall model, x) y)",
            "E-READ-008", ",", "remove the comma", LOSS),
    Mistake("True", ":batch 3", ":batch 3 :shuffle True",
            "E-NAME-001", "True", "write t", ":batch 3 :shuffle t"),
    Mistake("None", ":batch 3", ":batch 3 :shuffle None",
            "E-NAME-001", "None", "write nil", ":batch 3 :shuffle nil"),
    Mistake("1_000", ":steps 20", ":steps 1_000",
            "E-NAME-001", "1_000", "write 1000", ":steps 1000"),
    Mistake("steps as a float", ":steps 20", ":steps 20.0",
            "E-RUN-006", "20.0", "write 20", ":steps 20"),
    Mistake("==", BODY, f"(if (== width 8) {BODY} x)",
            "E-NAME-002", "(==", "write =", f"(if (= width 8) {BODY} x)"),
    Mistake("!=", BODY, f"(if (!= width 9) {BODY} x)",
            "E-NAME-002", "(!=", "write /=", f"(if (/= width 9) {BODY} x)"),
    Mistake("**", BODY, "(head (** (up x) 2))",
            "E-NAME-002", "(**", "write expt", "(head (expt (up x) 2))"),
    Mistake("@", BODY, "(@ x (param up \"w\"))",
            "E-NAME-002", "(@", "write matmul", "(matmul x (param up \"w\"))"),
    Mistake("len", BODY, f"(if (> (len (shape x)) 1) {BODY} x)",
            "E-NAME-002", "(len", "write length", f"(if (> (length (shape x)) 1) {BODY} x)"),
    Mistake("for loop", BODY, f"(progn (for i in (range 3) (print i)) {BODY})",
            "E-NAME-002", "(for", "(dolist (i list) …)"),
    Mistake("return", BODY, f"(return {BODY})",
            "E-ARG-004", "(return", "write the form alone"),
    Mistake("# comment", "(defun prepare (batch)", "(defun prepare (batch)\n  # the batch",
            "E-READ-005", "# ", "begins with a semicolon", "(defun prepare (batch)\n  ; the batch"),
    Mistake("single quotes", '"sexpgpu/nn" :as nn', "'sexpgpu/nn' :as nn",
            "E-MOD-003", "'sexpgpu/nn'", "double quotes", '"sexpgpu/nn" :as nn'),
    Mistake("f-string", BODY, f'(progn (print f"{{x}}") {BODY})',
            "E-NAME-001", "f", "(format nil"),
    Mistake("brackets for a list", "(nn:linear 2 width)", "(nn:linear [2] width)",
            "E-NAME-001", "[2]", "a list is (list 1 2)"),
    # quotes and parentheses
    Mistake("quoted model", ":model (net)", ":model '(net)",
            "E-RUN-006", "'(net)", "write (net)", ":model (net)"),
    Mistake("quoted shape", "(defparam scale (width)", "(defparam scale '(width)",
            "E-NAME-001", "'(", "remove the quote", "(defparam scale (width)"),
    Mistake("list without a quote", BODY, f"(progn (dolist (i (1 2 3)) (list i)) {BODY})",
            "E-ARG-004", "(1 2 3)", "'(1 2 3)", f"(progn (dolist (i '(1 2 3)) (list i)) {BODY})"),
    Mistake("let without inner parentheses", BODY, "(let (h (up x)) (head h))",
            "E-OP-001", "(let (h", "(let ((h …)) …)"),
    Mistake("let closed too late", BODY, "(let ((h (up x)) (head h)))",
            "E-NAME-001", "h", "close them earlier"),
    Mistake("bare parameter of lambda", BODY, "(funcall (lambda v (head (up v))) x)",
            "E-ARG-003", "(lambda v", "(lambda (v) …)", "(funcall (lambda (v) (head (up v))) x)"),
    Mistake("cond without inner parentheses", BODY, f"(cond (> width 4) {BODY})",
            "E-NAME-001", ">", "begins with its test"),
    Mistake("if with too many forms", BODY, f"(if (> width 4) {BODY} {BODY} {BODY})",
            "E-ARG-004", "(if", "(progn …)"),
    Mistake("parenthesis too many", "(field batch :y)))", "(field batch :y))))",
            "E-READ-002", ")", "remove it", "(field batch :y)))"),
    Mistake("parenthesis missing", "(field batch :y)))", "(field batch :y))",
            "E-READ-001", "(", "close the list"),
    Mistake("field without a colon", "(field batch :x)", "(field batch x)",
            "E-NAME-001", "x", "write :x", "(field batch :x)"),
    # staging and structure
    Mistake("tensor in if", BODY, f"(if (> (mean x) 0) {BODY} x)",
            "E-FLOW-001", "(> (mean x) 0)", "(where test a b)"),
    Mistake("tensors in and", BODY, "(head (where (and (> (up x) 0) (< (up x) 1)) (up x) 0.0))",
            "E-FLOW-001", "(> (up x) 0)", "logical-and"),
    Mistake("defparam in a function", "(defun objective (model x y)",
            "(defun objective (model x y)\n  (defparam w (2))",
            "E-ARG-004", "(2)", "a clause of defmodel"),
    Mistake("prepare gives a list", "(values (field batch :x) (field batch :y))",
            "(list (field batch :x) (field batch :y))",
            "E-ARG-001", "(defun prepare", "(values …) in place of the list"),
    Mistake("layer built in forward", BODY, "(head (funcall (nn:linear 2 width) x))",
            "E-PARAM-006", "(nn:linear 2 width)", "in a submodel clause"),
    Mistake("batch larger than the data", ":batch 3)", ":batch 64)",
            "E-DATA-004", "train", "smaller :batch"),
]
# fmt: on


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "net.sx"


def test_the_file_itself_is_good(sx: Callable[..., object], file: Path) -> None:
    file.write_text(GOOD)
    assert sx("check", str(file), "--json").json["diagnostics"] == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name)
def test_mistake(sx, file: Path, mistake: Mistake) -> None:
    assert GOOD.count(mistake.old) == 1
    text = GOOD.replace(mistake.old, mistake.new)
    file.write_text(text)
    found = sx("check", str(file), "--json").json["diagnostics"]
    named = [d for d in found if d["code"] == mistake.code and mistake.says in d["fix"]]
    assert named, found
    first = named[0]
    line = "\n".join(text.split("\n")[first["line"] - 1 :])
    assert line[first["column"] - 1 :].startswith(mistake.place)
    safe = [edit for d in found for edit in d.get("edits", ()) if edit["safe"]]
    assert bool(safe) == (mistake.mended is not None), "only what is certain is safe"
    if mistake.mended is not None:
        result = sx("check", str(file), "--fix", "--json")
        assert file.read_text() == GOOD.replace(mistake.old, mistake.mended)
        assert (result.json["errors"], result.code) == (0, 0)


def test_several_at_once(sx, file: Path) -> None:
    """Mistakes in forms that do not depend on each other are all found, and mended, in one pass."""
    wrong = {
        ":batch 3": ":batch 3 :shuffle True",
        "(defun prepare (batch)": "(define (prepare batch)",
        "(nn:linear 2 width)": "(nn::linear 2 width)",
        CALL: "(funcall model, x)",
    }
    text = GOOD
    for old, new in wrong.items():
        text = text.replace(old, new)
    file.write_text(text)
    found = sx("check", str(file), "--json").json["diagnostics"]
    assert [d["line"] for d in found] == [10, 12, 16, 23]
    assert sx("check", str(file), "--fix").code == 0
    assert file.read_text() == GOOD.replace(":batch 3", ":batch 3 :shuffle t")


def test_one_behind_the_other(sx, file: Path) -> None:
    """Within a form a mistake shows only when the one before it is mended: --fix goes on."""
    wrong = '(head (** (@ x (param up "w")) (+ 1.0 x.ndim)))'
    mended = '(head (expt (matmul x (param up "w")) (+ 1.0 (rank x))))'
    file.write_text(GOOD.replace(BODY, wrong))
    assert sx("check", str(file), "--fix").code == 0
    assert file.read_text() == GOOD.replace(BODY, mended)

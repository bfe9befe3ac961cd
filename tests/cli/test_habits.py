"""Habits of other libraries and of other Lisps: each message names the mend. (`test_mistakes.py`
has the more common ones, with their places.)"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from newcomer import ADAMW, BODY, CALL, GOOD, LOSS, UP

from sexpgpu.compiler import check_text

FIELDS = "(values (field batch :x) (field batch :y))"
SCALE = "(defparam scale (width) :init 1.0)"
SOURCE = "(inline (x (0.0 1.0) (1.0 0.0) (2.0 1.0)) (y 0 1 1))"
STEPS = ":steps 20"
NN = '(require "sexpgpu/nn" :as nn)'

# fmt: off
HABITS = [
    # (what stands in place of what, what the fix says, and the whole mend where it is certain)
    (UP, "(submodel up (nn:conv2d 1 8 :kernel-size 3))", "leave :kernel-size out"),
    (UP, UP + "(submodel drop (nn:dropout 0.1))", "write nn:dropout-layer"),
    (UP, "(submodel up (nn:sequential (nn:linear 2 width) #'relu))", "(stack a b …)"),
    (UP, "(submodel up (sequential (nn:linear 2 width) #'relu))", "(stack a b …)"),
    (UP, "(submodel up (stack (nn:linear 2 width) (relu)))", "#'relu"),
    (UP, "(submodel up (stack (nn:linear 2 width) :relu))", "#'relu"),
    (UP, "(submodel up (repeat (nn:linear 2 width) 3))", "the number comes first"),
    (UP, "(submodel up (nn:linear 2 width) #'relu)", "(submodel up (stack a b …))"),
    (UP, "(submodel (up (nn:linear 2 width)))", "(submodel up …)"),
    (UP, '(submodel "up" (nn:linear 2 width))', "(submodel up …)"),
    (SCALE, "(parameter scale (width))", "(defparam name"),
    (SCALE, "(defparam scale 2 width)", "write (2 width)"),
    (SCALE, "(defparam scale (width) (nn:he-normal))", "write :init (nn:he-normal)"),
    (SCALE, "(defparam scale (width) :init :ones)", ":init 1.0"),
    (SCALE, "(defparam scale (width) :init (random-normal (list 2)))", "(random-normal shape)"),
    (SCALE, "(defparam scale (list width) :init 1.0)", "remove `list`", SCALE),
    (BODY, "(head (nn:relu (up x)))", "write relu"),
    (BODY, "(head (F.relu (up x)))", "write relu"),
    (BODY, "(head (math.sqrt (up x)))", "write sqrt"),
    (BODY, "(head (torch.cat (list (up x)) :axis 1))", "write concat"),
    (BODY, "(head (* (up x) (x.mean)))", "write (mean x …)"),
    (BODY, "(head (self.up x))", "write up"),
    (CALL, "(model.forward x)", "write (funcall model …)"),
    (CALL, "(funcall #'model x)", "write model", CALL),
    (CALL, "(apply model x)", "write funcall", CALL),
    (BODY, "(head (zeros-like (up x)))", "(zeros (shape x))"),
    (BODY, "(head (+ (zeros 3 8) (up x)))", "one list", "(head (+ (zeros (list 3 8)) (up x)))"),
    (BODY, "(head (+ (zeros '(3 width)) (up x)))", "(list 3 width)",
     "(head (+ (zeros (list 3 width)) (up x)))"),
    (BODY, "(head (reshape (up x) -1 8))", "one list", "(head (reshape (up x) (list -1 8)))"),
    (BODY, "(head (transpose (up x) 0 1))", "the axes are one list"),
    (BODY, "(head (* (shape x 0) (up x)))", "(dim x axis)", "(head (* (dim x 0) (up x)))"),
    (BODY, "(matmul x (param up \"w\") (param up \"b\"))", "(+ (matmul x w) b)"),
    (BODY, "(head (* x (param up \"w\")))", "(matmul a b)"),
    (BODY, "(head (+ (up x) (at x :all 0)))", "(expand-dims x 1)"),
    (BODY, "(head (* (up x) (max (up x) :axis 1 :keep t)))", "amax",
     "(head (* (up x) (amax (up x) :axis 1 :keep t)))"),
    (BODY, "(head (at (up x) :all (0 8)))", "(slice 0 8)"),
    (BODY, "(head (at (up x) :all '(0 8)))", "(slice 0 8)"),
    (BODY, "(head (at (up x) : (slice 0 8)))", ":all"),
    (BODY, "(let ((h (up x))) (setf (at h 0) 0.0) (head h))", "(set-at h value 0)"),
    (BODY, "(let ((h (up x))) (setf (aref h 0) 0.0) (head h))", "(set-at h value 0)"),
    (BODY, "(let ((h (up x))) (setf h[0] 0.0) (head h))", "(set-at h value 0)"),
    (BODY, "(head (+ (up x) (aref x 0 0)))", "(at x i j)"),
    (BODY, "(head (+ (up x) (list 1.0 2.0)))", "(constant (list 1.0 2.0))"),
    (BODY, "(head (einsum (up x) (param head \"w\") \"bi,ij->bj\"))", "the equation comes first"),
    (BODY, "(head (coerce (up x) 'single-float))", "(cast x :f32)"),
    (BODY, "(let ((h (up x)))) (head h)", "ends before this"),
    (BODY, "(let ((h (up x)) (k h)) (head k))", "do not see each other"),
    (BODY, "(head (* 1.0f (up x)))", "write 1.0", "(head (* 1.0 (up x)))"),
    (BODY, "(head (* \u22121 (up x)))", "write -1", "(head (* -1 (up x)))"),
    (BODY, "(head (* inf (up x)))", "(where mask a b)"),
    (BODY, BODY + ";", "a semicolon begins a comment", BODY),
    (BODY, f'(progn (format "~a" x) {BODY})', "(format t …)", f'(progn (format t "~a" x) {BODY})'),
    (BODY, f"(progn (loop for i range 3 do (print i)) {BODY})", "for i below n"),
    (LOSS, "(mean (/ x (max x)))", "(amax x)"),
    (LOSS, f"(progn (backward 1) {LOSS})", "the compiler differentiates"),
    (LOSS, "(nn:cross-entropy model x y)", "the model is called first", LOSS),
    (LOSS, "(nn:cross-entropy model y)", "(funcall model x)"),
    (LOSS, "(nn:CrossEntropyLoss (funcall model x) y)", "write nn:cross-entropy"),
    (LOSS, "(nn:bce (funcall model x) y)", "write nn:binary-cross-entropy-with-logits"),
    (LOSS, "(nn:mse (funcall model x) y)", "compared by nn:cross-entropy"),
    (LOSS, "(nn:mse (at (funcall model x) :all (slice 0 1)) (cast y :f32))", "(squeeze y :axis 1)"),
    (LOSS, "(mean (- (at (funcall model x) :all (slice 0 1)) (cast y :f32)))", "(expand-dims x 1)"),
    (LOSS, f"(progn (metric :hits (nn:accuracy (argmax {CALL} :axis 1) y)) {LOSS})", "the logits"),
    (FIELDS, "(values (getf batch :x) (gethash :y batch))", "(field batch :x)", FIELDS),
    (FIELDS, "(values (batch :x) batch[\"y\"])", "(field batch :", FIELDS),
    (FIELDS, "(values batch.x batch.y)", "(field batch :x)", FIELDS),
    (FIELDS, "(values (cast (field batch :x) 'f32) (field batch :y))", "write :f32",
     "(values (cast (field batch :x) :f32) (field batch :y))"),
    (FIELDS, "(values (field batch :x) (cast (field batch :y) int32))", "write :i32",
     "(values (field batch :x) (cast (field batch :y) :i32))"),
    ("(x :f32 (2))", "(x :float32 (2))", "write :f32", "(x :f32 (2))"),
    ("(x :f32 (2))", "(:x :f32 (2))", "has no colon", "(x :f32 (2))"),
    ("(x :f32 (2))", "(x :f32 (3 2))", "that of one record: write (2)"),
    ("(x :f32 (2))", "(x :f32)", "(x :f32 ()) for a number"),
    (NN, '(require "nn" :as nn)', 'write "sexpgpu/nn"', NN),
    (NN, '(require "sexpgpu/nn" :as "nn")', "write :as nn", NN),
    (NN, f"import numpy as np\n{NN}", "that is Python"),
    (ADAMW, ":adamw", "write (optim:adamw :lr 1e-3)"),
    (":model (net)", ":model #'net", "write (net)"),
    (STEPS, ":steps 2e1", "write 20", STEPS),
    (STEPS, ":steps 20 :lr 1e-3", "the optimizer's"),
    (STEPS, ":steps 20 :device :cuda", "--device cuda"),
    (STEPS, ":steps 20 :early-stopping 5", ":patience 5"),
    (STEPS, ":steps 20 :max-grad-norm 1.0", "write :clip-norm"),
    (STEPS, ":steps 20 :gradient-accumulation-steps 4", "write :microbatches n"),
    (STEPS, ":steps 20 :checkpoint 5", "write (:every 5)"),
    (STEPS, ":steps 20 :precision :bfloat16", "write :bf16", ":steps 20 :precision :bf16"),
    ("(defrun", "(defeval valid train :every 5)\n(defrun", "write :loader train"),
    ("(defrun", "(defeval valid :loader 'train)\n(defrun", "write train",
     "(defeval valid :loader train)\n(defrun"),
    ("(defrun", "(defun evaluate (model x y) (mean x))\n(defrun", "(defeval valid"),
    ("(defun objective", "(setf width 9)\n(defun objective", "--set width=…"),
    (":batch 3)", "batch: 3)", ":batch"),
    (":batch 3)", ":batch 3) // three records", "begins with a semicolon",
     ":batch 3) ; three records"),
    (":batch 3)", ":batch 3 :num-workers 4)", "runs ahead by itself"),
    (SOURCE, "(npz \"~/train.npz\")", "~ means nothing here"),
    (SOURCE, "(jsonl \"train.jsonl\")", 'np.savez("train.npz"'),
    (SOURCE, "(npy \"train.npy\")", 'np.savez("train.npz", x=np.load("train.npy"))'),
    (SOURCE, "(inline (x ((0.0 1.0) (1.0 0.0))) (y 0 1))", "side by side"),
    (SOURCE, "(synthetic 9 (x (2)) (y))", "write all four"),
]
# fmt: on


@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: habit[1][:40])
def test_habit(sx, tmp_path: Path, habit: tuple[str, ...]) -> None:
    old, new, says, *mended = habit
    assert GOOD.count(old) == 1
    text = GOOD.replace(old, new)
    found = check_text(text, "newcomer.sx", str(tmp_path))
    said = [d.fix or d.headline for d in found]
    assert any(says in words for words in said), said
    safe = any(edit.safe for d in found for edit in d.edits)
    assert safe == bool(mended), "only what is certain is safe"
    if mended:
        file = tmp_path / "newcomer.sx"
        file.write_text(text)
        assert sx("check", str(file), "--fix", "--json").json["errors"] == 0
        assert file.read_text() == GOOD.replace(old, mended[0])


@pytest.mark.parametrize("given", ["csv", "npz"])
def test_a_table_is_told_how_to_become_an_npz(tmp_path: Path, given: str) -> None:
    """The command that the message shows, run as it stands, gives a file that the source reads."""
    import shlex
    import subprocess
    import sys

    (tmp_path / "iris.csv").write_text(
        "Length,Width,n,species\n5.1,3.5,1,setosa\n6.0,2.2,2,virginica\n5.9,3,3,setosa\n"
    )
    text = GOOD.replace(SOURCE, f'({given} "iris.csv")')
    (found,) = check_text(text, "iris.sx", str(tmp_path))
    line = (found.fix or "").split("\n")[1]
    program, *words = shlex.split(line)
    assert program == "python"
    subprocess.run([sys.executable, *words], cwd=tmp_path, check=True)
    made = np.load(tmp_path / "iris.npz")
    assert {name: made[name].tolist() for name in made} == {
        "length": pytest.approx([5.1, 6.0, 5.9]), "width": pytest.approx([3.5, 2.2, 3.0]),
        "n": [1, 2, 3], "species": [0, 1, 0],
    }  # fmt: skip
    assert {made[name].dtype.name for name in made} == {"float32", "int32"}
    ours = text.replace(f'({given} "iris.csv")', '(npz "iris.npz")')
    ours = ours.replace(":fields ((x :f32 (2)) (y :i32 ()))", "")
    ours = ours.replace(
        FIELDS,
        "(values (stack-tensors (list (field batch :length) (field batch :width)) :axis 1)\n"
        "          (field batch :species))",
    )
    assert check_text(ours, "iris.sx", str(tmp_path)) == []

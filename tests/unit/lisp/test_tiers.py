"""The two tiers of the evaluator mean the same: closures, and Python written for what is hot."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from sexpgpu.lisp.session import Session

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "cross"))
from both_tiers import MODES, answers, shown
from lisp_programs import program

HERE = Path(__file__).parent

PROGRAMS = [program(seed) for seed in range(7000, 7150)]


@pytest.fixture(scope="module")
def cold_answers() -> list[tuple[Any, int]]:
    return answers(PROGRAMS, "cold")


@pytest.mark.parametrize("mode", ["hot", "switched"])
def test_random_programs_give_the_same_and_take_the_same_fuel(
    mode: str, cold_answers: list[tuple[Any, int]]
) -> None:
    differing = [
        f"{text}\n  cold {cold}\n  {mode} {other}"
        for text, cold, other in zip(PROGRAMS, cold_answers, answers(PROGRAMS, mode), strict=True)
        if cold != other
    ]
    assert not differing, "\n".join(differing)


def cases() -> list[str]:
    """The forms of evaluator.cases."""
    lines = (HERE / "evaluator.cases").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith((";;", "  ")) and line.strip()]


def test_the_cases_of_the_evaluator_give_the_same_hot() -> None:
    forms = cases()
    cold = answers(forms, "cold")
    for mode in ("hot", "switched"):
        for form, one, other in zip(forms, cold, answers(forms, mode), strict=True):
            assert one == other, (mode, form)


SAME = {
    "a closure made cold and called hot": """
        (defun counter (n) (lambda (k) (incf n k)))
        (let* ((f (counter 10)) (g (counter 100)))
          (list (loop repeat 9 collect (funcall f 1)) (loop repeat 9 collect (funcall g 2))
                (funcall f 0)))""",
    "a closure made hot and called cold": """
        (defun make (n) (list (lambda () (incf n)) (lambda () n)))
        (dotimes (i 9) (make i))
        (let ((pair (make 5))) (funcall (first pair)) (funcall (second pair)))""",
    "a loop left by return-from": """
        (defun f (l) (let ((seen 0) (total 0))
          (list (block out (dolist (x l) (incf seen) (when (= x 7) (return-from out x))
                                         (incf total x)))
                seen total)))
        (list (f '(1 2 3 4 5 6 7 8)) (f '(7)) (f '(1 2 3)))""",
    "a loop left by throw, its variables seen by a closure": """
        (let* ((n 0) (m 0) (see (lambda () n)))
          (catch 'out (dotimes (i 100) (incf n) (setq m i) (when (> i 10) (throw 'out nil))))
          (list n m (funcall see)))""",
    "a loop left by an error": """
        (let ((n 0) (m 1))
          (list (handler-case (loop (incf n) (setq m (* m 2)) (when (= n 20) (car n)))
                  (type-error () :caught)) n m))""",
    "a loop left by go": """
        (let ((n 0) (rounds nil))
          (tagbody
           again (dotimes (i 50) (incf n) (when (= n 12) (go out)) (when (= i 4) (go next)))
           next (push n rounds) (go again)
           out (push :out rounds))
          (list n rounds))""",
    "a go out of a closure": """
        (let ((n 0))
          (tagbody
           top (mapc (lambda (x) (incf n x) (when (> n 30) (go end))) '(1 2 3)) (go top)
           end)
          n)""",
    "a return-from out of a closure": """
        (defun find-it (l) (mapc (lambda (x) (when (evenp x) (return-from find-it x))) l) nil)
        (loop for i below 20 collect (find-it (list 1 3 i)))""",
    "loops in loops, left by two levels": """
        (defun f (n) (let ((k 0))
          (values (block all (dotimes (i n) (dotimes (j n) (incf k) (block one
             (loop (when (= k 17) (return-from all (list i j))) (return-from one))))))
            k)))
        (multiple-value-list (f 9))""",
    "a fresh variable in every round": """
        (let ((fs nil)) (dotimes (i 6) (let ((j (* i i))) (push (lambda () (incf j)) fs)))
          (dolist (x '(10 20 30 40 50 60)) (push (lambda () (incf x)) fs))
          (list (mapcar #'funcall fs) (mapcar #'funcall fs)))""",
    "redefinition while hot": """
        (defun g (x) (list :old x))
        (defun f (x) (g x))
        (let ((a (loop for i below 5 collect (f i))))
          (defun g (x) (list :new x))
          (list a (loop for i below 5 collect (f i))))""",
    "a function that redefines itself": """
        (defun f (n) (if (= n 6) (progn (eval '(defun f (n) (list :other n))) (f n)) (list n (f (1+ n)))))
        (f 0)""",
    "a function that is no more": """
        (defun g (x) x) (defun f (x) (handler-case (g x) (undefined-function () :gone)))
        (let ((a (loop repeat 5 collect (f 1)))) (fmakunbound 'g) (list a (f 1)))""",
    "a wrong count after redefinition": """
        (defun g (x) x) (defun f (x) (handler-case (g x) (program-error () :count)))
        (let ((a (loop repeat 5 collect (f 1)))) (defun g (x y) (list x y)) (list a (f 1)))""",
    "dynamic variables": """
        (defvar *d* 1) (defun see () *d*)
        (defun f (n) (let ((*d* n)) (if (> n 5) (throw 'up (see)) (f (1+ n)))))
        (list (catch 'up (f 0)) (see) (loop for *d* below 4 collect (see)))""",
    "unwind-protect": """
        (let ((log nil))
          (defun f (n) (block b (unwind-protect (if (oddp n) (return-from b :odd) (push n log))
                                  (push :clean log))))
          (list (loop for i below 6 collect (f i)) log))""",
    "several values": """
        (defun two (n) (if (evenp n) (values n :even) (values)))
        (loop for i below 6 collect (multiple-value-list (two i)) collect (list (two i) (+ 1 (two 2))))
        """,
    "optional, rest and key": """
        (defun f (a &optional (b (* 2 a)) &rest r &key (k (+ a b) given) &allow-other-keys)
          (list a b k given r))
        (list (loop for i below 5 collect (f i)) (f 1 2 :k 3) (f 1 2 :k 3 :z 4))""",
    "arithmetic beyond integers": """
        (defun f (a b) (list (+ a b) (- a b) (* a b) (< a b) (= a b) (1+ a) (1- b) (zerop a)))
        (loop for (a b) in '((1 2) (1.5 2) (1/2 1/3) (0.0 0) (-0.0 0.0) (1e300 1) (4 4.0)
                             (100000000000000000000 1/7) (2 100000000000000000000000.0))
              collect (f a b))""",
    "floats that overflow": """
        (defun f (a b) (handler-case (* a b) (floating-point-overflow () :overflow)))
        (loop for x in '(1.0 1e200 2.0 1e308 3.0) collect (f x 1e200))""",
    "reading of a name before its binding": """
        (defun f (x) (let ((x (+ x 1)) (y x)) (setq x (* 2 x)) (list x y (setq y 5) (+ x (setq x 3) x))))
        (loop for i below 4 collect (f i))""",
    "hash tables": """
        (let ((h (make-hash-table)) (e (make-hash-table :test 'equal)) (p (make-hash-table :test 'equalp)))
          (dotimes (i 20) (incf (gethash (mod i 3) h 0)) (push i (gethash (list (mod i 2)) e))
            (setf (gethash (if (evenp i) 1 1.0) p) i) (incf (gethash "k" e 0)))
          (list (loop for k below 4 collect (multiple-value-list (gethash k h)))
                (gethash '(1) e) (hash-table-count p) (gethash 1 p) (gethash "k" e)))""",
    "case": """
        (defun f (x) (case x (1 :one) ((a b) :letters) (#\\c :char) (2.5 :float) (1/2 :half) (t x)))
        (defun g (x) (handler-case (ecase x (1 :one)) (type-error () :none)))
        (list (mapcar #'f '(1 a b #\\c 2.5 1/2 "z" 1.0)) (mapcar #'g '(1 2 1)))""",
    "local functions": """
        (defun f (n) (labels ((ev (n) (if (= n 0) t (od (1- n)))) (od (n) (if (= n 0) nil (ev (1- n)))))
                       (flet ((twice (x) (* 2 x))) (list (ev n) (od n) (twice n)))))
        (loop for i below 6 collect (f i))""",
    "structures and places": """
        (defstruct point x (y 0))
        (defun move (p) (setf (point-x p) (+ 1 (point-x p))) (incf (point-y p) 2) p)
        (let ((p (make-point :x 1)) (v (vector 1 2 3)))
          (dotimes (i 5) (move p) (rotatef (aref v 0) (aref v 2)) (incf (aref v 1) i))
          (list p v))""",
    "handlers that decline, restarts": """
        (defun f (n) (restart-case (if (> n 2) (error "no ~a" n) n) (use (v) (* 10 v))))
        (defun g (n) (handler-bind ((error (lambda (c) (invoke-restart 'use n)))) (f n)))
        (loop for i below 6 collect (g i))""",
    "jumps inside a closure's statement": """
        (defun f (n) (let ((log nil))
          (tagbody
           top (push n log)
               (typecase n (integer (if (> n 3) (go end) (progn (incf n) (go top)))))
           end (push :end log))
          log))
        (list (f 0) (f 9) (f 2) (f 2))""",
    "a block of every round, left by a closure": """
        (defun f (n m) (let ((out nil))
          (dotimes (i 3)
            (push (block b (mapc (lambda (x) (when (> x (+ n m i)) (return-from b (* n x)))) '(1 3 5 7)) i)
                  out))
          (list (+ n m) (* n m) (- n 1) out)))
        (loop for k below 6 collect (f k 1) collect (f 1.5 k))""",
    "variables that come to hold other than integers": """
        (defun f (x) (let ((a 0) (b 1) (c 0)) (dotimes (i 6) (setq c (+ a b)) (when (= i 3) (setq b x))
                                                             (setq a (+ c 1))) (list a b c)))
        (list (f 1) (f 1.5) (f 1/3) (f 2))""",
    "loops inside loops whose turns are counted": """
        (let ((n 0) (l nil))
          (dotimes (i 5) (dotimes (j i) (setq n (+ n (* i j)))) (dolist (x '(1 2 3)) (setq n (- n x)))
            (loop for k below 4 while (< n 1000) collect (+ k n) into m finally (push m l)))
          (list n l))""",
    "tests and comparisons of constants": """
        (defun f (x) (list (if 5 :yes :no) (or 5 x) (and 5 x) (eql 5 5) (eq 5 x) (null 5) (not 5) (consp 5)
                           (atom 5) (case 5 (5 :five) (t :other)) (if (or nil 7) x) (eql x 'a) (eql 2.5 x)
                           (endp nil) (if "text" 1 2) (when (and 1 2 x) 3)))
        (list (f 5) (f nil) (f 'a) (f 2.5))""",
    "numbers where other things belong": """
        (defmacro fails (form) `(handler-case ,form (error () :bad)))
        (defun f () (list (fails (car 5)) (fails (cdr -5)) (fails (endp 5)) (fails (aref 5 0)) (fails (svref 5 0))
                          (fails (gethash 1 5)) (fails (setf (gethash 1 5) 2)) (fails (length 5))
                          (fails (string= 5 "a")) (fails (concatenate 'string 5 "a")) (fails (search 5 "a"))
                          (fails (string-upcase 5)) (fails (dolist (x 5) x)) (fails (dotimes (i -5) i))
                          (fails (funcall 5)) (fails (apply 5 nil)) (fails (mod 5 0)) (fails (mod 5 -2))
                          (fails (+ 5 'a)) (fails (< 5 nil)) (fails (+ 1.5 2)) (fails (1+ -1.5))))
        (list (f) (f))""",
    "nested more deeply than Python takes": """
        (defun f (x) %s)
        (list (f 1) (f 2))"""
    % ("(dotimes (i 1) " * 30 + "(setq x (+ x 1))" + ")" * 30 + " x"),
    "eql of numbers": """
        (defun f (a b) (list (eql a b) (eq a b) (if (eql a 3) :three nil) (if (eq b 'x) :x nil)))
        (mapcar #'f (list 1 1.0 300000000000 3 'x 1/2) (list 1 1 300000000000 3 'x 1/2))""",
}


@pytest.mark.parametrize("mode", ["hot", "switched"])
@pytest.mark.parametrize("name", SAME)
def test_same_values(name: str, mode: str) -> None:
    text = SAME[name]
    cold = shown(text, "cold")
    assert "error" not in cold[0], cold[0]
    assert shown(text, mode) == cold


REPORTS = {
    "deep in calls": """(defun inner (x)
  (+ 1 (car x)))
(defun outer (x)
  (list (inner x)))
(dotimes (i 5) (outer (list i)))
(outer 7)""",
    "in a function that makes no calls": """(defun leaf (x) (* 3 x))
(dotimes (i 5) (leaf i))
(defun caller (x) (list 1 (leaf x)))
(caller 'a)""",
    "in a callback of a builtin": """(defun f (l) (mapcar (lambda (x) (if (< x 3) x (aref (vector) x))) l))
(f '(1 2 3 4))""",
    "an unbound variable": "(defun f (x) (+ x nothing))\n(f 1)",
    "an undefined function": "(defun f (x) (list (nothing x)))\n(f 1)",
    "too many arguments": "(defun g (x) x)\n(defun f (x) (list (g x 2)))\n(f 1)",
    "a function value with a wrong count": "(defun f (g) (list (funcall g 1 2)))\n(f (lambda (x) x))",
    "no function at all": "(defun f (g) (list (funcall g 1)))\n(f 5)",
    "a loop over what is no list": "(defun f (l) (let ((n 0)) (dolist (x l n) (incf n x))))\n(f '(1 2 . 3))",
    "a count that is no number": "(defun f (n) (dotimes (i n) (print i)))\n(f 'x)",
    "a comparison in a macro": """(defmacro smaller (a b) `(if (< ,a ,b) ,a ,b))
(defun f (x) (smaller x 'y))
(f 1)""",
    "the fuel of a loop": "(defun f () (let ((n 0)) (loop (incf n))))\n(f)",
    "the fuel of calls": "(defun f (n) (if (< n 0) 0 (f 1)))\n(defun g () (loop (g2)))\n(defun g2 () 1)\n(g)",
    "an ecase that no clause takes": "(defun f (x) (ecase x (1 2) (3 4)))\n(f 1)\n(f 9)",
    "a block that was left": """(defun f () (lambda () (return-from f 1)))
(funcall (f))""",
}


@pytest.mark.parametrize("mode", ["hot", "switched"])
@pytest.mark.parametrize("name", REPORTS)
def test_same_reports(name: str, mode: str) -> None:
    text = REPORTS[name]
    cold = shown(text, "cold", fuel=50_000)
    assert "error" in cold[0], cold[0]
    assert shown(text, mode, fuel=50_000) == cold


NESTED = "(defun f (n) (if (= n 0) 0 (+ 1 (f (- n 1)))))\n(dotimes (i 5) (f i))\n(f {})"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("depth", [100, 10_000])
def test_the_depth_is_exact(mode: str, depth: int) -> None:
    # The call with n = 0 is one level deeper than its argument says.
    assert shown(NESTED.format(depth - 1), mode, depth=depth)[0] == str(depth - 1)
    assert "E-LIMIT-002" in shown(NESTED.format(depth), mode, depth=depth)[0]


@pytest.mark.parametrize("mode", MODES)
def test_a_leaf_at_the_limit_of_the_depth_is_too_deep(mode: str) -> None:
    text = """(defun leaf (x) (* 2 x))
      (defun f (n) (if (= n 0) (leaf 1) (+ 1 (f (- n 1)))))
      (dotimes (i 5) (f i))
      (f {})"""
    assert shown(text.format(48), mode, depth=50)[0] == "50"
    assert "E-LIMIT-002" in shown(text.format(49), mode, depth=50)[0]


@pytest.mark.slow
def test_all_tests_of_the_lisp_pass_hot() -> None:
    command = [sys.executable, "-m", "pytest", "--hot", "-q", "-p", "no:cacheprovider"]
    chosen = ["tests/unit/lisp", "tests/unit/trace", "tests/cross/test_lisp_sbcl.py"]
    command += [*chosen, f"--ignore={__file__}", "-m", "not slow"]
    done = subprocess.run(command, cwd=HERE.parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]


def test_what_runs_often_does_become_hot() -> None:
    import sexpgpu.lisp.hot.compile as compiler

    made: list[str] = []
    real = compiler.exec_text

    def note(text: str, names: dict[str, Any]) -> None:
        made.append(text)
        real(text, names)

    compiler.exec_text = note
    try:
        text = "(defun f (n) (* n 2))\n(let ((s 0)) (dotimes (i 3000 s) (setq s (+ s (f i)))))"
        session = Session()
        values = session.evaluate(text, session.new_module("main"))
        session.close()
    finally:
        compiler.exec_text = real
    assert values == [3000 * 2999]
    assert len(made) == 2
    assert any("while" in text for text in made)


def test_no_text_that_is_made_for_python_is_warned_of() -> None:
    """Python tells of `x is 0` on the standard error of a user who wrote no Python."""
    session = Session()
    text = """
        (defun is-zero (&optional (n 2)) (eql (mod n 7) 0))
        (let ((k 0)) (dotimes (i 30000 k) (when (is-zero i) (incf k))))
    """
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        (value,) = session.evaluate(text, session.new_module("m"))
    session.close()
    assert value == 4286
    assert [str(w.message) for w in seen] == []

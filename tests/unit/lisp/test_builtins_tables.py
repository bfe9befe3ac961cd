"""The tables of forms and their printed values: ours, and SBCL's where it is installed.

An entry of `tables/<chapter>.lisp` is a form, then `; => values` (several separated by ` | `, a
newline written `^`, or `error` and the most telling standard class). `; =!` marks what differs
from SBCL on purpose.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sexpgpu.lisp.conditions import precedence
from sexpgpu.lisp.printer import prin1_text
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.values import Condition

TABLES = sorted((Path(__file__).parent / "tables").glob("*.lisp"))
CLASSES = [
    "type-error",
    "program-error",
    "division-by-zero",
    "arithmetic-error",
    "undefined-function",
    "unbound-variable",
    "end-of-file",
    "reader-error",
    "parse-error",
    "control-error",
    "package-error",
    "error",
]

Entry = tuple[str, str, bool]  # the form, what it prints, whether SBCL agrees


def read_table(path: Path) -> list[Entry]:
    entries: list[Entry] = []
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        form, mark, expected = block.strip().rpartition("\n; =")
        if mark:
            entries.append((form, expected[2:], expected[0] == ">"))
    return entries


def ours(session: Session, form: str) -> str:
    module = session.new_module("main")
    values = session.evaluate(f"(handler-case {form} (error (found) found))", module)
    if len(values) == 1 and isinstance(values[0], Condition):
        known = precedence(values[0])
        return "error " + next(name for name in CLASSES if name in known)
    return " | ".join(prin1_text(value) for value in values).replace("\n", "^")


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_values_are_as_pinned(path: Path) -> None:
    entries = read_table(path)
    assert len(entries) > 20
    session = Session()
    try:
        wrong = [
            f"{form}\n  gives {got}\n  not   {expected}"
            for form, expected, _ in entries
            if (got := ours(session, form)) != expected
        ]
    finally:
        session.close()
    assert not wrong, "\n".join(wrong)


REFEREE = r"""
(setf *read-default-float-format* 'double-float *print-pretty* nil *print-case* :downcase)
(declaim (sb-ext:muffle-conditions warning sb-ext:compiler-note))
(defun class-of-error (c)
  (or (dolist (name '(type-error program-error division-by-zero arithmetic-error
                      undefined-function unbound-variable end-of-file reader-error parse-error
                      control-error package-error))
        (when (typep c name) (return (string-downcase name))))
      "error"))
(let ((out *standard-output*))
  (loop for form = (read *standard-input* nil '%end)
        until (eq form '%end)
        do (let* ((sink (make-string-output-stream))
                  (text (handler-case
                            (let ((values (multiple-value-list
                                           (let ((*standard-output* sink))
                                             (handler-bind ((warning #'muffle-warning))
                                               (eval form))))))
                              (format nil "~{~s~^ | ~}" values))
                          (error (c) (format nil "error ~a" (class-of-error c))))))
             (format out "~a~%" (substitute #\^ #\Newline text)))))
"""


@pytest.mark.skipif(shutil.which("sbcl") is None, reason="SBCL is the referee")
@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_values_are_those_of_sbcl(path: Path, tmp_path: Path) -> None:
    entries = [(form, expected) for form, expected, agrees in read_table(path) if agrees]
    script = tmp_path / "referee.lisp"
    script.write_text(REFEREE, encoding="utf-8")
    done = subprocess.run(
        ["sbcl", "--script", str(script)],
        input="\n".join(form for form, _ in entries),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    theirs = done.stdout.split("\n")[:-1]
    assert len(theirs) == len(entries)
    wrong = [
        f"{form}\n  SBCL gives {got}\n  not        {expected}"
        for (form, expected), got in zip(entries, theirs, strict=True)
        if got != expected
    ]
    assert not wrong, "\n".join(wrong)

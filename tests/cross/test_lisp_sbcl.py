"""Some hundreds of random programs: what they print here and in SBCL. SEXPGPU_LISP_PROGRAMS=N and
SEXPGPU_LISP_SEED=S run others."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from lisp_programs import program

from sexpgpu.lisp.batch import Batch
from sexpgpu.lisp.state import Limits
from sexpgpu.lisp.tiers import thresholds

COUNT = int(os.environ.get("SEXPGPU_LISP_PROGRAMS", "400"))
SEED = int(os.environ.get("SEXPGPU_LISP_SEED", "1"))
PART = 100

# A form a line; a line of values a form. Interpreted: the compiler folds and complains early.
REFEREE = """(progn
(setf sb-ext:*evaluator-mode* :interpret *print-case* :downcase *print-pretty* nil
      *read-default-float-format* 'double-float)
(loop for line = (read-line *standard-input* nil) while line
      do (format t "~a~%"
                 (substitute #\\| #\\Newline
                             (handler-case
                                 (sb-ext:with-timeout 20
                                   (let ((*error-output* (make-broadcast-stream)))
                                     (format nil "~{~s~^ ~}"
                                             (multiple-value-list
                                              (eval (read-from-string line))))))
                               (sb-ext:timeout () "TIMEOUT")
                               (storage-condition () "TIMEOUT")
                               (error () "ERROR"))))
         (finish-output)))
"""


def ours(programs: list[str]) -> list[str]:
    batch = Batch(Limits(fuel=5_000_000, seconds=20))
    answers: list[str] = []
    for text in programs:
        answer = batch.evaluate(text)
        if "values" in answer:
            answers.append(" ".join(answer["values"]).replace("\n", "|"))
        else:
            limited = answer["error"]["code"].startswith("E-LIMIT")
            answers.append("TIMEOUT" if limited else "ERROR")
    return answers


def theirs(programs: list[str], sbcl: str) -> list[str]:
    done = subprocess.run(
        [sbcl, "--noinform", "--disable-debugger", "--no-userinit", "--eval", REFEREE, "--quit"],
        input="\n".join(programs) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def referee() -> list[str]:
    sbcl = shutil.which("sbcl")
    if sbcl is None:
        pytest.skip("sbcl is not installed")
    return theirs([program(SEED + n) for n in range(COUNT)], sbcl)


@pytest.mark.parametrize("first", range(0, COUNT, PART))
def test_prints_what_sbcl_prints(first: int, referee: list[str]) -> None:
    programs = [program(SEED + n) for n in range(first, min(first + PART, COUNT))]
    differing = [
        f"seed {SEED + first + n}: {text}\n  here {here}\n  SBCL {there}"
        for n, (text, here, there) in enumerate(
            zip(programs, ours(programs), referee[first:], strict=False)
        )
        if here != there and "TIMEOUT" not in (here, there)
    ]
    assert not differing, "\n".join(differing)


def test_hot_code_prints_what_sbcl_prints(referee: list[str]) -> None:
    programs = [program(SEED + n) for n in range(min(PART, COUNT))]
    with thresholds(0, 0):
        answers = ours(programs)
    differing = [
        f"{text}\n  here {here}\n  SBCL {there}"
        for text, here, there in zip(programs, answers, referee, strict=False)
        if here != there and "TIMEOUT" not in (here, there)
    ]
    assert not differing, "\n".join(differing)

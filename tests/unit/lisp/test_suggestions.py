"""What errors propose for a name that means nothing: variables, other languages, near names."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from sexpgpu.compiler import check_text
from sexpgpu.lisp.other_names import ABSENT, ABSENT_VARIABLES, FUNCTIONS, VARIABLES
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.values import CL, PRELUDE, TENSOR, UNBOUND
from sexpgpu.reader.names import nearest
from sexpgpu.source import Source

DEFINE = "correct the name, or define the function"


def only(text: str):
    (found,) = check_text(text)
    return found


def in_function(call: str):
    """The warning about a function that is called in a body and never defined."""
    return next(
        d for d in check_text(f"(defun f (x net) (list x net) {call})") if d.code.id == "W-NAME-002"
    )


@pytest.mark.parametrize(
    "call, fix",
    [
        ("(net x)", "net is a variable here: write (funcall net x)"),
        ("(x)", "x is a variable here: write x, or (funcall x)"),
        ("(let ((model net)) (model\n x))", "model is a variable here: write (funcall model …)"),
        ("(sign x)", "write signum"),
        ("(reduce_mean x)", "write mean"),
        ("(unsqueeze x 0)", "write expand-dims"),
        ("(cat x)", "write concat"),
        ("(softmx x)", "write softmax"),
        ("(oftmax x)", "write softmax"),
        ("(bar x)", DEFINE),
        ("(zork x)", DEFINE),
        ("(md x)", DEFINE),
        ("(:matrix)", "for a list write '(:matrix …), or (list :matrix …)"),
    ],
)
def test_a_call_of_nothing(call: str, fix: str) -> None:
    warning = in_function(call)
    assert warning.fix == fix
    # The error says the same when the call is made.
    errors = check_text(f"(defun f (x net) (list x net) {call})\n(f 1 2)")
    assert [d.fix for d in errors if d.code.id == "E-NAME-002"] == [fix]


def test_a_keyword_is_not_called_undefined() -> None:
    assert only("(:matrix)").headline == ":matrix is a keyword and cannot be called"


@pytest.mark.parametrize(
    "form, why, fix",
    [
        ("(defclass point () ())", "no classes", "defstruct"),
        ("(defmethod area ((s square)) s)", "no generic functions", "typecase"),
        ("(defpackage :mine (:use :cl))", "no packages", "require"),
        ('(with-open-file (in "x.txt") (read in))', "no form reaches a file", "defloader"),
        ("(get-universal-time)", "no clock", "leave the call out"),
        ("(complex 1 2)", "no complex", "two reals"),
        ('(y-or-n-p "go?")', "nobody is asked", "defknob"),
        ("(pathname-name 1)", "no form reaches a file", "defloader"),
        ("(class-of 1)", "no classes", "defstruct"),
    ],
)
def test_what_common_lisp_has_and_this_has_not(form: str, why: str, fix: str) -> None:
    diagnostic = only(form)
    name = form[1:].split(maxsplit=1)[0].rstrip(")")
    assert diagnostic.code.id == "E-NAME-002"
    assert diagnostic.headline.startswith(f"Common Lisp's {name} is not here")
    assert why.rsplit(maxsplit=1)[-1] in diagnostic.headline
    assert fix in (diagnostic.fix or "")


@pytest.mark.parametrize("name", ["*features*", "*random-state*", "*package*", "*readtable*"])
def test_a_variable_of_common_lisp_that_is_not_here(name: str) -> None:
    diagnostic = only(f"(list {name})")
    assert diagnostic.code.id == "E-NAME-001"
    assert f"Common Lisp's {name} is not here" in diagnostic.notes[0].text
    assert "defvar" not in (diagnostic.fix or "")


@pytest.mark.skipif(shutil.which("sbcl") is None, reason="SBCL lists the names of Common Lisp")
def test_every_name_of_common_lisp_is_here_or_said_to_be_absent() -> None:
    each = '(do-external-symbols (s :cl) (when ({test} s) (format t "~(~a~)~%" s)))'
    command = ["sbcl", "--noinform", "--no-userinit", "--non-interactive", "--eval"]

    def names(test: str) -> set[str]:
        made = subprocess.run(
            [*command, each.replace("{test}", test)], capture_output=True, text=True, check=True
        )
        return set(made.stdout.split())

    from sexpgpu.lisp.analyze import NATIVE, SPECIAL

    check_text("(list 1)")  # so that every layer is there
    here = CL.symbols.values()
    functions = {s.name for s in here if s.function or s.macro} | {
        s.name for s in (*SPECIAL, *NATIVE)
    }
    assert names("fboundp") - functions - set(ABSENT) <= {"import"}  # `write require`
    variables = {s.name for s in here if s.value is not UNBOUND}
    history = {"-", "+", "++", "+++", "*", "**", "***", "/", "//", "///"}
    assert names("boundp") - variables - set(ABSENT_VARIABLES) - history == set()


def test_a_layer_without_that_name_says_so() -> None:
    assert only("(cl:nope 1)").headline == "common-lisp has no `nope`"
    assert only("(tensor:softmx 1)").fix == "write tensor:softmax"


def test_how_a_dialogue_is_left() -> None:
    assert "Ctrl-D" in (only("(exit)").fix or "")


def test_names_that_are_here_are_not_called_absent() -> None:
    present = [
        name
        for name in ABSENT
        for layer in (CL, PRELUDE, TENSOR)
        if (found := layer.symbols.get(name)) is not None and (found.function or found.macro)
    ]
    assert present == []


def test_a_global_variable_is_no_function() -> None:
    assert only("(defvar net 1)\n(net 2)").fix == "net is a variable here: write (funcall net 2)"


@pytest.mark.parametrize(
    "text, fix",
    [
        ("(list true)", "write t"),
        ("(list None)", "write nil"),
        ("(defun net () 1)\n(list net)",
         "write (net) to call it, or #'net for the function itself"),
        ("(defun net (w) w)\n(list net)",
         "write (net …) to call it, or #'net for the function itself"),
        ('(require "sexpgpu/optim" :as o)\n(list o:adam)',
         "write (o:adam …) to call it, or #'o:adam for the function itself"),
        ("(defun f (width) widht)\n(f 1)", "write width"),
    ],
)  # fmt: skip
def test_a_variable_of_nothing(text: str, fix: str) -> None:
    assert [d.fix for d in check_text(text) if d.severity == "error"] == [fix]


@pytest.mark.parametrize("word, meant", [("def", "defun"), ("fn", "lambda"), ("for", "dolist")])
def test_an_operator_of_another_language_is_named_before_its_operands(word, meant) -> None:
    errors = [d for d in check_text(f"({word} double (n) (* n 2))") if d.severity == "error"]
    assert [(d.code.id, d.fix) for d in errors] == [("E-NAME-002", f"write {meant}")]


def test_a_function_of_such_a_name_may_be_defined_later() -> None:
    session = Session()
    loaded = session.load_all(Source("t.sx", "(defun g (x) (for x))\n(defun for (x) x)\n(g 1)"))
    assert [*loaded.diagnostics, *session.diagnostics] == []


def test_the_table_proposes_only_what_exists_and_nothing_that_exists() -> None:
    check_text("(list 1)")  # so that every layer is there

    def defined(name: str) -> bool:
        found = [layer.symbols.get(name) for layer in (CL, PRELUDE, TENSOR)]
        return any(s is not None and (s.function or s.macro) for s in found)

    from sexpgpu.lisp.analyze import NATIVE, SPECIAL

    special = {s.name for s in (*SPECIAL, *NATIVE)}
    assert [n for n in FUNCTIONS.values() if not defined(n) and n not in special] == []
    assert [n for n in FUNCTIONS if defined(n) or n in special] == []
    assert set(VARIABLES.values()) == {"t", "nil"}


@pytest.mark.parametrize(
    "name, known, meant",
    [
        ("xs", ["x", "ys"], None),  # below three letters
        ("bar", ["car", "far"], None),  # another first letter
        ("bat", ["bar"], "bar"),
        ("model", ["mod"], None),  # two edits in a short name
        ("modle", ["model"], "model"),
        ("widget", ["midget"], "midget"),
        ("target", ["margin"], None),
        ("duoble", ["double"], "double"),
        ("convolutoin", ["convolution"], "convolution"),
    ],
)
def test_how_near_is_near(name: str, known: list[str], meant: str | None) -> None:
    assert nearest(name, known) == meant

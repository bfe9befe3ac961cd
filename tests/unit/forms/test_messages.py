"""What the forms of a run file say of mistakes: the place, the name at fault, what to write."""

from __future__ import annotations

import pytest

from sexpgpu.compiler import check_text, compile_text, declarations, read_value
from sexpgpu.diagnostics.model import SxError
from sexpgpu.forms.knobs import select
from sexpgpu.source import Source

GOOD = """\
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train :source (inline (x (0.0) (1.0) (2.0)) (y (1.0) (3.0) (5.0))) :batch 3)
(defun prepare (batch) (values (field batch :x) (field batch :y)))
(defmodel line ()
  (submodel fit (nn:linear 1 1))
  (forward (x) (fit x)))
(defun objective (model x y) (nn:mse (funcall model x) y))
(defrun line :model (line) :optimizer (optim:sgd :lr 0.1) :steps 200)
"""


def check(old: str, new: str):
    assert old in GOOD
    return check_text(GOOD.replace(old, new))


def only(old: str, new: str):
    (found,) = check(old, new)
    return found


@pytest.mark.parametrize(
    "old, new, code, shown",
    [
        (":model (line)", ":model line", "E-NAME-001", "line"),
        ("(optim:sgd :lr 0.1)", "optim:sgd", "E-NAME-001", "optim:sgd"),
        (":batch 3", ":batch 3 :shuffle true", "E-NAME-001", "true"),
        (":steps 200", ":steps 200 :checkpoint (:every often)", "E-NAME-001", "often"),
        ("(forward", "(defparam w (1) :tags tagz) (forward", "E-NAME-001", "tagz"),
    ],
)
def test_only_the_value_is_underlined(old: str, new: str, code: str, shown: str) -> None:
    found = only(old, new)
    assert found.code.id == code
    assert found.span is not None
    assert found.span.text == shown


def test_tags_are_a_list_that_begins_with_a_keyword() -> None:
    compiled = compile_text(
        GOOD.replace("(forward (x) (fit x))", """\
  (defparam w (1) :tags (:matrix :last))
  (forward (x) (* w (fit x)))""").replace(
            "(optim:sgd :lr 0.1)",
            "(optimizer-groups (optim:sgd :lr 0.1) (group tagged (tag :last) :lr 0.2))",
        )
    )  # fmt: skip
    assert compiled.diagnostics == []
    groups = {path: update.group for path, update in compiled.checked().updates.items()}
    assert groups["w"] == "tagged"


@pytest.mark.parametrize(
    "result, returned, fix",
    [
        ("(field batch :x)", "1 value",
         "end prepare with (values …), one for each parameter of objective after the model"),
        ("(list (field batch :x) (field batch :y))", "a list",
         "return several values from prepare: (values …) in place of the list"),
        ("(values (field batch :x) (field batch :y) 1)", "3 values",
         "give objective a parameter for each value of prepare, after the model"),
    ],
)  # fmt: skip
def test_prepare_and_objective_that_do_not_fit(result: str, returned: str, fix: str) -> None:
    found = only("(values (field batch :x) (field batch :y))", result)
    assert found.code.id == "E-ARG-001"
    assert found.headline == f"prepare returns {returned}; objective takes 2 after the model"
    assert found.fix == fix
    first = "objective" if returned.startswith("3") else "prepare"  # the one to mend
    assert found.labels[0].span.text.startswith(f"(defun {first} ")
    assert sorted(label.span.line for label in found.labels) == [4, 8]


def test_an_objective_without_a_model() -> None:
    found = only("(defun objective (model x y) (nn:mse (funcall model x) y))",
                 "(defun objective () 1.0)")  # fmt: skip
    assert found.code.id == "E-ARG-001"
    assert found.headline.startswith("objective takes no arguments; it is called with 3")


# -- knobs ------------------------------------------------------------------------------------


def unused(text: str) -> list[str]:
    declared, problems = declarations(Source("x.sx", text))
    assert problems == []
    return [d.headline.split()[4].rstrip(":") for d in declared.unused]


def test_a_knob_that_nothing_uses() -> None:
    text = "(defknob lr 0.1)\n(defknob width 8)\n(defvariant v (lr 1.0))\n(list width)\n"
    assert unused(text) == ["lr"]
    warnings = check_text(text + GOOD)
    assert [(d.code.id, d.span and d.span.text) for d in warnings] == [("W-RUN-001", "lr")]


@pytest.mark.parametrize(
    "use",
    [
        "(list lr)",
        "'lr",
        "`(a ,lr)",
        "#(lr)",
        "(f (g . lr))",
        "#+fast (list lr)",
        "(list lr",
        "#.lr",
        "(optim:sgd LR)",
    ],
)
def test_a_knob_is_used_wherever_its_name_occurs(use: str) -> None:
    assert unused(f"(defknob lr 0.1)\n{use}\n") == []


@pytest.mark.parametrize(
    "other", ['"lr"', ":lr", "; lr", "(list lrs)", "#| lr |#", '#\\; "a \\" lr"']
)
def test_what_is_no_use_of_a_knob(other: str) -> None:
    assert unused(f"(defknob lr 0.1)\n{other}\n") == ["lr"]


KNOBS = """
(defknob act :gelu :choices (:gelu :relu))
(defknob norm :layer)
(defknob name "a")
(defknob flag t)
(defknob width 8)
"""


@pytest.mark.parametrize(
    "name, text, fix",
    [
        ("act", "relu", "write act=:relu; the choices are :gelu :relu"),
        ("act", '"relu"', "write act=:relu; the choices are :gelu :relu"),
        ("act", "swish", "choose one of :gelu :relu"),
        ("act", "1", "choose one of :gelu :relu"),
        ("norm", "rms", "write norm=:rms"),
        ("name", "b", 'write name="b"'),
        ("flag", "false", "write flag=nil"),
        ("width", "wide", "give a number such as 8"),
    ],
)
def test_a_setting_of_another_kind_says_what_to_write(name: str, text: str, fix: str) -> None:
    declared, problems = declarations(Source("x.sx", KNOBS))
    assert problems == []
    with pytest.raises(SxError) as caught:
        select(declared, [], [(name, read_value(name, text))])
    (found,) = caught.value.diagnostics
    assert (found.code.id, found.fix) == ("E-KNOB-003", fix)


# -- groups -----------------------------------------------------------------------------------


def grouped(*groups: str):
    return check(
        "(optim:sgd :lr 0.1)", f"(optimizer-groups (optim:sgd :lr 0.1) {' '.join(groups)})"
    )


@pytest.mark.parametrize(
    "glob, fix",
    [
        ("fit", 'write "fit/**"'),
        ("fit/", 'write "fit/**"'),
        ("w", 'write "**/w"'),
        ("fit.w", 'write "fit/w"'),
        ("fit/q", "did you mean fit/w?"),
        ("decoder/**", "the paths are fit/w fit/b"),
    ],
)
def test_a_glob_that_matches_nothing(glob: str, fix: str) -> None:
    group = f'(group a "{glob}" :lr 0.2)'
    (found,) = grouped(group)
    assert (found.code.id, found.fix) == ("W-OPT-001", fix)
    assert found.span is not None
    assert found.span.text == group


def test_a_group_whose_parameters_were_taken_names_who_took_them() -> None:
    last = '(group c "fit/*" :lr 0.3)'
    (found,) = grouped('(group a "**/w" :frozen t)', '(group b "**/b" :lr 0.2)', last)
    assert found.code.id == "W-OPT-001"
    assert found.headline.endswith("the earlier groups a and b took all that it matches")
    assert found.span is not None
    assert found.span.text == last


def test_an_unknown_hyperparameter_is_shown_at_its_group() -> None:
    group = '(group a "**" :lrr 0.2)'
    (found,) = grouped('(group z "**/w" :lr 0.2)', group)
    assert found.code.id == "E-OPT-004"
    assert found.span is not None
    assert found.span.text == group


# -- parameters -------------------------------------------------------------------------------


def test_a_constant_is_no_parameter() -> None:
    found = check("(model x y)", "(model x t)")[0]
    assert found.code.id == "E-ARG-003"
    assert found.fix == "give the parameter another name, such as t1"


def test_a_parameter_of_the_model_is_shown_where_it_is_declared() -> None:
    found = only("(forward (x) (fit x))", "(defparam b (2 3)) (forward (x) (matmul (fit x) b))")
    assert found.code.id == "E-SHAPE-002"
    notes = {note.text: note.span.text for note in found.notes if note.span is not None}
    assert notes["b is the parameter b, declared here"] == "(defparam b (2 3))"


@pytest.mark.parametrize("parameters", ["-46", "(a . b)", "(&key (lr 1 2))", "(&key ((1) 2))"])
def test_a_malformed_lambda_list_of_an_optimizer(parameters: str) -> None:
    (found,) = check_text(f"{GOOD}(defoptimizer o {parameters} (optimizer-update (p g) p))\n")
    assert found.code.id == "E-OPT-001"
    assert "lambda list" in found.headline


# -- optimizers -------------------------------------------------------------------------------

SGD = "(optim:sgd :lr 0.1)"


def defined(clauses: str, call: str = "(mine)", parameters: str = "(&key (lr 0.1))"):
    """What is said of a file whose optimizer is `mine`."""
    text = GOOD.replace(SGD, call)
    return check_text(
        text.replace("(defrun", f"(defoptimizer mine {parameters} {clauses})\n(defrun")
    )


@pytest.mark.parametrize(
    "call, code, place, fix",
    [
        ("(optim:sgd :lr #'optim:warmup-cosine)", "E-ARG-001", None, "call it: (warmup-cosine …)"),
        ("(optim:sgd :lr #'optim:linear)", "E-ARG-001", None, "call it: (linear …)"),
        ('(optimizer-groups #\'optim:sgd (group a "**" :lr 0.1))', "E-OPT-003", "", "call it:"),
        ('(optimizer-groups (group a "**/w" :lr 0.1))', "E-OPT-003", "(group", "(optimizer-groups"),
        ("(optim:muon)", "E-COND-001", None, "mend what"),
        ("(optim:adam :b1 1.0)", "E-COND-001", None, "mend what"),
        ('(optimizer-groups (optim:sgd) (group a "**" :frozen t))', "W-OPT-005", "(optim", "let a"),
    ],
)
def test_an_optimizer_that_cannot_be(call: str, code: str, place: str | None, fix: str) -> None:
    """Told at the user's call, also where a function of the standard module finds out."""
    found = only(SGD, call)
    assert found.code.id == code
    assert (found.fix or found.code.fix).startswith((fix, f"write {fix}"))
    assert found.span is not None
    assert found.span.text.startswith(call if place is None else place)


@pytest.mark.parametrize(
    "clauses, code, said",
    [
        ("(optimizer-update (p g) (values p g))", "E-OPT-002", "gives 2 values"),
        ("(optimizer-update (p g) (* lr g))", "W-OPT-004", "does not depend on the old one"),
        ("(defstate m (param-shape)) (optimizer-update (p g) (setf m g))", "W-OPT-004", "old one"),
        ("(optimizer-update (p g) (* p (- 1 lr)))", "W-OPT-004", "does not use the gradient"),
        ("(optimizer-update (p g) (defstate m ()) (- p g))", "E-OPT-005", "stands in optimizer-up"),
    ],
)
def test_an_update_that_is_none(clauses: str, code: str, said: str) -> None:
    found = defined(clauses)[0]
    assert found.code.id == code
    assert said in found.headline


@pytest.mark.parametrize(
    "update",
    ["(- p (* lr (global-sum (sum g)) p))", "(* p (global-grad-norm))"],
)
def test_a_gradient_seen_through_a_sum_is_seen(update: str) -> None:
    assert defined(f"(optimizer-update (p g) {update})") == []


def test_an_update_calls_what_it_holds_once() -> None:
    twice = "(optimizer-update (p g) (update inner (update inner p g) g))"
    (found,) = defined(twice, "(mine (optim:adam))", "(inner)")
    assert (found.code.id, found.headline) == (
        "E-OPT-001", "update: the states inner/… are there already",
    )  # fmt: skip
    (found,) = defined(
        "(optimizer-update (p g) (update inner p g))", "(mine #'optim:adam)", "(inner)"
    )
    assert found.fix == "call it: (adam …)"


def test_a_schedule_may_give_the_values_of_floor() -> None:
    """What takes one value takes the first, as everywhere in the language."""
    assert check(SGD, "(optim:sgd :lr (lambda (step) (floor (/ step 10))))") == []


# -- models -----------------------------------------------------------------------------------


def test_a_model_that_contains_itself() -> None:
    found = check("(submodel fit (nn:linear 1 1))", "(submodel fit (line))")[0]
    assert found.code.id == "E-PARAM-010"
    assert found.headline == "the model line is being made inside itself, 100 deep"
    tree = """(defmodel line (&optional (depth 3))
  (submodel fit (nn:linear 1 1))
  (submodel below (line (- depth 1)) :when (> depth 1))
  (forward (x) (if (null below) (fit x) (below (fit x)))))
"""
    start, end = GOOD.index("(defmodel"), GOOD.index("(defun objective")
    assert check_text(GOOD[:start] + tree + GOOD[end:]) == []


@pytest.mark.parametrize("init", ["#'nn:he-normal", "(nn:he-normal)"])
def test_an_initial_value_is_told_at_its_parameter(init: str) -> None:
    declared = f"(defparam b (1) :init {init})"
    found = check("(forward (x) (fit x))", f"{declared} (forward (x) (+ b (fit x)))")[0]
    assert found.code.id in ("E-ARG-001", "E-COND-001")
    assert found.span is not None
    assert found.span.text == declared


@pytest.mark.parametrize(
    "loss",
    ["(mean x)", "(nn:mse (funcall (frozen model) x) y)", "(mean (round (funcall model x)))"],
)
def test_a_loss_of_no_parameter_is_told_once(loss: str) -> None:
    found = only("(nn:mse (funcall model x) y)", loss)
    assert found.code.id == "W-RUN-001"
    assert found.headline == "the loss depends on none of the 2 parameters"


def test_a_buffer_that_nothing_touches() -> None:
    found = only("(forward (x) (fit x))", "(defbuffer seen ()) (forward (x) (fit x))")
    assert (found.code.id, found.headline) == (
        "W-RUN-001", "no graph reads or sets the buffer seen",
    )  # fmt: skip


@pytest.mark.parametrize(
    "loss",
    [
        "(mean (square (- (funcall model x) (at y :all 0))))",
        "(mean (abs (- (at y :all 0) (funcall model x))))",
        "(mean (where (> (at y :all 0) 0) (funcall model x) 0))",
    ],
)
def test_examples_that_meet_those_of_others(loss: str) -> None:
    found = only("(nn:mse (funcall model x) y)", loss)
    assert found.code.id == "W-SHAPE-001"


@pytest.mark.parametrize(
    "loss",
    [
        "(mean (square (- (funcall model x) (expand-dims (at y :all 0) 0))))",
        "(mean (square (- (funcall model x) (at y :all 0 :new))))",
        "(mean (* (funcall model x) (mean (at y :all 0))))",
    ],
)
def test_pairs_that_are_asked_for(loss: str) -> None:
    assert check("(nn:mse (funcall model x) y)", loss) == []


def test_a_sigmoid_before_a_loss_of_logits() -> None:
    loss = "(nn:binary-cross-entropy-with-logits (sigmoid (funcall model x)) y)"
    assert only("(nn:mse (funcall model x) y)", loss).code.id == "W-NUM-001"


# -- what was meant ---------------------------------------------------------------------------

FORWARD = "(forward (x) (fit x))"


@pytest.mark.parametrize(
    "old, new, code, fix",
    [
        (FORWARD, "(defparam b '(1)) (forward (x) (+ b (fit x)))", "E-ARG-004", "a shape is not q"),
        (FORWARD, "(forward (x) (submodel b (nn:linear 1 1)) (b (fit x)))", "E-NAME-001",
         "submodel is a clause of defmodel: write it before forward"),
        (FORWARD, "(defparam b (1)) (forward (x) (setf b (+ b 1)) (* b (fit x)))", "E-FLOW-002",
         "b is a parameter, which the optimizer changes"),
        ("(model x y)", "(x y model)", "E-TYPE-001", "the model is the first argument"),
    ],
)  # fmt: skip
def test_what_was_meant(old: str, new: str, code: str, fix: str) -> None:
    found = check(old, new)[0]
    assert found.code.id == code
    assert (found.fix or "").startswith(fix)


@pytest.mark.parametrize("shape", ["p", "(zeros-like p)", "(shape p)"])
def test_the_shape_of_a_state(shape: str) -> None:
    found = defined(f"(defstate m {shape}) (optimizer-update (p g) (- p (+ m g)))")[0]
    assert found.fix == "a list here is one of sizes; that of the parameter is (param-shape)"


def test_a_schedule_needs_a_number_as_default() -> None:
    update = "(optimizer-update (p g) (- p (* lr g)))"
    found = defined(update, "(mine :lr (optim:cosine 0.1 10))", "(&key lr)")[0]
    assert (found.fix or "").startswith("a hyperparameter may be a schedule where its default is a")

"""Codes of models, parameters and optimizers: PARAM OPT."""

from __future__ import annotations

from sexpgpu.diagnostics.codes.run import GOOD
from sexpgpu.diagnostics.model import code

# -- models and parameters (PARAM) ------------------------------------------------------------

E_PARAM_001 = code(
    "E-PARAM-001",
    title="a malformed model",
    explain="A model is a name, a lambda list, clauses, and forward last.",
    fix="write (defmodel name (…) clause… (forward (x) …))",
    bad=GOOD.replace("(forward (x) (fit x))", ""),
    good=GOOD,
)
E_PARAM_002 = code(
    "E-PARAM-002",
    title="a part of a model is named twice, or cannot be named so",
    explain="Parameters and submodels of one model have different names, and a submodel may not "
    "be called like an operator of Common Lisp.",
    fix="rename one",
    bad=GOOD.replace("(submodel fit (nn:linear 1 1))", "(submodel list (nn:linear 1 1))").replace(
        "(fit x)", "x"
    ),
    good=GOOD,
)
E_PARAM_003 = code(
    "E-PARAM-003",
    title="no parameter or part at that path",
    explain='(param model "path") and (part model "path") name what the model has, from the '
    "model down.",
    fix="use one of the paths that the message lists",
    bad=GOOD.replace("(fit x)", '(+ (fit x) (param fit "weight"))'),
    good=GOOD,
)
E_PARAM_004 = code(
    "E-PARAM-004",
    title="a parameter's declaration is not usable",
    explain="A shape is a list of positive integers, a dtype a float, and :init gives a "
    "tensor of the "
    "shape, a number, or a function of the shape.",
    fix="mend the shape, dtype or initial value",
    bad=GOOD.replace("(submodel fit (nn:linear 1 1))", "(defparam w (1 -1))").replace(
        "(fit x)", "(* x w)"
    ),
    good=GOOD,
)
E_PARAM_005 = code(
    "E-PARAM-005",
    title="a parameter or model that is not part of the run's model",
    explain="Only what the model of defrun reaches is trained and saved.",
    fix="make it a submodel of the run's model",
)
E_PARAM_006 = code(
    "E-PARAM-006",
    title="a model built inside a traced function",
    explain="Models are built once, at compile time, before any graph is traced.",
    fix="build the model in a submodel clause or at top level",
    bad=GOOD.replace("(funcall model x)", "(funcall (nn:linear 1 1) x)"),
    good=GOOD,
)
E_PARAM_007 = code(
    "E-PARAM-007",
    title="tensors that do not fit a model's parameters",
    explain="with-params takes a list of float tensors in the order of (params model), each of its "
    "parameter's shape, or with more axes in front of it.",
    fix="map over (params model), so that there is one tensor for each, of its shape",
    bad=GOOD.replace("(funcall model x)", "(funcall (with-params model (list x)) x)"),
    good=GOOD.replace("(funcall model x)", "(funcall (with-params model (params model)) x)"),
)
E_PARAM_008 = code(
    "E-PARAM-008",
    title="an initial value that depends on what has none yet",
    explain="An :init form is a closed graph of its own, run before the first step: it sees random "
    "numbers and the shape, but no parameter, no buffer, no data.",
    fix="share the parameter itself, or compute both initial values by one function of the shape",
    bad=GOOD.replace(
        "(submodel fit (nn:linear 1 1))",
        '(submodel fit (nn:linear 1 1))\n  (defparam again (1 1) :init (* 2 (param fit "w")))',
    ).replace("(fit x)))", "(+ (fit x) (matmul x again))))"),
    good=GOOD,
)
E_PARAM_009 = code(
    "E-PARAM-009",
    title="a buffer with a row for each example, and no streams",
    explain="A row of a buffer that is `:per :example` follows one stream of records: row i of "
    "each batch goes on where row i of the one before ended. So every loader that the model sees "
    "has :streams t, and all stages of the training loader have one :batch.",
    fix="add :streams t to the loader, or drop :per",
    bad=GOOD.replace(
        "(forward (x) (fit x))",
        "(defbuffer last (1) :per :example)\n  (forward (x) (setf last x) (+ last (fit x)))",
    ),
    good=GOOD.replace(
        "(forward (x) (fit x))",
        "(defbuffer last (1) :per :example)\n  (forward (x) (setf last x) (+ last (fit x)))",
    ).replace(":batch 3)", ":batch 3 :streams t)"),
)

E_PARAM_010 = code(
    "E-PARAM-010",
    title="a model that contains itself without end",
    explain="A constructor that makes a submodel by calling itself makes another in that one, and "
    "so on. Models within models of their kind need an end, such as a depth that falls.",
    fix="make the part conditional: (submodel inner (tree (- depth 1)) :when (> depth 0))",
    bad=GOOD.replace("(submodel fit (nn:linear 1 1))", "(submodel fit (line))"),
    good=GOOD,
)

# -- optimizers (OPT) -------------------------------------------------------------------------

E_OPT_001 = code(
    "E-OPT-001",
    title="a malformed optimizer",
    explain="An optimizer is a name, a lambda list, clauses, and optimizer-update last.",
    fix="write (defoptimizer name (&key (lr 0.1)) (optimizer-update (p g) …))",
    bad="(defoptimizer plain (&key (lr 0.1)) lr)\n" + GOOD,
    good=GOOD,
)
E_OPT_002 = code(
    "E-OPT-002",
    title="a value that does not fit in an update",
    explain="optimizer-update returns the new parameter, a tensor of the parameter's shape; a "
    "state takes values of the shape and dtype that it was declared with, global-sum a scalar.",
    fix="give a value of the shape and dtype that the message names",
    bad="(defoptimizer broken (&key (lr 0.1)) (optimizer-update (p g) (sum g)))\n"
    + GOOD.replace("(optim:sgd :lr 0.1)", "(broken)").replace(
        "(nn:linear 1 1)", "(nn:linear 1 1 :bias nil)"
    ),
    good=GOOD,
)
E_OPT_003 = code(
    "E-OPT-003",
    title="a malformed optimizer group or selector",
    explain="A group is (group name selector :key value…); selectors are path globs, (rank n…), "
    "(dtype …), (tag …), (size op n), (and …), (or …), (not …), or a function.",
    fix="write the selector in one of those forms",
    bad=GOOD.replace(
        "(optim:sgd :lr 0.1)", "(optimizer-groups (optim:sgd :lr 0.1) (group a (rnk 1) :lr 0.2))"
    ),
    good=GOOD,
)
E_OPT_004 = code(
    "E-OPT-004",
    title="an unknown hyperparameter",
    explain="A group may set only hyperparameters that its optimizer has.",
    fix="use one of the optimizer's hyperparameters",
    bad=GOOD.replace(
        "(optim:sgd :lr 0.1)", '(optimizer-groups (optim:sgd :lr 0.1) (group a "**" :lrr 0.2))'
    ),
    good=GOOD,
)
E_OPT_005 = code(
    "E-OPT-005",
    title="a form of an optimizer's body outside it",
    explain="defstate, param-shape and its kin have a meaning only while the body of an "
    "optimizer is "
    "evaluated for a parameter.",
    fix="move the form into a defoptimizer",
    bad="(defun f () (param-shape))\n(f)\n" + GOOD,
    good=GOOD,
)
E_OPT_006 = code(
    "E-OPT-006",
    title="an optimizer asks for what it cannot have",
    explain="global-sum adds up one number of every parameter of a group, so each update of the "
    "group calls it equally often; an update and a schedule see no other "
    "parameter; evaluation-parameter sees the parameter and the states, not the gradient, the "
    "schedules or the step.",
    fix="call global-sum for every parameter; keep in a state what evaluation-parameter needs",
    bad="(defoptimizer late (&key (lr 0.1))\n"
    "  (evaluation-parameter (p) (* p (cast (ctx :step) :f32)))\n"
    "  (optimizer-update (p g) (- p (* lr g))))\n" + GOOD.replace("(optim:sgd :lr 0.1)", "(late)"),
    good=GOOD,
)
W_OPT_001 = code(
    "W-OPT-001",
    title="an optimizer group that selects nothing",
    explain="No parameter is left for the group: its selector matches none, or earlier "
    "groups took all.",
    fix="mend the selector or remove the group",
    bad=GOOD.replace(
        "(optim:sgd :lr 0.1)",
        '(optimizer-groups (optim:sgd :lr 0.1) (group a "nothing/**" :lr 0.2))',
    ),
    good=GOOD,
)
W_OPT_002 = code(
    "W-OPT-002",
    title="a learning rate that is an integer",
    explain="An integer learning rate is 1 or more: every step moves a parameter by its whole "
    "gradient or further, which seldom converges. Often 1e-1 or 1e-3 was meant, or a number of "
    "steps was given in its place.",
    fix="write the rate as a float: 1e-3, or 1.0 where that is meant",
    bad=GOOD.replace("(optim:sgd :lr 0.1)", "(optim:sgd :lr 1)"),
    good=GOOD,
)
W_OPT_003 = code(
    "W-OPT-003",
    title="a learning rate that is not above 0",
    explain="With a rate of 0 no step moves a parameter; with a negative one each step makes the "
    "loss larger.",
    fix="give a positive rate; `(group name selector :frozen t)` keeps parameters as they are",
    bad=GOOD.replace("(optim:sgd :lr 0.1)", "(optim:sgd :lr 0.0)"),
    good=GOOD,
)

W_OPT_004 = code(
    "W-OPT-004",
    title="an update that does not follow parameter and gradient",
    explain="optimizer-update returns the new parameter, the old one less a step. A result that "
    "does not depend on the parameter is often the step alone; one that needs no gradient does not "
    "learn.",
    fix="return the new parameter: (- p (* lr g))",
    bad="(defoptimizer step (&key (lr 0.1)) (optimizer-update (p g) (* lr g)))\n"
    + GOOD.replace("(optim:sgd :lr 0.1)", "(step)"),
    good="(defoptimizer step (&key (lr 0.1)) (optimizer-update (p g) (- p (* lr g))))\n"
    + GOOD.replace("(optim:sgd :lr 0.1)", "(step)"),
)
W_OPT_005 = code(
    "W-OPT-005",
    title="no parameter is trained",
    explain="Every parameter is in a frozen group, or declared with :trainable nil: the steps of "
    "the run change nothing.",
    fix="let a group train, or some parameters",
    bad=GOOD.replace(
        "(optim:sgd :lr 0.1)",
        '(optimizer-groups (optim:sgd :lr 0.1) (group all "**" :frozen t))',
    ),
    good=GOOD,
)

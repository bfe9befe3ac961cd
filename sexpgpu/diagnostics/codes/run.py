"""Codes of the run file: RUN KNOB PARAM OPT DATA EVAL METRIC."""

from __future__ import annotations

from sexpgpu.diagnostics.model import code

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

# -- the run file (RUN) -----------------------------------------------------------------------

E_RUN_001 = code(
    "E-RUN-001",
    title="a contract name is missing",
    explain="A run file needs a loader, prepare, objective and defrun; defrun needs a model, an "
    "optimizer, and steps or epochs.",
    fix="define what the message names",
    bad=GOOD.replace("(defun objective (model x y) (nn:mse (funcall model x) y))\n", ""),
    good=GOOD,
)
E_RUN_002 = code(
    "E-RUN-002",
    title="an unknown or repeated key of a form",
    explain="The forms of a run file take the keys listed in docs/run-file.md, each once.",
    fix="use one of the keys that the message lists",
    bad=GOOD.replace(":steps", ":stepz"),
    good=GOOD,
)
E_RUN_003 = code(
    "E-RUN-003",
    title="a declaration is made twice",
    explain="Names of loaders, passes and runs are unique in a file, and a file has one defrun.",
    fix="remove or rename one of the two",
    bad=GOOD + "\n(defrun again :model (line) :optimizer (optim:sgd) :steps 2)\n",
    good=GOOD,
)
E_RUN_004 = code(
    "E-RUN-004",
    title="a form of the run file outside one",
    explain="defloader, defeval and defrun declare parts of the file that is being compiled; a "
    "library or a REPL has none.",
    fix="move the form into the run file",
)
E_RUN_005 = code(
    "E-RUN-005",
    title="a malformed form of the run file",
    explain="The form does not have the shape that docs/run-file.md gives for it.",
    fix="write it as the message shows",
    bad=GOOD.replace("(defrun line", "(defrun"),
    good=GOOD,
)
E_RUN_006 = code(
    "E-RUN-006",
    title="a value of a form is not of the kind it takes",
    explain="Each key takes one kind of value (a positive integer, a model, a name …).",
    fix="give a value of the kind that the message names",
    bad=GOOD.replace(":steps 200", ":steps 0"),
    good=GOOD,
)
E_RUN_007 = code(
    "E-RUN-007",
    title="a value that does not fit the batch",
    explain="Microbatches must divide the loader's batch.",
    fix="choose a number that divides the batch",
    bad=GOOD.replace(":steps 200", ":steps 200 :microbatches 2"),
    good=GOOD,
)
E_RUN_008 = code(
    "E-RUN-008",
    title="what a traced contract function returned cannot be used",
    explain="objective returns a scalar float tensor, or (values mean weight); evaluate a "
    "scalar, or "
    "nothing; predict tensors.",
    fix="return a scalar float tensor (take the mean, say)",
    bad=GOOD.replace("(nn:mse (funcall model x) y)", "(- (funcall model x) y)"),
    good=GOOD,
)
W_RUN_001 = code(
    "W-RUN-001",
    title="a declaration that nothing uses",
    explain="A loader that no pass or run reads, a parameter that no graph reaches, a knob that "
    "is never mentioned: often a misspelt name.",
    fix="use it or remove it",
    bad=GOOD + "\n(defloader other :source (inline (x (0.0))) :batch 1)\n",
    good=GOOD,
)

W_RUN_002 = code(
    "W-RUN-002",
    title="a computation that mixes the examples of a microbatch",
    explain="With :microbatches above 1 a training graph sees one microbatch. What mixes its "
    "examples (batch statistics, contrastive losses) then sees fewer of them than the batch "
    "has, so "
    "the gradient is not that of the whole batch.",
    fix="use :microbatches 1, or accept that the statistics are those of a microbatch",
    bad=GOOD.replace(":steps 200", ":steps 200 :microbatches 3").replace(
        "(forward (x) (fit x))", "(forward (x) (fit (- x (mean x :axis 0 :keep t))))"
    ),
    good=GOOD,
)
W_RUN_003 = code(
    "W-RUN-003",
    title="a random draw that cannot be attributed to examples",
    explain="A draw whose shape counts examples gives each example its own numbers, however "
    "the batch is "
    "split. Here the axis of examples cannot be told, so with :microbatches above 1 the numbers "
    "depend on the split.",
    fix="draw with the batch's axis as an axis of its own, then reshape",
    bad=GOOD.replace(":steps 200", ":steps 200 :microbatches 3").replace(
        "(forward (x) (fit x))",
        "(forward (x) (let ((n (dim x 0)))\n"
        "  (+ (fit x) (at (random-normal (list n n)) :all (slice 0 1)))))",
    ),
    good=GOOD,
)
W_RUN_005 = code(
    "W-RUN-005",
    title="nothing is computed again",
    explain="`:remat :blocks` computes each part of a `repeat` again in the backward pass, so that "
    "what is within the parts need not be kept. A model without a `repeat` keeps everything.",
    fix="make the blocks by (repeat n form), or choose :remat :full",
    bad=GOOD.replace(":steps 200", ":steps 200 :remat :blocks"),
    good=GOOD.replace(":steps 200", ":steps 200 :remat :full"),
)

_VALID = "(defloader valid :source (inline (x (3.0)) (y (7.0))) :batch 1)\n"
_PASS = "(defeval valid :loader valid :every 10)\n"
_TURN = (
    "(defun curriculum ()\n  (where (< (ctx :eval/valid/loss) 1.0) (stage :all) (stage :few)))\n"
)
STAGED = GOOD.replace(":batch 3)", ":stages (few (:batch 2) all (:batch 3)))").replace(
    "(defrun", f"{_VALID}{_PASS}{_TURN}(defrun"
)

E_RUN_009 = code(
    "E-RUN-009",
    title="a curriculum that cannot run",
    explain="The curriculum runs after each round of evaluations, so a file with one needs a pass "
    "(defeval). It reads ctx, its own states and statistics: it sees neither the model nor data.",
    fix="declare a pass; report what the curriculum needs as a metric and read that by ctx",
    bad=STAGED.replace(_VALID, "").replace(_PASS, ""),
    good=STAGED,
)
E_RUN_010 = code(
    "E-RUN-010",
    title="no such stage",
    explain="(stage :name) is the index of a stage of the training loader, from 0.",
    fix="use one of the stages that the message lists",
    bad=STAGED.replace("(stage :all)", "(stage :al)"),
    good=STAGED,
)
E_RUN_011 = code(
    "E-RUN-011",
    title="epochs of a loader with several stages",
    explain="Each stage has epochs of its own, and how long the run stays in one is not known "
    "before it: the length of such a run is given in steps.",
    fix="give defrun :steps",
    bad=STAGED.replace(":steps 200", ":epochs 3"),
    good=STAGED,
)
E_RUN_012 = code(
    "E-RUN-012",
    title="a value that does not fit a state of the curriculum",
    explain="A state keeps the shape and dtype that its defstate gives it; without :dtype it is "
    "f32.",
    fix="reduce or cast the value, or declare the state so: (defstate name shape :dtype :i32)",
    bad=STAGED.replace(
        "(defun curriculum ()",
        "(defun curriculum ()\n  (defstate best ())\n  (setf best (ones (list 2)))",
    ),
    good=STAGED.replace(
        "(defun curriculum ()",
        "(defun curriculum ()\n  (defstate best (2))\n  (setf best (ones (list 2)))",
    ),
)
W_RUN_004 = code(
    "W-RUN-004",
    title="stages without a curriculum, or a curriculum without stages",
    explain="A run starts in the first stage of its loader and goes on to another where the "
    "function curriculum says so. Without that function the other stages are never reached; and "
    "with one stage a curriculum has nothing to choose.",
    fix="define curriculum, or remove the stages",
    bad=STAGED.replace(_TURN, ""),
    good=STAGED,
)

# -- knobs (KNOB) -----------------------------------------------------------------------------

E_KNOB_001 = code(
    "E-KNOB-001",
    title="a knob, variant or sweep that cannot be read before evaluation",
    explain="defknob, defvariant and defsweep are read before the file is evaluated: they stand at "
    "top level, hold literal values only, and are not generated by a macro or under #+ or #-.",
    fix="write literal values at top level",
    bad="(defknob lr (/ 1 10))\n" + GOOD,
    good="(defknob lr 0.1)\n" + GOOD.replace(":lr 0.1", ":lr lr"),
)
E_KNOB_002 = code(
    "E-KNOB-002",
    title="an unknown knob or variant",
    explain="A selection may name only what the file declares.",
    fix="use a declared name (`sexpgpu variants FILE` lists them)",
    bad="(defknob lr 0.1)\n(defvariant fast (lrr 0.2))\n" + GOOD.replace(":lr 0.1", ":lr lr"),
    good="(defknob lr 0.1)\n(defvariant fast (lr 0.2))\n" + GOOD.replace(":lr 0.1", ":lr lr"),
)
E_KNOB_003 = code(
    "E-KNOB-003",
    title="a knob's value is not allowed",
    explain="A value must be of the default's kind, within :min and :max, and among :choices.",
    fix="choose a value that the declaration allows",
    bad="(defknob lr 0.1 :max 0.01)\n" + GOOD.replace(":lr 0.1", ":lr lr"),
    good="(defknob lr 0.1 :max 1.0)\n" + GOOD.replace(":lr 0.1", ":lr lr"),
)
E_KNOB_004 = code(
    "E-KNOB-004",
    title="a name that cannot be a knob",
    explain="A knob's name is a symbol of the file that is neither a constant nor a special "
    "variable "
    "of Common Lisp, and it is declared once.",
    fix="choose another name",
    bad="(defknob pi 3.0)\n" + GOOD,
    good="(defknob lr 0.1)\n" + GOOD.replace(":lr 0.1", ":lr lr"),
)

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

# -- data that compiling knows (DATA 001-029; the loop's are above 030) -------------------------

E_DATA_001 = code(
    "E-DATA-001",
    title="a data file cannot be read",
    explain="check reads the headers of local data files; the file is missing, unreadable or "
    "damaged.",
    fix="mend the path (it is relative to the run file) or the file",
    bad=GOOD.replace(
        "(inline (x (0.0) (1.0) (2.0)) (y (1.0) (3.0) (5.0)))", '(npz "no-such-file.npz")'
    ),
    good=GOOD,
)
E_DATA_002 = code(
    "E-DATA-002",
    title="no field of that name",
    explain="A field must be in the source and, where :fields is given, declared there.",
    fix="use one of the fields that the message lists",
    bad=GOOD.replace("(field batch :y)", "(field batch :z)"),
    good=GOOD,
)
E_DATA_003 = code(
    "E-DATA-003",
    title="declared fields and data differ",
    explain="The shape, dtype or number of records in the data is not what :fields declares.",
    fix="declare what the data has",
    bad=GOOD.replace(":batch 3", ":batch 3 :fields ((x :f32 (2)) (y :f32 ()))"),
    good=GOOD,
)
E_DATA_004 = code(
    "E-DATA-004",
    title="too few records",
    explain="The training loader has fewer records than one batch holds, and drops a partial "
    "batch.",
    fix="use a smaller :batch, or more data",
    bad=GOOD.replace(":batch 3", ":batch 4"),
    good=GOOD,
)
E_DATA_005 = code(
    "E-DATA-005",
    title="a malformed source",
    explain="A source is made by npz, text, inline or synthetic, with the arguments of "
    "docs/data.md.",
    fix="write the source as the message shows",
    bad=GOOD.replace("(y (1.0) (3.0) (5.0))", "(y (1.0) (3.0))"),
    good=GOOD,
)

E_DATA_006 = code(
    "E-DATA-006",
    title="streams that cannot be",
    explain="With :streams t the records are cut into as many runs as a batch has rows, and row i "
    "of each batch is the next record of run i. They keep the order of the source, and all end "
    "together; a field stream-start says where they begin.",
    fix="leave :shuffle and :drop-last nil out; rename a field called stream-start",
    bad=GOOD.replace(":batch 3)", ":batch 3 :streams t :shuffle t)"),
    good=GOOD.replace(":batch 3)", ":batch 3 :streams t)"),
)

# -- evaluation passes (EVAL) -----------------------------------------------------------------

E_EVAL_001 = code(
    "E-EVAL-001",
    title="an evaluation pass names something that is not declared",
    explain="A pass reads a declared loader, and defrun :eval lists declared passes.",
    fix="use a declared name",
    bad=GOOD.replace("(defrun", "(defeval valid :loader vaild)\n(defrun"),
    good=GOOD.replace("(defrun", "(defeval valid :loader train)\n(defrun"),
)

E_EVAL_002 = code(
    "E-EVAL-002",
    title="an evaluation pass over a loader of several stages",
    explain="Stages are for training: a curriculum leads through them. A pass sees every record of "
    "one source once, and reports one series from the first step to the last.",
    fix="declare a loader for the pass, one for each stage if need be",
    bad=STAGED.replace(_VALID, "").replace(":loader valid", ":loader train"),
    good=STAGED,
)

# -- found while a run goes on, by the loop (numbers above 030); no single file shows them ------

E_RUN_031 = code(
    "E-RUN-031",
    title="non-finite numbers stopped the run",
    explain="The loss or the norm of the gradients was not a finite number, and :finite is :abort. "
    "The parameters, optimizer states and buffers are those from before that step; a checkpoint "
    "marked bad keeps them beside the good ones. The message names the step, the place in the "
    "loader, and the first node of the graph whose result is not finite.",
    fix="look at the node that the message names: a division by zero, a log or sqrt outside its "
    "range, an exp that overflows, a learning rate that is too high; or :finite :skip",
)
E_RUN_032 = code(
    "E-RUN-032",
    title="ten steps in a row were not finite",
    explain=":finite :skip drops the update of a step whose loss or gradient norm is not finite. "
    "After ten such steps in a row nothing is learned any more, so the run stops.",
    fix="look at the node that the message names; resume from an earlier checkpoint",
)
E_RUN_033 = code(
    "E-RUN-033",
    title="an option of the run cannot be used",
    explain="A number of steps, a time limit, a slug or another option of the run is out of range "
    "or contradicts another.",
    fix="give a value as the message says",
)
W_RUN_031 = code(
    "W-RUN-031",
    title="an update was skipped",
    explain="The loss or the gradient norm of a step was not finite and :finite is :skip: the "
    "parameters, optimizer states, buffers and counters are unchanged by it, to the bit.",
    fix="nothing to do, if it stays rare; the series train/nonfinite counts them",
)
W_RUN_032 = code(
    "W-RUN-032",
    title="the curriculum asked for a stage that there is not",
    explain="The index that curriculum returned is below 0 or above the last stage's. The run goes "
    "on in the first or the last stage. Said the first time only.",
    fix="return (stage :name), or keep the index between the first and the last with min and max",
)
E_DATA_031 = code(
    "E-DATA-031",
    title="a value does not fit its field",
    explain="A record holds a value outside the :range that its field declares, or one that the "
    "field's dtype cannot hold. The message names the file, the record, the field and the value.",
    fix="mend the record, or widen the field's dtype or :range",
)
E_EVAL_031 = code(
    "E-EVAL-031",
    title="an evaluation pass has no records",
    explain="The loader of the pass holds no records, so there is nothing to take a mean of.",
    fix="give the loader data, or leave the pass out of defrun :eval",
)
E_METRIC_031 = code(
    "E-METRIC-031",
    title="no such series",
    explain="A series that the run depends on (:checkpoint :best) was not among those that its "
    "evaluation passes reported.",
    fix="use one of the series that the message lists",
)
E_EVAL_032 = code(
    "E-EVAL-032",
    title="the remainder of a pass has no graph",
    explain="An evaluation pass sees every record once. Its last records do not fill a batch, and "
    "the document was compiled without a graph for that number of them, because the number of "
    "records was not known then or has changed.",
    fix="compile the file where its data can be read, or choose a :batch that divides the records",
)
E_EVAL_033 = code(
    "E-EVAL-033",
    title="a prediction that the file does not define",
    explain="Without a function predict, prediction calls the model on the first value of prepare. "
    "A model that takes several values cannot be called so.",
    fix="define (defun predict (model …) …)",
)

# -- what traced functions note (METRIC, and ctx and counters of RUN) ---------------------------

E_METRIC_001 = code(
    "E-METRIC-001",
    title="a metric or loss term of a name that is taken",
    explain="Within one graph each metric and loss term has a name of its own, and the names "
    "of the "
    "series that every run reports (loss, grad-norm, data-wait …) are reserved. Inside a model the "
    "name is prefixed by the model's path.",
    fix="give one of the two another name",
    bad=GOOD.replace(
        "(nn:mse (funcall model x) y))",
        "(metric :bias (mean y)) (metric :bias (mean x)) (nn:mse (funcall model x) y))",
    ),
    good=GOOD,
)
E_METRIC_002 = code(
    "E-METRIC-002",
    title="a malformed metric or loss term",
    explain="(metric :name value &key reduce weight finish): :reduce is :mean :sum :max :min :last "
    "or :rms, a weight is a scalar. (loss-term :name value &key weight): the value is a scalar "
    "float tensor, the mean over its units.",
    fix="write it as the message shows",
    bad=GOOD.replace(
        "(nn:mse (funcall model x) y))",
        "(metric :bias (mean y) :reduce :median) (nn:mse (funcall model x) y))",
    ),
    good=GOOD,
)
W_METRIC_001 = code(
    "W-METRIC-001",
    title="a selection of diagnostics matches none",
    explain="A glob of `--diagnostics` or `defrun :diagnostics` matches no diagnostic of the file: "
    "neither one that it declares nor one that every run offers.",
    fix="`sexpgpu explain FILE --diagnostics` lists them",
    bad=GOOD.replace(":steps 200", ':steps 200 :diagnostics (:select "act/fitt/**")'),
    good=GOOD.replace(":steps 200", ':steps 200 :diagnostics (:select "act/fit/**")'),
)
E_RUN_021 = code(
    "E-RUN-021",
    title="a ctx key that is not known here",
    explain="ctx gives what the loop knows of the step: which keys there are depends on the graph "
    "(:microbatch in training, :training everywhere). The message lists those of this graph.",
    fix="use one of the keys that the message lists",
    bad=GOOD.replace("(nn:mse (funcall", "(ctx :steep) (nn:mse (funcall"),
    good=GOOD,
)
E_RUN_022 = code(
    "E-RUN-022",
    title="a counter used as something else than a total to add to",
    explain="(incf (counter :name) n) adds an integer, or a scalar integer tensor, to a run-long "
    "total. The total itself is (ctx :counter/name), its value at the step's start.",
    fix="write (incf (counter :name) n)",
    bad=GOOD.replace("(nn:mse (funcall", "(setf (counter :rows) 3) (nn:mse (funcall"),
    good=GOOD,
)

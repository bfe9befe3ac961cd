"""Codes of the run file and its knobs: RUN KNOB."""

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
W_RUN_006 = code(
    "W-RUN-006",
    title="a :keep-every that keeps nothing",
    explain="`:keep-every n` keeps the checkpoints whose step n divides, where `:keep` would drop "
    "them. Without `:keep` none is dropped; and where no step that is saved is divided by n, each "
    "is dropped in its turn.",
    fix="choose a :keep-every that is a multiple of :every and no more than the steps, or leave "
    "it out",
    bad=GOOD.replace(":steps 200", ":steps 200 :checkpoint (:every 30 :keep 2 :keep-every 100)"),
    good=GOOD.replace(":steps 200", ":steps 200 :checkpoint (:every 50 :keep 2 :keep-every 100)"),
)

VALID = "(defloader valid :source (inline (x (3.0)) (y (7.0))) :batch 1)\n"
_PASS = "(defeval valid :loader valid :every 10)\n"
_TURN = (
    "(defun curriculum ()\n  (where (< (ctx :eval/valid/loss) 1.0) (stage :all) (stage :few)))\n"
)
STAGED = GOOD.replace(":batch 3)", ":stages (few (:batch 2) all (:batch 3)))").replace(
    "(defrun", f"{VALID}{_PASS}{_TURN}(defrun"
)

E_RUN_009 = code(
    "E-RUN-009",
    title="a curriculum that cannot run",
    explain="The curriculum runs after each round of evaluations, so a file with one needs a pass "
    "(defeval). It reads ctx, its own states and statistics: it sees neither the model nor data.",
    fix="declare a pass; report what the curriculum needs as a metric and read that by ctx",
    bad=STAGED.replace(VALID, "").replace(_PASS, ""),
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

# -- what traced functions read and count ---------------------------------------------------------

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

"""Codes of tensors, their ops and the IR: FLOW SHAPE DTYPE OP GRAD NUM IR."""

from __future__ import annotations

from sexpgpu.diagnostics.model import code


def _model(parameters: str, body: str, fields: str = "(x (0.0 1.0) (1.0 2.0))") -> str:
    """A run file whose objective is `body` over a batch `x` (f32, 2 by 2 unless said)."""
    return f"""\
(require "sexpgpu/optim" :as optim)
(defloader train :source (inline {fields}) :batch 2)
(defun prepare (batch) (field batch :x))
(defmodel net ()
  {parameters}
  (forward (x) {body}))
(defun objective (model x) (mean (funcall model x)))
(defrun net :model (net) :optimizer (optim:sgd :lr 0.1) :steps 2)
"""


W = "(defparam w (2 3))"

# -- the flow of a traced function (FLOW) -------------------------------------------------------

E_FLOW_001 = code(
    "E-FLOW-001",
    title="a tensor where a truth value is wanted",
    explain="Tracing runs before any data is seen, so a tensor has no truth: if, cond, when, "
    "unless, and, or, not and loop tests cannot branch on it. Choosing element by element is "
    "where; asking whether an optional tensor was given is null.",
    fix="use (where test a b), logical-and, logical-or, logical-not; for an optional tensor "
    "(if (null x) ...)",
    bad=_model(W, "(if (> (mean x) 0) (matmul x w) x)"),
    good=_model(W, "(let ((y (matmul x w))) (where (> (mean x) 0) y (- y)))"),
)
E_FLOW_002 = code(
    "E-FLOW-002",
    title="a tensor of another graph",
    explain="Each traced function builds its own graph, and a tensor lives only in the graph it "
    "was made in. One kept in a variable or list and used in another graph has no value there.",
    fix="pass the value as an argument, or compute it again where it is used",
    bad="(defvar *kept* nil)\n"
    + _model(W, "(progn (setq *kept* x) (matmul x w))")
    + "(defun predict (model x) (funcall model *kept*))\n",
    good=_model(W, "(matmul x w)") + "(defun predict (model x) (funcall model x))\n",
)
E_FLOW_003 = code(
    "E-FLOW-003",
    title="a tensor operation outside a traced function",
    explain="Tensor operations append to the graph that is being traced: the body of forward, "
    "objective, prepare, evaluate, an initialiser or an update. At the top level there is none.",
    fix="move the operation into a traced function, or use ordinary numbers and lists",
    bad=_model(W, "(matmul x w)") + "(defvar *table* (ones (list 2 2)))\n",
    good=_model(W, "(matmul x w)") + "(defun table () (ones (list 2 2)))\n",
)

_SCAN = """\
(defun prepare (batch) (field batch :x))
(require "sexpgpu/optim" :as optim)
(defloader train :source (inline (x (0.0 1.0) (1.0 2.0))) :batch 2)
(defmodel net ()
  (defparam w (2 2))
  (forward (x)
    (scan (lambda (h x) {body}) {init} (transpose x))))
(defun objective (model x) (mean (funcall model x)))
(defrun net :model (net) :optimizer (optim:sgd :lr 0.1) :steps 2)
"""


def _scan(init: str, body: str) -> str:
    """A run file that scans the columns of a batch of 2 by 2."""
    return _SCAN.format(init=init, body=body)


E_FLOW_004 = code(
    "E-FLOW-004",
    title="a carry that changes its type",
    explain="The body of scan is one graph for all iterations, so the carry that it gives has the "
    "form, shapes and dtypes of the carry that it takes. The message names both and where each was "
    "made.",
    fix="begin with an init of the type that the function gives, or cast or reshape what it gives",
    bad=_scan("(zeros (list 1))", "(tanh (+ h (matmul x w)))"),
    good=_scan("(zeros (list 2))", "(tanh (+ h (matmul x w)))"),
)
E_FLOW_005 = code(
    "E-FLOW-005",
    title="something noted inside the body of scan",
    explain="A metric, a loss term, a counter, a buffer's or a state's new value belongs to the "
    "graph of the step; in the body of a scan there is one for each iteration.",
    fix="return it from the body as y, and note it after the scan",
    bad=_scan("(zeros (list 2))", "(progn (metric :h (mean h)) (tanh (+ (matmul h w) x)))"),
    good=_scan("(zeros (list 2))", "(values (tanh (+ (matmul h w) x)) (mean h))"),
)
E_FLOW_006 = code(
    "E-FLOW-006",
    title="a body of something else than tensors",
    explain="What goes into and comes out of scan, recompute, grad and a function with its own "
    "derivative are tensors, or lists of tensors.",
    fix="pass and return tensors or lists of them; ordinary values can be captured",
    bad=_scan("(zeros (list 2))", "(values (tanh (+ (matmul h w) x)) :done)"),
    good=_scan("(zeros (list 2))", "(values (tanh (+ (matmul h w) x)) h)"),
)

# -- shapes (SHAPE) -----------------------------------------------------------------------------

E_SHAPE_001 = code(
    "E-SHAPE-001",
    title="shapes that must agree differ",
    explain="Operands are aligned at their last axis; along each axis the extents must be equal or "
    "one of them 1. The message names both shapes and the axis.",
    fix="reshape, broadcast-to or expand-dims one of the two, or mend the extent that differs",
    bad=_model("(defparam b (3))", "(+ x b)"),
    good=_model("(defparam b (2))", "(+ x b)"),
)
E_SHAPE_002 = code(
    "E-SHAPE-002",
    title="inner dimensions of a product differ",
    explain="A matrix product sums over an axis of both operands: the extents must be equal.",
    fix="make the contracted axes of equal extent, or transpose one operand",
    bad=_model("(defparam w (3 2))", "(matmul x w)"),
    good=_model("(defparam w (2 3))", "(matmul x w)"),
)
E_SHAPE_003 = code(
    "E-SHAPE-003",
    title="an axis out of range, or named twice",
    explain="An axis of a tensor of rank r is an integer from 0 to r-1, or from -r to -1 counted "
    "from the end; no axis may be named twice.",
    fix="name an axis that the tensor has",
    bad=_model(W, "(sum (matmul x w) :axis 2)"),
    good=_model(W, "(sum (matmul x w) :axis 1)"),
)
E_SHAPE_004 = code(
    "E-SHAPE-004",
    title="a reshape that changes the number of elements",
    explain="Reshaping keeps the elements and their order, so both shapes hold equally many.",
    fix="give a shape of the same number of elements; one extent may be -1",
    bad=_model(W, "(reshape (matmul x w) (list 2 2))"),
    good=_model(W, "(reshape (matmul x w) (list 3 2))"),
)
E_SHAPE_005 = code(
    "E-SHAPE-005",
    title="a tensor of the wrong rank",
    explain="The operation wants a tensor of another number of axes.",
    fix="add an axis with expand-dims, or remove one with squeeze or reshape",
    bad=_model(W, "(conv (matmul x w) (ones (list 1 3 2)))"),
    good=_model(W, "(conv (reshape (matmul x w) (list 1 2 3)) (ones (list 1 3 2)))"),
)
E_SHAPE_006 = code(
    "E-SHAPE-006",
    title="a range, window or padding that does not fit the axis",
    explain="A slice must lie within its axis, a window must fit the padded input, and a padding "
    "may not remove more than there is.",
    fix="keep the range within the extent that the message names",
    bad=_model(W, "(max-pool (reshape (matmul x w) (list 1 2 3)) 3)"),
    good=_model(W, "(max-pool (reshape (matmul x w) (list 1 2 3)) 2)"),
)
E_SHAPE_007 = code(
    "E-SHAPE-007",
    title="a reduction of no elements",
    explain="max, min, mean, argmax and argmin of zero elements have no value.",
    fix="reduce an axis that has elements",
    bad=_model(W, "(amax (at (matmul x w) :all (slice 0 0)) :axis 1)"),
    good=_model(W, "(amax (at (matmul x w) :all (slice 0 1)) :axis 1)"),
)
E_SHAPE_008 = code(
    "E-SHAPE-008",
    title="a shape that is not a list of sizes",
    explain="A shape is a list of non-negative integers, and a tensor has at most 2^40 elements.",
    fix="give non-negative integers, and fewer elements",
    bad=_model(W, "(broadcast-to (mean (matmul x w)) (list 2 -3))"),
    good=_model(W, "(broadcast-to (mean (matmul x w)) (list 2 3))"),
)

W_SHAPE_001 = code(
    "W-SHAPE-001",
    title="examples lined up with another axis",
    explain="Broadcasting lines shapes up at the last axis. So of B numbers, one a record, and a "
    "[B, 1] (as a layer with one unit gives it) it makes [B, B]: every record against every other. "
    "The mean of that is a number, and training goes on with it, but it is not the loss that was "
    "meant. Pairs that are meant are written with an axis put in, as [1, B] and [B, 1].",
    fix="give both one shape: expand-dims one, or squeeze the other",
    bad=_model("(defparam w (2 1))", "(- (matmul x w) (sum x :axis 1))"),
    good=_model("(defparam w (2 1))", "(- (matmul x w) (sum x :axis 1 :keep t))"),
)
E_SHAPE_009 = code(
    "E-SHAPE-009",
    title="a matrix that is not square",
    explain="Determinants, inverses, solutions, eigenvalues and Cholesky factors are of square "
    "matrices: the last two axes have one extent.",
    fix="make it square; least squares of a tall matrix are (solve (matmul (transpose a) a) …), "
    "and svd and qr take any",
    bad=_model(W, "(* (matmul x w) (det w))"),
    good=_model(W, "(* (matmul x w) (det (matmul w (transpose w))))"),
)

# -- dtypes (DTYPE) -----------------------------------------------------------------------------

E_DTYPE_001 = code(
    "E-DTYPE-001",
    title="a dtype that the operation does not take",
    explain="Each operation lists the dtypes of its operands: docs/ir.md has the table.",
    fix="cast the tensor to a dtype that the operation takes",
    bad=_model("(defparam w (2))", "(* w (logand x x))"),
    good=_model("(defparam w (2))", "(* w (cast (logand (cast x :i32) 1) :f32))"),
)
E_DTYPE_002 = code(
    "E-DTYPE-002",
    title="two dtypes that do not combine",
    explain="Floats promote to the wider float and integers to the wider integer. bf16 with f16, "
    "an integer with a float, and a bool with a number need a cast that says what is meant.",
    fix="cast one of the two",
    bad=_model("(defparam w (2))", "(+ (* x w) (cast x :i32))"),
    good=_model("(defparam w (2))", "(+ (* x w) (cast (cast x :i32) :f32))"),
)
E_DTYPE_003 = code(
    "E-DTYPE-003",
    title="a number that its dtype cannot hold",
    explain="An integer must lie within the range of the integer dtype it takes.",
    fix="use a wider dtype or a smaller number",
    bad=_model(W, "(* (matmul x w) (cast (full (list 2 3) 300 :dtype :u8) :f32))"),
    good=_model(W, "(* (matmul x w) (cast (full (list 2 3) 255 :dtype :u8) :f32))"),
)
E_DTYPE_004 = code(
    "E-DTYPE-004",
    title="no such dtype",
    explain="The dtypes are f32 bf16 f16 f64 i8 i16 i32 i64 u8 u16 u32 u64 bool.",
    fix="use one of these",
    bad=_model(W, "(cast (matmul x w) :f8)"),
    good=_model(W, "(cast (matmul x w) :f16)"),
)

# -- operations (OP) ----------------------------------------------------------------------------

E_OP_001 = code(
    "E-OP-001",
    title="an attribute with a value it cannot have",
    explain="The message says what the operation wants there.",
    fix="give a value of the kind that the message names",
    bad=_model(W, "(conv (reshape (matmul x w) (list 1 2 3)) (ones (list 1 3 2)) :groups 2)"),
    good=_model(W, "(conv (reshape (matmul x w) (list 1 2 3)) (ones (list 1 1 3)) :groups 3)"),
)
E_OP_002 = code(
    "E-OP-002",
    title="too few or too many operands",
    explain="An operation of the IR takes a fixed number of tensors.",
    fix="give the number of tensors that the message names",
)
E_OP_003 = code(
    "E-OP-003",
    title="an attribute missing, or one that the operation does not have",
    explain="A node of the IR carries each attribute of its operation, and no other.",
    fix="give the attributes that the message lists",
)
E_OP_004 = code(
    "E-OP-004",
    title="no such operation",
    explain="The IR knows a fixed set of operations: docs/ir.md lists them.",
    fix="use an operation of that list",
)

E_OP_005 = code(
    "E-OP-005",
    title="a body that does not fit its operation",
    explain="An operation of the IR that runs a graph, its body, gives it one operand for each "
    "input; a scan's body takes and gives carries of the same types.",
    fix="a document that has this was damaged or edited: write it anew from its run file",
)
W_OP_001 = code(
    "W-OP-001",
    title="max or min of one tensor",
    explain="max and min compare their arguments, element by element, as in Common Lisp. Of one "
    "tensor they are that tensor. In array libraries such a call reduces: that is amax and amin.",
    fix="write (amax x) or (amin x), with :axis for the greatest along an axis",
    bad=_model(W, "(matmul (/ x (max x)) w)"),
    good=_model(W, "(matmul (/ x (amax x)) w)"),
)

# -- gradients (GRAD) ---------------------------------------------------------------------------

E_GRAD_001 = code(
    "E-GRAD-001",
    title="an operation whose derivative is not known",
    explain="A gradient was asked for through an operation that has none here, though one exists "
    "in mathematics. Giving zero would be wrong, so it is refused.",
    fix="cut the gradient with stop-gradient, or write the operation another way",
    bad=_model("(defparam w (2))", "(digamma (+ x (* w w) 1))"),
    good=_model("(defparam w (2))", "(lgamma (+ x (* w w) 1))"),
)
E_GRAD_002 = code(
    "E-GRAD-002",
    title="a gradient of something that is not a float scalar",
    explain="The function that grad differentiates must give one float number.",
    fix="reduce the value with mean or sum",
)
E_GRAD_003 = code(
    "E-GRAD-003",
    title="a gradient with respect to an integer or a bool",
    explain="Integers and bools carry no gradient.",
    fix="take the gradient with respect to a float tensor, or cast before grad",
)

_CUSTOM = """\
(require "sexpgpu/optim" :as optim)
(defloader train :source (inline (x (0.0 1.0) (1.0 2.0))) :batch 2)
(defun prepare (batch) (field batch :x))
(defmodel net ()
  (defparam w (2))
  (forward (x)
    (funcall (custom-vjp {forward} {backward}) {arguments})))
(defun objective (model x) (mean (funcall model x)))
(defrun net :model (net) :optimizer (optim:sgd :lr 0.1) :steps 2)
"""

_BACKWARD = "(lambda (kept dy) (values (* (second kept) dy) (sum (* (first kept) dy) :axis 0)))"

E_GRAD_004 = code(
    "E-GRAD-004",
    title="a function with its own derivative that uses more than its arguments",
    explain="The backward function of custom-vjp gives cotangents for the arguments alone. A "
    "parameter, or another tensor that needs a gradient, which the forward function uses without "
    "being given it would silently get none.",
    fix="make it an argument of the function, or cut its gradient with stop-gradient",
    bad=_CUSTOM.format(
        forward="(lambda (x) (values (* x w) x))",
        backward="(lambda (x dy) (* x dy))",
        arguments="x",
    ),
    good=_CUSTOM.format(
        forward="(lambda (x w) (values (* x w) (list x w)))",
        backward=_BACKWARD,
        arguments="x w",
    ),
)
E_GRAD_005 = code(
    "E-GRAD-005",
    title="cotangents that do not fit the arguments",
    explain="The backward function of custom-vjp gives one value for each argument of the forward "
    "function: a tensor of the argument's shape and dtype, a list alike for a list, or nil for no "
    "gradient.",
    fix="return (values ...), one cotangent for each argument, summed over what was broadcast",
    bad=_CUSTOM.format(
        forward="(lambda (x w) (values (* x w) (list x w)))",
        backward="(lambda (kept dy) (values (* (second kept) dy) (* (first kept) dy)))",
        arguments="x w",
    ),
    good=_CUSTOM.format(
        forward="(lambda (x w) (values (* x w) (list x w)))",
        backward=_BACKWARD,
        arguments="x w",
    ),
)

# -- precision (NUM) ----------------------------------------------------------------------------

E_NUM_001 = code(
    "E-NUM-001",
    title="no such precision",
    explain="with-numerics takes :compute (:f32 :bf16 :f16), :accumulate (:f32 :bf16 :f16 :f64) "
    "and :matmul (:highest :tf32); a run's :precision is :f32, :bf16 or :f16.",
    fix="use one of these",
    bad=_model(W, "(with-numerics (:compute :f8) (matmul x w))"),
    good=_model(W, "(with-numerics (:compute :bf16) (matmul x w))"),
)
E_NUM_002 = code(
    "E-NUM-002",
    title="two backends disagree",
    explain="crosscheck ran the same graphs on the same numbers, by NumPy and on a device, and the "
    "results differ by more than rounding does. The node named is the first whose result differs "
    "though its operands are the same.",
    fix="look at the node with `sexpgpu ir FILE --graph NAME`; if its op is wrong on the device, "
    "report it with the file",
)
W_NUM_001 = code(
    "W-NUM-001",
    title="probabilities where logits belong",
    explain="A cross-entropy, logsumexp or softmax takes the model's raw scores and does the "
    "softmax itself; a binary cross-entropy and softplus do the sigmoid. Of probabilities they "
    "make a nearly uniform distribution: the loss cannot come near 0, and its gradients are small.",
    fix="remove the softmax or sigmoid before it; take one only where probabilities are reported",
    bad=_model("(defparam w (2 2))", "(logsumexp (softmax (matmul x w)) :axis -1)"),
    good=_model("(defparam w (2 2))", "(logsumexp (matmul x w) :axis -1)"),
)

# -- the IR document (IR) -----------------------------------------------------------------------

E_IR_001 = code(
    "E-IR-001",
    title="the document is not JSON",
    explain="An IR document is one JSON object in UTF-8.",
    fix="write the document again with `sexpgpu ir`, or restore the file",
)
E_IR_002 = code(
    "E-IR-002",
    title="not an IR document of a version that is known here",
    explain="The document's format is sexpgpu-ir, and its version is written beside it.",
    fix="compile the run file again (a run directory keeps it under sources/), or use the version "
    "of sexpgpu that wrote the document",
)
E_IR_003 = code(
    "E-IR-003",
    title="a field missing, unknown or of the wrong kind",
    explain="Each part of the document has a fixed set of fields: docs/ir.md lists them.",
    fix="write the document again with `sexpgpu ir`, or mend the field that is named",
)
E_IR_004 = code(
    "E-IR-004",
    title="a reference to a value that is not defined before",
    explain="A node may use the graph's inputs and the results of the nodes before it.",
    fix="write the document again with `sexpgpu ir`, or mend the reference that is named",
)
E_IR_005 = code(
    "E-IR-005",
    title="a type that is not what its operation gives",
    explain="On reading, the shape, dtype and batch axis of every result are inferred again from "
    "the operands, and must be those that are written.",
    fix="write the document again with `sexpgpu ir`, or mend the type that is named",
)
E_IR_006 = code(
    "E-IR-006",
    title="the document is over a limit",
    explain="There are limits on the number of nodes, the size of a tensor and the depth of "
    "nesting, so that a damaged document cannot exhaust the machine.",
    fix="make the graph smaller",
)
E_IR_007 = code(
    "E-IR-007",
    title="a node that its operation refuses",
    explain="The operands or attributes of the node are not ones that its operation takes.",
    fix="write the document again with `sexpgpu ir`, or mend the node that is named",
)
E_IR_008 = code(
    "E-IR-008",
    title="two things of one name",
    explain="Inputs, outputs and values of a graph have names of their own.",
    fix="rename one of the two",
)
E_IR_009 = code(
    "E-IR-009",
    title="the text form of a graph does not read",
    explain="The text form is (graph NAME (inputs ...) (nodes ...) (outputs ...)): see docs/ir.md.",
    fix="mend the text at the place that is named",
)

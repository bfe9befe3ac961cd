"""Codes of data, evaluation passes and metrics: DATA EVAL METRIC."""

from __future__ import annotations

from sexpgpu.diagnostics.codes.run import GOOD, STAGED, VALID
from sexpgpu.diagnostics.model import code

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
    bad=STAGED.replace(VALID, "").replace(":loader valid", ":loader train"),
    good=STAGED,
)

# -- found while a run goes on, by the loop (numbers above 030); no single file shows them ------

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

# -- what traced functions note (METRIC) ---------------------------------------------------------

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

"""What other libraries have and this language has not, or has by another name or in another place:
tables of texts, and the rules that only look in them."""

from __future__ import annotations

import re

from sexpgpu.diagnostics.mistakes.mend import NAME, Mend, before, operator, replaced
from sexpgpu.diagnostics.model import Diagnostic
from sexpgpu.source import Span

_COMPILED = "leave it out: every graph is differentiated and compiled whole"
_PLACED = "leave it out: `sexpgpu run --device` says where a run computes"
_LIKE = "write ({} (shape x))"
_WHOLE_BATCH = "write the operation once: the examples of a batch are the first axis of its tensors"

ADVICE = {
    "no-grad": "cut the gradient where a value is used, (stop-gradient x), or of a whole model, "
    "(frozen model); evaluations have none",
    "requires-grad": "every defparam has a gradient, but for `:trainable nil` and groups that are "
    "`:frozen t`",
    "backward": "leave it out: the compiler differentiates what objective returns",
    "zero-grad": "leave it out: gradients are those of one step",
    "jit": _COMPILED, "pmap": _WHOLE_BATCH, "vmap": _WHOLE_BATCH,
    "cuda": _PLACED, "cpu": _PLACED, "to-device": _PLACED, "device-put": _PLACED,
    "zeros-like": _LIKE.format("zeros"), "ones-like": _LIKE.format("ones"),
    "full-like": "write (full (shape x) value)", "empty-like": _LIKE.format("zeros"),
    "randn-like": _LIKE.format("random-normal"), "rand-like": _LIKE.format("random-uniform"),
    "sequential": "write (stack a b …); a function stands there as #'relu",
    "module-list": "write (repeat n form), or (stack a b …)",
    "print-shape": "write (print (shape x))",
    "parameter": "a parameter is a clause of a model: (defparam name (64 32) :init …)",
    "register-buffer": "state that is not trained is a clause of a model: (defbuffer name (64))",
    "super": "leave it out: a defmodel has no parent",
}  # fmt: skip
"""Functions that other libraries have, and what to do here."""

TABLES = {
    "csv": ".csv", "read-csv": ".csv", "tsv": ".tsv", "jsonl": ".jsonl", "json": ".json",
    "parquet": ".parquet", "hdf5": ".h5", "pandas": ".csv",
}  # fmt: skip
"""Sources that are none of this release."""

CSV = (
    "tables are no source yet: write the columns to an .npz once (texts as numbers, in the order "
    "of the alphabet), in a shell:\n"
    'python -c \'import numpy as np; t = np.genfromtxt("{path}", delimiter="{between}", '
    'names=True, dtype=None, encoding="utf-8"); np.savez("{stem}.npz", **{{n.lower(): '
    '(np.unique(t[n], return_inverse=True)[1] if t[n].dtype.kind == "U" else t[n]).astype("f4" if '
    't[n].dtype.kind == "f" else "i4") for n in t.dtype.names}})\'\n'
    'and read that: (npz "{stem}.npz") has a field for each column'
)
TABLE = (
    "tables are no source yet: write the columns to an .npz once, in Python, with "
    'np.savez("{stem}.npz", name=array, …), and read that: (npz "{stem}.npz"); `sexpgpu docs data` '
    "has an example"
)


def table_source(found: Diagnostic, span: Span) -> Mend | None:
    """`(csv "iris.csv")`, or a table given to npz."""
    name = operator(span)[2].lower()
    path = re.search(r'"([^"\n]+)"', span.text)
    told = path[1] if path else f"data{TABLES.get(name, '.csv')}"
    stem, dot, ending = told.rpartition(".")
    ending = f".{ending.lower()}" if dot else TABLES.get(name, "")
    given = name == "npz" and ending in TABLES.values() and "not a readable" in found.headline
    if name not in TABLES and not given:
        return None
    stem = stem if dot else told
    if ending in (".csv", ".tsv"):
        between = "\\t" if ending == ".tsv" else ","
        return Mend(CSV.format(path=told, stem=stem, between=between))
    return Mend(TABLE.format(stem=stem))


def array_file(found: Diagnostic, span: Span) -> Mend | None:
    """`(npy "x.npy")`: one array without a name."""
    match = re.match(r'\(\s*(?:npy|npz)\s+"([^"]+)\.npy"', span.text)
    if match is None:
        return None
    stem = match[1]
    return Mend(
        f"an .npy file has no names; write it as a field once, in Python: "
        f'np.savez("{stem}.npz", x=np.load("{stem}.npy")), and read (npz "{stem}.npz")'
    )


def advised(found: Diagnostic, span: Span) -> Mend | None:
    told = ADVICE.get(operator(span)[2].lower().replace("_", "-"))
    return None if told is None else Mend(told)


def advised_name(found: Diagnostic, span: Span) -> Mend | None:
    """The name behind `(parameter …`, which is evaluated first and has no value."""
    match = before(span, rf"\(\s*({NAME})\s+")
    told = ADVICE.get(match[1].lower().replace("_", "-")) if match else None
    return None if told is None else Mend(told)


DTYPES = {
    "float32": "f32", "float": "f32", "single": "f32", "fp32": "f32", "float64": "f64",
    "double": "f64", "float16": "f16", "half": "f16", "fp16": "f16", "bfloat16": "bf16",
    "int": "i32", "int32": "i32", "long": "i64", "int64": "i64", "short": "i16", "int16": "i16",
    "int8": "i8", "byte": "u8", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "boolean": "bool",
}  # fmt: skip
"""What other libraries call the dtypes."""

OURS = frozenset(DTYPES.values()) | {"bool"}


def dtype_name(found: Diagnostic, span: Span) -> Mend | None:
    """A dtype, or a precision, by another library's name, quoted, as a text or bare."""
    match = re.search(
        rf"(?:no dtype|takes :f32.*, not|expected, not) ('?)(\"?:?{NAME}\"?)", found.headline
    )
    word = match[2].strip('":').lower() if match else ""
    ours = word if word in OURS else DTYPES.get(word)
    if ours is None or match is None:
        return None
    pattern = rf"['\":]?{re.escape(word)}\"?(?=[\s()]|$)"
    written = list(re.finditer(pattern, span.text, re.IGNORECASE))
    told = f"write :{ours}"
    if len(written) != 1:
        return Mend(told)
    start = span.start + written[0].start()
    end = span.start + written[0].end()
    return Mend(told, (start, end, f":{ours}"), safe=True)


def bare_dtype(found: Diagnostic, span: Span) -> Mend | None:
    """`(cast x f32)`: a dtype without its colon."""
    ours = span.text.lower() if span.text.lower() in OURS else DTYPES.get(span.text.lower())
    if ours is None:
        return None
    return Mend(f"a dtype is a keyword: write :{ours}", replaced(span, f":{ours}"), safe=True)


KEYS = {
    "defrun": {
        "lr": "the learning rate is the optimizer's: :optimizer (optim:adamw :lr …)",
        "learning-rate": "the learning rate is the optimizer's: :optimizer (optim:adamw :lr …)",
        "weight-decay": "weight decay is the optimizer's: :optimizer (optim:adamw :decay …)",
        "scheduler": "a schedule is the optimizer's :lr: (optim:adamw :lr (optim:cosine 1e-3 200))",
        "lr-scheduler": "a schedule is the optimizer's :lr: "
        "(optim:adamw :lr (optim:cosine 1e-3 200))",
        "loss": "the loss is what the function objective returns: "
        "(defun objective (model x y) …)",
        "criterion": "the loss is what the function objective returns: "
        "(defun objective (model x y) …)",
        "metrics": "metrics are noted where they are computed, with (metric :name value) in "
        "objective or evaluate",
        "callbacks": "there are none: see :checkpoint, :stop, :log-every and defeval",
        "data": "write :train NAME, the name of a defloader; without it, the one called train",
        "dataset": "write :train NAME, the name of a defloader; without it, the one called train",
        "loader": "write :train NAME, the name of a defloader; without it, the one called train",
        "train-loader": "write :train NAME, the name of a defloader; without it, the one called "
        "train",
        "batch": "the batch is the loader's: (defloader train :batch …)",
        "batch-size": "the batch is the loader's: (defloader train :batch …)",
        "shuffle": "the order is the loader's: (defloader train :shuffle t …)",
        "valid": "held-out data is a pass: (defeval valid :loader valid :every 100)",
        "validation": "held-out data is a pass: (defeval valid :loader valid :every 100)",
        "valid-loader": "held-out data is a pass: (defeval valid :loader valid :every 100)",
        "eval-every": "how often is the pass's: (defeval valid :loader valid :every 100)",
        "device": "a file names no device: sexpgpu run FILE --device cuda",
        "devices": "a file names no device: sexpgpu run FILE --device cuda",
        "early-stopping": "write :stop (:min :eval/valid/loss :patience 5)",
        "patience": "write :stop (:min :eval/valid/loss :patience 5)",
        "checkpoint-every": "write :checkpoint (:every 100)",
        "save-every": "write :checkpoint (:every 100)",
        "save-steps": "write :checkpoint (:every 100)",
        "accumulate": "write :microbatches n, the parts of a batch",
        "accumulation-steps": "write :microbatches n, the parts of a batch",
        "gradient-accumulation-steps": "write :microbatches n, the parts of a batch",
        "accumulate-grad-batches": "write :microbatches n, the parts of a batch",
        "grad-clip": "write :clip-norm", "clip-grad": "write :clip-norm",
        "gradient-clip": "write :clip-norm", "clip-grad-norm": "write :clip-norm",
        "max-grad-norm": "write :clip-norm", "gradient-clip-val": "write :clip-norm",
        "max-steps": "write :steps", "num-steps": "write :steps", "iterations": "write :steps",
        "max-epochs": "write :epochs", "num-epochs": "write :epochs",
        "dtype": "write :precision", "amp": "write :precision :bf16",
        "mixed-precision": "write :precision :bf16",
        "log-interval": "write :log-every", "logging-steps": "write :log-every",
    },
    "defloader": {
        "path": 'a file is a source: :source (npz "data.npz")',
        "file": 'a file is a source: :source (npz "data.npz")',
        "data": 'a file is a source: :source (npz "data.npz")',
        "dataset": 'a file is a source: :source (npz "data.npz")',
        "transform": "write it in the function prepare",
        "num-workers": "leave it out: reading runs ahead by itself",
        "workers": "leave it out: reading runs ahead by itself",
        "pin-memory": "leave it out: reading runs ahead by itself",
        "seed": "the seed is the run's: (defrun … :seed 1)",
        "epochs": "how long is the run's: (defrun … :epochs 10)",
    },
    "defeval": {
        "metrics": "metrics are noted where they are computed, with (metric :name value) in "
        "evaluate",
        "data": "write :loader", "dataset": "write :loader", "train": "write :loader",
        "batch": "the batch is the loader's: (defloader valid :batch …)",
        "batch-size": "the batch is the loader's: (defloader valid :batch …)",
        "steps": "write :batches n for the first n batches, :every n for how often",
    },
}  # fmt: skip
"""Keys that other libraries have where a def-form has none, and what stands for them here."""


def key_elsewhere(found: Diagnostic, span: Span) -> Mend | None:
    match = re.match(r"(\S+) .*has no key :(\S+)$", found.headline)
    told = KEYS.get(match[1], {}).get(match[2].replace("_", "-")) if match else None
    if told is None:
        return None
    plain = re.fullmatch(r"write (:\S+)", told)
    return Mend(told, replaced(span, plain[1])) if plain else Mend(told)

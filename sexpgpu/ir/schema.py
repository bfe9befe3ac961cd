"""The form of a document's records: which kind of JSON value each field holds.

A kind is a word, or a list of one kind, or a tuple ("optional", kind), or a record class. Used when
a document is read; `docs/ir.md` shows the same table.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.ir import document as ir

STRING, INT, COUNT, BOOL, FLOAT, DATA, SHAPE = (
    "string", "integer", "count", "boolean", "number", "data", "shape",
)  # fmt: skip


def optional(kind: Any) -> tuple[str, Any]:
    """null, or a value of the kind."""
    return ("optional", kind)


RECORDS: dict[type[ir.Record], dict[str, Any]] = {
    ir.Field: {
        "name": STRING, "dtype": "dtype", "shape": SHAPE, "range": optional("pair"),
    },
    ir.Stage: {
        "name": STRING, "source": DATA, "base": STRING, "fields": [ir.Field], "batch": COUNT,
        "shuffle": BOOL, "drop_last": BOOL, "microbatches": optional(COUNT),
        "records": optional(INT), "streams": BOOL,
    },
    ir.Loader: {"name": STRING, "stages": [ir.Stage]},
    ir.Parameter: {
        "path": STRING, "aliases": [STRING], "shape": SHAPE, "dtype": "dtype", "init": STRING,
        "trainable": BOOL, "tags": [STRING], "group": optional(STRING),
    },
    ir.Buffer: {
        "path": STRING, "shape": SHAPE, "dtype": "dtype", "init": STRING, "per": optional("per"),
    },
    ir.State: {"name": STRING, "shape": SHAPE, "dtype": "dtype", "init": STRING},
    ir.Update: {
        "average": optional(STRING), "graph": STRING, "group": STRING, "states": [ir.State],
        "sums": [STRING],
    },
    ir.Group: {
        "name": STRING, "optimizer": STRING, "hyper": optional(STRING), "constants": DATA,
        "schedules": [STRING], "frozen": BOOL, "every": COUNT, "clip_norm": optional(FLOAT),
    },
    ir.Evaluation: {
        "name": STRING, "loader": STRING, "every": optional(COUNT), "batches": optional(COUNT),
        "at_start": BOOL, "at_end": BOOL, "graph": STRING, "rest": optional(STRING),
        "rest_batch": INT, "weights": "weights",
    },
    ir.Curriculum: {"graph": STRING, "states": [ir.State]},
    ir.Metric: {"finish": optional(STRING), "name": STRING, "reduce": "reduction"},
    ir.Checkpointing: {
        "every": optional(COUNT), "keep": optional(COUNT), "keep_every": optional(COUNT),
        "best": optional("pair of strings"),
    },
    ir.Rename: {"source": STRING, "target": optional(STRING), "transpose": BOOL},
    ir.InitFrom: {
        "path": STRING, "base": STRING, "map": [ir.Rename], "missing": [STRING], "extra": [STRING],
    },
    ir.Stop: {"best": "pair of strings", "patience": COUNT},
    ir.Diagnostics: {"every": COUNT, "select": [STRING]},
    ir.Run: {
        "name": STRING, "train": STRING, "steps": optional(COUNT), "epochs": optional(COUNT),
        "microbatches": COUNT, "precision": "precision", "seed": INT,
        "clip_norm": optional(FLOAT), "evaluations": [STRING], "checkpoint": ir.Checkpointing,
        "log_every": COUNT, "finite": "finite", "steps_per_dispatch": "dispatch",
        "init_from": optional(ir.InitFrom), "stop": optional(ir.Stop),
        "diagnostics": optional(ir.Diagnostics), "remat": "remat",
    },
}  # fmt: skip

CHOICES = {
    "reduction": ("mean", "sum", "max", "min", "last", "rms"),
    "precision": ("f32", "bf16", "f16"),
    "finite": ("abort", "skip", "ignore"),
    "remat": ("none", "blocks", "full"),
    "weights": ("averaged", "raw"),
    "per": ("example",),
}

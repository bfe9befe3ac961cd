"""The IR document: everything a run needs, as checked data. Knows neither Lisp, ops nor backends.

Graphs are `Graph` objects; every other part is plain JSON data in records with fixed fields.
`ir/serial.py` turns a document into canonical JSON and back; `ir/verify.py` checks one.
"""

from __future__ import annotations

from typing import Any, Self

from sexpgpu.ir.graph import Graph
from sexpgpu.source import Source

FORMAT = "sexpgpu-ir"
VERSION = 2

LOSS_SCALE = "scale/loss"
"""The input of a training graph under :f16 that its gradients are multiplied by."""


CURRICULUM = "curriculum"
"""The name of the curriculum's graph, and what its states and metrics are called after."""


DIAGNOSTICS = "/diagnostics"
"""What the name of a graph ends in that does as the one before it, and takes diagnostics."""


def is_diagnostic(graph: str) -> bool:
    """Whether a graph of this name is there for diagnostics alone (and not that of a stage or pass
    of this name)."""
    return graph.endswith(DIAGNOSTICS) and graph.count("/") > 1


class Record:
    """A record with the fields of its `__slots__`, all given by keyword, comparable, to JSON."""

    __slots__ = ()

    def __init__(self, **fields: Any) -> None:
        for name in self.__slots__:
            setattr(self, name, fields.pop(name))
        if fields:
            raise TypeError(f"{type(self).__name__} has no field {next(iter(fields))}")

    def to_json(self) -> dict[str, Any]:
        return {name: _plain(getattr(self, name)) for name in self.__slots__}

    def changed(self, **fields: Any) -> Self:
        """The record with some fields in place of its own."""
        return type(self)(**{name: getattr(self, name) for name in self.__slots__} | fields)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            getattr(self, n) == getattr(other, n) for n in self.__slots__
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_json()!r})"


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_json()
    if isinstance(value, list | tuple):
        items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
        return [_plain(v) for v in items]
    if isinstance(value, dict):
        table: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
        return {k: _plain(v) for k, v in table.items()}
    return value


class Field(Record):
    """A loader's field: `shape` without the batch axis; `range` [lo, hi] inclusive or None."""

    __slots__ = ("dtype", "name", "range", "shape")
    name: str
    dtype: str
    shape: tuple[int, ...]
    range: tuple[float, float] | None


STREAM_START = "stream-start"
"""The field of a stage of streams, bool, that is true in the first batch of each of them."""


class Stage(Record):
    """One stage of a loader.

    source   {"kind": "npz" | "text" | "inline" | "synthetic", ...}: see docs/data.md
    base     the folder that relative paths start from
    fields   list of Field;  batch: records a batch;  microbatches: None = defrun's
    streams  row i of a batch goes on where row i of the one before ended (`ir.STREAM_START`)
    """

    __slots__ = (
        "base", "batch", "drop_last", "fields", "microbatches", "name", "records", "shuffle",
        "source", "streams",
    )  # fmt: skip
    name: str
    source: dict[str, Any]
    base: str
    fields: list[Field]
    batch: int
    shuffle: bool
    drop_last: bool
    microbatches: int | None
    records: int | None  # counted at compile time, or None
    streams: bool


class Loader(Record):
    __slots__ = ("name", "stages")
    name: str
    stages: list[Stage]


class Parameter(Record):
    """A parameter. `init` names a graph `init/ID`; its key is made of the seed and `path`."""

    __slots__ = ("aliases", "dtype", "group", "init", "path", "shape", "tags", "trainable")
    path: str
    aliases: list[str]
    shape: tuple[int, ...]
    dtype: str
    init: str
    trainable: bool
    tags: list[str]
    group: str | None  # optimizer group; None when frozen


class Buffer(Record):
    """State that is not trained. `per` "example": it has a row of that shape, and that initial
    value, for each example of the batch."""

    __slots__ = ("dtype", "init", "path", "per", "shape")
    per: str | None
    path: str
    shape: tuple[int, ...]
    dtype: str
    init: str


class State(Record):
    """A state of an optimizer for one parameter; `init` names a graph `init/ID`."""

    __slots__ = ("dtype", "init", "name", "shape")
    name: str
    shape: tuple[int, ...]
    dtype: str
    init: str


class Update(Record):
    """How one parameter is updated: graph `update/ID`, its states, its group.

    average  names a graph `average/ID` of `p` and `state/…` that gives, as `p`, the parameter that
             evaluations use; None: the parameter itself
    sums     graphs `sum/ID`, one for each `global/K` that the update reads: their `part`, summed
             over the group's parameters, is its value
    """

    __slots__ = ("average", "graph", "group", "states", "sums")
    average: str | None
    graph: str
    group: str
    states: list[State]
    sums: list[str]


class Group(Record):
    """An optimizer group. `hyper` names the graph `hyper/GROUP` whose outputs are the
    hyperparameters; `constants` are the numbers that are no schedules (shown by explain)."""

    __slots__ = (
        "clip_norm",
        "constants",
        "every",
        "frozen",
        "hyper",
        "name",
        "optimizer",
        "schedules",
    )
    name: str
    optimizer: str
    hyper: str | None
    constants: dict[str, Any]
    schedules: list[str]
    frozen: bool
    every: int
    clip_norm: float | None


class Evaluation(Record):
    """An evaluation pass. `graph` takes whole batches, `rest` the remainder (None: there is none,
    or the count is not known before the run); `rest_batch` is the remainder's extent; `weights`
    says whether it sees the averaged parameters, where the optimizer keeps them, or the raw."""

    __slots__ = (
        "at_end", "at_start", "batches", "every", "graph", "loader", "name", "rest", "rest_batch",
        "weights",
    )  # fmt: skip
    name: str
    loader: str
    every: int | None
    batches: int | None
    at_start: bool
    at_end: bool
    graph: str
    rest: str | None
    rest_batch: int
    weights: str  # "averaged" | "raw"


class Curriculum(Record):
    """What decides, after each round of evaluations, in which stage training goes on. `graph` takes
    `ctx/KEY`, `state/NAME` and `statistic/…`, and gives `stage` (an i32, the stage's index), the
    states' new values, and its metrics."""

    __slots__ = ("graph", "states")
    graph: str
    states: list[State]


class Metric(Record):
    """How a graph's metric is reduced: mean sum max min last rms; `finish` names a graph
    `finish/ID` that takes the reduced `value` to the reported one (None: it is reported as is)."""

    __slots__ = ("finish", "name", "reduce")
    finish: str | None
    name: str
    reduce: str


class Checkpointing(Record):
    """every n steps (None: only the last), keep the newest n, and every n-th for good."""

    __slots__ = ("best", "every", "keep", "keep_every")
    every: int | None
    keep: int | None
    keep_every: int | None
    best: tuple[str, str] | None  # ("min" | "max", series)


class Rename(Record):
    """An entry of `:init-from :map`: what a name that matches `source` is called here (None: it is
    left out). `*` stands for a part of a name without `/` and `.`, `**` for any; each in `target`
    is what the one in `source` stood for. `transpose` reverses the axes."""

    __slots__ = ("source", "target", "transpose")
    source: str
    target: str | None
    transpose: bool


class InitFrom(Record):
    """Where the values of step 0 come from: a run, a checkpoint, or a file of weights; relative
    paths start from `base`. `missing` and `extra` are globs of what may lack here and there."""

    __slots__ = ("base", "extra", "map", "missing", "path")
    path: str
    base: str
    map: list[Rename]
    missing: list[str]
    extra: list[str]


class Stop(Record):
    """The run ends when `series` has not reached a new `best` ("min" or "max", series) for
    `patience` evaluations in a row."""

    __slots__ = ("best", "patience")
    best: tuple[str, str]
    patience: int


class Diagnostics(Record):
    """Which diagnostics are taken (globs of their names), and at which steps: each `every`-th."""

    __slots__ = ("every", "select")
    every: int
    select: list[str]


class Run(Record):
    """What defrun says. Exactly one of `steps` and `epochs` is given."""

    __slots__ = (
        "checkpoint", "clip_norm", "diagnostics", "epochs", "evaluations", "finite", "init_from",
        "log_every", "microbatches", "name", "precision", "remat", "seed", "steps",
        "steps_per_dispatch", "stop", "train",
    )  # fmt: skip
    name: str
    train: str
    steps: int | None
    epochs: int | None
    microbatches: int
    precision: str
    remat: str  # what the backward pass computes again: "none" | "blocks" | "full"
    seed: int
    clip_norm: float | None
    evaluations: list[str]
    checkpoint: Checkpointing
    log_every: int
    finite: str
    steps_per_dispatch: int | str
    init_from: InitFrom | None
    stop: Stop | None
    diagnostics: Diagnostics | None

    def microbatches_in(self, stage: Stage) -> int:
        """Into how many parts a batch of the stage is split: its own number, else the run's."""
        return stage.microbatches or self.microbatches


class Document:
    """Everything. `metrics` is keyed by graph name; `terms` are the loss terms of each train graph;
    `static_weights` tells for which train graphs all weights are known at compile time."""

    __slots__ = (
        "buffers", "counters", "curriculum", "evaluations", "graphs", "groups", "loaders",
        "manifest", "metrics", "parameters", "run", "sources", "terms", "updates",
    )  # fmt: skip

    def __init__(
        self,
        *,
        manifest: dict[str, Any],
        sources: list[Source],
        run: Run,
        loaders: list[Loader],
        parameters: list[Parameter],
        buffers: list[Buffer],
        groups: list[Group],
        updates: dict[str, Update],
        graphs: dict[str, Graph],
        evaluations: list[Evaluation],
        metrics: dict[str, list[Metric]],
        terms: dict[str, list[str]],
        counters: list[str],
        curriculum: Curriculum | None = None,
    ) -> None:
        self.manifest = manifest
        self.sources = sources
        self.run = run
        self.loaders = loaders
        self.parameters = parameters
        self.buffers = buffers
        self.groups = groups
        self.updates = updates
        self.graphs = graphs
        self.evaluations = evaluations
        self.metrics = metrics
        self.terms = terms
        self.counters = counters
        self.curriculum = curriculum

    def changed(self, **parts: Any) -> Document:
        """The document with some parts in place of its own."""
        return Document(**{name: getattr(self, name) for name in self.__slots__} | parts)

    def loader(self, name: str) -> Loader:
        return next(loader for loader in self.loaders if loader.name == name)

    def group(self, name: str) -> Group:
        return next(group for group in self.groups if group.name == name)

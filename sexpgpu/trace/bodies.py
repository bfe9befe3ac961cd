"""Tracing a Lisp function into the body of an op: a graph that takes what it uses as inputs.

Tensors, parameters and inputs of the graph around it are captured: each becomes one more input of
the body, and an operand of the op.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sexpgpu.ir.graph import Graph, Value
from sexpgpu.ir.types import TensorType
from sexpgpu.lisp.builtins.designators import walked
from sexpgpu.lisp.calls import call_values, values_list
from sexpgpu.lisp.values import NIL, Cons, Function, lisp_list
from sexpgpu.trace.context import Metric, Term, Trace, tracing
from sexpgpu.trace.tensor import Tensor, TensorSource, is_tensor

KEY_INPUT = "rng/key"


class BodyTrace(Trace):
    """The body of an op that is being traced inside another graph.

    op          the Lisp function that traces it, for messages
    parent      the graph around it
    captured    value of the parent -> the body's input for it, in order of first use
    iteration   makes the number of the iteration (u32 scalar) when a draw asks for it; None where
                the body runs once
    """

    __slots__ = ("_key", "captured", "captured_late", "iteration", "op", "parent")

    def __init__(self, op: str, parent: Trace, repeats: bool) -> None:
        super().__init__(
            op,
            parent.domain,
            batch=parent.batch,
            training=parent.training,
            stage=parent.stage,
            context=parent.context,
            prefix=parent.prefix,
        )
        self.op = op
        self.parent = parent
        self.captured: dict[Value, Value] = {}
        self.captured_late: set[Value] = set()  # what only diagnostics have read so far
        self.iteration: Value | None = Value(TensorType((), "u32")) if repeats else None
        self._key: Value | None = None
        self.frames = parent.frames
        self.bindings = parent.bindings
        self.path = parent.path
        self.context_used = parent.context_used
        self.draws = parent.draws
        self.node_limit = parent.node_limit
        self.examples_in_turn = parent.examples_in_turn
        self.repeats = repeats or parent.repeats
        self.remat = parent.remat
        self.select = parent.select
        self.builder.numerics = parent.builder.numerics
        self.builder.origin = parent.builder.origin

    @property
    def root(self) -> Trace:
        return self.parent.root

    @property
    def draws_by_iteration(self) -> bool:
        """Whether the body needs the number of the iteration."""
        return self._key is not None and self.iteration is not None

    def capture(self, value: Value) -> Value:
        """The body's input for a value of the parent."""
        found = self.captured.get(value)
        if found is None:
            found = self.captured[value] = Value(value.type)
        elif value in self.captured_late:  # its place is where it would be without them
            self.captured_late.discard(value)
            self.captured[value] = self.captured.pop(value)
        return found

    @contextmanager
    def apart(self) -> Generator[None]:
        captured = set(self.captured)
        try:
            with super().apart(), self.parent.apart():
                yield
        finally:
            self.captured_late |= self.captured.keys() - captured

    def input(self, name: str, type: TensorType) -> Value:
        captured = self.capture(self.parent.input(name, type))
        if name != KEY_INPUT or self.iteration is None:
            return captured
        if self._key is None:
            self._key = self.emit("random-fold", captured, self.iteration)
        return self._key

    def unbound(self, source: TensorSource) -> Tensor:
        found = self.written_tensor(source) or self.sources.get(source)
        if found is None:
            around = self.parent.unbound(source)
            value = self.capture(around.value)
            found = self.sources[source] = Tensor(value, self, around.origin)
        return found

    def adopt(self, tensor: Tensor) -> Tensor | None:
        around = tensor
        if tensor.trace is not self.parent:
            found = self.parent.adopt(tensor)
            if found is None:
                return None
            around = found
        return Tensor(self.capture(around.value), self, tensor.origin)

    def call(self, function: Function, arguments: Sequence[Any]) -> list[Any]:
        """All the values of a call while the body is traced."""
        with tracing(self):
            return values_list(call_values(function, *arguments))

    def body(self, inputs: Mapping[str, Value], outputs: Mapping[str, Value]) -> Graph:
        """The graph: these inputs, then what was captured."""
        captured = {f"outer/{at}": v for at, v in enumerate(self.captured.values())}
        return self.graph({**inputs, **captured}, outputs)

    def graph(self, inputs: Mapping[str, Value], outputs: Mapping[str, Value]) -> Graph:
        """The graph with just these inputs."""
        return Graph(self.name, inputs, self.builder.nodes, outputs)

    # ------------------------------------------------------------------ what a body notes

    def written_tensor(self, source: TensorSource) -> Tensor | None:
        """A buffer that got a new value in this body."""
        path = getattr(source, "path", None)
        return self.buffers.get(path) if path in self.written else None

    def counted(self, name: str) -> Value | None:
        found = self.counters.get(name)
        if found is None:
            around = self.parent.counted(name)
            found = None if around is None else self.capture(around)
        return found

    def noted(self, name: str) -> Metric | Term | None:
        return super().noted(name) or self.parent.noted(name)

    def is_watched(self, name: str) -> bool:
        return super().is_watched(name) or self.parent.is_watched(name)

    def noted_values(self) -> list[Value]:
        """What the body noted: values of metrics, terms, counters, buffers and (of a body that runs
        once) diagnostics, each once."""
        found: dict[Value, None] = {}
        for metric in self.metrics.values():
            found.update({metric.value: None, metric.weight: None})
        for term in self.terms.values():
            found.update({term.mean: None, term.weight: None})
        found.update(dict.fromkeys(self.counters.values()))
        found.update({self.buffers[path].value: None for path in self.written})
        if not self.repeats:
            found.update({value: None for value, _ in self.watched.values() if value is not None})
        return list(found)

    def hand_on(self, outer: Mapping[Value, Value]) -> None:
        """Note on the graph around the body what the body noted, given its values there."""
        parent = self.parent
        for m in self.metrics.values():
            parent.metrics[m.name] = Metric(
                m.name, m.reduce, outer[m.value], outer[m.weight], m.finish, m.origin
            )
        for t in self.terms.values():
            parent.terms[t.name] = Term(t.name, outer[t.mean], outer[t.weight], t.origin)
        for name, value in self.counters.items():
            parent.counters[name] = outer[value]
        for path, origin in self.written.items():
            new = outer[self.buffers[path].value]
            parent.buffers[path] = Tensor(new, parent, origin)
            parent.written[path] = origin
        if not self.repeats:
            for name, (value, reducers) in self.watched.items():
                parent.watched[name] = (None if value is None else outer[value], reducers)
                parent.watched_at[name] = self.watched_at[name]


class Marks:
    """How far the names of draws have come: tracing a body again begins there once more."""

    __slots__ = ("_draws", "_frames")

    def __init__(self, trace: Trace) -> None:
        self._draws = len(trace.draws)
        self._frames = [(frame, dict(frame.draws), dict(frame.calls)) for frame in trace.frames]

    def restore(self, trace: Trace) -> None:
        del trace.draws[self._draws :]
        for frame, draws, calls in self._frames:
            frame.draws, frame.calls = dict(draws), dict(calls)


# ---------------------------------------------------------------------------- structures


def leaves_of(value: Any) -> list[Any]:
    """What is in nested lists, in order; a value that is no list is its only leaf."""
    if value is NIL:
        return []
    if not isinstance(value, Cons):
        return [value]
    leaves: list[Any] = []
    count = 0
    at: Any = value
    while isinstance(at, Cons):
        leaves += leaves_of(at.car)
        at = at.cdr
        count += 1
        if count & 1023 == 0:
            walked(at, count)
    if at is not NIL:
        leaves.append(at)
    return leaves


def like(value: Any, leaves: Sequence[Any]) -> Any:
    """Nested lists of the same form with other leaves."""
    return _like(value, iter(leaves))


def _like(value: Any, leaves: Any) -> Any:
    if value is NIL:
        return NIL
    if not isinstance(value, Cons):
        return next(leaves)
    items: list[Any] = []
    at: Any = value
    while isinstance(at, Cons):
        items.append(_like(at.car, leaves))
        at = at.cdr
    return lisp_list(items)


def form_of(value: Any) -> str:
    """The form of nested lists for a message: `(f32 (2), f32 (3))`."""
    if value is NIL:
        return "nil"
    if isinstance(value, Cons):
        items: list[str] = []
        at: Any = value
        while isinstance(at, Cons):
            items.append(form_of(at.car))
            at = at.cdr
        return f"a list of {len(items)} ({', '.join(items)})"
    if isinstance(value, Tensor):
        return str(value.type)
    return "a tensor" if is_tensor(value) else "a number"


def same_form(a: Any, b: Any) -> bool:
    """Whether two values are lists nested alike."""
    while isinstance(a, Cons) and isinstance(b, Cons):
        if not same_form(a.car, b.car):
            return False
        a, b = a.cdr, b.cdr
    return (a is NIL) == (b is NIL) and isinstance(a, Cons) == isinstance(b, Cons)

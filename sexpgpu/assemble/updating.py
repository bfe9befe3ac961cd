"""The optimizer's part of a document: groups, update graphs, schedules, clipping."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sexpgpu.assemble.context import STEP
from sexpgpu.assemble.doubts import rate_doubts
from sexpgpu.assemble.graphs import GraphStore
from sexpgpu.assemble.initial import Initializers
from sexpgpu.assemble.reporting import report_metrics
from sexpgpu.assemble.watching import Watched
from sexpgpu.diagnostics.codes import parameters as codes
from sexpgpu.diagnostics.model import Diagnostic, SxError, located
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.forms.callbacks import asked_for, call_given
from sexpgpu.forms.groups import selector_test
from sexpgpu.forms.models import Parameter, Tree
from sexpgpu.forms.optimizers import Body, GroupForm, Optimizer, run_body
from sexpgpu.ir.document import Group, Metric, State, Update
from sexpgpu.ir.graph import Builder, Graph, Value, ancestors
from sexpgpu.ir.paths import glob_matches
from sexpgpu.ir.types import TensorType
from sexpgpu.lisp.calls import primary
from sexpgpu.lisp.printer import prin1_text as print_value
from sexpgpu.lisp.values import Function, String
from sexpgpu.ops import new_builder
from sexpgpu.ops.linalg import dot
from sexpgpu.passes.pipeline import closed
from sexpgpu.source import Origin
from sexpgpu.trace.context import Trace, tracing
from sexpgpu.trace.tensor import Tensor, TensorSource, resolve

DEFAULT = "default"


class Assignment:
    """Which group each trainable parameter belongs to, and each group's optimizer."""

    __slots__ = ("groups", "members", "optimizers", "warnings")

    def __init__(self, optimizer: Optimizer, tree: Tree) -> None:
        self.warnings: list[Diagnostic] = []
        self.members: dict[str, str] = {}
        self.optimizers: dict[str, Optimizer] = {}
        self.groups: list[Group] = []
        left = {path: p for path, p in tree.parameters.items() if p.trainable}
        owners: dict[str, str] = {}  # path -> the group that took it, frozen ones too
        for form in optimizer.exceptions:
            test = selector_test(form.selector, tree.aliases)
            taken = [path for path, p in left.items() if test(p)]
            if not taken:
                self.warnings.append(_selects_nothing(form, tree, owners))
                continue
            for path in taken:
                del left[path]
                owners[path] = form.name
                if form.optimizer is not None:
                    self.members[path] = form.name
            self._add(form.name, form.optimizer, form.every, form.clip_norm)
        for path in left:
            self.members[path] = DEFAULT
        if left:
            self._add(DEFAULT, optimizer)
        self.warnings += rate_doubts(self.optimizers.values())
        if tree.parameters and not self.members:
            labels, notes = located(optimizer.origin)
            told = f"none of the {len(tree.parameters)} parameters is trained"
            self.warnings.append(Diagnostic(codes.W_OPT_005, told, labels, notes))

    def _add(
        self,
        name: str,
        optimizer: Optimizer | None,
        every: int = 1,
        clip_norm: float | None = None,
    ) -> None:
        constants: dict[str, Any] = {}
        schedules: list[str] = []
        if optimizer is not None:
            self.optimizers[name] = optimizer
            schedules = list(optimizer.schedules())
            given = optimizer.flat()
            constants = {n: _constant(v) for n, v in given.items() if n not in schedules}
        self.groups.append(
            Group(
                name=name,
                optimizer=optimizer.title() if optimizer is not None else "",
                hyper=f"hyper/{name}" if schedules else None,
                constants=constants,
                schedules=schedules,
                frozen=optimizer is None,
                every=every,
                clip_norm=clip_norm,
            )
        )


def _selects_nothing(form: GroupForm, tree: Tree, owners: dict[str, str]) -> Diagnostic:
    """W-OPT-001, with why: earlier groups took all, or what the selector may have meant."""
    test = selector_test(form.selector, tree.aliases)
    matched = [path for path, p in tree.parameters.items() if test(p)]
    takers = list(dict.fromkeys(owners[path] for path in matched if path in owners))
    headline, fix = f"the group {form.name} selects no parameter", None
    if takers:
        several = "s" if len(takers) > 1 else ""
        named = " and ".join(takers)
        headline += f" that is left: the earlier group{several} {named} took all that it matches"
        fix = f"put it before the group{several} {named}, or remove it"
    elif matched:
        headline += f" that is trained: {', '.join(matched[:3])} has :trainable nil"
    elif isinstance(form.selector, String):
        fix = _glob_fix(form.selector.text, tree)
    labels, notes = located(form.origin)
    return Diagnostic(codes.W_OPT_001, headline, labels, notes, fix)


def _glob_fix(glob: str, tree: Tree) -> str | None:
    """A path glob near to one that matches nothing, which does match."""
    bare = glob.strip("/").replace(".", "/")
    paths = [p for p, parameter in tree.parameters.items() if parameter.trainable]
    paths += [alias for p in paths for alias in tree.aliases.get(p, ())]
    for meant in (bare, f"{bare}/**", f"**/{bare}", f"**/{bare}/**"):
        if bare and any(glob_matches(meant, path) for path in paths):
            return f'write "{meant}"'
    return did_you_mean(glob, paths) or f"the paths are {' '.join(paths[:8])}"


def _constant(value: Any) -> Any:
    if isinstance(value, Fraction):
        return float(value)
    return value if isinstance(value, int | float) else print_value(value)


def hyper_graph(name: str, optimizer: Optimizer) -> Graph:
    """`hyper/GROUP`: each schedule's value at the step, f32."""
    trace = Trace(f"hyper/{name}", "hyper", context=STEP)
    outputs: dict[str, Value] = {}
    with tracing(trace):
        step = Tensor(trace.input("ctx/step", STEP["step"]), trace, optimizer.origin)
        for hyper, schedule in optimizer.schedules().items():
            outputs[hyper] = _schedule_value(trace, optimizer, hyper, schedule, step)
    made = closed(trace.finish(outputs))
    _check_inputs(made, f"the schedules of {optimizer.kind}", optimizer.origin)
    return made


_GIVEN = ("state/", "hyper/", "ctx/", "rng/", "global/", "statistic/")


def _check_inputs(graph: Graph, what: str, origin: Origin) -> None:
    """E-OPT-006 for what the loop does not give a graph of an optimizer: other parameters."""
    for name in graph.inputs:
        if name not in ("p", "g") and not name.startswith(_GIVEN):
            kind, _, path = name.partition("/")
            labels, notes = located(origin)
            raise SxError(
                Diagnostic(
                    codes.E_OPT_006,
                    f"{what} need{'s' if what.startswith('the update') else ''} the "
                    f"{'parameter' if kind == 'param' else kind} {path}, which it cannot see",
                    labels,
                    notes,
                    "use p and g, states, ctx and statistics only",
                )
            )


def _schedule_value(
    trace: Trace, optimizer: Optimizer, hyper: str, schedule: Function, step: Tensor
) -> Value:
    with asked_for(optimizer.origin):
        result = primary(call_given(schedule, (step,), "the step"))
    if isinstance(result, int | float | Fraction):
        return trace.full(float(result), (), "f32")
    made = resolve(result) if isinstance(result, Tensor | TensorSource) else None
    if made is None or made.value.shape != () or made.value.dtype == "bool":
        shown = str(made.type) if made is not None else print_value(result)
        at = schedule.origin  # None where the schedule is no function of the file
        labels, notes = located(optimizer.origin if at is None else Origin(at))
        raise SxError(
            Diagnostic(
                codes.E_OPT_001,
                f"the schedule {hyper} of {optimizer.kind} gives {shown}, not a number",
                labels,
                notes,
                "a schedule is a function of the step that returns a scalar",
            )
        )
    value = made.value
    return value if value.dtype == "f32" else trace.emit("cast", value, dtype="f32")


class Updates:
    """Traces the update of every parameter; parameters that differ in nothing the body asked
    about share one graph."""

    __slots__ = (
        "_doubted", "_made", "_sums", "inits", "metrics", "store", "updates", "warnings", "watched"
    )  # fmt: skip

    def __init__(self, store: GraphStore, inits: Initializers, watched: Watched) -> None:
        self.store = store
        self.watched = watched
        self.inits = inits
        self.updates: dict[str, Update] = {}
        self.metrics: dict[str, list[Metric]] = {}
        self._made: dict[Any, Update] = {}
        self.warnings: list[Diagnostic] = []
        self._doubted: set[str] = set()  # kinds that were warned of
        self._sums: dict[str, tuple[str, int]] = {}  # group -> its first parameter, its sums

    def add(self, parameter: Parameter, group: str, optimizer: Optimizer) -> None:
        path = parameter.path or ""
        key = (id(optimizer), parameter.shape)
        made = self._made.get(key)
        if made is None:
            made, general = self._trace(parameter, group, optimizer)
            if general:
                self._made[key] = made
        self.updates[path] = made
        self.watched.offer_update(made.graph, path)
        first, sums = self._sums.setdefault(group, (path, len(made.sums)))
        if sums != len(made.sums):
            labels, notes = located(optimizer.origin)
            raise SxError(
                Diagnostic(
                    codes.E_OPT_006,
                    f"{optimizer.kind} calls global-sum {sums} times for {first} and "
                    f"{len(made.sums)} times for {path}",
                    labels,
                    notes,
                    "call it for every parameter of the group, with 0 for those that add nothing",
                )
            )

    def _trace(self, parameter: Parameter, group: str, optimizer: Optimizer) -> tuple[Update, bool]:
        trace = Trace("update", "update", context=STEP)
        with tracing(trace), asked_for(optimizer.origin):
            body, new = run_body(optimizer, trace, parameter)
        outputs: dict[str, Value] = {"p": new}
        for name, cell in body.states.items():
            outputs[f"state/{name}"] = cell.value.value
        metrics = report_metrics(trace, self.store, outputs)
        made = closed(trace.finish(outputs))
        _check_inputs(made, f"the update of {optimizer.kind}", optimizer.origin)
        self._doubt(made, body, optimizer)
        graph = self.store.shared("update", made)
        self.metrics[graph] = metrics
        self.watched.add_update(trace, graph)
        sums = [
            self.store.shared("sum", closed(trace.finish({"part": part}))) for part in body.sums
        ]
        states = [
            State(
                name=name,
                shape=cell.shape,
                dtype=cell.dtype,
                init=self.inits.graph_name(
                    f"the state {name}", TensorType(cell.shape, cell.dtype), cell.init, cell.origin
                ),
            )
            for name, cell in body.states.items()
        ]
        average = self._average(trace, body, optimizer)
        update = Update(average=average, graph=graph, group=group, states=states, sums=sums)
        return update, not body.asked

    def _doubt(self, graph: Graph, body: Body, optimizer: Optimizer) -> None:
        """W-OPT-004 for a new parameter that does not depend on the old one, or on no gradient."""
        told = None
        if graph.inputs.get("p") not in ancestors(graph, graph.outputs["p"]):
            told = "gives a parameter that does not depend on the old one"
        elif not any(name == "g" or name.startswith("global/") for name in graph.inputs):
            told = "does not use the gradient"
        if told is None or optimizer.kind in self._doubted:
            return
        self._doubted.add(optimizer.kind)
        at = body.update.origin if body.update is not None else None
        labels, notes = located(optimizer.origin if at is None else Origin(at))
        told = f"the update of {optimizer.kind} {told}"
        self.warnings.append(Diagnostic(codes.W_OPT_004, told, labels, notes))

    def _average(self, trace: Trace, body: Body, optimizer: Optimizer) -> str | None:
        """The name of the graph of evaluation-parameter, which sees `p` and the states only."""
        with tracing(trace), asked_for(optimizer.origin):
            p = Tensor(trace.input("p", TensorType(body.parameter.shape, "f32")), trace,
                       optimizer.origin)  # fmt: skip
            average = body.averaged(p)
        if average is None:
            return None
        graph = closed(trace.finish({"p": average.value}))
        other = [n for n in graph.inputs if n != "p" and not n.startswith("state/")]
        if other:
            function = body.average
            at = function.origin if function is not None else None
            labels, notes = located(optimizer.origin if at is None else Origin(at))
            raise SxError(
                Diagnostic(
                    codes.E_OPT_006,
                    f"evaluation-parameter of {optimizer.kind} needs {other[0]}, which an "
                    "evaluation does not have",
                    labels,
                    notes,
                    "use states and numbers only; a scheduled value can be kept in a state",
                )
            )
        return self.store.shared("average", graph)


def clip_graph(
    shapes: dict[str, tuple[int, ...]],
    limit: float | None,
    groups: dict[str, tuple[float, list[str]]],
) -> Graph:
    """`clip`: all gradients, scaled so that their global L2 norm is at most `limit` (None: as they
    are), then those of each of `groups` (name -> limit, paths) by the norm of the group.

    Outputs besides: `grad-norm`, the norm of all before; `clipped-norm`, after; `grad-norm/GROUP`,
    a group's before it is clipped by its own. f32."""
    b = new_builder()
    grads = {
        path: b.input(f"grad/{path}", TensorType(shape, "f32")) for path, shape in shapes.items()
    }
    norm = _norm(b, list(grads.values()))
    outputs: dict[str, Value] = {"grad-norm": norm, "clipped-norm": norm}
    if limit is not None:
        outputs["clipped-norm"] = _scale_to(b, grads, list(grads), norm, limit)
    for name, (bound, paths) in groups.items():
        before = _norm(b, [grads[path] for path in paths])
        outputs[f"grad-norm/{name}"] = before
        _scale_to(b, grads, paths, before, bound)
    if groups:
        outputs["clipped-norm"] = _norm(b, list(grads.values()))
    return b.finish("clip", {f"grad/{path}": g for path, g in grads.items()} | outputs)


def _norm(b: Builder, tensors: list[Value]) -> Value:
    """The L2 norm of tensors together."""
    total: Value | None = None
    for g in tensors:
        axes = tuple(range(len(g.shape)))
        part = dot(b, g, g, (axes, axes)) if axes else b.emit("mul", g, g)
        total = part if total is None else b.emit("add", total, part)
    if total is None:
        total = b.emit("full", shape=(), value=0.0, dtype="f32", batch=None)
    return b.emit("sqrt", total)


def _scale_to(
    b: Builder, grads: dict[str, Value], paths: list[str], norm: Value, limit: float
) -> Value:
    """Scale the gradients of these paths, whose norm is `norm`, where it is above the limit; gives
    their norm after."""
    bound = b.emit("full", shape=(), value=float(limit), dtype="f32", batch=None)
    one = b.emit("full", shape=(), value=1.0, dtype="f32", batch=None)
    scale = b.emit("select", b.emit("lt", norm, bound), one, b.emit("div", bound, norm))
    for path in paths:
        g = grads[path]
        wide = b.emit("broadcast", scale, shape=g.shape, dims=()) if g.shape else scale
        grads[path] = b.emit("mul", g, wide)
    return b.emit("mul", norm, scale)

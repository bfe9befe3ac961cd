"""What trains, but hardly as it was meant: warnings of idle parts, of a loss, of a rate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import lcm

from sexpgpu.diagnostics.codes import parameters as parameter_codes
from sexpgpu.diagnostics.codes import run as run_codes
from sexpgpu.diagnostics.codes import tensor as tensor_codes
from sexpgpu.diagnostics.model import Diagnostic, Label, located
from sexpgpu.forms.models import Tree
from sexpgpu.forms.optimizers import Optimizer
from sexpgpu.forms.runs import RunForm
from sexpgpu.ir.document import Evaluation
from sexpgpu.ir.graph import Graph, Node
from sexpgpu.source import Origin
from sexpgpu.trace.context import Trace

LOGITS_OPS = {"logsumexp": "softmax", "log-softmax": "softmax", "softmax": "softmax",
              "softplus": "sigmoid"}  # fmt: skip
"""What takes logits, and what makes probabilities of them."""
PASSING_ON = ("reshape", "cast", "transpose", "clamp", "neg")


def loss_doubts(nodes: Iterable[Node]) -> list[Diagnostic]:
    """W-NUM-001 where what should be logits is the result of a softmax or sigmoid already. (That of
    a log-softmax does no harm: its own log-softmax is the same.)"""
    made: dict[int, Node] = {}
    found: list[Diagnostic] = []
    for node in nodes:
        for result in node.results:
            made[id(result)] = node
        if node.op not in LOGITS_OPS:
            continue
        source = made.get(id(node.operands[0]))
        while source is not None and source.op in PASSING_ON:
            source = made.get(id(source.operands[0]))
        if source is not None and source.op == LOGITS_OPS[node.op]:
            labels, notes = located(source.origin, "probabilities are made here")
            used, _ = located(node.origin, "and taken as logits here")
            if used and labels and used[0].span != labels[0].span:
                labels.append(used[0])
            told = "probabilities are given where logits belong"
            found.append(Diagnostic(tensor_codes.W_NUM_001, told, labels, notes))
    return found


def pairing_doubts(nodes: Iterable[Node]) -> list[Diagnostic]:
    """W-SHAPE-001 where broadcasting lines the examples of a tensor up with another axis of one of
    higher rank: of [B] and [B, 1] it makes [B, B]. (Pairs that are meant have an axis put in.)"""
    stretched: dict[int, Node] = {}
    found: list[Diagnostic] = []
    for node in nodes:
        if node.op == "broadcast":
            source, result = node.operands[0].type, node.results[0].type
            if source.batch is not None and len(source.shape) < len(result.shape):
                stretched[id(node.results[0])] = node
            continue
        for value in node.operands:
            made = stretched.get(id(value))
            axes = {other.type.batch for other in node.operands} - {None, value.type.batch}
            if made is None or not axes:
                continue
            source = made.operands[0].type
            labels, notes = located(node.origin, f"this one is {source}")
            told = "the examples of one tensor are lined up with another axis of the other"
            fix = (
                f"to line examples up with examples, (expand-dims x {len(source.shape)}) the one "
                "of lower rank, or squeeze the other; for every pair, say so: (expand-dims x 0)"
            )
            found.append(Diagnostic(tensor_codes.W_SHAPE_001, told, labels, notes, fix))
            break
    return found


def reduction_doubts(trace: Trace) -> list[Diagnostic]:
    """W-OP-001 for each call of max or min with one tensor."""
    found: list[Diagnostic] = []
    for name, origin in trace.doubts:
        labels, notes = located(origin)
        told = f"{name} of one tensor is that tensor: there is nothing to compare it with"
        fix = f"for the greatest element write (a{name} x), along an axis (a{name} x :axis 1)"
        if name == "min":
            fix = fix.replace("greatest", "least")
        found.append(Diagnostic(tensor_codes.W_OP_001, told, labels, notes, fix))
    return found


def rate_doubts(optimizers: Iterable[Optimizer]) -> list[Diagnostic]:
    """W-OPT-002 for a learning rate that is a whole number, written as an integer; W-OPT-003 for
    one that is not positive."""
    found: list[Diagnostic] = []
    for optimizer in optimizers:
        rate = optimizer.values.get("lr")
        if type(rate) is int and rate > 0:
            told, code = f"the learning rate is the integer {rate}", parameter_codes.W_OPT_002
        elif isinstance(rate, int | float | Fraction) and rate <= 0:
            told, code = f"the learning rate is {float(rate):g}", parameter_codes.W_OPT_003
        else:
            continue
        labels, notes = located(optimizer.origin)
        found.append(Diagnostic(code, told, labels, notes))
    return found


def remat_doubts(run: RunForm, tree: Tree) -> list[Diagnostic]:
    """W-RUN-005 for `:remat :blocks` of a model without repeated blocks."""
    if run.run.remat != "blocks" or any(m.kind == "repeat" for m in tree.models.values()):
        return []
    place = run.places.get("remat") or run.span
    return [
        Diagnostic(
            run_codes.W_RUN_005,
            f"defrun {run.run.name}: :remat :blocks, and the model has no repeat",
            [Label(place)] if place is not None else [],
        )
    ]


def keep_doubts(run: RunForm, evaluations: Iterable[Evaluation]) -> list[Diagnostic]:
    """W-RUN-006 for a `:keep-every` without `:keep`, or that divides no step that is saved before
    the last, which is kept in any case: each `:every`-th, and with `:best` those of an evaluation
    that it follows. (Steps that epochs make are known when the data are opened.)"""
    kept, steps = run.run.checkpoint, run.run.steps
    n = kept.keep_every
    if n is None:
        return []
    if kept.keep is None:
        told = f":keep-every {n}, and without :keep every checkpoint is kept"
    elif steps is None:
        return []
    else:
        often = [kept.every]
        if kept.best is not None:
            often += [e.every for e in evaluations if kept.best[1].startswith(f"eval/{e.name}/")]
        if any(m is not None and lcm(m, n) <= steps for m in often):
            return []
        saved = "at the end only" if kept.every is None else f"each {kept.every} steps"
        told = f":keep-every {n} divides no step that is saved: {saved}, of {steps}"
    place = run.places.get("checkpoint") or run.span
    labels = [Label(place)] if place is not None else []
    return [Diagnostic(run_codes.W_RUN_006, f"defrun {run.run.name}: {told}", labels)]


def idle_warnings(
    tree: Tree, unreached: Sequence[str], trained: int, graphs: Iterable[Graph]
) -> list[Diagnostic]:
    """W-RUN-001 for each model that no graph calls and no parameter of which any reads, for each
    other parameter that the loss does not depend on (once where it depends on none of the
    `trained`), and for each buffer that no graph reads or sets."""
    graphs = list(graphs)
    names = {name for g in graphs for name in (*g.inputs, *g.outputs)}
    used = {n.partition("/")[2] for n in names if n.startswith("param/")}
    used |= {path for path, model in tree.models.items() if model.called}
    idle = [p for p in tree.models if p and not any(_is_within(path, p) for path in used)]
    told = [p for p in idle if not any(p != other and _is_within(p, other) for other in idle)]
    found: list[Diagnostic] = []

    def warn(headline: str, origin: Origin, fix: str) -> None:
        labels, notes = located(origin)
        found.append(Diagnostic(run_codes.W_RUN_001, headline, labels, notes, fix))

    for path in told:
        warn(
            f"the model {path} is never called", tree.models[path].origin,
            "call it in forward, or remove it",
        )  # fmt: skip
    for path, buffer in tree.buffers.items():
        if f"buffer/{path}" not in names and not any(_is_within(path, model) for model in told):
            warn(
                f"no graph reads or sets the buffer {path}", buffer.origin,
                "use it in forward, or remove it",
            )  # fmt: skip
    if not told and 1 < trained == len(unreached):
        warn(
            f"the loss depends on none of the {trained} parameters", tree.root.origin,
            "make the loss of what the model gives; comparisons, argmax, stop-gradient and a "
            "frozen model pass no gradient on",
        )  # fmt: skip
        return found
    for path in unreached:
        if not any(_is_within(path, model) for model in told):
            warn(
                f"the loss does not depend on the parameter {path}", tree.parameters[path].origin,
                "use it in forward, or remove it",
            )  # fmt: skip
    return found


def _is_within(path: str, model: str) -> bool:
    return path == model or path.startswith(f"{model}/")

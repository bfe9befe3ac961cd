"""Control inside a graph: scan. Each runs a Lisp function once, while tracing, for the graph that
becomes the body of an op."""

from __future__ import annotations

from typing import Any, NamedTuple

from sexpgpu.diagnostics.codes.tensor import (
    E_FLOW_004,
    E_FLOW_006,
    E_OP_001,
    E_SHAPE_001,
    E_SHAPE_005,
)
from sexpgpu.diagnostics.model import Note, SxError
from sexpgpu.ir.graph import Graph, Value
from sexpgpu.ir.types import TensorType
from sexpgpu.lisp.calls import as_function, values_of
from sexpgpu.lisp.values import NIL, Function
from sexpgpu.ops.control import element_type
from sexpgpu.ops.rules import merged_batch
from sexpgpu.reader.printer import brief
from sexpgpu.trace.arguments import integer, is_number
from sexpgpu.trace.bodies import BodyTrace, Marks, form_of, leaves_of, like, same_form
from sexpgpu.trace.context import TRACES, Trace, tracing
from sexpgpu.trace.declare import tensor_function
from sexpgpu.trace.errors import failure
from sexpgpu.trace.primitives import iota
from sexpgpu.trace.promote import constant
from sexpgpu.trace.tensor import Tensor, is_tensor, resolve, wrap


def tensors_in(name: str, what: str, value: Any) -> tuple[Any, list[Tensor]]:
    """A tensor, or a list of tensors: the value with tensors for its numbers, and its tensors."""
    trace = TRACES[-1]
    tensors: list[Tensor] = []
    for leaf in leaves_of(value):
        if is_tensor(leaf):
            tensors.append(resolve(leaf))
        elif is_number(leaf):
            tensors.append(wrap(constant(trace, name, leaf, (), "f32")))
        else:
            raise failure(
                E_FLOW_006,
                f"{name}: {what} holds {brief(leaf)}, wanted a tensor or a list of tensors",
            )
    return like(value, tensors), tensors


# ---------------------------------------------------------------------------- scan


class _Scan(NamedTuple):
    """What is scanned: the function, the carry and the sequences with their tensors."""

    function: Function
    init: Any
    carries: list[Tensor]
    xs: Any
    sequences: list[Tensor]
    length: int


@tensor_function("scan", "(f init xs &key length reverse)")
def scan(f: Any, init: Any, xs: Any, length: Any = None, reverse: Any = None) -> Any:
    """Calls f with the carry and an element of xs for each element along the first axis of xs, and
    hands the carry on. f: (carry x) → (values carry y). Gives (values carry ys): the last carry,
    and the y stacked along a new first axis. init, xs and y are tensors or lists of them; the carry
    keeps its types. xs may be nil where :length says how often. :reverse t goes from the last
    element to the first. f is traced once: tensors from around it are captured, each iteration
    draws for itself."""
    function = as_function(f)
    initial, carries = tensors_in("scan", "init", init)
    given, sequences = tensors_in("scan", "xs", xs)
    job = _Scan(function, initial, carries, given, sequences, _length(sequences, length))
    trace = TRACES[-1]
    marks = Marks(trace)
    carry_types = [t.type for t in carries]
    unclear: set[int] = set()
    while True:
        body, carry, y, graph = _trace_body(trace, job, carry_types)
        settled = _settled(carry_types, graph, unclear)
        if settled == carry_types:
            break
        # the examples lie along an axis of the carry that init does not mark: trace it so marked
        carry_types = settled
        marks.restore(trace)
    operands = [t.value for t in carries] + [t.value for t in sequences]
    if body.draws_by_iteration:
        operands.append(iota(trace, (job.length,), 0, "u32"))
    attrs: dict[str, Any] = {
        "body": graph,
        "carries": len(carries),
        "sequences": len(operands) - len(carries),
        "length": job.length,
        "reverse": reverse is not None and reverse is not NIL,
    }
    results = trace.builder.node("scan", (*operands, *body.captured), attrs).results
    tensors = [wrap(value) for value in results]
    last = like(carry, tensors[: len(carries)])
    return values_of([last, like(y, tensors[len(carries) :])])


def _settled(before: list[TensorType], body: Graph, unclear: set[int]) -> list[TensorType]:
    """The carries' types with the batch axis that holds before and after an iteration. Carries
    that have two different ones are `unclear`: they have none."""
    found: list[TensorType] = []
    for at, (old, new) in enumerate(zip(before, body.outputs.values(), strict=False)):
        batch = merged_batch(old.batch, new.type.batch)
        if batch is None and old.batch is not None:
            unclear.add(at)
        found.append(old._replace(batch=None if at in unclear else batch))
    return found


def _length(sequences: list[Tensor], given: Any) -> int:
    wanted = None if given is None or given is NIL else integer("scan", ":length", given, 0)
    for at, t in enumerate(sequences):
        if not t.type.shape:
            raise failure(
                E_SHAPE_005, "scan: a scalar has no axis to scan", [(f"sequence {at}", t)]
            )
        extent = t.type.shape[0]
        if wanted is None:
            wanted = extent
        elif wanted != extent:
            first = "" if given is not None else f", sequence 0 has {wanted}"
            said = f", :length is {wanted}" if given is not None else first
            raise failure(
                E_SHAPE_001,
                f"scan: sequence {at} has {extent} elements along its first axis{said}",
                [(f"sequence {k}", s) for k, s in enumerate(sequences)],
                fix="scan goes along the first axis: (transpose x (list 1 0 2)) brings the time of "
                "[B, T, D] there",
            )
    if wanted is None:
        raise failure(
            E_OP_001,
            "scan: there is nothing to scan: xs holds no tensor and :length is not given",
            fix="give how often: (scan f init nil :length n)",
        )
    return wanted


def _trace_body(
    trace: Trace, job: _Scan, carry_types: list[TensorType]
) -> tuple[BodyTrace, Any, Any, Graph]:
    """The body for carries of these types: (its trace, the carry and the y it gives, the graph)."""
    body = BodyTrace("scan", trace, repeats=True)
    body.examples_in_turn |= any(t.type.batch == 0 for t in job.sequences)
    inputs: dict[str, Value] = {}
    carries = _inputs(body, inputs, "carry", carry_types, job.carries)
    elements = [element_type(t.type) for t in job.sequences]
    x = like(job.xs, _inputs(body, inputs, "x", elements, job.sequences))
    returned = body.call(job.function, [like(job.init, carries), x])
    carry = returned[0] if returned else NIL
    y = returned[1] if len(returned) > 1 else NIL
    outputs = _carry_outputs(body, job, carries, carry)
    for at, leaf in enumerate(leaves_of(y)):
        outputs[f"y/{at}"] = _element(body, job.function, leaf)
    if body.draws_by_iteration:
        assert body.iteration is not None
        inputs[f"x/{len(elements)}"] = body.iteration
    return body, carry, y, body.body(inputs, outputs)


def _inputs(
    body: BodyTrace,
    inputs: dict[str, Value],
    name: str,
    types: list[TensorType],
    outer: list[Tensor],
) -> list[Tensor]:
    made: list[Tensor] = []
    for at, (type, around) in enumerate(zip(types, outer, strict=True)):
        value = inputs[f"{name}/{at}"] = Value(type)
        made.append(Tensor(value, body, around.origin))
    return made


def _carry_outputs(
    body: BodyTrace, job: _Scan, before: list[Tensor], carry: Any
) -> dict[str, Value]:
    """The carries that the body gives, checked against those that it takes."""
    name = job.function.name
    if not same_form(job.init, carry):
        raise _changed(
            body, f"scan: init is {form_of(job.init)}, {name} gives {form_of(carry)} as the carry"
        )
    outputs: dict[str, Value] = {}
    for at, (old, leaf) in enumerate(zip(job.carries, leaves_of(carry), strict=True)):
        if is_number(leaf):
            with tracing(body):
                value = constant(body, name, leaf, old.type.shape, old.type.dtype)
        else:
            new = _resolved(body, job.function, leaf, "the carry")
            if not new.type.same_value(old.type):
                which = f"carry {at}" if len(before) > 1 else "the carry"
                raise _changed(
                    body,
                    f"scan: {which} is {old.type} before an iteration and {new.type} after it",
                    old,
                    new,
                )
            value = new.value
        outputs[f"carry/{at}"] = value
    return outputs


def _element(body: BodyTrace, function: Function, leaf: Any) -> Value:
    if is_number(leaf):
        with tracing(body):
            return constant(body, function.name, leaf, (), "f32")
    return _resolved(body, function, leaf, "y").value


def _resolved(body: BodyTrace, function: Function, leaf: Any, what: str) -> Tensor:
    if not is_tensor(leaf):
        raise failure(
            E_FLOW_006,
            f"scan: {function.name} returned {brief(leaf)} in {what}, wanted tensors",
            fix="return (values carry y), each a tensor or a list of tensors",
        )
    with tracing(body):
        return resolve(leaf)


def _changed(
    body: BodyTrace, headline: str, old: Tensor | None = None, new: Tensor | None = None
) -> SxError:
    """E-FLOW-004, with the places of both."""
    notes: list[Note] = []
    for tensor, said in ((old, "before: made here"), (new, "after: made here")):
        span = tensor.origin.user_span if tensor is not None else None
        if tensor is not None and span is not None:
            notes.append(Note(f"{tensor.type} {said}", span))
    fix = None
    if old is not None and new is not None:
        if old.type.shape == new.type.shape:
            fix = f"cast one of them: (cast x :{old.type.dtype})"
        else:
            fix = "begin with an init of the shape that the function gives"
    return failure(E_FLOW_004, headline, fix=fix, notes=notes)

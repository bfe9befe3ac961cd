"""Derivatives inside a graph: grad, functions with a derivative of their own, and recomputation in
the backward pass. What they emit are ordinary nodes, which can be differentiated again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sexpgpu.diagnostics.codes.tensor import (
    E_FLOW_006,
    E_GRAD_002,
    E_GRAD_003,
    E_GRAD_005,
)
from sexpgpu.ir.graph import Value
from sexpgpu.ir.types import FLOATS
from sexpgpu.lisp.calls import as_function, call_values, values_list, values_of
from sexpgpu.lisp.values import NIL, Function
from sexpgpu.passes.autodiff import gradients
from sexpgpu.reader.printer import brief
from sexpgpu.trace.arguments import is_number
from sexpgpu.trace.bodies import BodyTrace, form_of, leaves_of, like, same_form
from sexpgpu.trace.context import TRACES, Trace, tracing
from sexpgpu.trace.declare import ORDINALS, guard, tensor_function
from sexpgpu.trace.errors import failure
from sexpgpu.trace.functions.control import tensors_in
from sexpgpu.trace.tensor import Tensor, TensorSource, is_tensor, resolve, wrap


def _argument(at: int) -> str:
    return f"{ORDINALS[at]} argument" if at < len(ORDINALS) else f"argument {at + 1}"


def _own(trace: Trace, x: Tensor) -> Tensor:
    """The same tensor as another value: what is asked of it is asked of this use alone. The passes
    take it out again."""
    return Tensor(trace.emit("reshape", x.value, shape=x.type.shape), trace, x.origin)


# ---------------------------------------------------------------------------- grad


@tensor_function("grad", "(f &rest arguments)")
def grad(f: Any, *arguments: Any) -> Any:
    """The gradient of (f argument…), a scalar float tensor, with respect to each argument, as
    values: a tensor of the argument's type, for a list of tensors a list. What f captures is held
    constant. When f returns several values, the first is differentiated. The gradient can be
    differentiated again."""
    function = as_function(f)
    trace = TRACES[-1]
    given: list[Any] = []
    wanted: list[list[Tensor]] = []
    for at, argument in enumerate(arguments):
        form, tensors = tensors_in("grad", f"{_argument(at)}", argument)
        for t in tensors:
            if t.type.dtype not in FLOATS:
                raise failure(
                    E_GRAD_003,
                    f"grad: {_argument(at)} is {t.type}: only floats have a gradient",
                    [("the argument", t)],
                    fix="capture it: (grad (lambda (w) (f w ids)) w)",
                )
        own = [_own(trace, t) for t in tensors]
        wanted.append(own)
        given.append(like(form, own))
    value = values_list(call_values(function, *given))
    result = value[0] if value else NIL
    seeds: list[tuple[Value, Value]] = []
    if not is_number(result):
        if not is_tensor(result):
            raise failure(
                E_FLOW_006, f"grad: {function.name} returned {brief(result)}, wanted a tensor"
            )
        y = resolve(result)
        if y.type.shape != () or y.type.dtype not in FLOATS:
            raise failure(
                E_GRAD_002,
                f"grad: {function.name} gives {y.type}, wanted a float scalar",
                [("the value", y)],
            )
        seeds.append((y.value, trace.full(1.0, (), y.type.dtype)))
    every = [t.value for own in wanted for t in own]
    found = iter(gradients(trace.builder, seeds, every))
    trace.locate()
    results: list[Any] = []
    for own, form in zip(wanted, given, strict=True):
        made = [_or_zero(trace, t, next(found)) for t in own]
        results.append(like(form, made))
    return values_of(results)


def _or_zero(trace: Trace, x: Tensor, gradient: Value | None) -> Tensor:
    if gradient is None:
        shape, dtype, batch = x.type
        gradient = trace.emit("full", shape=shape, value=0.0, dtype=dtype, batch=batch)
    return wrap(gradient)


# ---------------------------------------------------------------------------- recompute


@tensor_function("recompute", "(f &rest arguments)")
def recompute(f: Any, *arguments: Any) -> Any:
    """What (f argument…) gives. The backward pass runs f again rather than keep what it computed on
    the way: less memory for more arithmetic, the same numbers. Arguments and values are tensors or
    lists of them; others are passed on as they are."""
    return values_of(recomputed(as_function(f), arguments))


def recomputed(function: Function, arguments: Sequence[Any]) -> list[Any]:
    """All the values of a call whose body the backward pass runs again (see `recompute`)."""
    trace = TRACES[-1]
    body = BodyTrace("recompute", trace, repeats=False)
    inputs: dict[str, Value] = {}
    operands: list[Value] = []

    def enter(leaf: Any) -> Any:
        if not is_tensor(leaf) or isinstance(leaf, TensorSource):
            return leaf  # a parameter is captured
        t = resolve(leaf)
        value = inputs[f"argument/{len(inputs)}"] = Value(t.type)
        operands.append(t.value)
        return Tensor(value, body, t.origin)

    given = [like(a, [enter(leaf) for leaf in leaves_of(a)]) for a in arguments]
    returned = body.call(function, given)
    outputs: dict[str, Value] = {}
    inside: list[Tensor] = []
    for leaf in (leaf for value in returned for leaf in leaves_of(value)):
        if is_tensor(leaf):
            with tracing(body):
                t = resolve(leaf)
            outputs[f"value/{len(inside)}"] = t.value
            inside.append(t)
    noted = body.noted_values()
    outputs |= {f"noted/{at}": value for at, value in enumerate(noted)}
    attrs = {"body": body.body(inputs, outputs), "arguments": len(operands), "again": False}
    trace.locate()
    node = trace.builder.node("recompute", (*operands, *body.captured), attrs)
    outside = dict(zip(noted, node.results[len(inside) :], strict=True))
    constants = {made.results[0]: made for made in body.builder.nodes if made.op == "full"}
    for value in noted:
        if value in constants:  # the weight of a metric, say: the graph around it may count on that
            outside[value] = trace.emit("full", **constants[value].attrs)
    body.hand_on(outside)
    results = iter(node.results[: len(inside)])

    def leave(leaf: Any) -> Any:
        return wrap(next(results)) if is_tensor(leaf) else leaf

    return [like(v, [leave(leaf) for leaf in leaves_of(v)]) for v in returned]


# ---------------------------------------------------------------------------- custom-vjp


@tensor_function("custom-vjp", "(forward backward)", outside=True)
def custom_vjp(forward: Any, backward: Any) -> Function:
    """A function that computes as forward does and is differentiated as backward says.
    forward: (argument…) → (values y residuals); backward: (residuals cotangent-of-y) → the
    cotangent of each argument, as values (nil: none). Arguments and y are tensors or lists of them,
    residuals anything. forward may use no tensor that needs a gradient but its arguments."""
    ahead, back = as_function(forward), as_function(backward)

    def call(*arguments: Any) -> Any:
        return _Custom(ahead, back, arguments).run()

    guarded = guard("custom-vjp", call, (), False)
    return Function(
        ahead.name,
        guarded,
        ahead.minimum,
        ahead.maximum,
        ahead.lambda_list,
        ahead.doc,
        ahead.origin,
    )


class _Custom:
    """One call of a function with a derivative of its own."""

    __slots__ = ("arguments", "backward", "forward", "given", "trace")

    def __init__(self, forward: Function, backward: Function, arguments: tuple[Any, ...]) -> None:
        self.forward = forward
        self.backward = backward
        self.trace = TRACES[-1]
        self.arguments: list[tuple[Any, list[Tensor]]] = []
        self.given: list[Any] = []
        for argument in arguments:
            leaves = leaves_of(argument)
            tensors = [resolve(leaf) for leaf in leaves if is_tensor(leaf)]
            own = iter([_own(self.trace, t) for t in tensors])
            self.given.append(
                like(argument, [next(own) if is_tensor(leaf) else leaf for leaf in leaves])
            )
            self.arguments.append((argument, tensors))

    def run(self) -> Any:
        trace = self.trace
        before = len(trace.builder.nodes)
        returned = values_list(call_values(self.forward, *self.given))
        trace.locate()
        y, results = tensors_in("custom-vjp", "y", returned[0] if returned else NIL)
        residuals = returned[1] if len(returned) > 1 else NIL
        others = self.others(before)
        body = BodyTrace("custom-vjp", trace, repeats=False)
        inputs: dict[str, Value] = {}
        kept: list[Value] = []

        def enter(leaf: Any) -> Any:
            if not is_tensor(leaf):
                return leaf
            t = resolve(leaf)
            value = inputs[f"residual/{len(kept)}"] = Value(t.type)
            kept.append(t.value)
            return Tensor(value, body, t.origin)

        inside = like(residuals, [enter(leaf) for leaf in leaves_of(residuals)])
        cotangents: list[Any] = []
        ends: dict[str, Value] = {}
        for t in results:
            if t.type.dtype in FLOATS:
                value = ends[f"cotangent/{len(ends)}"] = Value(t.type)
                cotangents.append(Tensor(value, body, t.origin))
            else:
                cotangents.append(NIL)
        found = body.call(self.backward, [inside, like(y, cotangents)])
        outputs = self.outputs(body, found)
        # what the backward function captured comes with the residuals
        captured = {f"outer/{at}": v for at, v in enumerate(body.captured.values())}
        graph = body.graph({**inputs, **captured, **ends}, outputs)
        every = [t.value for _, tensors in self.arguments for t in tensors]
        values = [t.value for t in results]
        extra = [*kept, *body.captured]
        attrs: dict[str, Any] = {
            "body": graph,
            "results": len(values),
            "arguments": len(every),
            "residuals": len(extra),
            "given": tuple([int(name.split("/")[1]) for name in outputs]),
            "taken": False,
        }
        operands = (*values, *every, *extra, *others)
        node = trace.builder.node("custom-vjp", operands, attrs)
        return like(y, [wrap(value) for value in node.results])

    def others(self, before: int) -> list[Value]:
        """Float values that the forward function used but was not given, unless their gradient is
        cut."""
        nodes = self.trace.builder.nodes[before:]
        known = {value for node in nodes for value in node.results}
        nodes = [node for node in nodes if node.op != "stop-gradient"]
        for form in self.given:
            known.update([leaf.value for leaf in leaves_of(form) if isinstance(leaf, Tensor)])
        used: dict[Value, None] = {}
        for node in nodes:
            used.update(dict.fromkeys(v for v in node.operands if v.dtype in FLOATS))
        return [value for value in used if value not in known]

    def outputs(self, body: BodyTrace, found: list[Any]) -> dict[str, Value]:
        """The cotangents of the arguments' tensors, by their places among them."""
        name = self.backward.name
        if len(found) != len(self.arguments):
            raise failure(
                E_GRAD_005,
                f"custom-vjp: {name} returned {len(found)} values, one cotangent for each of "
                f"{len(self.arguments)} arguments was expected",
            )
        outputs: dict[str, Value] = {}
        place = 0
        for at, ((argument, tensors), cotangent) in enumerate(
            zip(self.arguments, found, strict=True)
        ):
            if cotangent is not NIL:
                self.check_form(at, argument, tensors, cotangent)
                for t, leaf in zip(tensors, leaves_of(cotangent), strict=True):
                    outputs[f"argument/{place}"] = self.cotangent(body, at, t, leaf)
                    place += 1
            else:
                place += len(tensors)
        return outputs

    def check_form(self, at: int, argument: Any, tensors: list[Tensor], cotangent: Any) -> None:
        plain = len(tensors) != len(leaves_of(argument))
        if plain or not same_form(argument, cotangent):
            wanted = "nil: it is no tensor" if plain else form_of(argument)
            raise failure(
                E_GRAD_005,
                f"custom-vjp: the cotangent of {_argument(at)} is {form_of(cotangent)}, "
                f"wanted {wanted}",
            )

    def cotangent(self, body: BodyTrace, at: int, argument: Tensor, leaf: Any) -> Value:
        with tracing(body):
            made = resolve(leaf) if is_tensor(leaf) else None
        if made is None or not made.type.same_value(argument.type):
            raise failure(
                E_GRAD_005,
                f"custom-vjp: {_argument(at)} is {argument.type}; its cotangent, as "
                f"{self.backward.name} gives it, is {brief(leaf) if made is None else made.type}",
                [("the argument", argument), *([("the cotangent", made)] if made else [])],
            )
        return made.value

"""Models, parameters and buffers as values of the Lisp; their paths; calling a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sexpgpu.diagnostics.codes import parameters as codes
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.forms.parse import here
from sexpgpu.ir.types import FLOATS, TensorType
from sexpgpu.lisp.calls import as_function, call_values, values_list, values_of
from sexpgpu.lisp.printer import prin1_text as print_value
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.values import NIL, TENSOR, Foreign, Function, String, lisp_list
from sexpgpu.ops.reducers import ACTIVATION
from sexpgpu.source import Origin
from sexpgpu.trace.arguments import is_number
from sexpgpu.trace.context import TRACES, Trace
from sexpgpu.trace.errors import check_noted_once, outside
from sexpgpu.trace.functions.gradient import recomputed
from sexpgpu.trace.tensor import Tensor, TensorSource, is_tensor, resolve, wrap


class Parameter(TensorSource):
    """A trained tensor. Usable as a tensor wherever a graph is traced.

    `init` is called with the shape (a Lisp list) in a graph of its own; None: zeros.
    `path` is given when the run's model is known.
    """

    __slots__ = ("dtype", "init", "name", "origin", "path", "shape", "tags", "trainable")
    lisp_type = "parameter"

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: str,
        init: Function | None,
        trainable: bool,
        tags: tuple[str, ...],
        origin: Origin,
    ) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.init = init
        self.trainable = trainable
        self.tags = tags
        self.origin = origin
        self.path: str | None = None

    kind = "param"

    @property
    def original(self) -> Parameter:
        """Itself; of one that stands for another tensor, the parameter that was declared."""
        return self

    @property
    def kept(self) -> str:
        """The dtype that it is kept in between steps: of a parameter the master's, f32."""
        return "f32"

    def known_type(self) -> TensorType:
        return TensorType(self.shape, self.dtype)

    def type_in(self, trace: Trace) -> TensorType:
        """The type of the graph's input."""
        return TensorType(self.shape, self.kept)

    def current_tensor(self, trace: Trace) -> Tensor:
        """The tensor that stands for it in a graph: an input of the graph, made at first use."""
        found = trace.sources.get(self)
        if found is None:
            if self.path is None:
                raise here(
                    codes.E_PARAM_005,
                    f"the {self.lisp_type} {self.name} is not part of the run's model",
                )
            value = trace.input(f"{self.kind}/{self.path}", self.type_in(trace))
            if self.dtype != self.kept:
                value = trace.emit("cast", value, dtype=self.dtype)
            found = trace.sources[self] = Tensor(value, trace, self.origin)
        return found

    def lisp_print(self) -> str:
        extents = " ".join(map(str, self.shape))
        return f"#<{self.lisp_type} {self.path or self.name} {self.dtype} ({extents})>"


class Buffer(Parameter):
    """State that is not trained: a place whose new value a training graph hands on. With
    `per_example` it has a row of its shape for each example of the batch."""

    __slots__ = ("per_example",)
    lisp_type = "buffer"
    kind = "buffer"
    per_example: bool

    def type_in(self, trace: Trace) -> TensorType:
        rows = trace.root.batch
        if not self.per_example:
            return super().type_in(trace)
        if rows is None:
            raise here(
                codes.E_PARAM_009,
                f"the buffer {self.name} has a row for each example, and the graph "
                f"{trace.root.name} has no examples",
            )
        return TensorType((rows, *self.shape), self.kept, 0)

    def known_type(self) -> TensorType:
        return self.type_in(TRACES[-1]) if self.per_example and TRACES else super().known_type()

    @property
    def kept(self) -> str:
        return self.dtype

    def current_tensor(self, trace: Trace) -> Tensor:
        written = trace.buffers.get(self.path or "")
        return super().current_tensor(trace) if written is None else written

    def assign(self, value: Any) -> Any:
        """Give the buffer a new value in the training graph being traced; elsewhere it stays."""
        if not TRACES:
            raise outside(f"(setf {self.name})")
        check_noted_once(f"the buffer {self.name} gets a new value")
        trace = TRACES[-1]
        old = trace.tensor_of(self)
        new = tensor_like(trace, value, old.type)
        if new is None or not new.type.same_value(old.type):
            shown = new.type if new is not None else print_value(value)
            raise here(
                codes.E_PARAM_004,
                f"the buffer {self.name} holds {old.type}; its new value is {shown}",
            )
        follows = self.per_example  # its examples, from batch to batch
        if not trace.training and not follows:
            return value
        trace.buffers[self.path or ""] = new
        trace.written[self.path or ""] = new.origin
        return value


Part = Any  # Parameter | Buffer | Model | Function


class Model(Foreign):
    """A model: named parts in order, and what it does when it is called. `called`: whether it was,
    in any graph."""

    __slots__ = ("called", "forward", "kind", "origin", "parts", "path")
    lisp_type = "model"

    def __init__(self, kind: str, origin: Origin) -> None:
        self.kind = kind
        self.origin = origin
        self.parts: dict[str, Part] = {}
        self.forward: Function | None = None
        self.path: str | None = None
        self.called = False

    @property
    def original(self) -> Model:
        """Itself; of one on other tensors, the model that was made."""
        return self

    def add(self, name: str, part: Part) -> None:
        if name in self.parts:
            raise here(codes.E_PARAM_002, f"the model {self.kind} has two parts called {name}")
        self.parts[name] = part

    def lisp_print(self) -> str:
        where = f" {self.path}" if self.path else ""
        return f"#<model {self.kind}{where}>"

    def lisp_function(self) -> Function | None:
        forward = self.forward
        if forward is None:
            return None
        return Function(
            self.kind,
            self.call,
            forward.minimum,
            forward.maximum,
            forward.lambda_list,
            forward.doc,
            forward.origin,
        )

    def call(self, *arguments: Any) -> Any:
        assert self.forward is not None
        if not TRACES:
            raise outside(f"the model {self.kind}")
        trace = TRACES[-1]
        self.called = True
        trace.enter_model(self.kind if self.path is None else self.path)
        try:
            if trace.remat == "full" and self.path:  # the whole model kept nothing anyway
                result = values_of(recomputed(self.forward, arguments))
            else:
                result = self.forward.call(*arguments)
            output = result if isinstance(result, Tensor) else None
            if output is not None and output.trace is trace and self.path:
                trace.watch(f"act/{self.path}", output.value, ACTIVATION)
            return result
        finally:
            trace.leave_model()


def tensor_like(trace: Trace, value: Any, type: TensorType) -> Tensor | None:
    """The new value of a place that holds `type`: a tensor, or a number that fills it; None for
    anything else."""
    if isinstance(value, Tensor | TensorSource):
        return resolve(value)
    if not is_number(value) or (type.dtype not in FLOATS and value != int(value)):
        return None
    trace.locate()
    return wrap(trace.full(value, type.shape, type.dtype))


def _stack_call(model: Model, edges: bool) -> Callable[..., Any]:
    def run(first: Any, *others: Any) -> Any:
        trace = TRACES[-1]
        rest: tuple[Any, ...] = ()
        for name, part in model.parts.items():
            function = as_function(part)
            if edges and trace.remat == "blocks":
                values = recomputed(function, [first, *others])
            else:
                values = values_list(call_values(function, first, *others))
            first, rest = (values[0], tuple(values[1:])) if values else (NIL, ())
            if edges and isinstance(first, Tensor):
                trace.locate()
                value = trace.emit("boundary", first.value, key=f"{model.path}/{name}")
                first = Tensor(value, trace, first.origin)
        return values_of([first, *rest])

    return run


def make_stack(kind: str, parts: dict[str, Part], origin: Origin, edges: bool) -> Model:
    """A model that threads its first value through its parts and passes them the others.
    `edges`: the parts are alike, and the graph marks where one ends and the next begins."""
    model = Model(kind, origin)
    for name, part in parts.items():
        if not isinstance(part, Model | Function):
            raise here(
                codes.E_PARAM_001,
                f"{kind}: a model or a function was expected, not {print_value(part)}",
                fix="(stack-tensors (list a b)) joins tensors along a new axis"
                if is_tensor(part)
                else None,
            )
        model.add(name, part)
    model.forward = Function(
        kind, _stack_call(model, edges), 1, None, "(x &rest others)", "", origin.span
    )
    return model


# -- paths ------------------------------------------------------------------------------------


class Tree:
    """The run's model with every part's path: the first path names a part, others are aliases."""

    __slots__ = ("aliases", "buffers", "models", "parameters", "root")

    def __init__(self, root: Model) -> None:
        self.root = root
        self.parameters: dict[str, Parameter] = {}
        self.buffers: dict[str, Buffer] = {}
        self.models: dict[str, Model] = {}
        self.aliases: dict[str, list[str]] = {}
        self._walk(root, "")

    def _walk(self, model: Model, path: str) -> None:
        model = model.original
        seen = model.path is not None and self.models.get(model.path) is model
        if seen:
            self._alias(model, path)
            return
        model.path = path
        self.models[path] = model
        for name, part in model.parts.items():
            below = f"{path}/{name}" if path else name
            if isinstance(part, Model):
                self._walk(part, below)
            elif isinstance(part, Parameter):
                table: dict[str, Any] = (
                    self.buffers if isinstance(part, Buffer) else self.parameters
                )
                if part.path is not None and table.get(part.path) is part:
                    self.aliases.setdefault(part.path, []).append(below)
                else:
                    part.path = below
                    table[below] = part

    def _alias(self, model: Model, path: str) -> None:
        for inner, part in walk(model):
            if isinstance(part, Parameter) and part.path is not None:
                self.aliases.setdefault(part.path, []).append(f"{path}/{inner}" if path else inner)


def walk(model: Model, prefix: str = "") -> Iterator[tuple[str, Part]]:
    """(path below the model, part) of every part, depth first, in order."""
    for name, part in model.parts.items():
        path = f"{prefix}{name}"
        yield path, part
        if isinstance(part, Model):
            yield from walk(part, f"{path}/")


# -- functions on models ----------------------------------------------------------------------


def model_of(value: Any, what: str) -> Model:
    """The value, if it is a model; else E-PARAM-003."""
    if isinstance(value, Model):
        return value
    raise here(codes.E_PARAM_003, f"{what}: a model was expected, not {print_value(value)}")


def _find(model: Any, path: Any, what: str) -> Part:
    model = model_of(model, what)
    if not isinstance(path, String):
        raise here(codes.E_PARAM_003, f"{what}: a path is a string, not {print_value(path)}")
    at: Part = model
    for name in path.text.split("/"):
        if not isinstance(at, Model) or name not in at.parts:
            known = [p for p, part in walk(model) if what == "part" or isinstance(part, Parameter)]
            raise here(
                codes.E_PARAM_003,
                f"{what}: the model {model.kind} has nothing at {path.text}",
                did_you_mean(path.text, known) or ("it has " + ", ".join(known[:12])),
            )
        at = at.parts[name]
    return at


@builtin("part", "(model path)", layer=TENSOR, chapter="models")
def part(model: Any, path: Any) -> Any:
    """The part (model or parameter) of MODEL at PATH, such as "body/3/attn"."""
    return _find(model, path, "part")


@builtin("param", "(model path)", layer=TENSOR, chapter="models")
def param(model: Any, path: Any) -> Any:
    """The parameter of MODEL at PATH, usable as a tensor in a traced function."""
    found = _find(model, path, "param")
    if not isinstance(found, Parameter):
        raise here(codes.E_PARAM_003, f"param: {print_value(path)} is a model, not a parameter")
    return found


@builtin("params", "(model)", layer=TENSOR, chapter="models")
def params(model: Any) -> Any:
    """The list of MODEL's trainable parameters, each once, in order of declaration."""
    return lisp_list(trainable_parameters(model_of(model, "params")))


def trainable_parameters(model: Model) -> list[Parameter]:
    """A model's trainable parameters, each once, in order of declaration."""
    found: dict[Parameter, Parameter] = {}
    for _, item in walk(model):
        if isinstance(item, Parameter) and not isinstance(item, Buffer) and item.trainable:
            found.setdefault(item.original, item)
    return list(found.values())

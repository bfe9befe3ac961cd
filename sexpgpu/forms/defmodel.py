"""defmodel, and the forms that make models of models: repeat and stack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.diagnostics.codes import lisp as lisp_codes
from sexpgpu.diagnostics.codes import parameters as codes
from sexpgpu.diagnostics.model import Diagnostic, Label
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.forms.host import CELL_VALUE
from sexpgpu.forms.models import Buffer, Model, Parameter, make_stack
from sexpgpu.forms.parse import (
    IF,
    LAMBDA,
    LET,
    PROGN,
    call,
    here,
    init_form,
    is_keyword,
    is_list,
    is_name,
    keyword_forms,
    placed,
    shape_form,
    shape_of,
    value_form,
)
from sexpgpu.ir.types import DTYPES, FLOATS
from sexpgpu.lisp.calls import call as call_function
from sexpgpu.lisp.hostforms import FLET_VALUES, Context, host_macro, quoted
from sexpgpu.lisp.printer import prin1_text as print_value
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.spans import car_span, span_of
from sexpgpu.lisp.state import STATE, current_origin
from sexpgpu.lisp.values import (
    CL,
    NIL,
    TENSOR,
    Cons,
    Foreign,
    Function,
    String,
    Symbol,
    T,
    lisp_list,
    new_cons,
    python_list,
)
from sexpgpu.trace.context import TRACES
from sexpgpu.trace.tensor import is_tensor

DEFUN = CL.own("defun")
SYMBOL_MACROLET = CL.own("symbol-macrolet")
PARAM_KEYS = ("init", "dtype", "trainable", "when", "tags")
BUFFER_KEYS = ("init", "dtype", "per")


@host_macro(
    "defmodel", "(name lambda-list [doc] clause… (forward lambda-list body…))", layer=TENSOR
)
def defmodel(form: Any, context: Context) -> Any:
    """Define a constructor of models: an ordinary function that returns a model.

    Clauses run in order when a model is constructed, each seeing the ones before:
    (defparam name shape &key init dtype trainable when tags), (submodel name form [:when test]),
    (defbuffer name shape &key init dtype per), or a form run for its effect. `forward` comes last
    and is what the model does when it is called."""
    rest = form.cdr
    if not isinstance(rest, Cons) or not is_name(rest.car) or not isinstance(rest.cdr, Cons):
        raise context.error(
            codes.E_PARAM_001,
            "defmodel: a name and a lambda list were expected",
            fix="write (defmodel name (…) clause… (forward (x) …))",
        )
    name, lambda_list = rest.car, rest.cdr.car
    clauses = rest.cdr.cdr
    doc: list[Any] = []
    if isinstance(clauses, Cons) and isinstance(clauses.car, String) and clauses.cdr is not NIL:
        doc, clauses = [clauses.car], clauses.cdr
    model = Symbol("model")
    names: dict[str, Any] = {}
    body = _clauses(clauses, model, name.name, names, context)
    constructed = call(_construct, quoted(name.name), lisp_list([LAMBDA, lisp_list([model]), body]))
    return lisp_list([DEFUN, name, lambda_list, *doc, constructed])


def _clauses(at: Any, model: Symbol, kind: str, names: dict[str, Any], context: Context) -> Any:
    if not isinstance(at, Cons):
        raise context.error(
            codes.E_PARAM_001,
            f"the model {kind} has no forward",
            fix="end the model with (forward (x) …)",
        )
    clause = at.car
    place = car_span(at)
    head = clause.car.name if isinstance(clause, Cons) and isinstance(clause.car, Symbol) else ""
    if head == "forward":
        if at.cdr is not NIL:
            raise context.error(
                codes.E_PARAM_001, f"the model {kind}: forward comes last", at=clause
            )
        if not isinstance(clause.cdr, Cons):
            raise context.error(codes.E_PARAM_001, "forward: a lambda list was expected", at=clause)
        return call(_set_forward, model, placed(new_cons(LAMBDA, clause.cdr), clause))
    handler = _CLAUSES.get(head)
    if handler is None:
        return lisp_list([PROGN, clause, _clauses(at.cdr, model, kind, names, context)])
    if not isinstance(clause.cdr, Cons) or not is_name(clause.cdr.car):
        raise context.error(codes.E_PARAM_001, f"{head}: a name was expected", at=place)
    _check_name(clause, names, kind, head, context)
    return handler(clause, model, context, lambda: _clauses(at.cdr, model, kind, names, context))


def _check_name(clause: Any, names: dict[str, Any], kind: str, head: str, context: Context) -> None:
    symbol = clause.cdr.car
    place = car_span(clause.cdr) or span_of(clause)
    if symbol.name in names:
        raise context.error(
            codes.E_PARAM_002, f"the model {kind} has two parts called {symbol.name}", at=place
        )
    names[symbol.name] = place
    if head != "submodel":
        return
    if symbol.module is CL:
        raise context.error(
            codes.E_PARAM_002,
            f"a submodel may not be called {symbol.name}: it is an operator of Common Lisp",
            at=place,
            fix="choose another name, such as " + symbol.name + "1",
        )
    if symbol.module is TENSOR and STATE.session is not None:
        STATE.session.warn(
            Diagnostic(
                lisp_codes.W_NAME_001,
                f"the submodel {symbol.name} hides the tensor operation of that name in this model",
                [Label(place)] if place else [],
            )
        )


def _param_clause(clause: Any, model: Any, context: Context, rest: Callable[[], Any]) -> Any:
    name = clause.cdr.car
    if not isinstance(clause.cdr.cdr, Cons):
        raise context.error(
            codes.E_PARAM_001, f"defparam {name.name}: a shape was expected", at=clause
        )
    shape = clause.cdr.cdr.car
    keys = keyword_forms(clause.cdr.cdr.cdr, PARAM_KEYS, context, f"defparam {name.name}")
    made = placed(
        call(
            _make_parameter,
            model,
            quoted(name.name),
            shape_form(shape),
            value_form(*keys["dtype"]) if "dtype" in keys else NIL,
            init_form(keys, context),
            value_form(*keys["trainable"]) if "trainable" in keys else T,
            value_form(*keys["tags"]) if "tags" in keys else NIL,
        ),
        clause,
    )
    if "when" in keys:
        made = lisp_list([IF, value_form(*keys["when"]), made, NIL])
    return lisp_list([LET, lisp_list([lisp_list([name, made])]), rest()])


def _buffer_clause(clause: Any, model: Any, context: Context, rest: Callable[[], Any]) -> Any:
    name = clause.cdr.car
    if not isinstance(clause.cdr.cdr, Cons):
        raise context.error(
            codes.E_PARAM_001, f"defbuffer {name.name}: a shape was expected", at=clause
        )
    keys = keyword_forms(clause.cdr.cdr.cdr, BUFFER_KEYS, context, f"defbuffer {name.name}")
    made = placed(
        call(
            _make_buffer,
            model,
            quoted(name.name),
            shape_form(clause.cdr.cdr.car),
            value_form(*keys["dtype"]) if "dtype" in keys else NIL,
            init_form(keys, context),
            value_form(*keys["per"]) if "per" in keys else NIL,
        ),
        clause,
    )
    cell = Symbol(name.name)
    return lisp_list(
        [
            LET,
            lisp_list([lisp_list([cell, made])]),
            lisp_list(
                [
                    SYMBOL_MACROLET,
                    lisp_list([lisp_list([name, lisp_list([CELL_VALUE, cell])])]),
                    rest(),
                ]
            ),
        ]
    )


def _submodel_clause(clause: Any, model: Any, context: Context, rest: Callable[[], Any]) -> Any:
    name = clause.cdr.car
    if not isinstance(clause.cdr.cdr, Cons):
        raise context.error(
            codes.E_PARAM_001, f"submodel {name.name}: a form was expected", at=clause
        )
    keys = keyword_forms(clause.cdr.cdr.cdr, ("when",), context, f"submodel {name.name}")
    made = placed(call(_add_submodel, model, quoted(name.name), clause.cdr.cdr.car), clause)
    if "when" in keys:
        made = lisp_list([IF, value_form(*keys["when"]), made, NIL])
    return lisp_list(
        [
            LET,
            lisp_list([lisp_list([name, made])]),
            lisp_list([FLET_VALUES, lisp_list([lisp_list([name, name])]), rest()]),
        ]
    )


_CLAUSES = {"defparam": _param_clause, "defbuffer": _buffer_clause, "submodel": _submodel_clause}


# -- what the expansion calls -----------------------------------------------------------------


_DEEPEST = 100  # of a model within models of its kind: far more than anybody means
_UNDER_WAY: list[str] = []


def _construct(kind: str, fill: Function) -> Model:
    if TRACES:
        raise here(
            codes.E_PARAM_006,
            f"the model {kind} is built inside a traced function",
            "build it once, in a submodel clause or at top level",
        )
    if _UNDER_WAY.count(kind) == _DEEPEST:
        raise here(
            codes.E_PARAM_010,
            f"the model {kind} is being made inside itself, {_DEEPEST} deep",
            f"let its clauses end: give {kind} a depth that falls, and a :when",
        )
    model = Model(kind, current_origin())
    _UNDER_WAY.append(kind)
    try:
        call_function(fill, model)
    finally:
        _UNDER_WAY.pop()
    return model


def _set_forward(model: Model, forward: Function) -> Any:
    forward.name = model.kind
    model.forward = forward
    return NIL


def _buffer_dtype(dtype: Any, what: str) -> str:
    if dtype is NIL:
        return "f32"
    if is_keyword(dtype) and dtype.name in DTYPES:
        return dtype.name
    raise here(
        codes.E_PARAM_004,
        f"{what}: a dtype was expected, not {print_value(dtype)}",
        did_you_mean(print_value(dtype), [f":{d}" for d in DTYPES]),
    )


def _float_dtype(dtype: Any, what: str) -> str:
    if dtype is NIL:
        return "f32"
    if is_keyword(dtype) and dtype.name in FLOATS:
        return dtype.name
    raise here(
        codes.E_PARAM_004, f"{what}: a parameter's dtype is a float, not {print_value(dtype)}"
    )


def _make_parameter(
    model: Model, name: str, shape: Any, dtype: Any, init: Any, trainable: Any, tags: Any
) -> Parameter:
    what = f"defparam {name}"
    words = python_list(tags) if is_list(tags) else [tags]
    if not all(is_keyword(w) for w in words):
        raise here(codes.E_PARAM_004, f"{what}: :tags takes keywords, not {print_value(tags)}")
    wanted = _float_dtype(dtype, what)
    if wanted == "f64":
        raise here(
            codes.E_PARAM_004,
            f"{what}: parameters are kept and updated in f32; they cannot be f64",
            "leave :dtype out, and cast where a computation needs f64: (cast w :f64)",
        )
    made = Parameter(
        name,
        shape_of(shape, what, minimum=1),
        wanted,
        None if init is NIL else init,
        trainable is not NIL,
        tuple(w.name for w in words),
        current_origin(),
    )
    model.add(name, made)
    return made


class BufferCell(Foreign):
    """The place of a buffer in its model's body."""

    __slots__ = ("buffer",)
    lisp_type = "buffer"

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer

    def read(self) -> Any:
        return self.buffer

    def write(self, value: Any) -> Any:
        return self.buffer.assign(value)


def _make_buffer(
    model: Model, name: str, shape: Any, dtype: Any, init: Any, per: Any
) -> BufferCell:
    what = f"defbuffer {name}"
    if per is not NIL and not (is_keyword(per) and per.name == "example"):
        raise here(codes.E_PARAM_004, f"{what}: :per takes :example, not {print_value(per)}")
    made = Buffer(
        name,
        shape_of(shape, what, minimum=1),
        _buffer_dtype(dtype, what),
        None if init is NIL else init,
        False,
        (),
        current_origin(),
    )
    made.per_example = per is not NIL
    model.add(name, made)
    return BufferCell(made)


def _add_submodel(model: Model, name: str, part: Any) -> Any:
    if isinstance(part, Function):
        return part
    if not isinstance(part, Model):
        raise here(
            codes.E_PARAM_001,
            f"submodel {name}: a model or a function was expected, not {print_value(part)}",
        )
    model.add(name, part)
    return part


# -- repeat and stack -------------------------------------------------------------------------


@host_macro("repeat", "(n form &key index)", layer=TENSOR)
def repeat(form: Any, context: Context) -> Any:
    """A model of N models made by evaluating FORM N times, each applied to the last's first value.

    (repeat 12 (layer width) :index i) binds I to 0, 1, … while FORM is evaluated. The parts are
    called 0, 1, … in paths; further arguments go to every part."""
    if not isinstance(form.cdr, Cons) or not isinstance(form.cdr.cdr, Cons):
        raise context.error(
            codes.E_PARAM_001,
            "repeat: a number and a form were expected",
            fix="(repeat n (layer …))",
        )
    keys = keyword_forms(form.cdr.cdr.cdr, ("index",), context, "repeat")
    index = keys["index"][0] if "index" in keys else Symbol("index")
    if not is_name(index):
        raise context.error(codes.E_PARAM_001, "repeat: :index takes a variable's name")
    ignorable = lisp_list([CL.own("declare"), lisp_list([CL.own("ignorable"), index])])
    make = lisp_list([LAMBDA, lisp_list([index]), ignorable, form.cdr.cdr.car])
    return call(_repeat, form.cdr.car, make)


_PART_FUEL = 100  # a part is far more than a step: an absurd count must end in a limit at once


def _repeat(count: Any, make: Function) -> Model:
    if not isinstance(count, int) or count < 1:
        raise here(
            codes.E_PARAM_001,
            f"repeat: a positive integer was expected, not {print_value(count)}",
            fix="repeat makes a model of n layers; tensors: (repeat-elements x n), (tile x reps)"
            if is_tensor(count)
            else None,
        )
    parts: dict[str, Any] = {}
    for i in range(count):
        STATE.charge(_PART_FUEL)
        parts[str(i)] = call_function(make, i)
    return make_stack("repeat", parts, current_origin(), edges=count > 1)


@builtin("stack", "(&rest models)", layer=TENSOR, chapter="models")
def stack(*models: Any) -> Any:
    """A model that applies models in turn: (stack m…), or named, (stack :stem m :head m).

    Each gets the first value of the one before and the further arguments of the call; plain
    functions may be among them. Unnamed parts are called 0, 1, … in paths."""
    if models and is_keyword(models[0]):
        if len(models) % 2 or not all(is_keyword(k) for k in models[::2]):
            raise here(codes.E_PARAM_001, "stack: a model was expected after each name")
        names = [k.name for k in models[::2]]
        if len(set(names)) < len(names):
            raise here(codes.E_PARAM_002, "stack: two parts have one name")
        parts = dict(zip(names, models[1::2], strict=True))
    else:
        parts = {str(i): m for i, m in enumerate(models)}
    return make_stack("stack", parts, current_origin(), edges=False)

"""defoptimizer and what its body may ask about the parameter at hand."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sexpgpu.diagnostics.codes import parameters as codes
from sexpgpu.forms.host import CELL_VALUE
from sexpgpu.forms.optimizers import Body, Optimizer, StateCell, body
from sexpgpu.forms.parse import (
    IF,
    LAMBDA,
    LET,
    LIST,
    PROGN,
    call,
    here,
    is_keyword,
    is_list,
    is_name,
    keyword_forms,
    placed,
    shape_of,
    state_form,
    uncalled,
    value_form,
)
from sexpgpu.ir.types import DTYPES, FLOATS, SCALAR_F32, TensorType
from sexpgpu.lisp.hostforms import Context, host_macro, quoted
from sexpgpu.lisp.printer import prin1_text as print_value
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.spans import car_span
from sexpgpu.lisp.state import current_origin
from sexpgpu.lisp.values import (
    CL,
    NIL,
    TENSOR,
    Cons,
    Function,
    String,
    Symbol,
    keyword,
    lisp_list,
    new_cons,
    python_list,
)
from sexpgpu.trace.tensor import Tensor, TensorSource, resolve, wrap

DEFUN = CL.own("defun")
SYMBOL_MACROLET = CL.own("symbol-macrolet")
MARKERS = ("&optional", "&key", "&rest", "&allow-other-keys", "&aux")


@host_macro(
    "defoptimizer", "(name lambda-list [doc] clause… (optimizer-update (p g) body…))", layer=TENSOR
)
def defoptimizer(form: Any, context: Context) -> Any:
    """Define a constructor of optimizers: an ordinary function that returns an optimizer.

    The whole body is evaluated once for each parameter. Clauses: (defstate name shape &key init
    dtype when), (evaluation-parameter (p) form) for the parameter that evaluation uses in place of
    P, and forms run for their effect or binding nothing. `optimizer-update` comes last: its body
    gets the parameter P and its gradient G, both f32, and returns the new parameter; it sets
    states with setf. A hyperparameter whose default is a number may be given as a schedule, a
    function of the step."""
    rest = form.cdr
    if not isinstance(rest, Cons) or not is_name(rest.car) or not isinstance(rest.cdr, Cons):
        raise context.error(
            codes.E_OPT_001,
            "defoptimizer: a name and a lambda list were expected",
            fix="write (defoptimizer name (&key (lr 0.1)) … (optimizer-update (p g) …))",
        )
    name, lambda_list, clauses = rest.car, rest.cdr.car, rest.cdr.cdr
    doc: list[Any] = []
    if isinstance(clauses, Cons) and isinstance(clauses.car, String) and clauses.cdr is not NIL:
        doc, clauses = [clauses.car], clauses.cdr
    outer, names, schedulable, auxiliary = _lambda_list(lambda_list, context)
    inner: Any = _clauses(clauses, name.name, context)
    if auxiliary:
        inner = lisp_list([CL.own("let*"), lisp_list(auxiliary), inner])
    made = call(
        _make,
        quoted(name.name),
        quoted([n.name for n in names]),
        quoted(frozenset(schedulable)),
        lisp_list([LIST, *names]),
        lisp_list([LAMBDA, lisp_list(names), inner]),
    )
    return lisp_list([DEFUN, name, outer, *doc, made])


def _lambda_list(form: Any, context: Context) -> tuple[Any, list[Symbol], list[str], list[Any]]:
    """The lambda list without &aux, its variables, the schedulable names, the &aux bindings."""
    kept: list[Any] = []
    names: list[Symbol] = []
    schedulable: list[str] = []
    auxiliary: list[Any] = []
    in_aux = False
    if not is_list(form):
        raise context.error(codes.E_OPT_001, "a malformed lambda list", at=form)
    for item in python_list(form):
        if isinstance(item, Symbol) and item.name in MARKERS:
            in_aux = item.name == "&aux"
            if not in_aux:
                kept.append(item)
            continue
        if in_aux:
            auxiliary.append(item)
            continue
        kept.append(item)
        variable, default = item, None
        if isinstance(item, Cons):
            variable = item.car
            default = item.cdr.car if isinstance(item.cdr, Cons) else None
            if isinstance(variable, Cons):
                variable = variable.cdr.car if isinstance(variable.cdr, Cons) else None
        if not isinstance(variable, Symbol):
            raise context.error(codes.E_OPT_001, "a malformed lambda list", at=form)
        names.append(variable)
        if isinstance(default, int | float | Fraction):
            schedulable.append(variable.name)
        if isinstance(item, Cons) and isinstance(item.cdr, Cons) and isinstance(item.cdr.cdr, Cons):
            supplied = item.cdr.cdr.car
            if not isinstance(supplied, Symbol):
                raise context.error(codes.E_OPT_001, "a malformed lambda list", at=form)
            names.append(supplied)
    return lisp_list(kept), names, schedulable, auxiliary


def _clauses(at: Any, kind: str, context: Context) -> Any:
    if not isinstance(at, Cons):
        raise context.error(
            codes.E_OPT_001,
            f"the optimizer {kind} has no optimizer-update",
            fix="end it with (optimizer-update (p g) …)",
        )
    clause = at.car
    head = clause.car.name if isinstance(clause, Cons) and isinstance(clause.car, Symbol) else ""
    if head == "optimizer-update":
        if at.cdr is not NIL:
            raise context.error(
                codes.E_OPT_001, f"the optimizer {kind}: optimizer-update comes last", at=clause
            )
        if not isinstance(clause.cdr, Cons):
            raise context.error(codes.E_OPT_001, "optimizer-update: (p g) was expected", at=clause)
        return call(_set_update, placed(new_cons(LAMBDA, clause.cdr), clause))
    if head == "evaluation-parameter":
        if not isinstance(clause.cdr, Cons):
            raise context.error(
                codes.E_OPT_001, "evaluation-parameter: (p) was expected", at=clause
            )
        made = call(_set_average, placed(new_cons(LAMBDA, clause.cdr), clause))
        return lisp_list([PROGN, made, _clauses(at.cdr, kind, context)])
    if head == "defstate":
        return _state_clause(clause, context, lambda: _clauses(at.cdr, kind, context))
    return lisp_list([PROGN, clause, _clauses(at.cdr, kind, context)])


def _state_clause(clause: Any, context: Context, rest: Callable[[], Any]) -> Any:
    if not isinstance(clause.cdr, Cons) or not is_name(clause.cdr.car):
        raise context.error(codes.E_OPT_001, "defstate: a name was expected", at=car_span(clause))
    name = clause.cdr.car
    if not isinstance(clause.cdr.cdr, Cons):
        raise context.error(
            codes.E_OPT_001, f"defstate {name.name}: a shape was expected", at=clause
        )
    keys = keyword_forms(
        clause.cdr.cdr.cdr, ("init", "dtype", "when"), context, f"defstate {name.name}"
    )
    made = placed(state_form(_make_state, name.name, clause.cdr.cdr.car, keys, context), clause)
    if "when" in keys:
        made = lisp_list([IF, value_form(*keys["when"]), made, NIL])
    cell = Symbol(name.name)
    place = lisp_list([lisp_list([name, lisp_list([CELL_VALUE, cell])])])
    return lisp_list(
        [LET, lisp_list([lisp_list([cell, made])]), lisp_list([SYMBOL_MACROLET, place, rest()])]
    )


# -- what the expansion calls -----------------------------------------------------------------


def _make(
    kind: str, names: list[str], schedulable: frozenset[str], values: Any, run: Function
) -> Optimizer:
    given = dict(zip(names, python_list(values) if values is not NIL else [], strict=True))
    made = Optimizer(kind, given, schedulable, run, current_origin())
    made.check()
    return made.lifted()


def _set_update(update: Function) -> Any:
    update.name = "optimizer-update"
    body("optimizer-update").update = update
    return NIL


def _set_average(function: Function) -> Any:
    function.name = "evaluation-parameter"
    body("evaluation-parameter").average = function
    return NIL


def _make_state(name: str, shape: Any, dtype: Any, init: Any) -> StateCell:
    at = body("defstate")
    what = f"defstate {name}"
    if dtype is not NIL and not (is_keyword(dtype) and dtype.name in DTYPES):
        raise here(codes.E_OPT_001, f"{what}: a dtype was expected, not {print_value(dtype)}")
    full = at.prefix + name
    if full in at.states:
        raise here(codes.E_OPT_001, f"{what}: the optimizer has two states of that name")
    type = TensorType(shape_of(shape, what), "f32" if dtype is NIL else dtype.name)
    origin = current_origin()
    value = Tensor(at.trace.input(f"state/{full}", type), at.trace, origin)
    cell = StateCell(full, type.shape, type.dtype, None if init is NIL else init, value, origin)
    at.states[full] = cell
    return cell


@builtin("param-shape", "()", layer=TENSOR, chapter="optimizers")
def param_shape() -> Any:
    """In an optimizer's body: the shape of the parameter at hand, a list of integers."""
    return lisp_list(list(body("param-shape").parameter.shape))


@builtin("param-rank", "()", layer=TENSOR, chapter="optimizers")
def param_rank() -> Any:
    """In an optimizer's body: the rank of the parameter at hand."""
    return len(body("param-rank").parameter.shape)


@builtin("param-path", "()", layer=TENSOR, chapter="optimizers")
def param_path() -> Any:
    """In an optimizer's body: the path of the parameter at hand, a string."""
    return String(body("param-path").ask().path or "")


@builtin("param-tags", "()", layer=TENSOR, chapter="optimizers")
def param_tags() -> Any:
    """In an optimizer's body: the tags of the parameter at hand, a list of keywords."""
    return lisp_list([keyword(tag) for tag in body("param-tags").ask().tags])


@builtin("update", "(optimizer p g)", layer=TENSOR, chapter="optimizers")
def update(optimizer: Any, p: Any, g: Any) -> Any:
    """In an optimizer-update: the parameter P after an update of another OPTIMIZER by the gradient
    G. Its states live under the name of the hyperparameter that holds it, as in `inner/m`."""
    at = body("update", updating=True)
    if not isinstance(optimizer, Optimizer):
        raise here(
            codes.E_OPT_001, f"update: an optimizer was expected, not {print_value(optimizer)}",
            uncalled(optimizer),
        )  # fmt: skip
    type = TensorType(at.parameter.shape, "f32")
    given: list[Tensor] = []
    for name, value in (("parameter", p), ("gradient", g)):
        made = resolve(value) if isinstance(value, Tensor | TensorSource) else None
        if made is None or not made.type.same_value(type):
            shown = str(made.type) if made is not None else print_value(value)
            raise here(codes.E_OPT_002, f"update: the {name} is {shown}, not {type}")
        given.append(made)
    inner = Body(at.trace, at.parameter, optimizer, at)
    if any(name.startswith(inner.prefix) for name in at.states):
        raise here(
            codes.E_OPT_001,
            f"update: the states {inner.prefix}… are there already",
            "an update calls each optimizer that it holds once",
        )
    inner.evaluate()
    return inner.apply(*given)


@builtin("global-sum", "(x)", layer=TENSOR, chapter="optimizers")
def global_sum(x: Any) -> Any:
    """In an optimizer-update: the scalar X summed over all parameters of the group, f32."""
    at = body("global-sum", updating=True)
    made = resolve(x) if isinstance(x, Tensor | TensorSource) else None
    if made is None or made.type.shape or made.type.dtype not in FLOATS:
        shown = str(made.type) if made is not None else print_value(x)
        raise here(
            codes.E_OPT_002, f"global-sum takes a scalar float tensor, not {shown}",
            "reduce it first: (global-sum (sum x))",
        )  # fmt: skip
    trace = at.trace
    trace.locate()
    part = made.value
    at.sums.append(part if part.dtype == "f32" else trace.emit("cast", part, dtype="f32"))
    return wrap(trace.input(f"global/{len(at.sums) - 1}", SCALAR_F32))


@builtin("global-grad-norm", "()", layer=TENSOR, chapter="optimizers")
def global_grad_norm() -> Any:
    """In an optimizer-update: the L2 norm of all gradients together, after clipping, f32."""
    at = body("global-grad-norm", updating=True)
    at.trace.locate()
    return wrap(at.trace.input("global/grad-norm", SCALAR_F32))


# (defstate v (param-shape)): in a shape position the list holds the variable param-shape, whose
# value, a list, is spliced.
TENSOR.own("param-shape").symbol_macro = lisp_list([TENSOR.own("param-shape")])

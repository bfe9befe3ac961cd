"""What the function `curriculum` may use besides ctx: stages by their names, and states."""

from __future__ import annotations

from typing import Any

from sexpgpu.diagnostics.codes import parameters as parameter_codes
from sexpgpu.diagnostics.codes import run as run_codes
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.forms.experiment import current
from sexpgpu.forms.host import CELL_VALUE, HOST
from sexpgpu.forms.optimizers import BODIES, StateCell
from sexpgpu.forms.parse import (
    here,
    is_keyword,
    is_name,
    keyword_forms,
    placed,
    shape_of,
    state_form,
)
from sexpgpu.ir.types import DTYPES, TensorType
from sexpgpu.lisp.hostforms import Context, host_macro, quoted
from sexpgpu.lisp.printer import prin1_text as print_value
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.scope import SymbolMacro, environment_scope
from sexpgpu.lisp.spans import car_span
from sexpgpu.lisp.state import current_origin
from sexpgpu.lisp.values import NIL, TENSOR, Cons, Function, Symbol, lisp_list
from sexpgpu.trace.context import TRACES, Trace
from sexpgpu.trace.errors import outside
from sexpgpu.trace.tensor import Tensor

KEYS = ("init", "dtype")


class Lesson:
    """A curriculum that is being traced, and its states by name."""

    __slots__ = ("states", "trace")

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.states: dict[str, StateCell] = {}


LESSONS: list[Lesson] = []


@builtin("stage", "(name)", layer=TENSOR, chapter="curriculum")
def stage(name: Any) -> Any:
    """The index of a stage of the training loader, from 0: what `curriculum` returns, and what
    (ctx :stage) is compared with."""
    if not TRACES:
        raise outside("stage")
    run = current().run
    form = None if run is None else current().loaders.get(run.run.train)
    stages = [] if form is None else [s.name for s in form.loader.stages]
    if not isinstance(name, Symbol) or name.name not in stages:
        listed = " ".join(f":{s}" for s in stages)
        raise here(
            run_codes.E_RUN_010,
            f"the training loader has no stage {print_value(name)}",
            did_you_mean(print_value(name), [f":{s}" for s in stages])
            or f"its stages are {listed}",
        )
    return stages.index(name.name)


@host_macro("defstate", "(name shape &key init dtype)", layer=TENSOR)
def defstate(form: Any, context: Context) -> Any:
    """In `curriculum`: a tensor that is kept from one run of it to the next, a place in the forms
    that follow in the same body; f32 zeros unless said. (A clause of defoptimizer is alike.)"""
    if not isinstance(form.cdr, Cons) or not is_name(form.cdr.car):
        raise context.error(run_codes.E_RUN_005, "defstate: a name was expected", at=car_span(form))
    name = form.cdr.car
    what = f"defstate {name.name}"
    scope = environment_scope(context.environment)
    if scope.top_level:
        raise context.error(
            run_codes.E_RUN_009,
            f"{what} has a meaning only in an optimizer and in curriculum",
            fix="write it in the body: (defun curriculum () (defstate best ()) …)",
        )
    if not isinstance(form.cdr.cdr, Cons):
        raise context.error(run_codes.E_RUN_005, f"{what}: a shape was expected")
    keys = keyword_forms(form.cdr.cdr.cdr, KEYS, context, what)
    # the forms that follow see the name as the place of the state
    cell = lisp_list([LESSON_CELL, quoted(name.name)])
    scope.define(name, SymbolMacro(lisp_list([CELL_VALUE, cell])))
    return placed(state_form(_make_state, name.name, form.cdr.cdr.car, keys, context), form)


def _make_state(name: str, shape: Any, dtype: Any, init: Any) -> Any:
    what = f"defstate {name}"
    if BODIES and not LESSONS:
        raise here(
            parameter_codes.E_OPT_005,
            f"{what} is a clause of defoptimizer, and stands in optimizer-update",
            "write it before optimizer-update",
        )
    if not LESSONS:
        raise here(
            run_codes.E_RUN_009, f"{what} has a meaning only in an optimizer and in curriculum"
        )
    lesson = LESSONS[-1]
    if dtype is not NIL and not (is_keyword(dtype) and dtype.name in DTYPES):
        raise here(run_codes.E_RUN_006, f"{what}: a dtype was expected, not {print_value(dtype)}")
    if name in lesson.states:
        raise here(run_codes.E_RUN_003, f"{what}: the curriculum has two states of that name")
    type = TensorType(shape_of(shape, what), "f32" if dtype is NIL else dtype.name)
    origin = current_origin()
    value = Tensor(lesson.trace.input(f"state/{name}", type), lesson.trace, origin)
    given = None if init is NIL else init
    lesson.states[name] = StateCell(
        name, type.shape, type.dtype, given, value, origin, run_codes.E_RUN_012
    )
    return NIL


def _cell(name: str) -> Any:
    found = LESSONS[-1].states.get(name) if LESSONS else None
    if found is None:
        raise here(run_codes.E_RUN_009, f"the state {name} is used before its defstate")
    return found


LESSON_CELL = HOST.own("lesson-cell")
LESSON_CELL.function = Function("lesson-cell", _cell, 1, 1, "(name)")

"""Statistics of a loader's field, as tensors."""

from __future__ import annotations

from typing import Any

from sexpgpu.diagnostics.codes import data as data_codes
from sexpgpu.diagnostics.codes import run as run_codes
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.forms.experiment import current
from sexpgpu.forms.parse import here
from sexpgpu.ir.types import TensorType
from sexpgpu.lisp.printer import prin1_text as print_value
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.values import TENSOR, Symbol
from sexpgpu.trace.context import TRACES
from sexpgpu.trace.errors import outside
from sexpgpu.trace.tensor import Tensor, wrap

KINDS = ("mean", "std", "min", "max")


@builtin("statistic", "(loader field what)", layer=TENSOR, chapter="sources")
def statistic(loader: Any, field: Any, what: Any) -> Tensor:
    """(statistic :train :x :mean): a tensor of a field's shape, f32, in any traced function. WHAT
    is :mean, :std (of the population), :min or :max, element by element, over every record of a
    loader (of its first stage). Taken once, before the first step, and kept in checkpoints."""
    if not TRACES:
        raise outside("statistic")
    trace = TRACES[-1]
    trace.locate()
    loaders = current().loaders
    form = loaders.get(_name(loader))
    if form is None:
        raise here(
            data_codes.E_DATA_002,
            f"statistic: there is no loader {print_value(loader)}",
            did_you_mean(print_value(loader), [f":{name}" for name in loaders]),
        )
    fields = {f.name: f for f in form.loader.stages[0].fields}
    found = fields.get(_name(field))
    if found is None:
        raise here(
            data_codes.E_DATA_002,
            f"statistic: the loader {form.loader.name} has no field {print_value(field)}",
            did_you_mean(print_value(field), [f":{name}" for name in fields])
            or "its fields are " + " ".join(f":{name}" for name in fields),
        )
    kind = _name(what)
    if kind not in KINDS:
        listed = [f":{k}" for k in KINDS]
        raise here(
            run_codes.E_RUN_006,
            f"statistic: {print_value(what)} is none of {' '.join(listed)}",
            did_you_mean(print_value(what), listed),
        )
    name = f"statistic/{form.loader.name}/{found.name}/{kind}"
    return wrap(trace.input(name, TensorType(found.shape, "f32")))


def _name(value: Any) -> str:
    return value.name if isinstance(value, Symbol) else ""

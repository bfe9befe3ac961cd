"""The mistakes of newcomers, recognised from a diagnostic and the text around its place.

A general message says what is wrong; these rules say what the writer most likely meant, name the
habit behind it, and add an edit: safe where nothing else can have been meant. Knows only texts and
codes; runs after compiling, so that it costs nothing where nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from sexpgpu.diagnostics.codes import lisp, read, run, tensor
from sexpgpu.diagnostics.mistakes import functions, reading, values, variables
from sexpgpu.diagnostics.mistakes.mend import Mend, Rule
from sexpgpu.diagnostics.model import Code, Diagnostic, Edit, Label
from sexpgpu.source import Span


def mend(diagnostics: Sequence[Diagnostic]) -> None:
    """Give each diagnostic the fix and edits of the first rule of its code that knows it."""
    for found in diagnostics:
        span = found.span
        if span is None or span.source.standard or found.edits:
            continue
        for rule in RULES.get(found.code, ()):
            made = rule(found, span)
            if made is not None:
                _give(found, span, made)
                break


def _give(found: Diagnostic, span: Span, made: Mend) -> None:
    found.fix = made.fix
    if made.place is not None:
        found.labels[0] = Label(Span(span.source, *made.place), found.labels[0].text)
    found.edits = [
        Edit(Span(span.source, start, end), text, made.safe) for start, end, text in made.edits
    ]


RULES: dict[Code, tuple[Rule, ...]] = {
    lisp.E_NAME_001: (
        variables.python_constant, variables.underscored_number, variables.brackets,
        variables.subscript, variables.attribute, variables.keyword_argument, variables.assignment,
        variables.prefixed_string, variables.field_name, variables.setq_first,
        variables.cond_clause, variables.quoted_shape, variables.called_shape,
        variables.bare_metric, variables.let_closed_late,
        variables.flat_let, variables.near_variable,
    ),
    lisp.E_NAME_002: (
        functions.call_behind_name, functions.dotted, functions.scheme_define, functions.for_loop,
        functions.variable_called, functions.other_name,
    ),
    lisp.W_NAME_002: (
        functions.call_behind_name, functions.dotted, functions.scheme_define, functions.for_loop,
        functions.variable_called, functions.other_name,
    ),
    lisp.E_NAME_004: (values.operator_name,),
    lisp.E_TYPE_001: (variables.flat_let,),
    lisp.E_ARG_001: (values.axis_by_place,),
    lisp.E_ARG_002: (values.keyword_left_out, values.keyword_name),
    lisp.E_ARG_003: (values.bare_parameter,),
    lisp.E_ARG_004: (values.unquoted_list, values.early_return, values.several_branches),
    lisp.E_MOD_003: (reading.quoted_path,),
    lisp.E_COND_001: (values.labels_first, values.batch_lost, values.float_labels),
    read.E_READ_002: (reading.extra_parenthesis,),
    read.E_READ_005: (reading.hash_comment,),
    read.E_READ_006: (reading.double_colon,),
    read.E_READ_007: (reading.missing_alias, reading.layer_name),
    read.E_READ_008: (reading.comma,),
    run.E_RUN_002: (values.key_of_form,),
    run.E_RUN_006: (values.quoted_value, values.whole_float),
    run.E_OPT_001: (values.quoted_value,),
    tensor.E_OP_001: (variables.flat_let,),
    tensor.E_SHAPE_002: (values.all_flattened,),
    tensor.E_SHAPE_003: (values.averaged_twice,),
}  # fmt: skip
"""The rules of each code, in the order in which they are asked."""

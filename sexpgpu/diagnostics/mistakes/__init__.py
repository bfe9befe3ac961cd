"""The mistakes of newcomers, recognised from a diagnostic and the text around its place.

A general message says what is wrong; these rules say what the writer most likely meant, name the
habit behind it, and add an edit: safe where nothing else can have been meant. Knows only texts and
codes; runs after compiling, so that it costs nothing where nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from sexpgpu.diagnostics.codes import data, lisp, parameters, read, run, tensor
from sexpgpu.diagnostics.mistakes import (
    declarations,
    elsewhere,
    functions,
    reading,
    tensors,
    values,
    variables,
)
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


_FUNCTIONS: tuple[Rule, ...] = (
    functions.call_behind_name, functions.dotted, functions.scheme_define, functions.for_loop,
    elsewhere.table_source, elsewhere.array_file, elsewhere.advised, tensors.set_element,
    tensors.field_of_batch, variables.quoted_function, functions.variable_called,
    functions.other_name,
)  # fmt: skip

RULES: dict[Code, tuple[Rule, ...]] = {
    lisp.E_NAME_001: (
        variables.python_constant, variables.underscored_number, variables.float_suffix,
        variables.typographic_quotes, variables.slashes_comment, variables.python_statement,
        variables.field_in_brackets, tensors.set_element, variables.brackets,
        variables.subscript, variables.attribute, variables.keyword_argument, variables.assignment,
        variables.prefixed_string, variables.no_infinity, elsewhere.bare_dtype,
        elsewhere.advised_name, variables.field_name, variables.setq_first,
        variables.cond_clause, variables.quoted_shape, variables.called_shape,
        declarations.listed_shape, variables.state_shape, variables.clause_in_forward,
        variables.bare_metric, variables.flat_let, variables.let_closed, variables.near_variable,
    ),
    lisp.E_NAME_002: _FUNCTIONS,
    lisp.W_NAME_002: _FUNCTIONS,
    lisp.E_NAME_004: (values.operator_name,),
    lisp.E_TYPE_001: (
        variables.flat_let, tensors.field_of_batch, tensors.set_element, tensors.tensor_spread,
        tensors.tensor_coerced, tensors.array_made, values.stream_first, values.model_first,
    ),
    lisp.E_ARG_001: (
        tensors.shape_by_place, values.axis_by_place, tensors.axes_by_place, tensors.extent,
        tensors.axes_swapped, tensors.third_operand, tensors.tensor_element, values.part_called,
    ),
    lisp.E_ARG_002: (
        values.layer_argument, values.model_uncalled, values.keyword_left_out, values.keyword_name,
    ),
    lisp.E_ARG_003: (values.bare_parameter,),
    lisp.E_ARG_004: (
        tensors.subscript_range, values.unquoted_list, values.early_return,
        values.several_branches, values.knob_assigned, values.loop_range,
    ),
    lisp.E_MOD_001: (reading.module_path,),
    lisp.E_MOD_003: (reading.require_options, reading.quoted_path),
    lisp.E_COND_001: (
        values.labels_first, values.batch_lost, tensors.argmax_first, values.float_labels,
        tensors.one_shape, tensors.tensor_coerced, tensors.array_made,
    ),
    read.E_READ_001: (reading.commented_parenthesis,),
    read.E_READ_002: (reading.extra_parenthesis,),
    read.E_READ_005: (reading.hash_comment,),
    read.E_READ_006: (reading.double_colon, reading.trailing_colon),
    read.E_READ_007: (reading.missing_alias, reading.layer_name),
    read.E_READ_008: (reading.comma,),
    run.E_RUN_002: (elsewhere.key_elsewhere, values.key_of_form),
    run.E_RUN_005: (
        declarations.clause_by_place, declarations.loader_name, declarations.field_form,
    ),
    run.E_RUN_006: (
        values.quoted_value, declarations.whole_float, elsewhere.dtype_name,
        declarations.optimizer_value, declarations.checkpoint_value, elsewhere.table_source,
        declarations.source_path,
    ),
    parameters.E_OPT_001: (values.quoted_value,),
    parameters.E_PARAM_001: (declarations.submodel_name, declarations.part_of_stack),
    parameters.E_PARAM_004: (declarations.initial_value,),
    data.E_DATA_001: (elsewhere.table_source, elsewhere.array_file, declarations.source_folder),
    data.E_DATA_003: (declarations.batch_declared,),
    data.E_DATA_005: (
        elsewhere.dtype_name, declarations.inline_lists, declarations.distribution,
    ),
    tensor.E_FLOW_002: (values.parameter_set,),
    tensor.E_DTYPE_004: (elsewhere.dtype_name,),
    tensor.E_OP_001: (
        variables.flat_let, tensors.greatest, tensors.model_as_tensor, tensors.numbers_as_tensor,
        tensors.equation_first, tensors.subscript_range, values.schedule_by_default,
    ),
    tensor.E_SHAPE_002: (values.all_flattened,),
    tensor.E_SHAPE_003: (values.averaged_twice,),
    tensor.E_SHAPE_008: (tensors.quoted_sizes,),
}  # fmt: skip
"""The rules of each code, in the order in which they are asked."""

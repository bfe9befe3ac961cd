"""optimizer-groups: an optimizer with exceptions, and the selectors that say for whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.diagnostics.codes import parameters as codes
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.forms.callbacks import call_given
from sexpgpu.forms.models import Parameter
from sexpgpu.forms.optimizers import GroupForm, Optimizer
from sexpgpu.forms.parse import (
    FUNCTION,
    LAMBDA,
    LET,
    LIST,
    call,
    check_name,
    here,
    is_keyword,
    is_list,
    is_name,
    placed,
    uncalled,
    value_form,
)
from sexpgpu.ir.paths import glob_matches
from sexpgpu.ir.types import DTYPES
from sexpgpu.lisp.calls import truth
from sexpgpu.lisp.hostforms import Context, host_macro, quoted
from sexpgpu.lisp.printer import prin1_text as print_value
from sexpgpu.lisp.spans import car_span, span_of
from sexpgpu.lisp.state import current_origin
from sexpgpu.lisp.values import (
    NIL,
    TENSOR,
    Cons,
    Function,
    String,
    Symbol,
    keyword,
    lisp_list,
    python_list,
)

Test = Callable[[Parameter], bool]
OPTIONS = ("frozen", "optimizer", "every", "clip-norm")
BASE = Symbol("base")  # in expansions: the optimizer that the groups are exceptions of


@host_macro("optimizer-groups", "(optimizer (group name selector &key …)…)", layer=TENSOR)
def optimizer_groups(form: Any, context: Context) -> Any:
    """An optimizer with exceptions for some parameters; the first group that matches wins.

    (group name selector :key value…) gives the matching parameters other hyperparameters of the
    base, or `:optimizer o`; `:frozen t` trains them not at all, `:every n` at every n-th step, and
    `:clip-norm x` clips their gradients by the norm of the group. Selectors: path globs ("**/b"; *
    is one segment, ** any), (rank n…), (dtype :f32…), (tag :t…), (size > n), (and …), (or …),
    (not …), #'f or (lambda (p) …) of a property list with :path :shape :rank :dtype :size
    :tags."""
    if not isinstance(form.cdr, Cons):
        raise context.error(codes.E_OPT_003, "optimizer-groups: an optimizer was expected")
    first = form.cdr.car
    if isinstance(first, Cons) and isinstance(first.car, Symbol) and first.car.name == "group":
        raise context.error(
            codes.E_OPT_003,
            "optimizer-groups: the optimizer of all other parameters comes before the groups",
            at=span_of(first),
            fix="write (optimizer-groups (optim:adamw …) (group …) …)",
        )
    groups: list[Any] = []
    for clause in python_list(form.cdr.cdr):
        parts = python_list(clause) if is_list(clause) else []
        if (
            len(parts) < 3
            or not (isinstance(parts[0], Symbol) and parts[0].name == "group")
            or not is_name(parts[1])
            or len(parts) % 2 == 0
        ):
            raise context.error(
                codes.E_OPT_003,
                "optimizer-groups: (group name selector :key value…) was expected",
                at=span_of(clause),
            )
        check_name(parts[1].name, "group", context, car_span(clause.cdr))
        keys: list[Any] = []
        places = _places(clause)
        for key, value, place in zip(parts[3::2], parts[4::2], places[4::2], strict=True):
            if not is_keyword(key):
                raise context.error(
                    codes.E_OPT_003,
                    f"group {parts[1].name}: a key was expected, not {print_value(key)}",
                    at=span_of(clause),
                )
            keys.extend((key, value_form(value, place)))
        selector = _selector_form(parts[2], context, car_span(clause.cdr.cdr))
        made = call(_group, BASE, quoted(parts[1].name), selector, lisp_list([LIST, *keys]))
        groups.append(placed(made, clause))
    base = lisp_list([lisp_list([BASE, call(_base, form.cdr.car)])])
    return lisp_list([LET, base, call(_groups, BASE, *groups)])


def _places(forms: Any) -> list[Any]:
    """The place of each form of a list."""
    places: list[Any] = []
    while isinstance(forms, Cons):
        places.append(car_span(forms))
        forms = forms.cdr
    return places


def _selector_form(form: Any, context: Context, place: Any) -> Any:
    """The form whose value is a selector: a String, a Function, or a list (word . arguments)."""
    if isinstance(form, String):
        return form
    if isinstance(form, Cons) and form.car in (LAMBDA, FUNCTION):
        return form
    if isinstance(form, Cons) and isinstance(form.car, Symbol) and is_list(form):
        word, operands = form.car.name, python_list(form.cdr)
        if word in ("and", "or") or (word == "not" and len(operands) == 1):
            inner = [_selector_form(f, context, span_of(f) or place) for f in operands]
            return lisp_list([LIST, quoted(word), *inner])
        if word == "size" and len(operands) == 2 and isinstance(operands[0], Symbol):
            made = call(_size_selector, quoted(operands[0].name), operands[1])
            return placed(made, form)
        if word in ("rank", "dtype", "tag") and operands:
            return placed(call(_word_selector, quoted(word), *operands), form)
    raise context.error(
        codes.E_OPT_003,
        f"{print_value(form)} is not a selector",
        at=span_of(form) or place,
        fix=did_you_mean(
            form.car.name if isinstance(form, Cons) and isinstance(form.car, Symbol) else "",
            ["rank", "dtype", "tag", "size", "and", "or", "not"],
        ),
    )


def _size_selector(order: str, bound: Any) -> Any:
    if order not in _COMPARE or not isinstance(bound, int):
        raise here(codes.E_OPT_003, "a size selector is (size > n), with < <= > >= or =")
    return lisp_list(["size", order, bound])


def _word_selector(word: str, *arguments: Any) -> Any:
    """(rank n…), (dtype :f32…) or (tag :t…), its arguments checked."""
    for argument in arguments:
        if word == "rank":
            good, wanted = isinstance(argument, int) and argument >= 0, "integers from 0 up"
        elif word == "dtype":
            good, wanted = is_keyword(argument) and argument.name in DTYPES, "dtypes"
        else:
            good, wanted = is_keyword(argument), "keywords"
        if not good:
            raise here(
                codes.E_OPT_003,
                f"a {word} selector takes {wanted}, not {print_value(argument)}",
                did_you_mean(print_value(argument), [f":{d}" for d in DTYPES])
                if word == "dtype"
                else None,
            )
    return lisp_list([word, *arguments])


# -- selectors --------------------------------------------------------------------------------


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "=": lambda a, b: a == b,
}


def selector_test(selector: Any, aliases: dict[str, list[str]]) -> Test:
    """The test that a selector's value stands for."""
    if isinstance(selector, String):
        pattern = selector.text

        def by_path(p: Parameter) -> bool:
            path = p.path or ""
            return any(glob_matches(pattern, q) for q in (path, *aliases.get(path, ())))

        return by_path
    if isinstance(selector, Function):
        return lambda p: truth(call_given(selector, (describe(p),), "the description"))
    word, *arguments = python_list(selector)
    if word in ("and", "or", "not"):
        tests = [selector_test(a, aliases) for a in arguments]
        if word == "and":
            return lambda p: all(t(p) for t in tests)
        if word == "or":
            return lambda p: any(t(p) for t in tests)
        return lambda p: not any(t(p) for t in tests)
    if word == "rank":
        return lambda p: len(p.shape) in arguments
    if word == "size":
        compare = _COMPARE[arguments[0]]
        return lambda p: compare(size(p.shape), arguments[1])
    words = [a.name for a in arguments]
    if word == "dtype":
        return lambda p: p.dtype in words
    return lambda p: any(tag in words for tag in p.tags)


def size(shape: tuple[int, ...]) -> int:
    n = 1
    for extent in shape:
        n *= extent
    return n


def describe(parameter: Parameter) -> Any:
    """The property list that a selector function gets."""
    return lisp_list(
        [
            keyword("path"), String(parameter.path or ""),
            keyword("shape"), lisp_list(list(parameter.shape)),
            keyword("rank"), len(parameter.shape),
            keyword("dtype"), keyword(parameter.dtype),
            keyword("size"), size(parameter.shape),
            keyword("tags"), lisp_list([keyword(t) for t in parameter.tags]),
        ]
    )  # fmt: skip


# -- what the expansion calls -----------------------------------------------------------------


def _base(base: Any) -> Optimizer:
    if not isinstance(base, Optimizer):
        raise here(
            codes.E_OPT_003,
            f"optimizer-groups: an optimizer was expected, not {print_value(base)}",
            uncalled(base),
        )
    return base


def _group(base: Optimizer, name: str, selector: Any, keys: Any) -> GroupForm:
    items = python_list(keys)
    options = {k.name: v for k, v in zip(items[::2], items[1::2], strict=True)}
    frozen = options.pop("frozen", NIL) is not NIL
    every = options.pop("every", NIL)
    if every is not NIL and (not isinstance(every, int) or every < 1):
        raise here(
            codes.E_OPT_003,
            f"group {name}: :every takes a positive integer, not {print_value(every)}",
        )
    clip = options.pop("clip-norm", NIL)
    if clip is not NIL and (not isinstance(clip, int | float) or not clip > 0):
        raise here(
            codes.E_OPT_003,
            f"group {name}: :clip-norm takes a positive number, not {print_value(clip)}",
        )
    chosen = options.pop("optimizer", base)
    if not isinstance(chosen, Optimizer):
        raise here(
            codes.E_OPT_003,
            f"group {name}: :optimizer takes an optimizer, not {print_value(chosen)}",
            uncalled(chosen),
        )
    changed = chosen.with_values(options, also=OPTIONS)
    return GroupForm(
        name, selector, None if frozen else changed, frozen, current_origin(),
        1 if every is NIL else every, None if clip is NIL else float(clip),
    )  # fmt: skip


def _groups(base: Optimizer, *groups: GroupForm) -> Optimizer:
    made = base.with_values({})
    groups += base.exceptions
    for at, group in enumerate(groups):
        if group.name == "default" or any(group.name == other.name for other in groups[:at]):
            raise here(
                codes.E_OPT_003,
                f"two groups are called {group.name}"
                if group.name != "default"
                else "the group default is that of all parameters which no other group takes",
            )
    made.exceptions = groups
    return made

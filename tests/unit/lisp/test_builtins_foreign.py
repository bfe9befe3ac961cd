"""Values of other layers among the arguments of CL's functions of numbers."""

from __future__ import annotations

from typing import Any

import pytest

from sexpgpu.diagnostics.model import SxError
from sexpgpu.lisp.calls import call
from sexpgpu.lisp.registry import BUILTINS
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.values import NIL, Foreign, Function, String, T, lisp_list


class Probe(Foreign):
    """Answers every operation with a new probe that knows the call; has no truth."""

    __slots__ = ("operation",)
    lisp_type = "probe"

    def __init__(self, operation: tuple[Any, ...] = ()) -> None:
        self.operation = operation

    def lisp_truth(self) -> bool:
        raise RuntimeError("no truth")

    def lisp_operate(self, name: str, arguments: tuple[Any, ...]) -> Any:
        return Probe((name, *arguments))


class Mute(Foreign):
    """Takes part in no operation."""

    __slots__ = ()
    lisp_type = "mute"


# The operations of the tensor contract that are CL functions, with their counts of arguments.
OPERATIONS = {
    1: "- / exp log sqrt abs signum floor ceiling round truncate sin cos tan asin acos atan sinh "
    "cosh tanh asinh acosh atanh lognot max min + *",
    2: "+ - * / mod rem expt log max min floor ceiling round truncate atan = /= < <= > >= logand "
    "logior logxor ash",
}


def function(name: str) -> Function:
    found = BUILTINS[name].function
    assert found is not None
    return found


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    Session().evaluate("1", Session().new_module("main"))


@pytest.mark.parametrize("name", OPERATIONS[1].split())
def test_one_argument(name: str) -> None:
    probe = Probe()
    assert BUILTINS[name].overload
    assert call(function(name), probe).operation == (name, probe)


@pytest.mark.parametrize("name", OPERATIONS[2].split())
@pytest.mark.parametrize("first", [True, False])
def test_two_arguments(name: str, first: bool) -> None:
    probe = Probe()
    arguments = (probe, 2) if first else (2, probe)
    assert call(function(name), *arguments).operation == (name, *arguments)


@pytest.mark.parametrize("name", ["zerop", "plusp", "minusp", "evenp", "oddp", "1+", "1-"])
def test_predicates_and_increments_ask_too(name: str) -> None:
    assert call(function(name), Probe()).operation[0] == name


def test_more_arguments_fold_from_the_left() -> None:
    probe = Probe()
    total = call(function("+"), 1, 2, probe, 4)
    assert total.operation[0] == "+"
    assert total.operation[2] == 4
    assert total.operation[1].operation == ("+", 3, probe)
    chain = call(function("<"), 1, probe, 3)
    assert chain.operation == ("<", 1, probe, 3)


@pytest.mark.parametrize("name", ["+", "*", "<", "sqrt", "length", "elt", "floor", "logand"])
def test_what_takes_no_part_is_a_type_error(name: str) -> None:
    session = Session()
    arguments = lisp_list([Mute(), 1][: 1 if name in ("sqrt", "length", "floor") else 2])
    form = lisp_list([function("apply"), function(name), lisp_list([_quote(), arguments])])
    try:
        with pytest.raises(SxError) as found:
            session.evaluate(form, session.new_module("main"))
        assert "mute" in found.value.diagnostics[0].headline
    finally:
        session.close()


def _quote() -> Any:
    from sexpgpu.lisp.hostforms import QUOTE

    return QUOTE


def test_questions_about_the_value_itself_do_not_ask_for_truth() -> None:
    probe = Probe()
    assert call(function("null"), probe) is NIL
    assert call(function("eq"), probe, probe) is T
    assert call(function("equal"), probe, 1) is NIL
    assert call(function("equalp"), probe, Probe()) is NIL
    assert call(function("typep"), probe, Session().new_module("m").intern("probe")) is T
    with pytest.raises(RuntimeError):
        call(function("not"), probe)
    with pytest.raises(RuntimeError):
        call(function("some"), function("identity"), lisp_list([probe]))


def test_lists_and_tables_hold_them() -> None:
    probe, other = Probe(), Probe()
    held = lisp_list([probe, other])
    assert call(function("position"), other, held) == 1
    assert call(function("remove"), probe, held).car is other
    table = call(function("make-hash-table"))
    call(function("(setf gethash)"), 1, probe, table)
    assert call(function("gethash"), probe, table) == 1
    assert call(function("gethash"), other, table) is NIL


def test_printing_uses_their_own_text() -> None:
    text = call(function("princ-to-string"), lisp_list([Probe(), String("x")]))
    assert text.text == "(#<probe> x)"


def test_reduce_and_loops_sum_them() -> None:
    assert call(function("reduce"), function("+"), lisp_list([Probe(), 1])).operation[0] == "+"

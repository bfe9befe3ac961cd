"""`loop`, simple and extended, as a host macro.

The expansion is

    (block name
      (let (variables…)
        (tagbody prologue… first-round tests and assignments…
                 (REPEAT body… later-round tests and assignments…)
         end     epilogue…)
        result))

where REPEAT is the operator of loop_nodes. All loops share one tag, which no program can name:
tags are lexical, so `loop-finish`, which is `(go end)`, leaves the innermost extended loop around
it. Loop keywords are matched by name. Iteration clauses are in loop_iteration.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.hostforms import form, host_macro, symbol
from sexpgpu.lisp.loop_accumulation import APPEND, BEST, COLLECT, COLLECTED, MAKE, NCONC
from sexpgpu.lisp.loop_iteration import (
    Binding,
    Clause,
    Tokens,
    default_of,
    loop_error,
    parse_for,
    parse_repeat,
    parse_with,
)
from sexpgpu.lisp.loop_nodes import REPEAT, UNTIL, WHILE
from sexpgpu.lisp.values import (
    NIL,
    Cons,
    Symbol,
    T,
    lisp_list,
)
from sexpgpu.reader.names import nearest

END = Symbol("end-loop")

_LISTS = {"collect": COLLECT, "append": APPEND, "nconc": NCONC}

_CLAUSES = (  # the other words that begin a clause
    "for",
    "as",
    "with",
    "repeat",
    "while",
    "until",
    "always",
    "never",
    "thereis",
    "if",
    "when",
    "unless",
    "do",
    "doing",
    "return",
    "initially",
    "finally",
    "named",
)
_ACCUMULATIONS = {
    "collect": "collect",
    "collecting": "collect",
    "append": "append",
    "appending": "append",
    "nconc": "nconc",
    "nconcing": "nconc",
    "count": "count",
    "counting": "count",
    "sum": "sum",
    "summing": "sum",
    "maximize": "maximize",
    "maximizing": "maximize",
    "minimize": "minimize",
    "minimizing": "minimize",
}
_CATEGORIES = {
    "collect": "list",
    "append": "list",
    "nconc": "list",
    "count": "total",
    "sum": "total",
    "maximize": "best",
    "minimize": "best",
}


class _Accumulator:
    """Where the accumulation clauses that share a name put their values."""

    __slots__ = ("category", "collector", "variable")

    def __init__(self, category: str, variable: Symbol, collector: Symbol | None) -> None:
        self.category = category
        self.variable = variable
        self.collector = collector


class _Loop:
    """One extended loop, as it is parsed."""

    __slots__ = (
        "accumulators",
        "body",
        "clauses",
        "default",
        "epilogue",
        "extra",
        "name",
        "prologue",
        "quantified",
        "result",
        "tests",
        "tokens",
    )

    def __init__(self, items: list[Any]) -> None:
        self.tokens = Tokens(items)
        self.name: Symbol = NIL
        self.clauses: list[Clause] = []
        self.extra: list[Binding] = []  # hidden variables and accumulators
        self.prologue: list[Any] = []
        self.body: list[Any] = []
        self.tests: list[Any] = []  # while, until and kin, after what the body holds so far
        self.epilogue: list[Any] = []
        self.result: Any = NIL
        self.quantified = False  # always, never or thereis decide the result
        self.default: _Accumulator | None = None
        self.accumulators: dict[Symbol, _Accumulator] = {}

    # ------------------------------------------------------------ clauses

    def parse(self) -> None:
        """Read all clauses."""
        tokens = self.tokens
        if tokens.accept("named"):
            name = tokens.take("a block's name")
            if not isinstance(name, Symbol):
                raise loop_error("`named` takes a symbol")
            self.name = name
        while not tokens.done():
            word = tokens.word()
            if word in ("for", "as"):
                tokens.at += 1
                self.precede()
                self.clauses.append(parse_for(tokens))
            elif word == "with":
                tokens.at += 1
                self.clauses.append(parse_with(tokens))
            elif word == "repeat":
                tokens.at += 1
                self.precede()
                self.clauses.append(parse_repeat(tokens))
            elif word == "initially":
                tokens.at += 1
                self.prologue += self.compound("initially")
            elif word == "finally":
                tokens.at += 1
                self.finally_()
            elif word in ("while", "until"):
                tokens.at += 1
                leave = UNTIL if word == "until" else WHILE
                self.tests.append(form(leave, tokens.take("a test")))
            elif word in ("always", "never", "thereis"):
                tokens.at += 1
                self.quantifier(word, tokens.take("a form"))
            else:
                forms = self.selectable(None)
                self.body += [*self.tests, *forms]
                self.tests.clear()
        self.body += self.tests
        self.check_names()

    def precede(self) -> None:
        """An iteration clause comes: the tests before it, unless the body has begun, are made
        before its variables step."""
        if self.tests and not self.body:
            clause = Clause()
            for phase in clause.both():
                phase.tests += self.tests
            self.clauses.append(clause)
            self.tests.clear()

    def check_names(self) -> None:
        """A variable may be bound by one clause only."""
        seen: set[Symbol] = set()
        for clause in self.clauses:
            for name, _ in (*clause.bindings, *clause.inner):
                if name in seen or name in self.accumulators:
                    raise loop_error(f"the variable {name.name} is bound twice")
                seen.add(name)

    def finally_(self) -> None:
        tokens = self.tokens
        if tokens.accept("return"):
            self.epilogue.append(self.leave_with(tokens.take("a form")))
            return
        tokens.accept("do", "doing")
        self.epilogue += self.compound("finally")

    def compound(self, word: str) -> list[Any]:
        """The compound forms after do, initially, finally."""
        tokens = self.tokens
        forms: list[Any] = []
        while not tokens.done() and isinstance(tokens.items[tokens.at], Cons):
            forms.append(tokens.take("a form"))
        if not forms:
            raise loop_error(f"`{word}` needs at least one compound form")
        return forms

    def leave_with(self, value: Any) -> Any:
        return form(symbol("return-from"), self.name, value)

    def quantifier(self, word: str, test: Any) -> None:
        if self.default is not None:
            raise loop_error(f"`{word}` gives the result; accumulate into a variable")
        self.quantified = True
        if word == "thereis":
            it = self.hidden("it")
            found = form(symbol("setq"), it, test)
            self.tests.append(form(symbol("when"), found, self.leave_with(it)))
            return
        head = "unless" if word == "always" else "when"
        self.tests.append(form(symbol(head), test, self.leave_with(NIL)))
        self.result = T

    def hidden(self, name: str, value: Any = NIL) -> Symbol:
        variable = Symbol(name)
        self.extra.append((variable, value))
        return variable

    def selectable(self, it: list[Symbol] | None) -> list[Any]:
        """do, return, an accumulation, or a conditional. `it` holds the variable of the test's
        value once a clause has asked for it."""
        tokens = self.tokens
        word = tokens.word()
        if word in ("do", "doing"):
            tokens.at += 1
            return self.compound(word)
        if word == "return":
            tokens.at += 1
            return [self.leave_with(self.value(it))]
        if word in ("if", "when", "unless"):
            tokens.at += 1
            return [self.conditional(word)]
        if word in _ACCUMULATIONS:
            tokens.at += 1
            return [self.accumulation(_ACCUMULATIONS[word], it)]
        from sexpgpu.lisp.printer import prin1_text

        found = tokens.take("a clause")
        near = nearest(prin1_text(found), (*_ACCUMULATIONS, *_CLAUSES))
        fix = f"write {near}" if near else None
        raise loop_error(f"{prin1_text(found)} does not begin a clause", fix)

    def value(self, it: list[Symbol] | None) -> Any:
        """The form of a clause; in a conditional `it` is the value of its test."""
        given = self.tokens.take("a form")
        if it is not None and isinstance(given, Symbol) and given.name == "it":
            if not it:
                it.append(self.hidden("it"))
            return it[0]
        return given

    def conditional(self, word: str) -> Any:
        tokens = self.tokens
        test = tokens.take("a test")
        it: list[Symbol] = []
        chosen = self.joined(it)
        otherwise = self.joined(None) if tokens.accept("else") else []
        tokens.accept("end")
        if it:
            test = form(symbol("setq"), it[0], test)
        if word == "unless":
            chosen, otherwise = otherwise, chosen
        return form(symbol("if"), test, _progn(chosen), _progn(otherwise))

    def joined(self, it: list[Symbol] | None) -> list[Any]:
        forms = self.selectable(it)
        while self.tokens.accept("and"):
            forms = forms + self.selectable(None)  # `it` has its meaning in the first alone
        return forms

    # ------------------------------------------------------------ accumulation

    def accumulation(self, kind: str, it: list[Symbol] | None) -> Any:
        tokens = self.tokens
        value = self.value(it)
        into: Any = None
        if tokens.accept("into"):
            into = tokens.take("a variable")
            if not isinstance(into, Symbol) or into is NIL:
                raise loop_error("`into` takes a variable")
        zero: Any = 0
        if _CATEGORIES[kind] != "list":
            wanted = tokens.type()
            if isinstance(default_of(wanted), float):
                zero = 0.0
        target = self.accumulator(_CATEGORIES[kind], into, zero)
        variable, setq = target.variable, symbol("setq")
        if target.category == "list":
            gathered = form(_LISTS[kind], target.collector, value)
            return gathered if into is None else form(setq, variable, gathered)
        if kind == "count":
            more = form(setq, variable, form(symbol("1+"), variable))
            return form(symbol("when"), value, more)
        if kind == "sum":
            return form(setq, variable, form(symbol("+"), variable, value))
        return form(setq, variable, form(BEST[kind], variable, value))

    def accumulator(self, category: str, into: Symbol | None, zero: Any) -> _Accumulator:
        known = self.default if into is None else self.accumulators.get(into)
        if known is not None:
            if known.category != category:
                raise loop_error("accumulations of different kinds share one result")
            return known
        if into is None and self.quantified:
            raise loop_error("always, never, thereis give the result; accumulate into a variable")
        variable = into if into is not None else Symbol("result")
        collector: Symbol | None = None
        if category == "list":
            collector = self.hidden("collector", form(MAKE))
            if into is not None:
                self.extra.append((variable, NIL))
        else:
            self.extra.append((variable, zero if category == "total" else NIL))
        made = _Accumulator(category, variable, collector)
        if into is None:
            self.default = made
            self.result = variable if collector is None else form(COLLECTED, collector)
        else:
            self.accumulators[into] = made
        return made

    # ------------------------------------------------------------ expansion

    def expansion(self) -> Any:
        """The whole form."""
        statements = list(self.prologue)
        later: list[Any] = []
        for clause in self.clauses:
            statements += map(_first_test, clause.first.tests)
            statements += clause.first.forms(_leave)
            later += clause.later.tests
            later += clause.later.forms(lambda test: form(UNTIL, test))
        repeat = lisp_list([REPEAT, *self.body, *later])
        tagbody = lisp_list([symbol("tagbody"), *statements, repeat, END, *self.epilogue])
        inner = form(symbol("let"), NIL, tagbody, self.result)
        if self.extra:
            inner.cdr.car = _bindings(self.extra)
        for clause in reversed(self.clauses):
            inner = _bound(clause.bindings, _bound(clause.inner, inner))
        return form(symbol("block"), self.name, inner)


def _first_test(test: Any) -> Any:
    """A test that is made before the first round: outside of what repeats."""
    if test.car is UNTIL:
        return _leave(test.cdr.car)
    return _leave(form(symbol("not"), test.cdr.car)) if test.car is WHILE else test


def _leave(test: Any) -> Any:
    return form(symbol("if"), test, form(symbol("go"), END))


def _progn(forms: list[Any]) -> Any:
    if not forms:
        return NIL
    return forms[0] if len(forms) == 1 else lisp_list([symbol("progn"), *forms])


def _bound(bindings: list[Binding], body: Any) -> Any:
    if not bindings:
        return body
    return form(symbol("let"), _bindings(bindings), body)


def _bindings(bindings: list[Binding]) -> Any:
    return lisp_list([form(name, value) for name, value in bindings])


@host_macro("loop", "(&rest clauses)")
def loop(whole: Any, context: Any) -> Any:
    """Repeat: `(loop form…)` for ever, until something leaves it; `(loop for x in list collect …)`
    as the loop keywords say."""
    items = list(whole.cdr) if isinstance(whole.cdr, Cons) else []
    if all(isinstance(item, Cons) for item in items):
        return form(symbol("block"), NIL, lisp_list([REPEAT, *items]))
    made = _Loop(items)
    made.parse()
    return made.expansion()


@host_macro("loop-finish", "()")
def loop_finish(whole: Any, context: Any) -> Any:
    """Inside an extended `loop`: go to its end, its `finally` clauses and its result."""
    return form(symbol("go"), END)

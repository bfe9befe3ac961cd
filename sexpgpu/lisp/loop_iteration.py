"""The iteration clauses of `loop`: for, as, with, repeat, as bindings, tests and steps.

A clause becomes a `Clause`: variables to bind, and two phases (the first round, every later one).
A phase tests, assigns in parallel, tests again, and then moves its hidden variables on; clauses
joined by `and` share one phase, so that their assignments are parallel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.builtins.hash_tables import HashIterator, hash_table_argument
from sexpgpu.lisp.errors import LispError, program_error
from sexpgpu.lisp.hostforms import form, symbol
from sexpgpu.lisp.values import NIL, Cons, Function, Symbol, T, new_cons

_CAR, _CDR = symbol("car"), symbol("cdr")
_SIMPLE_TYPES = frozenset(
    [
        "fixnum",
        "float",
        "t",
        "nil",
        "integer",
        "number",
        "real",
        "rational",
        "bignum",
        "ratio",
        "bit",
        "single-float",
        "double-float",
        "short-float",
        "long-float",
        "unsigned-byte",
        "signed-byte",
    ]
)
_FLOAT_TYPES = frozenset(("float", "single-float", "double-float", "short-float", "long-float"))
_INTEGER_TYPES = frozenset(
    ("fixnum", "integer", "number", "real", "rational", "bignum", "bit", "unsigned-byte")
)

Binding = tuple[Symbol, Any]


def loop_error(message: str, fix: str | None = None) -> LispError:
    """The program-error of a malformed loop."""
    return program_error(f"loop: {message}", code="form", fix=fix)


class Tokens:
    """The parts of a loop form, read from left to right."""

    __slots__ = ("at", "items")

    def __init__(self, items: list[Any]) -> None:
        self.items = items
        self.at = 0

    def done(self) -> bool:
        return self.at >= len(self.items)

    def word(self) -> str:
        """The name of the next part when it is a symbol, else ""."""
        if self.at < len(self.items):
            item = self.items[self.at]
            if isinstance(item, Symbol) and item is not NIL:
                return item.name
        return ""

    def take(self, what: str) -> Any:
        """The next part."""
        if self.done():
            raise loop_error(f"the form ends where {what} should follow")
        self.at += 1
        return self.items[self.at - 1]

    def accept(self, *words: str) -> str:
        """The next word when it is one of these (then it is taken), else ""."""
        word = self.word()
        if word and word in words:
            self.at += 1
            return word
        return ""

    def type(self) -> Any:
        """An optional type after a variable: `of-type spec`, or a simple type's name."""
        if self.accept("of-type"):
            return self.take("a type")
        if not self.done():
            item = self.items[self.at]
            if isinstance(item, Symbol) and item.name in _SIMPLE_TYPES:
                self.at += 1
                return item
        return None


def default_of(kind: Any) -> Any:
    """The value a variable has before it is given one: 0 and 0.0 for numeric types."""
    if isinstance(kind, Cons) and isinstance(kind.car, Symbol):
        kind = kind.car
    if isinstance(kind, Symbol):
        if kind.name in _FLOAT_TYPES:
            return 0.0
        if kind.name in _INTEGER_TYPES:
            return 0
    return NIL


class Phase:
    """What a clause does in a round; pre and post tests are forms that are true when the loop is
    at its end. `tests` are the `while` and `until` that stand before an iteration clause."""

    __slots__ = ("after", "post_tests", "pre_tests", "steps", "tests")

    def __init__(self) -> None:
        self.tests: list[Any] = []
        self.pre_tests: list[Any] = []
        self.steps: list[Binding] = []
        self.post_tests: list[Any] = []
        self.after: list[Binding] = []

    def add(self, other: Phase) -> None:
        self.pre_tests += other.pre_tests
        self.steps += other.steps
        self.post_tests += other.post_tests
        self.after += other.after

    def forms(self, leave: Callable[[Any], Any]) -> list[Any]:
        """The statements of the phase; `leave` makes the one that ends the loop on a test."""
        made = [leave(test) for test in self.pre_tests]
        made += _assignments(self.steps)
        made += [leave(test) for test in self.post_tests]
        for variable, value in self.after:
            made.append(form(symbol("setq"), variable, value))
        return made


def _assignments(steps: list[Binding]) -> list[Any]:
    if not steps:
        return []
    head = symbol("setq" if len(steps) == 1 else "psetq")
    flat: list[Any] = []
    for variable, value in steps:
        flat += (variable, value)
    return [form(head, *flat)]


class Clause:
    """One iteration clause, or several joined by `and`."""

    __slots__ = ("bindings", "first", "inner", "later")

    def __init__(self) -> None:
        self.bindings: list[Binding] = []
        self.inner: list[Binding] = []  # bound inside the others: they may refer to them
        self.first = Phase()
        self.later = Phase()

    def add(self, other: Clause) -> None:
        self.bindings += other.bindings
        self.inner += other.inner
        self.first.add(other.first)
        self.later.add(other.later)

    def both(self) -> list[Phase]:
        return [self.first, self.later]

    def bind(self, pattern: Any, kind: Any = None) -> None:
        """Bind the variables of a pattern to their defaults."""
        if isinstance(pattern, Cons):
            for name in pattern_variables(pattern):
                self.bindings.append((name, NIL))
        elif pattern is not NIL:
            self.bindings.append((_variable(pattern), default_of(kind)))

    def assign(self, phases: list[Phase], pattern: Any, value: Any) -> None:
        """Assign a value to a pattern in each of the phases."""
        if pattern is NIL:
            ignored = Symbol("ignored")
            self.bindings.append((ignored, NIL))
            for phase in phases:
                phase.steps.append((ignored, value))
        elif isinstance(pattern, Cons):
            whole = Symbol("whole")
            self.bindings.append((whole, NIL))
            for phase in phases:
                phase.steps.append((whole, value))
                phase.after += destructured(pattern, whole)
        else:
            for phase in phases:
                phase.steps.append((pattern, value))


def _variable(value: Any) -> Symbol:
    if not isinstance(value, Symbol) or value is T or value.constant:
        from sexpgpu.lisp.printer import prin1_text

        raise loop_error(f"{prin1_text(value)} is not a variable")
    return value


def pattern_variables(pattern: Any) -> list[Symbol]:
    """The variables of a destructuring pattern, from left to right."""
    names: list[Symbol] = []
    while isinstance(pattern, Cons):
        if isinstance(pattern.car, Cons):
            names += pattern_variables(pattern.car)
        elif pattern.car is not NIL:
            names.append(_variable(pattern.car))
        pattern = pattern.cdr
    if pattern is not NIL:
        names.append(_variable(pattern))
    return names


def destructured(pattern: Any, source: Any) -> list[Binding]:
    """The pattern's variables with forms that take their parts out of `source`."""
    made: list[Binding] = []
    while isinstance(pattern, Cons):
        if isinstance(pattern.car, Cons):
            made += destructured(pattern.car, form(_CAR, source))
        elif pattern.car is not NIL:
            made.append((_variable(pattern.car), form(_CAR, source)))
        pattern = pattern.cdr
        source = form(_CDR, source)
    if pattern is not NIL:
        made.append((_variable(pattern), source))
    return made


# ---------------------------------------------------------------- with, repeat


def parse_with(tokens: Tokens) -> Clause:
    """with variable [= form] {and variable [= form]}*"""
    clause = Clause()
    while True:
        pattern = tokens.take("a variable")
        kind = tokens.type()
        value = tokens.take("a form") if tokens.accept("=") else None
        if isinstance(pattern, Cons):
            if value is None:
                clause.bindings += _defaults(pattern, kind)
            else:
                whole = Symbol("whole")
                clause.bindings.append((whole, value))
                clause.inner += destructured(pattern, whole)
        else:
            target = Symbol("ignored") if pattern is NIL else _variable(pattern)
            clause.bindings.append((target, default_of(kind) if value is None else value))
        if not tokens.accept("and"):
            return clause


def _defaults(pattern: Any, kind: Any) -> list[Binding]:
    """A pattern's variables with the defaults of their types, which have the pattern's shape."""
    made: list[Binding] = []
    while isinstance(pattern, Cons):
        part, kind = (kind.car, kind.cdr) if isinstance(kind, Cons) else (kind, kind)
        made += _defaults(pattern.car, part)
        pattern = pattern.cdr
    if pattern is not NIL:
        made.append((_variable(pattern), default_of(kind)))
    return made


def parse_repeat(tokens: Tokens) -> Clause:
    """repeat count"""
    clause, left = Clause(), Symbol("left")
    clause.bindings.append((left, tokens.take("a number of repetitions")))
    spent = form(symbol("<="), left, 0)
    for phase in clause.both():
        phase.pre_tests.append(spent)
        phase.after.append((left, form(symbol("1-"), left)))
    return clause


# ---------------------------------------------------------------- for

_ARITHMETIC = ["from", "upfrom", "downfrom", "to", "upto", "downto", "below", "above", "by"]


def parse_for(tokens: Tokens) -> Clause:
    """for variable … {and variable …}*"""
    clause = Clause()
    while True:
        clause.add(_parse_one(tokens))
        if not tokens.accept("and"):
            return clause


def _parse_one(tokens: Tokens) -> Clause:
    pattern = tokens.take("a variable")
    if not isinstance(pattern, Cons | Symbol):
        raise loop_error("a variable or a pattern must follow `for`")
    kind = tokens.type()
    word = tokens.accept("in", "on", "across", "=", "being", *_ARITHMETIC)
    clause = Clause()
    if word in ("in", "on"):
        _over_list(clause, tokens, pattern, kind, word)
    elif word == "across":
        _over_vector(clause, tokens, pattern, kind)
    elif word == "=":
        clause.bind(pattern, kind)
        value = tokens.take("a form")
        if tokens.accept("then"):
            clause.assign([clause.first], pattern, value)
            clause.assign([clause.later], pattern, tokens.take("a form"))
        else:
            clause.assign(clause.both(), pattern, value)
    elif word == "being":
        _over_hash_table(clause, tokens, pattern, kind)
    elif word:
        tokens.at -= 1
        _over_numbers(clause, tokens, pattern, kind)
    else:
        raise loop_error("`for` needs one of: in on across = being from to below … after the name")
    return clause


def _over_list(clause: Clause, tokens: Tokens, pattern: Any, kind: Any, word: str) -> None:
    whole = tokens.take("a list")
    step = tokens.take("a function") if tokens.accept("by") else None
    rest = Symbol("rest")
    plain = word == "on" and isinstance(pattern, Symbol) and pattern is not NIL
    if plain:
        rest = _variable(pattern)
    clause.bindings.append((rest, whole))
    advance = form(_CDR, rest)
    if step is not None:
        if (
            isinstance(step, Cons)
            and step.car is symbol("function")
            and isinstance(step.cdr.car, Symbol)
        ):
            advance = form(step.cdr.car, rest)
        else:
            function = Symbol("step")
            clause.bindings.append((function, step))
            advance = form(symbol("funcall"), function, rest)
    at_end = form(symbol("endp" if word == "in" else "atom"), rest)
    if plain:
        clause.first.post_tests.append(at_end)
        clause.later.steps.append((rest, advance))
        clause.later.post_tests.append(at_end)
        return
    clause.bind(pattern, kind)
    for phase in clause.both():
        phase.pre_tests.append(at_end)
    clause.assign(clause.both(), pattern, form(_CAR, rest) if word == "in" else rest)
    for phase in clause.both():
        phase.after.append((rest, advance))


def _over_vector(clause: Clause, tokens: Tokens, pattern: Any, kind: Any) -> None:
    vector, index, length = Symbol("vector"), Symbol("index"), Symbol("length")
    clause.bindings += [(vector, tokens.take("a vector")), (index, 0)]
    clause.bind(pattern, kind)
    clause.inner.append((length, form(symbol("length"), vector)))
    for phase in clause.both():
        phase.pre_tests.append(form(symbol(">="), index, length))
    clause.assign(clause.both(), pattern, form(symbol("aref"), vector, index))
    for phase in clause.both():
        phase.after.append((index, form(symbol("+"), index, 1)))


def _start_entries(table: Any) -> Any:
    return HashIterator(hash_table_argument(table))


def _next_pair(iterator: HashIterator) -> Any:
    entry = iterator.next()
    return NIL if entry is None else new_cons(entry[0], entry[1])


_START = Function("%hash-entries", _start_entries, 1, 1)
_NEXT = Function("%next-pair", _next_pair, 1, 1)
_HASH_WORDS = ("hash-key", "hash-keys", "hash-value", "hash-values")


def _over_hash_table(clause: Clause, tokens: Tokens, pattern: Any, kind: Any) -> None:
    tokens.accept("the", "each")
    word = tokens.accept(*_HASH_WORDS)
    if not word:
        raise loop_error("`being` takes hash-keys or hash-values of a hash table")
    if not tokens.accept("in", "of"):
        raise loop_error(f"`{word}` needs `of` and a hash table")
    table = tokens.take("a hash table")
    by_key = word.startswith("hash-key")
    other: Any = NIL
    if tokens.accept("using"):
        using = tokens.take("(hash-value variable)")
        if not (isinstance(using, Cons) and isinstance(using.cdr, Cons)):
            raise loop_error("`using` takes (hash-value variable) or (hash-key variable)")
        other = using.cdr.car
    entries, entry = Symbol("entries"), Symbol("entry")
    clause.bindings += [(entries, form(_START, table)), (entry, NIL)]
    clause.bind(pattern, kind)
    clause.bind(other)
    next_entry = form(symbol("setq"), entry, form(_NEXT, entries))
    key, value = form(_CAR, entry), form(_CDR, entry)
    for phase in clause.both():
        phase.pre_tests.append(form(symbol("null"), next_entry))
    for target, part in (
        (pattern, key if by_key else value),
        (other, value if by_key else key),
    ):
        if target is not NIL:
            clause.assign(clause.both(), target, part)


def _over_numbers(clause: Clause, tokens: Tokens, pattern: Any, kind: Any) -> None:
    """from … to … by …, in any order; the forms are evaluated in the order they are written."""
    if isinstance(pattern, Cons):
        raise loop_error("numbers cannot be destructured")
    variable = Symbol("number") if pattern is NIL else _variable(pattern)
    start: Any = None
    limit: Any = None
    step: Any = 1
    down = False
    exclusive = False
    seen: set[str] = set()
    while word := tokens.accept(*_ARITHMETIC):
        role = "by" if word == "by" else "from" if word.endswith("from") else "to"
        if role in seen:
            raise loop_error(f"`{word}` after another of its kind in one `for`")
        seen.add(role)
        value = tokens.take("a number")
        if role == "from":
            start = value
            clause.bindings.append((variable, value))
            down = down or word == "downfrom"
        elif role == "to":
            down = down or word in ("downto", "above")
            exclusive = word in ("below", "above")
            limit = _held(clause, "limit", value)
        else:
            step = _held(clause, "step", value)
    if start is None:
        if down:
            raise loop_error("counting down needs `from`")
        clause.bindings.append((variable, 0.0 if isinstance(default_of(kind), float) else 0))
    move = form(symbol("-" if down else "+"), variable, step)
    clause.later.steps.append((variable, move))
    if limit is not None:
        compare = ("<=" if exclusive else "<") if down else (">=" if exclusive else ">")
        test = form(symbol(compare), variable, limit)
        clause.first.post_tests.append(test)
        clause.later.post_tests.append(test)


def _held(clause: Clause, name: str, value: Any) -> Any:
    """A number's form: a constant as it is, anything else kept in a hidden variable."""
    if isinstance(value, int | float):
        return value
    variable = Symbol(name)
    clause.bindings.append((variable, value))
    return variable

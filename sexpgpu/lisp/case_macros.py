"""case and typecase, compiled directly: keys are looked up in a table."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sexpgpu.lisp.analyze import (
    Tails,
    analyze_car,
    body,
    items_of,
    malformed,
    native,
    parts,
    site_here,
)
from sexpgpu.lisp.calls import truth
from sexpgpu.lisp.errors import make_error, type_error
from sexpgpu.lisp.nodes import (
    Constant,
    Custom,
    Node,
    Run,
    single,
)
from sexpgpu.lisp.scope import Frame, Scope
from sexpgpu.lisp.state import STATE, Site
from sexpgpu.lisp.values import CL, NIL, Char, Cons, Foreign, Symbol, T, new_cons
from sexpgpu.reader.printer import brief

OTHERWISE = CL.own("otherwise")


# ---------------------------------------------------------------- case


def case_key(value: Any) -> Any:
    """A dictionary key that agrees with eql."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is float or kind is Fraction:
        return (kind, value, str(value))
    if isinstance(value, int):
        return (int, int(value))
    if kind is Char:
        return (Char, value.code)
    return value


def _case_clauses(form: Any, strict: bool) -> tuple[list[tuple[list[Any], Any]], Any]:
    """([(keys, body cells)…], the body cells of the otherwise clause or None)."""
    clauses: list[tuple[list[Any], Any]] = []
    otherwise: Any = None
    at = form.cdr.cdr
    while isinstance(at, Cons):
        clause = at.car
        if not isinstance(clause, Cons):
            raise malformed(f"{brief(clause)} is not a clause (keys form…)", form)
        keys = clause.car
        if not strict and (keys is T or keys is OTHERWISE):
            if at.cdr is not NIL:
                raise malformed(f"the clause {keys.name} must be the last", form)
            otherwise = clause.cdr
        elif isinstance(keys, Cons):
            clauses.append((items_of(keys), clause.cdr))
        else:
            clauses.append(([] if keys is NIL else [keys], clause.cdr))
        at = at.cdr
    return clauses, otherwise


def _case_node(form: Any, scope: Scope, tails: Tails, strict: bool, miss: Node | None) -> Node:
    name = form.car.name
    parts(form, 1, None, f"({name} key (keys form…)…)")
    clauses, otherwise = _case_clauses(form, strict)
    key = analyze_car(form.cdr, scope)
    bodies = [body(cells, scope, tails) for _, cells in clauses]
    default = body(otherwise, scope, tails) if otherwise is not None else miss or Constant(NIL)
    keys = [keys for keys, _ in clauses]
    return Case(key, keys, bodies, default, strict, site_here())


class Case(Node):
    """case and ecase: the bodies by their keys. `asks`: a value that is no key is asked for its
    truth, which a tensor refuses; not where the clauses tell nil from the rest."""

    __slots__ = ("asks", "bodies", "default", "key", "keys", "multi", "site", "strict")

    def __init__(
        self,
        key: Node,
        keys: list[list[Any]],
        bodies: list[Node],
        default: Node,
        strict: bool,
        site: Site,
    ) -> None:
        self.key = key
        self.keys = keys
        self.bodies = bodies
        self.default = default
        self.strict = strict
        self.site = site
        self.multi = any(node.multi for node in (*bodies, default))
        every = [item for some in keys for item in some]
        self.asks = bool(every) and not any(item is NIL for item in every)

    def failure(self, value: Any) -> Exception:
        """The error of a value that no clause of ecase takes."""
        return case_failure(value, [k for keys in self.keys for k in keys])

    def emit(self, frame: Frame) -> Run:
        run_key = single(self.key, frame)
        runs = [node.emit(frame) for node in self.bodies]
        run_default = self.default.emit(frame)
        table: dict[Any, Run] = {}
        for keys, branch in zip(self.keys, runs, strict=True):
            for item in keys:
                table.setdefault(case_key(item), branch)
        find, strict, site, asks = table.get, self.strict, self.site, self.asks

        def run(env: Any) -> Any:
            value = run_key(env)
            chosen = find(value if type(value) is Symbol else case_key(value))
            if chosen is not None:
                return chosen(env)
            if asks and isinstance(value, Foreign):
                truth(value, site)
            if strict:
                STATE.site = site
                raise self.failure(value)
            return run_default(env)

        return run


def case_failure(value: Any, keys: list[Any]) -> Exception:
    """The type-error of ecase and ccase."""
    from sexpgpu.lisp.values import lisp_list

    expected = new_cons(CL.own("member"), lisp_list(keys))
    shown = " ".join(brief(k) for k in keys)
    return make_error(
        "type-error",
        datum=value,
        expected_form=expected,
        message=f"{brief(value)} is none of the keys {shown}" if keys else None,
        code="case",
    )


@native("case")
def _case(form: Any, scope: Scope, tails: Tails) -> Node:
    """Evaluates the clause whose keys hold the key, by eql; t and otherwise take the rest."""
    return _case_node(form, scope, tails, False, None)


@native("ecase")
def _ecase(form: Any, scope: Scope, tails: Tails) -> Node:
    """As case; an error when no clause takes the key."""
    return _case_node(form, scope, tails, True, None)


def _typecase_node(form: Any, scope: Scope, tails: Tails, strict: bool) -> Node:
    name = form.car.name
    parts(form, 1, None, f"({name} object (type form…)…)")
    key = analyze_car(form.cdr, scope)
    clauses: list[tuple[Any, Node]] = []
    at = form.cdr.cdr
    while isinstance(at, Cons):
        clause = at.car
        if not isinstance(clause, Cons):
            raise malformed(f"{brief(clause)} is not a clause (type form…)", form)
        kind = clause.car
        if not strict and kind is OTHERWISE:
            if at.cdr is not NIL:
                raise malformed("the clause otherwise must be the last", form)
            kind = T
        clauses.append((kind, body(clause.cdr, scope, tails)))
        at = at.cdr
    site = site_here()

    def make(frame: Frame) -> Run:
        from sexpgpu.lisp.builtins.type_specifiers import typep

        run_key = single(key, frame)
        runs = tuple((kind, node.emit(frame)) for kind, node in clauses)

        def run(env: Any) -> Any:
            value = run_key(env)
            STATE.site = site
            for kind, chosen in runs:
                if kind is T or typep(value, kind):
                    return chosen(env)
            if strict:
                from sexpgpu.lisp.values import lisp_list

                kinds = lisp_list([kind for kind, _ in runs])
                raise type_error(value, new_cons(CL.own("or"), kinds))
            return NIL

        return run

    return Custom(make, True)


@native("typecase")
def _typecase(form: Any, scope: Scope, tails: Tails) -> Node:
    """Evaluates the forms of the first clause whose type the object has."""
    return _typecase_node(form, scope, tails, False)


@native("etypecase")
def _etypecase(form: Any, scope: Scope, tails: Tails) -> Node:
    """As typecase; an error when no clause takes the object."""
    return _typecase_node(form, scope, tails, True)

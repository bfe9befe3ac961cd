"""Lisp errors and limits as diagnostics: code, place, call trace, macro expansions, a fix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from sexpgpu.diagnostics.codes import lisp as codes
from sexpgpu.diagnostics.model import Code, Diagnostic, Label, Note
from sexpgpu.lisp.conditions import TYPES, report
from sexpgpu.lisp.control import Exit
from sexpgpu.lisp.errors import LimitError, LispError
from sexpgpu.lisp.scope import Scope
from sexpgpu.lisp.state import STATE, Site
from sexpgpu.lisp.values import (
    CL,
    KEYWORD,
    UNBOUND,
    Condition,
    Cons,
    Foreign,
    Function,
    Module,
    String,
    Symbol,
)
from sexpgpu.reader.names import nearest
from sexpgpu.reader.printer import brief
from sexpgpu.source import Span

_BY_SLOT: dict[str, Code] = {
    "arguments": codes.E_ARG_001,
    "keyword": codes.E_ARG_002,
    "lambda-list": codes.E_ARG_003,
    "form": codes.E_ARG_004,
    "macro-arguments": codes.E_ARG_005,
    "literal": codes.E_TYPE_003,
    "cl-operator": codes.E_NAME_004,
    "not-function": codes.E_NAME_005,
    "foreign-name": codes.E_NAME_006,
    "assert": codes.E_COND_005,
}
_BY_TYPE: tuple[tuple[str, Code], ...] = (
    ("unbound-variable", codes.E_NAME_001),
    ("undefined-function", codes.E_NAME_002),
    ("type-error", codes.E_TYPE_001),
    ("program-error", codes.E_ARG_004),
    ("control-error", codes.E_COND_003),
    ("arithmetic-error", codes.E_COND_002),
    ("parse-error", codes.E_COND_004),
    ("end-of-file", codes.E_COND_004),
)
_LIMITS: dict[str, tuple[Code, str]] = {
    "fuel": (codes.E_LIMIT_001, "evaluation took more than {} steps"),
    "depth": (codes.E_LIMIT_002, "calls are nested more than {} deep"),
    "memory": (codes.E_LIMIT_003, "evaluation needs more memory than {} bytes"),
    "objects": (codes.E_LIMIT_003, "evaluation made more than {} objects that are still in use"),
    "time": (codes.E_LIMIT_004, "evaluation took more than {} seconds"),
    "output": (codes.E_LIMIT_005, "more than {} characters were printed"),
    "nesting": (codes.E_LIMIT_006, "lists are nested more than {} deep"),
    "forms": (codes.E_LIMIT_006, "forms are nested more than {} deep"),
    "expansion": (codes.E_LIMIT_007, "a macro expanded more than {} times"),
}
MAX_NOTES = 8
_SPREAD = frozenset(
    ("+", "*", "-", "/", "=", "/=", "<", ">", "<=", ">=", "max", "min", "gcd", "lcm")
)
"""Functions of any number of numbers, which are often given a list of them."""


def code_of(condition: Condition) -> Code:
    """The code of an error that nobody handled."""
    special = condition.slots.get("code")
    if type(special) is str and special in _BY_SLOT:
        return _BY_SLOT[special]
    names = {kind.name for kind in TYPES[condition.type].linear}
    if type(condition.type) is str and "sequence" in condition.slots:
        return codes.E_TYPE_002
    for name, code in _BY_TYPE:
        if name in names:
            return code
    return codes.E_COND_001


def error_diagnostic(error: LispError, module: Module | None) -> Diagnostic:
    """The diagnostic of an error."""
    condition = error.condition
    code = code_of(condition)
    headline = safe_report(condition)
    if condition.type == "unbound-variable":
        headline = f"the variable {brief(condition.slots.get('name'))} has no value"
    if code is codes.E_NAME_002 and isinstance(condition.slots.get("name"), Symbol):
        headline = uncallable(condition.slots["name"]) or headline
    labels, notes = place_of(error.site, error.frames, error.hidden)
    if error.uses and condition.slots.get("code") != "form":
        labels, notes = _expanding(error, labels, notes)
        if code is not codes.E_ARG_005:
            headline = f"expanding {error.uses[-1][0]}: {headline}"
            code = codes.E_MACRO_001
    fix, more = _fix(code, condition, module, error.site)
    if type(given := condition.slots.get("call")) is str and given:
        more = [Note(f"it was given as {given}"), *more]
    notes = [*more, *notes]
    return Diagnostic(code, headline, labels, notes[:MAX_NOTES], fix)


def limit_diagnostic(error: LimitError) -> Diagnostic:
    """The diagnostic of a limit."""
    code, text = _LIMITS[error.kind]
    amount = error.amount
    shown = f"{amount:,}" if isinstance(amount, int) else f"{amount:g}"
    site = error.site
    if site.place is None and error.frames:
        site = error.frames[0]
    labels, notes = place_of(site, error.frames, error.hidden)
    fix = "keep less alive; --limit objects=N raises the limit" if error.kind == "objects" else None
    return Diagnostic(code, text.format(shown), labels, notes[:MAX_NOTES], fix)


def _expanding(
    error: LispError, labels: list[Label], notes: list[Note]
) -> tuple[list[Label], list[Note]]:
    """An error of a macro's function: the outermost use first, where it happened as notes."""
    site = error.uses[-1][1]
    use, around = place_of(site, (), 0)
    found: list[Note] = []
    if labels and not (use and labels[0].span == use[0].span):
        found.append(Note(f"raised here, in the macro {error.uses[0][0]}", labels[0].span))
    for inner, inner_site in error.uses[:-1]:
        found.append(Note(f"while {inner} was expanded", inner_site.span))
    return use or labels, [*found, *around]


def safe_report(condition: Condition) -> str:
    """A report runs the program's code: whatever goes wrong there must not hide the error."""
    try:
        return report(condition)
    except (LispError, LimitError, Exit, RecursionError) as problem:
        control = condition.slots.get("format-control")
        if isinstance(control, String):
            # The message of an `error` with too few arguments, say: the message as it is written.
            why = f" ({safe_report(problem.condition)})" if isinstance(problem, LispError) else ""
            return f"{brief(control, 120)}{why}"
        kind = condition.type
        name = kind.name if isinstance(kind, Symbol) else kind
        return f"a condition of type {name} (its report failed)"


def _inside(inner: Span, outer: Span) -> bool:
    return inner.source is outer.source and outer.start <= inner.start and inner.end <= outer.end


def place_of(site: Site, frames: Iterable[Site], hidden: int) -> tuple[list[Label], list[Note]]:
    """The primary place (the user's own text first), and notes: where in a macro or a standard
    module it happened, the expansions around, the calls."""
    notes: list[Note] = []
    span = site.span
    sites = [site, *frames]
    primary = span
    uses = [(name, use) for name, use in site.expansions if use is not None]
    if uses and span is not None and not _inside(span, uses[0][1]):
        # The form stands in a macro's template: the user wrote the outermost use.
        primary = uses[-1][1]
        notes.append(Note("in the text of the macro", span))
    elif uses and span is None:
        primary = uses[-1][1]
    if primary is None or primary.source.standard:
        for at in sites:
            found = _user_span(at)
            if found is not None:
                if primary is not None:
                    notes.append(Note("raised here", primary))
                primary = found
                break
    for (name, use), times in Counter(uses).items():
        text = f"in the expansion of {name}"
        if times > 1:
            text += f", {times:,} times"
        if use != primary:
            notes.append(Note(text, use))
        else:
            defined = _macro_place(name)
            notes.append(Note(f"{text}, defined here" if defined else text, defined))
    last = primary
    shown = 0
    for at in frames:
        call = _user_span(at)
        if call is None or call == last:
            continue
        notes.append(Note("called from here", call))
        last = call
        shown += 1
        if shown == 4:
            break
    if hidden:
        notes.append(Note(f"and {hidden} more calls"))
    return ([Label(primary)] if primary is not None else []), notes


def _macro_place(name: str) -> Span | None:
    """Where a macro of the file at hand, or of a library of its own, is defined."""
    symbol = STATE.module.find(name) if STATE.module is not None else None
    origin = symbol.macro.origin if symbol is not None and symbol.macro is not None else None
    return origin if isinstance(origin, Span) and not origin.source.standard else None


def _user_span(site: Site) -> Span | None:
    span = site.span
    if span is not None and not span.source.standard:
        return span
    for _, use in reversed(site.expansions):
        if use is not None and not use.source.standard:
            return use
    return None


# ---------------------------------------------------------------- fixes


def _fix(
    code: Code, condition: Condition, module: Module | None, site: Site
) -> tuple[str | None, list[Note]]:
    slots = condition.slots
    if type(slots.get("fix")) is str:
        return slots["fix"], []
    name = slots.get("name")
    scope = slots.get("scope") if isinstance(slots.get("scope"), Scope) else None
    datum = slots.get("datum")
    if code is codes.E_TYPE_001 and isinstance(datum, Foreign):
        expected, operator = slots.get("expected"), slots.get("operator")
        return datum.lisp_advice(str(expected), str(operator or "")), []
    if code is codes.E_TYPE_001 and isinstance(datum, Cons) and slots.get("operator") in _SPREAD:
        return f"for the elements of a list write (apply #'{slots['operator']} list)", []
    if code is codes.E_NAME_001 and isinstance(name, Symbol):
        later = defined_later(name, site.span)
        if later is not None:
            return f"it is defined further down, in line {later}: move the definition up", []
        return _variable_fix(name, module, scope)
    if code is codes.E_NAME_002:
        if isinstance(name, Symbol):
            return function_fix(name, module, scope, site.span), []
        return _place_fix(name), []
    if code is codes.E_ARG_003 and slots.get("near"):
        return f"write {slots['near']}", []
    if code is codes.E_ARG_003 and isinstance(name, Symbol):
        return f"give the parameter another name, such as {name.name.lstrip(':')}1", []
    if code is codes.E_ARG_001 and isinstance(slots.get("function"), Function):
        return _count_fix(slots["function"])
    if code is codes.E_ARG_002 and isinstance(slots.get("known"), list):
        known = slots["known"]
        near = nearest(brief(slots["key"]), known)
        accepts = " ".join(known) if known else "no keywords"
        fix = f"write {near}" if near else f"its keywords are {accepts}"
        return fix, []
    if code is codes.E_ARG_002 and isinstance(slots.get("function"), Function):
        return _keyword_fix(slots["function"], slots.get("key"))
    return None, []


def _place_fix(name: Any) -> str | None:
    """What to write where the list (setf NAME) has no definition."""
    from sexpgpu.lisp.other_names import PLACES

    place = name.cdr.car if isinstance(name, Cons) and isinstance(name.cdr, Cons) else None
    return PLACES.get(place.name) if isinstance(place, Symbol) else None


def _count_fix(function: Function) -> tuple[str | None, list[Note]]:
    text = lambda_text(function)
    notes: list[Note] = []
    origin = function.origin
    if isinstance(origin, Span) and not origin.source.standard:
        notes.append(Note(f"{function.name} is defined here", origin))
    inner = text[1:-1] if text.startswith("(") else text
    if function.name == "lambda":
        return f"its parameters are {text}", notes
    return f"call it as ({function.name}{' ' + inner if inner else ''})", notes


def lambda_text(function: Function) -> str:
    """The lambda list of a function as text."""
    text = function.lambda_list
    if type(text) is str:
        return text or "()"
    if text is CL.own("nil"):
        return "()"
    return brief(text, 200)


def _keyword_fix(function: Function, key: Any) -> tuple[str | None, list[Note]]:
    words = lambda_text(function)[1:-1].split()
    if "&key" not in words:
        return None, []
    known = [f":{w}" for w in words[words.index("&key") + 1 :] if not w.startswith("&")]
    near = nearest(brief(key), known) if key is not None else None
    return (f"write {near}" if near else f"its keywords are {' '.join(known)}"), []


def _visible(module: Module | None, keep: Callable[[Symbol], bool]) -> list[str]:
    if module is None:
        return [n for n, s in CL.symbols.items() if keep(s)]
    names: list[str] = []
    for layer in (module, *module.inherits):
        names.extend(n for n, s in layer.symbols.items() if keep(s) and not n.startswith("%"))
    return names


def _variable_fix(name: Symbol, module: Module | None, scope: Any) -> tuple[str | None, list[Note]]:
    function = name.function
    if function is not None:
        # A constructor or a function was written where a value belongs.
        shown = f"{_prefix(name, module)}{name.name}"
        called = f"({shown})" if function.maximum == 0 else f"({shown} …)"
        return f"write {called} to call it, or #'{shown} for the function itself", [
            Note(f"{shown} is a function, not a variable")
        ]
    from sexpgpu.lisp.other_names import ABSENT_VARIABLES, VARIABLES

    if name.name in ABSENT_VARIABLES:
        why, fix = ABSENT_VARIABLES[name.name]
        return fix, [Note(f"Common Lisp's {name.name} is not here: {why}")]
    known: list[str] = [] if scope is None else scope.variable_names()
    known += _visible(module, lambda s: s.value is not UNBOUND or s.symbol_macro is not UNBOUND)
    if name.name != name.name.lower() and name.name.lower() in known:
        return _lower_case(name.name), []
    near = VARIABLES.get(name.name) or nearest(name.name, known)
    if near:
        return f"write {near}", []
    if name.name.startswith(":") or name.module is KEYWORD:
        return None, []
    shown = name.name if len(name.name) <= 40 else f"{name.name[:39]}…"
    return f"correct the name, or define it: (defvar {shown} …)", []


def _lower_case(name: str) -> str:
    """What to write for a name of capitals, which `intern` or bars made."""
    return f"write {name.lower()}: the reader makes names lower case, intern and |…| keep the case"


def _prefix(name: Symbol, module: Module | None) -> str:
    """`alias:` where the module knows the symbol by an alias only, else nothing."""
    if module is None or module.find(name.name) is name:
        return ""
    for alias, target in module.aliases.items():
        if target is name.module:
            return f"{alias}:"
    return ""


def uncallable(name: Symbol) -> str | None:
    """What to say of a name that can be no function's."""
    if name.module is KEYWORD:
        return f"{brief(name)} is a keyword and cannot be called"
    from sexpgpu.lisp.other_names import ABSENT, OPERATORS

    if name.name in ABSENT and name.name not in OPERATORS:
        return f"Common Lisp's {name.name} is not here: {ABSENT[name.name][0]}"
    return None


def function_fix(name: Symbol, module: Module | None, scope: Any, call: Span | None) -> str:
    """What to write for the call of an undefined function; `scope` knows the variables around."""
    if name.module is KEYWORD:
        return f"for a list write '({brief(name)} …), or (list {brief(name)} …)"
    if module is None and isinstance(name.module, Module) and name.module is not CL:
        module = name.module  # while graphs are traced no file is being read
    if (scope is not None and scope.variable(name) is not None) or (
        name.value is not UNBOUND or name.symbol_macro is not UNBOUND
    ):
        return _variable_call(name, call)
    from sexpgpu.lisp.analyze import SPECIAL
    from sexpgpu.lisp.other_names import ABSENT, FUNCTIONS, LEAVE

    known = _visible(module, lambda s: s.function is not None or s.macro is not None)
    known.extend(s.name for s in SPECIAL)
    if FUNCTIONS.get(name.name.replace("_", "-")) in known:
        return f"write {FUNCTIONS[name.name.replace('_', '-')]}"
    if name.name in ABSENT:
        return ABSENT[name.name][1]
    if name.name in LEAVE:
        return "leave the call out; Ctrl-D ends a dialogue"
    if module is not None:
        for alias, target in module.aliases.items():
            found = target.symbols.get(name.name)
            if name.name in target.deferred or (
                found is not None and (found.function or found.macro)
            ):
                return f"write {alias}:{name.name}"
    dotted = _dotted_fix(name.name, known, scope)
    if dotted is not None:
        return dotted
    later = defined_later(name, call)
    if later is not None:
        return f"it is defined further down, in line {later}: move the definition up"
    if name.name != name.name.lower() and name.name.lower() in known:
        return _lower_case(name.name)
    near = nearest(name.name, known)
    return f"write {near}" if near else "correct the name, or define the function"


def _dotted_fix(name: str, known: Iterable[str], scope: Any) -> str | None:
    """What to write for a function of a module or a method of a value, as other languages have
    them: `F.relu`, `np.exp`, `x.mean`, `self.up`, `model.forward`."""
    from sexpgpu.lisp.other_names import FUNCTIONS

    owner, dot, last = name.rpartition(".")
    if not dot or not owner or not last:
        return None
    if owner == "self":
        return f"write {last.replace('_', '-')}"
    variables: list[str] = [] if scope is None else scope.variable_names()
    if last in ("forward", "__call__") and owner in variables:
        return f"write (funcall {owner} …)"
    ours = FUNCTIONS.get(last.replace("_", "-"), last.replace("_", "-"))
    if ours not in known:
        return None
    return f"write ({ours} {owner} …)" if owner in variables else f"write {ours}"


def defined_later(name: Symbol, use: Span | None) -> int | None:
    """The line below its use in which the same text defines a name, or None. What a structure
    defines counts."""
    if use is None:
        return None
    import re

    word = re.escape(name.name)
    found = re.compile(rf"^\(def[^\s()]*\s+\(?{word}[\s()]", re.MULTILINE | re.IGNORECASE)
    match = found.search(use.source.text, use.end)
    if match is None and name.name.startswith("make-"):
        word = re.escape(name.name[5:])
        found = re.compile(rf"^\(defstruct\s+\(?{word}[\s()]", re.MULTILINE | re.IGNORECASE)
        match = found.search(use.source.text, use.end)
    return None if match is None else use.source.text.count("\n", 0, match.start()) + 1


def _variable_call(name: Symbol, call: Span | None) -> str:
    """A variable's name stands where a function's belongs."""
    text = call.text if call is not None else ""
    head = f"({name.name}"
    if text == f"{head})":
        return f"{name.name} is a variable here: write {name.name}, or (funcall {name.name})"
    shown = f"(funcall {name.name} …)"
    if text.lower().startswith(f"{head} ") and "\n" not in text and len(text) <= 60:
        shown = f"(funcall {name.name}{text[len(head) :]}"
    return f"{name.name} is a variable here: write {shown}"

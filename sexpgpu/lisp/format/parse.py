"""Control strings of `format` to directives. Knows the syntax, not what directives do."""

from __future__ import annotations

from sexpgpu.lisp.errors import LispError, simple_error

V = object()  # the parameter is the next argument
COUNT = object()  # the parameter is the number of arguments left

Parameter = object
_CLOSERS = {"(": ")", "[": "]", "{": "}", "<": ">"}
_KNOWN = frozenset("asdboxrpcfeg$%&|~t*?([{<^w;)]}>\n")
_REFUSED = {
    "_": "pretty printing (~_)",
    "i": "pretty printing (~i)",
    "/": "calling functions by name (~/)",
}
_WHITE = " \t\n\r\f"


class Directive:
    """One directive: `kind` is its letter in lower case. Blocks have `clauses`; `separators`
    are the ~; between them, `closer` the directive that ends the block."""

    __slots__ = (
        "at",
        "bare",
        "clauses",
        "closer",
        "colon",
        "kind",
        "parameters",
        "position",
        "separators",
    )

    def __init__(
        self, kind: str, parameters: list[Parameter], colon: bool, at: bool, position: int
    ) -> None:
        self.kind = kind
        self.parameters = parameters
        self.colon = colon
        self.at = at
        self.position = position
        self.clauses: list[list[Node]] = []
        self.separators: list[Directive] = []
        self.closer: Directive | None = None
        self.bare = False  # nothing at all is between the opening and the closing directive


Node = str | Directive


def format_error(message: str, control: str, position: int) -> LispError:
    """The error for a bad control string or arguments that do not fit it."""
    shown = control if len(control) <= 60 else control[:59] + "…"
    return simple_error(f'format: {message} (at {position} of "{shown}")')


class _Parser:
    __slots__ = ("at", "control", "justifies", "writes")

    def __init__(self, control: str) -> None:
        self.control = control
        self.at = 0
        self.justifies = False  # a ~:; stood in a ~<
        self.writes = -1  # where a ~w stood

    def block(self, opener: Directive | None) -> list[list[Node]]:
        """The clauses up to the directive that closes `opener` (None: up to the end)."""
        control = self.control
        clauses: list[list[Node]] = [[]]
        while True:
            tilde = control.find("~", self.at)
            if tilde < 0:
                if opener is not None:
                    raise format_error(f"~{opener.kind} is not closed", control, opener.position)
                if self.at < len(control):
                    clauses[-1].append(control[self.at :])
                if self.justifies and self.writes >= 0:
                    raise format_error("~w beside ~<…~:;…~>", control, self.writes)
                return clauses
            if tilde > self.at:
                clauses[-1].append(control[self.at : tilde])
            directive = self.directive(tilde)
            kind = directive.kind
            if kind == "w":
                self.writes = tilde
            if kind == ";":
                if opener is None or opener.kind not in "[<":
                    raise format_error("~; outside ~[ or ~<", control, tilde)
                opener.separators.append(directive)
                self.justifies |= opener.kind == "<" and directive.colon
                clauses.append([])
            elif kind in ")]}>":
                if opener is None or _CLOSERS[opener.kind] != kind:
                    raise format_error(f"~{kind} closes nothing", control, tilde)
                opener.closer = directive
                return clauses
            elif kind == "\n":
                self.newline(directive, clauses[-1])
            else:
                if kind in _CLOSERS:
                    start = self.at
                    directive.clauses = self.block(directive)
                    directive.bare = directive.closer is not None and (
                        directive.closer.position == start
                    )
                    self.check_block(directive)
                clauses[-1].append(directive)

    def check_block(self, directive: Directive) -> None:
        closer = directive.closer
        if directive.kind == "<" and closer is not None and closer.colon:
            raise format_error("pretty printing (~:>) is not here", self.control, closer.position)
        if directive.kind == "<" and any(
            isinstance(node, Directive) and node.kind == "w"
            for clause in directive.clauses
            for node in clause
        ):
            raise format_error("~w inside ~<", self.control, directive.position)
        if directive.kind == "[" and directive.colon and len(directive.clauses) != 2:
            raise format_error("~:[ needs two clauses", self.control, directive.position)
        if directive.kind == "[" and directive.at and len(directive.clauses) != 1:
            raise format_error("~@[ needs one clause", self.control, directive.position)

    def newline(self, directive: Directive, into: list[Node]) -> None:
        """~ before a newline: the line goes on after the blanks that follow."""
        if directive.at:
            into.append("\n")
        if not directive.colon:
            while self.at < len(self.control) and self.control[self.at] in _WHITE:
                self.at += 1

    def directive(self, tilde: int) -> Directive:
        """The directive that begins at a tilde; leaves `at` after it."""
        control = self.control
        at = tilde + 1
        parameters: list[Parameter] = []
        size = len(control)

        def need(position: int) -> str:
            if position >= size:
                raise format_error("the control string ends inside a directive", control, tilde)
            return control[position]

        while True:
            letter = need(at)
            if letter == "'":
                parameters.append(need(at + 1))
                at += 2
            elif letter in "vV":
                parameters.append(V)
                at += 1
            elif letter == "#":
                parameters.append(COUNT)
                at += 1
            elif letter in "0123456789+-":
                end = at + 1
                while need(end) in "0123456789":
                    end += 1
                if not control[at + 1 : end] and letter in "+-":
                    raise format_error("a sign without a number", control, at)
                parameters.append(int(control[at : min(end, at + 4000)]))
                at = end
            elif letter == ",":
                parameters.append(None)
            else:
                break
            if need(at) != ",":
                break
            at += 1
        colon = sign = False
        while need(at) in ":@":
            if (control[at] == ":" and colon) or (control[at] == "@" and sign):
                raise format_error(f"two {control[at]} in one directive", control, at)
            colon, sign = colon or control[at] == ":", sign or control[at] == "@"
            at += 1
        kind = need(at).lower()
        if kind in _REFUSED:
            raise format_error(f"{_REFUSED[kind]} is not here", control, tilde)
        if kind not in _KNOWN:
            raise format_error(f"~{need(at)} is no directive", control, tilde)
        self.at = at + 1
        return Directive(kind, parameters, colon, sign, tilde)


_CACHE: dict[str, list[Node]] = {}


def parse(control: str) -> list[Node]:
    """The directives and texts of a control string."""
    found = _CACHE.get(control)
    if found is None:
        found = _Parser(control).block(None)[0]
        if len(_CACHE) >= 512:
            _CACHE.clear()
        _CACHE[control] = found
    return found

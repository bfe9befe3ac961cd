"""Graphs as text for people, and back, exactly but for origins (those are comments).

    (graph "square"
      (inputs
        (%batch/x (f32 (4 2) :batch 0)))
      (nodes
        (%0 (f32 (4 2) :batch 0) (mul %batch/x %batch/x))     ; net.sx:3:12
        (%1 (f32 ()) (sum %0 :axes (0 1)) :numerics "compute=f32"))
      (outputs
        ("loss" %1)))

A node is (NAME TYPE ... (OP OPERAND ... :ATTRIBUTE VALUE ...)), with a name and a type for each
result. Values are named by the input's name or numbered in order. An attribute is an integer, a
float (with a point or an exponent, or nan, inf, -inf), true, false, none, a string, a list, or a
graph. A name that is not plain is written as a string: %"two words". Knows neither Lisp nor ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from sexpgpu.diagnostics.codes.tensor import E_IR_006, E_IR_008, E_IR_009
from sexpgpu.diagnostics.model import Code, Diagnostic, Label, SxError
from sexpgpu.ir.graph import Attr, Graph, Node, Value, kind_of
from sexpgpu.ir.types import ITEMSIZE, TensorType
from sexpgpu.ir.verify import LIMITS
from sexpgpu.source import NOWHERE, Origin, Source, Span

_PLAIN = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+*/.'<>=!?$&@^~"
)
_DIGITS = frozenset("0123456789")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_UNESCAPED = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}

# -- printing -----------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """A string as the text form writes it."""
    return '"' + "".join([_UNESCAPED.get(char, char) for char in text]) + '"'


def value_names(graph: Graph) -> dict[Value, str]:
    """The name of every value in the text form: inputs by name, results by number."""
    names = {value: _input_name(name) for name, value in graph.inputs.items()}
    number = 0
    for node in graph.nodes:
        for value in node.results:
            names[value] = f"%{number}"
            number += 1
    return names


def _input_name(name: str) -> str:
    plain = bool(name) and _PLAIN.issuperset(name) and not _DIGITS.issuperset(name)
    return "%" + (name if plain else quoted(name))


def print_graph(graph: Graph, origins: bool = True) -> str:
    """The text of a graph, ending in a newline. With `origins`, places as comments."""
    return _print_graph(graph, "", origins) + "\n"


def _print_graph(graph: Graph, indent: str, origins: bool) -> str:
    names = value_names(graph)
    lines = [f"{indent}(graph {quoted(graph.name)}"]
    _section(
        lines,
        indent,
        "inputs",
        [(f"({names[v]} {_type_text(v.type)})", "") for v in graph.inputs.values()],
        ")",
    )
    _section(
        lines,
        indent,
        "nodes",
        [
            (_node_text(node, names, indent, origins), _comment(node.origin) if origins else "")
            for node in graph.nodes
        ],
        ")",
    )
    _section(
        lines,
        indent,
        "outputs",
        [(f"({quoted(name)} {names[v]})", "") for name, v in graph.outputs.items()],
        "))",
    )
    return "\n".join(lines)


def _section(
    lines: list[str], indent: str, head: str, items: Sequence[tuple[str, str]], close: str
) -> None:
    if not items:
        lines.append(f"{indent}  ({head}{close}")
        return
    lines.append(f"{indent}  ({head}")
    for number, (text, comment) in enumerate(items):
        end = close if number == len(items) - 1 else ""
        lines.append(f"{indent}    {text}{end}" + (f"  ; {comment}" if comment else ""))


def _comment(origin: Origin) -> str:
    span = origin.user_span
    parts = [str(span) if span is not None else "", origin.path, origin.note]
    return ", ".join([part.replace("\n", " ").replace("\r", " ") for part in parts if part])


def _type_text(type: TensorType) -> str:
    shape = f"({' '.join(map(str, type.shape))})"
    batch = "" if type.batch is None else f" :batch {type.batch}"
    return f"({type.dtype} {shape}{batch})"


def _node_text(node: Node, names: dict[Value, str], indent: str, origins: bool) -> str:
    parts = [f"{names[v]} {_type_text(v.type)}" for v in node.results]
    call = [node.op if _is_word(node.op) else quoted(node.op)]
    call += [names[v] for v in node.operands]
    call += [
        f":{key} {_attr_text(attr, indent, origins)}" for key, attr in sorted(node.attrs.items())
    ]
    parts.append(f"({' '.join(call)})")
    if node.numerics is not None:
        parts.append(f":numerics {quoted(node.numerics)}")
    return f"({' '.join(parts)})"


def _is_word(text: str) -> bool:
    return bool(text) and _PLAIN.issuperset(text)


def _attr_text(attr: Attr, indent: str, origins: bool) -> str:
    kind = kind_of(attr)
    if attr is None:
        return "none"
    if kind is bool:
        return "true" if attr else "false"
    if kind is int or kind is float:
        return repr(attr)
    if kind is str:
        return quoted(attr)
    if kind is tuple:
        return f"({' '.join([_attr_text(item, indent, origins) for item in attr])})"
    if kind is Graph:
        return "\n" + _print_graph(attr, indent + "      ", origins)
    raise TypeError(f"an attribute cannot be {attr!r}")


# -- reading ------------------------------------------------------------------------------------


class Word(str):
    """An unquoted token: what a string is not."""

    __slots__ = ("at",)
    at: int


class Quoted(str):
    """A string."""

    __slots__ = ("at",)
    at: int


class TextList(list[Any]):
    """A parenthesised list, and where it begins."""

    __slots__ = ("at",)
    at: int


class TextReader:
    """Reads one form of nested lists, words and strings."""

    __slots__ = ("source", "text")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text

    def refuse(self, at: int, message: str, code: Code = E_IR_009) -> NoReturn:
        span = Span(self.source, at, min(at + 1, len(self.text)))
        raise SxError(Diagnostic(code, message, [Label(span)]))

    def read(self) -> TextList:
        """The only form of the text, a list."""
        text, at, end = self.text, 0, len(self.text)
        stack: list[TextList] = []
        top: TextList | None = None
        while at < end:
            char = text[at]
            if char in " \t\r\n":
                at += 1
            elif char == ";":
                newline = text.find("\n", at)
                at = end if newline < 0 else newline
            elif top is not None and not stack:
                self.refuse(at, "text after the graph")
            elif char == "(":
                made = TextList()
                made.at = at
                if stack:
                    stack[-1].append(made)
                if len(stack) > 4 * LIMITS.nesting:
                    self.refuse(at, "lists are nested too deeply", E_IR_006)
                stack.append(made)
                top = top if top is not None else made
                at += 1
            elif not stack:
                self.refuse(at, "wanted a list: (graph ...)")
            elif char == ")":
                stack.pop()
                at += 1
            else:
                token, at = self.string(at) if char == '"' else self.word(at)
                stack[-1].append(token)
        if stack:
            self.refuse(stack[-1].at, "this list is not closed")
        if top is None:
            self.refuse(0, "there is no graph")
        return top

    def word(self, at: int) -> tuple[Word, int]:
        text, start = self.text, at
        while at < len(text) and text[at] not in ' \t\r\n();"':
            at += 1
        if text[start:at] == "%" and at < len(text) and text[at] == '"':
            name, at = self.string(at)
            made = Word("%" + name)
        else:
            made = Word(text[start:at])
            if made[0] == "%" and _DIGITS.issuperset(made[1:]):
                made = Word("#" + made[1:])  # a numbered result, not an input of that name
        made.at = start
        return made, at

    def string(self, at: int) -> tuple[Quoted, int]:
        text, start, parts = self.text, at, list[str]()
        at += 1
        while True:
            if at >= len(text):
                self.refuse(start, "this string is not closed")
            char = text[at]
            if char == '"':
                made = Quoted("".join(parts))
                made.at = start
                return made, at + 1
            if char == "\\":
                at += 1
                char = _ESCAPES.get(text[at] if at < len(text) else "", "")
                if not char:
                    self.refuse(at - 1, "no such escape in a string")
            parts.append(char)
            at += 1


def parse_graph(text: str | Source) -> Graph:
    """The graph that `print_graph` wrote, without origins. Its types are as written: verify it."""
    source = text if isinstance(text, Source) else Source("<graph>", text)
    reader = TextReader(source)
    return GraphParser(reader).graph(reader.read(), 0)


class GraphParser:
    """Makes graphs of what the reader read."""

    __slots__ = ("refuse",)

    def __init__(self, reader: TextReader) -> None:
        self.refuse = reader.refuse

    def graph(self, form: Any, depth: int) -> Graph:
        if depth > LIMITS.nesting:
            self.refuse(form.at, "graphs are nested too deeply", E_IR_006)
        wanted = "wanted (graph NAME (inputs ...) (nodes ...) (outputs ...))"
        if len(form) != 5 or form[0] != "graph" or type(form[1]) is not Quoted:
            self.refuse(form.at, wanted)
        inputs: dict[str, Value] = {}
        values: dict[str, Value] = {}
        for item in self.section(form[2], "inputs", wanted, form.at):
            if len(item) != 2:
                self.refuse(item.at, "an input is (NAME TYPE)")
            name = self.name(item[0], item.at)
            if name[0] != "%":
                self.refuse(item[0].at, "an input is named, not numbered")
            value = Value(self.type(item[1], item.at))
            self.define(values, name, value, item[0].at)
            inputs[name[1:]] = value
        nodes: list[Node] = []
        for item in self.section(form[3], "nodes", wanted, form.at):
            nodes.append(self.node(item, values, depth))
        outputs: dict[str, Value] = {}
        for item in self.section(form[4], "outputs", wanted, form.at):
            if len(item) != 2 or type(item[0]) is not Quoted:
                self.refuse(item.at, 'an output is ("NAME" VALUE)')
            if item[0] in outputs:
                self.refuse(item.at, f"there is another output {str(item[0])!r}", E_IR_008)
            outputs[str(item[0])] = self.value(item[1], values, item.at)
        return Graph(str(form[1]), inputs, nodes, outputs)

    def section(self, form: Any, head: str, wanted: str, at: int) -> list[TextList]:
        if type(form) is not TextList or not form or form[0] != head or type(form[0]) is not Word:
            self.refuse(form.at if hasattr(form, "at") else at, wanted)
        for item in form[1:]:
            if type(item) is not TextList:
                self.refuse(item.at, f"the items of ({head} ...) are lists")
        return form[1:]

    def define(self, values: dict[str, Value], name: str, value: Value, at: int) -> None:
        if name in values:
            self.refuse(at, f"there is another value {name}", E_IR_008)
        values[name] = value

    def name(self, token: Any, at: int) -> str:
        if type(token) is not Word or token[0] not in "%#":
            self.refuse(getattr(token, "at", at), "wanted the name of a value, %...")
        return str(token)

    def value(self, token: Any, values: dict[str, Value], at: int) -> Value:
        name = self.name(token, at)
        if name not in values:
            self.refuse(token.at, f"%{name[1:]} is not defined before")
        return values[name]

    def type(self, form: Any, at: int) -> TensorType:
        if (
            type(form) is not TextList
            or len(form) not in (2, 4)
            or type(form[0]) is not Word
            or form[0] not in ITEMSIZE
        ):
            self.refuse(getattr(form, "at", at), "a type is (DTYPE (EXTENT ...)) or with :batch N")
        extents = form[1]
        if type(extents) is not TextList:
            self.refuse(form.at, "a shape is a list")
        shape = tuple([self.number(item, extents.at) for item in extents])
        if not all(type(extent) is int and extent >= 0 for extent in shape):
            self.refuse(extents.at, "a shape is a list of sizes")
        batch = None
        if len(form) == 4:
            batch = self.number(form[3], form.at)
            if form[2] != ":batch" or type(batch) is not int or not 0 <= batch < len(shape):
                self.refuse(form.at, "wanted :batch and an axis of the shape")
        return TensorType(shape, str(form[0]), batch)

    def number(self, token: Any, at: int) -> Any:
        made = self.atom(token) if type(token) is Word else None
        if type(made) is not int:
            self.refuse(getattr(token, "at", at), "wanted an integer")
        return made

    def node(self, form: TextList, values: dict[str, Value], depth: int) -> Node:
        wanted = "a node is (NAME TYPE ... (OP OPERAND ... :ATTRIBUTE VALUE ...))"
        items: list[Any] = list(form)
        numerics = None
        if len(items) >= 2 and items[-2] == ":numerics" and type(items[-1]) is Quoted:
            numerics = str(items[-1])
            items = items[:-2]
        if len(items) % 2 == 0 or type(items[-1]) is not TextList:
            self.refuse(form.at, wanted)
        call = items[-1]
        if not call or type(call[0]) not in (Word, Quoted):
            self.refuse(call.at, wanted)
        operands: list[Value] = []
        at = 1
        while at < len(call) and not (type(call[at]) is Word and call[at][0] == ":"):
            operands.append(self.value(call[at], values, call.at))
            at += 1
        attrs: dict[str, Attr] = {}
        while at < len(call):
            key = call[at]
            if type(key) is not Word or key[0] != ":" or at + 1 == len(call):
                self.refuse(getattr(key, "at", call.at), "wanted :ATTRIBUTE VALUE")
            if key[1:] in attrs:
                self.refuse(key.at, f"there is another attribute {key}", E_IR_008)
            attrs[str(key[1:])] = self.attr(call[at + 1], depth, 0)
            at += 2
        results: list[Value] = []
        for index in range(0, len(items) - 1, 2):
            name = self.name(items[index], form.at)
            if name[0] != "#":
                self.refuse(items[index].at, "a result is numbered, not named")
            value = Value(self.type(items[index + 1], form.at))
            self.define(values, name, value, items[index].at)
            results.append(value)
        return Node(str(call[0]), tuple(operands), attrs, tuple(results), NOWHERE, numerics)

    def attr(self, token: Any, depth: int, level: int) -> Attr:
        if type(token) is Quoted:
            return str(token)
        if type(token) is TextList:
            if level > LIMITS.nesting:
                self.refuse(token.at, "lists are nested too deeply", E_IR_006)
            if token and token[0] == "graph" and type(token[0]) is Word:
                return self.graph(token, depth + 1)
            return tuple([self.attr(item, depth, level + 1) for item in token])
        return self.atom(token)

    def atom(self, token: Word) -> Attr:
        """none, true, false, an integer or a float."""
        constants = {"none": None, "true": True, "false": False}
        if token in constants:
            return constants[token]
        if token in ("nan", "inf", "-inf"):
            return float(token)
        try:
            digits = token[1:] if token[0] == "-" else token
            if digits and _DIGITS.issuperset(digits):
                return int(token)
            made = float(token) if digits and digits[0] in _DIGITS and "_" not in token else None
        except ValueError:  # no number, or one of thousands of digits
            made = None
        if made is None or made in (float("inf"), float("-inf")):
            self.refuse(token.at, f"{str(token)!r} is no attribute")
        return made

"""Graphs as plain JSON data and back, exactly; the canonical JSON text. Knows neither Lisp nor ops.

A value has no name: it is numbered by position, inputs first, then each node's results. Reading
checks the form of everything and every reference; `ir/verify.py` checks the types.

    graph   {name, inputs: [{name, shape, dtype, batch_axis?}], nodes: [node],
             outputs: [{name, value}]}
    node    {op, inputs: [value], attrs, shape, dtype, batch_axis?, numerics?, origin?}, with
            results: [{shape, dtype, batch_axis?}] in place of a type when there is not just one
    attr    a number, true, false, null, a string, a list; {"float": "nan" | "inf" | "-inf"};
            {"graph": graph}
    origin  an index into the table of origins: {span?, calls?, expansions?, path?, note?}, with
            spans [source, start, end] and expansions [name, span]

A JSON number is a float exactly when it is written with a point or an exponent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, NoReturn

from sexpgpu.diagnostics.codes.tensor import E_IR_001, E_IR_003, E_IR_004, E_IR_006, E_IR_008
from sexpgpu.diagnostics.model import Code, Diagnostic, SxError
from sexpgpu.ir.graph import Attr, Graph, Node, Value, kind_of
from sexpgpu.ir.types import ITEMSIZE, TensorType
from sexpgpu.ir.verify import LIMITS
from sexpgpu.source import NOWHERE, Origin, Source, Span

SPECIAL_FLOATS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def refuse(code: Code, headline: str) -> NoReturn:
    """Raise the error of a document that cannot be read."""
    raise SxError(Diagnostic(code, headline))


# -- text ---------------------------------------------------------------------------------------


def canonical(data: Any) -> str:
    """The one JSON text of plain data: keys sorted, no spaces, floats shortest and exact."""
    return json.dumps(
        data, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    )


def parse_json(text: str | bytes) -> Any:
    """JSON data of a text. Refuses NaN, Infinity, repeated keys, and anything that is no JSON."""

    def constant(word: str) -> NoReturn:
        refuse(E_IR_001, f"the document has {word}, which is not JSON")

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(items)
        if len(made) != len(items):
            refuse(E_IR_008, "the document has an object with one key twice")
        return made

    try:
        data = json.loads(text, parse_constant=constant, object_pairs_hook=pairs)
        escapes = "\\u" in text if isinstance(text, str) else b"\\u" in text
        if escapes:
            canonical(data).encode()  # half of a surrogate pair is no text
        return data
    except RecursionError:
        refuse(E_IR_006, "the document is nested too deeply")
    except ValueError as error:  # no JSON, no UTF-8, or an integer of thousands of digits
        refuse(E_IR_001, f"the document is not JSON: {error}")


# -- writing ------------------------------------------------------------------------------------


class OriginTable:
    """Origins by number. Equal ones are stored once."""

    __slots__ = ("_by_id", "_by_key", "_kept", "_sources", "rows")

    def __init__(self, sources: Iterable[Source] = ()) -> None:
        self.rows: list[dict[str, Any]] = []
        self._sources: dict[int, int] = {}
        self._kept: list[Any] = []  # keeps what is known by its id alive
        self._by_id: dict[int, int] = {}
        self._by_key: dict[str, int] = {}
        for source in sources:
            self.source(source)

    @property
    def sources(self) -> list[Source]:
        """The sources that spans refer to, in order of number."""
        return [kept for kept in self._kept if isinstance(kept, Source)]

    def source(self, source: Source) -> int:
        number = self._sources.get(id(source))
        if number is None:
            number = self._sources[id(source)] = len(self._sources)
            self._kept.append(source)
        return number

    def span(self, span: Span) -> list[int]:
        return [self.source(span.source), span.start, span.end]

    def add(self, origin: Origin) -> int:
        """The number of an origin."""
        number = self._by_id.get(id(origin))
        if number is None:
            row: dict[str, Any] = {}
            if origin.span is not None:
                row["span"] = self.span(origin.span)
            if origin.calls:
                row["calls"] = [self.span(span) for span in origin.calls]
            if origin.expansions:
                row["expansions"] = [[name, self.span(span)] for name, span in origin.expansions]
            if origin.path:
                row["path"] = origin.path
            if origin.note:
                row["note"] = origin.note
            key = canonical(row)
            number = self._by_key.get(key)
            if number is None:
                number = self._by_key[key] = len(self.rows)
                self.rows.append(row)
            self._by_id[id(origin)] = number
            self._kept.append(origin)
        return number


def graph_to_json(graph: Graph, origins: OriginTable | None = None) -> dict[str, Any]:
    """A graph as plain data. Without a table the origins are left out, as a hash wants it."""
    numbers: dict[Value, int] = {}
    for value in graph.inputs.values():
        numbers[value] = len(numbers)
    nodes: list[dict[str, Any]] = []
    for node in graph.nodes:
        row: dict[str, Any] = {
            "op": node.op,
            "inputs": [numbers[value] for value in node.operands],
            "attrs": {key: _attr_to_json(attr, origins) for key, attr in node.attrs.items()},
        }
        if len(node.results) == 1:
            _put_type(row, node.results[0].type)
        else:
            row["results"] = [_put_type({}, value.type) for value in node.results]
        if node.numerics is not None:
            row["numerics"] = node.numerics
        if origins is not None:
            row["origin"] = origins.add(node.origin)
        for value in node.results:
            numbers[value] = len(numbers)
        nodes.append(row)
    return {
        "name": graph.name,
        "inputs": [_put_type({"name": name}, value.type) for name, value in graph.inputs.items()],
        "nodes": nodes,
        "outputs": [{"name": n, "value": numbers[value]} for n, value in graph.outputs.items()],
    }


def _put_type(row: dict[str, Any], type: TensorType) -> dict[str, Any]:
    row["shape"] = list(type.shape)
    row["dtype"] = type.dtype
    if type.batch is not None:
        row["batch_axis"] = type.batch
    return row


def _attr_to_json(attr: Attr, origins: OriginTable | None) -> Any:
    kind = kind_of(attr)
    if kind is float:
        if isfinite(attr):
            return attr
        return {"float": "nan" if attr != attr else "inf" if attr > 0 else "-inf"}
    if kind is tuple:
        return [_attr_to_json(item, origins) for item in attr]
    if kind is Graph:
        return {"graph": graph_to_json(attr, origins)}
    if attr is None or kind in (int, bool, str):
        return attr
    raise TypeError(f"an attribute cannot be {attr!r}")


# -- reading ------------------------------------------------------------------------------------


def fields(data: Any, where: str, required: Sequence[str], optional: Sequence[str] = ()) -> Any:
    """`data`, an object with the required fields and no unknown one."""
    if kind_of(data) is not dict:
        refuse(E_IR_003, f"{where} is not an object")
    for key in required:
        if key not in data:
            refuse(E_IR_003, f"{where} has no {key}")
    if len(data) > len(required):
        for key in data:
            if key not in required and key not in optional:
                refuse(E_IR_003, f"{where} has an unknown field {key!r}")
    return data


def expect(data: Any, kind: type, where: str) -> Any:
    """`data`, of exactly that Python type."""
    if kind_of(data) is not kind:
        names = {list: "a list", dict: "an object", str: "a string", int: "an integer"}
        refuse(E_IR_003, f"{where} is not {names.get(kind, kind.__name__)}")
    return data


def origins_from_json(data: Any, sources: Sequence[Source]) -> list[Origin]:
    """The table of origins."""
    found: list[Origin] = []
    for index, row in enumerate(expect(data, list, "origins")):
        where = f"origins/{index}"
        fields(row, where, (), ("calls", "expansions", "note", "path", "span"))
        calls = expect(row.get("calls", []), list, f"{where}/calls")
        expansions: list[tuple[str, Span]] = []
        for item in expect(row.get("expansions", []), list, f"{where}/expansions"):
            if kind_of(item) is not list or len(item) != 2 or kind_of(item[0]) is not str:
                refuse(E_IR_003, f"{where}/expansions is not a list of names and spans")
            expansions.append((item[0], _span(item[1], sources, where)))
        found.append(
            Origin(
                _span(row["span"], sources, where) if "span" in row else None,
                tuple([_span(span, sources, where) for span in calls]),
                tuple(expansions),
                expect(row.get("path", ""), str, f"{where}/path"),
                expect(row.get("note", ""), str, f"{where}/note"),
            )
        )
    return found


def _span(data: Any, sources: Sequence[Source], where: str) -> Span:
    if not is_list_of(int, data) or len(data) != 3:
        refuse(E_IR_003, f"{where}: a span is a source, a start and an end")
    number: int = data[0]
    start: int = data[1]
    end: int = data[2]
    if not 0 <= number < len(sources) or not 0 <= start <= end <= len(sources[number].text):
        refuse(E_IR_004, f"{where}: a span {data} outside the sources")
    return Span(sources[number], start, end)


def is_list_of(kind: type, data: Any) -> bool:
    """Whether `data` is a list whose items are of exactly that Python type."""
    if kind_of(data) is not list:
        return False
    items: list[Any] = data
    return all(kind_of(item) is kind for item in items)


def graph_from_json(
    data: Any, origins: Sequence[Origin] = (), where: str = "graph", depth: int = 0
) -> Graph:
    """The graph that `graph_to_json` wrote. Its types are as written: verify it."""
    if depth > LIMITS.nesting:
        refuse(E_IR_006, f"{where} is over {LIMITS.nesting} graphs deep")
    fields(data, where, ("inputs", "name", "nodes", "outputs"))
    name = expect(data["name"], str, f"{where}/name")
    values: list[Value] = []
    inputs: dict[str, Value] = {}
    for index, row in enumerate(expect(data["inputs"], list, f"{where}/inputs")):
        place = f"{where}/inputs/{index}"
        fields(row, place, ("dtype", "name", "shape"), ("batch_axis",))
        key = expect(row["name"], str, f"{place}/name")
        if key in inputs:
            refuse(E_IR_008, f"{place}: there is another input {key!r}")
        inputs[key] = Value(_type(row, place))
        values.append(inputs[key])
    rows = expect(data["nodes"], list, f"{where}/nodes")
    if len(rows) > LIMITS.nodes:
        refuse(E_IR_006, f"{where} has over {LIMITS.nodes} nodes")
    nodes: list[Node] = []
    for index, row in enumerate(rows):
        node = _node(row, values, origins, f"{where}/nodes/{index}", depth)
        nodes.append(node)
        values.extend(node.results)
    outputs: dict[str, Value] = {}
    for index, row in enumerate(expect(data["outputs"], list, f"{where}/outputs")):
        place = f"{where}/outputs/{index}"
        fields(row, place, ("name", "value"))
        key = expect(row["name"], str, f"{place}/name")
        if key in outputs:
            refuse(E_IR_008, f"{place}: there is another output {key!r}")
        outputs[key] = _value(row["value"], values, place)
    return Graph(name, inputs, nodes, outputs)


_NODE = ("attrs", "inputs", "op")
_NODE_MORE = ("batch_axis", "dtype", "numerics", "origin", "results", "shape")


def _node(
    row: Any, values: Sequence[Value], origins: Sequence[Origin], where: str, depth: int
) -> Node:
    fields(row, where, _NODE, _NODE_MORE)
    operands = [_value(n, values, where) for n in expect(row["inputs"], list, f"{where}/inputs")]
    attrs = {
        key: _attr(attr, origins, where, key, depth)
        for key, attr in expect(row["attrs"], dict, f"{where}/attrs").items()
    }
    if "results" in row:
        if "shape" in row or "dtype" in row or "batch_axis" in row:
            refuse(E_IR_003, f"{where} has both a type and results")
        types = [
            _type(fields(r, where, ("dtype", "shape"), ("batch_axis",)), where)
            for r in expect(row["results"], list, f"{where}/results")
        ]
        if len(types) == 1:
            refuse(E_IR_003, f"{where}: the type of an only result stands in the node")
    else:
        fields(row, where, ("dtype", "shape"), (*_NODE, *_NODE_MORE))
        types = [_type(row, where)]
    origin = NOWHERE
    if "origin" in row:
        number: int = expect(row["origin"], int, f"{where}/origin")
        if not 0 <= number < len(origins):
            refuse(E_IR_004, f"{where}: there is no origin {number}")
        origin = origins[number]
    numerics = expect(row["numerics"], str, f"{where}/numerics") if "numerics" in row else None
    op = expect(row["op"], str, f"{where}/op")
    results = tuple([Value(type) for type in types])
    return Node(op, tuple(operands), attrs, results, origin, numerics)


def _value(number: Any, values: Sequence[Value], where: str) -> Value:
    if kind_of(number) is not int:
        refuse(E_IR_003, f"{where}: {number!r} is not the number of a value")
    place: int = number
    if not 0 <= place < len(values):
        refuse(E_IR_004, f"{where}: value {place} is not defined before")
    return values[place]


def _type(row: Mapping[str, Any], where: str) -> TensorType:
    shape, dtype = row["shape"], row["dtype"]
    batch: Any = row.get("batch_axis")
    if not is_list_of(int, shape) or min(shape, default=0) < 0:
        refuse(E_IR_003, f"{where}: the shape is not a list of sizes")
    if kind_of(dtype) is not str or dtype not in ITEMSIZE:
        refuse(E_IR_003, f"{where}: there is no dtype {dtype!r}")
    if "batch_axis" in row and (kind_of(batch) is not int or not 0 <= batch < len(shape)):
        refuse(E_IR_003, f"{where}: batch axis {batch!r} of {len(shape)} axes")
    return TensorType(tuple(shape), dtype, batch)


def _attr(data: Any, origins: Sequence[Origin], where: str, key: str, depth: int) -> Attr:
    kind = kind_of(data)
    if kind is list:
        if depth >= LIMITS.nesting:
            refuse(E_IR_006, f"{where}/{key} is over {LIMITS.nesting} lists deep")
        return tuple([_attr(item, origins, where, key, depth + 1) for item in data])
    if kind is dict:
        if len(data) == 1 and "graph" in data:
            return graph_from_json(data["graph"], origins, f"{where}/{key}", depth + 1)
        if len(data) == 1 and kind_of(data.get("float")) is str and data["float"] in SPECIAL_FLOATS:
            return SPECIAL_FLOATS[data["float"]]
        refuse(E_IR_003, f"{where}/{key} is an object that is neither a float nor a graph")
    if kind is float and not isfinite(data):
        refuse(E_IR_003, f"{where}/{key} is a number too large for a float")
    return data

"""Rewrites a graph for a precision policy (docs/numerics.md). Runs after autodiff. Knows no Lisp.

A graph is traced in f32. Under :bf16 (or :f16) the class of each op says where it computes:

    matmul   bf16 operands, f32 accumulation, bf16 result
    follow   bf16 when any float operand is bf16 or a parameter; else f32
    f32      f32 operands; the result is rounded to bf16 where a bf16 consumer reads it, if any
             operand was bf16
    fixed    as written

Parameters enter as f32 masters and are rounded where they are used. Constants, batch fields,
buffers and draws are f32 until they meet bf16. Scalars stay f32: a loss or a weight is never
rounded. Tensors that the file itself cast to another dtype than f32 keep it. `with-numerics`
overrides the policy node by node, in the backward pass too. The graph's outputs keep their dtype,
and those named loss/, metric/ and grad/ are f32.
"""

from __future__ import annotations

from sexpgpu.diagnostics.codes.tensor import E_NUM_001
from sexpgpu.diagnostics.model import Diagnostic, SxError, located
from sexpgpu.ir.graph import Attrs, Graph, Node, Value, nodes_within
from sexpgpu.ir.numerics import ISLAND_F32, parse_numerics
from sexpgpu.ir.types import FLOATS, TensorType
from sexpgpu.ops import OPS, infer
from sexpgpu.passes.precision_bodies import BODY_PRECISION
from sexpgpu.source import NOWHERE, Origin

POLICIES = ("f32", "bf16", "f16")
F32 = "f32"
F32_OUTPUTS = ("loss/", "metric/", "grad/")
PARAMETER = "param/"
NOTE = "cast to "

# They move elements of their first operand: a parameter stays its master through them, so that an
# island that uses what they give has all its bits.
_MOVES = frozenset(
    {
        "boundary",
        "dynamic-slice",
        "gather",
        "reshape",
        "reverse",
        "slice",
        "stop-gradient",
        "take",
        "take-along",
        "transpose",
    }
)


def run(graph: Graph, policy: str) -> Graph:
    """The graph under a policy, "f32", "bf16" or "f16"; itself when nothing changes.

    Each cast that is added has an origin whose note says why. Raises SxError (E-NUM-001).
    """
    if policy not in POLICIES:
        headline = f"precision {policy!r}, wanted one of {' '.join(POLICIES)}"
        raise SxError(Diagnostic(E_NUM_001, headline))
    if policy == F32 and is_plain(graph):
        return graph
    return Precision(graph, policy).run()


def is_plain(graph: Graph) -> bool:
    """Whether nothing in a graph is or asks for anything else than f32."""
    return all(
        node.numerics in (None, ISLAND_F32)
        and all(value.dtype not in ("bf16", "f16") for value in node.results)
        for node in nodes_within(graph)
    ) and all(value.dtype not in ("bf16", "f16") for value in graph.inputs.values())


def casts(graph: Graph) -> list[Node]:
    """The casts that this pass has added to a graph and to the bodies in it; `origin.note` is the
    reason of each."""
    return [n for n in nodes_within(graph) if n.op == "cast" and n.origin.note.startswith(NOTE)]


_MOVABLE = _MOVES | {"broadcast"}


class _Island:
    """What `with-numerics` says of a node, parsed."""

    __slots__ = ("accumulate", "compute", "matmul")

    def __init__(self, text: str | None, policy: str) -> None:
        said = parse_numerics(text)
        self.compute = said.get("compute", policy)
        self.accumulate = said.get("accumulate")
        self.matmul = said.get("matmul")


class Precision:
    """One run of the pass.

    versions   value of the old graph that is f32 there -> its values in the new one, by dtype;
               the first is the one that was computed, the others are casts of it
    low        those that a follow op reads in 16 bits
    masters    of these, the parameters and what is moved of them
    others     old value -> new value, for all other dtypes
    moves      old value -> the old node that moved elements of its first operand into it
    added      the casts that were made -> why
    origin, numerics   of the node at hand: casts for it have them too
    """

    __slots__ = (
        "added",
        "graph",
        "islands",
        "low",
        "masters",
        "moves",
        "nodes",
        "notes",
        "numerics",
        "origin",
        "others",
        "policy",
        "versions",
    )

    def __init__(self, graph: Graph, policy: str) -> None:
        self.graph = graph
        self.policy = policy
        self.nodes: list[Node] = []
        self.origin = NOWHERE
        self.numerics: str | None = None
        self.moves: dict[Value, Node] = {}
        self.versions: dict[Value, dict[str, Value]] = {}
        self.low: set[Value] = set()
        self.masters: set[Value] = set()
        self.others: dict[Value, Value] = {}
        self.islands: dict[str | None, _Island] = {}
        self.notes: dict[tuple[int, str], Origin] = {}
        self.added: dict[Node, str] = {}

    def run(self) -> Graph:
        for name, value in self.graph.inputs.items():
            if value.dtype == F32:
                self.versions[value] = {F32: value}
                if name.startswith(PARAMETER):
                    self.low.add(value)
                    self.masters.add(value)
        for node in self.graph.nodes:
            self.visit(node)
        outputs: dict[str, Value] = {}
        last = self.graph.nodes[-1].origin if self.graph.nodes else NOWHERE
        makers = {value: node.origin for node in self.graph.nodes for value in node.results}
        for name, value in self.graph.outputs.items():
            self.origin, self.numerics = makers.get(value, last), None
            outputs[name] = self.output(name, value)
        nodes = self.nodes
        same = len(nodes) == len(self.graph.nodes) and outputs == self.graph.outputs
        if same and all(a is b for a, b in zip(nodes, self.graph.nodes, strict=True)):
            return self.graph
        return Graph(self.graph.name, self.graph.inputs, nodes, outputs)

    def output(self, name: str, value: Value) -> Value:
        if value.dtype == F32:
            return self.read(value, F32, f"the output {name} is f32")
        new = self.others.get(value, value)
        if value.dtype in FLOATS and name.startswith(F32_OUTPUTS):
            return self.cast(new, F32, f"the output {name} is f32")
        return new

    # -- values ---------------------------------------------------------------------------------

    def read(self, value: Value, dtype: str | None, why: str) -> Value:
        """The new value for an old one, in a dtype (None: as it was computed)."""
        versions = self.versions.get(value)
        if versions is None:
            return self.others.get(value, value)
        if dtype is None:
            return next(iter(versions.values()))
        found = versions.get(dtype)
        if found is None:
            found = self.moved_again(value, dtype, why)
            if found is None:
                found = self.cast(next(iter(versions.values())), dtype, why)
            versions[dtype] = found
        return found

    def moved_again(self, value: Value, dtype: str, why: str) -> Value | None:
        """What was moved, moved once more in another dtype: rather than casting a result whose
        operand is there in that dtype, or is smaller."""
        node = self.moves.get(value)
        if node is None:
            return None
        source = node.operands[0]
        if node.op != "broadcast" and dtype not in self.versions[source]:
            return None
        operand = self.read(source, dtype, why)
        operands = (operand, *[self.others.get(v, v) for v in node.operands[1:]])
        return self.append(node, operands, node.attrs, dtype)[0]

    def cast(self, value: Value, dtype: str, why: str) -> Value:
        key = (id(self.origin), f"{NOTE}{dtype}: {why}")
        note = self.notes.get(key)
        if note is None:
            note = self.notes[key] = self.origin.derived(key[1])
        made = Value(TensorType(value.shape, dtype, value.type.batch))
        attrs = {"dtype": dtype}
        node = Node("cast", (value,), attrs, (made,), note, self.numerics)
        self.nodes.append(node)
        self.added[node] = why
        return made

    def append(
        self, node: Node, operands: tuple[Value, ...], attrs: Attrs, dtype: str | None
    ) -> tuple[Value, ...]:
        """The node on other operands. Its f32 results have that dtype: no rule makes a float
        dtype of its own, but those of the fixed class and of ops that keep some of theirs."""
        if OPS[node.op].keeps:
            types = infer(node.op, tuple([v.type for v in operands]), attrs)
            results = tuple([Value(t) for t in types])
        else:
            results = tuple(
                [
                    Value(TensorType(v.shape, dtype, v.type.batch))
                    if v.dtype == F32 and dtype is not None
                    else Value(v.type)
                    for v in node.results
                ]
            )
        made = Node(node.op, operands, attrs, results, node.origin, node.numerics)
        self.nodes.append(made)
        return results

    # -- nodes ----------------------------------------------------------------------------------

    def visit(self, node: Node) -> None:
        island = self.islands.get(node.numerics)
        if island is None:
            island = self.islands[node.numerics] = self.island(node)
        self.origin, self.numerics = node.origin, node.numerics
        kind = OPS[node.op].precision
        if kind == "fixed":
            self.fixed(node)
            return
        if kind == "body":
            BODY_PRECISION[node.op](self, node)
            return
        operands = [value for value in node.operands if value in self.versions]
        attrs = self.attributes(node, island) if kind == "matmul" else node.attrs
        if not operands:
            self.emit(node, None, "", attrs)
            return
        target = island.compute
        if target == F32:
            self.emit(node, F32, f"{node.op} computes in f32", attrs)
        elif kind == "matmul":
            self.emit(node, target, f"{node.op} takes {target} operands", attrs)
            self.low.update([v for v in node.results if target in self.versions.get(v, ())])
        else:
            low = any(value in self.low for value in operands)
            if kind == "f32":
                self.emit(node, F32, f"{node.op} computes in f32", attrs)
                if low:
                    self.low.update([v for v in node.results if v.type.size > 1])
            elif not low or all(value.type.size == 1 for value in operands):
                self.emit(node, F32, f"{node.op} has f32 operands", attrs)
            elif node.op in _MOVES and operands[0] in self.masters and len(operands) == 1:
                self.emit(node, F32, f"{node.op} moves a parameter", attrs)
                self.low.update(node.results)
                self.masters.update(node.results)
            else:
                self.emit(node, target, f"{node.op} has {target} operands", attrs)
                self.low.update([v for v in node.results if v.dtype == F32])

    def island(self, node: Node) -> _Island:
        try:
            return _Island(node.numerics, self.policy)
        except ValueError as error:
            raise SxError(Diagnostic(E_NUM_001, str(error), *located(node.origin))) from None

    def attributes(self, node: Node, island: _Island) -> Attrs:
        """A product's attributes with what its island says."""
        attrs = node.attrs
        if "mode" not in attrs or node.operands[0].dtype not in FLOATS:
            return attrs
        changed: dict[str, str] = {}
        if island.matmul is not None and attrs["mode"] != island.matmul:
            changed["mode"] = island.matmul
        accumulate = attrs.get("accumulate", island.accumulate)
        if island.accumulate is not None and accumulate != island.accumulate:
            changed["accumulate"] = island.accumulate
        return {**attrs, **changed} if changed else attrs

    def fixed(self, node: Node) -> None:
        """An op whose dtypes are part of its meaning: reads what was computed."""
        if node.op == "cast" and node.operands[0] in self.versions and node.attrs["dtype"] == F32:
            (x,), result = node.operands, node.result
            self.versions[result] = self.versions[x]  # of f32 to f32: the same value
            if x in self.low:
                self.low.add(result)
            if x in self.masters:
                self.masters.add(result)
            return
        self.emit(node, None if node.op == "cast" else F32, f"{node.op} takes f32", node.attrs)

    def emit(self, node: Node, dtype: str | None, why: str, attrs: Attrs) -> None:
        """The node, its f32 operands read in a dtype, unless it is the same as it was."""
        operands = node.operands
        if operands:
            keeps = OPS[node.op].keeps
            if keeps and dtype != F32:
                kept = f"{node.op} computes with it in f32"
                wanted = [(F32, kept) if i in keeps else (dtype, why) for i in range(len(operands))]
                operands = tuple(
                    [self.read(v, *how) for v, how in zip(operands, wanted, strict=True)]
                )
            else:
                operands = tuple([self.read(value, dtype, why) for value in operands])
        if operands == node.operands and attrs is node.attrs:
            self.nodes.append(node)
            results = node.results
        else:
            results = self.append(node, operands, attrs, dtype)
        if node.op in _MOVABLE and node.operands[0] in self.versions:
            self.moves[node.result] = node
        for old, new in zip(node.results, results, strict=True):
            if old.dtype == F32:
                self.versions[old] = {new.dtype: new}
            elif new is not old:
                self.others[old] = new

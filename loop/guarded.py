"""An update that takes place only where a flag is true: the guard of a step, as graph nodes.

Selecting between new and old states after the update would leave its intermediate values and the
old states both alive: compilers then compute the new state twice and copy the old one. Selected as
soon as it is made, a state is what the rest of the graph reads, and it is updated in place.
"""

from __future__ import annotations

from sexpgpu.ir.graph import Graph, Value
from sexpgpu.ir.types import TensorType
from sexpgpu.ops import new_builder
from sexpgpu.passes.rewrite import substituted

APPLIED = "guard/applied"


def guarded(graph: Graph) -> Graph:
    """The update graph with one more input, `guard/applied` (bool[]). Where it is false, `p` and
    each `state/NAME` come out as they went in; metrics are then those of no update."""
    builder = new_builder()
    applied = builder.input(APPLIED, TensorType((), "bool"))
    builder.inputs.update(graph.inputs)
    kept = {name for name in graph.outputs if name == "p" or name.startswith("state/")}
    for name in kept - set(graph.inputs):  # a new value that does not depend on the old
        builder.input(name, graph.outputs[name].type)
    made_as: dict[Value, str] = {}
    for name in sorted(kept):
        made_as.setdefault(graph.outputs[name], name)
    flags: dict[tuple[int, ...], Value] = {(): applied}

    def chosen(new: Value, name: str) -> Value:
        shape = new.shape
        if shape not in flags:
            flags[shape] = builder.emit("broadcast", applied, shape=shape, dims=())
        return builder.emit("select", flags[shape], new, builder.inputs[name])

    replaced: dict[Value, Value] = {}
    for node in graph.nodes:
        builder.nodes.append(substituted(node, replaced))
        for result in node.results:
            name = made_as.get(result)
            if name is not None:
                replaced[result] = chosen(result, name)
    outputs: dict[str, Value] = {}
    for name, value in graph.outputs.items():
        if name in kept and made_as[value] == name:
            outputs[name] = replaced.get(value, value)
            if value not in replaced and value is not builder.inputs[name]:
                outputs[name] = chosen(value, name)  # an input of another name
        elif name in kept:
            outputs[name] = chosen(value, name)  # a value that two outputs share
        else:
            outputs[name] = replaced.get(value, value)
    return builder.finish(graph.name, outputs)

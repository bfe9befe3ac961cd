"""The engine of a step function on XLA: everything happens inside one jit trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import jax
import numpy as np
from jax import lax

from sexpgpu.ir.graph import Graph, Node
from sexpgpu.ir.types import TensorType
from sexpgpu.lowering.backend import Array, Tree
from sexpgpu.lowering.xla import threefry
from sexpgpu.lowering.xla.dtypes import I32, LAX
from sexpgpu.lowering.xla.evaluate import Bodies, Watch, apply, evaluate
from sexpgpu.lowering.xla.options import PLAIN, Lowering

Arrays: TypeAlias = dict[str, Array]


class XlaEngine:
    """Traces graphs and what joins them. Made anew for each compilation."""

    def __init__(
        self, lowering: Lowering = PLAIN, *, watch: Watch | None = None, names: bool = True
    ) -> None:
        self.lowering = lowering
        self.watch = watch
        self.names = names
        self._often: dict[Graph, Callable[[Arrays], Arrays]] = {}

    def call(self, graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return evaluate(graph, inputs, self.lowering, self.watch, self.names)

    def call_often(self, graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
        if self.watch is not None:
            return self.call(graph, inputs)  # what is watched must not stay inside another trace
        if graph not in self._often:
            self._often[graph] = jax.jit(partial(self.call, graph))
        return self._often[graph]({name: inputs[name] for name in graph.inputs})

    def apply(self, node: Node, operands: tuple[Array, ...]) -> tuple[Array, ...]:
        """One node's results, as `call` would compute them."""
        return apply(node, operands, Bodies(self.lowering, self.names))

    def accumulate(
        self,
        body: Callable[[Tree, Array], dict[str, Array]],
        batch: Tree,
        n: int,
        example: Mapping[str, TensorType] | None = None,
    ) -> dict[str, Array]:
        totals, _ = self.fold_accumulate(
            lambda part, index, carry: (body(part, index), carry), (), batch, n, example
        )
        return totals

    def fold_accumulate(
        self,
        body: Callable[[Tree, Array, Tree], tuple[dict[str, Array], Tree]],
        carry: Tree,
        batch: Tree,
        n: int,
        example: Mapping[str, TensorType] | None = None,
    ) -> tuple[dict[str, Array], Tree]:
        if n == 1:
            results, carry = body(batch, self.scalar(0, "i32"), carry)
            return dict(results), carry
        parts = jax.tree.map(lambda x: lax.reshape(x, (n, x.shape[0] // n, *x.shape[1:])), batch)
        if example is None:
            first = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), parts)
            types, _ = jax.eval_shape(body, first, jax.ShapeDtypeStruct((), I32), carry)
        else:
            types = {k: jax.ShapeDtypeStruct(t.shape, LAX[t.dtype]) for k, t in example.items()}
        zeros = {k: lax.full(t.shape, np.zeros((), t.dtype), t.dtype) for k, t in types.items()}

        def one(state: tuple[Any, Any], item: tuple[Any, Any]) -> tuple[tuple[Any, Any], None]:
            totals, carry = state
            results, carry = body(item[0], item[1], carry)
            return ({k: lax.add(totals[k], results[k]) for k in totals}, carry), None

        (totals, carry), _ = lax.scan(one, (zeros, carry), (parts, lax.iota(I32, n)))
        return totals, carry

    def scan_steps(
        self, body: Callable[[Tree, Tree], tuple[Tree, Tree]], state: Tree, batches: Tree, k: int
    ) -> tuple[Tree, Tree]:
        if k == 1:
            batch = jax.tree.map(lambda x: lax.squeeze(x, (0,)), batches)
            state, outputs = body(state, batch)
            return state, jax.tree.map(lambda x: lax.expand_dims(x, (0,)), outputs)
        return lax.scan(body, state, batches, length=k)

    def select(self, pred: Array, new: Tree, old: Tree) -> Tree:
        return jax.tree.map(lambda a, b: lax.select(pred, a, b), new, old)

    def settled(self, values: dict[str, Array]) -> dict[str, Array]:
        tuning, pred = self.lowering.tuning, self.lowering.pred
        if tuning is None or not tuning.fence or pred is None or not values:
            return values
        return lax.cond(pred, lambda tree: tree, lambda tree: jax.tree.map(_other, tree), values)

    def scalar(self, value: float | int | bool, dtype: str) -> Array:
        return lax.full((), np.asarray(value).astype(LAX[dtype]), LAX[dtype])

    def cast(self, x: Array, dtype: str) -> Array:
        return lax.convert_element_type(x, LAX[dtype])

    def add(self, a: Array, b: Array) -> Array:
        return lax.add(a, b)

    def mul(self, a: Array, b: Array) -> Array:
        return lax.mul(a, b)

    def div(self, a: Array, b: Array) -> Array:
        return lax.div(a, b)

    def less(self, a: Array, b: Array) -> Array:
        return lax.lt(a, b)

    def logical_and(self, a: Array, b: Array) -> Array:
        return lax.bitwise_and(a, b)

    def logical_not(self, a: Array) -> Array:
        return lax.bitwise_not(a)

    def is_finite(self, x: Array) -> Array:
        return lax.is_finite(x)

    def fold_key(self, key: Array, integer: Array | int) -> Array:
        return threefry.fold(key, integer)


def _other(x: Array) -> Array:
    """Some other value of the type: a branch that no compiler can fold with the identity."""
    return lax.bitwise_not(x) if x.dtype == np.bool_ else lax.neg(x)

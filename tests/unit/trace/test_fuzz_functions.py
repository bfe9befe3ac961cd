"""Whatever a tensor function is given: a coded error, or a graph that is sound, runs in every
precision, and has gradients that run. SEXPGPU_FUZZ_SEED=S and SEXPGPU_FUZZ_CALLS=N choose other
calls, and more of them for each function."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from test_table import TENSOR_NAMES
from trace_driving import NAMES, World, call, lisp, run, world

import sexpgpu.compiler  # noqa: F401  with everything declared
from sexpgpu.diagnostics.model import SxError
from sexpgpu.ir.graph import Graph, Value
from sexpgpu.ir.types import FLOATS
from sexpgpu.ir.verify import verify
from sexpgpu.lisp.errors import LispError
from sexpgpu.lisp.registry import BUILTINS
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.state import Limits
from sexpgpu.lisp.values import MV, Cons, keyword
from sexpgpu.lowering.interp.dtypes import NUMPY
from sexpgpu.ops import infer
from sexpgpu.passes.autodiff import gradients
from sexpgpu.passes.pipeline import optimized
from sexpgpu.trace.tensor import OPERATIONS, is_tensor, resolve

SEED = os.environ.get("SEXPGPU_FUZZ_SEED", "1")
CALLS = int(os.environ.get("SEXPGPU_FUZZ_CALLS", "12"))
LARGE = 1 << 20
"""Bytes of a value over which a graph is not run: only checked."""

SHAPES = [
    (), (1,), (3,), (0,), (2, 3), (3, 3), (2, 0), (1, 3), (0, 3), (2, 3, 4), (2, 3, 3),
    (2, 4, 4, 2), (1, 3, 2, 4), (2, 3, 2, 4), (0, 4, 4, 2), (2, 4, 0, 2), (1, 3, 3, 3, 2),
]  # fmt: skip
DTYPES = ["f32"] * 8 + ["f64", "bf16", "f16", "i32", "i32", "i64", "i8", "u8", "u32", "u64", "bool"]
INTEGERS = [d for d in DTYPES if d[0] in "iu"]
NUMBERS: list[Any] = [
    0, 1, 2, 3, -1, -2, 7, 64, 300, -(2**31), 2**31, 2**40, 10**30, 0.5, -1.5, 1e-300, 1e300,
    Fraction(1, 3),
]  # fmt: skip
LISTS: list[Any] = [
    [], [0], [1], [2], [-1], [2, 3], [3, -1], [1, 0], [0, 1], [0, 2, 1], [3, 2, 1], [4, 4],
    [2, 2, 2], [[1, 1], [0, 2]], [[0, 0]], [[1, 2], [2, 1], [0, 0]], [2**31, 2**31], [0.5],
]  # fmt: skip
KEYWORDS = [
    ":all", ":new", ":rest", ":same", ":valid", ":f32", ":f64", ":bf16", ":i32", ":u8", ":bool",
    ":linear", ":cubic", ":nearest", ":inf", ":-inf", ":nuclear", ":spectral", ":right", ":edge",
    ":reflect", ":wrap", ":symmetric", ":what",
]  # fmt: skip
STRINGS = ["ij,jk->ik", "ii", "...i->...", "ij", "ij,ij", "bij->bji", "i,j->", "->", "i j", ""]

OF_RUNS = frozenset({"counter", "ctx", "field"})
CONTROL = ["scan", "grad", "recompute", "custom-vjp", "attention"]
FUNCTIONS = sorted({*TENSOR_NAMES.split(), *CONTROL, *OPERATIONS} - OF_RUNS)

# Positional arguments that fit now and then: each a tensor of that shape, a list or a string.
FITTING: dict[str, list[list[Any]]] = {
    "attention": [
        [(2, 3, 4, 2), (2, 5, 2, 2), (2, 5, 2, 2)], [(2, 3, 4, 2)] * 3, [(2, 3, 0, 2)] * 3,
        [(0, 3, 2, 2)] * 3, [(2, 0, 2, 2), (2, 3, 2, 2), (2, 3, 2, 2)], [(2, 3, 2, 0)] * 3,
    ],
    "conv": [
        [(2, 4, 2), (3, 2, 5)], [(2, 4, 4, 2), (2, 2, 1, 4)], [(2, 4, 4, 2), (2, 2, 2, 3)],
        [(0, 4, 2), (3, 2, 5)], [(2, 0, 2), (3, 2, 5)], [(2, 4, 0), (3, 0, 5)],
        [(2, 4, 2), (0, 2, 5)], [(2, 4, 2), (3, 2, 0)], [(1, 3, 3, 3, 2), (2, 2, 2, 2, 3)],
    ],
    "crop": [[(2, 4, 4, 2), "ids", [2, 3]], [(0, 4, 4, 2), "ids0", [2, 0]]],
    "dynamic-slice": [[(2, 3), [0, 1], [1, 2]], [(2, 0), [0, 1], [1, 0]], [(3,), "ids1", [2]]],
    "dynamic-update-slice": [[(2, 3), (1, 2), [0, 1]], [(2, 0), (0, 0), [5, -7]]],
    "einsum": [
        ["ij,jk->ik", (2, 3), (3, 4)], ["...i,ij->...j", (2, 3), (3, 3)], ["ii", (3, 3)],
        ["ij,jk", (2, 0), (0, 3)], ["i,i,i->", (3,), (3,), (3,)], ["iij->ij", (3, 3, 2)],
    ],
    "solve": [[(3, 3), (3, 2)], [(2, 3, 3), (3,)], [(0, 0), (0, 2)]],
    "tensordot": [[(2, 3), (3, 4), 1], [(2, 3), (3, 2), [[0, 1], [1, 0]]], [(2, 0), (0, 3), 1]],
    "random-bernoulli": [[0.5, [2, 3]], [(3,), [2, 3]]],
    "dropout": [[(2, 3), 0.5], [(0, 3), 0.5], [(2, 3), 1]],
}  # fmt: skip


class Fuzz:
    """Arguments of one call, from a seed."""

    def __init__(self, seed: str, w: World) -> None:
        self.r = random.Random(seed)
        self.w = w
        self.numbers = np.random.default_rng(self.r.randrange(1 << 30))

    def tensor(self, dtypes: list[str] = DTYPES, ranks: tuple[int, ...] = ()) -> Any:
        shapes = [s for s in SHAPES if not ranks or len(s) in ranks]
        shape, dtype = self.r.choice(shapes), self.r.choice(dtypes)
        x = self.numbers.uniform(-2, 4, shape)
        if dtype in FLOATS and self.r.random() < 0.1:
            x = np.where(self.numbers.random(shape) < 0.3, np.nan, x)
        with np.errstate(invalid="ignore"):
            made = np.asarray(np.floor(x) if dtype[0] in "iu" else x).astype(NUMPY[dtype])
        batch = 0 if shape and shape[0] == 2 and self.r.random() < 0.5 else None
        return self.w.tensor(made, batch)

    def fitted(self, what: Any) -> Any:
        """What FITTING says."""
        ids = {"ids": (2, 2), "ids0": (0, 2), "ids1": (1,)}
        if isinstance(what, str) and what in ids:
            return self.w.tensor(self.numbers.integers(-3, 9, ids[what]))
        if isinstance(what, tuple):
            return self.w.tensor(self.numbers.normal(size=what).astype(np.float32))
        return what

    def value(self, parameter: str) -> Any:
        """A value for a parameter of that name; now and then for another."""
        r = self.r
        if r.random() < 0.12:
            parameter = r.choice(
                ["x", "n", "shape", "axis", "xs", "dtype", "spec", "f", "t", "ids"]
            )
        match parameter:
            case "shape" | "spatial" | "sizes" | "reps" | "perm" | "pairs" | "axes" | "parts":
                return r.choice(LISTS) if r.random() < 0.8 else r.choice(NUMBERS)
            case "axis" | "stride" | "padding" | "dilation" | "window" | "size" | "subscripts":
                pool = [0, 1, -1, 2, 5, *r.choices(LISTS, k=3), *r.choices(KEYWORDS, k=3)]
                if parameter == "subscripts":
                    pool += [
                        self.tensor(INTEGERS),
                        call("slice", *r.choices([None, 0, 1, -1], k=2)),
                    ]
                return r.choice(pool)
            case "ids" | "starts" | "segments" | "count":
                return self.tensor(INTEGERS) if r.random() < 0.7 else r.choice(LISTS)
            case "xs" | "operands":
                one = self.tensor()
                return [one, *r.choices([one, self.tensor()], k=r.randint(0, 2))]
            case "n" | "k" | "depth" | "m" | "groups" | "ddof" | "low" | "high" | "p" | "stop":
                return r.choice(NUMBERS[:9]) if r.random() < 0.8 else r.choice(NUMBERS)
            case "dtype" | "method" | "mode" | "side" | "name" | "ord":
                return r.choice(KEYWORDS)
            case "spec":
                return r.choice(STRINGS)
            case "f" | "forward" | "backward":
                name = r.choice(["relu", "sum", "list", "values", "+", "square"])
                return BUILTINS[name].function
            case "q" | "v":
                return self.tensor(ranks=(4,))
            case "keep" | "t" | "reverse" | "causal" | "descending" | "lower" | "transposed":
                return r.choice([True, None])
            case _:
                return self.tensor() if r.random() < 0.8 else r.choice(NUMBERS)

    def arguments(self, name: str) -> list[Any]:
        words = BUILTINS[name].lambda_list.strip("()").split()
        positional: list[str] = []
        keys: list[str] = []
        into = positional
        for word in words:
            if word == "&key":
                into = keys
            elif word == "&rest":
                into = positional
                positional += [words[-1]] * self.r.randint(-1, 2) if words[-1] != word else []
                break
            elif not word.startswith("&"):
                into.append(word)
        fitting = FITTING.get(name)
        if fitting and self.r.random() < 0.8:
            made = [self.fitted(what) for what in self.r.choice(fitting)]
        else:
            made = [self.value(word) for word in positional]
        for key in keys:
            if self.r.random() < 0.3:
                made += [f":{key}", self.value(key)]
        return made


def leaves(value: Any) -> list[Any]:
    if isinstance(value, MV):
        return [leaf for item in value for leaf in leaves(item)]
    if isinstance(value, Cons):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def is_large(graph: Graph) -> bool:
    return any(v.type.nbytes > LARGE for n in graph.nodes for v in (*n.results, *n.operands))


def checked(w: World, made: list[Value]) -> None:
    """The graph of these values is sound and runs, as it is and under :bf16, with gradients."""
    b = w.trace.builder
    graph = w.trace.finish({f"y{i}": v for i, v in enumerate(made)})
    verify(graph, infer)
    if is_large(graph):
        return
    run(graph, w.given)
    floats = [v for name, v in graph.inputs.items() if v.dtype in FLOATS and name[0] == "x"]
    seeds = [(v, b.input(f"s{i}", v.type)) for i, v in enumerate(made) if v.dtype in FLOATS]
    outputs = dict(graph.outputs)
    if floats and seeds:
        try:
            found = gradients(b, seeds, floats)
        except SxError:
            return
        for i, (x, gradient) in enumerate(zip(floats, found, strict=True)):
            if gradient is not None:
                assert gradient.type.same_value(x.type)
                outputs[f"grad/{i}"] = gradient
    whole = b.finish("g", outputs)
    verify(whole, infer)
    given = {f"s{i}": np.ones(v.shape, NUMPY[v.dtype]) for i, v in enumerate(made)}
    if is_large(whole):
        return
    for precision in ("f32", "bf16"):
        under = optimized(whole, precision)
        verify(under, infer)
        run(under, {**w.given, **given})


def attempt(name: str, seed: str) -> str | None:
    """What went wrong in a call, or None."""
    said = name
    with world(batch=2, training=True) as w:
        fuzz = Fuzz(seed, w)
        try:
            arguments = fuzz.arguments(name)
            said = f"({name} {' '.join(map(shown, arguments))})"
            with np.errstate(all="ignore"):
                results = leaves(call(name, *arguments))
                made = [resolve(v).value for v in results if is_tensor(v)]
                if made:
                    checked(w, made)
        except (SxError, LispError):
            return None
        except Exception as error:  # noqa: BLE001  (that is what is looked for)
            return f"{said}: {type(error).__name__}: {error}"
    return None


def shown(value: Any) -> str:
    return str(value.type) if is_tensor(value) else repr(value)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_any_arguments(name: str) -> None:
    wrong: list[str | None] = []

    def work() -> None:
        for i in range(CALLS):
            wrong.append(attempt(name, f"{SEED} {name} {i}"))

    with suppress(SxError):  # a limit of the session: it has ended
        Session(Limits(fuel=500_000, seconds=60)).run(work)
    assert not any(wrong), "\n".join(filter(None, wrong))


def test_the_keywords_of_the_pool_are_read() -> None:
    """The pool's words reach the functions as the Lisp has them."""
    assert lisp(":same") is keyword("same")
    assert set(NAMES.values()) >= set(DTYPES)

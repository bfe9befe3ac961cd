"""field, ctx, metrics, loss terms and counters as they are noted on the trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from trace_driving import at, call, lisp, refused, run, said, world

from sexpgpu.ir.types import TensorType
from sexpgpu.lisp.registry import BUILTINS
from sexpgpu.lisp.values import NIL, T, keyword
from sexpgpu.trace.counters import Count
from sexpgpu.trace.runfile import Batch, record_metric, record_term

X = np.float32([1, 2, 3, 4])
I32 = TensorType((), "i32")


def metric(name: str, *values: Any, **keys: Any) -> None:
    pairs = [x for k, v in keys.items() for x in (keyword(k), lisp(v))]
    assert record_metric(keyword(name), lisp(list(values)), *pairs) is NIL


def term(name: str, *values: Any, **keys: Any) -> None:
    pairs = [x for k, v in keys.items() for x in (keyword(k), lisp(v))]
    assert record_term(keyword(name), lisp(list(values)), *pairs) is NIL


def results(w: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    outputs = {}
    for m in w.trace.metrics.values():
        outputs |= {f"{m.name} value": m.value, f"{m.name} weight": m.weight}
    for t in w.trace.terms.values():
        outputs |= {f"{t.name} value": t.mean, f"{t.name} weight": t.weight}
    found = run(w.trace.finish(outputs), w.given)
    return {
        n: (found[f"{n} value"], found[f"{n} weight"]) for n in (*w.trace.metrics, *w.trace.terms)
    }


# ---------------------------------------------------------------------------- batches


def test_fields() -> None:
    with world(batch=4) as w:
        batch = Batch(w.trace, {"x": TensorType((3,), "f32"), "label": TensorType((), "i32")})
        x = call("field", batch, ":x")
        assert x.type == TensorType((4, 3), "f32", 0)
        assert call("field", batch, ":x").value is x.value
        assert "batch/x" in w.trace.builder.inputs
        assert ":label" in said(refused("E-DATA-002", lambda: call("field", batch, ":lable")))
        refused("E-DATA-002", lambda: call("field", x, ":x"))
    with world(batch=4):
        refused("E-DATA-002", lambda: call("field", batch, ":x"))


# ---------------------------------------------------------------------------- ctx


def test_ctx() -> None:
    with world(training=True, stage="long", context={"step": I32}) as w:
        step = call("ctx", ":step")
        assert step.type == I32
        assert w.run(step, **{"ctx/step": np.int32(7)}) == 7
        assert call("ctx", ":training") is T
        assert call("ctx", ":stage") is keyword("long")
        assert call("ctx", ":counter/tokens").type.dtype == "i64"
        assert w.trace.context_used == {"step", "counter/tokens"}
        text = said(refused("E-RUN-021", lambda: call("ctx", ":stop")))
        assert ":step" in text
        assert ":training" in text
        refused("E-RUN-021", lambda: call("ctx", ":microbatch"))
    with world():
        assert call("ctx", ":training") is NIL
        refused("E-RUN-021", lambda: call("ctx", ":stage"))
        refused("E-RUN-021", lambda: call("ctx", ":counter/tokens"))
    refused("E-FLOW-003", lambda: call("ctx", ":step"))


# ---------------------------------------------------------------------------- metrics


def test_metrics_and_their_weights() -> None:
    with world(batch=4, domain="train") as w:
        x = w.tensor(X)
        metric("plain", call("mean", x))
        metric("number", 3)
        metric("second", call("mean", x), w.tensor(np.int32(2)))
        metric("given", call("mean", x), weight=10)
        metric("rms", call("mean", x), reduce=":rms")
        metric("vector", x, weight=2)
        metric("total", call("sum", x), reduce=":sum")
        found = results(w)
    expected = {
        "plain": (2.5 * 4, 4), "number": (12, 4), "second": (5, 2), "given": (25, 10),
        "rms": (2.5**2 * 4, 4), "vector": (X * 2, 2), "total": (10, 4),
    }  # fmt: skip
    for name, (value, weight) in expected.items():
        np.testing.assert_allclose(found[name][0], value)
        assert found[name][0].dtype == np.float32
        assert found[name][1] == weight
    assert w.trace.metrics["rms"].reduce == "rms"


def test_names_of_metrics() -> None:
    with world(domain="train", prefix="") as w:
        with w.trace.model("body/3"):
            metric("entropy", 1)
        metric("entropy", 1)
        assert list(w.trace.metrics) == ["body/3/entropy", "entropy"]
        with at("a.sx", "(metric :entropy 1)"):
            refused("E-METRIC-001", lambda: metric("entropy", 2))
            refused("E-METRIC-001", lambda: term("entropy", 2.0))
        assert "reserved" in refused("E-METRIC-001", lambda: metric("loss", 1)).headline
    with world(domain="eval"):
        metric("loss", 1)
    with world(domain="update", prefix="optim/body/w/") as w:
        metric("norm", 1)
        assert list(w.trace.metrics) == ["optim/body/w/norm"]


def test_malformed_metrics() -> None:
    with world() as w:
        text = said(refused("E-METRIC-002", lambda: metric("a", 1, reduce=":maen")))
        assert ":mean" in text
        refused("E-METRIC-002", lambda: metric("a", None))
        refused("E-METRIC-002", lambda: metric("a", "text"))
        refused("E-METRIC-002", lambda: metric("a", 1, weight=w.tensor(X)))
        refused("E-METRIC-002", lambda: metric("a", 1, finish=3))
        refused("E-METRIC-002", lambda: record_metric(3, lisp([1])))
    refused("E-FLOW-003", lambda: metric("a", 1))


def test_loss_terms() -> None:
    with world(batch=4, domain="train") as w:
        x = w.tensor(X)
        term("balance", call("mean", x))
        term("z", call("mean", x), call("sum", x), weight=3)
        found = results(w)
        assert found["balance"] == (2.5, 4)
        assert found["z"] == (2.5, 3)
        refused("E-METRIC-002", lambda: term("v", x))
        refused("E-METRIC-002", lambda: term("i", w.tensor(np.int32(2))))
        refused("E-METRIC-001", lambda: term("objective", 1.0))


# ---------------------------------------------------------------------------- counters


def add(name: str, n: Any) -> None:
    """What (incf (counter name) n) expands to."""
    place = call("counter", f":{name}")
    new = place.lisp_operate("+", (place, n))
    setter = BUILTINS["(setf counter)"].function
    assert setter is not None
    setter.call(new, keyword(name))


def test_counters_add_up() -> None:
    with world(domain="train") as w:
        add("rows", 3)
        add("rows", 4)
        assert w.run(_counter(w, "rows")) == 7
        add("tokens", w.tensor(np.int32(5)))
        add("tokens", 2)
        add("tokens", w.tensor(np.int64(1)))
        made = w.run(_counter(w, "tokens"))
        assert made == 8
        assert made.dtype == np.int64
        add("big", 1 << 40)
        assert w.run(_counter(w, "big")).dtype == np.int64
    with world(domain="eval") as w:
        add("rows", 3)
        assert w.trace.counters == {}


def _counter(w: Any, name: str) -> Any:
    from sexpgpu.trace.tensor import wrap

    return wrap(w.trace.counters[name])


def test_counters_are_only_added_to() -> None:
    with world(domain="train") as w:
        place = call("counter", ":rows")
        assert isinstance(place, Count)
        for value in (1.5, w.tensor(X), "text"):
            refused("E-RUN-022", lambda value=value: place.lisp_operate("+", (place, value)))
        assert "incf" in said(refused("E-RUN-022", lambda: place.lisp_operate("*", (place, 2))))
        setter = BUILTINS["(setf counter)"].function
        assert setter is not None
        refused("E-RUN-022", lambda: setter.call(3, keyword("rows")))
        other = call("counter", ":other")
        refused("E-RUN-022", lambda: setter.call(other, keyword("rows")))
        refused("E-RUN-022", lambda: call("counter", 3))


@pytest.mark.parametrize("name", ["1+", "1-"])
def test_incf_by_one(name: str) -> None:
    with world(domain="train"):
        place = call("counter", ":rows")
        assert place.lisp_operate(name, (place,)).amount == (1 if name == "1+" else -1)

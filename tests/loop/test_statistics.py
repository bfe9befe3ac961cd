"""Statistics of a field, blocks joined exactly."""

import numpy as np
import pytest
from loop_documents import G, columns, make, t

from sexpgpu.loop import statistics


@pytest.mark.parametrize("block", [1, 7, 4096])
def test_against_numpy(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(statistics, "_BLOCK", block)
    document = make()
    g = G()
    names = [f"statistic/train/x/{what}" for what in ("mean", "std", "min", "max")]
    for name in names:
        g.input(name, t("f32", 4))
    document.graphs["extra"] = g.b.finish("extra", {})
    found = statistics.compute(document)
    x = columns(50)["x"].astype(np.float64)
    for name, wanted in zip(names, (x.mean(0), x.std(0), x.min(0), x.max(0)), strict=True):
        assert found[name].dtype == np.float32
        np.testing.assert_allclose(found[name], wanted, rtol=1e-6)


def test_none_wanted() -> None:
    assert statistics.compute(make()) == {}

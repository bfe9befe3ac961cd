"""Warnings of what trains, but hardly as it was meant."""

from __future__ import annotations

import pytest

from sexpgpu.compiler import check_text
from sexpgpu.diagnostics.codes.run import GOOD

EVALUATED = "(defeval often :loader train :every 10)\n(defeval last :loader train)\n(defrun"
BEST = "(:every 30 :keep 2 :keep-every 100 :best (:min :eval/%s/loss))"


@pytest.mark.parametrize(
    "length, checkpoint, told",
    [
        (":steps 200", "(:every 50 :keep 2 :keep-every 100)", None),
        (":steps 200", "(:every 50 :keep 2)", None),
        (":steps 200", "(:every 60 :keep 2 :keep-every 100)", "each 60 steps, of 200"),
        (":steps 299", "(:every 60 :keep 2 :keep-every 100)", "each 60 steps, of 299"),
        (":steps 300", "(:every 60 :keep 2 :keep-every 100)", None),  # 300 is divided by both
        (":steps 200", "(:every 60 :keep 2 :keep-every 200)", "each 60 steps, of 200"),
        (":steps 150", "(:every 50 :keep 2 :keep-every 200)", "each 50 steps, of 150"),
        (":steps 150", "(:keep 2 :keep-every 100)", "at the end only, of 150"),
        (":steps 200", "(:every 50 :keep-every 100)", "without :keep every checkpoint is kept"),
        (":epochs 9", "(:every 60 :keep 2 :keep-every 100)", None),
        (":steps 250", BEST % "often", None),  # step 100 may be the best
        (":steps 90", BEST % "often", "each 30 steps, of 90"),
        (":steps 250", BEST % "last", "each 30 steps, of 250"),
    ],
)
def test_keep_every_that_keeps_nothing(length: str, checkpoint: str, told: str | None) -> None:
    text = GOOD.replace("(defrun", EVALUATED).replace(
        ":steps 200", f"{length} :checkpoint {checkpoint}"
    )
    found = check_text(text)
    assert [d.code.id for d in found] == ([] if told is None else ["W-RUN-006"])
    if told is not None:
        assert found[0].headline.endswith(told)
        assert found[0].span is not None
        assert found[0].span.text == checkpoint

"""A circular list given to a tensor function is an error, soon."""

from __future__ import annotations

import pytest

import sexpgpu as sx

CIRCULAR = "(let ((l (list 1 2))) (setf (cddr l) l) {})"


@pytest.mark.parametrize(
    "form",
    [
        "(stack l)",
        "(concat l)",
        "(ones l)",
        "(reshape x l)",
        "(transpose x l)",
        "(sum x :axis l)",
        "(constant l)",
        "(scan (lambda (c x) (values c x)) l x)",
    ],
)
def test_it_ends(form: str) -> None:
    with pytest.raises(sx.CompileError):
        sx.function(f"(lambda (x) {CIRCULAR.format(form)})")([[1.0, 2.0]])

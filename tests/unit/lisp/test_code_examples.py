"""Each code of the reader and the Lisp: its bad example yields exactly it, the good one nothing."""

from __future__ import annotations

import pytest

from sexpgpu.diagnostics.codes import lisp, read
from sexpgpu.diagnostics.model import Code
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.state import Limits
from sexpgpu.source import Source

# Examples that require a standard module need the tensor layers: the tests of `check` run them.
CODES = [
    value
    for module in (read, lisp)
    for value in vars(module).values()
    if isinstance(value, Code) and value.bad and 'sexpgpu/nn"' not in value.bad
]


def codes_of(text: str) -> set[str]:
    session = Session(Limits(fuel=2_000_000, memory=20_000_000, output=1_000_000))
    loaded = session.load_all(Source("example.sx", text))
    return {d.code.id for d in [*loaded.diagnostics, *session.diagnostics]}


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.id)
def test_examples(code: Code) -> None:
    assert codes_of(code.bad) == {code.id}
    if "sexpgpu/" not in code.good:  # the standard modules need the tensor layers
        assert codes_of(code.good) == set()

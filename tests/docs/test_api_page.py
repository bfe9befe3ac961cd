"""The Python of the API page runs as it stands, from the checkout's root."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "sexpgpu" / "docs" / "api.md"


def test_the_page_runs_and_says_the_truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    for block in re.findall(
        r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    ):
        exec(compile(block, "api.md", "exec"), scope)
    np.testing.assert_allclose(scope["run"].predict(x=[[10.0]]), [[21.0]], atol=0.1)
    np.testing.assert_allclose(scope["g"].grad(scope["x"]), 2 * scope["x"])
    np.testing.assert_allclose(scope["y"], np.tanh(np.full((2, 4), 3.0)), rtol=1e-6)
    assert scope["sx"].evaluate("(loop for i below 4 collect (* i i))") == [0, 1, 4, 9]

"""No golden file is left over: each is named by a test."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
NAMED_BY_PATTERN = {"network.f32.ir", "network.bf16.ir"}
"""Files whose names a test makes of its parameters."""

WHOLE_FOLDERS = {"errors"}
"""Folders of which a test takes every file."""


def test_every_golden_file_is_compared_with() -> None:
    texts = [path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py")]
    files = {
        path.name
        for path in (TESTS / "golden").rglob("*")
        if path.is_file() and path.parent.name not in WHOLE_FOLDERS
    }
    assert files
    orphans = {
        name for name in files - NAMED_BY_PATTERN if not any(f'"{name}"' in text for text in texts)
    }
    assert not orphans
    assert files >= NAMED_BY_PATTERN

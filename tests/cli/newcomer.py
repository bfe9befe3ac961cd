"""The good file in which mistakes are made, and the parts of it that they replace."""

from __future__ import annotations

from pathlib import Path

GOOD = Path(__file__).with_name("newcomer.sx").read_text(encoding="utf-8")
CALL = "(funcall model x)"
BODY = "(head (* scale (relu (up x))))"
LOSS = "(nn:cross-entropy (funcall model x) y)"
UP = "(submodel up (nn:linear 2 width))"
ADAMW = "(optim:adamw :lr lr)"

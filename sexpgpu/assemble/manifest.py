"""The manifest: what exactly was compiled. It travels in the document, checkpoints and events."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from sexpgpu import __version__
from sexpgpu.forms.knobs import Selection
from sexpgpu.lisp.modules import STANDARD, standard_files
from sexpgpu.source import Source

# Not importlib.resources: importing that costs more than reading the files.
STDLIB = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "stdlib")


def make_manifest(entry: Source, sources: Sequence[Source], selection: Selection) -> dict[str, Any]:
    """Entry file, every source with its SHA-256, the selection with each knob's source, the
    product's version and the standard library's hash."""
    return {
        "entry": entry.name,
        "version": __version__,
        "stdlib": standard_library_hash(),
        "sources": [{"name": s.name, "sha256": s.sha256} for s in sources],
        "selection": selection.manifest(),
    }


def standard_library_hash() -> str:
    """SHA-256 over the texts of the prelude and the files of the standard modules."""
    from hashlib import sha256

    digest = sha256()
    for name in ("prelude.sx", *(file for module in STANDARD for file in standard_files(module))):
        with open(os.path.join(STDLIB, *name.split("/")), "rb") as file:
            text = file.read()
        digest.update(f"{name} {len(text)}\n".encode())
        digest.update(text)
    return digest.hexdigest()

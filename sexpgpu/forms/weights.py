"""Where a run's initial weights come from: the values that `defrun :init-from` takes."""

from __future__ import annotations

from typing import Any

from sexpgpu.diagnostics.codes import run as codes
from sexpgpu.forms.experiment import current
from sexpgpu.forms.parse import here, is_keyword, is_list
from sexpgpu.ir.document import InitFrom, Rename
from sexpgpu.lisp.printer import prin1_text as print_value
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.values import NIL, TENSOR, Foreign, String, python_list


class Weights(Foreign):
    """A place that weights are taken from, and how its names map to the model's paths."""

    __slots__ = ("described",)
    lisp_type = "weights"

    def __init__(self, described: InitFrom) -> None:
        self.described = described

    def lisp_print(self) -> str:
        return f"#<weights {self.described.path}>"


@builtin("safetensors", "(path &key map missing extra)", layer=TENSOR, chapter="sources")
def safetensors(path: Any, map: Any = NIL, missing: Any = NIL, extra: Any = NIL) -> Weights:
    """Weights of a .safetensors (or .npz) file, for `defrun :init-from`.

    MAP is a list of (list "from" "to"), or (list "from" "to" :transpose t), where `*` in FROM is a
    part of a name and `*` in TO the same; TO nil leaves the array out. MISSING and EXTRA are globs:
    parameters that the file need not have, names in it that nothing here has."""
    return _weights("safetensors", path, map, missing, extra)


@builtin("checkpoint", "(path &key map missing extra)", layer=TENSOR, chapter="sources")
def checkpoint(path: Any, map: Any = NIL, missing: Any = NIL, extra: Any = NIL) -> Weights:
    """Weights of another run, for `defrun :init-from`: PATH is a run directory, one of its
    checkpoints, or `RUN@STEP`, `RUN@best`. The other arguments are those of `safetensors`."""
    return _weights("checkpoint", path, map, missing, extra)


def _weights(what: str, path: Any, renames: Any, missing: Any, extra: Any) -> Weights:
    if not isinstance(path, String) or not path.text:
        raise here(codes.E_RUN_006, f"{what}: a path was expected, not {print_value(path)}")
    if not is_list(renames):
        raise here(codes.E_RUN_006, f"{what}: :map takes a list, not {print_value(renames)}")
    return Weights(
        InitFrom(
            path=path.text,
            base=current().base,
            map=[_rename(what, entry) for entry in python_list(renames)],
            missing=globs(what, "missing", missing),
            extra=globs(what, "extra", extra),
        )
    )


def _rename(what: str, entry: Any) -> Rename:
    parts = python_list(entry) if is_list(entry) else []
    transpose = len(parts) == 4 and is_keyword(parts[2]) and parts[2].name == "transpose"
    if (
        (len(parts) != 2 and not transpose)
        or not isinstance(parts[0], String)
        or not (parts[1] is NIL or isinstance(parts[1], String))
    ):
        raise here(
            codes.E_RUN_006,
            f"{what}: an entry of :map is not {print_value(entry)}",
            'write (list "from" "to"), or (list "from" "to" :transpose t)',
        )
    return Rename(
        source=parts[0].text,
        target=None if parts[1] is NIL else parts[1].text,
        transpose=transpose and parts[3] is not NIL,
    )


def globs(what: str, key: str, value: Any) -> list[str]:
    """A glob, or a list of globs, as texts; E-RUN-006 otherwise."""
    items = python_list(value) if is_list(value) else [value]
    if not all(isinstance(item, String) for item in items):
        raise here(
            codes.E_RUN_006, f"{what}: :{key} takes a list of globs, not {print_value(value)}"
        )
    return [item.text for item in items]

"""Weights that come and go: export of a checkpoint's parameters to a file, and initial values
taken from a run, a checkpoint or a file (`:init-from`).

In a file a parameter or buffer is called by its path: `embed/w`.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any
from zipfile import BadZipFile

import numpy as np

from sexpgpu.diagnostics.codes import run as run_codes
from sexpgpu.diagnostics.codes import system as codes
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.ir.document import Document, InitFrom, Rename
from sexpgpu.ir.document_json import read_document
from sexpgpu.ir.paths import glob_matches
from sexpgpu.loop import checkpoint, directory, named, safetensors
from sexpgpu.loop.averages import model_of
from sexpgpu.loop.data.remote import fetch, is_url
from sexpgpu.loop.failure import failure
from sexpgpu.loop.predict import surroundings
from sexpgpu.loop.rows import with_rows
from sexpgpu.loop.step import StepState
from sexpgpu.lowering.interp.dtypes import NUMPY, is_float, widen
from sexpgpu.ops import infer

KINDS = (".safetensors", ".npz")
F32 = NUMPY["f32"]

_MODEL = ("param/", "buffer/")  # of the tensors of a checkpoint, those of the model


def export(
    path: str,
    target: str,
    only: Sequence[str] = (),
    states: bool = False,
    weights: str = "averaged",
) -> list[str]:
    """Write a checkpoint's parameters and buffers to a .safetensors or .npz file; gives the names.

    `only`: path globs, all by default. `states`: every tensor of the checkpoint, under the names
    it has there (`state/PATH#NAME` …). `weights`: "averaged" where the optimizer keeps an average,
    as evaluations see them, or "raw". Raises E-CKPT-013, E-STORE-008 where the file exists.
    """
    if not target.endswith(KINDS):
        raise failure(codes.E_CKPT_013, f"{target} is neither a .safetensors nor an .npz file")
    if os.path.exists(target):
        raise failure(codes.E_STORE_008, f"{target} exists")
    tensors, meta = checkpoint.load(path)
    if weights == "averaged" and not states and meta.get("averages"):
        tensors = _averaged(path, tensors)
    chosen = tensors if states else model_tensors(tensors)
    if only:
        chosen = {n: a for n, a in chosen.items() if any(glob_matches(g, n) for g in only)}
    if not chosen:
        raise failure(codes.E_CKPT_013, f"no path matches {' or '.join(only)}")
    partial = f"{target}.{os.getpid()}.partial"
    try:
        if target.endswith(".npz"):
            # 16-bit floats as NumPy has none of: f32 holds them exactly
            wide = {n: widen(a) if a.dtype == NUMPY["bf16"] else a for n, a in chosen.items()}
            with open(partial, "wb") as file:
                np.savez(file, **wide)  # pyright: ignore[reportArgumentType]
        else:
            about = {
                "format": "sexpgpu", "run": meta["experiment"]["run"]["name"],
                "ir": meta["experiment"]["ir"], "step": str(meta["step"]),
            }  # fmt: skip
            safetensors.write(partial, chosen, about)
        os.replace(partial, target)
    finally:
        if os.path.exists(partial):
            os.unlink(partial)
    return sorted(chosen)


def _averaged(path: str, tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The `param/PATH` and `buffer/PATH` of a checkpoint as evaluations see them. How they follow
    from what it holds is in the document that its run directory keeps."""
    run = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    try:
        with open(os.path.join(run, directory.IR_FILE), "rb") as file:
            text = file.read()
    except OSError as problem:
        raise failure(
            codes.E_CKPT_013,
            f"{path} holds averaged parameters, and {directory.IR_FILE} of its run, which says how "
            f"they are made, cannot be read: {problem.strerror}",
            "export the parameters as they were trained: --weights raw",
        ) from None
    return model_of(read_document(text, infer), tensors)


def model_tensors(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Parameters and buffers of a checkpoint by their paths."""
    return {
        name.removeprefix(prefix): array
        for prefix in _MODEL
        for name, array in tensors.items()
        if name.startswith(prefix)
    }


def initialized(document: Document, state: StepState) -> tuple[StepState, dict[str, Any] | None]:
    """The state of step 0 with what `:init-from` gives in place of what `init/…` gave, and what
    the `open` event says of it; None without `:init-from`.

    Raises E-CKPT-012 with every parameter that is missing, extra or of another shape.
    """
    wanted = document.run.init_from
    if wanted is None:
        return state, None
    given, origin = read_weights(wanted.path, wanted.base)
    renamed, problems = _renamed(given, wanted.map)
    aliases = {alias: p.path for p in document.parameters for alias in p.aliases}
    renamed = {aliases.get(name, name): array for name, array in renamed.items()}
    rows = {buffer.path for buffer in with_rows(document)}  # theirs are of a place in the data
    renamed = {name: array for name, array in renamed.items() if name not in rows}
    like = {p: a for part in _PARTS for p, a in state[part].items() if p not in rows}
    found: dict[str, np.ndarray] = {}
    left: list[str] = []
    for path, initial in like.items():
        if path not in renamed:
            if any(glob_matches(glob, path) for glob in wanted.missing):
                left.append(path)
                continue
            near = did_you_mean(path, [n for n in renamed if n not in like])
            problems.append(f"nothing gives {path}" + (f": {near}" if near else ""))
        else:
            problem, array = _fitted(path, renamed[path], initial)
            problems.extend([problem] if problem else [])
            found[path] = array
    for name in renamed:
        if name not in like and not any(glob_matches(g, name) for g in wanted.extra):
            near = did_you_mean(name.replace(".", "/"), [p for p in like if p not in renamed])
            problems.append(f"{name} is no parameter or buffer" + (f": {near}" if near else ""))
    if problems:
        raise failure(
            codes.E_CKPT_012,
            f"the weights of {origin['path']} do not fit: {problems[0]}",
            *problems[1:20],
            *([f"and {len(problems) - 20} more"] if len(problems) > 20 else []),
        )
    new = {
        **state,
        **{part: {p: found.get(p, a) for p, a in state[part].items()} for part in _PARTS},
    }
    return new, {**origin, "taken": len(found), "initialized": left}


_PARTS = ("param", "buffer")


def begun_with(
    document: Document,
    path: str | os.PathLike[str],
    renames: Mapping[str, str | None],
    missing: Sequence[str],
    extra: Sequence[str],
) -> Document:
    """The document with `:init-from` PATH, from the working directory, in place of its own.

    `renames`: names there -> names here, None or "" to leave an array out. E-RUN-033 for other
    types.
    """
    named = os.fspath(path) if isinstance(path, os.PathLike) else path
    mapped = isinstance(renames, Mapping) and _texts([*renames, *filter(None, renames.values())])
    for what, value, fits, wanted in (
        ("init_from", named, isinstance(named, str) and named != "", "a path"),
        ("init_map", renames, mapped, "a dict of texts"),
        ("init_missing", missing, _texts(missing), "a list of texts"),
        ("init_extra", extra, _texts(extra), "a list of texts"),
    ):
        if not fits:
            raise failure(run_codes.E_RUN_033, f"{what} takes {wanted}, not {value!r}")
    source = InitFrom(
        path=named,
        base=os.getcwd(),
        map=[Rename(source=f, target=t or None, transpose=False) for f, t in renames.items()],
        missing=list(missing),
        extra=list(extra),
    )
    return document.changed(run=document.run.changed(init_from=source))


def _texts(values: Any) -> bool:
    return isinstance(values, list | tuple) and all(isinstance(value, str) for value in values)


def read_weights(path: str, base: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of a run, a checkpoint, or a .safetensors or .npz file (local or a URL), by
    their names, and where they come from. A relative path starts from `base`."""
    origin: dict[str, Any] = {"path": path}
    if is_url(path):
        files = fetch(path)
        return _read_file(files[0][1]), origin
    whole = path if os.path.isabs(path) else os.path.join(base, path)
    if os.path.isfile(whole):
        return _read_file(whole), origin
    if path.endswith(KINDS):
        raise failure(
            codes.E_CKPT_001,
            f"there is no file {whole}",
            fix="a relative path starts from the folder of the run file",
        )
    found = named.find(whole)
    tensors, meta = checkpoint.load(found)
    origin |= {"checkpoint": found, "step": meta["step"], "ir": meta["experiment"]["ir"]}
    return model_tensors(tensors), origin


def _read_file(path: str) -> dict[str, np.ndarray]:
    if not path.endswith(".npz"):
        return safetensors.read(path)[0]
    try:
        # opened here: NumPy leaves a file open that it cannot read
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (ValueError, OSError, KeyError, EOFError, BadZipFile, zlib.error) as error:
        raise failure(codes.E_CKPT_011, f"{path} is no npz file: {error}") from None


def _renamed(
    given: Mapping[str, np.ndarray], rules: Sequence[Rename]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """The arrays under the names that the first matching rule gives, else under their own; and
    what is wrong with the rules."""
    out: dict[str, np.ndarray] = {}
    used: set[int] = set()
    problems: list[str] = []
    for name, array in given.items():
        target: str | None = name
        for index, rule in enumerate(rules):
            stood_for = _captured(rule.source, name)
            if stood_for is None:
                continue
            used.add(index)
            target = None if rule.target is None else _filled(rule.target, stood_for)
            array = array.T if rule.transpose else array
            break
        if target is None:
            continue
        if target in out:
            problems.append(f"two arrays are to be {target}: the second is {name}")
        out[target] = array
    for index, rule in enumerate(rules):
        if index not in used:
            near = did_you_mean(rule.source, given)
            problems.append(f":map {rule.source} matches no name" + (f": {near}" if near else ""))
    return out, problems


def _captured(pattern: str, name: str) -> list[str] | None:
    """What each `*` and `**` of a pattern stands for in a name; None when it does not match."""
    parts = {"**": "(.*)", "*": "([^/.]*)"}
    words = re.split(r"(\*\*|\*)", pattern)
    found = re.fullmatch("".join(parts.get(word) or re.escape(word) for word in words), name)
    return None if found is None else list(found.groups())


def _filled(target: str, stood_for: Sequence[str]) -> str:
    """The target with its wildcards, in order, replaced by what those of the source stood for."""
    rest = iter(stood_for)
    return re.sub(r"\*\*|\*", lambda match: next(rest, match.group()), target)


def _fitted(path: str, array: np.ndarray, initial: np.ndarray) -> tuple[str | None, np.ndarray]:
    """The array in the dtype that is kept; with what keeps it from fitting, if anything does."""
    if array.shape != initial.shape:
        shown = " ".join(map(str, array.shape))
        hint = (
            "; :transpose t in its :map entry would fit" if array.T.shape == initial.shape else ""
        )
        wanted = " ".join(map(str, initial.shape))
        return f"{path} has shape ({wanted}), what is given has ({shown}){hint}", initial
    if not is_float(array.dtype):
        return f"{path} is {initial.dtype}, what is given is {array.dtype}", initial
    return None, np.ascontiguousarray(widen(array)).astype(initial.dtype)


def model_for(
    document: Document, reference: str, weights: str = "averaged"
) -> dict[str, np.ndarray]:
    """The `param/PATH` and `buffer/PATH` of a document from a checkpoint (`named.find` says how
    it is named), and what else its predict graph reads; averaged where the optimizer keeps an
    average, or "raw". E-CKPT-004 where they are not of the document's paths and shapes."""
    path = named.find(reference)
    tensors, meta = checkpoint.load(path)
    around = surroundings(document, tensors, meta["ctx"])
    for kind, record in (
        *(("param", p) for p in document.parameters),
        *(("buffer", b) for b in document.buffers if b.per is None),
    ):
        held = tensors.get(f"{kind}/{record.path}")
        if held is None or held.shape != tuple(record.shape):
            said = "does not hold it" if held is None else f"has it as {held.shape}"
            raise failure(
                codes.E_CKPT_004,
                f"{record.path} is {tuple(record.shape)} in the file; the checkpoint {path} {said}",
            )
    if weights == "raw":
        return {n: array for n, array in tensors.items() if n.startswith(_MODEL)} | around
    try:
        return model_of(document, tensors) | around
    except KeyError as missing:
        raise failure(
            codes.E_CKPT_004,
            f"the checkpoint {path} has no tensor {missing.args[0]}, which the average is made of",
            fix="take the parameters as they were trained (--weights raw), or the run's own file",
        ) from None

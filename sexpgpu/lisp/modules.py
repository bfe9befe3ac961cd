"""require and export: modules as the only namespaces.

A standard module ("sexpgpu/nn") is package data; a path that begins with ./ or ../ is relative to
the requiring file. A module is evaluated once a session.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Any

from sexpgpu.diagnostics.codes import lisp as codes
from sexpgpu.diagnostics.codes.read import E_READ_011
from sexpgpu.diagnostics.model import Diagnostic, Label, Note, SxError
from sexpgpu.lisp.hostforms import Context, call_host, form_arguments, host_macro
from sexpgpu.lisp.spans import car_span
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import (
    KEYWORD,
    NIL,
    Cons,
    Module,
    String,
    Symbol,
    T,
    python_list,
)
from sexpgpu.reader.names import nearest
from sexpgpu.reader.printer import brief
from sexpgpu.source import Source, Span

if TYPE_CHECKING:
    from sexpgpu.lisp.session import Session

STANDARD: dict[str, tuple[str, ...]] = {
    "sexpgpu/nn": (
        "attention",
        "initialisers",
        "activations",
        "recurrent",
        "losses",
        "metrics",
    ),
    "sexpgpu/optim": ("wrappers", "schedules"),
}
"""The standard modules, each with the further files, in its folder, that it is made of."""


@host_macro("require", "(path &key as import)", top_level=True)
def require(form: Any, context: Context) -> Any:
    """Evaluate another module once and name it: (require "./lib.sx" :as lib :import (layer))."""
    items = form_arguments(form)
    if not items or not isinstance(items[0], String):
        raise context.error(codes.E_MOD_003, "require takes the path of a module, a text", form)
    alias: Symbol | None = None
    names: list[Symbol] = []
    rest = items[1:]
    if len(rest) % 2:
        raise context.error(codes.E_MOD_003, "require: :as and :import take one value each", form)
    for at, (key, value) in enumerate(zip(rest[::2], rest[1::2], strict=True)):
        if not isinstance(key, Symbol) or key.module is not KEYWORD:
            raise context.error(codes.E_MOD_003, f"require: {brief(key)} is not a keyword", form)
        if key in rest[: 2 * at : 2]:
            raise context.error(codes.E_MOD_003, f"require: {brief(key)} is given twice", form)
        if key.name == "as" and isinstance(value, Symbol) and value is not NIL:
            alias = value
        elif key.name == "import" and (isinstance(value, Cons) or value is NIL):
            names = python_list(value)
            if not all(type(name) is Symbol for name in names):
                raise context.error(codes.E_MOD_003, "require: :import lists names", form)
        else:
            raise context.error(
                codes.E_MOD_003, f"require: {brief(key)} {brief(value)} has no meaning", form
            )
    path = items[0].text
    span = car_span(form.cdr) or context.span

    def work() -> Any:
        session: Session | None = STATE.session
        assert session is not None
        session.require(path, context.module, alias.name if alias else None, names, span)
        return T

    return call_host(work)


@host_macro("export", "(&rest names)", top_level=True)
def export(form: Any, context: Context) -> Any:
    """Narrow what other modules see to these names."""
    names = form_arguments(form)
    for name in names:
        if not isinstance(name, Symbol):
            raise context.error(codes.E_MOD_003, f"export: {brief(name)} is not a name", form)
        if name.name.startswith("%"):
            raise context.error(codes.E_MOD_003, f"export: {name.name} is private", form)
    module = context.module

    def work() -> Any:
        exports = module.exports or set()
        module.exports = exports | {name.name for name in names}
        return T

    return call_host(work)


def _error(
    code: Any, headline: str, span: Span | None, fix: str | None = None, notes: Any = ()
) -> SxError:
    return SxError(Diagnostic(code, headline, [Label(span)] if span else [], list(notes), fix))


def find_source(path: str, requiring: Module, project: str, span: Span | None) -> Source:
    """The source of a module that a file requires, which lies in the project's folder."""
    if "\0" in path:
        raise _error(codes.E_MOD_001, "no path has the character Nul", span)
    if path.startswith(("./", "../")) or os.path.isabs(path):
        base = os.path.dirname(requiring.path) if requiring.path else os.getcwd()
        full = os.path.normpath(os.path.join(base, path))
        _check_place(path, full, base, project, span)
        return read_file(full, path, span)
    standard = standard_source(path)
    if standard is not None:
        return standard
    near = nearest(path, STANDARD)
    if "://" in path:
        fix = "modules are files: fetch it, and require it by its path"
    elif near is None and path.endswith(".sx"):
        fix = f'a path relative to this file begins with ./: "./{path}"'
    else:
        fix = f'write "{near}"' if near else f"the standard modules are {', '.join(STANDARD)}"
    raise _error(codes.E_MOD_001, f'there is no module "{path}"', span, fix)


SUFFIXES = (".sx", ".lisp")
VERSIONED = (".git", ".hg", ".jj")


def project_folder(main: str | None) -> str:
    """The folder that a main file's modules lie in: the nearest one above that is under version
    control, and where none is, the one above the file's own. None stands for a file here."""
    own = os.path.dirname(os.path.realpath(main)) if main else os.path.realpath(os.curdir)
    at = own
    while not any(os.path.lexists(os.path.join(at, mark)) for mark in VERSIONED):
        above = os.path.dirname(at)
        if above == at:
            return os.path.dirname(own)
        at = above
    return at


def _check_place(path: str, full: str, base: str, project: str, span: Span | None) -> None:
    """E-MOD-006 unless a path is that of a Lisp source in the project. Links are followed. To be
    called before the file is looked at: a refusal tells nothing of what there is."""
    real = os.path.realpath(full)
    inside = os.path.commonpath([project, real]) == project
    if os.path.isabs(path):
        near = os.path.relpath(full, base).replace(os.sep, "/")
        relative = near if near.startswith("../") else f"./{near}"
        fix = f'write "{relative}"' if inside and real.endswith(SUFFIXES) else None
        raise _error(codes.E_MOD_006, f'"{path}" is an absolute path', span, fix)
    if not inside:
        note = Note(f"the project's folder is {project}")
        raise _error(codes.E_MOD_006, f'"{path}" leads out of the project', span, notes=[note])
    if not real.endswith(SUFFIXES):
        fix = "give the file a name that ends in .sx; data come by loaders"
        raise _error(codes.E_MOD_006, f'"{path}" is not named as a Lisp source', span, fix)


def standard_source(path: str) -> Source | None:
    """The source of a standard module, or None."""
    if path not in STANDARD:
        return None
    return package_source(f"{path}.sx")


def standard_files(path: str) -> list[str]:
    """The files of a standard module, from the standard library's folder, in order."""
    return [f"{path}.sx", *(f"{path}/{part}.sx" for part in STANDARD[path])]


def package_source(relative: str) -> Source:
    """A source that is package data of the standard library."""
    # Not importlib.resources: importing that costs more than reading the file.
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(os.path.join(package, "stdlib", *relative.split("/")), encoding="utf-8") as file:
        text = file.read()
    return Source(f"stdlib/{relative}", text, None, standard=True)


def read_file(full: str, shown: str, span: Span | None) -> Source:
    """The source of a file, shown relative to where the reader of messages is."""
    try:
        data = read_bytes(full)
    except OSError as problem:
        reason = problem.strerror or "it cannot be read"
        raise _error(
            codes.E_MOD_001,
            f'"{shown}": {reason[0].lower()}{reason[1:]}',
            span,
            notes=[Note(f"looked for {full}")],
        ) from None
    name = os.path.relpath(full)
    if name.startswith(".." + os.sep + ".."):
        name = full
    try:
        return Source(name, data.decode("utf-8"), full)
    except UnicodeDecodeError as problem:
        raise _error(E_READ_011, f'"{shown}" is not UTF-8 (byte {problem.start})', span) from None


MAX_FILE = 16 << 20  # bytes of a source file


def read_bytes(path: str) -> bytes:
    """The bytes of a source file. OSError where there is none: a device or a pipe may never end."""
    with open(path, "rb", opener=open_at_once) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "It is no ordinary file")
        if status.st_size > MAX_FILE:
            raise OSError(errno.EFBIG, f"It is longer than {MAX_FILE >> 20} MiB")
        return file.read(MAX_FILE + 1)


def open_at_once(path: str, flags: int) -> int:
    """An opener that does not wait for the other end of a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def import_names(target: Module, into: Module, names: list[Symbol], span: Span | None) -> None:
    """Make names of another module visible in a module without a prefix."""
    for name in names:
        found = target.local(name.name)
        private = name.name.startswith("%") or (
            target.exports is not None and name.name not in target.exports
        )
        if found is None or private:
            near = nearest(name.name, target.public())
            what = "is private to" if found is not None else "is not defined in"
            raise _error(
                codes.E_MOD_004,
                f"{name.name} {what} {target.name}",
                span,
                f"import {near}" if near else None,
            )
        present = into.symbols.get(name.name)
        if present is not None and present is not found and _defined(present):
            raise _error(
                codes.E_MOD_005,
                f"{name.name} already means something in this file",
                span,
                "leave it out of :import and write it with the alias",
            )
        into.symbols[name.name] = found
        into.version += 1


def _defined(symbol: Symbol) -> bool:
    return bool(symbol.function or symbol.macro or symbol.special or symbol.constant)

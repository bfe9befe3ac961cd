"""A run file to a checked document: read, evaluate, trace, differentiate, assemble.

Imports neither numpy nor jax, nor the loop. (Called compiler.py, not compile.py, so that the
function `sexpgpu.compile` of the Python API keeps its name.)
"""

from __future__ import annotations

import errno
import gc
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

from sexpgpu.assemble.manifest import make_manifest
from sexpgpu.assemble.whole import Assembly
from sexpgpu.diagnostics.codes import data as data_codes
from sexpgpu.diagnostics.codes import lisp as lisp_codes
from sexpgpu.diagnostics.codes import read as read_codes
from sexpgpu.diagnostics.codes import run as run_codes
from sexpgpu.diagnostics.codes import system as store
from sexpgpu.diagnostics.model import Code, Diagnostic, SxError
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.forms import knobs
from sexpgpu.forms.declarations import scan, unused_knobs
from sexpgpu.forms.experiment import Experiment, declaring
from sexpgpu.ir.document import Diagnostics, Document
from sexpgpu.lisp import world
from sexpgpu.lisp.deep import alone
from sexpgpu.lisp.modules import MAX_FILE, open_at_once
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.state import STATE, Limits
from sexpgpu.lisp.values import (
    CL,
    NIL,
    PRELUDE,
    TENSOR,
    Function,
    Module,
    String,
    Symbol,
    T,
    keyword,
    lisp_list,
)
from sexpgpu.reader.failures import ReadFailure, TooDeep
from sexpgpu.reader.reader import END, Reader
from sexpgpu.source import Source


class Compiled:
    """What compiling one file gave. `document` is None when an error was found; `output` is what
    the file printed on the way."""

    __slots__ = (
        "_document", "assembly", "diagnostics", "module", "output", "selection", "session",
        "source",
    )  # fmt: skip

    def __init__(self, source: Source, selection: knobs.Selection, session: Session) -> None:
        self.source = source
        self.selection = selection
        self.session = session
        self.module: Module | None = None
        self.assembly: Assembly | None = None
        self.diagnostics: list[Diagnostic] = []
        self.output = ""
        self._document: Document | None = None

    @property
    def document(self) -> Document | None:
        """The document. Its graphs go through the last passes, and its manifest is made, when it is
        first asked for: a check needs neither."""
        made = self._document
        if made is not None and not made.manifest:
            if self.assembly is not None:
                self.assembly.store.finish()
            made.manifest = make_manifest(self.source, made.sources, self.selection)
        return made

    @document.setter
    def document(self, made: Document | None) -> None:
        self._document = made

    @property
    def errors(self) -> list[Diagnostic]:
        return [d for d in self.diagnostics if d.severity == "error"]

    def checked(self) -> Document:
        """The document; SxError with every diagnostic when there is none."""
        document = self.document
        if document is None:
            raise SxError(*self.diagnostics)
        return document


def read_source(path: str) -> Source:
    """The text of a file; E-STORE or E-READ when it cannot be read as UTF-8 text."""
    try:
        # A pipe that nobody writes to is an empty text, not a wait without end.
        with open(path, "rb", opener=open_at_once) as stream:
            os.set_blocking(stream.fileno(), True)
            data = read_all(stream)
    except OSError as error:
        raise SxError(
            Diagnostic(
                _unreadable(error),
                f"{path} cannot be read: {(error.strerror or str(error)).lower()}",
            )
        ) from None
    return Source(path, decoded(data, path), os.path.abspath(path))


def read_all(stream: BinaryIO) -> bytes:
    """All of a stream. OSError when it is longer than a source may be and no IR document (which
    may be of any length): a device need not end."""
    data = stream.read(MAX_FILE + 1)
    if len(data) <= MAX_FILE:
        return data
    if not data.lstrip().startswith(b"{"):
        raise OSError(errno.EFBIG, f"it is longer than {MAX_FILE >> 20} MiB")
    return data + stream.read()


def decoded(data: bytes, name: str) -> str:
    """The text of UTF-8 bytes, without a mark at its beginning; E-READ-011 when it is none."""
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise SxError(
            Diagnostic(
                read_codes.E_READ_011,
                f"{name} is not UTF-8 text: byte {error.start} cannot be decoded",
            )
        ) from None


def _unreadable(error: OSError) -> Code:
    if isinstance(error, FileNotFoundError):
        return store.E_STORE_001
    return store.E_STORE_002 if isinstance(error, PermissionError) else store.E_STORE_006


def declarations(source: Source, features: Sequence[str] = ()) -> tuple[Any, list[Diagnostic]]:
    """The knobs, variants and sweeps of a file, read without evaluation, and what is wrong there.

    Forms that do not read are passed over: reading the file in earnest reports them."""
    if not any(word in source.text for word in ("defknob", "defvariant", "defsweep")):
        return knobs.Declarations(), []
    STATE.reset(Limits())  # no session yet: what an earlier one used up must not count here
    STATE.finish()
    world.prepare()  # so that the language's constants and variables are known
    scratch = Module("scan", (PRELUDE, TENSOR, CL))
    reader = Reader(source, scratch, ("sexpgpu", *features))
    found: list[Any] = []
    while True:
        try:
            form = reader.read()
        except ReadFailure:
            continue
        except TooDeep:
            break
        if form is END:
            break
        found.append(form)
    declared, problems = scan(found)
    declared.unused = unused_knobs(declared, found, source)
    return declared, problems


def read_value(name: str, text: str) -> Any:
    """The literal value of `--set name=text`: E-KNOB-003 when it does not read as one. A symbol
    is handed on: only the knob's declaration can say what it was to be."""
    source = Source(f"--set {name}", text)
    reader = Reader(source, Module("setting", (CL,)))
    try:
        value = reader.read()
        literal = isinstance(value, Symbol) or knobs.is_literal(value)
        if value is END or reader.read() is not END or not literal:
            raise ValueError
    except (ReadFailure, TooDeep, ValueError):
        raise SxError(
            Diagnostic(
                run_codes.E_KNOB_003,
                f"--set {name}={text}: {text or 'nothing'} is not a literal value",
                [],
                [],
                'write a number, a "string", a :keyword, t, nil or a list of those',
            )
        ) from None
    return value


def lisp_value(value: Any) -> Any:
    """A Python value (of the API) as a literal of the Lisp."""
    if value is None or value is False:
        return NIL
    if value is True:
        return T
    if isinstance(value, str):
        return keyword(value[1:]) if value.startswith(":") else String(value)
    if isinstance(value, list | tuple):
        items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
        return lisp_list([lisp_value(v) for v in items])
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "shape", None) == ():
        return lisp_value(item())  # a scalar of NumPy
    if not isinstance(value, int | float):
        raise TypeError(f"a knob takes a number, text, bool, None or a list of those: {value!r}")
    return value


def compile_source(
    source: Source,
    base: str,
    *,
    variants: Sequence[str] = (),
    settings: Sequence[tuple[str, Any]] = (),
    limits: Limits | None = None,
    predict: str = "predict",
    diagnostics: Diagnostics | None = None,
) -> Compiled:
    """Compile a text. `base` is the folder that relative data paths start from; `settings` are
    (knob, Lisp value); `predict` names the function that predicts; `diagnostics` are selected in
    place of defrun's. Raises SxError only for a selection that cannot be applied; everything else
    that is wrong is in `.diagnostics`. One thread compiles at a time."""
    with alone():
        return _compile_alone(source, base, variants, settings, limits, predict, diagnostics)


def _compile_alone(
    source: Source,
    base: str,
    variants: Sequence[str],
    settings: Sequence[tuple[str, Any]],
    limits: Limits | None,
    predict: str,
    diagnostics: Diagnostics | None,
) -> Compiled:
    declared, problems = declarations(source)
    if problems:
        selection = knobs.Selection(declared)
    else:
        selection = knobs.select(declared, variants, settings)
    session = Session(
        limits=limits or Limits(),
        features=frozenset(["sexpgpu", *selection.variants]),
        seed=selection.overrides.get("seed", 0),
    )
    compiled = Compiled(source, selection, session)
    experiment = Experiment(base, selection, session, diagnostics)
    with declaring(experiment), _without_collection():
        session.run(lambda: _compile_and_listen(compiled, experiment, predict))
    compiled.diagnostics = _unique([*problems, *compiled.diagnostics, *declared.unused])
    if compiled.diagnostics:
        from sexpgpu.diagnostics.mistakes import mend

        mend(compiled.diagnostics)
    if compiled.errors:
        compiled.document = None
    return compiled


@contextmanager
def _without_collection() -> Generator[None]:
    """Compiling allocates much and drops little: looking for cycles is a quarter of its time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _compile_and_listen(compiled: Compiled, experiment: Experiment, predict: str) -> None:
    try:
        _compile(compiled, experiment, predict)
    finally:
        compiled.output = STATE.output.take()


def _compile(compiled: Compiled, experiment: Experiment, predict: str) -> None:
    session, source = compiled.session, compiled.source
    loaded = session.load_all(source, "main")
    compiled.module = loaded.module
    compiled.diagnostics.extend(loaded.diagnostics)
    if any(d.severity == "error" for d in loaded.diagnostics) and experiment.run is None:
        compiled.diagnostics.extend(session.diagnostics)
        return

    def contract(name: str) -> Function | None:
        return session.function(loaded.module, predict if name == "predict" else name)

    assembly = compiled.assembly = Assembly(experiment, contract)
    if predict != "predict" and contract("predict") is None:
        compiled.diagnostics.append(_no_function(predict, loaded.module))
    assembly.assemble(list(session.sources))
    compiled.diagnostics.extend(assembly.diagnostics)
    compiled.diagnostics.extend(session.diagnostics)
    compiled.document = assembly.document


def _no_function(name: str, module: Module) -> Diagnostic:
    """E-EVAL-033 for a function that is to predict and is not there."""
    known = [s.name for s in module.symbols.values() if s.module is module and s.function]
    return Diagnostic(
        data_codes.E_EVAL_033,
        f"the file defines no function {name} that could predict",
        fix=did_you_mean(name, known) or f"define (defun {name} (model …) …)",
    )


def _unique(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """Each finding once, in order of place within the order of discovery: the warning that a call
    names no function is no news beside the error that it raised, nor is a limit after a limit."""
    undefined = [d.span for d in diagnostics if d.code is lisp_codes.E_NAME_002]
    seen: set[Any] = set()
    kept: list[Diagnostic] = []
    for diagnostic in diagnostics:
        if diagnostic.code is lisp_codes.W_NAME_002 and diagnostic.span in undefined:
            continue
        # A module that is not there is missed at every name of it, and what comes after a limit
        # runs into it again: said once.
        once = "no module is called" in diagnostic.headline or diagnostic.code.id.startswith(
            "E-LIMIT-"
        )
        key = (diagnostic.code.id, diagnostic.headline, None if once else diagnostic.span)
        if key not in seen:
            seen.add(key)
            kept.append(diagnostic)
    return kept


def compile_file(
    path: str,
    *,
    variants: Sequence[str] = (),
    knobs: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> Compiled:
    """Compile a file with a selection as the command line gives it (knob values as texts)."""
    source = read_source(path)
    settings = [(name, read_value(name, text)) for name, text in (knobs or {}).items()]
    base = os.path.dirname(os.path.abspath(path))
    return compile_source(source, base, variants=variants, settings=settings, limits=limits)


def compile_text(
    text: str,
    *,
    name: str = "<text>",
    base: str | None = None,
    variants: Sequence[str] = (),
    settings: Sequence[tuple[str, Any]] = (),
) -> Compiled:
    """Compile a text; relative data paths start from `base` (default: the current folder)."""
    return compile_source(
        Source(name, text), base or os.getcwd(), variants=variants, settings=settings
    )


def check_text(text: str, name: str = "<text>", base: str | None = None) -> list[Diagnostic]:
    """Every diagnostic of a text."""
    try:
        return compile_text(text, name=name, base=base).diagnostics
    except SxError as error:
        return error.diagnostics

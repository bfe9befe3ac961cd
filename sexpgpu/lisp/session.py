"""A session: one evaluation world, from the first file to the last traced function.

Its changes to lower layers are journaled; another session may run in between, and nothing of one
leaks into the other. Everything runs on a thread with a big stack.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from sexpgpu.diagnostics.codes import lisp as codes
from sexpgpu.diagnostics.model import Diagnostic, Label, Note, SxError
from sexpgpu.lisp import world
from sexpgpu.lisp.analyze import AT
from sexpgpu.lisp.deep import inside, run_deep
from sexpgpu.lisp.deferred import Deferred
from sexpgpu.lisp.defined import Defined, shadow
from sexpgpu.lisp.errors import LimitError, LispError
from sexpgpu.lisp.failed import Failed
from sexpgpu.lisp.journal import Journal, activate
from sexpgpu.lisp.state import NO_TICKETS, STATE, Limits, Site
from sexpgpu.lisp.values import (
    CL,
    NIL,
    PRELUDE,
    TENSOR,
    Condition,
    Function,
    Module,
    SrcCons,
    Symbol,
)
from sexpgpu.reader.failures import ReadFailure, TooDeep
from sexpgpu.reader.qualified import LAYERS
from sexpgpu.reader.reader import END, Reader
from sexpgpu.source import Source, Span

MOST_FOUND = 10_000  # mistakes in one file, before the rest of it is left

_current: list[Session | None] = [None]


class Loaded:
    """A module, and what was found while it was loaded."""

    __slots__ = ("diagnostics", "module")

    def __init__(self, module: Module, diagnostics: list[Diagnostic]) -> None:
        self.module = module
        self.diagnostics = diagnostics


class Session:
    """See the module's docstring.

    limits       what evaluation may use, all files together
    features     the names that #+ finds, without colons
    seed         of `random`
    diagnostics  the warnings so far
    sources      every source that was read, in order
    on_form      called with (form, module) before each top-level form is evaluated
    """

    def __init__(
        self,
        limits: Limits | None = None,
        features: frozenset[str] = frozenset(),
        seed: int = 0,
        resolve: Callable[[str, Module], Source | None] | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.features = frozenset((*features, "sexpgpu"))
        self.seed = seed
        self.resolve = resolve
        self.diagnostics: list[Diagnostic] = []
        self.sources: list[Source] = []
        self.on_form: list[Callable[[Any, Module], None]] = []
        self.modules: dict[str, Module] = {}
        self.deferred = Deferred()
        self._journal = Journal()
        self._loading: list[str] = []
        self._main: str | None = None  # the path of the first module made
        self._project: str | None = None
        self._broken: set[str] = set()  # modules whose mistakes this run has already told
        self._defined = Defined(self.warn)
        self._failed = Failed()
        self._calls: dict[Symbol, tuple[Site, Any]] = {}
        self._started = False
        self._running = False
        self._random: Any = None  # the generator of `random`, kept from run to run
        self._strict = False

    # ------------------------------------------------------------ running

    def run(self, work: Callable[[], Any]) -> Any:
        """The result of `work()` with this session active, on a thread with a big stack. The
        limits count anew for each outermost call, out of which errors come as SxError."""

        if self._running and inside():
            return work()

        def body() -> Any:
            self._enter()
            self._running = True
            self._broken.clear()
            try:
                return work()
            except (LispError, LimitError) as error:
                raise SxError(self.report(error)) from None
            except RecursionError:
                raise SxError(self.report(LimitError("depth", STATE.depth))) from None
            finally:
                self._running = False
                self._random = STATE.random
                STATE.finish()

        return run_deep(body, self._interrupt)

    def _interrupt(self) -> None:
        STATE.reserve = 0
        STATE.fuel = 0
        STATE.tickets = NO_TICKETS

    def _enter(self) -> None:
        world.prepare()
        other = _current[0]
        if other is not self:
            if other is not None:
                other._leave()
            if self._started:
                self._journal.swap()
            _current[0] = self
            activate(self._journal)
            STATE.session = self
            self._started = True
        STATE.reset(self.limits, self.seed)
        STATE.random = self._random

    def _leave(self) -> None:
        self._random = STATE.random
        self._journal.swap()
        activate(None)
        _current[0] = None
        STATE.session = None

    def close(self) -> None:
        """Undo what the session changed outside its own modules."""
        if _current[0] is self:
            self._leave()

    # ------------------------------------------------------------ loading

    def load(self, source: Source, name: str = "main") -> Module:
        """Read and evaluate a file as the main module. SxError with everything that is wrong."""
        loaded = self.load_all(source, name)
        if any(d.severity == "error" for d in loaded.diagnostics):
            raise SxError(*loaded.diagnostics)
        return loaded.module

    def load_all(self, source: Source, name: str = "main") -> Loaded:
        """Like `load`, but gives what was found instead of raising it."""
        return self.run(lambda: self._load_main(source, self.new_module(name, source.path)))

    def _load_main(self, source: Source, module: Module) -> Loaded:
        self._loading.append(_key(source))
        try:
            return self._load(source, module)
        finally:
            self._loading.pop()

    def new_module(self, name: str, path: str | None = None) -> Module:
        """A fresh module that inherits prelude, tensor operations and CL. The first is the main
        one: its path says what the project is."""
        if self._project is None and self._main is None:
            self._main = path
        return Module(name, (PRELUDE, TENSOR, CL), path)

    def project(self) -> str:
        """The folder that modules must lie in."""
        if self._project is None:
            from sexpgpu.lisp.modules import project_folder

            self._project = project_folder(self._main)
        return self._project

    def _load(self, source: Source, module: Module, *more: Source) -> Loaded:
        """Evaluate a text, and `more` after it, into a module."""
        texts = (source, *more)
        self.sources.extend(texts)
        found: list[Diagnostic] = []
        saved = STATE.module, AT.lazy, self._strict, self._calls
        STATE.module = module
        AT.lazy = source.standard
        self._strict = True
        self._calls = {}
        try:
            readers = [Reader(t, module, self.features, nesting=self.limits.nesting) for t in texts]
            if source.standard:
                for reader in readers:
                    self.deferred.defer(reader)
                self.deferred.settle()
                return Loaded(module, found)
            for text in texts:
                shadow(text, module)
            for reader in readers:
                while self._next(reader, module, found):
                    if len(found) >= MOST_FOUND:
                        found[-1].notes.append(Note("so many: what follows was not looked at"))
                        break
            self._check_calls(found)
        finally:
            STATE.module, AT.lazy, self._strict, self._calls = saved
        return Loaded(module, found)

    def _next(self, reader: Reader, module: Module, found: list[Diagnostic]) -> bool:
        """Read and evaluate one top-level form; whether there may be more."""
        start = reader.at
        try:
            form = reader.read()
            if form is END:
                return False
        except ReadFailure as failure:
            if not self._failed.explains_text(failure):
                found.append(failure.diagnostic)
            self._failed.add_text(reader.source.text, start, max(reader.at, start + 1), module)
            return True
        except TooDeep as deep:
            found.append(self.report(deep))
            return True
        try:
            for hook in self.on_form:
                hook(form, module)
            self._evaluate(form, _atom_place(reader, start))
        except LispError as error:
            if not self._failed.explains(error):
                found.append(self.report(error))
            self._failed.add_form(form)
        except SxError as error:
            found.extend(error.diagnostics)
            self._failed.add_form(form)
        except LimitError as error:
            found.append(self.report(error))
            return False
        except RecursionError:
            found.append(self.report(LimitError("depth", STATE.depth)))
            return False
        return True

    def _evaluate(self, form: Any, atom: Any = None) -> Any:
        """The value of a top-level form. `atom`: its place, should it be no list."""
        from sexpgpu.lisp.toplevel import evaluate_top_level

        self.deferred.settle()
        depth = len(STATE.stack)
        STATE.site = Site(form.place if type(form) is SrcCons else atom)
        handlers, restarts = STATE.handlers, STATE.restarts
        try:
            return evaluate_top_level(form, place=atom)
        finally:
            del STATE.stack[depth:]
            STATE.handlers, STATE.restarts = handlers, restarts

    def has_failed(self, name: str) -> bool:
        """Whether a form failed that would have defined something of that name."""
        return any(symbol.name == name for symbol in self._failed.symbols)

    def _check_calls(self, found: list[Diagnostic]) -> None:
        """Warn of calls of functions that were never defined."""
        if any(d.severity == "error" for d in found):
            return
        for symbol, (site, scope) in self._calls.items():
            if (
                symbol.function is not None
                or symbol.macro is not None
                or symbol in self._failed.symbols
            ):
                continue
            span = site.span
            if span is None or span.source.standard:
                continue
            from sexpgpu.lisp.reports import function_fix, uncallable

            fix = function_fix(symbol, STATE.module, scope, span)
            self.warn(
                Diagnostic(
                    codes.W_NAME_002,
                    uncallable(symbol)
                    or f"the function {symbol.name} is called here and never defined",
                    [Label(span)],
                    fix=fix,
                )
            )

    # ------------------------------------------------------------ modules

    def require(
        self,
        path: str,
        requiring: Module,
        alias: str | None,
        names: list[Symbol],
        span: Span | None,
    ) -> Module:
        """The module at a path, evaluated when it was not yet; named and imported as told."""
        from sexpgpu.lisp.modules import find_source, import_names

        source = self.resolve(path, requiring) if self.resolve is not None else None
        if source is None:
            source = find_source(path, requiring, self.project(), span)
        key = _key(source)
        module = self.modules.get(key)
        if module is None:
            if key in self._broken:
                raise SxError
            own = os.path.realpath(requiring.path) if requiring.path else None
            if key in self._loading or key == own:
                around = self._loading if key in self._loading else [key]
                chain = " → ".join([*around[around.index(key) :], key])
                raise SxError(
                    Diagnostic(
                        codes.E_MOD_002,
                        "modules require each other in a cycle",
                        [Label(span)] if span else [],
                        [Note(chain)],
                    )
                )
            module = self._load_required(source, path, key)
        if alias is not None:
            present = requiring.aliases.get(alias) or LAYERS.get(alias)
            if present is not None and present is not module:
                raise SxError(
                    Diagnostic(
                        codes.E_MOD_005,
                        f"the alias {alias} already names {present.name}",
                        [Label(span)] if span else [],
                    )
                )
            requiring.aliases[alias] = module
        import_names(module, requiring, names, span)
        self.deferred.settle()
        return module

    def _load_required(self, source: Source, path: str, key: str) -> Module:
        from sexpgpu.lisp.modules import STANDARD, package_source, standard_files

        name = path.rpartition("/")[2].removesuffix(".sx") if not source.standard else path
        files = standard_files(path)[1:] if source.standard and path in STANDARD else []
        self._loading.append(key)
        try:
            more = [package_source(file) for file in files]
            loaded = self._load(source, self.new_module(name, source.path), *more)
        finally:
            self._loading.pop()
        if any(d.severity == "error" for d in loaded.diagnostics):
            self._broken.add(key)
            raise SxError(*loaded.diagnostics)
        self.modules[key] = loaded.module
        return loaded.module

    # ------------------------------------------------------------ evaluation

    def evaluate(self, text: Any, module: Module, listener: Any = None) -> list[Any]:
        """The values of a form, or of the last form of a text. Raises SxError. A listener is told
        `before(form)` and `after(values)` of each form."""
        return self.run(lambda: self._evaluate_text(text, module, listener))

    def _evaluate_text(self, text: Any, module: Module, listener: Any) -> list[Any]:
        from sexpgpu.lisp.calls import values_list

        saved = STATE.module
        STATE.module = module
        try:
            if not isinstance(text, str | Source):
                return values_list(self._evaluate(text))
            source = text if isinstance(text, Source) else Source("<text>", text)
            self.sources.append(source)
            reader = Reader(source, module, self.features, nesting=self.limits.nesting)
            result: Any = NIL
            while True:
                start = reader.at
                if (form := reader.read()) is END:
                    return values_list(result)
                if listener is not None:
                    listener.before(form)
                result = self._evaluate(form, _atom_place(reader, start))
                if listener is not None:
                    listener.after(values_list(result))
        except (LispError, LimitError, ReadFailure, TooDeep) as error:
            raise SxError(self.report(error)) from None
        except RecursionError:
            raise SxError(self.report(LimitError("depth", STATE.depth))) from None
        finally:
            STATE.module = saved

    def unfinished(self, text: str, module: Module) -> bool:
        """Whether a text ends inside a form. Nothing is evaluated or defined."""
        world.prepare()
        scratch = Module("scratch", (module, *module.inherits))
        scratch.aliases = module.aliases
        reader = Reader(Source("<text>", text), scratch, self.features)
        try:
            while reader.read() is not END:
                pass
        except ReadFailure as failure:
            return failure.at_end
        except TooDeep:
            return False
        return False

    def function(self, module: Module, name: str) -> Function | None:
        """The module's own function of that name, or None."""
        found = module.symbols.get(name)
        return found.function if found is not None and found.module is module else None

    def report(self, error: BaseException) -> Diagnostic:
        """The diagnostic of a LispError, a limit or a failure of the reader."""
        from sexpgpu.lisp.reports import error_diagnostic, limit_diagnostic

        if isinstance(error, LispError):
            return error_diagnostic(error, STATE.module)
        if isinstance(error, LimitError):
            return limit_diagnostic(error)
        if isinstance(error, ReadFailure):
            return error.diagnostic
        if isinstance(error, TooDeep):
            text = f"lists are nested more than {error.limit:,} deep"
            return Diagnostic(codes.E_LIMIT_006, text, [Label(error.span)])
        raise TypeError(f"not an error of the Lisp: {error!r}")

    # ------------------------------------------------------------ told by the evaluator

    def warn(self, diagnostic: Diagnostic) -> None:
        """Collect a warning (each once)."""
        for present in self.diagnostics:
            if (
                present.code is diagnostic.code
                and present.headline == diagnostic.headline
                and present.span == diagnostic.span
            ):
                return
        self.diagnostics.append(diagnostic)

    def warned(self, condition: Condition, site: Site) -> None:
        """`warn` was called and nobody muffled it."""
        from sexpgpu.lisp.reports import place_of, safe_report

        labels, notes = place_of(site, STATE.stack[::-1], 0)
        self.warn(Diagnostic(codes.W_COND_001, safe_report(condition), labels, notes[:8]))

    def note_call(self, symbol: Symbol, site: Site, scope: Any) -> None:
        """A function that is not defined yet is called in the text; `scope` is what is around."""
        self._calls.setdefault(symbol, (site, scope))

    def defining(self, name: Symbol, kind: str, site: Site) -> Symbol:
        """The symbol that a definition defines (see Defined)."""
        if STATE.module is None:
            return name
        once = self._strict and not AT.lazy
        return self._defined.define(name, kind, site, STATE.module, once)


def _key(source: Source) -> str:
    """What one module is told from another by: where its file really is."""
    return os.path.realpath(source.path) if source.path else source.name


def _atom_place(reader: Reader, start: int) -> Any:
    """The place of an atom that was read just now, after blanks and comments."""
    text = reader.source.text[start : reader.at].rstrip()
    end = start + len(text)
    last = text.split()
    return reader.source, end - len(last[-1] if last else ""), end, -1, -1


def load_prelude() -> None:
    """Evaluate the prelude into its layer (once a process, before any session)."""
    from sexpgpu.lisp.modules import package_source
    from sexpgpu.lisp.toplevel import evaluate_top_level

    source = package_source("prelude.sx")
    saved = STATE.module
    STATE.module = PRELUDE
    AT.lazy = True
    try:
        reader = Reader(source, PRELUDE)
        while (form := reader.read()) is not END:
            evaluate_top_level(form)
    finally:
        STATE.module = saved
        AT.lazy = False

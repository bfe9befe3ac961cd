"""The definitions of standard modules, each read and evaluated when its name is first met.

A file uses a small part of what a module offers. The texts are our own: a line begins with a
parenthesis where a top-level form begins and nowhere else, so names are had without reading.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.analyze import AT
from sexpgpu.lisp.state import STATE, Site
from sexpgpu.reader.reader import Reader

# Forms that do nothing but define the name after their head.
DEFINITIONS = frozenset(("defun", "defmacro", "defmodel", "defoptimizer"))

Chunk = tuple[Reader, int, str | None]
"""The reader of the text, where in it the form begins, and the name it defines if it only does
that."""


def chunks(reader: Reader) -> list[Chunk]:
    """The top-level forms of a reader's standard text, in order."""
    before, *forms = f"\n{reader.source.text}".split("\n(")
    at = len(before)
    found: list[Chunk] = []
    for form in forms:
        head, name, *_ = *form.split(None, 2), ""
        found.append((reader, at, name if head in DEFINITIONS else None))
        at += len(form) + 2
    return found


class Deferred:
    """What a session has not evaluated yet of its standard modules.

    A name that is met makes its symbol at once and its definition wanted; `settle` evaluates
    what is wanted, which may want more.
    """

    __slots__ = ("evaluated", "wanted")

    def __init__(self) -> None:
        self.wanted: list[Chunk] = []
        self.evaluated = 0

    def defer(self, reader: Reader) -> None:
        """Keep the definitions of a text for later; other forms are wanted."""
        module = reader.module
        module.wanted = self.wanted
        for chunk in chunks(reader):
            if chunk[2] is None:
                self.wanted.append(chunk)
            else:
                module.deferred[chunk[2]] = chunk

    def settle(self) -> None:
        """Evaluate what is wanted."""
        if not self.wanted:
            return
        saved = STATE.module, STATE.site, AT.lazy
        AT.lazy = True
        try:
            while self.wanted:
                chunk = self.wanted.pop(0)
                try:
                    self._evaluate(chunk)
                except BaseException:
                    self.wanted.insert(0, chunk)  # a limit, say: the next run may have more
                    raise
        finally:
            STATE.module, STATE.site, AT.lazy = saved

    def _evaluate(self, chunk: Chunk) -> None:
        from sexpgpu.lisp.toplevel import evaluate_top_level

        reader, at, name = chunk
        STATE.module = module = reader.module
        reader.at = at
        form: Any = reader.read()
        STATE.site = Site(form.place)
        evaluate_top_level(form)
        self.evaluated += 1
        if name is not None:
            module.deferred.pop(name, None)

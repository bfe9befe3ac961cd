"""Damaged IR documents of a seed: real ones, in JSON and in text, with a few places changed.

`outcome` reads one: None where it is refused with a code, or is sound and writes as it reads; else
what was wrong (an exception of Python's, another code, a hang).
"""

from __future__ import annotations

import json
import random
import re
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

from sexpgpu.diagnostics.model import SxError
from sexpgpu.ir.document import Document
from sexpgpu.ir.document_json import document_from_json, document_text, read_document
from sexpgpu.ir.document_text import parse_document, print_document
from sexpgpu.ops import infer

HANG = 5.0
"""Seconds over which a document counts as one whose reading does not end."""
CODES = ("E-IR-", "E-SHAPE-", "E-DTYPE-", "E-OP-")
"""What a document may be refused with: its form, or what an op's rule says of a node."""
JUNK: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 1 << 31, 1 << 63, 1 << 64, 1 << 200, 0.5, -0.0, 1e308, "",
    "f32", "bf16", "x", "train/main", "param/w", "none", "../x", "\0", "é\u2028\U0001f600", [], {},
    [1], [[]], [None], {"": 0}, {"float": "nan"}, {"graph": {}},
]  # fmt: skip
TOKENS = [
    "(", ")", '"', "%", "%0", ":", ":shape", "none", "true", "nan", "-inf", "0", "-1", "1e999",
    "9" * 30, "(list)", "(object)", '(object "a" 1)', "(f32 ())", "\\", ";", "{", "}", "[", "]",
    ",", "null", "\0", "é", " ", "\n", "'", "#|",
]  # fmt: skip
ATOM = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s()\[\]{},:"]+')
INNER = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}")


class Real(NamedTuple):
    """A document that is to be damaged."""

    name: str
    data: dict[str, Any]
    json: str
    text: str
    places: list[tuple[Any, ...]]


def real(name: str, document: Document) -> Real:
    whole = document_text(document)
    data = json.loads(whole)
    return Real(name, data, whole, print_document(document), [p for p in places(data) if p])


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every part of JSON data; of lists, of every part of the first forty."""
    found = [path]
    if type(data) is dict:
        for key, item in data.items():
            found += places(item, (*path, key))
    elif type(data) is list:
        for index, item in enumerate(data[:40]):
            found += places(item, (*path, index))
    return found


class Mutant(NamedTuple):
    """A damaged document: how it came about, and what reads it."""

    said: str
    read: Callable[[], Document]


class Fuzz:
    """Mutants of a seed. One at a time: those of the data are read while that is changed."""

    def __init__(self, seed: int, documents: list[Real]) -> None:
        self.random = random.Random(seed)
        self.documents = documents
        self.weights = [len(document.text) ** -1.7 for document in documents]

    def mutant(self) -> Mutant:
        r = self.random
        (document,) = r.choices(self.documents, self.weights)
        kind = r.random()
        if kind < 0.5:
            return self.of_data(document)
        if kind < 0.7:
            text = self.cut_about(document.json, r.randint(1, 2))
            return Mutant(f"{document.name} as JSON: {text}", lambda: read_document(text, infer))
        text = self.cut_about(document.text, r.randint(1, 2))
        return Mutant(f"{document.name} as text: {text}", lambda: parse_document(text, infer))

    def of_data(self, document: Real) -> Mutant:
        """One or two parts dropped, doubled, replaced, exchanged or nudged."""
        r = self.random
        said: list[str] = []
        changes: list[Callable[[], Any]] = []
        for _ in range(r.choice((1, 1, 2))):
            path = r.choice(document.places)
            how = r.choice(("drop", "junk", "copy", "double", "nudge", "nudge"))
            other = r.choice(document.places)
            junk = r.choice(JUNK)
            said.append(f"{how} {'/'.join(map(str, path))} {'/'.join(map(str, other))} {junk!r}")
            changes.append(lambda p=path, h=how, o=other, j=junk: self.change(document, p, h, o, j))

        def read() -> Document:
            for change in changes:
                change()
            try:
                return document_from_json(document.data, infer)
            finally:
                document.data.clear()
                document.data.update(json.loads(document.json))

        return Mutant(f"{document.name}: {'; '.join(said)}", read)

    def change(
        self, document: Real, path: tuple[Any, ...], how: str, other: tuple[Any, ...], junk: Any
    ) -> None:
        """Change the data in place, unless an earlier change has taken the place away."""
        try:
            at: Any = document.data
            for key in path[:-1]:
                at = at[key]
            key, value = path[-1], at[path[-1]]
            source: Any = document.data
            for step in other:
                source = source[step]
        except (KeyError, IndexError, TypeError):
            return
        if how == "drop":
            del at[key]
        elif how == "junk":
            at[key] = junk
        elif how == "copy":
            at[key] = json.loads(json.dumps(source))
        elif how == "double" and type(at) is list:
            at.insert(key, value)
        elif how == "double":
            at[f"{key}2"] = value
        else:
            at[key] = self.nudged(value)

    def nudged(self, value: Any) -> Any:
        """Something near of the same type."""
        r = self.random
        if type(value) is bool:
            return not value
        if type(value) is int:
            return value + r.choice((-1, 1, 2, -value, 1 << 40))
        if type(value) is float:
            return r.choice((-value, value * 1e300, 0.0, int(value) if abs(value) < 1e9 else 1))
        if type(value) is str:
            return r.choice((value + "s", value[:-1], value.upper(), value.replace("/", "//")))
        if type(value) is list:
            return r.choice((value[::-1], value[:-1], value[1:], value + value, [value]))
        return dict([*value.items()][:-1]) if type(value) is dict else r.choice(JUNK)

    def cut_about(self, text: str, times: int) -> str:
        """The text with a few places changed."""
        r = self.random
        for _ in range(times):
            at = r.randrange(len(text) + 1)
            end = min(len(text), at + r.randint(1, 20))
            match r.randrange(7):
                case 0:
                    text = text[:at] + text[end:]
                case 1:
                    text = text[:at] + r.choice(TOKENS) + text[at:]
                case 2:
                    text = text[:at] + text[at:end] + text[at:]
                case 3:
                    text = text[:at]
                case 4:
                    text = self.put(text, ATOM, r.choice(TOKENS))
                case 5:
                    found = ATOM.findall(text[at : at + 2000])
                    text = self.put(text, ATOM, r.choice(found or TOKENS))
                case _:
                    found = INNER.findall(text[at : at + 4000])
                    text = self.put(text, INNER, r.choice(found or TOKENS))
        return text

    def put(self, text: str, what: re.Pattern[str], by: str) -> str:
        """The text with the first match after a place replaced."""
        match = what.search(text, self.random.randrange(len(text) + 1))
        return text if match is None else text[: match.start()] + by + text[match.end() :]


def outcome(mutant: Mutant) -> tuple[Document | None, str | None]:
    """(the document where it is accepted, what is wrong with how it was read or None)."""
    start = time.monotonic()
    try:
        read = mutant.read()
        again = document_text(read)
        if document_text(read_document(again, infer)) != again:
            return read, "what was accepted does not write as it reads"
    except SxError as error:
        codes = [d.code.id for d in error.diagnostics]
        odd = [code for code in codes if not code.startswith(CODES)]
        return None, f"refused with {odd}" if odd or not codes else None
    except Exception as error:  # noqa: BLE001  (that is what is looked for)
        last = traceback.extract_tb(error.__traceback__)[-1]
        return None, f"{type(error).__name__} in {last.filename}:{last.lineno}: {error}"
    if time.monotonic() - start > HANG:
        return read, "reading takes too long"
    return read, None

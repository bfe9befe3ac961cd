"""Writes the tables of the pages from the code they describe: `python -m sexpgpu.docs.generate`.

A page holds `<!-- generated: NAME -->` and `<!-- end -->`; what stands between is made here, so
that no table can say other than the registries, the standard modules, the command line and the
catalogue of codes do. A test checks that the pages are current. Not imported by the product.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parent
STDLIB = PAGES.parent / "stdlib"
SECTION = re.compile(r"<!-- generated: ([a-z-]+) -->\n(.*?)<!-- end -->", re.DOTALL)
DEFINERS = ("defun", "defmacro", "defmodel", "defoptimizer")

# Chapters of the tensor layer that belong to forms with a page of their own.
FORM_CHAPTERS = ("curriculum", "models", "optimizers", "sources")

# What a chapter is called where the name of its file says too little.
TITLES = {
    "assign": "Changed copies",
    "compare": "Tests and logic",
    "control": "Control",
    "conv": "Convolution and pooling",
    "einsum": "Sums of products",
    "factor": "Factors, systems and determinants of matrices",
    "graphs": "Graphs within graphs",
    "index": "Indexing",
    "linalg": "Products",
    "make": "Making tensors",
    "order": "Order",
    "random": "Random numbers",
    "reduce": "Reductions",
    "resize": "Resampling",
    "runfile": "In the functions of a run file",
    "shape": "Shapes and order of elements",
    "subscripts": "Subscripts",
    "types": "Types and precision",
}


class Definition:
    """A definition of a standard module: its section, signature and docstring."""

    __slots__ = ("doc", "name", "section", "signature")

    def __init__(self, section: str, name: str, signature: str, doc: str) -> None:
        self.section = section
        self.name = name
        self.signature = signature
        self.doc = doc


def definitions(file: Path) -> list[Definition]:
    """The public definitions of an `.sx` file, in order, with the `;;;; Section` above each."""
    from sexpgpu.lisp.values import PRELUDE, Cons, Module, SrcCons, String
    from sexpgpu.reader.reader import END, Reader
    from sexpgpu.source import Source

    text = file.read_text(encoding="utf-8")
    headings = [
        (match.start(), match.group(1))
        for match in re.finditer(r"^;;;; (.*?)(?:\s-+)?$", text, re.MULTILINE)
    ]
    reader = Reader(Source(file.name, text), Module("docs", (PRELUDE,)))
    found: list[Definition] = []
    while (form := reader.read()) is not END:
        if not isinstance(form, SrcCons) or getattr(form.car, "name", "") not in DEFINERS:
            continue
        name = form.cdr.car.name
        if name.startswith("%"):
            continue
        parameters, body = form.cdr.cdr.car, form.cdr.cdr.cdr
        written = parameters.span.text if isinstance(parameters, SrcCons) else "()"
        doc = body.car.text if isinstance(body, Cons) and isinstance(body.car, String) else ""
        sections = [heading for start, heading in headings if start < form.span.start]
        found.append(
            Definition(sections[-1] if sections else "", name, _signature(name, written), doc)
        )
    return found


def _signature(name: str, parameters: str) -> str:
    """`(name parameter …)`, without &aux and without the messages of required keywords."""
    inner = " ".join(parameters[1:-1].split())
    inner = re.sub(r"\(([^\s()]+) \(error \"[^\"]*\"\)\)", r"\1", inner)
    inner = re.sub(r"\s*&aux .*", "", inner)
    return f"({name} {inner})" if inner else f"({name})"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _code(text: str) -> str:
    return f"`` {_cell(text)} ``" if "`" in text else f"`{_cell(text)}`"


def _table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    lines = [f"| {' | '.join(headings)} |", f"| {' | '.join('---' for _ in headings)} |"]
    return lines + [f"| {' | '.join(row)} |" for row in rows]


def module_files(module: str) -> list[Path]:
    """The files of a standard module."""
    from sexpgpu.lisp.modules import standard_files

    return [STDLIB / file for file in standard_files(module)]


def module_section(*files: Path) -> list[str]:
    """A table for each section of a standard module."""
    lines: list[str] = []
    section = None
    rows: list[tuple[str, ...]] = []

    def flush() -> None:
        if rows:
            if section:
                lines.extend([f"## {section.partition(':')[0].strip()}", ""])
            lines.extend(_table(("definition", "what it is"), rows))
            lines.append("")
            rows.clear()

    for found in (found for file in files for found in definitions(file)):
        if found.section != section:
            flush()
            section = found.section
        rows.append((_code(found.signature), _cell(found.doc)))
    flush()
    return lines


def _first_paragraph(doc: str) -> str:
    return _cell(doc.strip().partition("\n\n")[0])


def _load_registries() -> None:
    from sexpgpu.lisp.world import prepare

    prepare()
    import_module("sexpgpu.trace.functions")
    import_module("sexpgpu.trace.runfile")
    import_module("sexpgpu.forms")


def _chapters(layer: Any, skip: tuple[str, ...] = ()) -> Iterator[tuple[str, list[Any]]]:
    from sexpgpu.lisp.registry import BUILTINS

    chapters: dict[str, list[Any]] = {}
    for record in BUILTINS.values():
        if record.layer is layer and not record.name.startswith(("%", "(setf")):
            chapters.setdefault(record.chapter, []).append(record)
    for chapter in sorted(chapters):
        if chapter not in skip:
            yield chapter, sorted(chapters[chapter], key=lambda record: record.name)


def _call(name: str, lambda_list: str) -> str:
    inner = " ".join(lambda_list.strip()[1:-1].split())
    return f"({name} {inner})" if inner else f"({name})"


def _registry_section(layer: Any, skip: tuple[str, ...] = ()) -> list[str]:
    from sexpgpu.lisp.values import TENSOR

    titles = TITLES if layer is TENSOR else {}
    lines: list[str] = []
    for chapter, records in _chapters(layer, skip):
        rows = [
            (_code(_call(record.name, record.lambda_list)), _first_paragraph(record.doc))
            for record in records
        ]
        lines += [f"## {titles.get(chapter, chapter.replace('_', ' ').capitalize())}", ""]
        lines += [*_table(("function", "what it does"), rows), ""]
    return lines


# What the error of a malformed use says of all but these.
_USAGES = {
    "progn": "(progn form…)",
    "locally": "(locally declaration… form…)",
    "tagbody": "(tagbody tag form…)",
    "declare": "(declare declaration…)",
    "quasiquote": "`form",
}


def _usage(symbol: Any, analyzer: Any) -> str:
    """How an operator is written, as the error of a malformed use of it says."""
    from sexpgpu.lisp.errors import LispError
    from sexpgpu.lisp.scope import null_scope
    from sexpgpu.lisp.values import new_cons

    if symbol.name not in _USAGES:
        try:
            analyzer(new_cons(symbol, 0), null_scope(), ())
        except LispError as error:
            return str(error).partition(": write ")[2]
    return _USAGES[symbol.name]


def special_section() -> list[str]:
    """The special operators of Common Lisp."""
    from sexpgpu.lisp.analyze import SPECIAL

    _load_registries()
    rows = [
        (_code(_usage(symbol, analyzer)), (analyzer.__doc__ or "").strip())
        for symbol, analyzer in sorted(SPECIAL.items(), key=lambda item: item[0].name)
    ]
    return [*_table(("form", "does"), rows), ""]


def operators_section() -> list[str]:
    """The macros of Common Lisp that are here."""
    from sexpgpu.lisp.analyze import NATIVE, SPECIAL
    from sexpgpu.lisp.values import CL

    _load_registries()
    rows: list[tuple[str, str]] = []
    for name, symbol in sorted(CL.symbols.items()):
        if symbol.macro is None or symbol in SPECIAL or name.startswith("%"):
            continue
        native = NATIVE.get(symbol)
        usage = _usage(symbol, native) if native else _call(name, symbol.macro.lambda_list)
        rows.append((_code(usage), _first_paragraph(symbol.macro.doc)))
    return [*_table(("macro", "does"), rows), ""]


def builtins_section() -> list[str]:
    """Every function of the Common Lisp layer, by chapter."""
    from sexpgpu.lisp.values import CL

    _load_registries()
    return _registry_section(CL)


def prelude_section() -> list[str]:
    """The prelude's definitions, and the functions of its layer that are written in Python."""
    from sexpgpu.lisp.values import PRELUDE

    _load_registries()
    return [*module_section(STDLIB / "prelude.sx"), *_registry_section(PRELUDE)]


def tensors_section() -> list[str]:
    """Every operation of the tensor layer, by chapter, and the CL names that take tensors."""
    from sexpgpu.lisp.registry import BUILTINS
    from sexpgpu.lisp.values import CL, TENSOR

    _load_registries()
    shared = sorted(r.name for r in BUILTINS.values() if r.layer is CL and r.overload)
    lines = ["These names of Common Lisp take tensors too:", ""]
    lines += [" ".join(f"`{name}`" for name in shared) + ".", ""]
    lines += _registry_section(TENSOR, FORM_CHAPTERS)
    return [*lines, "## Macros", "", *_macros("sexpgpu.trace")]


def _macros(package: str) -> list[str]:
    """The forms that a package declares in Python."""
    from sexpgpu.lisp.hostforms import HOST_MACROS

    rows = [
        (_code(_call(record.name, record.lambda_list)), _first_paragraph(record.doc))
        for name, record in sorted(HOST_MACROS.items())
        if record.python.__module__.startswith(package) and not name.startswith("%")
    ]
    return [*_table(("form", "what it does"), rows), ""]


def forms_section() -> list[str]:
    """The forms of a run file, and the functions that go with them."""
    from sexpgpu.lisp.values import TENSOR

    _load_registries()
    rows = [
        (_code(_call(record.name, record.lambda_list)), _first_paragraph(record.doc))
        for chapter, records in _chapters(TENSOR)
        if chapter in FORM_CHAPTERS
        for record in records
    ]
    return [*_macros("sexpgpu.forms"), *_table(("function", "what it does"), rows), ""]


def cli_section() -> list[str]:
    """The verbs."""
    from sexpgpu.cli.main import VERBS

    return [*_table(("verb", "does"), [(_code(v), _cell(t)) for v, t in VERBS.items()]), ""]


def run_section() -> list[str]:
    """The flags of `run`."""
    command = import_module("sexpgpu.cli.run").command
    rows: list[tuple[str, ...]] = []
    for parameter in command.params:
        if parameter.param_type_name == "option" and not parameter.hidden:
            names = ", ".join(parameter.opts + parameter.secondary_opts)
            value = "" if parameter.is_flag else f" {parameter.metavar or 'VALUE'}"
            rows.append((_code(names + value), _cell(parameter.help or "")))
    return [*_table(("flag", "does"), rows), ""]


def events_section() -> list[str]:
    """Each kind of event: when it comes, and its keys, from the schema."""
    lines: list[str] = []
    for kind in _schema("events")["oneOf"]:
        lines += [f"### {kind['title']}", "", f"{_sentence(kind['description'])}", ""]
        rows = [
            (
                _code(key),
                _cell(row["description"]) + ("" if key in kind["required"] else " (if any)"),
            )
            for key, row in kind["properties"].items()
            if "description" in row
        ]
        lines += [*_table(("key", "is"), rows), ""]
    return lines


def status_section() -> list[str]:
    """The keys of the status file, from the schema."""
    rows = [
        (_code(k), _cell(row["description"])) for k, row in _schema("status")["properties"].items()
    ]
    return [*_table(("key", "is"), rows), ""]


def _schema(name: str) -> dict[str, Any]:
    text = (PAGES.parent / "loop" / f"{name}.schema.json").read_text(encoding="utf-8")
    return json.loads(text)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def records_section() -> list[str]:
    """The records of the document: each field with what it holds."""
    from sexpgpu.ir.json_schema import said
    from sexpgpu.ir.schema import RECORDS

    rows = [
        (_code(kind.__name__), ", ".join(f"{_code(name)} {said(k)}" for name, k in form.items()))
        for kind, form in RECORDS.items()
    ]
    return [*_table(("record", "fields"), [(a, _cell(b)) for a, b in rows]), ""]


def checkpoint_section() -> list[str]:
    """The verbs of `checkpoint`, with their flags."""
    group = import_module("sexpgpu.cli.checkpoint").command
    rows: list[tuple[str, ...]] = []
    for name, command in group.commands.items():
        words = [
            p.metavar if p.param_type_name == "argument" else f"[{p.opts[-1]}]"
            for p in command.params
            if not getattr(p, "hidden", False)
        ]
        rows.append((_code(" ".join([name, *words])), _first_paragraph(command.help or "")))
    return [*_table(("verb", "does"), rows), ""]


def errors_section() -> list[str]:
    """Every code of the catalogue."""
    from sexpgpu.diagnostics.codes import all_codes

    lines: list[str] = []
    family = ""
    for found in all_codes().values():
        name = found.id.split("-")[1]
        if name != family:
            family = name
            lines += [f"## {family}", ""]
        lines += [f"### {found.id}", "", f"**{found.title.strip()}**", ""]
        lines += [" ".join(found.explain.split()), "", f"Fix: {' '.join(found.fix.split())}", ""]
    return lines


SECTIONS: dict[str, Callable[[], list[str]]] = {
    "special": special_section,
    "operators": operators_section,
    "builtins": builtins_section,
    "prelude": prelude_section,
    "tensors": tensors_section,
    "nn": lambda: module_section(*module_files("sexpgpu/nn")),
    "optim": lambda: module_section(*module_files("sexpgpu/optim")),
    "forms": forms_section,
    "cli": cli_section,
    "run": run_section,
    "errors": errors_section,
    "events": events_section,
    "status": status_section,
    "records": records_section,
    "checkpoint": checkpoint_section,
}


def current(page: Path) -> str:
    """The page's text with every generated section as it should be."""

    def replace(match: re.Match[str]) -> str:
        made = "\n".join(SECTIONS[match.group(1)]()).strip()
        return f"<!-- generated: {match.group(1)} -->\n\n{made}\n\n<!-- end -->"

    return SECTION.sub(replace, page.read_text(encoding="utf-8"))


def main() -> int:
    """Rewrite the pages whose tables have changed, and the schema of the document."""
    from sexpgpu.ir.json_schema import FILE, schema_text

    schema = PAGES.parent / "ir" / FILE
    if not schema.exists() or schema.read_text(encoding="utf-8") != schema_text():
        schema.write_text(schema_text(), encoding="utf-8")
        print(f"wrote {FILE}")
    for page in sorted(PAGES.glob("*.md")):
        text = current(page)
        if text != page.read_text(encoding="utf-8"):
            page.write_text(text, encoding="utf-8")
            print(f"wrote {page.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`sexpgpu docs`: the pages that come with the package, offline."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

import click

from sexpgpu.cli import output
from sexpgpu.cli.explain import explain_code, is_code

STANDARD_MODULES = ("nn", "optim")
"""Pages named as the modules are called by in files: `nn:linear` is `linear` on the page nn."""


def _complete_pages(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    del context, parameter
    names = (entry.name for entry in (files("sexpgpu") / "docs").iterdir())
    pages = sorted(name.removesuffix(".md") for name in names if name.endswith(".md"))
    return [page for page in pages if page.startswith(incomplete)]


@click.command("docs")
@click.argument("word", metavar="[PAGE|CODE|NAME]", required=False, shell_complete=_complete_pages)
@click.option("--llms", is_flag=True, help="The list of pages in the form of llms.txt.")
@click.option("--serve", is_flag=True, help="Serve the pages to a browser on this machine.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, metavar="N",
    help="Of --serve; 0 takes a free one.",
)  # fmt: skip
def command(word: str | None, llms: bool, serve: bool, port: int) -> int:
    """List the pages of the documentation, print one, or tell about a diagnostic CODE or the NAME
    of a definition, key, metric or flag.

    \b
    sexpgpu docs quickstart
    sexpgpu docs linear
    sexpgpu docs E-SHAPE-002
    """
    folder = files("sexpgpu") / "docs"
    pages = {
        entry.name.removesuffix(".md"): entry.read_text(encoding="utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".md")
    }
    if serve:
        from sexpgpu.cli.serving import serve as serve_pages

        try:
            serve_pages(pages, llms_text(pages), port)
        except OSError as error:  # taken, or not ours to take
            raise click.UsageError(f"--port {port}: {error.strerror}") from None
    elif llms:
        output.result(llms_text(pages))
    elif word is None:
        for name in sorted(pages):
            title = pages[name].partition("\n")[0].removeprefix("#").strip()
            output.result(f"{name:<24} {title}")
    elif is_code(word):
        explain_code(word, as_json=False)
    elif word.removesuffix(".md") in pages:
        output.result(pages[word.removesuffix(".md")])
    else:
        output.result(about(word.lower(), pages))
    return 0


def llms_text(pages: Mapping[str, str]) -> str:
    """The pages as `llms.txt`: a title, what the product is, and each page in the index's order
    with what it answers, linked as markdown."""
    index = pages["index"].split("\n## ")
    title, _, rest = index[0].partition("\n")
    about_it = " ".join(rest.split())
    parts = [f"{title}\n\n> {about_it}"]
    parts += [f"## {section.strip()}" for section in index[1:]]
    return "\n\n".join(parts)


def about(word: str, pages: Mapping[str, str]) -> str:
    """The entries of a name, a key or flag also without its `:` or `--`; without one, the pages
    that name it. UsageError where there is none."""
    known = entries(pages)
    found = [e for name in (word, f":{word}", f"--{word}") for e in known.get(name, ())]
    if found:
        return "\n\n".join(found)
    marks = (f"`{word}`", f"`({word} ", f"\n({word} ")
    if named := [page for page in sorted(pages) if any(mark in pages[page] for mark in marks)]:
        return f"{word}: see {', '.join(f'`sexpgpu docs {page}`' for page in named)}"
    from sexpgpu.diagnostics.suggest import nearest

    near = nearest(word, [*pages, *known])
    raise click.UsageError(
        f"no page {word}, and no entry of a page; "
        + (f"did you mean {near}?" if near else "`sexpgpu docs` lists the pages")
    )


def entries(pages: Mapping[str, str]) -> dict[str, list[str]]:
    """What the tables of the pages say, by the names in the first cell of each row: `linear` for
    `(linear in out &key …)`, `:seed`, `--steps`, `train/loss`. Those of a standard module stand
    there with its prefix too."""
    found: dict[str, list[str]] = {}
    for page in sorted(pages):
        for line in pages[page].splitlines():
            cells = _cells(line)
            if len(cells) < 2:
                continue
            entry = _entry(page, cells)
            for name in _names(cells[0]):
                found.setdefault(name, []).append(entry)
                if page in STANDARD_MODULES:
                    found.setdefault(f"{page}:{name}", []).append(entry)
    return found


def _cells(line: str) -> list[str]:
    """The cells of a table's row; none of another line."""
    if not line.startswith("| ") or not line.endswith(" |"):
        return []
    return [cell.strip().replace("\\|", "|") for cell in line[2:-2].split(" | ")]


def _names(cell: str) -> list[str]:
    """The first word of each piece of code in a cell."""
    pieces = (code.lstrip("(").split() for code in cell.split("`")[1::2])
    return [words[0].rstrip("),").lower() for words in pieces if words]


def _entry(page: str, cells: list[str]) -> str:
    from textwrap import fill

    text = fill(
        ": ".join(c for c in cells[1:] if c), 90, initial_indent="  ", subsequent_indent="  "
    )
    return f"{cells[0].replace('`', '')}\n{text}\n  (sexpgpu docs {page})"

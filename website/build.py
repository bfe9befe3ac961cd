"""Build the documentation as a static site: `python website/build.py OUT`. Needs no network.

Beside each page PAGE.html lies its text, PAGE.md, and `llms.txt` lists them all.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

from sphinx.cmd.build import build_main

from sexpgpu.cli.docs import llms_text

PAGES = Path(__file__).parents[1] / "sexpgpu" / "docs"
SITE = Path(__file__).parent


def build(out: Path) -> int:
    """Write the site to a folder; the exit status of Sphinx, for which warnings are errors."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        source.mkdir()
        pages = {page.stem: page.read_text(encoding="utf-8") for page in PAGES.glob("*.md")}
        for name, text in pages.items():
            (source / f"{name}.md").write_text(_for_sphinx(name, text), encoding="utf-8")
        words = ["-b", "html", "-q", "-W", "--keep-going", "-c", str(SITE), str(source), str(out)]
        status = build_main(words)
    shutil.rmtree(out / ".doctrees", ignore_errors=True)
    for name, text in pages.items():
        (out / f"{name}.md").write_text(text, encoding="utf-8")
    (out / "llms.txt").write_text(llms_text(pages), encoding="utf-8")
    return status


def _for_sphinx(name: str, text: str) -> str:
    """A page as Sphinx takes it: language words behind `lisp` are for the tests, and the index
    names the pages in the order of its sections for the sidebar."""
    text = re.sub(r"^```lisp [^\n]*$", "```lisp", text, flags=re.MULTILINE)
    if name != "index":
        return text
    parts = text.split("\n## ")
    trees: list[str] = []
    for part in parts[1:]:
        title = part.partition("\n")[0]
        names = re.findall(r"^- \[[^]]+\]\(([\w-]+)\.md\)", part, re.MULTILINE)
        trees.append(
            "\n".join(["```{toctree}", ":hidden:", f":caption: {title}", "", *names, "```"])
        )
    return "\n\n".join([text.rstrip(), *trees]) + "\n"


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1] if len(sys.argv) > 1 else "build/site")))

"""`sexpgpu docs`: the pages that come with the package, offline."""

from __future__ import annotations

from importlib.resources import files

import click

from sexpgpu.cli import output
from sexpgpu.cli.explain import explain_code, is_code


@click.command("docs")
@click.argument("page", metavar="[PAGE|CODE]", required=False)
def command(page: str | None) -> int:
    """List the pages of the documentation, print one, or tell about a diagnostic CODE."""
    folder = files("sexpgpu") / "docs"
    pages = {
        entry.name.removesuffix(".md"): entry
        for entry in folder.iterdir()
        if entry.name.endswith(".md")
    }
    if page is None:
        for name in sorted(pages):
            text = pages[name].read_text(encoding="utf-8")
            title = text.partition("\n")[0].removeprefix("#").strip()
            output.result(f"{name:<24} {title}")
    elif is_code(page):
        explain_code(page, as_json=False)
    else:
        name = page.removesuffix(".md")
        if name not in pages:
            from sexpgpu.diagnostics.suggest import nearest

            near = nearest(name, pages)
            raise click.UsageError(
                f"no page {name}; "
                + (f"did you mean {near}?" if near else "`sexpgpu docs` lists them")
            )
        output.result(pages[name].read_text(encoding="utf-8"))
    return 0

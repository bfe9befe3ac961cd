"""The pages as HTML: the part of Markdown that they are written in (headings, paragraphs, lists,
tables, fenced code, emphasis, code and links), for `sexpgpu docs --serve`. The static site is made
by Sphinx (`website/`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape

STYLE = """
body { font: 16px/1.55 system-ui, sans-serif; max-width: 50em; margin: 2em auto; padding: 0 1em;
       color: #222; background: #fff; }
pre { background: #f5f6f8; padding: .7em 1em; overflow-x: auto; border-radius: 4px; }
code { font: .9em ui-monospace, monospace; }
table { border-collapse: collapse; } th { text-align: left; }
th, td { padding: .25em 1em .25em 0; border-bottom: 1px solid #e4e4e4; vertical-align: top; }
a { color: #1f5fa8; }
"""
_INLINE = re.compile(
    r"`(?P<code>[^`]+)`|\*\*(?P<strong>[^*]+)\*\*|\*(?P<em>[^*\s][^*]*)\*"
    r"|\[(?P<text>(?:[^\]`]|`[^`]*`)+)\]\((?P<to>[^)\s]+)\)"
)
_ITEM = re.compile(r"(- |\d+\. )")


def page_html(markdown: str) -> str:
    """A whole page of HTML. Links to other pages (`nn.md#losses`) lead to `nn#losses`."""
    title = markdown.partition("\n")[0].lstrip("# ")
    body = "\n".join(_blocks(markdown.split("\n")))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width">\n<title>{escape(title)}</title>\n'
        f'<style>{STYLE}</style>\n</head>\n<body>\n<p><a href="index">All pages</a></p>\n{body}\n'
        "</body>\n</html>\n"
    )


def _blocks(lines: Sequence[str]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line = lines[at]
        end = at + 1
        if not line.strip() or line.startswith("<!--"):
            pass
        elif line.startswith("```"):
            while end < len(lines) and not lines[end].startswith("```"):
                end += 1
            yield f"<pre><code>{escape(chr(10).join(lines[at + 1 : end]))}</code></pre>"
            end += 1
        elif line.startswith("#"):
            level = len(line) - len(line.lstrip("#"))
            text = line[level:].strip()
            yield f'<h{level} id="{slug(text)}">{inline(text)}</h{level}>'
        elif line.startswith("| "):
            while end < len(lines) and lines[end].startswith("| "):
                end += 1
            yield _table(lines[at:end])
        elif _ITEM.match(line):
            while end < len(lines) and (lines[end].startswith("  ") or _ITEM.match(lines[end])):
                end += 1
            yield _list(lines[at:end])
        else:
            while end < len(lines) and lines[end].strip() and not _begins(lines[end]):
                end += 1
            yield f"<p>{inline(' '.join(lines[at:end]))}</p>"
        at = end


def _begins(line: str) -> bool:
    """Whether a line begins another block than a paragraph."""
    return line.startswith(("```", "#", "| ", "<!--")) or _ITEM.match(line) is not None


def slug(heading: str) -> str:
    """The anchor of a heading, as links name it."""
    return re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")


def _table(lines: Sequence[str]) -> str:
    head, rule, *rows = lines
    if set(rule) - set("|-: "):
        rows, head = list(lines), ""
    made = ["<table>"]
    if head:
        made.append(_row(head, "th"))
    made += [_row(row, "td") for row in rows]
    return "\n".join([*made, "</table>"])


def _row(line: str, tag: str) -> str:
    cells = line.strip()[1:].removesuffix("|").split(" | ")
    told = "".join(f"<{tag}>{inline(c.strip().replace(chr(92) + '|', '|'))}</{tag}>" for c in cells)
    return f"<tr>{told}</tr>"


def _list(lines: Sequence[str]) -> str:
    items: list[str] = []
    for line in lines:
        mark = _ITEM.match(line)
        if mark is not None:
            items.append(line[mark.end() :])
        else:
            items[-1] += f" {line.strip()}"
    tag = "ul" if lines[0].startswith("-") else "ol"
    return "\n".join([f"<{tag}>", *(f"<li>{inline(item)}</li>" for item in items), f"</{tag}>"])


def inline(text: str) -> str:
    """A line of text with its code, emphasis and links."""
    parts: list[str] = []
    at = 0
    for match in _INLINE.finditer(text):
        parts.append(escape(text[at : match.start()]))
        at = match.end()
        if match["code"] is not None:
            parts.append(f"<code>{escape(match['code'])}</code>")
        elif match["to"] is not None:
            parts.append(f'<a href="{escape(_target(match["to"]))}">{inline(match["text"])}</a>')
        else:
            tag = "strong" if match["strong"] is not None else "em"
            parts.append(f"<{tag}>{inline(match[tag])}</{tag}>")
    return "".join([*parts, escape(text[at:])])


def _target(link: str) -> str:
    if "://" in link:
        return link
    page, sign, anchor = link.partition("#")
    return f"{page.removesuffix('.md')}{sign}{anchor}"

"""`sexpgpu docs --serve`: every page as HTML that says what its Markdown says, and as Markdown."""

from __future__ import annotations

import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest

from sexpgpu.cli.docs import llms_text
from sexpgpu.cli.serving import answer, server
from sexpgpu.docs import generate
from sexpgpu.docs.html import inline, page_html

PAGES = {p.stem: p.read_text(encoding="utf-8") for p in sorted(generate.PAGES.glob("*.md"))}
FENCE = re.compile(r"^```[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Page(HTMLParser):
    """Checks that tags nest; collects the texts of tags, the links and the anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.links: list[str] = []
        self.anchors: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for key, value in attrs if key == "href"]
        self.anchors += [value or "" for key, value in attrs if key == "id"]
        if tag != "meta":
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in self.open:
            self.texts[tag][-1] += data


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_what_its_markdown_says(name: str) -> None:
    text = PAGES[name]
    page = Page(page_html(text))
    assert page.texts.get("pre", []) == [code.removesuffix("\n") for code in FENCE.findall(text)]
    rest = FENCE.sub("", text)
    assert len(page.texts["h1"]) == 1
    assert len(page.texts.get("h2", [])) == len(re.findall(r"^## ", rest, re.MULTILINE))
    rows = [line for line in rest.split("\n") if line.startswith("| ")]
    rules = [line for line in rows if not set(line) - set("|-: ")]
    assert len(page.texts.get("tr", [])) == len(rows) - len(rules)
    for row in page.texts.get("tr", []):
        assert "](" not in row
    links = re.findall(r"\]\((?:https?:[^)\s]+|[\w-]+\.md[^)\s]*|#[\w-]+)\)", rest)
    assert len(page.links) == 1 + len(links)
    for link in page.links:
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        status, _, found = answer(f"/{target or name}", PAGES, "")
        assert status == 200, link
        assert not anchor or anchor in Page(found).anchors, link


@pytest.mark.parametrize(
    "text, html",
    [
        ("a `<b>` & *c*", "a <code>&lt;b&gt;</code> &amp; <em>c</em>"),
        ("**x** and `*y*`", "<strong>x</strong> and <code>*y*</code>"),
        ("[`f`](nn.md#losses)", '<a href="nn#losses"><code>f</code></a>'),
        ("2 * 3 * 4", "2 * 3 * 4"),
        ('[x](https://e.org/?a=1&b="2")', '<a href="https://e.org/?a=1&amp;b=&quot;2&quot;">x</a>'),
    ],
)
def test_inline(text: str, html: str) -> None:
    assert inline(text) == html


@pytest.fixture
def url() -> Iterator[str]:
    running = server(PAGES, llms_text(PAGES), 0)
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{running.server_address[1]}"
    running.shutdown()
    running.server_close()
    thread.join()


def test_over_http(url: str) -> None:
    def get(path: str) -> tuple[str, str]:
        with urllib.request.urlopen(url + path, timeout=10) as found:
            return found.headers["Content-Type"], found.read().decode()

    assert get("/") == ("text/html; charset=utf-8", page_html(PAGES["index"]))
    assert get("/docs/nn.md") == ("text/markdown; charset=utf-8", PAGES["nn"])
    assert get("/nn")[1] == page_html(PAGES["nn"])
    assert get("/llms.txt")[1] == llms_text(PAGES)
    for path in ("/none", "/../../etc/passwd", "/%2e%2e/x", "/docs/<b>.md"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            get(path)
        assert refused.value.code == 404
        assert "<b>" not in refused.value.read().decode()
        refused.value.close()


def test_a_port_that_is_taken_is_wrong_usage(sx, url: str) -> None:
    found = sx("docs", "--serve", "--port", url.rpartition(":")[2])
    assert found.code == 2
    assert "in use" in found.err

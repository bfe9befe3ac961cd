"""The static site: it builds without a warning, its links lead somewhere, a browser shows it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "sexpgpu" / "docs"
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    words = [sys.executable, str(ROOT / "website" / "build.py"), str(out)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return out


class Links(HTMLParser):
    """Every address that a page names, and every place in it that may be addressed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.to: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del tag
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.to.append(value)
            if name == "id" and value:
                self.places.add(value)


def test_every_page_is_there_in_both_forms(site: Path) -> None:
    for page in PAGES.glob("*.md"):
        assert (site / f"{page.stem}.html").is_file()
        assert (site / page.name).read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
    assert "(quickstart.md)" in (site / "llms.txt").read_text(encoding="utf-8")


def test_links_and_what_is_loaded_are_there(site: Path) -> None:
    pages = {path.name: Links(path.read_text(encoding="utf-8")) for path in site.glob("*.html")}
    for name, links in pages.items():
        for target in links.to:
            file, _, place = target.partition("#")
            if target.startswith(("http://", "https://", "mailto:")):
                continue
            path = site / (file.partition("?")[0] or name)
            assert path.exists(), f"{name}: {target}"
            if place and path.name in pages:
                assert place in pages[path.name].places, f"{name}: {target}"


@pytest.mark.skipif(BROWSER is None, reason="no browser: .ci/run installs chromium")
@pytest.mark.parametrize("page", ["index", "check", "tensors"])
def test_a_browser_shows_it(site: Path, page: str, tmp_path: Path) -> None:
    """The page as a browser laid it out: its title, its sidebar, nothing wider than the window."""
    probe = site / f"probe-{page}.html"
    probe.write_text(
        f'<iframe id="f" src="{page}.html" width="1200" height="900"></iframe><p id="said"></p>'
        "<script>document.getElementById('f').onload = e => { const d = e.target.contentDocument;"
        "document.getElementById('said').textContent = [d.title, d.documentElement.scrollWidth,"
        "d.querySelectorAll('div.sphinxsidebar a').length,"
        "d.querySelectorAll('div.body h1').length].join('|'); }</script>"
    )
    assert BROWSER is not None
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
         f"--user-data-dir={tmp_path}", "--virtual-time-budget=5000", "--dump-dom", probe.as_uri()],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    said = done.stdout.partition('<p id="said">')[2].partition("</p>")[0].split("|")
    title, width, links, headings = said
    first = (PAGES / f"{page}.md").read_text(encoding="utf-8").partition("\n")[0]
    assert first.removeprefix("# ").strip("`") in title.replace("—", "-")
    assert int(width) <= 1200
    assert int(links) > 20
    assert int(headings) == 1

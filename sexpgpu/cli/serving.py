"""The documentation over HTTP on this machine, for `sexpgpu docs --serve`: pages as HTML at /PAGE,
as Markdown at /docs/PAGE.md, and /llms.txt."""

from __future__ import annotations

from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

from sexpgpu.cli import output
from sexpgpu.docs.html import page_html

HERE = "127.0.0.1"


def server(pages: Mapping[str, str], llms: str, port: int) -> ThreadingHTTPServer:
    """A server of these pages, not yet running; port 0 takes a free one."""

    class Handler(BaseHTTPRequestHandler):
        """Answers GET and HEAD."""

        def do_GET(self) -> None:
            status, kind, text = answer(urlsplit(self.path).path, pages, llms)
            data = text.encode()
            try:
                self.send_response(status)
                self.send_header("Content-Type", f"{kind}; charset=utf-8")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)
            except ConnectionError:
                self.close_connection = True  # the reader has gone

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Requests are not worth a line."""

    return ThreadingHTTPServer((HERE, port), Handler)


def answer(path: str, pages: Mapping[str, str], llms: str) -> tuple[int, str, str]:
    """Status, kind and text for a path."""
    name = unquote(path).strip("/").removeprefix("docs/") or "index"
    if name == "llms.txt":
        return 200, "text/plain", llms
    page = pages.get(name.removesuffix(".md"))
    if page is None:
        return 404, "text/html", page_html(f"# Not found\n\nThere is no page `{name}`.\n")
    if name.endswith(".md"):
        return 200, "text/markdown", page
    return 200, "text/html", page_html(page)


def serve(pages: Mapping[str, str], llms: str, port: int) -> None:
    """Serve until interrupted."""
    with server(pages, llms, port) as running:
        output.result(f"http://{HERE}:{running.server_address[1]}/")
        output.flush()
        running.serve_forever()

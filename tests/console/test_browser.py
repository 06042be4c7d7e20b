"""What the fixtures see: a test of a page proves nothing if they are blind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser

from tests.console.pages import Pages
from tests.harness import browser as chromium

POLICY = "default-src 'none'; script-src 'self'; connect-src 'self'"


@pytest.fixture
def served(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of the page that the test is parametrized with."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = request.param.encode() if self.path == "/" else b"throw new Error('broken')"
            self.send_response(204 if self.path == "/favicon.ico" else 200)
            self.send_header("Content-Security-Policy", POLICY)
            kind = "text/html; charset=utf-8" if self.path == "/" else "text/javascript"
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.parametrize("served", ["<!doctype html><p>1,234 votes</p>"], indirect=True)
def test_a_page_is_rendered(browser: Browser, served: str) -> None:
    pages = Pages(browser)
    page = pages.open(served)
    assert page.inner_text("p") == "1,234 votes"
    assert page.locator("p").evaluate("p => p.getBoundingClientRect().height") > 10
    assert page.evaluate("() => document.fonts.check('16px sans-serif')")
    pages.close()
    assert pages.faults == []


@pytest.mark.parametrize(
    ("served", "fault"),
    [
        ("<p onclick='x()' style='color: red'>styled</p>", "error: policy: style-src-attr"),
        ("<script>document.title = 'in line'</script>", "error: policy: script-src-elem"),
        ("<script src=/broken.js></script>", "uncaught: broken"),
        ("<script src=http://127.0.0.2:9/x.js></script>", "asked a third party: http://127.0.0.2"),
    ],
    indirect=["served"],
)
def test_a_fault_of_a_page_is_seen(browser: Browser, served: str, fault: str) -> None:
    pages = Pages(browser)
    pages.open(served)
    pages.close()
    assert [found for found in pages.faults if found.startswith(fault)]


@pytest.mark.parametrize("served", ["<!doctype html><img src='/x'><p>no language"], indirect=True)
def test_barriers_of_a_page_are_found(browser: Browser, served: str) -> None:
    pages = Pages(browser)
    page = pages.open(served)
    page.evaluate(chromium.axe())
    found = page.evaluate("async () => (await axe.run()).violations.map(v => v.id)")
    pages.close()
    assert {"html-has-lang", "image-alt", "document-title"} <= set(found)

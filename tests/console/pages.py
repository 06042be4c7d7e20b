"""Pages of a browser, watched: what they log, ask for and break is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request

_ON_VIOLATION = """
addEventListener("securitypolicyviolation", (violation) =>
  console.error(`policy: ${violation.effectiveDirective} blocked ${violation.blockedURI}`));
"""


class Pages:
    """Makes pages of a browser.

    Attributes:
        faults: What a page must not do, in words: each violation of the policy, each error on the
            browser's console or in a script, each request to another host.
        expected: Tells of an error on the browser's console whether the test means it to be there.
        asked: Each request, in order.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self.faults: list[str] = []
        self.expected: Callable[[str], bool] = lambda _text: False
        self.asked: list[Request] = []

    def open(self, address: str, clock: int | None = None, **options: Any) -> Page:
        """A page at an address; the options are those of a context of the browser. With a `clock`
        (ms), its time goes on from there, and jumps by `page.clock.run_for`.
        """
        host = urlsplit(address).netloc
        context = self._browser.new_context(**{"locale": "en-US", **options})
        self._contexts.append(context)
        context.add_init_script(_ON_VIOLATION)
        page = context.new_page()
        page.on("console", self._logged)
        page.on("pageerror", lambda error: self.faults.append(f"uncaught: {error}"))

        def requested(request: Request) -> None:
            self.asked.append(request)
            if urlsplit(request.url).netloc != host:
                self.faults.append(f"asked a third party: {request.url}")

        page.on("request", requested)
        if clock is not None:
            page.clock.install(time=clock / 1000)
        page.goto(address)
        return page

    def _logged(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not self.expected(message.text):
            self.faults.append(f"{message.type}: {message.text}")

    def close(self) -> None:
        """Close all pages, after what they have queued."""
        for context in self._contexts:
            for page in context.pages:
                page.evaluate("() => new Promise((done) => setTimeout(done))")
            context.close()

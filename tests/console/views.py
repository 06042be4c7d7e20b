"""How tests find things on the console's page: by role, name and text, as its users do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tests.console.pages import Pages
from tests.console.stage import Stage

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

VIEWS = {
    "tonight": "Tonight",
    "find": "Find",
    "windows": "Windows",
    "health": "Health",
    "how": "How it works",
}
PATIENCE_MS = 20_000
"""For which a test waits for what must come: the machine may be busy."""


def opened(pages: Pages, stage: Stage, at: str = "", **options: Any) -> Page:
    """The console's page, with a clock that goes on from the pipeline's, which stands still."""
    return pages.open(stage.url + at, clock=stage.now, **options)


def go(page: Page, view: str) -> None:
    """Open a view by its link, and wait for its heading."""
    page.get_by_role("navigation").get_by_role("link", name=VIEWS[view]).click()
    heading(page, view).wait_for()


def heading(page: Page, view: str) -> Locator:
    """A view's heading."""
    return page.get_by_role("heading", name=VIEWS[view], exact=True)


def status(page: Page) -> Locator:
    """What the page says of its own numbers."""
    return page.get_by_role("status")


def row(page: Page, name: str) -> Locator:
    """The row of a table that this header begins."""
    header = page.get_by_role("rowheader", name=name, exact=True)
    return page.get_by_role("row").filter(has=header)


def numbers(page: Page) -> Mapping[str, int]:
    """The exact number of each key in the table of the largest, as it stands."""
    said = page.locator("tr[data-key]").evaluate_all(
        "rows => rows.map(row => [row.dataset.key, row.querySelector('[data-events]').textContent])"
    )
    return {key: int(text.replace(",", "")) for key, text in said}

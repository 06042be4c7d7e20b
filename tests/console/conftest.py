"""A browser, and pages in it that may do nothing wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.console.pages import Pages
from tests.console.stage import Stage
from tests.harness import browser as chromium
from tests.harness.doctoring import grown

if TYPE_CHECKING:
    from playwright.sync_api import Browser

VOTES = {"Ada": 1_205, "Grace": 61, "Edsger": 42, "Hedy": 7}


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium that lives as long as this test process."""
    try:
        with chromium.running() as running:
            yield running
    except chromium.NoBrowserError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


@pytest.fixture
def pages(browser: Browser) -> Iterator[Pages]:
    """Makes pages. The test fails if one of them broke its policy, logged an error, or asked
    another host than the one it was opened at.
    """
    opened = Pages(browser)
    try:
        yield opened
    finally:
        opened.close()
    assert opened.faults == []


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A console over a pipeline of eight hours, whose first windows are dropped."""
    staged = Stage(grown())
    staged.count(VOTES)
    yield staged
    staged.close()

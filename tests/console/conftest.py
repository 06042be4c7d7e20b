"""A browser, and pages in it that may do nothing wrong."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tallyroll.cli.arguments import Run
from tallyroll.console.answers import Answers
from tallyroll.console.server import ConsoleServer
from tests.cli.command_line import CommandLine
from tests.console.asking import Asked, Clock, serving
from tests.console.pages import Pages
from tests.console.stage import Stage
from tests.harness import browser as chromium
from tests.harness.doctoring import FakeStack, grown

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


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """A pipeline of eight hours, whose first windows are dropped."""
    line = CommandLine(grown(), monkeypatch, capsys)
    line.stack = FakeStack()
    return line


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ask(cli: CommandLine, clock: Clock) -> Iterator[Callable[..., Asked]]:
    """Asks a console of the pipeline."""
    with Run.connecting(None, as_json=False) as run:
        of = Answers.of(run)
        answers = Answers(of._made, of._checkup, of._units, clock)
    with serving(ConsoleServer("127.0.0.1", 0, answers.routes)) as asking:
        yield asking

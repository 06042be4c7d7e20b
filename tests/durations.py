"""How long each part of the tests took, printed at their end."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


class Durations:
    """A plugin that adds up the seconds of each folder of tests, over all processes of the run."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a test's setup, call or teardown."""
        part = part_of(report.nodeid)
        self._seconds[part] += report.duration
        self._tests[part] += report.when == "call"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the parts, the longest first."""
        terminalreporter.section("seconds by part, waiting included")
        ordered = sorted(self._seconds.items(), key=lambda pair: -pair[1])
        for part, seconds in ordered:
            terminalreporter.line(f"{seconds:8.1f}  {part} ({self._tests[part]:,} tests)")
        terminalreporter.line(f"{sum(self._seconds.values()):8.1f}  in all")


def part_of(nodeid: str) -> str:
    """The folder below `tests` in which a test stands, or its file."""
    return nodeid.split("/")[1].partition("::")[0]

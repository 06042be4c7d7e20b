"""Shows the filled matrix at the end of a test run, whichever process filled it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

PROPERTY = "fault-matrix"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Pytest's hook: print what the test of the matrix left with its report."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) != "call":
                continue
            for name, text in report.user_properties:
                if name == PROPERTY:
                    terminalreporter.section("faults injected, by call of AWS and kind")
                    terminalreporter.write_line(str(text))

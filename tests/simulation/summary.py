"""Adds up what the lanes of seeds ran, also over several processes, and says so in the end."""

from __future__ import annotations

from typing import Any

import pytest

LANE_REPORT = "simulated lane"  # (seeds, CPU seconds, messages, violations) of a test


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line: seeds, their speed, violations."""
    reports = [
        report
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        if isinstance(report, pytest.TestReport) and report.when == "call"
    ]
    lanes = [dict(report.user_properties).get(LANE_REPORT) for report in reports]
    ran: list[Any] = [lane for lane in lanes if lane]
    if not ran:
        return
    seeds, seconds, messages, failed = (sum(column) for column in zip(*ran, strict=True))
    terminalreporter.write_sep("-", "simulation")
    terminalreporter.write_line(
        f"{seeds} seeds, {seeds / seconds:.1f} a second and core, {messages:,} messages,"
        f" {failed} violations"
    )

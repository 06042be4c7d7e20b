"""`tallyroll doctor`: a pipeline's invariants, checked one by one."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

from tallyroll import pipeline
from tallyroll.cli.screen import Screen
from tallyroll.operations.doctor.checkup import Check, Level, Sign
from tallyroll.operations.doctor.examine import examine
from tallyroll.settings import Settings

SIGNS_SHOWN = 10
ALL_WELL, FINDINGS, NOT_CHECKED = 0, 1, 3
_LEVEL_WIDTH, _NAME_WIDTH = 11, 14


def doctor(arguments: Namespace, settings: Settings, screen: Screen) -> int:
    """Gives the exit status: 1 if there are findings, 3 if something could not be checked."""
    checks = []
    case = pipeline.checkup(
        settings,
        screen.tell,
        bucket=arguments.bucket,
        named=arguments.name is not None,
        deep=arguments.deep,
    )
    for check in examine(case):
        checks.append(check)
        if screen.json:
            screen.emit(check_json(check))
        else:
            sys.stdout.write("\n".join(_lines(check)) + "\n")
        sys.stdout.flush()
    screen.tell(_summary(checks))
    levels = {check.level for check in checks}
    if Level.FINDING in levels:
        return FINDINGS
    return NOT_CHECKED if Level.UNCHECKED in levels else ALL_WELL


def check_json(check: Check) -> dict[str, Any]:
    """A check as JSON, with every sign that is not fine."""
    return {
        "check": check.name,
        "level": check.level.word,
        "text": check.text,
        "signs": [_sign_json(sign) for sign in check.bad],
    }


def _sign_json(sign: Sign) -> dict[str, Any]:
    said = {"level": sign.level.word, "text": sign.text, "remedy": sign.remedy}
    return said if sign.window is None else {**said, "window": sign.window}


def _lines(check: Check) -> list[str]:
    """One line for a check; under it what to do, and its other signs."""
    begin = f"{check.level.word:<{_LEVEL_WIDTH}}{check.name:<{_NAME_WIDTH}}"
    lines = [f"{begin}{check.text}"]
    said = ""
    for number, sign in enumerate(check.bad[:SIGNS_SHOWN]):
        if number:
            lines.append(f"{'':<{_LEVEL_WIDTH}}{sign.level.word}: {sign.text}")
        if sign.remedy and sign.remedy != said:
            lines.append(f"{'':<{_LEVEL_WIDTH}}remedy: {sign.remedy}")
            said = sign.remedy
    if len(check.bad) > SIGNS_SHOWN:
        lines.append(f"{'':<{_LEVEL_WIDTH}}and {len(check.bad) - SIGNS_SHOWN:,} more (--json)")
    return lines


def _summary(checks: list[Check]) -> str:
    signs = [sign for check in checks for sign in check.bad]
    counts = {level: sum(sign.level is level for sign in signs) for level in Level}
    findings, warnings = counts[Level.FINDING], counts[Level.WARNING]
    text = f"{len(checks)} checks, {findings:,} findings, {warnings:,} warnings"
    open_ = counts[Level.UNCHECKED]
    return f"{text}, {open_} could not be checked" if open_ else text

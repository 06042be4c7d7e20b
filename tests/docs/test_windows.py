"""The numbers of docs/windows.md are those of the settings."""

from __future__ import annotations

import re

from tallyroll.model.windows import DAY_MS, WINDOW_NAMES
from tallyroll.settings import Settings
from tests.docs.walks import ROOT


def test_the_tables_of_each_length() -> None:
    text = (ROOT / "docs" / "windows.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([\d,]+) \|$", text, re.MULTILINE)
    computed = [
        (name, f"{Settings(window=name, retention_ms=90 * DAY_MS).tables_kept:,}")
        for name in WINDOW_NAMES
    ]
    assert rows == computed

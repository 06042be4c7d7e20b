from __future__ import annotations

from collections import Counter
from io import StringIO

from rich.console import Console

from benchmarks.keyspaces import Measured, share_of, strategy_table


def test_the_hottest_partition_has_the_largest_share_of_writes() -> None:
    assert share_of(Counter({1: 10})) == 1.0
    assert share_of(Counter({1: 2, 2: 6, 3: 2})) == 0.6


def test_ways_are_compared_with_the_first_one() -> None:
    console = Console(width=110, file=StringIO(), record=True)
    first = Measured("ADD", 105, 5, 50.0, 800.0, 1.0)
    console.print(strategy_table(100, [first, Measured("ours", 100, 0, 200.0, 200.0, 0.1)]))
    added, ours = (line.split() for line in console.export_text().splitlines() if "/s │" in line)
    assert added[3:] == [
        "105",
        "│",
        "+5",
        "│",
        "50",
        "│",
        "800",
        "│",
        "1.00",
        "│",
        "100%",
        "│",
        "50/s",
        "│",
    ]
    assert [word for word in ours if word not in ("│", "ours")] == [
        *("100", "exact", "200", "200", "0.25", "10%", "20/s"),
    ]

from __future__ import annotations

from collections import Counter

from benchmarks.keyspaces import Measured, share_of, strategy_rows


def test_the_hottest_partition_has_the_largest_share_of_writes() -> None:
    assert share_of(Counter({1: 10})) == 1.0
    assert share_of(Counter({1: 2, 2: 6, 3: 2})) == 0.6


def test_ways_are_compared_with_the_first_one() -> None:
    first = Measured("ADD", 105, 5, 50.0, 800.0, 1.0)
    _, *rows = strategy_rows([first, Measured("ours", 100, 0, 200.0, 200.0, 0.1)])
    assert rows == [
        ("ADD", "105", "+5", "50", "800", "1.00", "100%", "50/s"),
        ("ours", "100", "exact", "200", "200", "0.25", "10%", "20/s"),
    ]

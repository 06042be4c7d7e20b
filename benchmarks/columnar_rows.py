"""Rows as an archive has them, for `benchmarks.columnar_libraries`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal

ROWS = 1_000_000
KEYS = 10_000
AT_ONCE = 10_000
START = 1_795_163_400_000
COLUMNS = ("key", "id", "ts", "window", "value", "payload", "n", "shard", "digest")
DECIMALS = 6

Row = tuple[str, str, int, str, Decimal, str, int, int, bytes]


def rows(count: int) -> Iterator[list[Row]]:
    """So many rows, some at once, their keys in no order, with ids and digests of their own."""
    chance = random.Random(count)
    some: list[Row] = []
    for index in range(count):
        drawn = chance.randbytes(32)
        some.append(
            (
                f"key-{index % KEYS}",
                drawn[:16].hex(),
                START + index % 3_600_000,
                "20261120T080000Z",
                Decimal(index % 7) + Decimal("0.25"),
                f'{{"number":{index},"from":"a benchmark"}}',
                1,
                index % 16,
                drawn[16:],
            )
        )
        if len(some) == AT_ONCE:
            yield some
            some = []
    if some:
        yield some

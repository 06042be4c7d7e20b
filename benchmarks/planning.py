"""The tables of docs/planning.md: `python -m benchmarks.planning`."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from tallyroll.planning.costs import FUNCTION_GB, FUNCTION_MS_IDLE, READ_MS
from tallyroll.planning.load import COMPRESSED_SHARE
from tallyroll.planning.on_demand import disagreements
from tallyroll.planning.plan import (
    ARCHIVED_SHARE,
    BATCH_WINDOW_SECONDS,
    TRANSACTION_MS,
    WRITER_MS_PER_MESSAGE,
)
from tallyroll.planning.shards import SHARD_SHARE_MAX

WIDTH = 120
Rows = list[tuple[str, ...]]
"""A table, its headings first."""


def assumed() -> Rows:
    """The figures that a plan does not compute."""
    return [
        ("what", "value"),
        ("share of a partition that one shard takes", f"{SHARD_SHARE_MAX}"),
        ("a writer's own time for a message, ms", f"{WRITER_MS_PER_MESSAGE}"),
        ("a full transaction, ms", f"{TRANSACTION_MS}"),
        ("Lambda's batch window, s", f"{BATCH_WINDOW_SECONDS}"),
        ("memory of functions, GB", f"{FUNCTION_GB:.2f}"),
        ("an idle run of roller or cleanup, ms", f"{FUNCTION_MS_IDLE}"),
        ("a read of the aggregator, ms", f"{READ_MS}"),
        ("share of an item's bytes in an archive, of single events", f"{ARCHIVED_SHARE}"),
        ("share of a payload's bytes in a packet, unless a file is read", f"{COMPRESSED_SHARE}"),
    ]


def main() -> None:
    """Print the tables."""
    console = Console(width=WIDTH)
    for title, rows in (
        ("The classic arithmetic of partitions, and today's", disagreements()),
        ("Assumed by a plan, not computed", assumed()),
    ):
        table = Table(title=title)
        for heading in rows[0]:
            table.add_column(heading)
        for row in rows[1:]:
            table.add_row(*row)
        console.print(table)


if __name__ == "__main__":
    main()

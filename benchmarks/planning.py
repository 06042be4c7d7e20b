"""The tables of docs/planning.md: `python -m benchmarks.planning`."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from tallyroll.planning.on_demand import disagreements

WIDTH = 120


def main() -> None:
    """Print the tables."""
    console = Console(width=WIDTH)
    for title, rows in (("The classic arithmetic of partitions, and today's", disagreements()),):
        table = Table(title=title)
        for heading in rows[0]:
            table.add_column(heading)
        for row in rows[1:]:
            table.add_row(*row)
        console.print(table)


if __name__ == "__main__":
    main()

"""Tables of what was measured or computed, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

WIDTH = 120
Rows = list[tuple[str, ...]]
"""A table, its headings first."""


def table_of(title: str, rows: Sequence[Sequence[str]], *, left: int = 1) -> Table:
    """A table whose first row are the headings: so many columns are aligned to the left, the others
    to the right.
    """
    table = Table(title=title)
    for number, heading in enumerate(rows[0]):
        table.add_column(heading, justify="left" if number < left else "right")
    for row in rows[1:]:
        table.add_row(*row)
    return table


def show(title: str, rows: Sequence[Sequence[str]], *notes: str, left: int = 1) -> None:
    """Print a table, and lines below it."""
    console = Console(width=WIDTH, highlight=False)
    console.print(table_of(title, rows, left=left))
    for note in notes:
        console.print(note)

"""The SELECT at the end of a vote night, over the archives that the compactor made Parquet of."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from rich.table import Table

from local.demo.report import Sum, Verdict, numbered
from local.demo.run import Run
from tallyroll.archive.inventory import find, pipeline_prefix
from tallyroll.archive.parquet.queries import ArchiveQueries, chosen
from tallyroll.model.amounts import MICROS
from tallyroll.model.states import Window
from tallyroll.model.windows import WindowId
from tallyroll.ports.bucket import ticket_of

QUERY = (
    "SELECT key, count(*) AS events, sum(value) AS sum FROM events GROUP BY key ORDER BY 2 DESC, 1"
)
ROWS_SHOWN = 3
POLL_S = 0.2
STALLED_S = 60.0


@dataclass(frozen=True, slots=True)
class Selected:
    """The rows of the query, of how many archives they are, and how many are not Parquet yet."""

    rows: Sequence[tuple[str, int, Decimal]]
    archives: int
    unconverted: int

    @property
    def heading(self) -> str:
        """What was asked, and of what."""
        asked = f'tallyroll archive sql "{QUERY} LIMIT {ROWS_SHOWN}"'
        return f"{asked}\nof the Parquet of {numbered(self.archives, 'archive')}:"

    def judge(self, counted: Mapping[str, Sum], verdict: Verdict) -> None:
        """Compare the rows with what was counted."""
        found = {key: Sum(events, int(of * MICROS)) for key, events, of in self.rows}
        wanted = {key: part for key, part in counted.items() if part.events}
        verdict.check(found == wanted, f"SQL finds {found} in the archives, not {wanted}")
        if self.unconverted:
            verdict.slow.append(f"{numbered(self.unconverted, 'archive')} not as Parquet yet")

    def table(self) -> Table:
        """The first rows."""
        table = Table()
        table.add_column("key")
        for name in ("events", "sum"):
            table.add_column(name, justify="right")
        for key, events, of in self.rows[:ROWS_SHOWN]:
            table.add_row(key, f"{events:,}", f"{of:f}")
        return table


def select(run: Run, windows: Sequence[Window]) -> Selected:
    """Wait until the archives of these windows are Parquet, or nothing has moved for a minute; then
    ask them.
    """
    left = _await_parquet(run, {window.id for window in windows})
    made, prefix = run.adapters, pipeline_prefix(run.aws.settings.name)
    during = windows[0].start, windows[-1].end
    archives = chosen(find(made.bucket, made.effects, prefix, *during))
    with tempfile.TemporaryDirectory(prefix="tallyroll-") as folder:
        ports = made.bucket, made.codec, lambda reading, *_: iter(reading), made.totals
        tables = ArchiveQueries(Path(folder), *ports)
        for archive in archives:
            tables.add(archive)
        _, rows = tables.rows(QUERY)
        found = [(str(key), int(events), Decimal(of)) for key, events, of in rows]
    return Selected(found, len(archives), left)


def _await_parquet(run: Run, windows: set[WindowId]) -> int:
    """How many of these windows still wait for it at the end."""
    tickets = ticket_of(run.aws.settings.name, "")
    seen, moved = windows, time.monotonic()
    while seen and time.monotonic() - moved <= STALLED_S:
        left = windows & {key.rpartition("/")[2] for key in run.adapters.bucket.list(tickets)}
        if left != seen:
            seen, moved = left, time.monotonic()
        if left:
            time.sleep(POLL_S)
    return len(seen)

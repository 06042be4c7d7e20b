"""What counts in a store on single rows, by the oracle's own book: which rows came when."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tallyroll.adapters.rows.folding import mark
from tallyroll.model.records import Record
from tests.simulation.holdings import Identity
from tests.simulation.oracle import Oracle


class RowOracle(Oracle):
    """A row counts if it came before all gates were shut, or else if the winning list has it.

    `uncounted` are those that came later, and are in no list (yet).
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.uncounted: dict[Identity, Record] = {}
        self._rows: dict[Identity, Record] = {}

    def on_row(self, window: str, row: Record, *, in_time: bool) -> None:
        """Take note of a row that was inserted."""
        identity = (window, row.key, row.id)
        if in_time:
            self._take(identity, row)
        else:
            self.uncounted[identity] = row

    def on_list(self, window: str, names: Collection[Identity], marks: Collection[bytes]) -> None:
        """Check the winning list of a segment, whose rows have these names."""
        for identity in names:
            if identity in self._rows and mark(self._rows[identity]) not in marks:
                self._world.fail(
                    f"4: {identity} came before the gates were shut, and is not listed"
                )
            if identity in self.uncounted and mark(self.uncounted[identity]) in marks:
                self._take(identity, self.uncounted.pop(identity))

    def rows(self, window: str) -> list[Record]:
        """The rows of a window that count."""
        return [row for (of, _, _), row in self._rows.items() if of == window]

    def _take(self, identity: Identity, row: Record) -> None:
        self.commits += 1
        self._rows[identity] = row
        self._count(self._specs[identity[0]], row)

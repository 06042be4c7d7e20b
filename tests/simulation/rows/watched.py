"""The rows in memory, every change of which the oracle sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tallyroll.adapters.dynamodb.items import Item, chunk_item, gate_item, record_item
from tallyroll.adapters.memory.rows import MemoryRows
from tallyroll.adapters.rows.folding import listed_marks, tally_of
from tallyroll.adapters.rows.row_store import stripe_item
from tallyroll.adapters.rows.statements import Seal
from tallyroll.model.records import Record
from tallyroll.model.tallies import Stripe
from tests.simulation.rows.oracle import RowOracle
from tests.simulation.world import SimEffects

if TYPE_CHECKING:
    from tests.simulation.pipeline import System

PAGE_ROWS = 3


class SimRows(MemoryRows):
    """The rows, watched by the oracle.

    `made_again` are tables of dropped windows that a late roller made again: no row in them counts.
    """

    def __init__(self, system: System) -> None:
        creating_ms = system.world.random.random() ** 2 * 40_000
        super().__init__(
            SimEffects(system.world),
            creating_ms=creating_ms,
            deleting_ms=5_000,
            page_rows=PAGE_ROWS,
        )
        self._system = system
        self._ever: dict[str, None] = {}
        self.made_again: dict[str, None] = {}

    @property
    def oracle(self) -> RowOracle:
        """The oracle of rows."""
        return cast("RowOracle", self._system.oracle)

    def insert(self, table: str, row: Record) -> bytes | None:
        there = super().insert(table, row)
        if there is None and table not in self.made_again:
            in_time = any(gate.open for gate in self.gates(table))
            self.oracle.on_row(window_of(table), row, in_time=in_time)
        return there

    def put_seal(self, table: str, segment: int, seal: Seal) -> Seal:
        stands = super().put_seal(table, segment, seal)
        if stands is seal:
            window = window_of(table)
            names = [
                (window, row.key, row.id)
                for row in self._held(table).rows.values()
                if self.segment(row.key, row.shard) == segment
            ]
            self.oracle.on_list(window, names, listed_marks(self, table, segment, seal))
        return stands

    def open_gate(self, table: str, number: int) -> bool:
        before = self.gate(table, number)
        is_open = super().open_gate(table, number)
        if is_open and before is False:
            self._system.world.fail(f"4: gate {number} of {table} was opened again")
        return is_open

    def make_table(self, table: str, *rest: object) -> None:
        is_new = self.describe_table(table) is None
        super().make_table(table, *rest)  # type: ignore[arg-type]
        if is_new and table in self._ever:
            self.made_again[table] = None
        self._ever[table] = None

    def drop_table(self, table: str) -> None:
        facts = self.describe_table(table)
        if facts and facts.protected:
            window = self._system.catalog.window(window_of(table))
            items = self.items(table)
            self.oracle.archives.on_drop(window, items, self.tags(table), self._system.bucket)  # type: ignore[arg-type]
        super().drop_table(table)

    def items(self, table: str) -> dict[tuple[str, str], Item]:
        """The items that the window's archive must have: of rows those that the oracle counted.
        Until the window is folded, the stripes are computed from these rows.
        """
        self._usable(table)
        items = [
            {**gate_item(gate.number), "open": {"BOOL": gate.open}} for gate in self.gates(table)
        ]
        if table not in self.made_again:
            rows = self.oracle.rows(window_of(table))
            items += map(record_item, rows)
            items += [chunk_item(chunk) for row in rows for chunk in row.chunks]
            items += self._stripe_items(table, rows)
        return {(item["pk"]["S"], item["sk"]["S"]): item for item in items}

    def _stripe_items(self, table: str, rows: list[Record]) -> list[Item]:
        if self.folded(table):
            stripes = self._held(table).stripes.items()
            return [
                stripe_item(bucket, Stripe(place, tally))
                for bucket, there in stripes
                for place, tally in there.items()
            ]
        # A stripe for each row, since nothing but their sums is looked at.
        return [
            stripe_item(at, Stripe(f"{row.key}.1", tally_of(row))) for at, row in enumerate(rows)
        ]

    weighed = items


def window_of(table: str) -> str:
    """The window of a table."""
    return table.rpartition("-")[2]

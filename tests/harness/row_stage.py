"""A window of a store on single rows."""

from __future__ import annotations

from dataclasses import dataclass

from tallyroll.adapters.memory import MemoryCatalog
from tallyroll.adapters.memory.rows import MemoryRows
from tallyroll.adapters.rows import statements
from tallyroll.adapters.rows.row_store import RowStore
from tallyroll.model.records import Record, increments_of
from tallyroll.model.specs import Spec
from tallyroll.model.states import Window
from tallyroll.ports.store import Outcome
from tests.harness.pipeline import StillEffects, record_with, spec_of


@dataclass
class RowStage:
    """A window that is open, its rows, and the store above them."""

    rows: MemoryRows
    catalog: MemoryCatalog
    store: RowStore
    spec: Spec

    def commit(self, *records: Record) -> Outcome:
        return self.store.commit(self.spec, records, increments_of(records))

    def shut(self) -> None:
        self.store.shut_gates(self.spec)

    def fold(self) -> None:
        assert list(self.store.fold(self.spec, ""))[-1] == str(statements.SEGMENTS)

    def ids(self, key: str) -> list[str]:
        """The ids of a key's records, read page by page."""
        found = []
        for shard in range(1, self.spec.shards_of(key) + 1):
            after, more = "", True
            while more:
                page = self.store.records(self.spec, key, shard, after, 2)
                more = page.more
                found += [record.id for record in page.records]
                after = found[-1] if found else ""
        return sorted(found)

    def scanned(self) -> list[object]:
        pages = [page for at in range(3) for page in self.store.scan(self.spec.table, at, 3)]
        return [self.store.codec.parse(item) for page in pages for item in page]


def opened_rows() -> RowStage:
    """A window of `spec_of()`, open, on rows in memory that are listed in pages of three."""
    effects, catalog = StillEffects(), MemoryCatalog()
    rows = MemoryRows(effects, page_rows=3)
    store, spec = RowStore(rows, catalog, effects), spec_of()
    catalog.create(Window(spec.window, spec.table, spec.start, spec.end))
    store.make_table(spec.table, {})
    store.open_gates(spec)
    return RowStage(rows, catalog, store, spec)


def row(record_id: str, key: str = "k", **changes: object) -> Record:
    """A record of one event, on its shard."""
    spec = spec_of()
    return record_with(record_id, key, shard=spec.shard(key, record_id), **changes)

"""The store port on single rows: write, then look at a gate; once folded, ask the list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from tallyroll.adapters.dynamodb.items import (
    CODEC,
    SLOT_NAMES,
    TALLY,
    Item,
    chunk_item,
    gate_item,
    record_item,
    stored_item,
)
from tallyroll.adapters.rows.folding import NOT_FOLDED, Lists, fold
from tallyroll.adapters.rows.metering import METERING, ROW_BYTES_MAX
from tallyroll.adapters.rows.statements import AT_ONCE, Rows
from tallyroll.errors import Missing, Refused, StateConflict, StoreError, Throttled, Unknown
from tallyroll.model.amounts import format_amount
from tallyroll.model.formats.payloads import Chunk, manifest_in
from tallyroll.model.formats.references import Mark
from tallyroll.model.ids import IdentityItem
from tallyroll.model.items import Gate, StoredItem, sized
from tallyroll.model.records import Increment, Record, RecordName, RecordPage
from tallyroll.model.retractions import Tombstone, TombstoneName
from tallyroll.model.sharding import random_suffix
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status
from tallyroll.model.tallies import Stripe, Tally, gathered
from tallyroll.model.windows import WindowId
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Answer, Element, ItemCodec, Metering, Outcome, Verdict
from tallyroll.ports.table_listing import TableFacts

WINDOWS_AT_ONCE = 4  # each with up to `AT_ONCE` requests

FINE = Element(Answer.FINE)
GROUPED = "it counts under several keys, for which this window's store has no transactions"
NO_RETRACTION = "this window's store has no transactions, in which an event could be taken back"
LARGE = Element(Answer.INVALID, detail=f"a row of more than {ROW_BYTES_MAX} bytes")


class RowStore:
    """The store port over `rows`. An archive has the items of a DynamoDB table."""

    codec: ItemCodec = CODEC
    transactional = False

    def __init__(self, rows: Rows, catalog: Catalog, effects: Effects) -> None:
        self._rows = rows
        self._catalog = catalog
        self._effects = effects

    @staticmethod
    def metering_of(table: str) -> Metering:  # noqa: ARG004 - the port's
        return METERING

    def commit(
        self,
        spec: Spec,
        records: Sequence[Record],
        increments: Sequence[Increment],  # noqa: ARG002 - `fold` counts the rows
    ) -> Outcome:
        """Look at a gate before, which spares most uncounted rows, and after, which decides.

        Events of several keys are refused: an earlier mapping may still give some to old messages.
        """
        if any(record.others for record in records):
            return Outcome(Verdict.INVALID, detail=GROUPED)
        try:
            shut = self._shut(spec)
            answers = [] if shut else self._inserted(spec.table, records)
            shut = shut or self._looked_after(spec)
        except Missing as error:
            return Outcome(Verdict.GATE_MISSING, detail=str(error))
        except Throttled as error:
            return Outcome(Verdict.THROTTLED, detail=str(error))
        except StoreError as error:
            return Outcome(Verdict.UNKNOWN, detail=str(error))
        if shut:
            return Outcome(shut)
        if all(each is FINE for each in answers):
            return Outcome(Verdict.COMMITTED)
        return Outcome(Verdict.BY_RECORD, tuple(answers))

    def _looked_after(self, spec: Spec) -> Verdict | None:
        return self._shut(spec)

    def _is_live(self, spec: Spec) -> bool:
        """Whether a gate is not shut yet: it is open, or a roller died before it put all. Then the
        listing begins later, and finds each row that is there now.
        """
        return self._shut(spec) is not Verdict.GATE_SHUT

    def _shut(self, spec: Spec) -> Verdict | None:
        """What a random gate makes of a commit; None if it is open."""
        open_ = self._rows.gate(spec.table, random_suffix(spec.gates, self._effects.chance))
        if open_ is None:
            return Verdict.GATE_MISSING
        return None if open_ else Verdict.GATE_SHUT

    def _inserted(self, table: str, records: Sequence[Record]) -> list[Element]:
        """Insert the records that can be; the answer for each. Raises Missing, and no other error.

        Chunks and marks are put first, so that no row lacks some.
        """
        jobs = [partial(self._put_attachment, table, record) for record in records]
        threads = AT_ONCE if any(record.attachments for record in records) else 1
        hindered = self._effects.together(jobs, threads)
        ready = [record for record, why in zip(records, hindered, strict=True) if why is None]
        found = iter(self._rows.insert_all(table, ready))
        return [element_of(next(found)) if why is None else why for why in hindered]

    def _put_attachment(self, table: str, record: Record) -> Element | None:
        """Put what is beside a record; the answer for one that cannot be inserted."""
        if sized(record).size > ROW_BYTES_MAX:
            return LARGE
        try:
            if record.chunks:
                self._rows.put_chunks(table, record)
            there = self._marked(table, record)
        except StoreError as error:
            return element_of(error)
        return element_of(there) if there else None

    def _marked(self, table: str, record: Record) -> bytes | None:
        """Mark what the record references, unless its place is taken: the digest of the row that is
        there. A duplicate may reference another upload, which nothing else would ever delete.
        """
        marks = [each for each in record.attachments if isinstance(each, Mark)]
        if marks and (row := self._rows.row(table, record.key, record.shard, record.id)):
            return row.digest
        try:
            for each in marks:
                self._catalog.mark(each.key)
        except Missing as error:  # of the catalog, and not of the window's table
            raise Unknown(str(error), error.code) from error
        return None

    def retract(self, spec: Spec, tombstones: Sequence[Tombstone]) -> Outcome:  # noqa: ARG002
        """Refused: no transaction would take the event from the counts. So do settings."""
        return Outcome(Verdict.INVALID, detail=NO_RETRACTION)

    def tombstones(
        self,
        spec: Spec,  # noqa: ARG002 - the port's
        names: Sequence[TombstoneName],  # noqa: ARG002
    ) -> Mapping[TombstoneName, Tombstone]:
        """There are none: `retract` refuses them."""
        return {}

    def record(self, spec: Spec, key: str, record_id: str) -> Record | None:
        found = self._rows.row(spec.table, key, spec.shard(key, record_id), record_id)
        counted = self._counted(spec, [found] if found else [])
        return counted[0] if counted else None

    def lookup(self, spec: Spec, names: Sequence[RecordName]) -> Mapping[RecordName, Record]:
        jobs = [
            partial(self._rows.row, spec.table, key, spec.shard(key, name), name)
            for key, name in dict.fromkeys(names)
        ]
        found = self._effects.together(jobs, AT_ONCE)
        counted = self._counted(spec, [row for row in found if row])
        return {(row.key, row.id): row for row in counted}

    def lookup_across(
        self, specs: Sequence[Spec], names: Sequence[RecordName]
    ) -> Mapping[WindowId, Mapping[RecordName, Record]]:
        jobs = [partial(self.lookup, spec, names) for spec in specs]
        found = self._effects.together(jobs, WINDOWS_AT_ONCE)
        return {spec.window: some for spec, some in zip(specs, found, strict=True) if some}

    def identities(self, names: Sequence[str]) -> Mapping[str, IdentityItem]:  # noqa: ARG002
        """There are none: settings refuse them here."""
        return {}

    def chunks(self, spec: Spec, key: str, record_id: str, count: int) -> Sequence[Chunk]:
        """Those of the row that is there, be it counted or not: its record is asked for first."""
        row = self._rows.row(spec.table, key, spec.shard(key, record_id), record_id)
        return self._rows.chunks(spec.table, row, count) if row else ()

    def records(
        self, spec: Spec, key: str, shard: int, after: str, limit: int, before: str = ""
    ) -> RecordPage:
        while True:
            page = self._rows.page(spec.table, key, shard, after, limit)
            counted = self._counted(spec, page.records)
            if before and page.records and page.records[-1].id >= before:
                return RecordPage(tuple(each for each in counted if each.id < before), more=False)
            if counted or not page.more:
                return RecordPage(tuple(counted), page.more)
            after = page.records[-1].id

    records_eventually = records

    def tallies(self, spec: Spec, keys: Sequence[str]) -> dict[str, Tally]:
        """Until the gates are shut, the sums of the rows; once folded, those of the stripes."""
        distinct = list(dict.fromkeys(keys))
        if self._is_live(spec):
            ask = self._rows.tally
            jobs = [partial(ask, spec.table, key, spec.shards_of(key)) for key in distinct]
            live = self._effects.together(jobs, AT_ONCE)
            if not any(tally.n for tally in live) or self._is_live(spec):
                return {tally.key: tally for tally in live}
        self._check_folded(spec.table)
        return {key: self._folded_tally(spec, key) for key in distinct}

    def _folded_tally(self, spec: Spec, key: str) -> Tally:
        jobs = [
            partial(self._rows.stripe, spec.table, spec.bucket(key, shard), f"{key}.{shard}")
            for shard in range(1, spec.shards_of(key) + 1)
        ]
        found = self._effects.together(jobs, AT_ONCE)
        return gathered(key, [tally for tally in found if tally])

    def widen(self, spec: Spec, key: str) -> None:
        """Rows are counted on their shards."""

    def stripes(self, spec: Spec, number: int, after: str, limit: int) -> Iterator[list[Stripe]]:
        self._check_folded(spec.table)
        yield from self._rows.stripes(spec.table, number, after, limit)

    def open_gates(self, spec: Spec) -> None:
        """The state is read, and not checked with each gate: a gate is permanent, so a late roller
        finds it, and cannot put it again.
        """
        window = self._catalog.window(spec.window)
        if window is None or window.status is not Status.CREATING:
            raise StateConflict(f"window {spec.window} is not being created any more")
        numbers = range(1, spec.gates + 1)
        jobs = [partial(self._rows.open_gate, spec.table, number) for number in numbers]
        if not all(self._effects.together(jobs, AT_ONCE)):
            raise Refused(f"table {spec.table} is there, with gates", "UsedBefore")

    def shut_gates(self, spec: Spec) -> None:
        numbers = range(1, spec.gates + 1)
        jobs = [partial(self._rows.shut_gate, spec.table, number) for number in numbers]
        self._effects.together(jobs, AT_ONCE)

    def fold(self, spec: Spec, progress: str) -> Iterator[str]:
        return fold(self._rows, spec, self._effects.chance, progress)

    def scan(self, table: str, segment: int, segments: int) -> Iterator[list[StoredItem]]:
        """The counted rows with their chunks, the stripes, and the gates."""
        gates = self._rows.gates(table)
        if ours := [gate for gate in gates if gate.number % segments == segment]:
            yield [stored_item(_gate_item(gate)) for gate in ours]
        for stripes in self._rows.scan_stripes(table, segment, segments):
            yield [stored_item(stripe_item(bucket, stripe)) for bucket, stripe in stripes]
        lists, open_ = Lists(self._rows, table), next((g.number for g in gates if g.open), None)
        for page in self._rows.scan(table, segment, segments):
            if open_ is not None and not self._rows.gate(table, open_):
                open_ = None  # for good
            rows = lists.counted(page) if open_ is None else page
            yield [stored_item(item) for row in rows for item in self._items(table, row)]

    def _items(self, table: str, row: Record) -> Iterator[Item]:
        yield record_item(row)
        if manifest := manifest_in(row.data, row.format):
            yield from map(chunk_item, self._rows.chunks(table, row, manifest.count))

    def make_table(self, table: str, tags: Mapping[str, str], peak: int = 0) -> None:
        self._rows.make_table(table, tags, peak)

    def describe_table(self, table: str) -> TableFacts | None:
        return self._rows.describe_table(table)

    def check_table(self, table: str, tags: Mapping[str, str]) -> None:
        self._rows.check_table(table, tags)

    def recover_table(self, table: str) -> None:
        self._rows.recover_table(table)

    def reduce_capacity(self, table: str) -> None:
        self._rows.reduce_capacity(table)

    def warm_table(self, table: str, units: int) -> None:  # noqa: ARG002 - the port's
        raise Refused(f"{table}: tables in Keyspaces are warmed when they are made", "NotWarmed")

    def tags(self, table: str) -> Mapping[str, str] | None:
        return self._rows.tags(table)

    def tag_table(self, table: str, tags: Mapping[str, str]) -> None:
        self._rows.tag_table(table, tags)

    def drop_table(self, table: str) -> None:
        self._rows.drop_table(table)

    def _counted(self, spec: Spec, rows: Sequence[Record]) -> list[Record]:
        """Those of the rows, which were just read, that count. A gate that is not shut now was not
        when they were there. Raises Throttled if that is not settled yet.
        """
        is_live = not rows or self._is_live(spec)
        counted = rows if is_live else Lists(self._rows, spec.table).counted(rows)
        return [replace(row, series=()) for row in counted]

    def _check_folded(self, table: str) -> None:
        if not self._rows.folded(table):
            raise Throttled(f"the tallies of {table} are not written yet", NOT_FOLDED)


def element_of(answer: bytes | StoreError | None) -> Element:
    """The answer for a record by that of its insert. Raises Missing."""
    if answer is None:
        return FINE
    if isinstance(answer, bytes):
        return Element(Answer.DUPLICATE, answer)
    if isinstance(answer, Missing):
        raise answer
    kind = Answer.THROTTLED if isinstance(answer, Throttled) else Answer.UNKNOWN
    return Element(kind, detail=str(answer))


def _gate_item(gate: Gate) -> Item:
    return {**gate_item(gate.number), "open": {"BOOL": gate.open}}


def stripe_item(bucket: int, stripe: Stripe) -> Item:
    """The item of a stripe, as DynamoDB has it."""
    tally = stripe.tally
    return {
        "pk": {"S": f"~t.{bucket}"},
        "sk": {"S": f"{TALLY}{stripe.place}"},
        "n": {"N": str(tally.n)},
        "v": {"N": format_amount(tally.amount)},
        "u": {"N": str(tally.cost)},
        **{SLOT_NAMES[slot]: {"N": str(events)} for slot, events in tally.series},
    }

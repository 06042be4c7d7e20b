"""What the writer's transactions take, by formulas instead of requests.

The writer sorts a batch's records by key, and fills one transaction after the other: a record, its
id if that stays taken beyond the window, and for each new key an addition to its tally, beside the
check of a gate. What each of them takes, `tallyroll.limits` says. A test compares the formulas
with the writer's own requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import ceil, expm1, log1p
from typing import NamedTuple

from tallyroll.limits import (
    ACTION_UNITS,
    ELEMENT_BYTES_MAX,
    ELEMENTS_MAX,
    LOG_SLOT_EVENTS,
    TRANSACTION_BYTES_PLANNED,
    UNIT_BYTES,
    record_units,
    shared_units,
)
from tallyroll.planning.identities import ITEM_BYTES
from tallyroll.planning.load import LOG_ENTRY_BYTES, LoggedKey, PeakLoad
from tallyroll.planning.shards import KeyWrites

BATCH_SIZE, BATCH_WINDOW_SECONDS = 1_000, 1
GATE_UNITS_A_WINDOW = 3  # put in a transaction at two units, shut at one
CHECK_UNITS = 2  # of the window's state, once a transaction that puts gates
# A total is put in a transaction, and so is its entry in a listing; a month has no listing.
TOTAL_ITEMS, DAY_ITEMS, MONTH_ITEMS = 2, 2, 1
TOTAL_UNITS = ACTION_UNITS * TOTAL_ITEMS  # to seal a key
DAY_UNITS, MONTH_UNITS = ACTION_UNITS * DAY_ITEMS, ACTION_UNITS * MONTH_ITEMS  # to roll a key up

LOGS_MEASURED = {1: (0.046, 0.001), 4: (0.067, 0.018), 16: (0.165, 0.066)}
"""The write and the read units of an event in the log of one key of 1,000 events a second, by how
many writers append to it: with redeliveries, lost positions, and the slots that were read. Measured
by `python -m benchmarks.logs --paced` on 2026-11-29; docs/benchmarks.md shows the sums.
"""
LOGS_MEASURED_RATE = 1_000


@dataclass(frozen=True, slots=True)
class BatchWrites:
    """One batch of a writer: its records, their transactions, and the additions to tallies.

    `record_units` are the write units of one record, in the window's table.
    """

    records: int
    transactions: int
    tallies: float
    record_units: int
    events_each: float

    @property
    def per_event(self) -> KeyWrites:
        """The write units of one event, in the window's table."""
        events = self.records * self.events_each
        shared = shared_units(self.tallies, self.transactions)
        return KeyWrites(self.record_units / self.events_each, shared / events)


def batch_writes(load: PeakLoad, *, messages: int, with_ids: bool = False) -> BatchWrites:
    """The writes for so many messages of a load in one batch, `with_ids` beside their records if
    these stay taken beyond the window.
    """
    distinct = distinct_keys(load, messages)
    each = 1 + with_ids  # elements of a record
    size = load.item_bytes + with_ids * ITEM_BYTES + each * ELEMENT_BYTES_MAX
    elements = max(1 + each, min(ELEMENTS_MAX, int(TRANSACTION_BYTES_PLANNED // size) * each))
    # Where a transaction ends, its last key goes on in the next with this chance, and so has one
    # more tally.
    goes_on = 1 - distinct / messages
    transactions = max(1, ceil((each * messages + distinct - goes_on) / (elements - goes_on)))
    tallies = distinct + (transactions - 1) * goes_on
    units = record_units(load.item_bytes)
    return BatchWrites(messages, transactions, tallies, units, load.events_each)


class LogUnits(NamedTuple):
    """The write units and the read units of a logged event, and how many events share a leaf."""

    writes: float
    reads: float
    entries: float


def log_units(key: LoggedKey, writers: int, entry_bytes: float = LOG_ENTRY_BYTES) -> LogUnits:
    """What a logged event of so many bytes takes, if so many writers append, each a batch a
    second.
    """
    return leaf_units(_entries_of_leaf(key, writers), entry_bytes)


def leaf_units(entries: float, entry_bytes: float = LOG_ENTRY_BYTES) -> LogUnits:
    """What a logged event takes in leaves of so many events.

    What a leaf takes hardly depends on how many events it has, so units an event are those that
    were measured with as many events in a leaf, or lie between two of them. Payloads, of which the
    measured events had none, are written and read beside.
    """
    alike, points = LoggedKey(LOGS_MEASURED_RATE, LOGS_MEASURED_RATE), []
    for measured, (writes, reads) in sorted(LOGS_MEASURED.items()):
        points.append((1 / _entries_of_leaf(alike, measured), writes, reads))
    share = max(points[0][0], 1 / entries)
    lines = [*pairwise(points)]
    below, above = next((line for line in lines if share <= line[1][0]), lines[-1])
    part = (share - below[0]) / (above[0] - below[0])
    _, writes, reads = (low + part * (high - low) for low, high in zip(below, above, strict=True))
    more = ACTION_UNITS * (entry_bytes - LOG_ENTRY_BYTES) / UNIT_BYTES
    return LogUnits(writes + more, reads * entry_bytes / LOG_ENTRY_BYTES, entries)


def _entries_of_leaf(key: LoggedKey, writers: int) -> float:
    """How many events of a batch are in one slot of the log."""
    batch = min(BATCH_SIZE, key.events_per_second * BATCH_WINDOW_SECONDS / writers)
    seconds = batch * writers / key.events_per_second
    return max(1.0, batch / (seconds * key.named / LOG_SLOT_EVENTS + 1))


@dataclass(frozen=True, slots=True)
class LogLoad:
    """What all logs take a second: events, write units, read units, and leaves."""

    events: float
    writes: float
    reads: float
    leaves: float


def log_load(load: PeakLoad, writers: int, *, share: float = 1.0) -> LogLoad:
    """What the logs of a load take at this share of its peak."""
    keys = [
        key._replace(events_per_second=key.events_per_second * share) for key in load.logs.values()
    ]
    size = load.log_entry_bytes
    each = [(key.events_per_second, log_units(key, writers, size)) for key in keys if key[0]]
    return LogLoad(
        events=sum(rate for rate, _ in each),
        writes=sum(rate * units.writes for rate, units in each),
        reads=sum(rate * units.reads for rate, units in each),
        leaves=sum(rate / units.entries for rate, units in each),
    )


@dataclass(frozen=True, slots=True)
class KeysTotalled:
    """How many totals are put: of keys in windows, in days and in months. A key that occurs in two
    windows is counted twice in `windows`.
    """

    windows: float
    days: float
    months: float

    @property
    def sealing_units(self) -> float:
        """The write units of sealing all windows."""
        return TOTAL_UNITS * self.windows

    @property
    def rollup_units(self) -> float:
        """The write units of rolling up all days and months."""
        return DAY_UNITS * self.days + MONTH_UNITS * self.months

    @property
    def items(self) -> float:
        """The items that the table of totals gets."""
        return TOTAL_ITEMS * self.windows + DAY_ITEMS * self.days + MONTH_ITEMS * self.months


def distinct_keys(load: PeakLoad, messages: float) -> float:
    """How many keys so many messages have, on average: the hottest key has its share of the
    messages, the others have the rest in equal parts.
    """
    found = _met(load.hottest_share, messages)
    if (others := load.keys - 1) > 0 and load.hottest_share < 1:
        found += others * _met((1 - load.hottest_share) / others, messages)
    return min(messages, max(1.0, found))


def _met(share: float, messages: float) -> float:
    """The chance that a key with this share of the messages has one among so many."""
    return -expm1(messages * log1p(-share)) if share < 1 else float(messages > 0)


def gate_units(*, gates: int) -> int:
    """The write units of a window's gates, from opening to closing."""
    return GATE_UNITS_A_WINDOW * gates + CHECK_UNITS * ceil(gates / ELEMENTS_MAX)

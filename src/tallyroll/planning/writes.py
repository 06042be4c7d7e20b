"""What the writer's transactions take, by formulas instead of requests.

The writer sorts a batch's records by key, and fills one transaction after the other: a record, its
id if that stays taken beyond the window, and for each new key an addition to its tally, beside the
check of a gate. What each of them takes, `tallyroll.limits` says. A test compares the formulas
with the writer's own requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, expm1, log1p

from tallyroll.limits import (
    ACTION_UNITS,
    ELEMENT_BYTES_MAX,
    ELEMENTS_MAX,
    TRANSACTION_BYTES_PLANNED,
    record_units,
    shared_units,
)
from tallyroll.planning.identities import ITEM_BYTES
from tallyroll.planning.load import PeakLoad
from tallyroll.planning.shards import KeyWrites

GATE_UNITS_A_WINDOW = 3  # put in a transaction at two units, shut at one
CHECK_UNITS = 2  # of the window's state, once a transaction that puts gates
# A total is put in a transaction, and so is its entry in a listing; a month has no listing.
TOTAL_ITEMS, DAY_ITEMS, MONTH_ITEMS = 2, 2, 1
TOTAL_UNITS = ACTION_UNITS * TOTAL_ITEMS  # to seal a key
DAY_UNITS, MONTH_UNITS = ACTION_UNITS * DAY_ITEMS, ACTION_UNITS * MONTH_ITEMS  # to roll a key up


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

"""What is to be done about a slot, by what is known of it: pure functions of values.

A slot is a list of leaves at the positions 0, 1, 2 ..., which never change. Only its prefix without
a gap says something: it may be old, since what is put meanwhile takes the next position, and who
loses a position reads on. A slot is full for ever once its last position is taken, or once a leaf
ends it: what is not in the prefix then has, or gets, a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from tallyroll import limits
from tallyroll.logs.entries import LogEntry, entries_in, position_of
from tallyroll.model.formats.payloads import FORMAT_LOG_END
from tallyroll.model.records import Record

FEW_ENTRIES = 8  # of a leaf: with fewer, records hardly cost more


@dataclass(frozen=True, slots=True)
class Slot:
    """The prefix of a slot without a gap: its entries by message id, and the first free position.
    `ended` is whether its last leaf ends the slot.
    """

    entries: dict[str, LogEntry] = field(default_factory=dict)
    free: int = 0
    ended: bool = False

    @property
    def full(self) -> bool:
        """Whether no leaf can follow."""
        return self.ended or self.free == limits.LOG_POSITIONS

    def after(self, leaves: Iterable[Record]) -> Slot:
        """The slot with those of these leaves that follow it without a gap."""
        found = {position_of(leaf): leaf for leaf in leaves}
        slot = replace(self, entries=dict(self.entries))
        for position in count(self.free):
            leaf = found.get(position)
            if leaf is None or slot.full:
                return slot
            slot.entries.update((entry.message, entry) for entry in entries_in(leaf))
            slot = Slot(slot.entries, position + 1, leaf.format == FORMAT_LOG_END)
        raise AssertionError

    def with_leaf(self, entries: Iterable[LogEntry], *, ends: bool) -> Slot:
        """The slot with a leaf of these entries at its first free position."""
        more = {entry.message: entry for entry in entries}
        return Slot({**self.entries, **more} if self.entries else more, self.free + 1, ends)


@dataclass(frozen=True, slots=True)
class SlotStep:
    """What is due for entries of a slot: those that are `stored`, those of which another content is
    stored (`taken`), those that need a record, and those that are put at the first free position
    (`appended`, which may end the slot) or later (`left`).
    """

    stored: tuple[LogEntry, ...] = ()
    taken: tuple[LogEntry, ...] = ()
    records: tuple[LogEntry, ...] = ()
    appended: tuple[LogEntry, ...] = ()
    left: tuple[LogEntry, ...] = ()
    ends: bool = False


def next_step(slot: Slot, entries: Sequence[LogEntry], most: int) -> SlotStep:
    """The next step for entries of distinct messages; `most` of them are put at once. A leaf may
    end the slot if its leaves have few entries each.

    Of one slot one position at a time: the next one is chosen once this one is decided.
    """
    there, fresh = [], entries
    if known := slot.entries:
        there = [entry for entry in entries if entry.message in known]
        fresh = [entry for entry in entries if entry.message not in known]
    stored = tuple(entry for entry in there if known[entry.message] == entry)
    taken = tuple(entry for entry in there if known[entry.message] != entry)
    if slot.full or not fresh:
        return SlotStep(stored, taken, records=tuple(fresh))
    number = _fitting(fresh, most)
    appended, left = tuple(fresh[:number]), tuple(fresh[number:])
    step = SlotStep(stored, taken, appended=appended, left=left)
    sparse = len(slot.entries) + len(appended) < FEW_ENTRIES * (slot.free + 1)
    return replace(step, ends=sparse and not left)


def _fitting(entries: Sequence[LogEntry], most: int) -> int:
    """How many of the entries fit into one leaf: at least one."""
    size = 0
    for number, entry in enumerate(entries[:most]):
        size += entry.size
        if number and size > limits.LOG_LEAF_BYTES_MAX:
            return number
    return min(len(entries), most)

"""Reads logs: the slots of entries, and single entries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from tallyroll import limits
from tallyroll.logs.entries import LogEntry, SlotName, group_prefix, slot_of, slot_prefix
from tallyroll.logs.slots import Slot
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Store

_PAGE = limits.LOG_POSITIONS * limits.LOG_GROUP_SLOTS
_PREFIX_END = "/"  # sorts directly after the "." that ends a prefix


def read_slots(
    store: Store, spec: Spec, slots: Iterable[SlotName], effects: Effects, at_once: int
) -> Mapping[SlotName, Slot]:
    """The slots as the store has them; one Query reads those of a group, and what is between them.
    Raises StoreError, and Refused for a damaged leaf.
    """
    asked = sorted(set(slots))
    groups = [
        (key, [slot_prefix(spec, slot) for slot in of_group])
        for (key, _), of_group in groupby(asked, lambda each: (each[0], group_prefix(spec, each)))
    ]
    jobs = [partial(_leaves_of, store, spec, key, prefixes) for key, prefixes in groups]
    found: dict[str, list[Record]] = {}
    for (key, _), leaves in zip(groups, effects.together(jobs, at_once), strict=True):
        for leaf in leaves:
            found.setdefault(key + leaf.id.rpartition(".")[0] + ".", []).append(leaf)
    return {slot: Slot().after(found.get(slot.key + slot_prefix(spec, slot), ())) for slot in asked}


def read_on(store: Store, spec: Spec, name: SlotName, slot: Slot) -> Slot:
    """A slot with what follows the part that is known of it. Raises StoreError."""
    prefix = slot_prefix(spec, name)
    after = f"{prefix}{slot.free - 1:02d}" if slot.free else prefix
    return slot.after(_pages(store, spec, name.key, after, prefix[:-1] + _PREFIX_END))


def stored_beside(
    store: Store, spec: Spec, record: Record, entry: LogEntry, effects: Effects
) -> Record | None:
    """The record, if its entry is in its log; with an empty digest if another content is. None if
    the log, as far as it has no gap, does not have it. Raises StoreError.
    """
    name = slot_of(spec, record.key, entry.sent)
    found = read_slots(store, spec, [name], effects, 1)[name].entries.get(entry.message)
    if found is None:
        return None
    return record if found == entry else replace(record, digest=b"")


def _leaves_of(store: Store, spec: Spec, key: str, prefixes: Sequence[str]) -> list[Record]:
    return [*_pages(store, spec, key, prefixes[0], prefixes[-1][:-1] + _PREFIX_END)]


def _pages(store: Store, spec: Spec, key: str, after: str, before: str) -> Iterator[Record]:
    shard = spec.shard(key, after)
    while True:
        page = store.records(spec, key, shard, after, _PAGE, before)
        yield from page.records
        if not page.more:
            return
        after = page.records[-1].id

"""Reads logs: the slots of entries, and single entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from tallyroll import limits
from tallyroll.errors import Refused, StoreError
from tallyroll.logs.entries import LogEntry, SlotName, group_prefix, slot_of, slot_prefix
from tallyroll.logs.slots import Slot
from tallyroll.model.records import Record, RecordPage
from tallyroll.model.specs import Spec
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Store

_PAGE = limits.LOG_POSITIONS * limits.LOG_GROUP_SLOTS
Read = Callable[[Spec, str, int, str, int, str], RecordPage]
"""Reads a page of records, as stores do."""

ReadSlots = Callable[
    [Store, Spec, Mapping[SlotName, Slot], Effects, int], Mapping[SlotName, Slot | StoreError]
]
"""Reads on in slots: `read_on` or `read_newer`."""

_PREFIX_END = "/"  # sorts directly after the "." that ends a prefix


def read_on(
    store: Store, spec: Spec, known: Mapping[SlotName, Slot], effects: Effects, at_once: int
) -> Mapping[SlotName, Slot | StoreError]:
    """The slots with what follows the parts that are known of them, or why one cannot be read:
    Refused for a damaged leaf. One Query reads those of a group, and what is between them.
    """
    return _seen(store.records, spec, known, effects, at_once)


def read_newer(
    store: Store, spec: Spec, known: Mapping[SlotName, Slot], effects: Effects, at_once: int
) -> Mapping[SlotName, Slot | StoreError]:
    """The same at half the price: the newest leaves may be missing. Full slots are not read."""
    still = {name: slot for name, slot in known.items() if not slot.full}
    return {**known, **_seen(store.records_eventually, spec, still, effects, at_once)}


def read_group(store: Store, spec: Spec, slot: SlotName) -> list[Record]:
    """The leaves of the slot's group. Raises StoreError."""
    prefix = group_prefix(spec, slot)
    return [*_pages(store.records, spec, slot.key, prefix, prefix[:-1] + _PREFIX_END)]


def first_leaves(store: Store, spec: Spec, first: SlotName, last: SlotName) -> Iterator[Record]:
    """The first leaf of each shard, from the group of a key's slot to that of a later one: none if
    nothing was logged in between. Raises StoreError.
    """
    after, before = group_prefix(spec, first), group_prefix(spec, last)[:-1] + _PREFIX_END
    for shard in range(1, spec.shards_of(first.key) + 1):
        yield from store.records(spec, first.key, shard, after, 1, before).records


def stored_in_logs(
    store: Store,
    spec: Spec,
    sought: Sequence[tuple[Record, LogEntry]],
    effects: Effects,
    at_once: int,
) -> list[Record | StoreError | None]:
    """For each entry, its record if the entry is in its log; with an empty digest if another
    content is. None if the log, as far as it has no gap, does not have it; or why its slot cannot
    be read. All slots are read together, and each once.
    """
    names = [slot_of(spec, record.key, entry.sent) for record, entry in sought]
    seen = read_on(store, spec, {name: Slot() for name in names}, effects, at_once)
    return [
        slot if isinstance(slot, StoreError) else _beside(slot, *each)
        for name, each in zip(names, sought, strict=True)
        for slot in (seen[name],)
    ]


def _beside(slot: Slot, record: Record, entry: LogEntry) -> Record | None:
    found = slot.entries.get(entry.message)
    if found is None:
        return None
    return record if found == entry else replace(record, digest=b"")


def _seen(
    read: Read, spec: Spec, known: Mapping[SlotName, Slot], effects: Effects, at_once: int
) -> Mapping[SlotName, Slot | StoreError]:
    groups = [
        [*of_group]
        for _, of_group in groupby(sorted(known), lambda each: (each.key, group_prefix(spec, each)))
    ]
    jobs = [partial(_leaves_of, read, spec, group, known[group[0]]) for group in groups]
    answers = zip(groups, effects.together(jobs, at_once), strict=True)
    return {
        name: _slot(spec, name, known[name], leaves) for group, leaves in answers for name in group
    }


def _leaves_of(
    read: Read, spec: Spec, group: Sequence[SlotName], first: Slot
) -> list[Record] | StoreError:
    after = _after(slot_prefix(spec, group[0]), first)
    before = slot_prefix(spec, group[-1])[:-1] + _PREFIX_END
    try:
        return [*_pages(read, spec, group[0].key, after, before)]
    except StoreError as error:
        return error


def _slot(
    spec: Spec, name: SlotName, known: Slot, leaves: list[Record] | StoreError
) -> Slot | StoreError:
    if isinstance(leaves, StoreError):
        return leaves
    prefix = slot_prefix(spec, name)
    try:
        return known.after(leaf for leaf in leaves if leaf.id.startswith(prefix))
    except Refused as error:  # a damaged leaf is of one slot
        return error


def _after(prefix: str, slot: Slot) -> str:
    """What precedes the unknown leaves of the slot with this prefix."""
    return f"{prefix}{slot.free - 1:02d}" if slot.free else prefix


def _pages(read: Read, spec: Spec, key: str, after: str, before: str) -> Iterator[Record]:
    shard = spec.shard(key, after)
    while True:
        page = read(spec, key, shard, after, _PAGE, before)
        yield from page.records
        if not page.more:
            return
        after = page.records[-1].id

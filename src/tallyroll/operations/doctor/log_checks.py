"""The doctor's check of logs: whether keys are named with about the events that come, and whether
their logs are worth it. Metrics name no key, so it looks at tallies and leaves.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil

from tallyroll.errors import Missing
from tallyroll.limits import LOG_POSITIONS, LOG_RATE_MAX, SERIES_SLOTS, record_units
from tallyroll.logs.entries import SlotName, entries_in, group_of, position_of
from tallyroll.logs.reading import first_leaves, read_group
from tallyroll.model.items import sized
from tallyroll.model.records import Record
from tallyroll.model.specs import LogRule, Spec, log_rule
from tallyroll.model.states import Status, Window
from tallyroll.model.tallies import Tally
from tallyroll.model.windows import window_id
from tallyroll.operations.doctor.checkup import Checkup, Sign, fine, warning
from tallyroll.planning.alternatives import LOG_SHARE_MAX, NAMED_BELOW_MAX, ways_of
from tallyroll.planning.load import PACKET_ITEM_BYTES
from tallyroll.planning.plan import WRITERS_DEFAULT
from tallyroll.planning.prices import READ_UNIT, WRITE_UNIT
from tallyroll.planning.writes import leaf_units

WINDOWS_BACK = 24
GROUPS_READ = 4
SMALL_LEAF = 10  # entries: with more, shorter slots hardly cost anything
_STOP = (
    "To stop logging it, name a key that nobody writes instead, for the queue's retention"
    " (docs/sharding.md, Events without an id)."
)


@dataclass(frozen=True, slots=True)
class _Seen:
    """Some leaves of a key, from its busiest sixtieth of a window, which holds `events`; and how
    many logged events a second were sent then.
    """

    spec: Spec
    events: int
    rate: float
    leaves: tuple[Record, ...]

    @property
    def entries(self) -> int:
        """How many events they hold."""
        return sum(leaf.n for leaf in self.leaves)

    @property
    def full(self) -> int:
        """How many slots have no free position."""
        return sum(position_of(leaf) == LOG_POSITIONS - 1 for leaf in self.leaves)

    @property
    def price(self) -> float:
        """What an event takes, as a part of what a record takes, reads included."""
        size = sum(sized(leaf).size - PACKET_ITEM_BYTES for leaf in self.leaves) / self.entries
        units = leaf_units(self.entries / len(self.leaves), max(1.0, size))
        return (units.writes + units.reads * READ_UNIT / WRITE_UNIT) / record_units(1)


def logs(case: Checkup) -> Iterator[Sign]:
    """Each logged key gets about the events that it is named with, by its busiest sixtieth of the
    last windows, and its log costs less than records would.
    """
    named = case.settings.logs
    looked = 0
    for key, rate in named.items():
        if seen := _seen(case, key, log_rule(rate)):
            looked += 1
            yield from _judged(key, rate, seen)
    if named:
        yield fine(f"logged keys: {len(named)}, of these with events lately: {looked}")
    else:
        yield fine("no key is logged")


def _judged(key: str, named: int, seen: _Seen) -> Iterator[Sign]:
    window = seen.spec.window
    where = f"key {key!r}: in its busiest sixtieth of {window}"
    if not seen.leaves:
        yield warning(
            f"{where}, no event was found in its log, and {seen.events:,} were counted",
            "They have ids of their own, are packed, take over 512 bytes, or were sent at another"
            f" time than they happened. If none can be logged, the name is of no use. {_STOP}",
            window,
        )
        return
    each = seen.entries / len(seen.leaves)
    came = f"{where}, {seen.rate:,.1f} logged events a second came, {each:,.1f} in a leaf"
    better = json.dumps({key: min(LOG_RATE_MAX, max(1, ceil(seen.rate)))}, ensure_ascii=False)
    rename = f"Name it with what comes: tallyroll:logs='{better}', beside the others."
    if seen.full:
        yield warning(
            f"{came}: {seen.full:,} slots were full, and left later events to records",
            f"{rename} It is named with {named:,}; many writers fill slots, too.",
            window,
        )
    elif each < SMALL_LEAF and named > 2 * seen.rate and _pays(seen.rate):
        yield warning(f"{came}: {named:,} is too high a name for it", rename, window)
    elif seen.price > LOG_SHARE_MAX:
        text = f"{came}: its log costs some {seen.price:.1f} times what records would"
        yield warning(text, _STOP, window)
    elif seen.rate > NAMED_BELOW_MAX * named:
        yield warning(f"{came}: {named:,} is too low a name for it", rename, window)


def _pays(rate: float) -> bool:
    """Whether a key of so many events a second gains from a log that is named with them."""
    return rate > 0 and ways_of(rate, writers=WRITERS_DEFAULT).gains


def _seen(case: Checkup, key: str, rule: LogRule) -> _Seen | None:
    """What is seen of a key in the window in which it had most events a second, of those that log
    it by today's rule; None if it had none lately.
    """
    begun = [
        window
        for window in case.windows.values()
        if window.start <= case.effects.now()
        and window.status not in (Status.CREATING, Status.DROPPING, Status.DROPPED)
    ][-WINDOWS_BACK:]
    if not begun:
        return None
    specs = case.catalog.specs([window.id for window in begun])
    logged = [each for each in begun if each.id in specs and specs[each.id].logs.get(key) == rule]
    rates = _rates(case, key, logged, specs) if logged else {}
    busiest = max(rates, key=lambda window: rates[window], default=None)
    if busiest is None or not rates[busiest]:
        return None
    try:
        spec = specs[busiest]
        return _looked_at(case, spec, case.store.tallies(spec, [key])[key])
    except Missing:
        return None  # dropped meanwhile


def _rates(
    case: Checkup, key: str, windows: list[Window], specs: dict[str, Spec]
) -> dict[str, float]:
    """The key's events a second in each of these windows."""
    until = window_id(windows[-1].end)
    sums = {each.window: each.n for each in case.totals.of_key(key, windows[0].id, until)}
    for window in windows:
        if not window.status.sealed:
            sums[window.id] = case.store.tallies(specs[window.id], [key])[key].n
    return {
        window.id: sums.get(window.id, 0) * 1_000 / (window.end - window.start)
        for window in windows
    }


def _looked_at(case: Checkup, spec: Spec, tally: Tally) -> _Seen | None:
    """Some groups of the log, evenly from the busiest sixtieth of the window; if nothing was
    logged in them, some in which it was.
    """
    if not tally.series:
        return None
    sixtieth, events = max(tally.series, key=lambda each: each[1])
    length = (spec.end - spec.start) / SERIES_SLOTS
    begin, end = spec.start + sixtieth * length, spec.start + (sixtieth + 1) * length
    rule = spec.logs[tally.key]
    group_ms = rule.slot_ms * rule.slots
    first, last = int(begin // group_ms), int((end - 1) // group_ms)
    evenly = range(first, last + 1, max(1, (last - first) // (GROUPS_READ - 1)))
    groups: Sequence[int] = evenly[:GROUPS_READ]
    name = partial(_first_slot, tally.key, rule)
    if not (leaves := _leaves(case, spec, map(name, groups))):
        known = first_leaves(case.store, spec, name(first), name(last))
        groups = sorted({group_of(leaf) for leaf in known})[:GROUPS_READ]
        leaves = _leaves(case, spec, map(name, groups))
    lasted = sum(
        min((group + 1) * group_ms, end) - max(group * group_ms, begin) for group in groups
    )
    sent = [entry.sent for leaf in leaves for entry in entries_in(leaf)]
    came = sum(begin <= at < end for at in sent)
    return _Seen(spec, events, came * 1_000 / lasted if groups else 0.0, tuple(leaves))


def _first_slot(key: str, rule: LogRule, group: int) -> SlotName:
    return SlotName(key, group * rule.slots)


def _leaves(case: Checkup, spec: Spec, slots: Iterable[SlotName]) -> list[Record]:
    """The leaves of the slots' groups."""
    return [leaf for slot in slots for leaf in read_group(case.store, spec, slot)]

"""Transactions of tombstones: those of one window share them, and each event has a fate of its own.

What a cancelled transaction names is settled or tried apart, by key; the rest goes on together.
Next on the reading path: `ports/store.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, islice

from tallyroll.ingest.cost import WriteCost
from tallyroll.ingest.fates import Disposition, Fate, handed_back, rejected
from tallyroll.model.retractions import Tombstone, TombstoneName, decrements_of
from tallyroll.model.specs import Spec
from tallyroll.model.windows import WindowId
from tallyroll.ports.backoff import COMMIT_CONFLICT, COMMIT_THROTTLED, Backoff
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Answer, Element, Metering, Outcome, Store, Verdict
from tallyroll.reasons import Reason

Admit = Callable[[float, int], Fate | None]
"""Waits until there is room for a transaction of this cost, before a deadline (ms); None: there is,
else why it is handed back.
"""

LATE = handed_back("no time left to retract it")
Place = tuple[WindowId, TombstoneName]


@dataclass(frozen=True, slots=True)
class Found:
    """An event that was found: its tombstones, one for each of its keys, ascending."""

    spec: Spec
    tombstones: tuple[Tombstone, ...]

    @property
    def place(self) -> Place:
        """What no other event has."""
        return self.spec.window, self.tombstones[0].name

    @property
    def least_key(self) -> str:
        """The key of its first tombstone."""
        return self.tombstones[0].key

    @property
    def retracted(self) -> Fate:
        """Its fate if a transaction puts its tombstones."""
        return Fate(Disposition.RETRACTED, self.tombstones[0].digest)


@dataclass(frozen=True, slots=True)
class Batch:
    """Events of one window, to be retracted by one transaction; if tried again, after a wait."""

    events: tuple[Found, ...]
    attempt: int = 0
    backoff: Backoff = COMMIT_CONFLICT

    @property
    def tombstones(self) -> tuple[Tombstone, ...]:
        """Those of all events."""
        return tuple(stone for each in self.events for stone in each.tombstones)

    def cost(self, metering: Metering) -> float:
        """The cost of one attempt."""
        stones = self.tombstones
        shared = metering.shared_cost(len(decrements_of(stones)))
        return sum(map(metering.tombstone_cost, stones)) + shared

    def later(self, backoff: Backoff = COMMIT_CONFLICT) -> Batch:
        """The same after a wait."""
        return replace(self, attempt=self.attempt + 1, backoff=backoff)


@dataclass(slots=True)
class TombstoneRun:
    """The fates of events by their places, and what it took.

    Of a window that did not take them they are SHUT_OUT: its state decides.
    """

    fates: dict[Place, Fate] = field(default_factory=dict)
    cost: WriteCost = field(default_factory=WriteCost)


def batches_of(events: Sequence[Found], metering: Metering) -> list[Batch]:
    """Divide distinct events of one window into transactions that the store takes, so that those
    on one stripe of a tally are together.

    No transaction comes near the store's limit of bytes: a tombstone has less than 2 KB.
    """
    batches: list[Batch] = []
    chosen: list[Found] = []
    elements, stripes = 0, set[tuple[str, int]]()
    for each in sorted(events, key=lambda one: [(t.key, t.stripe, t.id) for t in one.tombstones]):
        more = {(stone.key, stone.stripe) for stone in each.tombstones}
        grown = elements + len(each.tombstones)
        if chosen and grown + len(stripes | more) > metering.elements_max:
            batches.append(Batch(tuple(chosen)))
            chosen, stripes, grown = [], set(), len(each.tombstones)
        chosen.append(each)
        elements, stripes = grown, stripes | more
    if chosen:
        batches.append(Batch(tuple(chosen)))
    return batches


def run(
    store: Store,
    events: Sequence[Found],
    effects: Effects,
    deadline: int,
    at_once: int,
    admit: Admit | None = None,
) -> TombstoneRun:
    """Retract distinct events, `at_once` transactions concurrently, each with its successors."""
    windows: dict[WindowId, list[Found]] = {}
    for each in events:
        windows.setdefault(each.spec.window, []).append(each)
    jobs = [
        partial(_lineage, store, batch, effects, deadline, admit)
        for group in windows.values()
        for batch in batches_of(group, store.metering_of(group[0].spec.table))
    ]
    done = TombstoneRun()
    for part in effects.together(jobs, at_once):
        done.fates.update(part.fates)
        done.cost += part.cost
    return done


def _lineage(
    store: Store, batch: Batch, effects: Effects, deadline: int, admit: Admit | None
) -> TombstoneRun:
    """One batch, and what remains of it, until all is decided."""
    done, due = TombstoneRun(), [batch]
    spec = batch.events[0].spec
    metering = store.metering_of(spec.table)
    while due:
        current = due.pop(0)
        if current.attempt:
            effects.sleep(current.backoff.wait_ms(current.attempt - 1, effects.chance))
        cost = current.cost(metering)
        fate = LATE if effects.now() >= deadline else admit(cost, deadline) if admit else None
        if fate:
            done.fates |= {each.place: fate for each in current.events}
            continue
        outcome = store.retract(spec, current.tombstones)
        done.cost += WriteCost(single=cost, requests_single=1)
        settled, again = after(current, outcome)
        done.fates |= {each.place: fate for each, fate in settled}
        due += again
    return done


Settled = list[tuple[Found, Fate]]


def after(batch: Batch, outcome: Outcome) -> tuple[Settled, list[Batch]]:
    """What follows from a batch's outcome: fates, and batches that remain."""
    match outcome.verdict:
        case Verdict.COMMITTED:
            return [(each, each.retracted) for each in batch.events], []
        case Verdict.GATE_SHUT | Verdict.GATE_MISSING:
            shut_out = Fate(Disposition.SHUT_OUT, detail=outcome.verdict)
            return [(each, shut_out) for each in batch.events], []
        case Verdict.CANCELLED:
            return _sorted_out(batch, outcome)
        case Verdict.UNKNOWN:
            return [], [batch.later(COMMIT_THROTTLED)]
        case Verdict.THROTTLED:
            return [], [part.later(COMMIT_THROTTLED) for part in _by_key(batch, batch.events)]
    return _bisected(batch, batch.events, outcome.detail)


def _sorted_out(batch: Batch, outcome: Outcome) -> tuple[Settled, list[Batch]]:
    """Settle what the answers decide; of the rest, what they name is tried apart."""
    settled: Settled = []
    free: list[Found] = []
    held: list[Found] = []
    for each, own, stripes in _answers(batch, outcome):
        answers = {element.answer for element in own}
        if Answer.DUPLICATE in answers:
            settled.append((each, replace(each.retracted, kind=Disposition.DUPLICATE)))
        elif Answer.INVALID in answers:
            settled.append((each, rejected(Reason.REFUSED_BY_STORE, outcome.detail)))
        elif any(element.answer is not Answer.FINE for element in (*own, *stripes)):
            held.append(each)
        else:
            free.append(each)
    if not settled and any(each.answer is Answer.INVALID for each in outcome.increments):
        return _bisected(batch, batch.events, outcome.detail)
    throttled = any(
        each.answer is Answer.THROTTLED for each in (*outcome.records, *outcome.increments)
    )
    backoff = COMMIT_THROTTLED if throttled else COMMIT_CONFLICT
    again = [part.later(backoff) for part in _by_key(batch, held)]
    if free:
        rest = replace(batch, events=tuple(free))
        again.insert(0, rest if settled or held else rest.later(backoff))
    return settled, again


def _answers(
    batch: Batch, outcome: Outcome
) -> list[tuple[Found, Sequence[Element], Sequence[Element]]]:
    """For each event, the answers for its tombstones and for their stripes."""
    decrements = decrements_of(batch.tombstones)
    places = [(each.key, each.stripe) for each in decrements]
    stripes = dict(zip(places, outcome.increments, strict=True))
    own = iter(outcome.records)
    return [
        (
            each,
            list(islice(own, len(each.tombstones))),
            [stripes[stone.key, stone.stripe] for stone in each.tombstones],
        )
        for each in batch.events
    ]


def _bisected(batch: Batch, events: Sequence[Found], detail: str) -> tuple[Settled, list[Batch]]:
    """Halve a batch that holds an invalid tombstone, until that fails alone."""
    half = len(events) // 2
    if not half:
        return [(events[0], rejected(Reason.REFUSED_BY_STORE, detail))], []
    return [], [replace(batch, events=tuple(part)) for part in (events[:half], events[half:])]


def _by_key(batch: Batch, events: Sequence[Found]) -> list[Batch]:
    """Batches of the events of one key each."""
    parts = groupby(
        sorted(events, key=lambda each: each.least_key), key=lambda each: each.least_key
    )
    return [replace(batch, events=tuple(part)) for _, part in parts]

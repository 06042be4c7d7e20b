"""Corrections of events that count in sealed windows, of a whole batch together."""

from __future__ import annotations

from collections.abc import Sequence

from tallyroll.errors import StoreError
from tallyroll.ingest.cost import WriteCost
from tallyroll.ingest.fates import Disposition, Fate, handed_back, rejected
from tallyroll.ingest.locating import Located
from tallyroll.ingest.tombstone_runs import LATE, Admit, Found
from tallyroll.limits import ACTION_UNITS
from tallyroll.model.totals import Correction
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Answer, Element
from tallyroll.ports.totals import Totals
from tallyroll.reasons import Reason

TOGETHER = 95  # of one key and window, that is a whole transaction
SUMS_OF_KEY = 4


def correction_of(found: Found, now: int) -> Correction:
    """The correction of an event that is stored in a sealed window, without a tombstone."""
    least, *_ = found.tombstones
    return Correction(
        found.spec.window,
        least.id,
        tuple(stone.key for stone in found.tombstones),
        n=least.n,
        amount=least.amount,
        digest=least.digest,
        at=now,
        by=least.by,
        why=least.why,
        index=least.index,
    )


def correction_proven(located: Located, now: int) -> Correction | None:
    """The correction of an event that an operator has proven in the archive of its window; a proof
    from before the event was claimed for that window is of another one.
    """
    retraction, authorized = located.retraction, located.authorized
    if not authorized or not authorized.proven or authorized.at < located.claimed_at:
        return None
    n, amount, digest = authorized.proven
    return Correction(
        located.window,
        retraction.id,
        retraction.keys,
        n=n,
        amount=amount,
        digest=digest,
        at=now,
        by=retraction.by,
        why=retraction.why,
        index=retraction.index,
    )


def corrected(
    totals: Totals,
    corrections: Sequence[Correction],
    deadline: int,
    effects: Effects,
    admit: Admit | None = None,
) -> tuple[list[Fate], WriteCost]:
    """Add corrections to the totals' sums; their fates, in order, and what it took.

    Those of one key and window are added together; a part that fails leaves the others alone.
    """
    fates, cost = [LATE] * len(corrections), WriteCost()
    order = sorted(range(len(corrections)), key=lambda at: _group(corrections[at]))
    for begin in range(0, len(order), TOGETHER):
        if effects.now() >= deadline:
            break
        numbers = order[begin : begin + TOGETHER]
        part = [corrections[number] for number in numbers]
        units = correction_units(part)
        refused = admit(units, deadline) if admit else None
        if not refused:
            cost += WriteCost(single=units, requests_single=1)
        answers = [refused] * len(part) if refused else _answered(totals, part)
        for number, fate in zip(numbers, answers, strict=True):
            fates[number] = fate
    return fates, cost


def correction_units(corrections: Sequence[Correction]) -> int:
    """The write units of these corrections in one transaction: each has an item, and each key and
    window has sums of the window, its day, its month, and the listing; all have a revision.
    """
    sums = {(key, each.window) for each in corrections for key in each.keys}
    return ACTION_UNITS * (len(corrections) + SUMS_OF_KEY * len(sums) + 1)


def _answered(totals: Totals, corrections: Sequence[Correction]) -> list[Fate]:
    try:
        answers = totals.correct(corrections)
    except StoreError as error:
        return [handed_back(str(error))] * len(corrections)
    return [_fate(made, answer) for made, answer in zip(corrections, answers, strict=True)]


def _group(correction: Correction) -> tuple[str, tuple[str, ...]]:
    return correction.window, correction.keys


def _fate(made: Correction, answer: Element) -> Fate:
    """An event's record never changes. So a stored correction of another content is of an event
    whose proof was wrong, its or this one's.
    """
    if answer.answer is Answer.FINE:
        return Fate(Disposition.RETRACTED, made.digest)
    if answer.digest == made.digest:
        return Fate(Disposition.DUPLICATE, made.digest)
    detail = f"another event of the id {made.id!r} is retracted in window {made.window}"
    return rejected(Reason.ID_CONFLICT, detail)

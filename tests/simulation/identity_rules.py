"""The rule of identities under a seed, and what happens to their table: it is away, and it forgets.

A day of the rule may last seconds, so that identities are deleted within a run. Copies then live
longer than AWS lets them; `identity_book` leaves those out of the promise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from tallyroll.adapters.dynamodb.items import Item
from tallyroll.model import ids
from tallyroll.model.records import Increment, Record
from tallyroll.model.specs import IdentityScope
from tallyroll.operations import redrive
from tallyroll.ports.store import LIMIT_OF_IDENTITIES, Answer, Element, Outcome, Verdict

DAY_SECONDS = 86_400
SHORT_DAY_SECONDS = 5  # of the shortest days; the longest have six times as many
DELETED_DAYS_MAX = 2  # "within a few days" after they expire (DynamoDB Developer Guide, TTL)
DAYS_MAX = 3
QUEUE_DAYS = 14  # how long SQS keeps a message at most: in the queue, and as a dead letter
AWAY_MS_MAX = 60_000
MISSING, THROTTLED = "missing", "throttled"
SCOPES = tuple(IdentityScope)


@dataclass(frozen=True, slots=True)
class Outage:
    """From when until when (ms after the start) the table of identities does not answer, and how:
    it is missing, or throttled.
    """

    since: int
    until: int
    how: str


@dataclass(frozen=True, slots=True)
class IdentityPlan:
    """The rule of the first deployment, whether later ones have others, and the length of a day."""

    scope: IdentityScope = IdentityScope.WINDOW
    changes: bool = False
    day_seconds: int = DAY_SECONDS
    outages: tuple[Outage, ...] = ()

    @property
    def remembers(self) -> bool:
        """Whether any window may have a rule beyond itself."""
        return self.changes or self.scope is not IdentityScope.WINDOW

    @property
    def forgets(self) -> bool:
        """Whether identities may be deleted within the run."""
        return self.day_seconds < DAY_SECONDS

    def first(self) -> Mapping[str, Any]:
        """The settings of the first deployment."""
        return _settings(self.scope, 1) if self.remembers else {}

    def later(self, chance: Random) -> Mapping[str, Any]:
        """Those of a later one."""
        if not self.remembers:
            return {}
        scope = SCOPES[int(chance.random() * len(SCOPES))] if self.changes else self.scope
        return _settings(scope, 1 + int(chance.random() * DAYS_MAX))

    def away(self, since_start: int) -> str:
        """How the table does not answer at a moment; "" if it does."""
        for outage in self.outages:
            if outage.since <= since_start < outage.until:
                return outage.how
        return ""


def shorten_days(patch: pytest.MonkeyPatch, plan: IdentityPlan, day_seconds: int) -> None:
    """Let a day last so many seconds: of the rule, and of SQS's retention as a redrive knows it."""
    patch.setattr(ids, "_DAY_SECONDS", day_seconds)
    if plan.forgets:
        patch.setattr(redrive, "QUEUE_RETENTION_MS_MAX", QUEUE_DAYS * day_seconds * 1000)


def _settings(scope: IdentityScope, days: int) -> Mapping[str, Any]:
    return {"identity": scope, "identity_days": days, "keep_identities": True}


def identity_plan(chance: Random, most_ms: int, *, gentle: bool) -> IdentityPlan:
    """The plan of a seed, whose producers send until `most_ms`: in half of them ids count once in
    each window, and nothing is remembered.
    """
    roll = chance.random
    if roll() < 0.5:
        return IdentityPlan()
    changes = roll() < 0.35
    scope = SCOPES[int(roll() * len(SCOPES))] if changes else SCOPES[1 + int(roll() * 2)]
    short = SHORT_DAY_SECONDS + int(5 * SHORT_DAY_SECONDS * roll())
    days = short if roll() < 0.5 else DAY_SECONDS
    away, since, lasting = roll(), int(roll() * most_ms), int(roll() * AWAY_MS_MAX)
    outages: tuple[Outage, ...] = ()
    if away < 0.4 and not gentle:
        outages = (Outage(since, since + lasting, MISSING if away < 0.2 else THROTTLED),)
    if roll() < 0.2 and not gentle:  # a first deployment makes the table late
        outages += (Outage(0, lasting, MISSING),)
    return IdentityPlan(scope, changes, days, outages)


def is_deleted(seed: int, name: str, item: Item, now: int, day_seconds: int) -> bool:
    """Whether DynamoDB has deleted an expired identity by now (ms)."""
    expires = int(item["expires"]["N"])
    if now < expires * 1000:
        return False
    late = DELETED_DAYS_MAX * day_seconds * Random(f"{seed} {name}").random()
    return now >= (expires + late) * 1000


def unanswered(how: str, records: Sequence[Record], increments: Sequence[Increment]) -> Outcome:
    """What becomes of a commit while the table of identities is away: as the DynamoDB adapter says
    it, a missing table is like a missing gate.
    """
    if how != THROTTLED:
        return Outcome(Verdict.GATE_MISSING, detail="identities: no such table")
    fine, slow = Element(Answer.FINE), Element(Answer.THROTTLED, limit=LIMIT_OF_IDENTITIES)
    answers = tuple(slow if record.identities else fine for record in records)
    return Outcome(Verdict.CANCELLED, answers, (fine,) * len(increments))

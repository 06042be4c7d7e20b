"""A vote night: twelve candidates, a Zipf-like skew, voters with ids of their own and booths that
pack.
"""

from __future__ import annotations

import json
import random
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tallyroll.client.packing import pack
from tallyroll.model.amounts import MICROS
from tallyroll.model.events import Event, event_body
from tallyroll.reasons import Reason

CANDIDATES = (
    "Ada",
    "Grace",
    "Edsger",
    "Barbara",
    "Donald",
    "Frances",
    "Alan",
    "Radia",
    "Niklaus",
    "Hedy",
    "Tony",
    "Margaret",
)
SKEW = 1.8  # the weight of the k-th candidate is k^-SKEW: the first takes more than half
PACKET_EVENTS = 200
LATE_VOTER = "voter-late"  # whose vote is planned to come too late
HOUR_MS = 3_600_000


@dataclass(slots=True)
class Truth:
    """What was truly cast: votes per candidate, and rejections by reason that must come of what was
    sent.
    """

    votes: Counter[str] = field(default_factory=Counter)
    singles: int = 0
    packed: int = 0
    messages: int = 0
    rejections: Counter[Reason] = field(default_factory=Counter)


class VoteNight:
    """Casts votes in the order of time; the same seed casts the same votes."""

    def __init__(self, seed: int, votes: int, singles: int, window_ms: int) -> None:
        self.truth = Truth()
        self._random = random.Random(seed)
        self._weights = [rank**-SKEW for rank in range(1, len(CANDIDATES) + 1)]
        self._votes = votes
        self.cast_so_far = 0
        self._single_share = singles / votes
        self._window_ms = window_ms
        self._voter = 0

    @property
    def over(self) -> bool:
        """Whether all votes are cast."""
        return self.cast_so_far == self._votes

    def cast(self, most: int, since: int, now: int) -> list[str]:
        """The message bodies of at most `most` votes, cast at times in (since, now] (ms)."""
        count = min(most, self._votes - self.cast_so_far)
        self.cast_so_far += count
        candidates = self._random.choices(CANDIDATES, self._weights, k=count)
        bodies: list[str] = []
        booths: list[Event] = []
        for number, candidate in enumerate(candidates, 1):
            ts = since + (now - since) * number // count
            self.truth.votes[candidate] += 1
            if self._random.random() < self._single_share:
                self._voter += 1
                self.truth.singles += 1
                bodies.append(self._single(candidate, f"voter-{self._voter:06d}", ts))
            else:
                self.truth.packed += 1
                booths.append(Event(candidate, None, ts, MICROS, None))
        bodies += pack(booths, self._uuid, events_max=PACKET_EVENTS, span_ms=self._window_ms)
        self.truth.messages += len(bodies)
        return bodies

    def mishaps(self, now: int) -> Iterator[str]:
        """Messages that no vote night is without; each but the first conflicting one is to be
        rejected.
        """
        conflicting = [
            {"id": "voter-twice", "key": "Ada", "ts": now, "payload": {"booth": booth}}
            for booth in (1, 2)
        ]
        self.truth.votes["Ada"] += 1
        self.truth.singles += 1
        mishaps: list[tuple[Reason | None, object]] = [
            (None, conflicting[0]),
            (Reason.ID_CONFLICT, conflicting[1]),
            (Reason.BAD_KEY, {"id": "voter-blank", "key": "", "ts": now}),
            (Reason.TS_IN_SECONDS, {"id": "voter-slow", "key": "Ada", "ts": now // 1000}),
            (Reason.TOO_LATE, {"id": LATE_VOTER, "key": "Ada", "ts": now - HOUR_MS}),
            (Reason.TOO_FAR_AHEAD, {"id": "voter-early", "key": "Ada", "ts": now + HOUR_MS}),
            (Reason.BAD_VALUE, {"id": "voter-many", "key": "Ada", "ts": now, "value": "ten"}),
        ]
        for reason, fields in mishaps:
            if reason:
                self.truth.rejections[reason] += 1
            yield json.dumps(fields)
        self.truth.rejections[Reason.NOT_JSON] += 1
        yield "I vote for Ada!"
        self.truth.messages += len(mishaps) + 1

    def _single(self, candidate: str, voter: str, ts: int) -> str:
        return event_body(Event(candidate, voter, ts, MICROS, None))

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

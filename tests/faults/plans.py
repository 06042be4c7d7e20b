"""Plans: which calls of a life meet which faults, and where its processes end."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.faults.injector import GOES_WELL, Blow, Call, Crash
from tests.faults.kinds import WRITES, Kind
from tests.faults.wire import params_of

NOTE = "/progress/segment-"  # in the URL of what says that a part of an archive is written


@dataclass
class Poison:
    """An event that kills the writers about to commit its record, `deaths` of them at most."""

    event_id: str
    deaths: int = sys.maxsize

    def kills(self, call: Call) -> bool:
        """Whether the process ends before this call."""
        if self.deaths < 1 or call.site.function != "DynamoStore.commit":
            return False
        if f'"e#{self.event_id}"' not in json.dumps(params_of(call.request)):
            return False
        self.deaths -= 1
        return True


@dataclass
class Seeded:
    """Faults by seed: many at a site's first calls, few later; each kind of a site in its turn."""

    seed: int
    often: float = 1.0
    seldom: float = 0.04
    crashes: float = 0.008
    first: int = 3
    active: bool = True
    may_crash: bool = True
    rival: Callable[[], None] | None = None
    _hits: dict[str, int] = field(default_factory=dict)
    _taken: set[tuple[str, Kind]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._chance = Random(self.seed)

    def blow(self, call: Call, kinds: tuple[Kind, ...]) -> Blow:
        """The plan's word for a call."""
        if not self.active:
            return GOES_WELL
        if self.may_crash and self._chance.random() < self.crashes:
            return Blow(before=crash) if self._chance.random() < 0.5 else Blow(after=crash)
        if self.rival and NOTE in call.request.url:
            rival, self.rival = self.rival, None
            return Blow(before=rival)
        if not kinds:
            return GOES_WELL
        name = str(call.site)
        hits = self._hits.get(name, 0)
        # Seldom possible, so taken when they are; the second in some lives only, for it ends a
        # row of tries and so keeps other kinds away.
        seldom = (Kind.NOT_SEEN_YET, Kind.CHANGING) if self.seed % 3 == 2 else (Kind.NOT_SEEN_YET,)
        for kind in seldom:
            if kind in kinds and (name, kind) not in self._taken:
                self._taken.add((name, kind))
                self._hits[name] = hits + 1
                return Blow(kind)
        if self._chance.random() >= (self.often if hits < self.first else self.seldom):
            return GOES_WELL
        self._hits[name] = hits + 1
        return Blow(kinds[(self.seed * self.first + hits) % len(kinds)])


def crash() -> None:
    """The process ends. Raises Crash."""
    raise Crash


@dataclass
class At:
    """One blow at one call of the life, by its number; and how the calls went by until then."""

    number: int
    one: Blow
    sites: list[str] = field(default_factory=list)

    def blow(self, call: Call, kinds: tuple[Kind, ...]) -> Blow:
        """The plan's word for a call."""
        self.sites.append(str(call.site))
        return self.one if call.number == self.number else GOES_WELL


@dataclass
class Only:
    """One kind at every second call from one site, and nowhere else; at every call if it leaves
    some of what was asked for done.
    """

    site: str
    kind: Kind
    _calls: int = 0

    def blow(self, call: Call, kinds: tuple[Kind, ...]) -> Blow:
        """The plan's word for a call."""
        if str(call.site) != self.site or self.kind not in kinds:
            return GOES_WELL
        self._calls += 1
        strikes = self._calls % 2
        if self.kind is Kind.TRUNCATED:
            strikes = 1
        if self.kind is Kind.UNPROCESSED and call.operation == "BatchGetItem":
            asked = params_of(call.request)["RequestItems"].values()
            strikes = sum(len(each["Keys"]) for each in asked) > 1
        return Blow(self.kind) if strikes else GOES_WELL


@dataclass
class LostReplies:
    """The replies to every `of`-th call that writes get lost, beginning with number `part`."""

    part: int
    of: int
    _writes: int = 0
    _again: str = ""

    def blow(self, call: Call, kinds: tuple[Kind, ...]) -> Blow:
        """The plan's word for a call."""
        if call.operation not in WRITES:
            return GOES_WELL
        if self._again == str(call.site):  # the same one once more
            self._again = ""
            return GOES_WELL
        self._writes += 1
        if self._writes % self.of != self.part:
            return GOES_WELL
        self._again = str(call.site)
        return Blow(Kind.REPLY_LOST)

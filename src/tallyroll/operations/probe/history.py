"""What several clients did and saw, as a history that `judging` can hold to what reads promise.

A history holds what clients know, and nothing that only a store could know: which records were
sent and since when, which of them were surely counted by when, and what each read answered between
its beginning and its end.

A *record* is what a store puts once: one event, or one packet of events. All times are ms of one
clock, amounts millionths.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

Kind = tuple[int, int]
"""What a record adds: events, and their sum."""
Identity = tuple[int, str, str]
"""A record's window (its start, ms), key and id: it counts once."""


class Rule(StrEnum):
    """What is judged of reads."""

    ABOVE = "never-above-sent"
    BELOW = "never-below-counted"
    BACKWARDS = "never-backwards"
    TORN = "events-fit-sum"
    STALE = "never-staler-than-cache"
    PARTS = "parts-make-the-whole"


@dataclass(frozen=True, slots=True)
class Sent:
    """A record of `n` events, at least one, that a client began to send at `at`; sent again it is
    the same record.
    """

    identity: Identity
    n: int
    amount: int
    at: int


@dataclass(frozen=True, slots=True)
class Counted:
    """Knowledge that a record was counted by `at`: its message was acknowledged, or a consistent
    read of the record found it.
    """

    identity: Identity
    n: int
    amount: int
    at: int


@dataclass(frozen=True, slots=True)
class Share:
    """What a read told of the windows that start in [since, until): of one, a day or a month."""

    since: int
    until: int
    n: int
    amount: int

    @classmethod
    def of_window(cls, start: int, n: int, amount: int) -> Share:
        """The share of the window that starts at `start` (ms)."""
        return cls(start, start + 1, n, amount)


@dataclass(frozen=True, slots=True)
class Read:
    """A read of a key over the windows that start in [since, until), by one client.

    `cache_ms` is how old the answer may be: 0 for a consistent read. A client is one process, with
    one cache, that reads one after the other: its answers to one question, the same range and
    `asked`, never shrink. `shares` are those of the windows, days and months that the answer tells
    apart; `missing` starts of windows that it could not read. `parted`: the shares tell all of the
    answer, so that a window without one is said to hold nothing. `as_of` is the time of the answer
    by its own word, if it tells one.
    """

    client: str
    key: str
    began: int
    ended: int
    n: int
    amount: int
    since: float = -inf
    until: float = inf
    cache_ms: int = 0
    shares: tuple[Share, ...] = ()
    missing: tuple[int, ...] = ()
    complete: bool = True
    parted: bool = True
    as_of: int | None = None
    asked: str = ""

    @property
    def since_when(self) -> int:
        """Since when the answer may be: all that was counted before is in it."""
        return self.began - self.cache_ms


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that is broken: what is wrong, and the times (ms) between which it was seen."""

    rule: Rule
    text: str
    first: int
    last: int
    reads: int = 1


@dataclass(slots=True)
class Verdict:
    """How often each rule was judged, how often that stayed undecided, and what was found."""

    judged: Counter[Rule] = field(default_factory=Counter)
    undecided: Counter[Rule] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def shortest(self, rule: Rule) -> Finding | None:
        """The finding of a rule with the shortest evidence: fewest reads, then least time."""
        found = [each for each in self.findings if each.rule is rule]
        return min(found, key=lambda each: (each.reads, each.last - each.first), default=None)


@dataclass(slots=True)
class History:
    """What clients did and saw. Clients may add to it side by side: lists grow atomically."""

    sent: list[Sent] = field(default_factory=list)
    counted: list[Counted] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)

"""The history of what several clients did and read, which `judge` compares with what reads promise.

A history holds only what clients know: when each record was sent first, by when it was certainly
counted, and what each read answered between its beginning and its end.

A *record* is what a store puts once: one event or one packet. All times are ms of one clock,
amounts are millionths.
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


class ReadRule(StrEnum):
    """The rules that reads must keep."""

    ABOVE = "never-above-sent"
    BELOW = "never-below-counted"
    BACKWARDS = "never-backwards"
    TORN = "events-fit-sum"
    STALE = "never-staler-than-cache"
    PARTS = "parts-make-the-whole"


@dataclass(frozen=True, slots=True)
class Fact:
    """A record of `n` events, at least one, and a time: when a client began to send it, or by when
    it was certainly counted. Sent again, it is the same record.
    """

    identity: Identity
    n: int
    amount: int
    at: int


@dataclass(frozen=True, slots=True)
class Share:
    """A read's answer for the windows that start in [since, until): one, a day's or a month's."""

    since: int
    until: int
    n: int
    amount: int

    @classmethod
    def of_window(cls, start: int, n: int, amount: int) -> Share:
        """The share of the window that starts at `start` (ms)."""
        return cls(start, start + 1, n, amount)


@dataclass(frozen=True, slots=True)
class ProbeRead:
    """A read of a key over the windows that start in [since, until), by one client.

    `cache_ms` is how old the answer may be, 0 for a consistent read. A client is one process with
    one cache that reads one after another: its answers to one question, the same range and `asked`,
    never shrink. `shares` are the windows, days and months that the answer lists; `missing` are the
    starts of windows that it could not read. With `parted`, the shares make up the whole answer, so
    that a window without a share is said to be empty. `as_of` is the time that the answer names, if
    it names one.
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
        """The earliest time of the answer: it must hold all that was counted before."""
        return self.began - self.cache_ms


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule: what is wrong, and the times (ms) between which it was seen."""

    rule: ReadRule
    text: str
    first: int
    last: int
    reads: int = 1


@dataclass(slots=True)
class ProbeVerdict:
    """How often each rule was judged, how often without a decision, and the findings."""

    judged: Counter[ReadRule] = field(default_factory=Counter)
    undecided: Counter[ReadRule] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def shortest(self, rule: ReadRule) -> Finding | None:
        """A rule's finding with the shortest evidence: fewest reads, then least time."""
        found = [each for each in self.findings if each.rule is rule]
        return min(found, key=lambda each: (each.reads, each.last - each.first), default=None)


@dataclass(slots=True)
class History:
    """What clients did and read. Clients may add to it concurrently: appends are atomic.

    A record is certainly counted once its message was acknowledged or a consistent read found it.
    """

    sent: list[Fact] = field(default_factory=list)
    counted: list[Fact] = field(default_factory=list)
    reads: list[ProbeRead] = field(default_factory=list)

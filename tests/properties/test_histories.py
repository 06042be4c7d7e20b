"""Laws of the judge of histories: what a right store shows is never found wrong, and each mistake
of a wrong one is found.

The store is a model: records are added to random stripes, one after the other, and readers look at
stripe after stripe meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyroll.operations.probe.history import Fact, History, ProbeRead, ReadRule, Share
from tallyroll.operations.probe.judge import judge
from tests.harness.pipeline import HOUR, START
from tests.tiers import examples

STRIPES, STEPS, CACHE_MS = 3, 300, 40
WINDOWS = (START, START + HOUR)
RADIX = 1_000
MISTAKES = {
    "counted twice": ReadRule.ABOVE,
    "an acknowledged record lost": ReadRule.BELOW,
    "a stripe read stale": ReadRule.BACKWARDS,
    "events and sum read apart": ReadRule.TORN,
    "half a packet": ReadRule.TORN,
    "cached for too long": ReadRule.STALE,
    "a window lost": ReadRule.BELOW,
    "a window told twice": ReadRule.PARTS,
}
Stripes = dict[tuple[int, int], tuple[int, int]]
"""(window, stripe) to (events, sum)."""


@dataclass
class Client:
    """A reader in the middle of a read: what it saw so far."""

    name: str
    began: int = -1
    cached: bool = False
    left: list[tuple[int, int]] = field(default_factory=list)
    seen: dict[int, tuple[int, int]] = field(default_factory=dict)
    last: ProbeRead | None = None


class Model:
    """One key's tallies, sent to and read by clients at once; `mistake` is made now and then."""

    def __init__(self, chance: Random, mistake: str = "") -> None:
        self.history = History()
        self._chance = chance
        self._mistake = mistake
        self._now = START
        self._stripes: Stripes = {}
        self._before: Stripes = {}
        self._flying: list[Fact] = []
        self._clients = [Client(name) for name in "abc"]

    def run(self, steps: int = STEPS) -> History:
        """Let some time pass."""
        for _ in range(steps):
            self._now += self._chance.randrange(4)
            roll = self._chance.random()
            if roll < 0.15:
                self._send()
            elif roll < 0.3 and self._flying:
                self._count(self._flying.pop(self._chance.randrange(len(self._flying))))
            elif roll < 0.9:
                self._read(self._chance.choice(self._clients))
        return self.history

    def _errs(self, mistake: str) -> bool:
        return self._mistake == mistake and self._chance.random() < 0.5

    def _send(self) -> None:
        n = self._chance.choice((1, 1, 1, 5))
        weight = RADIX ** self._chance.randrange(3)
        identity = self._chance.choice(WINDOWS), "k", f"e{len(self.history.sent)}"
        record = Fact(identity, n, n * weight, self._now)
        self.history.sent.append(record)
        self._flying.append(record)
        if self._chance.random() < 0.2:
            self.history.sent.append(replace(record, at=self._now))  # once more: the same record

    def _count(self, record: Fact) -> None:
        parts = [(record.n, record.amount)]
        if self._errs("counted twice"):
            parts *= 2
        elif self._errs("an acknowledged record lost"):
            parts = []
        elif record.n > 1 and self._errs("half a packet"):
            parts = [(2, 2 * record.amount // record.n)]
        self._before = dict(self._stripes)
        for n, amount in parts:
            place = record.identity[0], self._chance.randrange(STRIPES)
            there = self._stripes.get(place, (0, 0))
            self._stripes[place] = (there[0] + n, there[1] + amount)
        if self._chance.random() < 0.7:
            self.history.counted.append(replace(record, at=self._now))

    def _read(self, client: Client) -> None:
        if client.began < 0:
            client.began, client.cached = self._now, self._chance.random() < 0.4
            client.left = [(window, stripe) for window in WINDOWS for stripe in range(STRIPES)]
            self._chance.shuffle(client.left)
            client.seen = dict.fromkeys(WINDOWS, (0, 0))
            kept_ms = CACHE_MS * 10 if self._errs("cached for too long") else CACHE_MS
            if client.cached and client.last and self._now - self._as_of(client.last) < kept_ms:
                again = replace(client.last, began=self._now, ended=self._now, cache_ms=CACHE_MS)
                self.history.reads.append(again)
                client.began = -1
        elif client.left:
            self._look(client, client.left.pop())
        else:
            self._answer(client)
            client.began = -1

    def _as_of(self, read: ProbeRead) -> int:
        assert read.as_of is not None
        return read.as_of

    def _look(self, client: Client, place: tuple[int, int]) -> None:
        n, amount = self._stripes.get(place, (0, 0))
        if self._errs("a stripe read stale"):
            n, amount = self._before.get(place, (0, 0))
        if self._errs("events and sum read apart"):
            n, _ = self._before.get(place, (0, 0))
        events, total = client.seen[place[0]]
        client.seen[place[0]] = (events + n, total + amount)

    def _answer(self, client: Client) -> None:
        shares = [Share.of_window(start, *sums) for start, sums in client.seen.items()]
        if self._errs("a window lost"):
            shares.pop()
        if self._errs("a window told twice"):
            shares.append(shares[0])
        read = ProbeRead(
            client.name,
            "k",
            client.began,
            self._now,
            sum(share.n for share in shares),
            sum(share.amount for share in shares),
            cache_ms=CACHE_MS if client.cached else 0,
            shares=tuple(shares),
            as_of=client.began,
        )
        self.history.reads.append(read)
        client.last = read


def broken(history: History) -> set[ReadRule]:
    return {finding.rule for finding in judge(history).findings}


@settings(max_examples=examples(150))
@given(st.integers(0, 2**32), st.integers(1, 2 * STEPS))
def test_a_right_store_is_never_found_wrong(seed: int, steps: int) -> None:
    verdict = judge(Model(Random(seed)).run(steps))
    assert verdict.findings == []
    assert not verdict.undecided


def all_broken(mistake: str, seeds: Iterable[int]) -> set[ReadRule]:
    return {rule for seed in seeds for rule in broken(Model(Random(seed), mistake).run())}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake: str) -> None:
    assert MISTAKES[mistake] in all_broken(mistake, range(20))


def test_the_model_shows_something() -> None:
    """Each rule is judged, reads overlap, and most of them see some of the records."""
    verdicts = [judge(Model(Random(seed)).run()) for seed in range(10)]
    assert {rule for verdict in verdicts for rule in verdict.judged} == set(ReadRule)
    history = Model(Random(1)).run()
    sizes = {read.n for read in history.reads}
    assert len(sizes) > 5
    assert any(
        one.began < other.began < one.ended for one in history.reads for other in history.reads
    )

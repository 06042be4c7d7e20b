"""Keeps all writers of a pipeline below its write rate. Imported only if there is one.

A writer reserves time for its transactions on a line that all writers share
(`tallyroll.ports.rate`), waits until that time, and runs them. It reserves at most a quarter of a
second at once, so that writers take turns. What it cannot run soon, it hands back until there is
room. If the line cannot be reached, it hands everything back: the table may take no more than the
rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from math import ceil
from threading import Lock

from tallyroll import limits
from tallyroll.errors import StoreError
from tallyroll.ingest.cost import commit_cost
from tallyroll.ingest.fates import Fate, handed_back
from tallyroll.ingest.transactions import Commit, CommitRun, run
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.rate import RateLine, Turn
from tallyroll.ports.store import Store

LEASE_MS = 250
PATIENCE_MS = 5_000  # longest wait for a lease
TIME_SHARE = 2  # of its time a writer takes leases in the first half
CLOCKS_APART_MS = 5_000  # of two writers, at most; clocks on AWS are apart by far less
COMMIT_COST_MAX = 10_000  # more than a transaction of 4 MB costs
_MS, _SECOND = 1_000, 1_000_000  # in microseconds
_DETAIL = "the write rate leaves no room for it now"


def span_of(cost: float, rate: int) -> int:
    """The microseconds that this cost takes of a line, at a `rate` a second."""
    return ceil(cost * _SECOND / rate)


def lease_turn(cost: float, rate: int, now: int, until: int) -> Turn:
    """The turn for this cost at `now` (ms), which must start by `until` (ms)."""
    longest = max(LEASE_MS * _MS, span_of(COMMIT_COST_MAX, rate))
    return Turn(
        RateLine.WRITES,
        span_of(cost, rate),
        asked=now * _MS,
        earliest=now * _MS,
        latest=min(now + PATIENCE_MS, until) * _MS,
        believed=(now + PATIENCE_MS + CLOCKS_APART_MS) * _MS + longest,
    )


def return_turn(cost: float, rate: int, now: int, room_at: int) -> Turn:
    """The turn of what is handed back at `now` (ms), when the line of writes has no room before
    `room_at` (microseconds). It comes back within the longest wait of a message.
    """
    most = limits.VISIBILITY_SECONDS_MAX * _SECOND
    latest = now * _MS + most
    return Turn(
        RateLine.RETURNS,
        min(most, span_of(cost, rate)),
        asked=now * _MS,
        earliest=min(room_at, latest),
        latest=latest,
        believed=latest + most + CLOCKS_APART_MS * _MS,
    )


def affordable(costs: Sequence[float], most: float) -> int:
    """How many of the first of these costs are at most `most` together; at least one, since a
    single transaction may cost more than a lease.
    """
    return max(1, sum(1 for _ in takewhile(lambda total: total <= most, accumulate(costs))))


def returned(
    commits: Iterable[Commit], costs: Iterable[float], rate: int, start: int
) -> Iterator[tuple[Commit, Fate]]:
    """The fates of what waits for room, from `start` (microseconds) on, one after the other."""
    for commit, cost in zip(commits, costs, strict=True):
        yield commit, handed_back(_DETAIL, due=start // _MS)
        start += span_of(cost, rate)


@dataclass(slots=True)
class WriteAllowance:
    """What was leased and not spent; several threads spend it."""

    left: float
    _lock: Lock = field(default_factory=Lock)

    def pay(self, cost: float) -> bool:
        """Spend this, if as much is left; return whether it was."""
        with self._lock:
            if cost > self.left:
                return False
            self.left -= cost
            return True


@dataclass(frozen=True)
class Pacer:
    """Runs the commits of one writer at the shared rate: so much a second, in the store's own
    measure.
    """

    rate: int
    catalog: Catalog

    def run(
        self, store: Store, commits: Sequence[Commit], effects: Effects, deadline: int, at_once: int
    ) -> CommitRun:
        """Like `transactions.run`, with as much as there is room for; the rest is handed back.

        Each attempt is paid before it is sent. What a lease leaves over is forgotten.
        """
        done, left = CommitRun(), list(commits)
        costs = [_cost(commit, store) for commit in left]
        began = effects.now()
        until = began + (deadline - began) // TIME_SHARE
        while left:
            number = affordable(costs, self.rate * LEASE_MS / 1_000)
            leased = sum(costs[:number])
            turn = lease_turn(leased, self.rate, effects.now(), until)
            in_time = turn.earliest <= turn.latest
            try:
                start = self.catalog.take_turn(turn) if in_time else turn.earliest
            except StoreError as error:
                fate = handed_back(f"no write rate: {error}")
                _settle(done, ((commit, fate) for commit in left))
                break
            if start > turn.latest:
                back = return_turn(sum(costs), self.rate, effects.now(), start)
                with suppress(StoreError):  # then they come back at the same time as others
                    start = self.catalog.take_turn(back)
                _settle(done, returned(left, costs, self.rate, start))
                break
            effects.sleep(max(0, -(-start // _MS) - effects.now()))
            part = run(store, left[:number], effects, deadline, at_once, WriteAllowance(leased).pay)
            left = [*part.unpaid, *left[number:]]
            costs = [*(_cost(commit, store) for commit in part.unpaid), *costs[number:]]
            part.unpaid = []
            done.add(part)
        return done

    def admitted(self, effects: Effects, cost: float, deadline: int) -> Fate | None:
        """Wait until there is room for one more transaction, of this cost; None, or its fate if it
        is handed back.
        """
        turn = lease_turn(cost, self.rate, effects.now(), deadline)
        try:
            start = self.catalog.take_turn(turn)
        except StoreError as error:
            return handed_back(f"no write rate: {error}")
        if start > turn.latest:
            back = return_turn(cost, self.rate, effects.now(), start)
            with suppress(StoreError):  # as above
                start = self.catalog.take_turn(back)
            return handed_back(_DETAIL, due=start // _MS)
        effects.sleep(max(0, -(-start // _MS) - effects.now()))
        return None


def _cost(commit: Commit, store: Store) -> float:
    metering = store.metering_of(commit.spec.table)
    return commit_cost(commit.puts, commit.increments, metering).total


def _settle(done: CommitRun, settled: Iterable[tuple[Commit, Fate]]) -> None:
    for commit, fate in settled:
        for record in commit.records:
            done.fates[commit.spec.window, record.key, record.id] = fate

"""Whether writers keep to what they leased of the write rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallyroll.ingest.cost import commit_cost
from tallyroll.ingest.transactions import Commit
from tallyroll.ports.rate import RateLine, Turn
from tallyroll.ports.store import Metering

if TYPE_CHECKING:
    from tests.simulation.world import World

_SECOND = 1_000_000  # in microseconds
TINY = 1e-6


class Leases:
    """The spans that were given, and the write units that were spent on transactions.

    A request may be carried out long after it was sent, and a writer may stall. So what is checked
    does not depend on the time: no moment is given twice, and what is spent was leased before.
    """

    def __init__(self, world: World, write_rate: int) -> None:
        self._world = world
        self._write_rate = write_rate
        self._given: list[tuple[int, int]] = []
        self._leased_us = 0
        self._spent = 0.0

    def on_turn(self, turn: Turn, start: int) -> None:
        """A writer asked for a turn."""
        if turn.line is not RateLine.WRITES or start > turn.latest:
            return
        end = start + turn.span
        if any(start < other_end and other < end for other, other_end in self._given):
            self._world.fail(f"rate: {start} to {end} is given twice")
        self._given.append((start, end))
        self._leased_us += turn.span

    def on_spent(self, commit: Commit, metering: Metering) -> None:
        """A writer sent a transaction."""
        if not self._write_rate:
            return
        self._spent += commit_cost(commit.puts, commit.increments, metering).total
        leased = self._leased_us * self._write_rate / _SECOND
        if self._spent > leased + TINY:
            self._world.fail(f"rate: {self._spent} units are spent, {leased} were leased")

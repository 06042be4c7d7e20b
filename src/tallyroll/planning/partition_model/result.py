"""What a simulation gives: its course, second by second, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tallyroll.planning.partition_model.table import Floats, TableModel

HEAT_ROWS = 64
HEAT_COLUMNS = 120


@dataclass
class TimeSeries:
    """Numbers of each step of `seconds`: messages that came, that were counted, and that waited in
    the queue or with writers because a write was refused; partitions; write units taken. `heat` is
    the busiest partition's share of its limit, by ranges of hashes (rows) and time (columns).

    Where transactions are played, `refused` and `tried` count these, and `ages` has how long the
    oldest message waited that was counted in a step, s; at the end, also what is left counts.
    `reads_refused` are shares of the read units that counts ask for.
    """

    seconds: float
    came: list[float] = field(default_factory=list)
    counted: list[float] = field(default_factory=list)
    queued: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    partitions: list[int] = field(default_factory=list)
    units: list[float] = field(default_factory=list)
    heat: list[Floats] = field(default_factory=list)
    tried: list[float] = field(default_factory=list)
    ages: list[float] = field(default_factory=list)
    reads_refused: list[float] = field(default_factory=list)

    def delays(self) -> Floats:
        """By step, how long the message waited that was counted last, if the queue is in order, s;
        of messages that still wait at the end, how long they have waited.
        """
        came, counted = np.cumsum(self.came), np.cumsum(self.counted)
        times = np.arange(1, len(came) + 1) * self.seconds
        ahead = np.concatenate([[0.0], came])
        sent = np.interp(counted, ahead, np.concatenate([[0.0], times]))
        waiting = came - counted > 1e-6
        return np.where(waiting, np.maximum(0.0, times - sent), 0.0)

    @property
    def delay_max(self) -> float:
        """The longest delay, s."""
        found = self.delays()
        return float(found.max()) if len(found) else 0.0

    @property
    def refused_share(self) -> float:
        """The share of the steps in which writes were refused."""
        return float(np.mean(np.array(self.refused) > 0)) if self.refused else 0.0

    @property
    def refused_attempts(self) -> float:
        """The share of the attempts that were refused, if transactions are played."""
        return sum(self.refused) / max(1.0, sum(self.tried))

    @property
    def backlog(self) -> float:
        """Messages that wait at the end."""
        return float(sum(self.came) - sum(self.counted))

    def first_second_in_order(self) -> float | None:
        """From when on nothing was refused any more, s; None: never."""
        hot = np.flatnonzero(np.array(self.refused) > 0)
        if not len(hot):
            return 0.0
        last = (int(hot[-1]) + 1) * self.seconds
        return last if int(hot[-1]) + 1 < len(self.refused) else None


def heat_of(table: TableModel, units: Floats, seconds: float) -> Floats:
    """How much of its limit the busiest partition of each range of hashes takes."""
    shares = units / seconds / 1_000
    middles = (np.arange(HEAT_ROWS) + 0.5) / HEAT_ROWS
    at = np.minimum(np.searchsorted(table.bounds, middles), len(shares) - 1)
    found: Floats = shares[at].astype(np.float64)
    lower = np.concatenate([[0.0], table.bounds[:-1]])
    rows = np.minimum(((lower + table.bounds) / 2 * HEAT_ROWS).astype(int), HEAT_ROWS - 1)
    np.maximum.at(found, rows, shares)
    return found

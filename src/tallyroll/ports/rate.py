"""The write rate that all writers of a pipeline share, as lines of time.

A write unit takes a span of a line: 1 s divided by the rate. Who wants to write appends the span of
its units to the line's end, and writes from the span's start on. So writers never get more than the
rate allows, but for what one of them takes at once. Only the line's end is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class RateLine(StrEnum):
    """The lines of a pipeline: of writes, and of the messages that were handed back for them."""

    WRITES = "writes"
    RETURNS = "returns"


@dataclass(frozen=True, slots=True)
class Turn:
    """A span to append to a line; all times in microseconds, by the clock of the one who asks.

    The span starts at the line's end, but not before `earliest`. Nothing is appended if it would
    start after `latest`. At the time `asked`, an end after `believed` comes from a clock that was
    far ahead, or from a lower rate: it is ignored.
    """

    line: RateLine
    span: int
    asked: int
    earliest: int
    latest: int
    believed: int

    def read_at(self, now: int) -> Turn:
        """The turn once the line's end is read, which may take long. Meanwhile the others' turns
        went on: an end may lie as much later.
        """
        return replace(self, believed=self.believed + max(0, now - self.asked))

    def start_after(self, end: int | None) -> int:
        """The start of the span on a line with this end; None: the line is new."""
        if end is None or end < self.earliest or end > self.believed:
            return self.earliest
        return end

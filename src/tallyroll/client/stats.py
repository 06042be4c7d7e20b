"""A producer's numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    """What happened to events and messages so far; `Stats` says what each number is."""

    accepted: int = 0
    recovered: int = 0
    confirmed: int = 0
    failed: int = 0
    kept: int = 0
    messages: int = 0
    requests: int = 0
    retries: int = 0
    unknown: int = 0
    throttled: int = 0
    blocked: int = 0
    damaged: int = 0

    @property
    def waiting(self) -> int:
        """The number of events without an outcome."""
        return self.accepted + self.recovered - self.confirmed - self.failed - self.kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """A producer's numbers since it was made.

    Of the events that were `accepted`, or `recovered` from the spool, the queue has `confirmed`;
    `failed` were reported as not sent, `kept` were reported and are in the spool, and `waiting`
    have no outcome yet. The queue took `messages` in `requests`. `retries` counts messages that
    were sent again, `throttled` requests that were refused for load, `unknown` messages or requests
    whose outcome the queue did not tell, `blocked` sends that waited for room, `damaged` lines of
    the spool that could not be read. `held_bytes` is roughly what the buffer holds.
    """

    accepted: int
    recovered: int
    confirmed: int
    failed: int
    kept: int
    waiting: int
    messages: int
    requests: int
    retries: int
    unknown: int
    throttled: int
    blocked: int
    damaged: int
    held_bytes: int

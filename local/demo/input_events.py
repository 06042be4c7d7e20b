"""A user's own events for the demo: read once into a table on disk, checked, and added up.

The table (SQLite, a temporary file) keeps memory independent of the input's size, and knows the
truth by which the pipeline's answer is judged: distinct events per key, by their identity (window,
key, id).
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field

from tallyroll.client.jsonlines import LineSource, envelope_of
from tallyroll.client.packing import pack
from tallyroll.errors import Rejected, UsageError
from tallyroll.model.amounts import shown
from tallyroll.model.events import Event, digest, event_body
from tallyroll.model.ids import uuid7_time
from tallyroll.model.windows import Grid, Span
from tallyroll.reasons import Reason

WINDOWS_MAX = 100
BAD_LINES_KEPT = 20
REPORT_EVERY = 1_000
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
LENGTHS_SECONDS = (
    _HOUR,
    3 * _HOUR,
    6 * _HOUR,
    12 * _HOUR,
    _DAY,
    2 * _DAY,
    7 * _DAY,
    14 * _DAY,
    28 * _DAY,
    91 * _DAY,
    182 * _DAY,
    364 * _DAY,
)

_SCHEMA = """
CREATE TABLE event (line INTEGER PRIMARY KEY, key TEXT, id TEXT, ts INTEGER, at INTEGER,
                    amount TEXT, payload TEXT, digest BLOB, again INTEGER NOT NULL DEFAULT 0);
"""
_INSERT = """
INSERT INTO event (line, key, id, ts, at, amount, payload, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_REPEATS = """
SELECT later.line, first.line, later.digest = first.digest, later.id
FROM event AS later
JOIN (SELECT key, id, coalesce(at, :now) / :length AS place, min(line) AS line
      FROM event WHERE id IS NOT NULL GROUP BY key, id, place HAVING count(*) > 1) AS seen
  ON later.key = seen.key AND later.id = seen.id
     AND coalesce(later.at, :now) / :length = seen.place AND later.line > seen.line
JOIN event AS first ON first.line = seen.line
ORDER BY later.line
"""


@dataclass(frozen=True, slots=True)
class KeyTruth:
    """What the input says of one key: distinct events, and their values' sum in millionths."""

    events: int
    amount: int


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is left out: its number from 1, what stands there (cut short), and why."""

    number: int
    shown: str
    reason: Reason
    detail: str


@dataclass(slots=True)
class BadLines:
    """The first bad lines, and how many there were by reason."""

    first: list[BadLine] = field(default_factory=list)
    reasons: Counter[Reason] = field(default_factory=Counter)

    def add(self, number: int, line: str, rejected: Rejected) -> None:
        """Note a bad line."""
        self.reasons[rejected.reason] += 1
        if len(self.first) < BAD_LINES_KEPT:
            self.first.append(BadLine(number, shown(line), rejected.reason, rejected.detail))


class InputEvents:
    """The good lines of one input."""

    def __init__(self) -> None:
        self.bad = BadLines()
        self.lines = 0
        self._table = sqlite3.connect("")  # a temporary file of SQLite's own, gone when closed
        self._table.executescript(_SCHEMA)

    def read(self, path: str, now: int, skew_ms: int) -> Iterator[int]:
        """Read all lines, giving the number of events so far now and then.

        Raises UsageError if the file cannot be opened, UnreadableInput if it breaks off.
        """
        with closing(LineSource(path)) as source:
            for number, line in source.lines():
                try:
                    event = _event(line, now, skew_ms)
                except Rejected as rejected:
                    text = "" if line is None else line.decode(errors="replace").strip()
                    self.bad.add(number, text, rejected)
                    continue
                self._keep(number, event)
                if self.lines % REPORT_EVERY == 0:
                    yield self.lines
        yield self.lines

    def _keep(self, number: int, event: Event) -> None:
        row = (
            number,
            event.key,
            event.id,
            event.ts,
            _happened(event),
            str(event.amount),
            event.payload,
            digest(event),
        )
        self._table.execute(_INSERT, row)
        self.lines += 1

    def window_seconds(self, now: int) -> int:
        """The shortest usual length by which the input spans at most 100 windows. Raises
        UsageError.
        """
        first, last = self._table.execute("SELECT min(at), max(at) FROM event").fetchone()
        first, last = first if first is not None else now, last if last is not None else now
        for seconds in LENGTHS_SECONDS:
            if last // 1000 // seconds - first // 1000 // seconds < WINDOWS_MAX:
                return seconds
        raise UsageError(
            f"the input spans {(last - first) / 86_400_000:.0f} days, more than {WINDOWS_MAX}"
            f" windows of {LENGTHS_SECONDS[-1] // _DAY} days: is a ts wrong?"
        )

    def settle(self, window_seconds: int, now: int) -> int:
        """Find what stands twice: leave out other content under the same identity as bad, and give
        the number of exact repeats, which are sent and must be absorbed.
        """
        place = {"now": now, "length": window_seconds * 1000}
        repeats = 0
        for line, first, same, event_id in self._table.execute(_REPEATS, place).fetchall():
            if same:
                repeats += 1
                self._table.execute("UPDATE event SET again = 1 WHERE line = ?", (line,))
                continue
            why = f"id {event_id!r} stands in line {first} with another content"
            self.bad.add(line, self._body(line), Rejected(Reason.ID_CONFLICT, why))
            self._table.execute("DELETE FROM event WHERE line = ?", (line,))
            self.lines -= 1
        return repeats

    def _body(self, line: int) -> str:
        columns = "SELECT key, id, ts, amount, payload FROM event WHERE line = ?"
        key, event_id, ts, amount, payload = self._table.execute(columns, (line,)).fetchone()
        return event_body(Event(key, event_id, ts, int(amount), payload))

    def spans(self, grid: Grid) -> list[Span]:
        """The windows, ascending, in which dated events happened."""
        length = grid.lengths[0][1]
        places = self._table.execute(
            "SELECT DISTINCT at / ? FROM event WHERE at IS NOT NULL ORDER BY 1", (length,)
        )
        return [grid.at(place * length) for (place,) in places]

    def truth(self) -> dict[str, KeyTruth]:
        """What must be counted, by key."""
        truth: dict[str, KeyTruth] = {}
        rows = self._table.execute("SELECT key, amount FROM event WHERE NOT again")
        for key, amount in rows:
            before = truth.get(key, KeyTruth(0, 0))
            truth[key] = KeyTruth(before.events + 1, before.amount + int(amount))
        return truth

    def bodies(self, now: Callable[[], int], new_id: Callable[[], str]) -> Iterator[str]:
        """The messages: events with ids one by one, then the others packed, those without a time as
        of now.
        """
        columns = "SELECT key, id, ts, at, amount, payload FROM event"
        with_ids = self._table.execute(f"{columns} WHERE id IS NOT NULL ORDER BY line")
        for key, event_id, ts, _, amount, payload in with_ids:
            yield event_body(Event(key, event_id, ts, int(amount), payload))
        others = self._table.execute(f"{columns} WHERE id IS NULL ORDER BY line")
        yield from pack(
            (
                Event(key, None, now() if at is None else at, int(amount), payload)
                for key, _, _, at, amount, payload in others
            ),
            new_id,
        )

    def close(self) -> None:
        """Delete the table."""
        self._table.close()


def _event(line: bytes | None, now: int, skew_ms: int) -> Event:
    """The event of a line. Raises Rejected, also for what the pipeline would reject by now."""
    event, _ = envelope_of(line)
    if not isinstance(event, Event):
        raise Rejected(Reason.BAD_PACKET, "this is a packet: give single events here")
    happened = _happened(event)
    if happened is not None and happened > now + skew_ms:
        why = f"ts lies more than {skew_ms / 1000:g} s in the future"
        raise Rejected(Reason.TOO_FAR_AHEAD, why)
    return event


def _happened(event: Event) -> int | None:
    """When an event happened, ms, if it says so: its ts, else the time in its UUIDv7 id."""
    if event.ts is None and event.id:
        return uuid7_time(event.id)
    return event.ts

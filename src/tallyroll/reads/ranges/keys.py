"""All keys of a range of windows, each with its count, in one order: in pages, or one by one.

A page is exact as far as it goes. If a window cannot be read, or time runs out, it ends before the
first key that may be affected; it names the window, and its cursor goes on there.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tallyroll.errors import Missing, Rejected, StoreError, Throttled, Unknown, UsageError
from tallyroll.model.formats.fields import check_key
from tallyroll.model.states import Calendar
from tallyroll.model.totals import Corrections, Listed
from tallyroll.model.windows import Span, iso
from tallyroll.reads.counts import COUNT_MS, Count, sums_json
from tallyroll.reads.lookups import deadline_of
from tallyroll.reads.ranges.all_keys import ROWS_HELD, Unread
from tallyroll.reads.ranges.cursors import (
    KeysQuery,
    check_keys_query,
    keys_cursor,
    read_keys_cursor,
    secret_of,
)
from tallyroll.reads.ranges.largest import LargestReads
from tallyroll.reads.ranges.order import Stretch
from tallyroll.reads.ranges.spans import DAY_MS, calendar_of, range_of
from tallyroll.reads.ranges.walk import KeyWalk

KEYS_PAGE_MAX = 1_000
"""Keys of a page: with keys of 512 bytes it has at most 2.4 MB, of the 6 MB of an answer."""
COUNTED_AT_ONCE = 100
TRIES_MAX = 3  # of a walk that comes to no further key
RETRY_MS = 1_000


@dataclass(frozen=True, slots=True)
class KeysPage:
    """Keys of a range [since, until) in ms that begin with `prefix`, each with its count, as of a
    time (ms).

    `cursor` goes on behind them, and is None after the last. If the page is not `complete`, there
    are fewer than asked for, since the windows or days that are `missing` could not be read; the
    counts that are there are whole.
    """

    query: KeysQuery
    keys: tuple[Listed, ...]
    cursor: str | None
    missing: tuple[str, ...]
    as_of: int

    @property
    def complete(self) -> bool:
        """Whether it has as many keys as were asked for, or all that are left."""
        return not self.missing


class KeyReads(LargestReads):
    """All keys of ranges."""

    def keys_page(
        self,
        since: int | None = None,
        until: int | None = None,
        prefix: str = "",
        time_left_ms: int = COUNT_MS,
        *,
        limit: int = 100,
        cursor: str | None = None,
    ) -> KeysPage:
        """Up to `limit` keys that begin with `prefix` and have events in the windows that start in
        [since, until) in ms, both bounds of windows, from `cursor` on. Without both bounds, today's
        (UTC); without one, from the pipeline's first window, or to the end of the current one.

        A key that is written meanwhile appears if its place lies after the cursor. One whose events
        were all retracted has 0 events. Raises UsageError, also for a range that is read from over
        400 listings; Absent, Archived and StoreError.
        """
        if not 1 <= limit <= KEYS_PAGE_MAX:
            raise UsageError(f"limit {limit}: must be from 1 to {KEYS_PAGE_MAX}")
        check_prefix(prefix)
        now = self._effects.now()
        calendar = calendar_of(self._catalog)
        secret = secret_of(calendar)
        if cursor is None:
            query, last = KeysQuery(_span_of(calendar, now, since, until), prefix), ""
        else:
            query, last = read_keys_cursor(cursor, secret)
            check_keys_query(KeysQuery(query.span, prefix), query, since, until)
            _span_of(calendar, now, query.span.start, query.span.end)
        unread = Unread(self._effects, deadline_of(now, time_left_ms))
        rows = self._rows(query, last, unread, limit + 1)
        found: list[Listed] = []
        more = True
        try:
            while len(found) < limit and more:
                row = next(rows, None)
                if row is None:
                    more = False
                else:
                    found.append(row)
            more = more and next(rows, None) is not None
        except StoreError:
            if not unread.names:
                raise
        missing = tuple(sorted(unread.names)) if len(found) < limit else ()
        last = found[-1].key if found else last
        then = keys_cursor(secret, query, last) if more else None
        return KeysPage(query, tuple(found), then, missing, now)

    def keys(
        self, since: int | None = None, until: int | None = None, prefix: str = ""
    ) -> Iterator[Listed]:
        """All keys that `keys_page` lists, one after the other, in bounded memory.

        A read that fails is tried again from the last key on, three times at most; then it raises
        what the read raised, with the window's name. Raises what `keys_page` raises.
        """
        check_prefix(prefix)
        calendar = calendar_of(self._catalog)
        query = KeysQuery(_span_of(calendar, self._effects.now(), since, until), prefix)
        last, tries = "", TRIES_MAX
        while True:
            unread = Unread(self._effects, sys.maxsize)
            try:
                for row in self._rows(query, last, unread, ROWS_HELD):
                    last, tries = row.key, TRIES_MAX
                    yield row
            except (Throttled, Unknown, Missing) as error:
                tries -= 1
                if not tries:
                    named = ", ".join(sorted(unread.names)) or "the range"
                    after = f" after {last!r}" if last else ""
                    text = f"not all keys are listed: those{after} could not be read, of {named}"
                    raise type(error)(f"{text}: {error}", error.code) from error
                self._effects.sleep(RETRY_MS)
            else:
                return

    def _rows(self, query: KeysQuery, last: str, unread: Unread, wanted: int) -> Iterator[Listed]:
        ports = (self._store, self._catalog, self._totals, self._effects, self._specs)
        walk, stretch = KeyWalk(*ports), Stretch(query.prefix, last)
        parts = walk.checked(query.span, rolled=self._settings.rollups)
        apart: list[Listed] = []
        for at in range(0, len(stretch.apart), COUNTED_AT_ONCE):
            time_left = min(COUNT_MS, max(0, unread.deadline - self._effects.now()))
            keys = stretch.apart[at : at + COUNTED_AT_ONCE]
            for count in self.counts(
                keys, query.span.start, query.span.end, time_left, consistent=True
            ):
                if not count.complete:
                    unread.names.update(count.missing)
                    raise Throttled(f"{count.key!r} could not be counted", "Incomplete")
                before = Corrections(before=count.retracted)
                apart.append(Listed(count.key, count.events, count.amount, corrections=before))
        yield from walk.rows(parts, stretch, apart, unread, wanted)

    @abstractmethod
    def counts(
        self,
        keys: Sequence[str],
        since: int | None = None,
        until: int | None = None,
        time_left_ms: int = COUNT_MS,
        *,
        consistent: bool = False,
        by_window: bool = False,
    ) -> list[Count]:
        """Count keys over one range."""


def check_prefix(prefix: str) -> None:
    """Raise UsageError unless it is empty, or keys may begin with it."""
    try:
        if prefix:
            check_key(prefix)
    except Rejected as rejected:
        raise UsageError(f"prefix of keys: {rejected.detail}") from None


def _span_of(calendar: Calendar, now: int, since: int | None, until: int | None) -> Span:
    """A range as `range_of` has it; without both bounds from the window in which the day (UTC)
    began to the end of the current one.
    """
    if since is None and until is None:
        since = calendar.grid.at(now // DAY_MS * DAY_MS).start
    return range_of(calendar, now, since, until)


def keys_page_json(page: KeysPage) -> dict[str, Any]:
    """A page as JSON; `cursor` is absent after the last, and `missing` if nothing is."""
    query = page.query
    answer: dict[str, Any] = {
        "since": iso(query.span.start),
        "until": iso(query.span.end),
        **({"prefix": query.prefix} if query.prefix else {}),
        "keys": [{"key": row.key, **sums_json(row)} for row in page.keys],
        "as_of": iso(page.as_of),
        "complete": page.complete,
    }
    if page.missing:
        answer["missing"] = list(page.missing)
    if page.cursor:
        answer["cursor"] = page.cursor
    return answer

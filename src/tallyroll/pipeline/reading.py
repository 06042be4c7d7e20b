"""`tallyroll.Reader`: the reads that services hold, with times as people write them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, tzinfo
from typing import TYPE_CHECKING, Literal, Self, cast, overload

from tallyroll.adapters.glances import glances_on
from tallyroll.errors import UsageError
from tallyroll.limits import TS_MS_MAX
from tallyroll.model.amounts import shown
from tallyroll.model.windows import parse_instant
from tallyroll.pipeline import Pipeline
from tallyroll.reads.counts import COUNT_MS
from tallyroll.reads.http import required_id, required_key
from tallyroll.reads.ranges.spans import date_ms
from tallyroll.reads.reader import PortReader
from tallyroll.reads.steps import zone_named
from tallyroll.settings import Settings

if TYPE_CHECKING:
    from tallyroll.model.totals import Listed
    from tallyroll.model.windows import WindowId
    from tallyroll.reads.counts import Count
    from tallyroll.reads.found import Events, FoundEvent, FoundSingle
    from tallyroll.reads.minutes import Minutes
    from tallyroll.reads.ranges.dated import EventMatches
    from tallyroll.reads.ranges.keys import KeysPage
    from tallyroll.reads.ranges.largest import TopOfRange, TotalOfAll
    from tallyroll.reads.ranges.pages import EventsPage
    from tallyroll.reads.series import Curve
    from tallyroll.reads.steps import StepName

When = int | str | date
"""A time: ms since the epoch, ISO 8601 text (in UTC if it has no zone), a window's id, a datetime
with a zone, or a date, which is its first moment in UTC.
"""


class Reader(PortReader):
    """Reads a pipeline from a service.

        reader = Reader.connect("votes")
        print(reader.count("Ada", since="2026-11-20T08:00Z").value)

    Make one for a process and keep it, since it caches counts. Each read takes times as `When`, and
    else what it takes in `tallyroll.reads`. Raises UsageError for what is no time, key or id.
    """

    _connected: Pipeline | None = None

    @classmethod
    def connect(
        cls,
        name: str | None = None,
        *,
        region: str | None = None,
        cache_url: str | None = None,
        bucket: str | None = None,
    ) -> Self:
        """A reader of the pipeline of this name, on AWS by boto3's usual environment and
        credentials, or on the local engine by its own environment.

        Without a name, of `TALLYROLL_NAME`; without a Region, in the environment's. Other settings
        are those of `TALLYROLL_...`, as for the command; `cache_url` is that of the shared cache
        (the `cache` extra), `bucket` that of archives. Raises UsageError for an illegal name or
        address. AWS is asked by the first read.
        """
        asked = {"name": name, "cache_url": cache_url, "bucket": bucket}
        named = {Settings.named(key): value for key, value in asked.items() if value is not None}
        made = Pipeline(Settings.from_env({**os.environ, **named}), region=region)
        ports = (made.store, made.catalog, made.totals)
        archives = made.archived_pages if made.settings.bucket else None
        given = (*ports, made.effects, glances_on(*ports), made.shared_cache, archives)
        reader = cls(made.settings, *given)
        reader._connected = made
        return reader

    def count(
        self,
        key: str,
        since: When | None = None,
        until: When | None = None,
        time_left_ms: int = COUNT_MS,
        *,
        consistent: bool = False,
        by_window: bool = False,
        eventual: bool = False,
    ) -> Count:
        """Count a key over the windows that begin in [since, until)."""
        [count] = self.counts(
            [key],
            since,
            until,
            time_left_ms,
            consistent=consistent,
            by_window=by_window,
            eventual=eventual,
        )
        return count

    def counts(
        self,
        keys: Sequence[str],
        since: When | None = None,
        until: When | None = None,
        time_left_ms: int = COUNT_MS,
        *,
        consistent: bool = False,
        by_window: bool = False,
        eventual: bool = False,
    ) -> list[Count]:
        """Count up to 100 keys by one read, in their order."""
        if isinstance(keys, str):  # a sequence, too: of its letters
            raise UsageError(f"keys {shown(keys)}: give a list of them, or count() the one")
        return super().counts(
            [required_key(key) for key in keys],
            *_range(since, until),
            time_left_ms,
            consistent=consistent,
            by_window=by_window,
            eventual=eventual,
        )

    def series(
        self,
        key: str,
        since: When | None = None,
        until: When | None = None,
        step: StepName = "hour",
        zone: tzinfo | str = UTC,
        time_left_ms: int = COUNT_MS,
    ) -> Curve:
        """A key's counts by the hour, day, week or month of a zone, such as `Europe/Berlin`."""
        found = zone_named(zone) if isinstance(zone, str) else zone
        return super().series(required_key(key), *_range(since, until), step, found, time_left_ms)

    def minutes(
        self,
        key: str,
        since: When | None = None,
        until: When | None = None,
        zone: tzinfo | str = UTC,
        time_left_ms: int = COUNT_MS,
    ) -> Minutes:
        """A key's events by the minute, in windows that are not sealed, and divide an hour."""
        found = zone_named(zone) if isinstance(zone, str) else zone
        return super().minutes(required_key(key), *_range(since, until), found, time_left_ms)

    def event(
        self,
        key: str,
        event_id: str,
        window: WindowId | None = None,
        ts: When | None = None,
        time_left_ms: int = COUNT_MS,
        *,
        archived: bool = False,
    ) -> FoundEvent:
        """An event of a window, or of the window of its time `ts`. With a bucket, it may be
        `archived`: then it is read from the archive of a dropped window.
        """
        name, at = (required_key(key), required_id(event_id)), _open(ts)
        return super().event(*name, window, at, time_left_ms, archived=archived)

    def event_on(
        self,
        key: str,
        event_id: str,
        day: When,
        time_left_ms: int = COUNT_MS,
        *,
        archived: bool = False,
    ) -> EventMatches:
        """The events with this id on a day in UTC: a date, or its text, such as `2026-11-20`."""
        name = (required_key(key), required_id(event_id))
        at = date_ms(day) if isinstance(day, str) else _ms(day)
        return super().event_on(*name, at, time_left_ms, archived=archived)

    def event_within(
        self,
        key: str,
        event_id: str,
        since: When | None = None,
        until: When | None = None,
        time_left_ms: int = COUNT_MS,
        *,
        archived: bool = False,
    ) -> EventMatches:
        """The events with this id in the windows that begin in [since, until)."""
        name, span = (required_key(key), required_id(event_id)), _range(since, until)
        return super().event_within(*name, *span, time_left_ms, archived=archived)

    def events(
        self,
        key: str,
        window: WindowId,
        time_left_ms: int = COUNT_MS,
        *,
        limit: int = 100,
        cursor: str | None = None,
        packed: bool = False,
    ) -> Events:
        """Up to `limit` events of a key in a window, from the `cursor` of another answer on."""
        return super().events(
            required_key(key), window, time_left_ms, limit=limit, cursor=cursor, packed=packed
        )

    @overload
    def events_within(
        self,
        key: str,
        since: When | None = None,
        until: When | None = None,
        *,
        packed: Literal[False] = False,
    ) -> Iterator[FoundSingle]: ...

    @overload
    def events_within(
        self,
        key: str,
        since: When | None = None,
        until: When | None = None,
        *,
        packed: bool = False,
    ) -> Iterator[FoundEvent]: ...

    def events_within(
        self,
        key: str,
        since: When | None = None,
        until: When | None = None,
        *,
        packed: bool = False,
    ) -> Iterator[FoundEvent]:
        """All events of a key in the windows that begin in [since, until), read page by page."""
        return super().events_within(required_key(key), *_range(since, until), packed=packed)

    def events_page(
        self,
        key: str,
        since: When | None = None,
        until: When | None = None,
        time_left_ms: int = COUNT_MS,
        *,
        limit: int = 100,
        cursor: str | None = None,
        packed: bool = False,
        archived: bool = False,
    ) -> EventsPage:
        """Up to `limit` of these events, from the `cursor` of another page on. With a bucket, it
        may be `archived`: then dropped windows are read from their archives.
        """
        return super().events_page(
            required_key(key),
            *_range(since, until),
            time_left_ms,
            limit=limit,
            cursor=cursor,
            packed=packed,
            archived=archived,
        )

    def events_by_time(
        self,
        key: str,
        since: When | None = None,
        until: When | None = None,
        time_left_ms: int = COUNT_MS,
        *,
        packed: bool = False,
    ) -> EventsPage:
        """All of these events by their times; at most 1,000 of them, and a megabyte."""
        return super().events_by_time(
            required_key(key), *_range(since, until), time_left_ms, packed=packed
        )

    def events_archived(
        self, key: str, since: When | None = None, until: When | None = None
    ) -> Iterator[FoundEvent]:
        """The same, packets unpacked, and of dropped windows from their proven archives.

        Of each such window in which the key has a total, the archive is read whole, and its events
        are given only if it verifies. One as Parquet needs the `load` extra. Raises UsageError
        without a bucket, ProofMismatch if an archive is not whole, not proven or not what the
        totals say, Archived if a window is dropped meanwhile: ask again.
        """
        from tallyroll.pipeline.archived_ranges import WholeRange  # noqa: PLC0415 (seldom needed)

        named, span, made = required_key(key), _range(since, until), self._connected
        if made is None or not made.settings.bucket:
            raise UsageError(
                "no bucket of archives: give it by Reader.connect(bucket=...), or set"
                " TALLYROLL_BUCKET"
            )
        ports = (made.catalog, made.totals, made.bucket, made.codec, made.effects)
        return WholeRange(self, *ports).events(named, *span)

    def top_within(
        self,
        since: When | None = None,
        until: When | None = None,
        n: int = 10,
        time_left_ms: int = COUNT_MS,
        *,
        by_amount: bool = False,
    ) -> TopOfRange:
        """The `n` largest keys of the windows that begin in [since, until)."""
        first, last = _range(since, until)
        return super().top_within(first, last, n, time_left_ms, by_amount=by_amount)

    def total(
        self,
        since: When | None = None,
        until: When | None = None,
        time_left_ms: int = COUNT_MS,
    ) -> TotalOfAll:
        """The total over all keys in the windows that begin in [since, until)."""
        return super().total(*_range(since, until), time_left_ms)

    def keys(
        self, since: When | None = None, until: When | None = None, prefix: str = ""
    ) -> Iterator[Listed]:
        """All keys with events in the windows that begin in [since, until), each with its count;
        today's (UTC) without both. Read page by page.
        """
        return super().keys(*_range(since, until), prefix)

    def keys_page(
        self,
        since: When | None = None,
        until: When | None = None,
        prefix: str = "",
        time_left_ms: int = COUNT_MS,
        *,
        limit: int = 100,
        cursor: str | None = None,
    ) -> KeysPage:
        """Up to `limit` of these keys, from the `cursor` of another page on."""
        return super().keys_page(
            *_range(since, until), prefix, time_left_ms, limit=limit, cursor=cursor
        )

    def follow(self, key: str, since: When | None = None) -> Iterator[FoundSingle]:
        """The events of a key in the windows that begin from `since` on, and each that counts, for
        ever.
        """
        return cast("Iterator[FoundSingle]", super().follow(required_key(key), _open(since)))


def _range(since: When | None, until: When | None) -> tuple[int | None, int | None]:
    return _open(since), _open(until)


def _open(when: When | None) -> int | None:
    return None if when is None else _ms(when)


def _ms(when: When) -> int:
    """A time in ms since the epoch. Raises UsageError."""
    if isinstance(when, str):
        return parse_instant(when)
    if isinstance(when, date) and not isinstance(when, datetime):
        return date_ms(when.isoformat())
    ms: object = when
    if isinstance(when, datetime):
        if when.tzinfo is None:
            raise UsageError(f"{when!r} has no time zone: add one, such as tzinfo=UTC")
        ms = round(when.timestamp() * 1000)
    if not isinstance(ms, int) or not 0 <= ms <= TS_MS_MAX:
        raise UsageError(f"time {when!r}: must be whole ms since the epoch, before the year 10000")
    return ms

"""A board: the largest keys of a range, and those that somebody follows, by two reads however many
they are.

Which keys are largest is read again after a second for each 1,000 of them; with their numbers, of
that time. Keys that are followed, or else the three largest, are counted each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tallyroll.errors import Archived, StoreError, UsageError
from tallyroll.model.periods import period_of
from tallyroll.model.windows import window_start
from tallyroll.operations.overview.kept import KeptAnswers
from tallyroll.operations.overview.ranking import Ranking
from tallyroll.ports.catalog import Catalog
from tallyroll.reads.counts import Count, sums_json
from tallyroll.reads.ranges.largest import TopOfRange, total_json
from tallyroll.reads.ranges.spans import calendar_of
from tallyroll.reads.reader import PortReader

LARGEST, FOLLOWED_MAX, COUNTED = 20, 70, 3
APART_MAX = 200  # windows of a range that are counted one by one
RANKED_MS, RANKED_KEY_MS, UNRANKED_MS = 1_000, 1, 15_000
STATE_MS, TIME_LEFT_MS = 2_000, 10_000
RANK_MS = 5_000  # what cannot be read by then is named, and read the next time

Ranked = tuple[TopOfRange | None, str, int]
"""The largest keys, or why they cannot be read; and after how many ms they are read again."""
LARGEST_KEYS = "the largest keys"


@dataclass(frozen=True, slots=True)
class BoardOf:
    """What a board shows: windows that start in [since, until) in ms, taken at the start of the
    window that holds them, None is open; the `n` largest keys, by events or by their sum.
    """

    since: int | None
    until: int | None
    by_sum: bool
    followed: Sequence[str] = ()
    n: int = LARGEST


class Board:
    """Reads boards of a pipeline."""

    def __init__(
        self, reader: PortReader, catalog: Catalog, ranking: Ranking, kept: KeptAnswers
    ) -> None:
        self._reader, self._catalog = reader, catalog
        self._ranking, self._kept = ranking, kept

    def read(self, of: BoardOf, now: int) -> dict[str, Any]:
        """A board at `now` (ms) as JSON. Raises UsageError, Absent and StoreError."""
        if len(of.followed) > FOLLOWED_MAX:
            raise UsageError(f"{len(of.followed)} keys: follow at most {FOLLOWED_MAX}")
        calendar = calendar_of(self._catalog)
        current = calendar.grid.at(now)
        since = None if of.since is None else calendar.grid.at(min(of.since, now)).start
        until = None if of.until is None else calendar.grid.at(of.until).start
        name = ("ranking", since, until, of.by_sum, of.n)
        ask = partial(self._rank, since, until, of)
        ranking, why, _ = self._kept.get(name, ask, lambda ranked: ranked[2])
        listed = ranking.largest if ranking else ()
        largest = [each.key for each in listed]
        begin = calendar.genesis if since is None else since
        apart = (now - begin) // (current.end - current.start) <= APART_MAX
        counts: list[Count] = []
        if keys := [*dict.fromkeys(of.followed)] or largest[:COUNTED]:
            counts = self._reader.counts(keys, since, until, TIME_LEFT_MS, by_window=apart)
        rows = {one.key: _count_json(one) for one in counts}
        for each in listed:
            rows.setdefault(each.key, {"key": each.key, **sums_json(each), **_read_json(ranking)})
        missing = dict.fromkeys(ranking.missing if ranking else (), "not read in time")
        missing |= {window: text for one in counts for window, text in one.why_missing.items()}
        if why:
            missing[LARGEST_KEYS] = why
        ask_state = partial(self._catalog.window, current.id)
        window = self._kept.get(("state", current.id), ask_state, STATE_MS)
        return {
            "now": now,
            "window": current.id,
            "state": window.status if window else "not made",
            "since": begin,
            "until": current.end if until is None else until,
            "as_of": min((one.as_of for one in counts), default=now),
            "complete": not missing,
            "missing": missing,
            "counts": [row | {"followed": key in of.followed} for key, row in rows.items()],
            "ranking": ranking and total_json(ranking) | _read_json(ranking),
        }

    def _rank(self, since: int | None, until: int | None, of: BoardOf) -> Ranked:
        try:
            top = self._ranking.top(since, until, of.n, RANK_MS, by_amount=of.by_sum)
        except StoreError as error:  # which may pass
            return None, str(error), RANKED_MS
        except (Archived, UsageError) as error:  # a range too long, or a store without tallies
            return None, str(error), UNRANKED_MS
        return top, "", max(RANKED_MS, RANKED_KEY_MS * top.keys)


def _read_json(of: TopOfRange | Count | None) -> dict[str, Any]:
    assert of
    return {"as_of": of.as_of, "complete": of.complete}


def _count_json(count: Count) -> dict[str, Any]:
    """A count, and when each part of it begins (ms), with its events; None: it is missing."""
    parts: list[tuple[int, int | None]] = [(window_start(name), None) for name in count.missing]
    parts += [(window_start(one.window), one.events) for one in count.windows]
    parts += [(period_of(one.period).start, one.events) for one in count.periods]
    said = {"key": count.key, **sums_json(count), **_read_json(count)}
    return {**said, "parts": sorted(parts, key=lambda part: part[0])}

"""The largest keys of a range of windows, and the total over all keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tallyroll.errors import UsageError
from tallyroll.limits import SKEW_MS_MAX
from tallyroll.model.amounts import Summed
from tallyroll.model.totals import Listed
from tallyroll.model.windows import Span, iso
from tallyroll.reads.counts import COUNT_MS, sums_json
from tallyroll.reads.lookups import TOP_MAX, Lookups, deadline_of
from tallyroll.reads.ranges.all_keys import AllKeys, Unread
from tallyroll.reads.ranges.spans import calendar_of, range_of
from tallyroll.reads.top import Largest
from tallyroll.settings import Settings


@dataclass(frozen=True, slots=True)
class TotalOfAll(Summed):
    """The events of all keys in a range, and their sum (`value`; `amount` in millionths), as of a
    time (ms); less what was `retracted` (events, amount). Windows that could not be read in time
    are `missing`, and not in it.
    """

    span: Span
    events: int
    amount: int
    missing: tuple[str, ...]
    as_of: int
    retracted: tuple[int, int] = (0, 0)

    @property
    def complete(self) -> bool:
        """Whether all windows are in it."""
        return not self.missing


@dataclass(frozen=True, slots=True)
class TopOfRange(TotalOfAll):
    """The `largest` keys of a range, and the sums over all its `keys`. If windows or days are
    `missing`, numbers of events are lower bounds, and other keys may be larger.
    """

    largest: tuple[Listed, ...] = ()
    keys: int = 0


class LargestReads(Lookups):
    """Largest keys, and totals over all keys."""

    _settings: Settings

    def top_within(
        self,
        since: int | None = None,
        until: int | None = None,
        n: int = 10,
        time_left_ms: int = COUNT_MS,
        *,
        by_amount: bool = False,
    ) -> TopOfRange:
        """The `n` keys with the most events, or the largest sums, in the windows that start in
        [since, until) in ms, both bounds of windows; ties in code point order. By default from the
        pipeline's first window to the current one.

        Raises UsageError, also for a range that is read from over 400 windows and days; Absent,
        Archived and StoreError.
        """
        if not 1 <= n <= TOP_MAX:
            raise UsageError(f"n {n}: must be from 1 to {TOP_MAX}")
        now = self._effects.now()
        span = range_of(calendar_of(self._catalog), now, since, until)
        reads, found = self._all_keys(), Largest(n, by_amount)
        unread = Unread(self._effects, deadline_of(now, time_left_ms))
        for batch in reads.sums(reads.parts(span, rolled=self._settings.rollups), unread):
            found.add(batch)
        return top_of(span, found, unread, now)

    def total(
        self,
        since: int | None = None,
        until: int | None = None,
        time_left_ms: int = COUNT_MS,
    ) -> TotalOfAll:
        """The total over all keys in the windows that start in [since, until) in ms, both bounds of
        windows; None is open. Raises what `top_within` does, but for the length of the range.
        """
        now = self._effects.now()
        grid = calendar_of(self._catalog).grid
        grid.check_range(since, until)
        end = grid.at(now + SKEW_MS_MAX).end if until is None else until
        if since is not None:
            grid.check_range(since, end)
        span = Span(since or 0, end)
        sums, missing = self._all_keys().total(span, deadline_of(now, time_left_ms))
        named = tuple(sorted(missing))
        return TotalOfAll(span, sums.n, sums.amount, named, now, sums.retracted)

    def _all_keys(self) -> AllKeys:
        return AllKeys(self._store, self._catalog, self._totals, self._effects, self._specs)


def top_of(span: Span, found: Largest, unread: Unread, now: int) -> TopOfRange:
    """The largest keys of a span, as of `now` (ms), without what is `unread`."""
    return TopOfRange(
        span=span,
        events=found.events,
        amount=found.amount,
        missing=tuple(sorted(unread.names)),
        as_of=now,
        retracted=found.retracted,
        largest=tuple(found.largest),
        keys=found.keys,
    )


def total_json(total: TotalOfAll) -> dict[str, Any]:
    """A total, or the largest keys with it, as JSON."""
    answer: dict[str, Any] = {
        "since": iso(total.span.start),
        "until": iso(total.span.end),
        **sums_json(total),
    }
    if isinstance(total, TopOfRange):
        answer["keys"] = total.keys
        answer["top"] = [{"key": key.key, **sums_json(key)} for key in total.largest]
    answer |= {"as_of": iso(total.as_of), "complete": total.complete}
    if total.missing:
        answer["missing"] = list(total.missing)
    return answer

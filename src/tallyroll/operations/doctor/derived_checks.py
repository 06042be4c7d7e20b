"""The doctor's checks of what is derived from totals: listings by window, and roll-ups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from unicodedata import normalize

from tallyroll.limits import LISTING_BUCKETS, TS_MS_MAX
from tallyroll.model.periods import (
    PeriodName,
    PeriodState,
    day_of,
    month_of,
    period_of,
    shown_name,
    windows_digest,
)
from tallyroll.model.states import Window
from tallyroll.model.tallies import retracted_of
from tallyroll.model.totals import Listed, Total
from tallyroll.model.windows import WindowId, window_id
from tallyroll.operations.doctor.checkup import (
    Checkup,
    Sign,
    finding,
    finding_of,
    fine,
    restoring,
    warning,
)
from tallyroll.operations.doctor.total_checks import KEYS_PER_READ, unlike_totals

LISTED_WINDOWS = 5
LISTED_ROWS = 100_000  # of all listings together, unless `deep`
DAYS, MONTHS = 7, 2
SAMPLED_KEYS = 20  # per period, two queries each
ROWS_PER_PAGE = 1_000
_RELIST = (
    "Counts read totals by key, which are checked under `totals`; roll-ups and `top` read the"
    " listing. Find out who else wrote to the totals, and put the items `~w.{name}.*` back"
    " as they were: {restoring}."
)
_NORMALIZE = (
    "Each spelling is a key of its own. Have producers send keys in one form, such as NFC; what is"
    " counted stays apart, and is to be added up."
)
_UNROLL = (
    "Set TALLYROLL_ROLLUPS=false on the aggregator: counts then read the windows' own totals. Find"
    " out who else wrote to the totals, and put them back as they were: {restoring}."
)


def listing(case: Checkup) -> Iterator[Sign]:
    """Listings of sealed windows have the windows' keys, events and amount, and equal the totals.

    Checks some rows of the newest windows, or all rows of all windows if `deep`.
    """
    sealed = [window for window in case.windows.values() if window.listed]
    chosen = sealed if case.deep else sealed[-LISTED_WINDOWS:]
    left, looked, spellings = LISTED_ROWS, 0, _Spellings()
    for window in reversed(chosen):
        if not case.deep and (window.keys or 0) > left:
            continue
        left, looked = left - (window.keys or 0), looked + 1
        yield from _of_window(case, window, spellings)
    for alike in spellings.alike.values():
        shown = ", ".join(map(ascii, sorted(alike)))
        text = f"{len(alike)} keys differ only by Unicode normalization: {shown}"
        yield warning(text, _NORMALIZE)
    rest = f"; {len(sealed) - looked:,} were not looked at (--deep)" if len(sealed) > looked else ""
    yield fine(f"listings of sealed windows that are whole: {looked:,}{rest}")


class _Spellings:
    """The keys that are the same text once normalized, among the first `LISTED_ROWS` texts."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self.alike: dict[str, set[str]] = {}

    def add(self, key: str) -> None:
        """Compare a key with those before."""
        text = normalize("NFC", key)
        first = self._first.get(text)
        if first is None and len(self._first) < LISTED_ROWS:
            self._first[text] = key
        elif first not in (None, key):
            self.alike.setdefault(text, {first}).add(key)


def _of_window(case: Checkup, window: Window, spellings: _Spellings) -> Iterator[Sign]:
    keys = events = amount = 0
    remedy = _RELIST.format(name=window.id, restoring=restoring(case.resources.totals.name))
    sampled = int(case.effects.chance.random() * LISTING_BUCKETS) + 1
    for bucket, page in _pages(case, window.id):
        for row in page:
            spellings.add(row.key)
        n, total = _sum(page)
        keys, events, amount = keys + len(page), events + n, amount + total
        rows = page if case.deep else page[: KEYS_PER_READ if bucket == sampled else 0]
        sums = {row.key: (row.n, row.amount) for row in rows}
        for text in islice(unlike_totals(case, window.id, sums, "listed"), 1):
            yield finding_of(window.id, text, remedy)
    by_listing, sealed = (keys, events, amount), (window.keys, window.events, window.amount)
    if by_listing != sealed:
        text = f"(keys, events, amount) by its listing {by_listing}, when sealed {sealed}"
        yield finding_of(window.id, text, remedy)


def rollups(case: Checkup) -> Iterator[Sign]:
    """Rolled-up days and months are the sums of their windows.

    Checks the windows that a period names, a day's sum over all keys, and some keys, for the last
    days and months, or for all of them if `deep`.
    """
    starts = [window.start for window in case.windows.values()]
    first, last = min(starts, default=0), max(starts, default=0)
    looked = 0
    for period_at, most in ((day_of, DAYS), (month_of, MONTHS)):
        periods = case.catalog.periods(period_at(first).name, period_at(last).name)
        rolled = [state for state in periods if state.complete]
        for state in rolled if case.deep else rolled[-most:]:
            looked += 1
            month = month_of(period_of(state.name).start).name
            revision = case.totals.revision(month)
            texts = list(_of_period(case, state))
            # The roller may have rolled it up again since, after a window was created in it; or
            # corrections were added.
            unchanged = (
                texts
                and case.catalog.periods(state.name, state.name) == [state]
                and case.totals.revision(month) == revision
            )
            if unchanged:
                name = shown_name(state.name)
                remedy = _UNROLL.format(restoring=restoring(case.resources.totals.name))
                yield from (finding(f"{name}: {each}", remedy) for each in texts)
    which = "all" if case.deep else "the last"
    yield fine(f"days and months ({which}) that are the sums of their windows: {looked:,}")


def _of_period(case: Checkup, state: PeriodState) -> Iterator[str]:
    period = period_of(state.name)
    until = min(period.end, TS_MS_MAX)
    windows = case.catalog.windows(period.start, until)
    named = (state.windows, state.digest)
    if named != (len(windows), windows_digest(window.id for window in windows)):
        yield f"it names {state.windows} windows, and has {len(windows)}, or others"
        return
    keys = sum(window.keys or 0 for window in windows)  # at least as many as rows
    if period.is_day and (case.deep or keys <= LISTED_ROWS):
        events = sum(window.events or 0 for window in windows)
        amount = sum(window.amount or 0 for window in windows)
        rows = _sum(row for _, page in _pages(case, state.name) for row in page)
        if rows != (events, amount):
            yield f"(events, amount) by its listing {rows}, by its windows {(events, amount)}"
    for key in _some_keys(case, windows[-1].id):
        totals = case.totals.of_key(key, window_id(period.start), window_id(until))
        by_windows = _sum(totals)
        sums = case.totals.periods_of_key(key, state.name, state.name)
        rolled = [(each.n, each.amount, each.epoch) for each in sums]
        if rolled != [(*by_windows, state.epoch)]:
            shown = rolled[0][:2] if rolled else "none"
            yield f"key {key!r}: (events, amount) {shown}, by its windows {by_windows}"
        made = retracted_of(each.corrections[:2] for each in totals)
        before = retracted_of(each.corrections.before for each in totals)
        if any(each.corrections != (*made, before) for each in sums):
            corrected = [tuple(each.corrections) for each in sums]
            yield f"key {key!r}: corrections {corrected}, by its windows {(*made, before)}"


def _pages(case: Checkup, name: WindowId | PeriodName) -> Iterator[tuple[int, list[Listed]]]:
    """The pages of a window's or day's listing, each with the number of its bucket."""
    for bucket in range(1, LISTING_BUCKETS + 1):
        for page in case.totals.listing(name, bucket, "", ROWS_PER_PAGE):
            yield bucket, page


def _sum(rows: Iterable[Listed | Total]) -> tuple[int, int]:
    n = amount = 0
    for row in rows:
        n, amount = n + row.n, amount + row.amount
    return n, amount


def _some_keys(case: Checkup, window: WindowId) -> list[str]:
    """Some keys of a window, from buckets that begin at a random one."""
    drawn = int(case.effects.chance.random() * LISTING_BUCKETS)
    numbers = [*range(drawn + 1, LISTING_BUCKETS + 1), *range(1, drawn + 1)]
    pages = (next(case.totals.listing(window, each, "", SAMPLED_KEYS), []) for each in numbers)
    return [row.key for row in islice(chain.from_iterable(pages), SAMPLED_KEYS)]

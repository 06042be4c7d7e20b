"""The doctor's checks of what is derived from totals: listings by window, and roll-ups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

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
from tallyroll.model.totals import Listed
from tallyroll.model.windows import WindowId, window_id
from tallyroll.operations.doctor.checkup import Checkup, Level, Sign, fine

LISTED_WINDOWS = 5
LISTED_ROWS = 100_000  # of all listings together, unless `deep`
DAYS, MONTHS = 7, 2
SAMPLED_KEYS = 20  # per period, two queries each
ROWS_PER_PAGE = 1_000
KEYS_PER_READ = 100
_RELIST = (
    "Counts read totals by key, which are checked under `totals`; roll-ups and `top` read the"
    " listing. Find out who else wrote to the totals, and restore the items `~w.{name}.*` from a"
    " point in time before (`aws dynamodb restore-table-to-point-in-time`)."
)
_UNROLL = (
    "Set TALLYROLL_ROLLUPS=false on the aggregator: counts then read the windows' own totals. Find"
    " out who else wrote to the totals, and restore them from a point in time before"
    " (`aws dynamodb restore-table-to-point-in-time`)."
)


def listing(case: Checkup) -> Iterator[Sign]:
    """Listings of sealed windows have the windows' keys, events and amount, and equal the totals.

    Checks some rows of the newest windows, or all rows of all windows if `deep`.
    """
    sealed = [window for window in case.windows.values() if window.listed]
    chosen = sealed if case.deep else sealed[-LISTED_WINDOWS:]
    left, looked = LISTED_ROWS, 0
    for window in reversed(chosen):
        if not case.deep and (window.keys or 0) > left:
            continue
        left, looked = left - (window.keys or 0), looked + 1
        yield from _of_window(case, window)
    rest = f"; {len(sealed) - looked:,} were not looked at (--deep)" if len(sealed) > looked else ""
    yield fine(f"{looked:,} listings of sealed windows are whole{rest}")


def _of_window(case: Checkup, window: Window) -> Iterator[Sign]:
    keys = events = amount = 0
    remedy = _RELIST.format(name=window.id)
    sampled = int(case.effects.chance.random() * LISTING_BUCKETS) + 1
    for bucket in range(1, LISTING_BUCKETS + 1):
        for page in case.totals.listing(window.id, bucket, "", ROWS_PER_PAGE):
            keys += len(page)
            events += sum(row.n for row in page)
            amount += sum(row.amount for row in page)
            rows = page if case.deep else page[: KEYS_PER_READ if bucket == sampled else 0]
            for text in islice(_unlike(case, window.id, rows), 1):
                yield Sign(Level.FINDING, f"{window.id}: {text}", remedy, window.id)
    by_listing, sealed = (keys, events, amount), (window.keys, window.events, window.amount)
    if by_listing != sealed:
        text = f"(keys, events, amount) by its listing {by_listing}, when sealed {sealed}"
        yield Sign(Level.FINDING, f"{window.id}: {text}", remedy, window.id)


def _unlike(case: Checkup, window: WindowId, rows: Sequence[Listed]) -> Iterator[str]:
    for first in range(0, len(rows), KEYS_PER_READ):
        batch = rows[first : first + KEYS_PER_READ]
        stored = case.totals.of_window(window, [row.key for row in batch])
        for row in batch:
            total = stored.get(row.key)
            if total is None or (total.n, total.amount) != (row.n, row.amount):
                by_total = (total.n, total.amount) if total else "none"
                yield f"key {row.key!r}: listed {(row.n, row.amount)}, its total {by_total}"


def rollups(case: Checkup) -> Iterator[Sign]:
    """Rolled-up days and months are the sums of their windows.

    Checks the windows that a period names, a day's sum over all keys, and some keys, for the last
    days and months, or for all of them if `deep`.
    """
    starts = [window.start for window in case.windows.values()]
    first, last = min(starts, default=0), max(starts, default=0)
    looked = 0
    for begin, end, most in (
        (day_of(first).name, day_of(last).name, DAYS),
        (month_of(first).name, month_of(last).name, MONTHS),
    ):
        rolled = [state for state in case.catalog.periods(begin, end) if state.stands]
        for state in rolled if case.deep else rolled[-most:]:
            looked += 1
            texts = list(_of_period(case, state))
            # The roller may have rolled it up again since, after a window was created in it.
            if texts and case.catalog.periods(state.name, state.name) == [state]:
                name = shown_name(state.name)
                yield from (Sign(Level.FINDING, f"{name}: {each}", _UNROLL) for each in texts)
    which = "all" if case.deep else "the last"
    yield fine(f"{looked:,} days and months ({which}) are the sums of their windows")


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
        rows = _sums(case, state.name)
        if rows != (events, amount):
            yield f"(events, amount) by its listing {rows}, by its windows {(events, amount)}"
    for key in _some_keys(case, windows[-1].id):
        totals = case.totals.of_key(key, window_id(period.start), window_id(until))
        by_windows = (sum(total.n for total in totals), sum(total.amount for total in totals))
        sums = case.totals.periods_of_key(key, state.name, state.name)
        rolled = [(each.n, each.amount, each.epoch) for each in sums]
        if rolled != [(*by_windows, state.epoch)]:
            shown = rolled[0][:2] if rolled else "none"
            yield f"key {key!r}: (events, amount) {shown}, by its windows {by_windows}"


def _sums(case: Checkup, name: PeriodName) -> tuple[int, int]:
    n = amount = 0
    for bucket in range(1, LISTING_BUCKETS + 1):
        for page in case.totals.listing(name, bucket, "", ROWS_PER_PAGE):
            n += sum(row.n for row in page)
            amount += sum(row.amount for row in page)
    return n, amount


def _some_keys(case: Checkup, window: WindowId) -> list[str]:
    """Some keys of a window, from buckets that begin at a random one."""
    keys: list[str] = []
    drawn = int(case.effects.chance.random() * LISTING_BUCKETS)
    for bucket in range(LISTING_BUCKETS):
        number = (drawn + bucket) % LISTING_BUCKETS + 1
        page = next(case.totals.listing(window, number, "", SAMPLED_KEYS), [])
        keys += [row.key for row in page]
        if len(keys) >= SAMPLED_KEYS:
            break
    return keys[:SAMPLED_KEYS]

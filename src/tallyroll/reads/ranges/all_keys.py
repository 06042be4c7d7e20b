"""All keys of a range of windows: their sums in one order, and the total over them.

States are read first. A window that was sealed then has all its totals, and is read from their
listing; any other one is read from its tallies, also while it is being sealed: so no window is read
twice. A rolled-up day is read as a whole if its sums are those of the windows that were listed.
Corrections and revisions are read after the states. Each row is read less its corrections, and a
window whose corrections cannot be read is left out, with its day: so a key has no events too many.

Memory holds at most `ROWS_HELD` rows of listings and half as many again, `STRIPES_HELD` stripes and
half as many again, and `CORRECTED_MAX` sums of corrections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby

from tallyroll.errors import Archived, Missing, StoreError, Throttled, UsageError
from tallyroll.limits import LISTING_BUCKETS
from tallyroll.model.periods import day_of, month_of, period_of, shown_name, windows_digest
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status, Window
from tallyroll.model.tallies import Sum, gather, place_of, retracted_of
from tallyroll.model.totals import NO_CORRECTIONS, Corrections, Listed, net
from tallyroll.model.windows import Span, WindowId, iso
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.catalog_cache import CachedSpecs
from tallyroll.ports.effects import Effects
from tallyroll.ports.paging import STRIPES_HELD, merged
from tallyroll.ports.store import Store
from tallyroll.ports.totals import Totals
from tallyroll.reads.ranges.order import ALL, Stretch, rank, ranked
from tallyroll.reads.ranges.spans import dropped
from tallyroll.reads.top import listed_of

ROWS_HELD = 50_000
ROWS_PER_PAGE_MAX = 1_000
PARTS_MAX = 400  # of windows and days, each with 16 listings
CORRECTED_MAX = 50_000
READS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class RangeParts:
    """What a range is read from: rolled-up `days` with their epochs, other `sealed` windows, `live`
    windows with their specs; and the windows that may have corrections.
    """

    days: Mapping[str, int]
    sealed: Sequence[Window]
    live: Mapping[WindowId, Spec]
    corrected: Sequence[Window]

    def name_of(self, window: Window) -> str:
        """The name of what a window is read from: its day's, or its own."""
        day = day_of(window.start).name
        return day if day in self.days else window.id


@dataclass(eq=False)
class Unread:
    """The windows and days that could not be read to their end before `deadline` (ms)."""

    effects: Effects
    deadline: int
    names: set[str] = field(default_factory=set)

    def pages(self, name: str, pages: Iterator[list[Listed]]) -> Iterator[list[Listed]]:
        """The pages, up to the deadline or the first one that cannot be read."""
        while self.effects.now() < self.deadline:
            try:
                page = next(pages, None)
            except StoreError:
                break
            if page is None:
                return
            yield page
        self.names.add(name)

    def whole(self, name: str, pages: Iterator[list[Listed]]) -> Iterator[list[Listed]]:
        """All pages. Raises Throttled at the deadline, and StoreError if one cannot be read; the
        name is noted then.
        """
        while True:
            try:
                if self.effects.now() >= self.deadline:
                    raise Throttled(f"{name} could not be read in time", "OutOfTime")
                page = next(pages, None)
            except StoreError:
                self.names.add(name)
                raise
            if page is None:
                return
            yield page


@dataclass(eq=False)
class AllKeys:
    """Reads all keys of ranges."""

    store: Store
    catalog: Catalog
    totals: Totals
    effects: Effects
    specs: CachedSpecs

    def parts(self, span: Span, *, rolled: bool) -> RangeParts:
        """What a span is read from, with rolled-up days if `rolled`.

        Raises UsageError for a live window whose store keeps no tallies, Archived for a dropped
        window without listed totals, and Missing.
        """
        first, last = day_of(span.start).name, day_of(max(span.start, span.end - 1)).name
        states = self.catalog.periods(first, last) if rolled else []
        windows = self.catalog.windows(span.start, span.end)
        of_day = {
            name: list(some) for name, some in groupby(windows, lambda w: day_of(w.start).name)
        }
        days = {
            state.name: state.epoch
            for state in states
            if state.complete
            and (some := of_day.get(state.name))
            and all(_is_listed(window) for window in some)
            and state.digest == windows_digest(window.id for window in some)
            and span.start <= period_of(state.name).start
            and period_of(state.name).end <= span.end
        }
        sealed = [window for window in windows if _is_listed(window)]
        live = [window for window in windows if not _is_listed(window)]
        for window in live:
            if dropped(window):
                raise Archived(window.id, window.attempt.archive)
        months = self.totals.revisions()
        return RangeParts(
            days,
            [window for window in sealed if day_of(window.start).name not in days],
            self._specs_of(live),
            [
                window
                for window in windows
                if window.status.sealed and month_of(window.start).name in months
            ],
        )

    def _specs_of(self, live: Sequence[Window]) -> dict[WindowId, Spec]:
        """The specs of the windows that have begun. One that is being created has, if it has a
        spec: its gates may be open before its state says so.
        """
        specs = self.specs.specs([window.id for window in live])
        for window in live:
            if window.id not in specs:
                if window.status is Status.CREATING:
                    continue
                raise Missing(f"window {window.id} has opened just now: ask again", "NoSpec")
            if not self.store.metering_of(window.table).tallied:
                raise UsageError(
                    f"window {window.id} is {window.status}: its store keeps no tallies, so all its"
                    f" keys are known once it is sealed; give a range until {iso(window.start)}"
                )
        return specs

    def sums(self, parts: RangeParts, unread: Unread) -> Iterator[list[Listed]]:
        """The sums of all keys, less their corrections, each key once, in the order of `rank`. What
        could not be read is in `unread` at the end: numbers of events are lower bounds then. Raises
        UsageError if the range has more parts, or corrections, than memory should hold.
        """
        found = len(parts.days) + len(parts.sealed) + len(parts.live)
        if found > PARTS_MAX:
            raise UsageError(
                f"the range is read from {found:,} windows and rolled-up days, over {PARTS_MAX}:"
                " give a shorter one"
            )
        corrections = self._corrections(parts, unread)
        left_out = {parts.name_of(each) for each in parts.corrected if each.id in unread.names}
        unread.names |= {shown_of(name) for name in left_out}
        names = [*parts.days.items(), *((window.id, 0) for window in parts.sealed)]
        page = max(1, min(ROWS_PER_PAGE_MAX, ROWS_HELD // max(1, len(names) * LISTING_BUCKETS)))
        sources = [
            unread.pages(
                shown_of(name),
                ranked(_less(self._listing(name, epoch, bucket, page), corrections.get(name, {}))),
            )
            for name, epoch in names
            for bucket in range(1, LISTING_BUCKETS + 1)
            if name not in left_out
        ]
        stripes = STRIPES_HELD // max(1, len(parts.live))
        sources += [
            unread.pages(name, _less(self._tallies(spec, stripes), corrections.get(name, {})))
            for name, spec in parts.live.items()
            if name not in left_out
        ]
        for batch in merged(sources, rank, page, self.effects):
            rows = groupby(batch, lambda row: row.key)
            yield [net(added(key, list(some))) for key, some in rows]

    def _listing(
        self, name: str, epoch: int, bucket: int, limit: int, after: str = ""
    ) -> Iterator[list[Listed]]:
        for page in self.totals.listing(name, bucket, after, limit):
            if any(row.epoch != epoch for row in page):
                raise Throttled(f"{name} was rolled up again: ask again", "RolledUpAgain")
            yield page

    def _tallies(self, spec: Spec, held: int, of: Stretch = ALL) -> Iterator[list[Listed]]:
        """The keys of a live window, in pages of so many stripes; `gather` ends them in the order
        of `rank`.
        """
        page = max(1, held // spec.buckets)
        buckets = [
            self.store.stripes(spec, number, of.place_before, page)
            for number in range(1, spec.buckets + 1)
        ]
        begun: list[Sum] = []
        for batch in merged(buckets, place_of, page, self.effects):
            if ended := gather(begun, [each for each in batch if of.has(each.tally.key)]):
                yield list(map(listed_of, ended))
            if of.is_past(batch[-1].place):
                break
        if begun:
            yield list(map(listed_of, reversed(begun)))

    def _corrections(
        self, parts: RangeParts, unread: Unread
    ) -> Mapping[str, Mapping[str, Corrections]]:
        """The sums of corrections, by the name of what they are to be subtracted from, and key."""
        found: dict[str, dict[str, Corrections]] = {}
        held = 0
        for window, page in self._corrected(parts.corrected, unread):
            of_part = found.setdefault(parts.name_of(window), {})
            held -= len(of_part)
            for row in page:
                of_part[row.key] = _both(of_part.get(row.key, NO_CORRECTIONS), row.corrections)
            held += len(of_part)
            if held > CORRECTED_MAX:
                raise UsageError(
                    f"the windows and days of the range have over {CORRECTED_MAX:,} corrected keys:"
                    " give a shorter one"
                )
        return found

    def _corrected(
        self, windows: Sequence[Window], unread: Unread
    ) -> Iterator[tuple[Window, list[Listed]]]:
        """The corrections of sealed windows, first pages side by side."""
        places = [
            (window, bucket) for window in windows for bucket in range(1, LISTING_BUCKETS + 1)
        ]
        for at in range(0, len(places), READS_AT_ONCE):
            some = [
                (window, unread.pages(window.id, self._of_bucket(window, bucket)))
                for window, bucket in places[at : at + READS_AT_ONCE]
            ]
            firsts: list[Callable[[], list[Listed]]] = [partial(next, each, []) for _, each in some]
            first = self.effects.together(firsts, READS_AT_ONCE)
            for (window, rest), page in zip(some, first, strict=True):
                yield window, page
                for more in rest:
                    yield window, more

    def _of_bucket(
        self, window: Window, bucket: int, after: str = "", limit: int = ROWS_PER_PAGE_MAX
    ) -> Iterator[list[Listed]]:
        """The corrections in a bucket. Tallies know what was retracted before the seal."""
        for page in self.totals.corrected(window.id, bucket, after, limit):
            if _is_listed(window):
                yield page
            else:
                later = [row.corrections._replace(before=(0, 0)) for row in page]
                pairs = zip(page, later, strict=True)
                yield [Listed(row.key, 0, 0, corrections=one) for row, one in pairs]

    def total(self, span: Span, deadline: int) -> tuple[Listed, set[str]]:
        """The sum over all keys of a span, from the sums in the states of its sealed windows, and
        the names of those windows that could not be read in time: they are not in it.
        """
        parts = self.parts(span, rolled=False)
        unread = Unread(self.effects, deadline)
        sums = {
            window.id: Listed("", window.events or 0, window.amount or 0) for window in parts.sealed
        }
        for name, spec in parts.live.items():
            sums[name] = Listed("", 0, 0)
            for page in unread.pages(name, self._tallies(spec, STRIPES_HELD)):
                sums[name] = added("", [sums[name], *page])
        for window, page in self._corrected(parts.corrected, unread):
            sums[window.id] = added("", [sums[window.id], *page])
        whole = [one for name, one in sums.items() if name not in unread.names]
        return net(added("", whole)), unread.names


def shown_of(name: str) -> str:
    """A window's id, or a day as 2026-11-20."""
    return shown_name(name) if "#" in name else name


def _is_listed(window: Window) -> bool:
    return window.status.sealed and window.listed == LISTING_BUCKETS


def added(key: str, rows: Sequence[Listed]) -> Listed:
    """The sum of a key's rows, corrections apart."""
    corrections = NO_CORRECTIONS
    for row in rows:
        corrections = _both(corrections, row.corrections)
    n, amount = sum(row.n for row in rows), sum(row.amount for row in rows)
    return Listed(key, n, amount, corrections=corrections)


def _less(
    pages: Iterator[list[Listed]], corrections: Mapping[str, Corrections]
) -> Iterator[list[Listed]]:
    """Pages of rows with these corrections, by key."""
    for page in pages:
        yield [
            added(row.key, [row, Listed(row.key, 0, 0, corrections=corrections[row.key])])
            if row.key in corrections
            else row
            for row in page
        ]


def _both(one: Corrections, other: Corrections) -> Corrections:
    before = retracted_of((one.before, other.before))
    return Corrections(one.n + other.n, one.amount + other.amount, before)

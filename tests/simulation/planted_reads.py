"""Bugs of the aggregator's reads, and of the roll-ups that it reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from tallyroll.adapters.memory import MemoryCatalog, MemoryStore
from tallyroll.adapters.memory import catalog as memory_catalog
from tallyroll.lifecycle.rollups import RollUps
from tallyroll.limits import TS_MS_MAX
from tallyroll.model.specs import Spec
from tallyroll.model.states import Window
from tallyroll.model.windows import window_start
from tallyroll.pipeline import archived_pages
from tallyroll.ports.catalog import Catalog
from tallyroll.reads.counting.counter import Counter
from tallyroll.reads.counting.flights import KeptCounts
from tallyroll.reads.lookups import Lookups
from tallyroll.reads.merge import Merge
from tallyroll.reads.reader import PortReader
from tallyroll.reads.series import Steps

Patch = pytest.MonkeyPatch
BEYOND_MS = 30_000


def unprocessed_stripes_dropped(patch: Patch) -> None:
    """BatchGetItem gives a part, and nobody asks for the rest."""
    stripes_of = Spec.stripes_of
    tallies = MemoryStore.tallies

    def partly(self: Any, spec: Spec, keys: Any) -> Any:
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(Spec, "stripes_of", lambda spec, key: stripes_of(spec, key) - 1)
            return tallies(self, spec, keys)

    patch.setattr(MemoryStore, "tallies", partly)


def cached_beyond_its_promise(patch: Patch) -> None:
    keep = KeptCounts.__init__

    def keep_long(self: Any, kept_ms: int, *rest: Any) -> None:
        keep(self, kept_ms + BEYOND_MS, *rest)

    patch.setattr(KeptCounts, "__init__", keep_long)


def cached_though_consistent(patch: Patch) -> None:
    count = PortReader.counts

    def forgetful(self: Any, *asked: Any, consistent: bool, **named: Any) -> Any:
        del consistent
        return count(self, *asked, **named)

    patch.setattr(PortReader, "counts", forgetful)


def missing_windows_left_out(patch: Patch) -> None:
    """A smaller number is passed off as whole."""
    count = Counter._count

    def whole(self: Any, *asked: Any) -> Any:
        return replace(count(self, *asked), why_missing={})

    patch.setattr(Counter, "_count", whole)


def totals_read_before_the_states(patch: Patch) -> None:
    """A window that is sealed in between is in neither."""
    read = Counter.counts

    def hasty(self: Any, keys: Any, *rest: Any, **more: Any) -> Any:
        totals = self._totals
        found = [total for key in keys for total in totals.of_key(key, "", "99999999T999999Z")]
        self._totals = _Stale(totals, found)
        try:
            return read(self, keys, *rest, **more)
        finally:
            self._totals = totals

    patch.setattr(Counter, "counts", hasty)


def looked_up_on_another_shard(patch: Patch) -> None:
    """By today's N, and not by that of the record's window."""
    lookups_spec = Lookups._spec

    def resharded(self: Any, window: str) -> Spec | None:
        spec = lookups_spec(self, window)
        return spec and replace(spec, shards=spec.shards + 1, hot={})

    patch.setattr(Lookups, "_spec", resharded)


def first_record_of_an_archive_left_out(patch: Patch) -> None:
    """Its sums are right, and the page lacks an event."""
    cut = archived_pages._First.cut
    patch.setattr(archived_pages._First, "cut", lambda self: cut(self)[1:])


class _Stale:
    """Totals that were read a while ago."""

    def __init__(self, totals: Any, found: Any) -> None:
        self._totals = totals
        self._found = found

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._totals, verb)

    def of_key(self, key: str, since: str, until: str) -> Any:
        return [
            total for total in self._found if total.key == key and since <= total.window < until
        ]


def rolled_up_for_ever(patch: Patch) -> None:
    """A window of the past is created, and the sums of its day still stand."""
    create = MemoryCatalog.create

    def unseen(self: Any, window: Window, *calendar: Any) -> bool:
        with pytest.MonkeyPatch.context() as meanwhile:
            if window.accept_from is not None:
                meanwhile.setattr(memory_catalog, "periods_at", lambda _: ())
            return create(self, window, *calendar)

    patch.setattr(MemoryCatalog, "create", unseen)


def sums_of_a_day_counted_beside_its_windows(patch: Patch) -> None:
    patch.setattr(
        "tallyroll.reads.counting.plans.uncovered", lambda since, until, _: [(since, until)]
    )


def largest_keys_of_all_buckets_but_one(patch: Patch) -> None:
    """Found by the history alone: the oracle has no truth of the largest keys."""
    live = Lookups._add_live

    def short(self: Any, found: Any, spec: Spec, *more: Any) -> Any:
        return live(self, found, replace(spec, buckets=spec.buckets - 1), *more)

    patch.setattr(Lookups, "_add_live", short)


def largest_keys_by_an_old_sum(patch: Patch) -> None:
    """Events are those of now, sums those of an earlier look. Found by the history alone."""
    top = Lookups.top

    def torn(self: Any, *asked: Any, **named: Any) -> Any:
        before = {tally.key: tally.amount for tally in top(self, *asked, **named).largest}
        found = top(self, *asked, **named)
        largest = [
            replace(tally, amount=before.get(tally.key, tally.amount)) for tally in found.largest
        ]
        return replace(found, largest=tuple(largest))

    patch.setattr(Lookups, "top", torn)


def windows_read_before_the_periods_state(patch: Patch) -> None:
    """A window that is created between the two reads is never summed, and the sums stand."""
    run = RollUps.run

    def hasty(self: RollUps, *rest: Any) -> None:
        catalog: Any = self.catalog
        read: list[Window] = catalog.windows(0, TS_MS_MAX)

        class Earlier:
            def __getattr__(self, verb: str) -> Any:
                return getattr(catalog, verb)

            def windows(self, since: int, until: int) -> list[Window]:
                return [window for window in read if since <= window.start < until]

        run(replace(self, catalog=cast("Catalog", Earlier())), *rest)

    patch.setattr(RollUps, "run", hasty)


def cursor_that_skips_a_shard(patch: Patch) -> None:
    begin = Merge.__post_init__

    def hasty(self: Any, shards: Any) -> None:
        begin(self, [*shards][1:] if self.position.record_id else shards)

    patch.setattr(Merge, "__post_init__", hasty)


def window_in_two_steps(patch: Patch) -> None:
    """A step has the window that begins where it ends, too."""
    points_of = Steps.points

    def closed(self: Any, count: Any) -> Any:
        first = {window_start(one.window): one.events for one in count.windows}
        return tuple(
            replace(point, events=point.events + first.get(point.end, 0))
            for point in points_of(self, count)
        )

    patch.setattr(Steps, "points", closed)

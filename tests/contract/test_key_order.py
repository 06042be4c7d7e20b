"""Every store lists the keys of a stretch from its beginning: totals, corrections, stripes."""

from __future__ import annotations

from collections.abc import Iterable

from tallyroll.limits import LISTING_BUCKETS
from tallyroll.model.sharding import calculated
from tallyroll.model.tallies import Stripe, Sum, gather
from tallyroll.model.totals import Correction, Listed, Total
from tallyroll.reads.ranges.order import Stretch
from tests.contract.engines import START, WINDOW, Engine, counted, record

KEYS = ["a", "a-1", "a.1", "a.1.0", "a.\U0010ffffz", "a/", "a/b", "b", "é", "日本", "😀"]
STRETCHES = [
    Stretch(prefix, last)
    for prefix, last in (
        ("", "a.1.0"),
        ("", "é"),
        ("a/", ""),
        ("日本", ""),
        ("", "x" * 512),
    )
]


def expected(stretch: Stretch) -> set[str]:
    return {
        key
        for key in KEYS
        if key.startswith(stretch.prefix) and (not stretch.last or f"{key}/" > f"{stretch.last}/")
    } - {*stretch.apart}


def keys_of(pages: Iterable[list[Listed]]) -> list[str]:
    return [row.key for page in pages for row in page]


def test_totals_and_corrections_of_stretches(engine: Engine) -> None:
    engine.totals.put([Total(key, WINDOW, 1, 1) for key in KEYS])
    engine.totals.correct(
        [Correction(WINDOW, f"e{n}", (key,), 1, 1, b"d", START) for n, key in enumerate(KEYS)]
    )
    buckets = sorted({calculated(key, LISTING_BUCKETS) for key in KEYS})
    for read in (engine.totals.listing, engine.totals.corrected):
        for stretch in STRETCHES:
            found: list[str] = []
            for bucket in buckets:
                of_bucket = keys_of(stretch.of(read(WINDOW, bucket, stretch.row_before, 2)))
                assert of_bucket == sorted(of_bucket)
                found += of_bucket
            assert sorted(found) == sorted(expected(stretch))


def test_stripes_of_stretches(engine: Engine) -> None:
    spec = engine.opened()
    for n, key in enumerate(KEYS * 3):
        counted(engine.store, spec, record(spec, key, f"e{n}"))
    engine.closed(spec)
    for stretch in STRETCHES:
        stripes: list[Stripe] = []
        for bucket in range(1, spec.buckets + 1):
            for page in engine.store.stripes(spec, bucket, stretch.place_before, 2):
                stripes += [stripe for stripe in page if stretch.has(stripe.tally.key)]
        begun: list[Sum] = []
        ended = gather(begun, sorted(stripes, key=lambda stripe: stripe.place))
        found = {one.key: one.n for one in [*ended, *begun]}
        assert found == dict.fromkeys(expected(stretch), 3)

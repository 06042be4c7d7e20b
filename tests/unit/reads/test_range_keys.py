"""All keys of a range, page by page, against plain sums: rolled-up days, sealed windows, live ones,
corrections, keys that begin others, and reads that fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyroll.errors import Archived, Missing, Refused, Throttled
from tallyroll.limits import LISTING_BUCKETS
from tallyroll.model.sharding import calculated
from tallyroll.model.states import Attempt, Status
from tallyroll.model.totals import Correction, Listed
from tallyroll.reads.ranges import all_keys, walk
from tallyroll.reads.ranges.keys import KeysPage, keys_page_json
from tallyroll.reads.ranges.order import Stretch
from tallyroll.reads.ranges.walk import KeyWalk
from tests.harness.pipeline import HOUR, NOW, START, TIME_LEFT, Pipeline, hour, opened
from tests.harness.retracting import QUEUE, retraction
from tests.tiers import examples
from tests.unit.lifecycle.test_rollups import FIRST, MICROS, Days
from tests.unit.reads.conftest import LAST, by_hand

SINCE, UNTIL = START - 2 * HOUR, START + HOUR
NAMES = ["a", "a/b", "a.b", "a-1", "a.1", "a.1.0", "a!", "b", "ü", "日本", "a😀"]
KEYS = st.one_of(st.sampled_from(NAMES), st.text("a.1-é", min_size=1, max_size=4))
EVENTS = st.lists(st.tuples(KEYS, st.integers(0, 1)), max_size=25)


def of_rows(rows: list[Listed]) -> dict[str, int]:
    """The events of keys, each of which came once, in one order."""
    found = {row.key: row.n for row in rows}
    assert len(found) == len(rows)
    assert list(found) == sorted(found, key=lambda key: f"{key}/")
    return found


def pages(
    pipeline: Pipeline,
    limit: int,
    since: int = SINCE,
    until: int = UNTIL,
    prefix: str = "",
    between: Callable[[], object] = lambda: None,
) -> list[KeysPage]:
    """Pages up to the last, each of a new reader."""
    found = [pipeline.reader().keys_page(since, until, prefix, limit=limit)]
    while cursor := found[-1].cursor:
        between()
        page = pipeline.reader().keys_page(prefix=prefix, limit=limit, cursor=cursor)
        found.append(page)
        assert len(page.keys) <= limit
        assert len(found) < 200
    return found


def rows_of(found: list[KeysPage]) -> list[Listed]:
    return [row for page in found for row in page.keys]


def write(pipeline: Pipeline, events: list[tuple[str, int]]) -> Counter[str]:
    """Events of keys, each as many windows back; the plain sums of what counts."""
    bodies = [
        {"id": f"e{n}", "key": key, "ts": NOW - ago * HOUR} for n, (key, ago) in enumerate(events)
    ]
    assert pipeline.write(*bodies).events == len(events)
    return Counter(key for key, _ in events)


def seal(pipeline: Pipeline, window: str) -> None:
    pipeline.move(Status.CLOSING, window)
    pipeline.roller().run(TIME_LEFT)
    assert pipeline.state(window).status is Status.SEALED


@settings(max_examples=examples(50))
@given(
    EVENTS,
    st.integers(1, 7),
    st.sampled_from(["", "a", "a.", "a-1", "é", "none"]),
    st.lists(st.sampled_from([6, 7, 8]), unique=True),
)
@pytest.mark.parametrize("meanwhile", [False, True])
def test_pages_put_together_are_the_plain_sums(
    meanwhile: bool, events: list[tuple[str, int]], limit: int, prefix: str, sealed: list[int]
) -> None:
    """Windows are sealed before the first page, or one after each page."""
    pipeline = opened()
    counted = write(pipeline, events)
    left = [hour(number) for number in sealed]

    def seal_next() -> None:
        if left:
            seal(pipeline, left.pop())

    while left and not meanwhile:
        seal_next()
    expected = {key: n for key, n in counted.items() if key.startswith(prefix)}
    found = pages(pipeline, limit, prefix=prefix, between=seal_next)
    assert of_rows(rows_of(found)) == expected
    assert all(page.complete and len(page.keys) == limit for page in found[:-1])
    assert of_rows(list(pipeline.reader().keys(SINCE, UNTIL, prefix))) == expected


@pytest.mark.parametrize(
    ("limit", "held", "shift"), [(1, 50_000, 0), (4, 1, 5), (100, 1, 0), (100, 50_000, 5)]
)
def test_rolled_up_days_and_corrections(
    days: Days, monkeypatch: pytest.MonkeyPatch, limit: int, held: int, shift: int
) -> None:
    monkeypatch.setattr(walk, "ROWS_HELD", held)
    since = FIRST + shift * HOUR
    expected = {key: n for key, n in by_hand(days, since).items() if n}
    whole = rows_of(pages(days.pipeline, limit, since, LAST))
    assert {key: n for key, n in of_rows(whole).items() if n} == expected
    assert whole == list(days.pipeline.reader().keys(since, LAST))
    top = days.pipeline.reader().top_within(since, LAST)
    assert (len(whole), sum(row.n for row in whole)) == (top.keys, top.events)
    assert sum(row.amount for row in whole) == top.amount
    assert sum(row.retracted[0] for row in whole) == top.retracted[0] > 0
    below = rows_of(pages(days.pipeline, limit, since, LAST, "a."))
    assert below == [row for row in whole if row.key.startswith("a.")]


def test_what_was_retracted_before_the_seal_and_after_it() -> None:
    pipeline = opened(QUEUE)
    write(pipeline, [("a", 1), ("a", 0), ("b", 1), ("a.1", 1)])
    gone = (("a", "e0", 1), ("b", "e2", 1))
    pipeline.write(*(retraction(key=key, id=id_, ts=NOW - ago * HOUR) for key, id_, ago in gone))
    for _ in range(2):
        found = {row.key: (row.n, row.retracted[0]) for row in pipeline.reader().keys(SINCE, UNTIL)}
        assert found == {"a.1": (1, 0), "a": (1, 1), "b": (0, 1)}
        assert found == {row.key: (row.n, row.retracted[0]) for row in rows_of(pages(pipeline, 1))}
        if not pipeline.state(hour(7)).status.sealed:
            seal(pipeline, hour(7))
    pipeline.totals.correct([Correction(hour(7), "e3", ("a.1",), 1, MICROS, b"digest", 1)])
    assert keys_page_json(pipeline.reader().keys_page(SINCE, UNTIL))["keys"][0] == {
        "key": "a.1",
        "events": 0,
        "sum": "0",
        "retracted": {"events": 1, "sum": "1"},
    }


# --- planted mistakes


def skip_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    real = KeyWalk._listing

    def listing(self: KeyWalk, name: str, epoch: int, bucket: int, limit: int, after: str) -> Any:
        return (
            iter(())
            if after and bucket == calculated("b", 16)
            else real(self, name, epoch, bucket, limit, after)
        )

    monkeypatch.setattr(KeyWalk, "_listing", listing)


def count_nothing_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stretch, "apart", property(lambda _: []))


def miss_corrections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeyWalk, "_of_bucket", lambda *_: iter(()))


def swallow_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_keys.Unread, "whole", all_keys.Unread.pages)


@pytest.mark.parametrize("plant", [skip_a_bucket, count_nothing_apart, miss_corrections])
def test_planted_mistakes_are_found(
    days: Days, monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    whole = list(days.pipeline.reader().keys(FIRST, LAST))
    assert rows_of(pages(days.pipeline, 1, FIRST, LAST)) == whole
    plant(monkeypatch)
    assert rows_of(pages(days.pipeline, 1, FIRST, LAST)) != whole


# --- reads that fail


@pytest.fixture
def failing(days: Days, monkeypatch: pytest.MonkeyPatch) -> Days:
    """Of three walks through a bucket one fails at its first row, and one behind it."""
    real, walks = days.totals.listing, count()

    def listing(name: str, bucket: int, after: str, limit: int) -> Iterator[list[Listed]]:
        fails_at = 2
        if name == "day#20261101" and bucket == calculated("b", LISTING_BUCKETS):
            fails_at = next(walks) % 3
        for at, page in enumerate(real(name, bucket, after, 1)):
            if at == fails_at < 2:
                raise Throttled("slow down")
            yield page

    monkeypatch.setattr(days.totals, "listing", listing)
    return days


def test_a_page_ends_before_what_cannot_be_read_and_names_it(failing: Days) -> None:
    expected = {key: n for key, n in by_hand(failing).items() if n}
    found = pages(failing.pipeline, 3, FIRST, LAST)
    assert {key: n for key, n in of_rows(rows_of(found)).items() if n} == expected
    cut = [page for page in found if not page.complete]
    assert cut
    assert all(page.missing == ("2026-11-01",) and page.cursor for page in cut)


def test_failures_that_are_swallowed_are_found(
    failing: Days, monkeypatch: pytest.MonkeyPatch
) -> None:
    swallow_failures(monkeypatch)
    found = pages(failing.pipeline, 3, FIRST, LAST)
    assert sum(row.n for row in rows_of(found)) < by_hand(failing).total()


def test_an_iterator_tries_again_and_then_raises(
    days: Days, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = list(days.pipeline.reader().keys(FIRST, LAST))
    real, fails = days.totals.corrected, [2]

    def corrected(window: str, *rest: Any) -> Any:
        fails[0] -= 1
        if fails[0] >= 0:
            raise Throttled("slow down", "Slow")
        return real(window, *rest)

    monkeypatch.setattr(days.totals, "corrected", corrected)
    monkeypatch.setattr(days.pipeline.effects, "slept", [], raising=False)
    assert list(days.pipeline.reader().keys(FIRST, LAST)) == whole
    fails[0] = 10**9
    with pytest.raises(
        Throttled, match=r"not all keys are listed: .* of 2026.*: slow down"
    ) as error:
        list(days.pipeline.reader().keys(FIRST, LAST))
    assert error.value.code == "Slow"


def test_what_is_refused_for_good_is_not_tried_again(
    days: Days, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []

    def listing(*place: Any) -> Any:
        calls.append(place)
        raise Refused("not allowed", "AccessDenied")

    monkeypatch.setattr(days.totals, "listing", listing)
    with pytest.raises(Refused, match="not allowed"):
        next(days.pipeline.reader().keys(FIRST, LAST))
    assert len(calls) <= LISTING_BUCKETS * 26


def test_time_that_runs_out(days: Days) -> None:
    page = days.pipeline.reader().keys_page(FIRST, LAST, time_left_ms=0)
    assert (page.keys, page.complete) == ((), False)
    assert page.missing
    again = days.pipeline.reader().keys_page(cursor=page.cursor)
    assert list(again.keys) == list(days.pipeline.reader().keys(FIRST, LAST))


def test_the_states_cannot_be_read(days: Days, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise Throttled("slow down")

    monkeypatch.setattr(days.catalog, "windows", fail)
    with pytest.raises(Throttled):
        days.pipeline.reader().keys_page(FIRST, LAST)
    with pytest.raises(Throttled, match="of the range: slow down"):
        next(days.pipeline.reader().keys(FIRST, LAST))


# --- windows that change


def test_a_window_that_is_being_sealed_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = opened()
    counted = write(pipeline, [(key, 0) for key in NAMES for _ in range(2)])
    seal(pipeline, hour(8))
    sealed = pipeline.state(hour(8))
    again = pipeline.catalog.advance(replace(sealed, status=Status.CLOSING, listed=None))
    assert of_rows(rows_of(pages(pipeline, 2))) == counted
    real = KeyWalk.parts

    def twice(self: KeyWalk, *given: Any, **more: Any) -> Any:
        return replace(real(self, *given, **more), sealed=[again])

    monkeypatch.setattr(KeyWalk, "parts", twice)
    assert of_rows(list(pipeline.reader().keys(SINCE, UNTIL))) != counted, "counted twice, and seen"


def test_a_window_whose_table_is_dropped_between_pages_or_while_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = opened()
    counted = write(pipeline, [(key, 1) for key in NAMES])

    def drop() -> None:
        if pipeline.state(hour(7)).status is not Status.DROPPED:
            seal(pipeline, hour(7))
            pipeline.move(Status.DROPPED, hour(7), attempt=Attempt(archive="archive/7"))

    real = pipeline.store.stripes

    def stripes(spec: Any, *place: Any) -> Any:
        if spec.window == hour(7) and not pipeline.state(hour(7)).status.sealed:
            patch.undo()
            drop()
            raise Missing("no table")
        return real(spec, *place)

    with monkeypatch.context() as patch:
        patch.setattr(pipeline.store, "stripes", stripes)
        first, *rest = pages(pipeline, 3)
        assert (first.keys, first.missing) == ((), (hour(7),))
        assert of_rows(rows_of(rest)) == counted
    pipeline = opened()
    counted = write(pipeline, [(key, 1) for key in NAMES])
    assert of_rows(rows_of(pages(pipeline, 3, between=drop))) == counted
    state = pipeline.state(hour(7))
    pipeline.catalog.advance(replace(state, listed=None))
    with pytest.raises(Archived, match=hour(7)):
        pipeline.reader().keys_page(SINCE, UNTIL)


def test_a_key_that_is_written_meanwhile_comes_if_its_place_lies_ahead() -> None:
    pipeline = opened()
    write(pipeline, [(key, 0) for key in ("b", "d")])
    late = iter([["a", "bb"], ["cc"], ["e"]])

    def more() -> None:
        for key in next(late, []):
            pipeline.write({"id": "late", "key": key, "ts": NOW})

    found = rows_of(pages(pipeline, 1, between=more))
    assert [row.key for row in found] == ["b", "bb", "cc", "d", "e"]

"""The live pointer: what it covers, what it costs, and that nothing that lives is left out."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyroll.model.states import SPANS_MAX, LivePointer, Status, Window, joined
from tallyroll.model.windows import Span, window_id
from tallyroll.operations.backfill import open_past
from tallyroll.ports.live_windows import list_live
from tests.harness.pipeline import HOUR, MINUTE, NOW, START, Pipeline, hour, opened

hours = st.integers(0, 400)


def span(at: int, hours: int = 1) -> Span:
    return Span(at * HOUR, (at + hours) * HOUR)


def window(at: int, status: Status = Status.OPEN) -> Window:
    of = span(at)
    return Window(of.id, f"t-{of.id}", of.start, of.end, status=status)


@given(st.lists(hours, max_size=60))
def test_few_spans_hold_all(starts: list[int]) -> None:
    spans = joined(map(span, starts))
    assert len(spans) <= SPANS_MAX
    assert all(earlier.end < later.start for earlier, later in pairwise(spans))
    assert all(any(at * HOUR in each for each in spans) for at in starts)
    if len(set(starts)) <= SPANS_MAX:
        assert sum(each.end - each.start for each in spans) == len(set(starts)) * HOUR


@given(
    made=st.lists(hours, unique=True, min_size=1),
    dropped=st.sets(hours),
    genesis=hours,
    seen=st.booleans(),
    since=hours,
    until=hours,
)
def test_no_window_that_lives_is_left_out(
    made: list[int], dropped: set[int], genesis: int, seen: bool, since: int, until: int
) -> None:
    """Windows created in any order, of which any are dropped; the pointer moved by a listing that
    may not show the last creation yet.
    """
    pointer = LivePointer(made[0] * HOUR, 0)
    for at in made:
        pointer = pointer.with_created(window(at))
    windows = {
        at: window(at, Status.DROPPED if at in dropped else Status.OPEN) for at in sorted(made)
    }
    hidden = set() if seen else {made[-1]}
    listed = [one for at, one in windows.items() if at not in hidden and pointer.covers(one.start)]
    moved = pointer.moved_by(listed, genesis * HOUR) or pointer
    alive = [at for at in windows if at not in dropped]
    assert all(map(moved.covers, (at * HOUR for at in alive)))
    found = [
        at
        for each in moved.spans(since * HOUR, until * HOUR)
        for at in windows
        if at * HOUR in each
    ]
    assert found == sorted(set(found))
    assert set(found) >= {at for at in alive if since <= at < until}
    assert all(since <= at < until for at in found)


def test_the_spans_with_the_least_between_them_are_made_one() -> None:
    starts = [10 * n for n in range(SPANS_MAX)]
    for close in (1, 7, SPANS_MAX - 1):
        spans = joined(map(span, [*starts, starts[close] + 3]))
        others = [span(at) for at in starts if at != starts[close]]
        assert spans == tuple(sorted([*others, span(starts[close], 4)]))
        assert joined(map(span, starts)) == tuple(map(span, starts))


def test_each_creation_gives_the_pointer_the_next_version() -> None:
    pointer = LivePointer(START, 7)
    assert pointer.with_created(window(3)).version == 8
    assert pointer.with_created(window(500_000)).version == 8


def test_no_windows_are_looked_for_in_an_empty_span() -> None:
    assert LivePointer(START, 0, (span(3),)).spans(span(3).end, span(3).end) == []
    assert LivePointer(START, 0).spans(START, START) == []


def test_a_creation_that_the_listing_lacks_is_not_passed() -> None:
    seen, unseen, regular = window(3, Status.DROPPED), window(4), window(90)
    pointer = LivePointer(regular.start, 1).with_created(seen).with_created(unseen)
    assert pointer.moved_by([seen, regular], regular.start) is None
    moved = pointer.moved_by([seen, unseen, regular], regular.start)
    assert moved == LivePointer(regular.start, pointer.version, (span(4),))


def test_what_lies_between_past_and_present_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = opened()
    calendar = pipeline.catalog.calendar()
    assert calendar
    dropped = [hour(6), hour(7)]
    for one in dropped:
        pipeline.move(Status.DROPPED, one)
    pipeline.roller().run(60_000)
    since = START - 1_000 * HOUR
    past = open_past(pipeline.catalog, calendar, "tallyroll", since, since + HOUR, NOW, HOUR)
    listed: list[str] = []
    list_windows = pipeline.catalog.windows

    def windows(first: int, until: int) -> list[Window]:
        found = list_windows(first, until)
        listed.extend(each.id for each in found)
        return found

    monkeypatch.setattr(pipeline.catalog, "windows", windows)
    list_live(pipeline.catalog, pipeline.catalog.live(), 0, NOW + 9 * HOUR)
    assert past.created[0].id in listed
    assert not {*dropped} & {*listed}
    assert hour(8) in listed


def test_a_past_window_is_looked_at_until_it_is_dropped() -> None:
    pipeline = opened()
    calendar = pipeline.catalog.calendar()
    assert calendar
    since = START - 100 * HOUR
    open_past(pipeline.catalog, calendar, "tallyroll", since, since + 2 * HOUR, NOW, HOUR)
    assert _opened(pipeline) == (Span(since, since + 2 * HOUR),)
    roller = pipeline.roller()
    roller.run(60_000)
    assert pipeline.state(window_id(since)).status is Status.OPEN
    assert pipeline.write({"id": "e", "key": "k", "ts": since}).events == 1
    assert pipeline.reader().count("k", None, None, 60_000).events == 1
    pipeline.move(Status.DROPPED, window_id(since))
    roller.run(60_000)
    assert _opened(pipeline) == (Span(since + HOUR, since + 2 * HOUR),)
    pipeline.move(Status.DROPPED, window_id(since + HOUR))
    roller.run(60_000)
    assert _opened(pipeline) == ()
    pipeline.effects.pass_by(MINUTE)


def test_a_pointer_that_stood_in_the_past_is_parted() -> None:
    pipeline = opened()
    since = START - 100 * HOUR
    of = Span(since, since + HOUR)
    pipeline.catalog.create(Window(of.id, f"tallyroll-{of.id}", of.start, of.end))
    pointer = pipeline.catalog.live()
    assert pointer
    pipeline.catalog._live = replace(pointer, since=since, opened=())
    pipeline.roller().run(60_000)
    parted = pipeline.catalog.live()
    assert parted
    assert (parted.since, parted.opened) == (START - 2 * HOUR, (of,))


def _opened(pipeline: Pipeline) -> tuple[Span, ...]:
    pointer = pipeline.catalog.live()
    assert pointer
    return pointer.opened

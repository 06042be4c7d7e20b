"""What every catalog promises: what is written once stands, and states change by version only."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from moto import mock_aws

from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.adapters.dynamodb.catalog import DynamoCatalog
from tallyroll.errors import StateConflict
from tallyroll.limits import HOT_NOTES_MAX, TS_MS_MAX
from tallyroll.model.foreign.mappings import NO_MAPPINGS, Mappings, founded_with
from tallyroll.model.states import Attempt, Calendar, LivePointer, Status, Window
from tallyroll.model.windows import Grid, Span, window_id
from tallyroll.ports.live_windows import cover, list_live
from tallyroll.ports.writer_notes import Heartbeat, Reception
from tallyroll.resources import declare
from tallyroll.settings import Settings
from tests.contract.engines import HOUR, START, Engine
from tests.contract.faults import Faults

MONTH = 31 * 24 * HOUR


def _window(engine: Engine, start: int = START) -> Window:
    window = window_id(start)
    return Window(
        id=window,
        table=f"{engine.prefix}-{window}",
        start=start,
        end=start + HOUR,
        times={Status.CREATING.value: start - HOUR},
    )


def test_the_calendar_is_founded_once(engine: Engine) -> None:
    assert engine.catalog.calendar() is None
    first = Calendar(Grid(((0, HOUR), (START, HOUR // 4))), genesis=START)

    assert engine.catalog.found(first) == first
    assert engine.catalog.found(Calendar(Grid.of(60), genesis=0)) == first
    assert engine.catalog.calendar() == first


def test_the_calendar_is_extended_only_as_it_was_read(engine: Engine) -> None:
    first = engine.catalog.found(Calendar(Grid.of(3600), genesis=START))
    second = replace(first, grid=first.grid.with_length(900, START + 5 * HOUR // 2))
    assert engine.catalog.create(_window(engine), first)
    before = engine.catalog.live()
    assert engine.catalog.create(_window(engine, START + HOUR), first)
    after = engine.catalog.live()
    assert before
    assert after

    assert not engine.catalog.extend(first, second, before), "a window was made since"
    assert engine.catalog.calendar() == first
    assert engine.catalog.extend(first, second, after)
    assert engine.catalog.calendar() == second
    assert not engine.catalog.extend(first, replace(first, genesis=0), after)

    late = _window(engine, START + 2 * HOUR)
    with pytest.raises(StateConflict, match="calendar"):
        engine.catalog.create(late, first)
    assert engine.catalog.window(late.id) is None
    assert engine.catalog.create(late, second)
    assert not engine.catalog.create(late, second)
    engine.catalog.move_live(after, replace(after, since=START + HOUR))
    live = engine.catalog.live()
    assert live
    assert live.since == START, "who read it before the extension moves it no more"


def test_an_extension_whose_reply_is_lost_stands() -> None:
    with mock_aws():
        faults, resources = Faults(), declare(Settings())
        faults.client.create_table(**table_request(resources.catalog))
        catalog = DynamoCatalog(faults.caller, faults.effects, resources.catalog.name)
        first = catalog.found(Calendar(Grid.of(3600), genesis=START))
        catalog.create(Window(window_id(START), "any", START, START + HOUR))
        faults.put(Faults.LOST)
        second = replace(first, grid=first.grid.with_length(60, START))
        assert catalog.extend(first, second, LivePointer(START, 1))
        assert catalog.calendar() == second


A, B, C = '{"key":"a"}', '{"key":"b"}', '{"key":"c"}'


def _mappings(engine: Engine) -> Mappings:
    calendar = engine.catalog.calendar()
    assert calendar
    return calendar.mappings


def test_a_calendar_is_founded_with_its_mapping(engine: Engine) -> None:
    founded = Calendar(Grid.of(3600), START, founded_with(A))
    assert engine.catalog.found(founded).mappings == Mappings(((0, A),), 0, marked=True)
    other = Calendar(Grid.of(3600), START, founded_with(B))
    assert engine.catalog.found(other).mappings.latest == A


def test_mappings_are_appended_only_as_they_were_read(engine: Engine) -> None:
    engine.catalog.found(Calendar(Grid.of(3600), START))
    none = _mappings(engine)
    assert none == NO_MAPPINGS
    engine.catalog.append_mapping(none, A)
    engine.catalog.append_mapping(none, B)
    first = _mappings(engine)
    assert first == Mappings(((0, A),), 0, marked=False)

    settled = engine.catalog.settle_mappings(500)
    assert settled
    assert settled.mappings == Mappings(((0, A),), 500)
    engine.catalog.append_mapping(first, B)
    assert _mappings(engine) == settled.mappings, "a writer settled further since it was read"
    engine.catalog.append_mapping(settled.mappings, B)
    engine.catalog.append_mapping(settled.mappings, C)
    assert _mappings(engine) == Mappings(((0, A), (500, B)), 500)
    engine.catalog.append_mapping(_mappings(engine), A)
    assert _mappings(engine).entries == ((0, A), (500, B), (500, A))


def test_what_is_settled_stays_settled(engine: Engine) -> None:
    assert engine.catalog.settle_mappings(500) is None
    engine.catalog.found(Calendar(Grid.of(3600), START, founded_with(A)))
    for until, expected in ((500, 500), (400, 500), (501, 501)):
        calendar = engine.catalog.settle_mappings(until)
        assert calendar
        assert calendar.mappings.until == expected
        assert _mappings(engine).until == expected


def test_mappings_and_the_grid_change_without_each_other(engine: Engine) -> None:
    first = engine.catalog.found(Calendar(Grid.of(3600), START, founded_with(A)))
    assert engine.catalog.create(_window(engine), first)
    live = engine.catalog.live()
    assert live
    settled = engine.catalog.settle_mappings(500)
    assert settled == first
    second = replace(first, grid=first.grid.with_length(900, START + 5 * HOUR // 2))
    assert engine.catalog.extend(first, second, live)
    assert _mappings(engine).until == 500
    assert engine.catalog.create(_window(engine, START + HOUR), second)


def test_a_spec_is_put_once(engine: Engine) -> None:
    spec = replace(engine.spec(), require_ts=True, hot={"hot key é": 200})
    assert engine.catalog.put_spec(spec) == spec
    assert engine.catalog.put_spec(replace(spec, shards=99, hot={})) == spec

    wanted = [window_id(START + number * HOUR) for number in range(101)]
    assert engine.catalog.specs(wanted) == {spec.window: spec}
    assert engine.catalog.specs([]) == {}


def test_a_window_is_created_once(engine: Engine) -> None:
    window = _window(engine)
    assert engine.catalog.window(window.id) is None
    assert engine.catalog.create(window)
    assert not engine.catalog.create(window)
    assert not engine.catalog.create(replace(window, table="another"))
    assert engine.catalog.window(window.id) == window


def test_hot_keys_are_noted_by_window(engine: Engine) -> None:
    window, later = window_id(START), window_id(START + HOUR)
    assert engine.catalog.hot(window) == []
    engine.catalog.note_hot(window, ["hot", "käse"])
    engine.catalog.note_hot(window, ["another", "hot", "hot"])
    engine.catalog.note_hot(later, ["x"])
    assert engine.catalog.hot(window) == ["another", "hot", "käse"]
    assert engine.catalog.hot(later) == ["x"]
    assert engine.catalog.throttled(window) == []
    engine.catalog.note_hot(window, ["hot", "new"], ["new"])
    engine.catalog.note_hot(window, ["hot"], ["hot"])
    assert engine.catalog.hot(window) == ["another", "hot", "käse", "new"]
    assert engine.catalog.throttled(window) == ["hot", "new"]
    assert engine.catalog.throttled(later) == []


def test_an_uploaded_object_is_marked_once_and_for_good(engine: Engine) -> None:
    keys = [f"payloads/votes/2026-11-20/{number}" for number in range(3)]
    for key in (keys[0], keys[2], keys[0]):
        engine.catalog.mark(key)
    assert engine.catalog.marked(keys) == {keys[0], keys[2]}


def test_the_notes_of_a_window_end(engine: Engine) -> None:
    window = window_id(START)
    for part in range(HOT_NOTES_MAX // 20 + 2):
        engine.catalog.note_hot(window, [f"key-{part}-{n}" for n in range(20)])
    assert len(engine.catalog.hot(window)) == HOT_NOTES_MAX


def test_a_state_advances_from_the_version_that_was_read(engine: Engine) -> None:
    window = _window(engine)
    engine.catalog.create(window)

    opened = engine.catalog.advance(
        replace(window, status=Status.OPEN, times={**window.times, "open": START})
    )
    assert opened.version == window.version + 1
    assert engine.catalog.window(window.id) == opened

    with pytest.raises(StateConflict):
        engine.catalog.advance(replace(window, status=Status.CLOSING))
    assert engine.catalog.window(window.id) == opened


def test_every_fact_of_a_state_reads_back(engine: Engine) -> None:
    window = _window(engine)
    engine.catalog.create(window)
    whole = replace(
        window,
        status=Status.PROVEN,
        accept_from=0,
        accept_until=START + 5,
        shards=16,
        keys=0,
        events=10**15,
        amount=-(10**24),
        sealing="listing",
        listed=3,
        peak=7,
        attempt=Attempt(
            id="attempt-1",
            number=2,
            archive="windows/20261120T080000Z/attempt-1/",
            items=12,
            problem="a file is missing",
            exporter="native",
            segments=9,
            export_at=START,
            export_arn="arn:aws:dynamodb:::export/1",
            busy_until=START + 1,
            noted=7,
        ),
    )
    assert None not in (getattr(whole, fact.name) for fact in fields(Window))
    assert all(getattr(whole.attempt, fact.name) for fact in fields(Attempt))
    advanced = engine.catalog.advance(whole)
    assert engine.catalog.window(window.id) == advanced == replace(whole, version=2)


def test_advancing_what_is_not_there_is_a_conflict(engine: Engine) -> None:
    with pytest.raises(StateConflict):
        engine.catalog.advance(_window(engine))
    assert engine.catalog.window(_window(engine).id) is None


def test_windows_are_listed_by_start_across_months(engine: Engine) -> None:
    starts = [START, START + HOUR, START + MONTH, START - 12 * MONTH]
    for start in starts:
        engine.catalog.create(_window(engine, start))
    engine.catalog.put_spec(engine.spec())
    engine.catalog.note_straggler(window_id(START), START)

    def listed(since: int, until: int) -> list[int]:
        return [window.start for window in engine.catalog.windows(since, until)]

    assert listed(0, TS_MS_MAX) == sorted(starts)
    assert listed(-1, 2 * TS_MS_MAX) == sorted(starts)
    assert listed(START, START + MONTH) == [START, START + HOUR]
    assert listed(START + 1, START + HOUR) == []
    assert listed(START + 1, START + HOUR + 1) == [START + HOUR]
    assert listed(START, START) == []

    for since, until in ((START, START + HOUR), (START + 1, START + MONTH + 1), (0, TS_MS_MAX)):
        windows, specs = engine.catalog.windows_with_specs(since, until)
        assert windows == engine.catalog.windows(since, until)
        # Of a long span it need not meet any.
        assert specs in ({}, engine.catalog.specs([window.id for window in windows]))
    assert engine.catalog.windows_with_specs(START, START + 1)[1] == {
        window_id(START): engine.spec()
    }


def test_no_windows_are_listed_before_the_first(engine: Engine) -> None:
    assert engine.catalog.windows(0, TS_MS_MAX) == []


def test_the_live_pointer_covers_what_is_created_and_is_always_bumped(engine: Engine) -> None:
    assert engine.catalog.live() is None
    first = _window(engine)
    engine.catalog.create(first)
    assert engine.catalog.live() == LivePointer(START, 1, (), first.id)

    later = _window(engine, START + HOUR)
    engine.catalog.create(later)
    assert engine.catalog.live() == LivePointer(START, 2, (), later.id)

    long_ago = _window(engine, START - 9 * HOUR)
    engine.catalog.create(long_ago)
    spans = (Span(long_ago.start, long_ago.end),)
    assert engine.catalog.live() == LivePointer(START, 3, spans, long_ago.id)
    assert not engine.catalog.create(long_ago)
    assert engine.catalog.live() == LivePointer(START, 3, spans, long_ago.id)

    before = _window(engine, START - 10 * HOUR)
    engine.catalog.create(before)
    spans = (Span(before.start, long_ago.end),)
    assert engine.catalog.live() == LivePointer(START, 4, spans, before.id)


def test_the_live_pointer_moves_only_from_where_it_was_read(engine: Engine) -> None:
    engine.catalog.create(_window(engine))
    read = engine.catalog.live()
    assert read
    engine.catalog.create(_window(engine, START + HOUR))

    engine.catalog.move_live(read, replace(read, since=START + 2 * HOUR))
    stands = engine.catalog.live()
    assert stands
    assert stands.since == START

    spans = (Span(START - 3 * HOUR, START - 2 * HOUR), Span(START - HOUR, START))
    moved = LivePointer(START + HOUR, stands.version, spans)
    engine.catalog.move_live(stands, moved)
    assert engine.catalog.live() == replace(moved, version=stands.version + 1)


def test_windows_of_the_past_are_listed_without_those_between(engine: Engine) -> None:
    windows = [_window(engine, START + hours * HOUR) for hours in (0, -50, -3, -2, 1)]
    for window in windows:
        engine.catalog.create(window)
    first, long_ago, past, later, last = windows
    pointer = engine.catalog.live()
    assert pointer

    def listed(since: int, until: int) -> list[Window]:
        return list_live(engine.catalog, pointer, since, until)

    assert listed(0, TS_MS_MAX) == [long_ago, past, later, first, last]
    assert listed(past.start + 1, last.start) == [later, first]
    passed = LivePointer(last.start, pointer.version, pointer.opened[:1])
    assert list_live(engine.catalog, passed, 0, TS_MS_MAX) == [long_ago, last]
    assert list_live(engine.catalog, None, 0, TS_MS_MAX) == []

    engine.catalog.move_live(pointer, passed)
    cover(engine.catalog, windows)
    assert list_live(engine.catalog, engine.catalog.live(), 0, TS_MS_MAX) == listed(0, TS_MS_MAX)


def test_notes_of_batches_stand_until_they_are_taken_back(engine: Engine) -> None:
    catalog = engine.catalog
    first = Reception("a1", START, START - HOUR, START - 5, b"1234" * 1_000)
    second = Reception("a0", START, 0, START, b"")
    third = Reception("b", START + 7, START, START)
    for one in (third, first, second):
        catalog.note_received(one)
    assert catalog.receptions(0, TS_MS_MAX, 99) == [second, first, third]
    assert catalog.receptions(START, START + 7, 99) == [second, first]
    assert catalog.receptions(START + 7, START + 7, 99) == []
    assert catalog.receptions(0, TS_MS_MAX, 2) == [first, third], "the newest"
    narrowed = replace(first, digests=b"5678")
    catalog.note_received(narrowed)
    catalog.clear_received(second)
    catalog.clear_received(second)
    assert catalog.receptions(START - 1, START + 8, 99) == [narrowed, third]
    assert catalog.windows(0, TS_MS_MAX) == []


def test_the_latest_heartbeat_stands(engine: Engine) -> None:
    catalog = engine.catalog
    assert catalog.heartbeat() == Heartbeat(None, None)
    catalog.beat(START, finished=False)
    assert catalog.heartbeat() == Heartbeat(START, None)
    for at, finished in ((START + 9, True), (START + 5, True), (START + 12, False)):
        catalog.beat(at, finished=finished)
    assert catalog.heartbeat() == Heartbeat(START + 12, START + 9)
    assert catalog.receptions(0, TS_MS_MAX, 99) == []


def test_straggler_notes_keep_the_newest(engine: Engine) -> None:
    noted, bare = window_id(START), window_id(START + HOUR)
    for now in (START + 5, START + 9, START + 7):
        engine.catalog.note_straggler(noted, now)
    assert engine.catalog.stragglers([noted, bare]) == {noted: START + 9}
    assert engine.catalog.stragglers([]) == {}
    assert engine.catalog.window(noted) is None

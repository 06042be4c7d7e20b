from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tallyroll.errors import Absent, Refused, Throttled, UsageError
from tallyroll.limits import TS_MS_MAX
from tallyroll.model.records import RecordPage
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status
from tallyroll.model.stored import StoredEvent, StoredPacket, stored
from tallyroll.model.tallies import Stripe
from tallyroll.model.totals import Listed
from tallyroll.ports.paging import listed_tallies
from tallyroll.reads.found import Events, FoundEvent
from tallyroll.reads.lookups import Lookups
from tallyroll.reads.merge import BYTES_MAX
from tallyroll.reads.top import Top
from tests.harness.pipeline import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    START,
    TIME_LEFT,
    WINDOW,
    Pipeline,
    hour,
    opened,
    record_with,
)

PACKET = {
    "v": 1,
    "id": "p",
    "key": "k",
    "t0": START,
    "events": [[0], [10, 2.5], [20, 1, {"a": "ü"}]],
}


def event(record_id: str, **fields: Any) -> dict[str, Any]:
    return {"id": record_id, "key": "k", "ts": NOW, **fields}


def written() -> Pipeline:
    """Window 08 holds e0 to e9 and a packet of three of key k, and an event of l."""
    pipeline = opened()
    report = pipeline.write(
        *(event(f"e{n}", value=n) for n in range(10)), PACKET, event("x", key="l", value=-99)
    )
    assert report.events == 14
    return pipeline


def look(pipeline: Pipeline) -> Lookups:
    return pipeline.reader()


def find(pipeline: Pipeline, event_id: str, window: str | None = WINDOW) -> FoundEvent:
    return look(pipeline).event("k", event_id, window, None)


def listed(pipeline: Pipeline, **more: Any) -> Events:
    return look(pipeline).events("k", WINDOW, TIME_LEFT, **more)


def ids(events: Events) -> list[str]:
    return [one.id for one in events.found]


ALL = [*(f"e{n}" for n in range(10)), "p:0", "p:1", "p:2"]


# --- one event


def test_an_event_by_its_window_or_time() -> None:
    pipeline = written()
    pipeline.write(event("rich", payload={"b": [1, 2.5]}, value=-0.5))
    found = find(pipeline, "rich")
    assert found == FoundEvent(
        "k", WINDOW, Status.OPEN, StoredEvent("rich", NOW, -500_000, '{"b":[1,2.5]}')
    )
    assert look(pipeline).event("k", "rich", None, NOW + MINUTE) == found
    assert find(pipeline, "e1").what == StoredEvent("e1", NOW, 1_000_000, None)


def test_an_event_by_the_time_in_its_id() -> None:
    pipeline = written()
    ms = f"{NOW:012x}"
    event_id = f"{ms[:8]}-{ms[8:]}-7000-8000-000000000000"
    pipeline.write({"id": event_id, "key": "k"})
    assert find(pipeline, event_id, None).window == WINDOW

    other = event_id[:-1] + "1"
    pipeline.write({"id": other, "key": "k", "ts": NOW - HOUR})
    with pytest.raises(Absent, match=f"in {WINDOW}, that of the time in its id"):
        find(pipeline, other, None)
    assert find(pipeline, other, hour(7)).what.id == other


def test_packed_events_and_packets() -> None:
    pipeline = written()
    assert find(pipeline, "p:1").what == StoredEvent("p:1", START + 10, 2_500_000, None, "p", 1)
    assert find(pipeline, "p:2").what == StoredEvent(
        "p:2", START + 20, 1_000_000, '{"a":"ü"}', "p", 2
    )
    packet = find(pipeline, "p").what
    assert isinstance(packet, StoredPacket)
    assert [one.id for one in packet.events] == ["p:0", "p:1", "p:2"]
    for other in ("p:3", "p:01", "p:", "e1:0", "q:0"):
        with pytest.raises(Absent, match="there is no event"):
            find(pipeline, other)


def test_a_literal_record_wins_over_a_packed_event() -> None:
    pipeline = written()
    pipeline.write(event("p:1", value=7))
    assert find(pipeline, "p:1").what == StoredEvent("p:1", NOW, 7_000_000, None)
    assert ids(listed(pipeline)).count("p:1") == 2


def test_an_event_whose_window_does_not_follow() -> None:
    pipeline = written()
    with pytest.raises(UsageError, match="give the event's date, ts or window"):
        find(pipeline, "e1", None)
    with pytest.raises(Absent, match="roller has not run yet"):
        look(Pipeline()).event("k", "e1", None, NOW)
    with pytest.raises(Absent, match="after the year 9999"):
        look(pipeline).event("k", "ffffffff-ffff-7000-8000-000000000000", None, None)
    with pytest.raises(Absent, match="there is no window 9999"):
        look(pipeline).event("k", "e1", None, TS_MS_MAX)


def test_windows_without_a_spec() -> None:
    pipeline = written()
    with pytest.raises(Absent, match=f"no window {hour(-20)}"):
        find(pipeline, "e1", hour(-20))
    with pytest.raises(Absent, match="there is no event 'e1'"):
        find(pipeline, "e1", hour(10))
    assert look(pipeline).events("k", hour(10), TIME_LEFT).found == ()
    assert look(pipeline).top(hour(10), 3, TIME_LEFT).keys == 0


def test_a_damaged_packet_is_told() -> None:
    record = record_with("p", data=b"rubbish", format="packet1+zlib")
    with pytest.raises(Refused, match="packet 'p' of key 'k' is damaged"):
        stored(record)


# --- the events of a key


def test_all_events_of_a_key_in_order() -> None:
    events = listed(written())
    assert (ids(events), events.cursor, events.complete) == (ALL, None, True)
    assert (events.key, events.window, events.status) == ("k", WINDOW, Status.OPEN)
    assert events.as_of == NOW


@pytest.mark.parametrize("limit", [1, 2, 5, 11, 12, 13])
def test_pages(limit: int) -> None:
    pipeline = written()
    seen: list[str] = []
    cursor = None
    for _ in range(20):
        page = listed(pipeline, limit=limit, cursor=cursor)
        seen += ids(page)
        cursor = page.cursor
        if cursor is None:
            break
        assert len(page.found) == limit
    assert seen == ALL


def test_packets_as_they_are() -> None:
    pipeline = written()
    page = listed(pipeline, packed=True, limit=10)
    assert ids(page) == ALL[:10]
    rest = listed(pipeline, packed=True, cursor=page.cursor)
    (packet,) = rest.found
    assert isinstance(packet, StoredPacket)
    assert (packet.id, len(packet.events), rest.cursor) == ("p", 3, None)
    with pytest.raises(UsageError, match="packed true"):
        listed(pipeline, cursor=page.cursor)


def test_wrong_questions() -> None:
    pipeline = written()
    for limit in (0, 1_001):
        with pytest.raises(UsageError, match="from 1 to 1000"):
            listed(pipeline, limit=limit)
    with pytest.raises(UsageError, match="is none, or damaged"):
        listed(pipeline, cursor="nonsense")
    with pytest.raises(Absent):
        look(pipeline).events("k", hour(-20), TIME_LEFT)
    assert look(pipeline).events("nobody", WINDOW, TIME_LEFT).found == ()


def test_events_written_ahead_of_the_cursor_appear() -> None:
    pipeline = written()
    page = listed(pipeline, limit=5)
    pipeline.write(event("e00"), event("e55"))
    rest = listed(pipeline, cursor=page.cursor)
    assert ids(rest) == ["e5", "e55", *ALL[6:]]


def test_large_events_end_an_answer_early() -> None:
    pipeline = opened()
    size = 300 * 1024
    for n in range(9):
        pipeline.write(event(f"e{n}", payload="x" * size))
    pages = [listed(pipeline)]
    while cursor := pages[-1].cursor:
        pages.append(listed(pipeline, cursor=cursor))
    assert [ids(page) for page in pages] == [
        ["e0", "e1", "e2", "e3"],
        ["e4", "e5", "e6", "e7"],
        ["e8"],
    ]
    assert all(page.complete for page in pages)
    assert 4 * size > BYTES_MAX > 3 * size


def test_out_of_time_the_answer_says_so_and_the_cursor_goes_on() -> None:
    pipeline = written()
    page = look(pipeline).events("k", WINDOW, 0)
    assert (page.found, page.complete) == ((), False)
    assert page.cursor
    rest = listed(pipeline, cursor=page.cursor)
    assert (ids(rest), rest.complete, rest.cursor) == (ALL, True, None)


def test_time_may_run_out_between_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = written()
    records = pipeline.store.records

    def slow(spec: Spec, key: str, shard: int, after: str, limit: int) -> RecordPage:
        pipeline.effects.pass_by(SECOND)
        return records(spec, key, shard, after, min(limit, 2))

    monkeypatch.setattr(pipeline.store, "records", slow)
    seen: list[str] = []
    cursor: str | None = None
    for _ in range(50):
        page = look(pipeline).events("k", WINDOW, 9 * SECOND, cursor=cursor)
        seen += ids(page)
        cursor = page.cursor
        if cursor is None:
            break
        assert not page.complete
    assert (seen, cursor) == (ALL, None)


def test_a_shard_that_cannot_be_read_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = written()
    records = pipeline.store.records
    throttled = pipeline.spec().shard("k", "e4")

    def refuse(spec: Spec, key: str, shard: int, after: str, limit: int) -> RecordPage:
        if shard == throttled:
            raise Throttled("slow down")
        return records(spec, key, shard, after, limit)

    monkeypatch.setattr(pipeline.store, "records", refuse)
    page = listed(pipeline)
    assert (page.found, page.complete) == ((), False)
    monkeypatch.undo()
    assert ids(listed(pipeline, cursor=page.cursor)) == ALL


# --- the largest keys


def voted() -> Pipeline:
    pipeline = opened()
    for key, votes in (("a", 3), ("b", 5), ("c", 3), ("d", 1)):
        pipeline.write(*(event(f"{key}{n}", key=key, value=n) for n in range(votes)))
    pipeline.write(event("big", key="d", value=100), PACKET)
    return pipeline


def best(pipeline: Pipeline, n: int = 3, **more: bool) -> Top:
    return look(pipeline).top(WINDOW, n, TIME_LEFT, **more)


def test_the_keys_with_most_events() -> None:
    top = best(voted())
    assert top == Top(
        window=WINDOW,
        status=Status.OPEN,
        largest=(Listed("b", 5, 10_000_000), Listed("a", 3, 3_000_000), Listed("c", 3, 3_000_000)),
        keys=5,
        events=16,
        amount=120_500_000,
        missing=0,
        as_of=NOW,
    )
    assert top.complete
    assert len(best(voted(), 1_000).largest) == 5


def test_the_keys_with_the_largest_sums() -> None:
    top = best(voted(), by_amount=True)
    assert [(key.key, key.amount) for key in top.largest] == [
        ("d", 100_000_000),
        ("b", 10_000_000),
        ("k", 4_500_000),
    ]


def test_the_top_agrees_with_the_counts() -> None:
    pipeline = voted()
    for tally in best(pipeline, 5).largest:
        count = pipeline.reader().count(tally.key, None, None, TIME_LEFT)
        assert (count.events, count.amount) == (tally.n, tally.amount)


@pytest.mark.parametrize("n", [0, 1_001])
def test_a_top_has_bounds(n: int) -> None:
    with pytest.raises(UsageError, match="from 1 to 1000"):
        best(voted(), n)


def test_a_top_that_is_not_whole_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = voted()
    nothing = look(pipeline).top(WINDOW, 3, 0)
    assert (nothing.complete, nothing.missing, nothing.largest) == (False, 4, ())
    stripes = pipeline.store.stripes
    filled = next(
        n for n in range(1, 5) if list(listed_tallies(pipeline.store, pipeline.spec(), n))
    )

    def refuse(spec: Spec, number: int, after: str, limit: int) -> Iterator[list[Stripe]]:
        if number == filled:
            raise Throttled("slow down")
        yield from stripes(spec, number, after, limit)

    monkeypatch.setattr(pipeline.store, "stripes", refuse)
    part = best(pipeline)
    assert (part.complete, part.missing) == (False, 1)
    assert 0 < part.events < 16


def test_the_json_of_payloads_is_that_of_the_events() -> None:
    pipeline = opened()
    payload = {"a": [1, 2.5, None, "é"], "big": 10**30}
    pipeline.write(event("e1", payload=payload))
    one = find(pipeline, "e1").what
    assert isinstance(one, StoredEvent)
    assert json.loads(one.payload or "") == payload

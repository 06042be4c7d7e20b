"""The chart of a levelled burst is the one in the documents, and no event is lost in it."""

from __future__ import annotations

from functools import cache
from xml.etree import ElementTree as ET

from benchmarks.levelling import (
    BURST,
    BURST_FROM,
    BURST_UNTIL,
    CALM,
    RATE,
    SECONDS,
    Levelled,
    levelled,
    shown,
)
from benchmarks.levelling_chart import FILE, drawn

TRANSACTION = 200  # write units of a full one: a second may hold a part of the next one's


@cache
def course(write_rate: int) -> Levelled:
    return levelled(write_rate)


def test_the_chart_is_up_to_date() -> None:
    should = drawn(course(0), course(RATE))
    assert FILE.read_text(encoding="utf-8") == should, "run python -m benchmarks.levelling --write"
    lines = [each for each in ET.fromstring(should).iter() if each.tag.endswith("polyline")]
    assert [len(each.attrib["points"].split()) for each in lines] == [SECONDS] * 5


def test_every_event_of_a_burst_is_counted_once_at_the_rate_and_without_it() -> None:
    events = CALM * SECONDS + (BURST - CALM) * (BURST_UNTIL - BURST_FROM)
    for found in (course(0), course(RATE)):
        assert (found.events, found.counted, found.lost) == (events, events, 0)


def test_the_line_into_the_tables_is_flat_while_the_queue_holds_the_burst() -> None:
    asked = course(RATE).asked
    assert max(course(0).asked.values()) > 3 * RATE
    assert max(asked.values()) <= RATE + TRANSACTION
    busy = [asked[second] for second in range(BURST_FROM + 1, course(RATE).drained - 2)]
    assert len(busy) > 2 * (BURST_UNTIL - BURST_FROM)
    assert 0.97 * RATE <= sum(busy) / len(busy) <= 1.01 * RATE
    assert max(course(RATE).waiting) > 10 * max(course(0).waiting)


def test_messages_wait_without_being_received_again_and_again() -> None:
    assert course(RATE).receives <= 5


def test_the_table_has_both_courses() -> None:
    heads, *rows = shown(course(0), course(RATE))
    assert {len(row) for row in rows} == {len(heads)} == {6}
    assert len(rows) == SECONDS // 5

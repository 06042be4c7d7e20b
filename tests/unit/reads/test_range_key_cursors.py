"""Questions for all keys of a range, and the cursors that go on with their answers."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Absent, Missing, UsageError
from tallyroll.model.totals import Listed
from tallyroll.model.windows import Grid, Span
from tallyroll.reads.ranges import cursors, keys, walk
from tallyroll.reads.ranges.keys import KeysPage, keys_page_json
from tests.harness.pipeline import HOUR, NOW, START, Pipeline, opened
from tests.unit.lifecycle.test_rollups import FIRST, Days
from tests.unit.reads.conftest import LAST
from tests.unit.reads.test_range_keys import SINCE, UNTIL, of_rows, write


def test_without_bounds_it_is_today() -> None:
    pipeline = opened()
    counted = write(pipeline, [("a", 0), ("b", 1)])
    page = pipeline.reader().keys_page()
    assert (page.query.span.start, page.query.span.end) == (START - 8 * HOUR, START + HOUR)
    assert of_rows(list(page.keys)) == of_rows(list(pipeline.reader().keys())) == counted
    since = pipeline.reader().keys_page(since=START)
    assert (since.query.span.start, since.query.span.end) == (START, START + HOUR)
    assert pipeline.reader().keys_page(until=START).query.span.start == START - 2 * HOUR


def test_the_bounds_of_the_first_page_hold_for_all() -> None:
    pipeline = opened()
    write(pipeline, [("a", 0), ("b", 0)])
    first = pipeline.reader().keys_page(SINCE, limit=1)
    pipeline.effects.pass_by(HOUR)
    then = pipeline.reader().keys_page(SINCE, limit=1, cursor=first.cursor)
    assert then.query == first.query


def test_a_cursor_keeps_to_its_question(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = opened()
    write(pipeline, [("a", 0), ("ab", 0)])
    reader = pipeline.reader()
    cursor = reader.keys_page(SINCE, UNTIL, "a", limit=1).cursor
    assert cursor
    assert [row.key for row in reader.keys_page(prefix="a", cursor=cursor).keys] == ["ab"]
    for other in ({"prefix": "b"}, {"since": START}, {"until": START}, {"prefix": ""}):
        with pytest.raises(UsageError, match=r"belongs to keys since 2026.*prefix 'a': ask with"):
            reader.keys_page(**{"prefix": "a", **other}, cursor=cursor)  # type: ignore[arg-type]
    raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    forged = base64.urlsafe_b64encode(raw.replace(b'"a"', b'"b"')).decode().rstrip("=")
    of_events = reader.events_page("a", SINCE, UNTIL, limit=1)
    for bad in (forged, cursor[:-4], "nonsense", "", "é"):
        with pytest.raises(UsageError, match="none of this pipeline"):
            reader.keys_page(prefix="a", cursor=bad)
    with pytest.raises(UsageError, match="none of this pipeline"):
        opened().reader().keys_page(prefix="a", cursor=cursor)
    assert of_events.cursor is None
    with pytest.raises(UsageError, match="version 'k1': begin again"):
        reader.events_page("a", SINCE, UNTIL, cursor=cursor)
    monkeypatch.setattr(cursors, "KEYS_VERSION", "k2")
    with pytest.raises(UsageError, match="version 'k1': begin again without it"):
        reader.keys_page(prefix="a", cursor=cursor)


def test_a_cursor_of_bounds_that_there_are_no_more(days: Days) -> None:
    cursor = days.pipeline.reader().keys_page(FIRST + HOUR, LAST, limit=1).cursor
    calendar = days.catalog.calendar()
    assert calendar
    days.catalog._calendar = replace(calendar, grid=Grid.of(7200))
    with pytest.raises(UsageError, match="inside a window"):
        days.pipeline.reader().keys_page(cursor=cursor)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"since": UNTIL, "until": SINCE}, "is not before"),
        ({"since": START + 1}, "the nearest bound is 2026-11-20T08:00"),
        ({"since": 0}, "more than 3,000 windows"),
        ({"prefix": "~a"}, "prefix of keys: key '~a': must not start with '~'"),
        ({"prefix": "a\n"}, "holds a control character"),
        ({"prefix": "x" * 513}, "has 513 bytes, over 512"),
        ({"limit": 0}, "limit 0: must be from 1 to 1000"),
        ({"limit": 1001}, "limit 1001: must be from 1 to 1000"),
    ],
)
def test_wrong_questions(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        opened().reader().keys_page(**asked)


def test_a_range_of_too_many_listings(days: Days, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "LISTINGS_MAX", 30)
    with pytest.raises(
        UsageError, match=r"from \d+ listings .*, \d+ of them .* retracted: over 30; give a shorter"
    ):
        days.pipeline.reader().keys_page(FIRST, LAST)
    monkeypatch.setattr(days.totals, "revisions", dict)
    assert days.pipeline.reader().keys_page(FIRST, LAST).complete


def test_a_pipeline_without_windows_or_secret() -> None:
    with pytest.raises(Absent, match="roller has not run yet"):
        Pipeline().reader().keys_page()
    pipeline = opened()
    calendar = pipeline.catalog.calendar()
    assert calendar
    pipeline.catalog._calendar = replace(calendar, secret="")
    with pytest.raises(Missing, match="its roller puts it"):
        pipeline.reader().keys_page()
    assert list(pipeline.reader().keys()) == []


def test_the_largest_answer_is_below_what_a_function_may_give() -> None:
    """With keys whose every character is an escape in the body, and again around it."""
    keys_ = [f"{n:04}{chr(34) * 508}" for n in range(keys.KEYS_PAGE_MAX)]
    rows = tuple(Listed(key, 10**15, -(10**40)) for key in keys_)
    query = cursors.KeysQuery(Span(SINCE, UNTIL), "p" * 512)
    page = KeysPage(query, rows, "c" * 4_000, (), NOW)
    assert len(keys_[0].encode()) == 512
    answer = json.dumps({"statusCode": 200, "body": json.dumps(keys_page_json(page))})
    assert len(answer) < 2_500_000

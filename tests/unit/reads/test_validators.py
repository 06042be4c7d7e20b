"""What caches may keep of an answer, and by what they confirm it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import UsageError
from tallyroll.model.states import Status
from tallyroll.reads.http import HttpAnswer, answer_counter, answer_error, conditional
from tallyroll.reads.validators import confirms, etag_of, kept_for
from tests.harness.pipeline import NOW, START, TIME_LEFT, WINDOW, Pipeline
from tests.unit.reads.test_reader import counted, event

SEALED = {"key": "k", "until": str(START - 3_600_000)}


def ask(pipeline: Pipeline, if_none_match: str | None = None, **parameters: Any) -> HttpAnswer:
    answer = answer_counter(pipeline.reader(), {"key": "k", **parameters}, TIME_LEFT)
    return conditional(answer, if_none_match)


def test_the_same_numbers_have_the_same_tag_at_another_time() -> None:
    pipeline = counted()
    first = ask(pipeline)
    pipeline.effects.pass_by(60_000)
    second = ask(pipeline, first.headers["ETag"])
    assert first.body["as_of"].startswith("2026-11-20T08:30")
    assert (second.status, second.body) == (304, {})
    assert second.headers["ETag"] == first.headers["ETag"]


def test_other_numbers_have_another_tag() -> None:
    pipeline = counted()
    tag = ask(pipeline).headers["ETag"]
    pipeline.write(event("e9", NOW))
    answer = ask(pipeline, tag)
    assert (answer.status, answer.body["events"]) == (200, 7)
    assert answer.headers["ETag"] != tag


def test_the_tag_is_of_all_that_an_answer_says_but_its_time() -> None:
    body = {"a": 1, "as_of": "x", "b": [{"c": "2", "as_of": "y"}]}
    assert etag_of(body) == etag_of({"b": [{"c": "2"}], "a": 1, "as_of": "z"})
    assert etag_of(body) != etag_of({**body, "b": [{"c": "3"}]})
    assert etag_of(body) != etag_of({**body, "b": [{"c": "2"}, {}]})


@pytest.mark.parametrize(
    ("if_none_match", "named"),
    [
        (None, False),
        ("", False),
        ('"x"', True),
        ('W/"x"', True),
        ('"y", W/"x"', True),
        ('"y"', False),
        ("*", True),
        ("x", False),
    ],
)
def test_a_request_names_tags(if_none_match: str | None, named: bool) -> None:
    assert confirms(if_none_match, 'W/"x"') is named


@pytest.mark.parametrize(
    ("age_ms", "kept_ms", "control", "age"),
    [
        (0, 1_000, "private, max-age=1", "0"),
        (1, 1_000, "private, max-age=1", "1"),
        (1_500, 60_000, "private, max-age=60", "2"),
        (0, 999, "private, no-cache", "0"),
    ],
)
def test_live_counts_are_kept_as_long_as_the_function_keeps_them(
    age_ms: int, kept_ms: int, control: str, age: str
) -> None:
    assert kept_for(age_ms, kept_ms) == {"Cache-Control": control, "Age": age}


def test_a_sealed_range_is_confirmed_each_time() -> None:
    pipeline = counted()
    answer = ask(pipeline, **SEALED)
    assert answer.counts[0].windows[0].status is Status.SEALED
    assert answer.headers["Cache-Control"] == "private, no-cache"
    assert "Age" not in answer.headers


def test_a_sealed_range_stays_the_same_byte_for_byte_until_something_changes() -> None:
    pipeline = counted()
    first = ask(pipeline, **SEALED)
    pipeline.effects.pass_by(60_000)
    later = ask(pipeline, **SEALED)
    assert "as_of" not in first.body
    assert json.dumps(first.body) == json.dumps(later.body)
    assert first.headers["ETag"] == later.headers["ETag"]
    assert not first.headers["ETag"].startswith("W/")
    assert ask(pipeline, first.headers["ETag"], **SEALED).status == 304


def test_what_grows_tells_its_time_and_has_a_weak_tag() -> None:
    answer = ask(counted())
    assert answer.body["as_of"].startswith("2026-11-20T08:30")
    assert answer.headers["ETag"].startswith("W/")


def test_the_age_of_a_kept_count_is_told() -> None:
    pipeline = counted()
    pipeline.settings = replace(pipeline.settings, cache_live_ms=10_000)
    reader = pipeline.reader()
    answer_counter(reader, {"key": "k"}, TIME_LEFT)
    pipeline.effects.pass_by(1_001)
    answer = answer_counter(reader, {"key": "k"}, TIME_LEFT)
    assert answer.headers == {"Cache-Control": "private, max-age=10", "Age": "2"}
    assert answer.counts[0].source == "kept"


def test_what_no_cache_may_keep() -> None:
    pipeline = counted()
    consistent = ask(pipeline, consistent="true")
    assert consistent.headers["Cache-Control"] == "no-store"
    assert ask(pipeline, reads="eventual").headers["Cache-Control"] == "no-store"
    late = answer_counter(pipeline.reader(), {"key": "k", "since": WINDOW}, 0)
    assert not late.is_complete
    for answer in (late, answer_error(UsageError("key ''"))):
        told = conditional(answer, "*")
        assert (told.status, told.body) == (answer.status, answer.body)
        assert told.headers == {"Cache-Control": "no-store"}

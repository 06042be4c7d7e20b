from __future__ import annotations

import json

import pytest

from tallyroll.errors import Absent, Archived, Refused, SettingsError, Throttled, UsageError
from tallyroll.model.formats.payloads import DAMAGED
from tallyroll.model.states import Status
from tallyroll.reads.counts import Count, WindowCount, counter_json
from tallyroll.reads.described import problems
from tallyroll.reads.described.routes import ROUTES
from tallyroll.reads.http import (
    answer_counter,
    answer_error,
    answer_unrouted,
    conditional,
)
from tallyroll.reads.ranges.cursors import NO_SECRET
from tests.harness.pipeline import HOUR, NOW, START, TIME_LEFT, WINDOW, opened


@pytest.mark.parametrize(
    ("parameters", "asked"),
    [
        ({"key": "k"}, (["k"], None, None, False, False, False)),
        ({"key": "k", "since": "", "consistent": ""}, (["k"], None, None, False, False, False)),
        (
            {"key": "ü.1", "since": WINDOW, "until": "2026-11-20T09:00Z", "consistent": "true"},
            (["ü.1"], START, START + HOUR, True, False, False),
        ),
        (
            {"key": "k", "consistent": "false", "windows": "true"},
            (["k"], None, None, False, True, False),
        ),
        ({"key": "k", "reads": "eventual"}, (["k"], None, None, False, False, True)),
    ],
)
def test_parameters(
    parameters: dict[str, str], asked: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, seen = opened().reader(), list[tuple[object, ...]]()

    def counts(
        keys: list[str],
        since: int,
        until: int,
        time_left_ms: int,
        *,
        consistent: bool,
        by_window: bool,
        eventual: bool,
    ) -> list[Count]:
        assert time_left_ms == TIME_LEFT
        seen.append((keys, since, until, consistent, by_window, eventual))
        return [Count(key, 0, 0, (), NOW) for key in keys]

    monkeypatch.setattr(reader, "counts", counts)
    answer_counter(reader, parameters, TIME_LEFT)
    assert seen == [asked]


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({}, "key is missing"),
        ({"key": ""}, "key ''"),
        ({"key": "~t.1"}, "reserved"),
        ({"key": "k" * 513}, "513 bytes"),
        ({"key": "k", "From": "1"}, "'From': known are key, since, until, consistent, reads"),
        ({"key": "k", "since": "yesterday"}, "time 'yesterday'"),
        ({"key": "k", "until": "-1"}, "time '-1'"),
        ({"key": "k", "consistent": "yes"}, "consistent 'yes': must be true or false"),
        ({"key": "k", "reads": "old"}, "reads 'old': must be consistent or eventual"),
        ({"key": "k", "reads": "eventual", "consistent": "true"}, "give one of the two"),
    ],
)
def test_bad_parameters_are_named(parameters: dict[str, str], named: str) -> None:
    with pytest.raises(UsageError) as error:
        answer_counter(opened().reader(), parameters, TIME_LEFT)
    assert named in str(error.value)


def test_an_answer() -> None:
    pipeline = opened()
    pipeline.write({"key": "k", "value": 2.5})
    answer = answer_counter(pipeline.reader(), {"key": "k", "since": WINDOW}, TIME_LEFT)
    assert (answer.status, answer.content_type) == (200, "application/json")
    assert answer.body == {
        "key": "k",
        "events": 1,
        "sum": "2.5",
        "windows": [{"window": WINDOW, "events": 1, "sum": "2.5", "state": "open"}],
        "as_of": "2026-11-20T08:30:00.000Z",
        "complete": True,
    }
    assert json.loads(json.dumps(answer.body)) == answer.body


def test_what_is_missing_is_named() -> None:
    window = WindowCount(WINDOW, 1, 10**30, Status.SEALED)
    body = counter_json(
        Count("k", 1, 10**30, (window,), NOW, why_missing={"20261120T070000Z": "slow"})
    )
    assert (body["complete"], body["missing"]) == (False, ["20261120T070000Z"])
    assert body["sum"] == "1" + "0" * 24


@pytest.mark.parametrize(
    ("error", "kind", "detail"),
    [
        (UsageError("key ''"), problems.BAD_REQUEST, "key ''"),
        (SettingsError("SHARDS"), problems.BAD_REQUEST, "SHARDS"),
        (Throttled("a table's name"), problems.UNAVAILABLE, "a read failed: try again"),
        (Absent("there is no window w"), problems.ABSENT, "there is no window w"),
        (
            Archived("w", "archive/x/w/1"),
            problems.ARCHIVED,
            "window w was dropped: its events are in the archive, under archive/x/w/1/",
        ),
        (Refused("event 'e1' is damaged", DAMAGED), problems.DAMAGED_PAYLOAD, "event 'e1' is d"),
        (Refused("no secret yet", NO_SECRET), problems.NOT_READY, "no secret yet"),
        (ValueError("a secret"), problems.INTERNAL, "see the function's log"),
    ],
)
def test_problems(error: Exception, kind: problems.ProblemType, detail: str) -> None:
    answer = answer_error(error)
    assert (answer.status, answer.content_type) == (kind.status, "application/problem+json")
    assert answer.body["status"] == kind.status
    assert (answer.body["type"], answer.body["title"]) == (kind.uri, kind.title)
    assert answer.body["detail"].startswith(detail)
    assert answer.headers == {"Cache-Control": "no-store"}


def test_what_has_no_route_is_told_apart() -> None:
    paths = answer_unrouted("POST", "/v1/votes")
    assert (paths.status, paths.body["type"]) == (404, "urn:tallyroll:problem-type:unknown-path")
    assert paths.body["detail"] == f"known are GET {', '.join(ROUTES)}"
    for path in ROUTES:
        method = conditional(answer_unrouted("PUT", path), "*")
        assert (method.status, method.body["title"]) == (405, "Method not allowed")
        assert method.body["detail"] == f"PUT {path}: the path takes GET alone"
        assert method.headers == {"Allow": "GET", "Cache-Control": "no-store"}


def test_a_type_has_one_meaning_and_a_status_one_title() -> None:
    assert len({kind.uri for kind in problems.PROBLEMS}) == len(problems.PROBLEMS)
    titles = {(kind.status, kind.title) for kind in problems.PROBLEMS}
    assert len(titles) == len({status for status, _ in titles})
    every = [each for each in vars(problems).values() if isinstance(each, problems.ProblemType)]
    assert sorted(every) == sorted(problems.PROBLEMS)

"""Messages of other systems through writer, roller and redrive; deployments change the mapping."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Unknown
from tallyroll.ingest.writer import BatchReport
from tallyroll.limits import MAPPED_AHEAD_MS, MAPPINGS_MAX
from tallyroll.model.foreign.mappings import Mappings
from tallyroll.model.messages import Message, RedriveMark
from tallyroll.model.states import Calendar
from tallyroll.reasons import Reason
from tests.harness.pipeline import (
    MINUTE,
    NOW,
    SMALL,
    TIME_LEFT,
    WINDOW,
    Pipeline,
    StillEffects,
    opened,
)

BY_VIDEO = {"key": "video", "id": "view"}
BY_CHANNEL = {"key": "channel", "id": "view"}


def view(number: int = 1, **fields: Any) -> dict[str, Any]:
    return {"video": "v1", "channel": "c1", "view": f"view-{number}", **fields}


def deployed(pipeline: Pipeline, mapping: dict[str, str]) -> None:
    """Deploy a mapping; the roller runs, and the writers' caches grow old."""
    pipeline.settings = replace(pipeline.settings, mapping=mapping)
    pipeline.roller().run(TIME_LEFT)
    pipeline.effects.pass_by(pipeline.settings.cache_calendar_ms)


def mappings(pipeline: Pipeline) -> Mappings:
    calendar = pipeline.catalog.calendar()
    assert calendar
    return calendar.mappings


def write(pipeline: Pipeline, *messages: Message) -> BatchReport:
    return pipeline.writer().write(messages, TIME_LEFT)


@pytest.fixture
def pipeline() -> Pipeline:
    """A pipeline whose first deployment counts videos."""
    return opened(replace(SMALL, mapping=BY_VIDEO))


def test_messages_are_counted_by_the_mapping(pipeline: Pipeline) -> None:
    report = pipeline.write(view(1), view(2), view(2), {"video": "v2", "view": "x"})
    assert (report.events, report.duplicates) == (3, 1)
    assert [pipeline.tally(key)[0] for key in ("v1", "v2")] == [2, 1]


def test_what_cannot_be_mapped_goes_to_the_dead_letters(pipeline: Pipeline) -> None:
    report = pipeline.write({"view": "x"}, view())
    assert report.rejected == {Reason.MAPPING_FAILED: 1}
    assert report.events == 1
    [letter] = pipeline.queue.dead_letters
    assert "there is no 'video'" in letter.detail


def test_an_s3_notification_of_several_records_is_not_counted_in_part() -> None:
    def notification(*names: str) -> dict[str, Any]:
        bucket = {"name": "videos"}
        return {
            "Records": [
                {
                    "eventSource": "aws:s3",
                    "eventTime": "2026-11-20T08:30:00.250Z",
                    "eventName": "ObjectCreated:Put",
                    "s3": {"bucket": bucket, "object": {"key": name, "sequencer": name}},
                }
                for name in names
            ]
        }

    pipeline = opened(replace(SMALL, mapping={"key": "s3.object.key"}))
    report = pipeline.write(notification("a"), notification("a", "b"), notification("a", "a"))
    assert report.rejected == {Reason.BAD_ENVELOPE: 2}
    assert [pipeline.tally(key)[0] for key in ("a", "b")] == [1, 0]
    [told] = {letter.detail for letter in pipeline.queue.dead_letters}
    assert told == (
        "the S3 notification has 2 records, and a message is one event: send each record in a"
        " notification of its own"
    )
    bodies = [json.loads(letter.message.body) for letter in pipeline.queue.dead_letters]
    assert bodies == [notification("a", "b"), notification("a", "a")]


@pytest.mark.parametrize("wraps", range(4))
def test_one_mapping_reads_sns_with_raw_delivery_without_it_and_around_itself(
    pipeline: Pipeline, wraps: int
) -> None:
    body: dict[str, Any] = view()
    for number in range(wraps):
        body = {
            "Type": "Notification",
            "MessageId": f"n{number}",
            "TopicArn": "arn:aws:sns:eu-west-1:123456789012:views",
            "Message": json.dumps(body),
            "Timestamp": "2026-11-20T08:30:00.250Z",
        }
    report = pipeline.write(body)
    if wraps <= 2:
        assert (report.events, pipeline.tally("v1")[0]) == (1, 1)
    else:
        assert report.rejected == {Reason.BAD_ENVELOPE: 1}
        [letter] = pipeline.queue.dead_letters
        assert letter.detail == "SNS notifications are nested more than 2 deep"


def test_packets_and_marked_events_are_counted_as_ever(pipeline: Pipeline) -> None:
    packet = {"v": 1, "id": "p", "key": "k", "t0": NOW, "events": [[0], [1]]}
    assert pipeline.write(packet, {"v": 1, "key": "k"}, view()).events == 4
    assert pipeline.tally("k")[0] == 3


def test_before_the_first_run_of_the_roller_nothing_is_judged() -> None:
    unfounded = Pipeline(replace(SMALL, mapping=BY_VIDEO))
    report = unfounded.write(view(), {"nothing": 1})
    assert (report.waiting, len(report.rejected)) == (2, 0)


# --- deployments


def test_a_redelivery_after_a_deployment_maps_to_the_same_key(pipeline: Pipeline) -> None:
    message = pipeline.message(view())
    assert write(pipeline, message).events == 1
    deployed(pipeline, BY_CHANNEL)
    later = pipeline.message(view(), sent=pipeline.effects.now() + MAPPED_AHEAD_MS)

    assert write(pipeline, message).duplicates == 1
    assert write(pipeline, later).events == 1
    assert write(pipeline, message).duplicates == 1
    assert [pipeline.tally(key)[0] for key in ("v1", "c1")] == [1, 1]


def test_a_writer_with_an_old_list_agrees_with_one_that_has_the_new(pipeline: Pipeline) -> None:
    """It settles what it reads, so a later mapping holds only after that."""
    stale = pipeline.writer()
    first = pipeline.message(view(1))
    assert stale.write([first], TIME_LEFT).events == 1
    edge = mappings(pipeline).until
    assert edge == first.sent + MAPPED_AHEAD_MS
    pipeline.settings = replace(pipeline.settings, mapping=BY_CHANNEL)
    pipeline.roller().run(TIME_LEFT)
    assert mappings(pipeline).entries[-1][0] == edge

    before, after = (pipeline.message(view(n), sent=edge + n - 3) for n in (2, 3))
    assert stale.write([before, after], TIME_LEFT).events == 2
    assert write(pipeline, before, after).duplicates == 2
    assert [pipeline.tally(key)[0] for key in ("v1", "c1")] == [2, 1]


def test_a_rollback_is_one_more_change(pipeline: Pipeline) -> None:
    sent = []
    for number, mapping in enumerate((BY_VIDEO, BY_CHANNEL, BY_VIDEO)):
        deployed(pipeline, mapping)
        pipeline.effects.pass_by(MAPPED_AHEAD_MS)
        sent.append(pipeline.message(view(number)))
        assert write(pipeline, sent[-1]).events == 1
    assert len(mappings(pipeline).entries) == 3
    assert write(pipeline, *sent).duplicates == 3
    assert [pipeline.tally(key)[0] for key in ("v1", "c1")] == [2, 1]


def test_an_old_roller_beside_a_new_one_changes_no_identity(pipeline: Pipeline) -> None:
    """Both append their mapping in turn; what was sent is mapped as it was."""
    old, new = pipeline.settings, replace(pipeline.settings, mapping=BY_CHANNEL)
    sent = []
    for number in range(6):
        pipeline.settings = (old, new)[number % 2]
        pipeline.roller().run(TIME_LEFT)
        pipeline.effects.pass_by(MINUTE)
        sent.append(pipeline.message(view(number)))
        assert write(pipeline, *sent).events == 1
    counted = [pipeline.tally(key)[0] for key in ("v1", "c1")]
    assert counted == [3, 3]


def test_a_mapping_in_a_pipeline_that_had_none_changes_no_identity() -> None:
    pipeline = opened()
    known = [pipeline.message(body) for body in ({"key": "k", "id": "1", "video": "v1"}, view())]
    report = write(pipeline, *known)
    assert (report.events, report.rejected) == (1, {Reason.BAD_KEY: 1})
    deployed(pipeline, BY_VIDEO)

    again = write(pipeline, *known)

    assert (again.duplicates, again.events) == (1, 1)
    assert [pipeline.tally(key)[0] for key in ("k", "v1")] == [1, 1]


def test_a_mapping_that_is_taken_out_holds_for_what_was_sent_before(pipeline: Pipeline) -> None:
    message = pipeline.message(view())
    assert write(pipeline, message).events == 1
    deployed(pipeline, {})
    pipeline.effects.pass_by(MAPPED_AHEAD_MS)
    report = write(pipeline, message, pipeline.message(view(2)), pipeline.message({"key": "k"}))
    assert (report.duplicates, report.events) == (1, 1)
    assert report.rejected == {Reason.BAD_KEY: 1}


def test_a_version_before_mappings_keeps_them(pipeline: Pipeline) -> None:
    """Its calendar has none; what it writes there leaves them as they are."""
    pipeline.write(view())
    calendar, live = pipeline.catalog.calendar(), pipeline.catalog.live()
    assert calendar
    assert live
    old = Calendar(calendar.grid, calendar.genesis)
    assert old == calendar
    assert pipeline.catalog.extend(old, replace(old, grid=old.grid.with_length(900, NOW * 2)), live)
    assert mappings(pipeline) == calendar.mappings


def test_an_append_that_comes_too_late_is_none(pipeline: Pipeline) -> None:
    """A roller sleeps between its read of the calendar and its append, while writers go on."""
    read = mappings(pipeline)
    pipeline.write(view())
    pipeline.catalog.append_mapping(read, replace(SMALL, mapping=BY_CHANNEL).mapping_text)
    assert len(mappings(pipeline).entries) == 1


def test_a_roller_that_cannot_append_goes_on(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> None:
        raise Unknown("no answer")

    monkeypatch.setattr(pipeline.catalog, "append_mapping", lost)
    pipeline.settings = replace(pipeline.settings, mapping=BY_CHANNEL)
    pipeline.effects.pass_by(60 * MINUTE)
    rolled = pipeline.roller().run(TIME_LEFT)
    assert rolled.problems == ["the mapping is not changed: no answer"]
    assert not rolled.next_missing


def test_a_list_that_is_full_is_a_problem_that_is_reported(pipeline: Pipeline) -> None:
    calendar = pipeline.catalog.calendar()
    assert calendar
    full = Mappings(calendar.mappings.entries * MAPPINGS_MAX, 0, marked=True)
    pipeline.catalog._calendar = replace(calendar, mappings=full)
    pipeline.settings = replace(pipeline.settings, mapping=BY_CHANNEL)
    assert "make a new pipeline" in pipeline.roller().run(TIME_LEFT).problems[0]


def test_a_run_that_makes_nothing_changes_no_mapping(pipeline: Pipeline) -> None:
    """`tallyroll teardown` runs the roller with the operator's settings."""
    pipeline.settings = replace(pipeline.settings, mapping={})
    pipeline.roller().run(TIME_LEFT, make=False)
    assert len(mappings(pipeline).entries) == 1


# --- settling costs a call a minute


def test_settling_is_one_call_a_minute_and_none_without_a_mapping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for mapping, expected in ((BY_VIDEO, 3), ({}, 0)):
        pipeline = opened(replace(SMALL, mapping=mapping))
        calls: list[int] = []
        settle = pipeline.catalog.settle_mappings

        def noting(until: int, calls: list[int] = calls, settle: Any = settle) -> Calendar | None:
            calls.append(until)
            result: Calendar | None = settle(until)
            return result

        monkeypatch.setattr(pipeline.catalog, "settle_mappings", noting)
        writer = pipeline.writer()
        for number in range(13):
            writer.write([pipeline.message(view(number))], TIME_LEFT)
            pipeline.effects.pass_by(MAPPED_AHEAD_MS // 5)
        assert len(calls) == expected


def test_a_forged_time_settles_nothing_ahead(pipeline: Pipeline) -> None:
    far = RedriveMark(WINDOW, "first", NOW * 2)
    forged = replace(pipeline.message(view()), redrive=far)
    assert write(pipeline, forged).rejected
    assert mappings(pipeline).until <= forged.sent + MAPPED_AHEAD_MS


def test_a_catalog_that_does_not_answer_hands_back(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(_until: int) -> None:
        raise Unknown("no answer")

    message = pipeline.message(view())
    with monkeypatch.context() as patched:
        patched.setattr(pipeline.catalog, "settle_mappings", lost)
        assert write(pipeline, message).failures == [message.id]
    assert write(pipeline, message).events == 1


def test_a_new_pipeline_is_marked_and_an_old_one_is_not() -> None:
    assert mappings(opened(replace(SMALL, mapping=BY_VIDEO))).marked
    old = Pipeline(SMALL, StillEffects(NOW - MINUTE))
    old.roller().run(TIME_LEFT)
    deployed(old, BY_VIDEO)
    assert mappings(old) == Mappings(
        ((0, json.dumps(BY_VIDEO, separators=(",", ":"), sort_keys=True)),)
    )

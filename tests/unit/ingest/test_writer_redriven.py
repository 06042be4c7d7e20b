"""What the writer makes of redriven messages, and how it knows them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.adapters.aws.lambda_events import sqs_messages
from tallyroll.ingest.writer import BatchReport
from tallyroll.limits import TS_MS_MAX, WINDOWS_PER_BATCH_MAX
from tallyroll.model.dead_letters import attributes_of, redrive_of
from tallyroll.model.messages import Message, RedriveMark
from tallyroll.model.windows import Grid, window_start
from tallyroll.ports.catalog import Claim
from tallyroll.reasons import Reason
from tests.harness.pipeline import (
    HOUR,
    MINUTE,
    NOW,
    SMALL,
    TIME_LEFT,
    WINDOW,
    Pipeline,
    hour,
    opened,
)

HOME = hour(6)
LATE = window_start(HOME) + 5 * MINUTE
FIRST = "first-message"


def redriven(
    pipeline: Pipeline, target: str = WINDOW, *, claim: str | None = WINDOW, **fields: Any
) -> Message:
    """A message that was redriven to `target`, whose identity is claimed for `claim`."""
    body: dict[str, Any] = {"key": "k", "id": "e1", "ts": LATE} | fields
    if claim:
        identity = (HOME, "k", body.get("id") or FIRST)
        pipeline.catalog.claim(identity, Claim(claim, NOW))
    return replace(pipeline.message(json.dumps(body)), redrive=RedriveMark(target, FIRST, LATE))


def write(pipeline: Pipeline, *messages: Message) -> BatchReport:
    return pipeline.writer().write(messages, TIME_LEFT)


def test_it_counts_where_its_claim_says_however_often_it_comes() -> None:
    pipeline = opened()
    message = redriven(pipeline)
    assert write(pipeline, message).events == 1
    again = replace(message, id="another", receives=2)
    report = write(pipeline, again, pipeline.message({"key": "k", "id": "e2", "ts": NOW}))
    assert (report.events, report.duplicates) == (1, 1)
    assert pipeline.tally("k")[0] == 2
    assert pipeline.tally("k", HOME)[0] == 0


def test_without_a_time_it_happened_when_it_was_first_sent() -> None:
    pipeline = opened()
    message = redriven(pipeline, id=None, ts=None)
    assert write(pipeline, message).events == 1
    stored = pipeline.store.record(pipeline.spec(), "k", FIRST)
    assert stored
    assert stored.ts == LATE


@pytest.mark.parametrize("claim", [None, hour(7)])
def test_without_its_claim_it_is_rejected(claim: str | None) -> None:
    pipeline = opened()
    report = write(pipeline, redriven(pipeline, claim=claim))
    assert report.rejected == {Reason.NOT_CLAIMED: 1}
    (letter,) = pipeline.queue.dead_letters
    assert (letter.window, letter.message.first_id) == (HOME, FIRST)


def test_its_claim_is_read_anew_each_time() -> None:
    """Neither that there was none nor where it led may be remembered: claims come, and move."""
    pipeline = opened()
    writer = pipeline.writer()
    message = redriven(pipeline, claim=None)
    assert writer.write([message], TIME_LEFT).rejected == {Reason.NOT_CLAIMED: 1}
    claim = pipeline.catalog.claim((HOME, "k", "e1"), Claim(hour(7), NOW))
    assert writer.write([message], TIME_LEFT).rejected == {Reason.NOT_CLAIMED: 1}
    pipeline.catalog.move((HOME, "k", "e1"), claim, Claim(WINDOW, NOW))
    assert writer.write([message], TIME_LEFT).events == 1


def test_without_its_claim_it_takes_no_other_message_out_of_its_batch() -> None:
    """It is rejected before the windows of a batch are counted, which are at most so many."""
    pipeline = opened(replace(SMALL, window_seconds=60, accept_for_ms=4 * HOUR))
    others = [
        pipeline.message({"key": "k", "id": f"e{n}", "ts": NOW - n * MINUTE})
        for n in range(WINDOWS_PER_BATCH_MAX)
    ]
    report = write(pipeline, redriven(pipeline, claim=None), *others)
    assert (report.events, report.failures) == (WINDOWS_PER_BATCH_MAX, [])
    assert report.rejected == {Reason.NOT_CLAIMED: 1}


def test_of_more_homes_than_are_read_for_a_batch_the_rest_counts_with_the_next() -> None:
    """The rule of its home may say more of a message, so nothing is decided without it."""
    pipeline = opened(replace(SMALL, window_seconds=60, accept_for_ms=4 * HOUR))
    grid, target = Grid.of(60), Grid.of(60).at(NOW).id
    messages = []
    for number in range(WINDOWS_PER_BATCH_MAX + 20):
        ts, id_ = NOW - (number + 1) * MINUTE, f"e{number}"
        pipeline.catalog.claim((grid.at(ts).id, "k", id_), Claim(target, NOW))
        message = pipeline.message({"key": "k", "id": id_, "ts": ts})
        messages.append(replace(message, redrive=RedriveMark(target, f"first-{number}", ts)))
    writer = pipeline.writer()
    report = writer.write(messages, TIME_LEFT)
    assert report.events == WINDOWS_PER_BATCH_MAX - 1  # the target is one of them
    back = [each for each in messages if each.id in report.failures]
    assert writer.write(back, TIME_LEFT).events == len(back) == 21


def test_a_target_that_is_none_is_no_claim() -> None:
    pipeline = opened()
    report = write(pipeline, redriven(pipeline, "x" * 300))
    assert report.rejected == {Reason.NOT_CLAIMED: 1}


def test_it_must_be_sent_while_its_target_takes_events() -> None:
    pipeline = opened()
    report = write(pipeline, redriven(pipeline, HOME, claim=HOME))
    assert report.rejected == {Reason.TOO_LATE: 1}
    (letter,) = pipeline.queue.dead_letters
    assert letter.message.redrive == RedriveMark(HOME, FIRST, LATE)
    pipeline.catalog.put_spec(replace(pipeline.spec(), window="target", accept_from=NOW + 1))
    report = write(pipeline, redriven(pipeline, "target", claim="target", id="e2"))
    assert report.rejected == {Reason.NOT_OPEN_WHEN_SENT: 1}


def test_it_waits_for_a_target_that_is_not_made_yet() -> None:
    pipeline = opened()
    message = redriven(pipeline, hour(12), claim=hour(12))
    report = write(pipeline, message)
    assert (report.failures, report.waiting) == ([message.id], 1)


def test_it_is_a_straggler_of_its_target() -> None:
    pipeline = opened()
    write(pipeline, replace(redriven(pipeline), receives=3))
    assert pipeline.catalog.stragglers([HOME, WINDOW]) == {WINDOW: NOW}


def test_what_its_target_cannot_hold_is_rejected() -> None:
    pipeline = opened()
    spec = replace(pipeline.spec(), window="strict", require_ts=True)
    pipeline.catalog.put_spec(spec)
    undated = redriven(pipeline, "strict", claim="strict", ts=None)
    report = write(pipeline, undated)
    assert report.rejected == {Reason.TS_REQUIRED: 1}


def test_its_window_is_that_of_the_latest_grid() -> None:
    pipeline = opened()
    writer = pipeline.writer()
    assert writer.write([pipeline.message({"key": "k"})], TIME_LEFT).events == 1
    calendar, live = pipeline.catalog.calendar(), pipeline.catalog.live()
    assert calendar
    assert live
    longer = calendar.grid.with_length(7200, window_start(hour(11)))
    assert pipeline.catalog.extend(calendar, replace(calendar, grid=longer), live)
    happened = window_start(hour(13)) + MINUTE
    pipeline.effects.pass_by(6 * HOUR)
    pipeline.catalog.claim((hour(12), "k", "e1"), Claim("target", NOW))
    pipeline.catalog.put_spec(replace(pipeline.spec(), window="target", accept_until=NOW * 2))
    message = redriven(pipeline, "target", claim=None, ts=happened)
    assert writer.write([message], TIME_LEFT).events == 1


# --- attributes


def test_attributes_come_back_as_they_were_given() -> None:
    redrive = RedriveMark(WINDOW, FIRST, LATE)
    assert redrive_of(attributes_of(redrive)) == redrive


@pytest.mark.parametrize(
    "changed",
    [
        {"tallyroll-target": ""},
        {"tallyroll-target": "t" * 200_000},
        {"tallyroll-target": WINDOW + "\n"},
        {"tallyroll-target": WINDOW.lower()},
        {"tallyroll-target": "20261120T080060Z"},
        {"tallyroll-target": "20261320T080000Z"},
        {"tallyroll-target": "19691231T235959Z"},
        {"tallyroll-target": WINDOW.replace("0", "\N{ARABIC-INDIC DIGIT ZERO}")},
        {"tallyroll-message-id": ""},
        {"tallyroll-message-id": "x" * 101},
        {"tallyroll-message-id": "ü"},
        {"tallyroll-sent": ""},
        {"tallyroll-sent": "-1"},
        {"tallyroll-sent": "١٢"},
        {"tallyroll-sent": str(TS_MS_MAX + 1)},
        {"tallyroll-sent": "9" * 5_000},
    ],
)
def test_attributes_not_in_due_form_are_none(changed: dict[str, str]) -> None:
    given = attributes_of(RedriveMark(WINDOW, FIRST, LATE))
    assert redrive_of(given | changed) is None
    (name,) = changed
    assert redrive_of({other: text for other, text in given.items() if other != name}) is None


def test_a_message_tells_its_redrive() -> None:
    texts = attributes_of(RedriveMark(WINDOW, FIRST, LATE))
    attributes: dict[str, Any] = {
        name: {"stringValue": text, "dataType": "String"} for name, text in texts.items()
    }
    attributes["other"] = {"binaryValue": "AAE=", "dataType": "Binary"}
    record = {
        "messageId": "m1",
        "body": "{}",
        "receiptHandle": "r1",
        "attributes": {"SentTimestamp": str(NOW), "ApproximateReceiveCount": "1"},
        "messageAttributes": attributes,
    }
    (message,) = sqs_messages({"Records": [record]})
    assert message.redrive == RedriveMark(WINDOW, FIRST, LATE)
    assert (message.first_id, message.first_sent) == (FIRST, LATE)
    (message,) = sqs_messages({"Records": [record | {"messageAttributes": None}]})
    assert (message.redrive, message.first_id, message.first_sent) == (None, "m1", NOW)

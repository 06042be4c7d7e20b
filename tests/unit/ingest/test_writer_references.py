"""References to uploaded payloads: which are taken, and that each record's object is marked."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.limits import REFERENCE_MS_MAX
from tallyroll.model.messages import RedriveMark
from tallyroll.model.stored import StoredEvent
from tallyroll.ports.catalog import Claim
from tallyroll.ports.store import Outcome, Verdict
from tallyroll.reads.jsonable import stored_json
from tallyroll.reasons import Reason
from tests.harness.pipeline import MINUTE, NOW, SMALL, TIME_LEFT, WINDOW, Pipeline, opened

DAY = 86_400_000
SHA256 = hashlib.sha256(b"x").hexdigest()
KEY = f"payloads/tallyroll/2026-11-20/{SHA256}-1"
SETTINGS = replace(SMALL, bucket="memory")


def reference(**fields: Any) -> dict[str, Any]:
    return {"bucket": "memory", "key": KEY, "bytes": 7, "sha256": SHA256, **fields}


def event(record_id: str = "e1", ref: Any = None, **fields: Any) -> dict[str, Any]:
    ref = reference() if ref is None else ref
    return {"v": 2, "id": record_id, "key": "k", "ts": NOW, "payload_ref": ref, **fields}


def found(pipeline: Pipeline, record_id: str = "e1") -> StoredEvent:
    one = pipeline.reader().event("k", record_id, WINDOW, None).what
    assert isinstance(one, StoredEvent)
    return one


def test_a_reference_counts_and_is_read_back() -> None:
    pipeline = opened(SETTINGS)
    assert pipeline.write(event(value=2.5)).events == 1
    assert pipeline.tally("k") == (1, 2_500_000)
    one = found(pipeline)
    assert one.payload is None
    assert stored_json(one) == {"id": "e1", "ts": NOW, "value": "2.5", "payload_ref": reference()}
    assert pipeline.catalog.marks == {KEY}


def test_the_payload_is_the_content_wherever_it_lies() -> None:
    pipeline = opened(SETTINGS)
    elsewhere = KEY[:-1] + "2"
    assert pipeline.write(event()).events == 1
    assert pipeline.write(event(ref=reference(key=elsewhere))).duplicates == 1
    assert pipeline.write(event(ref=reference(sha256="0" * 64))).rejected == {Reason.ID_CONFLICT: 1}
    assert pipeline.write(event(ref=reference(bytes=8))).rejected == {Reason.ID_CONFLICT: 1}
    assert pipeline.catalog.marks == {KEY}


@pytest.mark.parametrize("verdict", [Verdict.GATE_SHUT, Verdict.UNKNOWN])
def test_what_is_not_committed_is_not_marked(verdict: Verdict) -> None:
    pipeline = opened(SETTINGS)
    pipeline.store.script = [Outcome(verdict)] * 1_000
    assert pipeline.write(event()).failures
    assert pipeline.catalog.marks == set()


@pytest.mark.parametrize(
    ("ref", "why"),
    [
        (reference(bucket="other"), "only objects under payloads/tallyroll/ in 'memory' are taken"),
        (reference(key=KEY.replace("tallyroll", "votes")), "only objects under payloads/tallyroll"),
        (reference(key="archive/tallyroll/x"), "only objects under payloads/tallyroll/"),
        (reference(key=f"payloads/tallyroll/2026-11-20/../{SHA256}"), "only objects under"),
        (reference(key="payloads/tallyroll/2026-10-20/x"), "over 30 days before the message"),
        (reference(key="payloads/tallyroll/9999-99-99/x"), "9999-99-99 is no day on which"),
        (reference(key="payloads/tallyroll/2026-11-00/x"), "2026-11-00 is no day on which"),
        (reference(key="payloads/tallyroll/2026-11-31/x"), "2026-11-31 is no day on which"),
        (reference(key="payloads/tallyroll/2026-11-22/x"), "2026-11-22 is no day on which"),
        (reference(sha256="x"), "must have a bucket, a key, bytes, and a sha256 in hex"),
        (reference(bytes=-1), "must have a bucket, a key, bytes, and a sha256 in hex"),
        (reference(bytes=True), "must have a bucket, a key, bytes, and a sha256 in hex"),
        ({"key": KEY}, "must have a bucket"),
        ("s3://memory/x", "must have a bucket"),
        ([], "must have a bucket"),
    ],
)
def test_other_references_are_rejected(ref: Any, why: str) -> None:
    pipeline = opened(SETTINGS)
    report = pipeline.write(event(ref=ref))
    assert report.rejected == {Reason.BAD_REFERENCE: 1}
    assert why in pipeline.queue.dead_letters[0].detail
    assert pipeline.catalog.marks == set()


def test_a_pipeline_without_a_bucket_takes_none() -> None:
    pipeline = opened()
    assert pipeline.write(event(ref=reference(bucket=""))).rejected == {Reason.BAD_REFERENCE: 1}


@pytest.mark.parametrize("more", [{"payload": 1}, {"events": [[0]]}])
def test_a_reference_stands_alone(more: dict[str, Any]) -> None:
    pipeline = opened(SETTINGS)
    assert pipeline.write(event(**more)).rejected == {Reason.BAD_REFERENCE: 1}


def test_a_version_without_a_reference_is_unknown_as_before() -> None:
    pipeline = opened(SETTINGS)
    body = {name: value for name, value in event().items() if name != "payload_ref"}
    assert pipeline.write(body).rejected == {Reason.UNKNOWN_VERSION: 1}


def test_a_reference_is_good_until_30_days_after_its_upload() -> None:
    uploaded = NOW - REFERENCE_MS_MAX
    settings = replace(SETTINGS, accept_for_ms=40 * DAY, queue_retention_ms=14 * DAY)
    pipeline = opened(settings)
    for number, day in enumerate(("2026-10-21", "2026-10-20")):
        message = pipeline.message(
            event(f"e{number}", reference(key=f"payloads/tallyroll/{day}/{SHA256}-1"))
        )
        report = pipeline.writer().write([message], TIME_LEFT)
        assert (report.events, report.rejected.total()) == ((1, 0), (0, 1))[number]
    assert uploaded + 30 * DAY + MINUTE > NOW


def test_the_day_of_an_upload_may_be_a_day_ahead() -> None:
    """By a clock that is wrong, or shortly after midnight."""
    pipeline = opened(SETTINGS)
    assert pipeline.write(event(ref=reference(key=KEY.replace("-20/", "-21/")))).events == 1


def test_a_reference_needs_no_version() -> None:
    """Else its object would be swept, and the payload of a counted event lost."""
    pipeline = opened(SETTINGS)
    plain = {name: value for name, value in event().items() if name != "v"}
    assert pipeline.write({**plain, "v": 1}).events == 1
    assert pipeline.catalog.marks == {KEY}
    assert pipeline.write(plain, event()).duplicates == 2
    assert pipeline.write({**plain, "payload_ref": {}}).rejected == {Reason.BAD_REFERENCE: 1}
    assert pipeline.write({**plain, "id": "e2", "payload_ref": None}).events == 1


def test_a_redriven_reference_is_as_old_as_its_object_is_now() -> None:
    """The object may be gone, however old the event's first message is."""
    pipeline = opened(replace(SETTINGS, accept_for_ms=40 * DAY, queue_retention_ms=14 * DAY))
    old = event(ref=reference(key=f"payloads/tallyroll/2026-10-20/{SHA256}-1"))
    pipeline.catalog.claim((WINDOW, "k", "e1"), Claim(WINDOW, NOW))
    redrive = RedriveMark(WINDOW, "first", NOW - 5 * DAY)
    message = replace(pipeline.message(old), redrive=redrive)
    report = pipeline.writer().write([message], TIME_LEFT)
    assert report.rejected == {Reason.BAD_REFERENCE: 1}
    assert "over 30 days before" in pipeline.queue.dead_letters[0].detail


def test_a_damaged_reference_is_an_error() -> None:
    pipeline = opened(SETTINGS)
    pipeline.write(event())
    items = pipeline.store.items(pipeline.spec().table)
    [name] = [name for name in items if name[1] == "e#e1"]
    items[name] = {**items[name], "data": {"B": b"\xff{}"}}
    with pytest.raises(Exception, match="event 'e1' of key 'k' is damaged: its reference is"):
        found(pipeline)

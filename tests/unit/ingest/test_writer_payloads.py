"""Large payloads: whatever the store answers, a record has its chunks, and no chunk is alone."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.adapters.dynamodb.items import parse_item
from tallyroll.model.events import decode
from tallyroll.model.formats.payloads import Chunk, manifest_in
from tallyroll.model.records import Record, increments_of, record_of
from tallyroll.model.stored import StoredEvent
from tallyroll.ports.store import Answer, Element, Outcome, Verdict
from tests.harness.payloads import NOISE, noise
from tests.harness.pipeline import NOW, SMALL, TIME_LEFT, Pipeline, opened

FINE = Element(Answer.FINE)


def event(record_id: str = "e1", **fields: Any) -> dict[str, Any]:
    return {"id": record_id, "key": "k", "ts": NOW, "payload": NOISE, **fields}


def check_chunks(pipeline: Pipeline) -> dict[str, int]:
    """The number of chunks of each record; every chunk has its record."""
    items = [parse_item(item) for item in pipeline.store.items(pipeline.spec().table).values()]
    chunks = {(each.key, each.id, each.number) for each in items if isinstance(each, Chunk)}
    found = {}
    for record in items:
        if isinstance(record, Record):
            manifest = manifest_in(record.data, record.format)
            count = manifest.count if manifest else 0
            found[record.id] = count
            chunks -= {(record.key, record.id, number) for number in range(count)}
    assert not chunks
    return found


def payload(pipeline: Pipeline, record_id: str) -> Any:
    found = pipeline.reader().event("k", record_id, pipeline.spec().window, None).what
    assert isinstance(found, StoredEvent)
    return json.loads(found.payload or "null")


@pytest.mark.parametrize(
    "answer",
    [
        Outcome(Verdict.UNKNOWN),
        Outcome(Verdict.THROTTLED),
        Outcome(Verdict.INVALID, detail="too large together"),
        Outcome(Verdict.CANCELLED, (Element(Answer.CONTENDED), FINE), (FINE,)),
        Outcome(Verdict.CANCELLED, (FINE, Element(Answer.THROTTLED)), (FINE,)),
        Outcome(Verdict.CANCELLED, (FINE, FINE), (Element(Answer.CONTENDED),)),
        Outcome(Verdict.CANCELLED, (FINE, FINE), (Element(Answer.INVALID),)),
    ],
)
def test_what_is_tried_again_has_all_its_chunks(answer: Outcome) -> None:
    pipeline = opened()
    pipeline.store.script = [answer]
    report = pipeline.write(event("e1"), event("e2", payload=noise(200_000)))
    assert (report.events, report.failures) == (2, [])
    assert check_chunks(pipeline) == {"e1": 7, "e2": 12}
    assert payload(pipeline, "e1") == NOISE
    assert payload(pipeline, "e2") == noise(200_000)


def test_what_is_refused_or_handed_back_leaves_no_chunk() -> None:
    pipeline = opened()
    refused = Outcome(Verdict.CANCELLED, (Element(Answer.INVALID, detail="too large"),), (FINE,))
    pipeline.store.script = [refused]
    assert pipeline.write(event("e1")).rejected
    pipeline.store.script = [Outcome(Verdict.GATE_SHUT)]
    assert pipeline.write(event("e2")).failures
    assert check_chunks(pipeline) == {}


def test_a_redelivery_under_other_thresholds_is_a_duplicate() -> None:
    pipeline = opened()
    messages = [pipeline.message(event(f"e{n}", payload=noise(60_000, n))) for n in range(4)]
    ways: list[dict[str, Any]] = [
        {},
        {"chunk_over_bytes": 24_576},
        {"chunk_over_bytes": 24_576, "chunk_bytes": 16_384},
        {"compress_over_bytes": 400_000},
    ]
    for number, first in enumerate(ways):
        for settings in [first, *ways]:
            pipeline.settings = replace(SMALL, **settings)
            report = pipeline.writer().write([messages[number]], TIME_LEFT)
            assert report.events + report.duplicates == 1
            again = replace(messages[number], receives=2)
            assert pipeline.writer().write([again], TIME_LEFT).duplicates == 1
    assert pipeline.tally("k") == (4, 4_000_000)
    assert check_chunks(pipeline) == {"e0": 0, "e1": 3, "e2": 2, "e3": 0}
    assert [payload(pipeline, f"e{n}") for n in range(4)] == [noise(60_000, n) for n in range(4)]


def test_what_the_release_before_stored_is_read_and_recognised() -> None:
    """It stored payloads of up to 400 KB as JSON in the record."""
    pipeline = opened()
    message = pipeline.message(event())
    envelope, spec = decode(message.body), pipeline.spec()
    large = record_of(envelope, message, spec)
    before = replace(large, data=json.dumps(NOISE).encode(), format="json", attachments=())
    outcome = pipeline.store.commit(spec, [before], increments_of([before]))
    assert outcome.verdict is Verdict.COMMITTED
    assert payload(pipeline, "e1") == NOISE
    assert pipeline.writer().write([message], TIME_LEFT).duplicates == 1
    assert check_chunks(pipeline) == {"e1": 0}

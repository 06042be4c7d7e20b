"""Chunks of payloads in archives: proven with their records, and joined when they are read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.adapters.dynamodb.items import CODEC, chunk_item, jsonable
from tallyroll.archive import proof
from tallyroll.archive.chunked import Waiting
from tallyroll.archive.proof import prove
from tallyroll.archive.recount import ArchivePass, Recount, keys_differing_from_totals
from tallyroll.errors import ProofMismatch
from tallyroll.model.events import Event
from tallyroll.model.formats.payloads import Chunk
from tallyroll.model.messages import Message
from tallyroll.model.records import Record, record_of
from tallyroll.model.stored import event_line, events_of
from tests.harness.archives import Archived, sealed_and_exported
from tests.harness.payloads import noise
from tests.harness.pipeline import NOW, SECOND, WINDOW, record_with, spec_of

EVENTS = [
    {"id": f"e{n}", "key": f"k{n % 2}", "ts": NOW, "value": n, "payload": noise(100_000, n)}
    for n in range(4)
] + [{"id": "small", "key": "k0", "ts": NOW, "payload": 7}]
LATER = NOW + 60 * SECOND


def archived() -> Archived:
    return Archived(*sealed_and_exported(map(json.dumps, EVENTS)))


def proven(found: Archived) -> int | None:
    pipeline = found.pipeline
    ports = (CODEC, pipeline.bucket, pipeline.totals, pipeline.effects)
    return prove(found.window, pipeline.spec(), *ports, LATER)


def test_an_archive_with_chunks_is_proven_and_verified() -> None:
    found = archived()
    assert proven(found) == len(found.items()) == 4 + 2 + 5 + 4 * 6
    assert found.findings(found.pipeline.totals) == []
    counted = found.verified().counted
    assert {key: n for key, (n, _) in counted.chunks.items()} == {"k0": 12, "k1": 12}
    assert counted.records["k0"] == (3, 3_000_000)


@pytest.mark.parametrize("held", [2, 100_000])
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda item: None, "key 'k1': 11 chunks of payloads, its records have 12"),
        (
            lambda item: {**item, "data": {"B": "AAAA"}},
            "key 'k1': its 12 chunks of payloads are not those that were written",
        ),
        (
            lambda item: {**item, "sk": {"S": item["sk"]["S"].replace("e1", "e9")}},
            "key 'k1': its 12 chunks of payloads are not those that were written",
        ),
    ],
)
def test_a_missing_or_changed_chunk_is_found(
    change: Any, told: str, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "SUMS_HELD", held)
    found = archived()
    items = found.items()
    at = next(n for n, item in enumerate(items) if item["sk"]["S"] == "c#e1#0003")
    changed = change(items[at])
    found.rewrite([*items[:at], *([changed] if changed else ()), *items[at + 1 :]])
    with pytest.raises(ProofMismatch) as mismatch:
        proven(found)
    assert mismatch.value.findings == [told]
    assert found.findings() == [told]


def test_a_chunk_of_no_record_and_a_damaged_manifest_are_found() -> None:
    counted = Recount()
    counted.add(Chunk("lost", "e1", 0, 1, b"x"))
    large = record_of_event()
    counted.add(replace(large, data=b"\xff"))
    findings = [*keys_differing_from_totals(WINDOW, counted, None)]
    assert findings[1:] == [
        "key 'k': 0 chunks of payloads, its records have 1",
        "key 'lost': 1 chunks of payloads, its records have 0",
    ]
    assert "'tallies': None" in findings[0]
    assert counted.declared == {"k": (1, 0)}


def record_of_event() -> Record:
    event = Event("k", "e1", NOW, 10**6, json.dumps(noise(100_000)))
    return record_of(event, Message("m", "", NOW, 1, "r"), spec_of())


def read(found: Archived) -> tuple[list[str], list[str]]:
    """The lines of the archive's events, and what is wrong with it."""
    reading = ArchivePass(found.bucket, found.prefix, CODEC)
    lines = []
    with Waiting() as waiting:
        for each in reading:
            if isinstance(each.holds, Chunk) or each.in_chunks:
                waiting.add(each)
        for _, record in waiting.joined(reading.findings.add):
            lines += [event_line(record.key, event) for event in events_of(record)]
    return lines, reading.findings.first


def test_records_are_joined_with_their_chunks() -> None:
    lines, findings = read(archived())
    assert findings == []
    events = {event["id"]: event for event in map(json.loads, lines)}
    assert {name: event["payload"] for name, event in events.items()} == {
        f"e{n}": noise(100_000, n) for n in range(4)
    }


def test_a_record_that_is_not_whole_is_told_with_its_place() -> None:
    found = archived()
    items = [item for item in found.items() if item["sk"]["S"] != "c#e3#0005"]
    stray = jsonable(chunk_item(Chunk("k1", "e9", 0, 1, b"x")))
    found.rewrite([*items, stray])
    lines, [told] = read(found)
    assert len(lines) == 3
    assert told.endswith(
        ": the payload of event 'e3' of key 'k1' is damaged: chunk 5 of 6 is missing"
    )
    assert "000-0000.json.gz line " in told


def test_other_items_are_not_in_chunks() -> None:
    found = archived()
    kinds = {each.in_chunks for each in ArchivePass(found.bucket, found.prefix, CODEC)}
    assert kinds == {False, True}
    assert not record_with().in_chunks

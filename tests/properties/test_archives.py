"""Laws of archives: what was sent is read again, and no change to a data file goes unseen."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyroll.adapters.dynamodb.items import CODEC, jsonable, record_item
from tallyroll.adapters.memory import MemoryBucket
from tallyroll.archive.inventory import find
from tallyroll.archive.layout import prefix_of
from tallyroll.archive.verification import ArchiveReading
from tallyroll.client.packing import pack
from tallyroll.model.events import Event, decode, event_body
from tallyroll.model.messages import Message
from tallyroll.model.records import Record, record_of
from tallyroll.model.stored import event_line, events_of
from tests.harness.archives import Archived, archived, put_file, put_manifests
from tests.harness.pipeline import NOW, WINDOW, StillEffects, spec_of
from tests.properties.strategies import any_event, packable_events
from tests.tiers import examples

PREFIX = prefix_of("tallyroll", WINDOW, "a1")


def kept(records: list[Record], lines_per_file: int) -> ArchiveReading:
    """A pass over an archive of these records."""
    bucket, files = MemoryBucket(), []
    for first in range(0, len(records), lines_per_file):
        items = [
            jsonable(record_item(record)) for record in records[first : first + lines_per_file]
        ]
        files.append(put_file(bucket, PREFIX, f"000-{first:04d}", items))
    put_manifests(bucket, PREFIX, spec_of().table, files, NOW)
    [archive] = find(bucket, StillEffects(), PREFIX)
    return ArchiveReading(bucket, archive, CODEC)


def record_by(body: str, number: int) -> Record:
    return record_of(decode(body), Message(f"m{number}", body, NOW, 1, ""), spec_of())


@given(st.lists(any_event, max_size=8), st.lists(packable_events, max_size=30), st.integers(1, 4))
def test_events_are_read_as_they_were_sent(
    singles: list[Event], packed: list[Event], lines_per_file: int
) -> None:
    packed = [event for event in packed if event.ts is not None and event.ts in spec_of().span]
    numbers = count()
    packets = list(pack(packed, lambda: f"p{next(numbers)}"))
    bodies = [event_body(event) for event in singles] + packets
    records = [record_by(body, number) for number, body in enumerate(bodies)]
    reading = kept(records, lines_per_file)
    lines = [
        event_line(found.holds.key, event)
        for found in reading
        if isinstance(found.holds, Record)
        for event in events_of(found.holds)
    ]
    assert reading.findings.count == 0
    events = [decode(line) for line in lines]
    assert all(isinstance(event, Event) for event in events)

    def content(event: object) -> tuple[object, ...]:
        assert isinstance(event, Event)
        return event.key, event.amount, event.payload

    assert sorted(map(content, events), key=repr) == sorted(
        map(content, [*singles, *packed]), key=repr
    )
    times = {event.ts for event in packed} | {event.ts for event in singles if event.ts}
    assert times <= {event.ts for event in events if isinstance(event, Event)}
    named = {event.id for event in singles if event.id}
    assert named <= {event.id for event in events if isinstance(event, Event)}


@pytest.fixture(scope="module")
def whole() -> Archived:
    return archived(segments=1)


@given(data=st.data())
@settings(max_examples=examples(200))
def test_no_change_to_a_data_file_goes_unseen(whole: Archived, data: st.DataObject) -> None:
    [file] = whole.files()
    body = whole.bucket.get(file.key)
    at = data.draw(st.integers(0, len(body)))
    gone = data.draw(st.integers(0, len(body) - at))
    put = data.draw(st.binary(max_size=8))
    changed = body[:at] + put + body[at + gone :]
    whole.bucket.put(file.key, changed)
    try:
        assert bool(whole.verified().findings.count) == (changed != body)
    finally:
        whole.bucket.put(file.key, body)

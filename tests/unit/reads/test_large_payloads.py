"""Large payloads, read one by one and in lists."""

from __future__ import annotations

import json

import pytest

from tallyroll.errors import Refused
from tallyroll.model.records import RecordPage
from tallyroll.model.specs import Spec
from tallyroll.model.stored import StoredEvent
from tallyroll.reads.merge import BYTES_MAX, LAST_BYTES_MAX
from tests.harness.payloads import noise
from tests.harness.pipeline import TIME_LEFT, WINDOW, opened
from tests.unit.reads.test_lookups import PACKET, event, find, ids, listed, look


def test_large_payloads_are_read_like_others() -> None:
    pipeline = opened()
    texts = {f"e{n}": noise(150_000 + 50_000 * n, n) for n in range(8)}
    for name, text in texts.items():
        assert pipeline.write(event(name, payload=text)).events == 1
    packet = {**PACKET, "events": [[n, 1, noise(230, n)] for n in range(900)]}
    assert pipeline.write(packet).events == 900
    found = find(pipeline, "e5").what
    assert isinstance(found, StoredEvent)
    assert json.loads(found.payload or "") == texts["e5"]
    packed = find(pipeline, "p:899").what
    assert isinstance(packed, StoredEvent)
    assert json.loads(packed.payload or "") == noise(230, 899)
    pages = [listed(pipeline)]
    while cursor := pages[-1].cursor:
        pages.append(listed(pipeline, cursor=cursor))
    assert all(page.complete for page in pages)
    read = {one.id: one for page in pages for one in page.found}
    assert len(read) == sum(len(page.found) for page in pages) == 908
    for name, text in texts.items():
        one = read[name]
        assert isinstance(one, StoredEvent)
        assert json.loads(one.payload or "") == text
    for page in pages:
        sizes = [len(one.payload or "") for one in page.found if isinstance(one, StoredEvent)]
        assert len(sizes) == 1 or sum(sizes) <= BYTES_MAX + LAST_BYTES_MAX


def test_a_large_payload_that_is_not_whole_is_an_error() -> None:
    pipeline = opened()
    pipeline.write(event("e1", payload=noise(150_000)))
    items = pipeline.store.items(pipeline.spec().table)
    del items[next(name for name in items if name[1] == "c#e1#0007")]
    told = "the payload of event 'e1' of key 'k' is damaged: chunk 7 of 9 is missing"
    for read in (lambda: find(pipeline, "e1"), lambda: listed(pipeline)):
        with pytest.raises(Refused, match=told):
            read()


def test_no_large_payload_is_read_after_the_deadline() -> None:
    pipeline = opened()
    pipeline.write(event("e1"), event("e2", payload=noise(150_000)), event("e3"))
    reader = look(pipeline)
    get = pipeline.store.records

    def slow(
        spec: Spec, key: str, shard: int, after: str, limit: int, before: str = ""
    ) -> RecordPage:
        page = get(spec, key, shard, after, limit, before)
        pipeline.effects.pass_by(TIME_LEFT // 4)
        return page

    pipeline.store.records = slow  # type: ignore[method-assign]
    page = reader.events("k", WINDOW, TIME_LEFT)
    assert (ids(page), page.complete) == (["e1"], False)
    pipeline.store.records = get  # type: ignore[method-assign]
    rest = reader.events("k", WINDOW, TIME_LEFT, cursor=page.cursor)
    assert (ids(rest), rest.complete) == (["e2", "e3"], True)


def test_a_large_payload_that_an_answer_has_no_room_for_is_not_read() -> None:
    pipeline = opened()
    for name, size in (("e1", 900_000), ("e2", 700_000)):
        pipeline.write(event(name, payload=noise(size)))
    first = listed(pipeline)
    assert (ids(first), first.complete) == (["e1"], True)
    second = listed(pipeline, cursor=first.cursor)
    assert (ids(second), second.cursor) == (["e2"], None)

"""Which window, record or fate a message gets before anything is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tallyroll import limits
from tallyroll.errors import Rejected
from tallyroll.ingest.batch_messages import BatchMessage
from tallyroll.ingest.fates import handed_back, rejected
from tallyroll.ingest.placement import Placer
from tallyroll.limits import WINDOWS_PER_BATCH_MAX
from tallyroll.model.acceptance import acceptable_record
from tallyroll.model.events import Event, decode
from tallyroll.model.messages import Message, RedriveMark
from tallyroll.model.states import Calendar, Window
from tallyroll.model.windows import Grid, table_name, window_id
from tallyroll.ports.catalog import Claim
from tallyroll.ports.catalog_cache import CachedCatalog
from tallyroll.reasons import Reason
from tests.harness.payloads import NOISE
from tests.harness.pipeline import HOUR, MINUTE, NOW, SMALL, START, WINDOW, Pipeline, hour, opened


def event(record_id: str = "e1", **fields: Any) -> dict[str, Any]:
    return {"id": record_id, "key": "k", "ts": NOW, **fields}


def packet(*times: int) -> dict[str, Any]:
    entries = [[ts - times[0]] for ts in times]
    return {"v": 1, "id": "p1", "key": "k", "t0": times[0], "events": entries}


def redriven(pipeline: Pipeline, target: str, record_id: str = "e1") -> Message:
    message = pipeline.message(event(record_id))
    return replace(message, redrive=RedriveMark(target, message.id, NOW))


def cached(pipeline: Pipeline) -> CachedCatalog:
    return CachedCatalog(pipeline.catalog, pipeline.effects, HOUR)


def placed(
    pipeline: Pipeline, *bodies: dict[str, Any] | Message, by: CachedCatalog | None = None
) -> list[BatchMessage]:
    """What a placer makes of these messages in one batch."""
    messages = [
        body if isinstance(body, Message) else pipeline.message(json.dumps(body)) for body in bodies
    ]
    placer = Placer(pipeline.settings, pipeline.catalog, by or cached(pipeline))
    return placer.place([BatchMessage(message) for message in messages])


def test_what_waits_is_handed_back_and_says_for_what() -> None:
    [case] = placed(Pipeline(), event())
    no_calendar = "the pipeline has no calendar yet: has the roller run?"
    assert case.fate == handed_back(no_calendar, waits=True)
    unrolled = Pipeline()
    unrolled.catalog.found(Calendar(Grid.of(3600), START))
    [case] = placed(unrolled, event())
    assert case.fate == handed_back(f"window {WINDOW} is not made yet", waits=True)
    pipeline = opened()
    pipeline.catalog.claim((WINDOW, "k", "e1"), Claim(hour(12), NOW))
    [case] = placed(pipeline, redriven(pipeline, hour(12)))
    assert case.fate == handed_back(f"window {hour(12)} is not made yet", waits=True)


def test_however_late_it_is_one_message_is_read() -> None:
    """Else a writer whose catalog is slow each time would count nothing at all."""
    pipeline = opened()
    known = BatchMessage(pipeline.message("-"), fate=rejected(Reason.NOT_JSON, ""))
    cases = [BatchMessage(pipeline.message(json.dumps(event(name)))) for name in ("e1", "e2", "e3")]
    placer = Placer(pipeline.settings, pipeline.catalog, cached(pipeline))
    first, read, *late = placer.place([known, *cases], lambda: True)
    assert (first, read.fate) == (known, None)
    assert read.placed
    assert [case.fate for case in late] == [handed_back("no time left to read it")] * 2


def test_an_early_window_is_awaited_only_if_it_was_announced() -> None:
    pipeline = opened()
    long_ago = START - 1_000 * HOUR
    name = window_id(long_ago)
    announced = Window(name, table_name("t", name), long_ago, long_ago + HOUR)
    assert pipeline.catalog.create(announced)
    waiting, refused = placed(pipeline, event(ts=long_ago), event(ts=long_ago - 1))
    assert waiting.fate == handed_back(f"window {name} is not made yet", waits=True)
    assert refused.fate
    assert refused.fate.reason is Reason.TOO_LATE


def test_what_nobody_claimed_says_what_the_ledger_has() -> None:
    pipeline = opened()
    pipeline.catalog.claim((WINDOW, "k", "e2"), Claim(hour(7), NOW))
    of_none, of_another, good = placed(
        pipeline,
        redriven(pipeline, hour(6)),
        redriven(pipeline, hour(6), "e2"),
        pipeline.message(event("e3")),
    )
    told = f"redriven to {hour(6)!r}, but the ledger's claim"
    assert [case.fate for case in (of_none, of_another, good)] == [
        rejected(Reason.NOT_CLAIMED, f"{told} does not exist"),
        rejected(Reason.NOT_CLAIMED, f"{told} is for {hour(7)}"),
        None,
    ]
    assert good.placed


def test_the_catalog_is_asked_for_nothing_that_no_message_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = opened()
    asked: list[object] = []
    catalog = cached(pipeline)

    def noted(verb: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def noting(some: object) -> object:
            asked.append(some)
            return verb(some)

        return noting

    monkeypatch.setattr(catalog, "specs", noted(catalog.specs))
    monkeypatch.setattr(pipeline.catalog, "claims", noted(pipeline.catalog.claims))
    placed(pipeline, event(), by=catalog)
    assert asked == [[WINDOW]]
    asked.clear()
    placed(pipeline, redriven(pipeline, hour(6)), by=catalog)
    assert asked == [[(WINDOW, "k", "e1")]]


def test_a_batch_of_too_many_windows_is_handed_back_from_the_first_one_too_many() -> None:
    pipeline = opened(replace(SMALL, window_seconds=60, accept_for_ms=4 * HOUR))
    bodies = [event(f"e{n}", ts=NOW - n * MINUTE) for n in range(WINDOWS_PER_BATCH_MAX + 2)]
    cases = placed(pipeline, *bodies)
    assert [case.fate for case in cases[:-2]] == [None] * WINDOWS_PER_BATCH_MAX
    assert {case.fate for case in cases[-2:]} == {handed_back("too many windows in one batch")}


def quartered(pipeline: Pipeline) -> CachedCatalog:
    """A cache that has the hours still, of which 08 became quarters."""
    catalog = cached(pipeline)
    assert catalog.calendar()
    spec = pipeline.spec()
    pipeline.catalog._specs[WINDOW] = replace(spec, end=spec.start + 15 * MINUTE)
    return catalog


def test_an_event_outside_its_window_s_spec_comes_again() -> None:
    pipeline = opened()
    inside, outside = placed(
        pipeline,
        event("e1", ts=START + 15 * MINUTE - 1),
        event("e2", ts=START + 15 * MINUTE),
        by=quartered(pipeline),
    )
    assert (inside.fate, bool(inside.placed)) == (None, True)
    assert outside.fate == handed_back("the calendar has changed")


def test_a_packet_must_lie_in_the_window_of_the_spec_not_of_an_older_calendar() -> None:
    pipeline = opened()
    [case] = placed(
        pipeline, packet(START + 14 * MINUTE, START + 15 * MINUTE), by=quartered(pipeline)
    )
    assert case.fate
    assert case.fate.reason is Reason.PACKET_MIXED_WINDOWS


def test_what_no_transaction_holds_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = opened()
    message = pipeline.message(event(payload=NOISE))
    envelope, spec = decode(message.body), pipeline.spec()
    size = acceptable_record(envelope, message, spec).group_size
    monkeypatch.setattr(limits, "EVENT_BYTES_MAX", size)
    acceptable_record(envelope, message, spec)
    monkeypatch.setattr(limits, "EVENT_BYTES_MAX", size - 1)
    with pytest.raises(Rejected) as refused:
        acceptable_record(envelope, message, spec)
    assert refused.value.reason is Reason.ITEM_TOO_LARGE
    assert refused.value.detail == (
        f"the 8 items of event 'e1' take {size} bytes together, over {size - 1} in one"
        " transaction: send a smaller payload"
    )


def test_an_event_that_needs_a_time_is_told_so() -> None:
    pipeline = opened()
    message = pipeline.message({"id": "e1", "key": "k"})
    envelope = decode(message.body)
    assert isinstance(envelope, Event)
    with pytest.raises(Rejected, match="an id of its own but no ts"):
        acceptable_record(envelope, message, replace(pipeline.spec(), require_ts=True))

"""What is late is looked for in its log and as a record: all together, and each slot once."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.adapters.memory import MemoryStore
from tallyroll.errors import Refused
from tallyroll.ingest import appending
from tallyroll.logs.entries import entry_of
from tallyroll.logs.reading import read_newer, stored_in_logs
from tallyroll.model.events import Event
from tallyroll.model.messages import Message, Rejection
from tallyroll.model.records import record_of
from tallyroll.operations.letter_events import LetterOutcome
from tallyroll.reasons import Reason
from tests.harness.pipeline import NOW, TIME_LEFT, WINDOW, Pipeline, opened
from tests.harness.redriving import Operator, seal
from tests.unit.logs.test_logged_keys import LOGGED, sent, write

GROUP_MS = 5 * 369


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the store was asked for pages of records, and for records by name."""
    asked: Counter[str] = Counter()

    def counted(verb: str) -> None:
        read = getattr(MemoryStore, verb)

        def counting(self: Any, *given: Any) -> Any:
            asked[verb] += 1
            return read(self, *given)

        monkeypatch.setattr(MemoryStore, verb, counting)

    counted("records")
    counted("lookup")
    return asked


def in_groups(pipeline: Pipeline, numbers: range) -> list[Message]:
    """Messages that were sent in three groups of slots."""
    messages = [sent(pipeline, number, receives=2) for number in numbers]
    return [replace(each, sent=NOW - at % 3 * GROUP_MS) for at, each in enumerate(messages)]


def test_behind_a_shut_gate_each_slot_is_read_once(
    reads: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = opened(LOGGED)
    counted, late = in_groups(pipeline, range(30)), in_groups(pipeline, range(30, 42))

    def closed_meanwhile(*given: Any, **more: Any) -> Any:
        found = read_newer(*given, **more)
        monkeypatch.setattr(appending, "read_newer", read_newer)
        write(pipeline, *counted)
        seal(pipeline, WINDOW)
        reads.clear()
        return found

    monkeypatch.setattr(appending, "read_newer", closed_meanwhile)
    report = write(pipeline, *counted, *late)
    assert (report.duplicates, report.rejected) == (30, {Reason.WINDOW_SEALED: 12})
    assert reads == {"records": 3, "lookup": 1}


def rejected(pipeline: Pipeline, message: Message) -> None:
    pipeline.queue.reject([Rejection(message, Reason.EXPIRING, "late", WINDOW)])


def test_a_redrive_reads_each_slot_once(reads: Counter[str]) -> None:
    pipeline = opened(LOGGED)
    messages = in_groups(pipeline, range(30))
    write(pipeline, *messages[:18])
    for each in messages:
        rejected(pipeline, each)
    reads.clear()
    courses = Counter(each.course for each in Operator(pipeline).redrive())
    assert courses == {LetterOutcome.COUNTED: 18, LetterOutcome.REDRIVEN: 12}
    assert reads["records"] == 3


def test_an_event_of_a_messages_id_is_judged_by_its_own_record() -> None:
    pipeline = opened(LOGGED)
    plain = sent(pipeline, 1)
    write(pipeline, plain)
    given = json.dumps({"key": "k", "id": plain.id, "ts": NOW})
    rejected(pipeline, plain)
    rejected(pipeline, replace(sent(pipeline, 2), body=given))
    courses = [each.course for each in Operator(pipeline).redrive()]
    assert courses == [LetterOutcome.COUNTED, LetterOutcome.REDRIVEN]
    (message,) = pipeline.queue.receive()
    assert pipeline.writer().write([message], TIME_LEFT).events == 1


def test_a_damaged_leaf_answers_for_its_own_slot_alone() -> None:
    pipeline = opened(LOGGED)
    some = [replace(sent(pipeline, at), sent=NOW - 400 * at) for at in range(3)]
    write(pipeline, *some)
    items = pipeline.store.items(pipeline.spec().table)
    name = max(each for each in items if each[1].startswith("e#"))
    items[name] = {**items[name], "data": {"B": b"damaged"}}
    spec, event = pipeline.spec(), Event("k", None, None, 10**6, None)
    sought = [
        (record_of(event, each, spec), entry)
        for each in some
        if (entry := entry_of(event, each, spec))
    ]
    answers = stored_in_logs(pipeline.store, spec, sought, pipeline.effects, 1)
    assert isinstance(answers[0], Refused)
    assert answers[1:] == [record for record, _ in sought[1:]]

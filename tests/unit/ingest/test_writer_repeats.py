"""Messages that were received before: their records are read before any transaction is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Missing, StoreError, Throttled
from tallyroll.ingest.writer import BatchReport
from tallyroll.model.messages import Message
from tallyroll.model.records import Record, RecordName
from tallyroll.model.specs import Spec
from tallyroll.reasons import Reason
from tests.harness.pipeline import NOW, TIME_LEFT, Pipeline, opened


def messages_of(pipeline: Pipeline, *ids: str, value: int = 1) -> list[Message]:
    return [pipeline.message({"id": each, "key": "k", "ts": NOW, "value": value}) for each in ids]


def write(pipeline: Pipeline, messages: Sequence[Message]) -> BatchReport:
    return pipeline.writer().write(messages, TIME_LEFT)


def again(messages: Sequence[Message]) -> list[Message]:
    return [replace(message, receives=2, receipt=f"{message.receipt}+") for message in messages]


def test_a_redelivery_of_what_is_stored_takes_no_transaction() -> None:
    pipeline = opened()
    messages = messages_of(pipeline, "a", "b")
    assert write(pipeline, messages).single_events == 2
    commits = len(pipeline.store.commits)
    report = write(pipeline, again(messages))
    assert (report.duplicates, report.single_events, report.failures) == (2, 0, [])
    assert report.cost.total == 0
    assert len(pipeline.store.commits) == commits
    assert pipeline.tally("k") == (2, 2_000_000)


def test_a_first_delivery_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = opened()

    def lookup(spec: Spec, names: Sequence[RecordName]) -> Mapping[RecordName, Record]:
        raise AssertionError(f"looked for {names}")

    monkeypatch.setattr(pipeline.store, "lookup", lookup)
    assert write(pipeline, messages_of(pipeline, "a")).single_events == 1


def test_only_what_is_not_stored_is_committed() -> None:
    pipeline = opened()
    messages = messages_of(pipeline, "a", "b", "c")
    write(pipeline, messages[:1])
    report = write(pipeline, [*again(messages[:2]), *messages[2:]])
    assert (report.duplicates, report.single_events) == (1, 2)
    assert pipeline.tally("k") == (3, 3_000_000)


def test_another_content_of_the_same_id_is_rejected_still() -> None:
    pipeline = opened()
    write(pipeline, messages_of(pipeline, "a"))
    report = write(pipeline, again(messages_of(pipeline, "a", value=2)))
    assert report.rejected == {Reason.ID_CONFLICT: 1}
    assert pipeline.tally("k") == (1, 1_000_000)


@pytest.mark.parametrize("error", [Throttled("slow down", "x"), Missing("no table", "x")])
def test_the_transactions_decide_if_the_records_cannot_be_read(
    error: StoreError, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = opened()
    messages = messages_of(pipeline, "a", "b")
    write(pipeline, messages[:1])

    def lookup(*_: Any) -> Mapping[RecordName, Record]:
        raise error

    monkeypatch.setattr(pipeline.store, "lookup", lookup)
    report = write(pipeline, again(messages))
    assert (report.duplicates, report.single_events, report.failures) == (1, 1, [])
    assert pipeline.tally("k") == (2, 2_000_000)

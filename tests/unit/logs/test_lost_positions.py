"""Positions that are lost to other writers, and old slots of which batches have few events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.ingest import appending
from tallyroll.logs.slots import FEW_ENTRIES
from tallyroll.model.messages import Message
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.model.windows import HOUR_MS
from tallyroll.ports.store import Answer, Element, Outcome, Verdict
from tests.harness.pipeline import NOW, TIME_LEFT, Pipeline, hour, opened
from tests.harness.redriving import seal
from tests.unit.logs.test_logged_keys import LOGGED, sent, stored, write

OLD = 2 * appending.OLD_MS


def test_a_conflict_at_a_position_loses_it() -> None:
    pipeline = opened(LOGGED)
    conflict = Outcome(Verdict.CANCELLED, (Element(Answer.CONTENDED),), (Element(Answer.FINE),))
    pipeline.store.script = [conflict, None]
    report = write(pipeline, sent(pipeline, 1))
    assert (report.events, report.logs.lost) == (1, 1)


def test_a_conflict_of_which_nobody_says_whose_is_tried_again_there() -> None:
    pipeline = opened(LOGGED)
    met = Element(Answer.CONTENDED)
    pipeline.store.script = [Outcome(Verdict.CANCELLED, (met,), (met,)), None]
    report = write(pipeline, sent(pipeline, 1))
    assert (report.events, report.logs.lost) == (1, 0)


def test_waits_for_a_position_end_with_the_time() -> None:
    pipeline = opened(LOGGED)
    conflict = Outcome(Verdict.CANCELLED, (Element(Answer.CONTENDED),), (Element(Answer.FINE),))
    pipeline.store.script = [conflict] * 99
    message, began = sent(pipeline, 1), pipeline.effects.now()
    report = pipeline.writer().write([message], 3_000)
    assert report.failures == [message.id]
    assert report.logs.lost > 1
    assert pipeline.effects.now() - began <= 2_000


def test_a_lost_position_leaves_half_of_the_time_to_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = opened(LOGGED)
    conflict = Outcome(Verdict.CANCELLED, (Element(Answer.CONTENDED),), (Element(Answer.FINE),))
    commit = pipeline.store.commit

    def contended(spec: Spec, records: Sequence[Record], *others: Any) -> Any:
        return conflict if records[0].logged else commit(spec, records, *others)

    monkeypatch.setattr(pipeline.store, "commit", contended)
    other = pipeline.message({"key": "other"})
    report = write(pipeline, sent(pipeline, 1), other)
    assert (report.events, len(report.failures)) == (1, 1)
    assert pipeline.tally("other")[0] == 1


def test_slots_that_no_time_is_left_to_read_are_handed_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Reads of one window last longer than logs have."""
    pipeline = opened(LOGGED)
    read, took = pipeline.store.records_eventually, list[str]()

    def slow(spec: Spec, *given: Any) -> Any:
        took.append(spec.window)
        pipeline.effects.pass_by(TIME_LEFT)
        return read(spec, *given)

    monkeypatch.setattr(pipeline.store, "records_eventually", slow)
    report = write(pipeline, *of_windows(pipeline, 1))
    assert len(report.failures) == 3
    assert took == [hour(6)]


def of_windows(pipeline: Pipeline, each: int) -> list[Message]:
    """Messages of old slots in three windows."""
    return [
        replace(sent(pipeline, 10 * window + number), sent=NOW - OLD - window * HOUR_MS)
        for window in range(3)
        for number in range(each)
    ]


def test_a_batch_waits_once_before_it_ends_slots() -> None:
    pipeline = opened(LOGGED)
    report = write(pipeline, *of_windows(pipeline, 2))
    assert (report.events, report.logs.ended) == (6, 3)
    assert len(pipeline.effects.slept) == 1


def test_windows_of_a_batch_have_fates_of_their_own() -> None:
    pipeline = opened(LOGGED)
    mixed = sorted(of_windows(pipeline, 2), key=lambda each: each.id[::-1])
    seal(pipeline, hour(7))
    report = write(pipeline, *mixed)
    shut = {each.id for each in mixed if NOW - OLD - each.sent == HOUR_MS}
    assert {each.message.id for each in pipeline.queue.dead_letters} == shut
    assert (report.events, report.failures) == (4, [])


def test_live_events_of_one_window_do_not_hide_a_backlog_of_another() -> None:
    pipeline = opened(LOGGED)
    live = [sent(pipeline, 100 + number) for number in range(9 * FEW_ENTRIES)]
    report = write(pipeline, *live, *of_windows(pipeline, 2)[2:])
    assert (report.events, report.logs.ended) == (len(live) + 4, 2)


def test_a_wait_before_an_end_leaves_time_for_the_end() -> None:
    pipeline = opened(LOGGED)
    report = pipeline.writer().write(old(pipeline, 1, 1), 300)
    assert (report.events, report.logs.ended) == (1, 1)


def test_a_batch_of_many_slots_is_done_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "SLOTS_AT_ONCE", 2)
    pipeline = opened(LOGGED)
    report = write(pipeline, *old(pipeline, 3, 2))
    assert (report.events, report.logs.ended, report.logs.slots) == (6, 3, 3)
    assert len(pipeline.effects.slept) == 1
    assert [len(records) for _, records, _ in pipeline.store.commits] == [2, 1]


def old(pipeline: Pipeline, slots: int, each: int) -> list[Message]:
    """Messages of slots that are old."""
    return [
        replace(sent(pipeline, each * slot + number), sent=NOW - OLD - 2_000 * slot)
        for slot in range(slots)
        for number in range(each)
    ]


@pytest.mark.parametrize(
    ("slots", "each", "ended"),
    [(3, FEW_ENTRIES - 1, 3), (3, FEW_ENTRIES, 0), (1, FEW_ENTRIES - 1, 1)],
)
def test_old_slots_of_a_batch_that_is_scattered_are_ended_after_a_wait(
    slots: int, each: int, ended: int
) -> None:
    pipeline = opened(LOGGED)
    report = write(pipeline, *old(pipeline, slots, each))
    assert (report.events, report.logs.ended) == (slots * each, ended)
    assert bool(pipeline.effects.slept) is bool(ended)


def test_a_small_first_part_of_an_old_slot_does_not_end_it() -> None:
    """The batch ends amid the slot, as batches of a backlog in order do."""
    pipeline = opened(LOGGED)
    first, *_ = old(pipeline, 1, 1)
    others = [replace(sent(pipeline, 99 + n), sent=first.sent - 9_000) for n in range(40)]
    report = write(pipeline, first, *others)
    assert (report.events, report.logs.ended, report.logs.leaves) == (41, 0, 2)


def test_a_slot_that_another_writer_ended_meanwhile_gets_no_leaf() -> None:
    pipeline = opened(LOGGED)
    writer, other = pipeline.writer(), pipeline.writer()
    mine, theirs = old(pipeline, 1, 2)
    sleep = pipeline.effects.sleep

    def meanwhile(ms: float) -> None:
        pipeline.effects.sleep = sleep  # type: ignore[method-assign]
        assert other.write([theirs], TIME_LEFT).logs.ended == 1
        sleep(ms)

    pipeline.effects.sleep = meanwhile  # type: ignore[method-assign]
    report = writer.write([mine], TIME_LEFT)
    assert (report.events, report.logs.full, report.logs.lost) == (1, 1, 0)
    assert sorted(each.plain for each in stored(pipeline)) == [False, True]

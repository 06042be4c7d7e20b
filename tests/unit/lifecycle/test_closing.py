"""When the roller closes a window, and how it seals it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tallyroll import limits
from tallyroll.errors import Unknown
from tallyroll.lifecycle import sealing
from tallyroll.lifecycle.runner import Rolled
from tallyroll.lifecycle.state_machine import Step
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status
from tallyroll.model.totals import Total
from tallyroll.ports.writer_notes import Reception
from tests.harness.pipeline import HOUR, MINUTE, NOW, SMALL, TIME_LEFT, Pipeline, hour, opened


def run(pipeline: Pipeline) -> Rolled:
    return pipeline.roller().run(TIME_LEFT)


def states(pipeline: Pipeline) -> dict[str, str]:
    return {window.id[9:11]: window.status for window in pipeline.catalog.windows(0, 10**14)}


def test_a_window_is_closed_when_the_queue_was_found_empty_three_times() -> None:
    pipeline = opened()
    pipeline.writer().write([pipeline.message({"key": "k"}, sent=NOW - 2 * HOUR)], TIME_LEFT)
    roller = pipeline.roller()
    assert [roller.run(TIME_LEFT).steps.total() for _ in range(2)] == [0, 0]
    assert roller.run(TIME_LEFT).steps == {Step.CLOSE: 1, Step.SHUT: 1, Step.SEAL: 1}
    window = pipeline.state(hour(6))
    assert (window.status, window.keys, window.events, window.amount) == (
        Status.SEALED,
        1,
        1,
        1_000_000,
    )
    (total,) = pipeline.totals.of_key("k", hour(0), hour(24))
    assert (total.window, total.n) == (hour(6), 1)


def test_a_message_in_the_queue_keeps_a_window_open() -> None:
    pipeline = opened()
    roller = pipeline.roller()
    roller.run(TIME_LEFT)
    roller.run(TIME_LEFT)
    pipeline.queue.send("{}")
    assert [roller.run(TIME_LEFT).steps.total() for _ in range(3)] == [0, 0, 0]
    pipeline.queue.delete(pipeline.queue.receive()[0].receipt)
    assert [roller.run(TIME_LEFT).steps.total() for _ in range(3)] == [0, 0, 3]


def test_empty_counts_are_in_a_row_and_of_this_closing() -> None:
    pipeline = opened()
    roller = pipeline.roller()
    for _ in range(3):
        roller.run(TIME_LEFT)
    assert pipeline.state(hour(6)).status is Status.SEALED
    roller.run(TIME_LEFT)
    pipeline.effects.pass_by(31 * MINUTE)
    roller.run(TIME_LEFT)
    assert pipeline.state(hour(7)).status is Status.OPEN


def test_a_queue_found_empty_within_the_drain_margin_proves_nothing() -> None:
    """By a clock that is ahead the window is over, and producers may still send to it."""
    pipeline = opened()
    roller = pipeline.roller()
    margin, over = SMALL.drain_margin_ms, pipeline.spec(hour(7)).accept_until
    pipeline.effects.pass_by(over + 1 - NOW)
    for _ in range(5):
        roller.run(TIME_LEFT)
        pipeline.effects.pass_by((margin - 1) // 5)
    pipeline.effects.pass_by(over + margin - pipeline.effects.now())
    for _ in range(2):
        roller.run(TIME_LEFT)
    assert pipeline.state(hour(7)).status is Status.OPEN
    pipeline.effects.pass_by(1)
    roller.run(TIME_LEFT)
    assert pipeline.state(hour(7)).status is Status.OPEN, "counts within the margin were kept"
    for _ in range(5):
        roller.run(TIME_LEFT)
        pipeline.effects.pass_by(MINUTE)
    assert pipeline.state(hour(7)).status is Status.SEALED


def test_a_busy_queue_drains_by_the_age_of_its_oldest_message() -> None:
    pipeline = opened()
    roller = pipeline.roller()
    closed_at = None
    for minute in range(10):
        pipeline.queue.send("{}")
        pipeline.queue.invoked(failed=False)
        pipeline.catalog.beat(pipeline.effects.now(), finished=True)
        if roller.run(TIME_LEFT).steps:
            closed_at = minute
            break
        pipeline.effects.pass_by(30_000)
        for message in pipeline.queue.receive():
            pipeline.queue.delete(message.receipt)
        pipeline.queue.send("{}")
        pipeline.effects.pass_by(30_000)
        for message in pipeline.queue.receive():
            pipeline.queue.delete(message.receipt)
    assert closed_at == 3


def test_a_straggler_note_keeps_a_window_open() -> None:
    pipeline = opened()
    pipeline.catalog.note_straggler(hour(6), NOW)
    roller = pipeline.roller()
    for _ in range(5):
        assert roller.run(TIME_LEFT).steps.total() == 0
    pipeline.effects.pass_by(2 * SMALL.visibility_ms)
    assert roller.run(TIME_LEFT).steps == {Step.CLOSE: 1, Step.SHUT: 1, Step.SEAL: 1}


def test_sealing_that_was_interrupted_goes_on() -> None:
    pipeline = opened()
    pipeline.move(Status.CLOSING, hour(6))
    assert run(pipeline).steps == {Step.SHUT: 1, Step.SEAL: 1}
    assert pipeline.state(hour(6)).status is Status.SEALED


def test_shut_gates_are_given_time_before_the_tallies_are_listed() -> None:
    """A query beside a transaction may show it in part until it is answered."""
    pipeline = opened(replace(SMALL, settle_ms=60_000))
    pipeline.move(Status.CLOSING, hour(6))
    assert run(pipeline).steps == {Step.SHUT: 1}
    pipeline.effects.pass_by(59_999)
    assert run(pipeline).steps.total() == 0
    pipeline.effects.pass_by(1)
    assert run(pipeline).steps == {Step.SEAL: 1}


def test_the_time_to_settle_begins_when_the_last_gate_is_shut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Closing began long before: transactions could pass a gate until it was shut."""
    pipeline = opened(replace(SMALL, settle_ms=60_000))
    pipeline.move(Status.CLOSING, hour(6))
    pipeline.effects.pass_by(10 * MINUTE)
    shut_gates = pipeline.store.shut_gates

    def slow(spec: Spec) -> None:
        pipeline.effects.pass_by(30_000)
        shut_gates(spec)

    monkeypatch.setattr(pipeline.store, "shut_gates", slow)
    assert run(pipeline).steps == {Step.SHUT: 1}
    pipeline.effects.pass_by(59_999)
    assert run(pipeline).steps.total() == 0
    pipeline.effects.pass_by(1)
    assert run(pipeline).steps == {Step.SEAL: 1}


def test_a_queue_that_does_not_answer_stops_no_creation(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = opened()

    def silent(since: int, invocations_since: int) -> object:
        raise Unknown("no answer")

    monkeypatch.setattr(pipeline.queue, "backlog", silent)
    roller = pipeline.roller()
    for _ in range(3 * 60):
        pipeline.effects.pass_by(MINUTE)
        rolled = roller.run(TIME_LEFT)
        assert any("no answer" in problem for problem in rolled.problems)
        assert not rolled.next_missing
    assert pipeline.state(hour(6)).status is Status.OPEN


def test_empty_counts_are_each_windows_own() -> None:
    """One that waits for its stragglers must not lend its counts to one that just ended."""
    pipeline = opened()
    roller = pipeline.roller()
    pipeline.effects.pass_by(29 * MINUTE)
    for _ in range(4):
        pipeline.catalog.note_straggler(hour(6), pipeline.effects.now())
        roller.run(TIME_LEFT)
        pipeline.effects.pass_by(15_001)
    assert pipeline.effects.now() > pipeline.spec(hour(7)).accept_until
    roller.run(TIME_LEFT)
    assert pipeline.state(hour(7)).status is Status.OPEN


def test_a_window_of_many_keys_is_sealed_over_several_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "STRIPES_PER_SLICE", 2)
    pipeline = opened()
    pipeline.write(*({"id": f"e{n}", "key": f"k{n}", "ts": NOW} for n in range(9)))
    pipeline.move(Status.CLOSING)
    put = pipeline.totals.put

    def slow(totals: Sequence[Total]) -> None:
        put(totals)
        pipeline.effects.pass_by(TIME_LEFT)

    monkeypatch.setattr(pipeline.totals, "put", slow)
    rolled, runs = run(pipeline), 1
    while pipeline.state().status is Status.CLOSING:
        assert (rolled.problems, rolled.states["closing"]) == ([], 1)
        assert rolled.stuck_ms == pipeline.effects.now() - pipeline.state().times["sealing"]
        assert pipeline.state().times["sealing"] > NOW
        rolled, runs = run(pipeline), runs + 1
    assert runs == 6
    window = pipeline.state()
    assert (window.keys, window.events, window.sealing) == (9, 9, None)
    assert (window.peak, window.listed) == (1, 16)
    assert len(pipeline.totals.listed()) == 9
    assert rolled.stuck_ms == 0


def test_for_how_long_a_window_cannot_be_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = opened()
    assert run(pipeline).stuck_ms == 0
    pipeline.move(Status.CLOSING)

    def fails(*_: object) -> object:
        raise Unknown("no answer")

    monkeypatch.setattr(pipeline.store, "stripes", fails)
    for minutes in range(3):
        rolled = run(pipeline)
        assert rolled.stuck_ms == minutes * MINUTE
        assert any("no answer" in problem for problem in rolled.problems)
        pipeline.effects.pass_by(MINUTE)


def test_a_note_that_is_spent_is_deleted() -> None:
    pipeline = opened()
    old = NOW - (limits.RECEPTIONS_KEPT + 1) * SMALL.visibility_ms
    for note in (spent := Reception("1", old, old, old), kept := replace(spent, at=NOW)):
        pipeline.catalog.note_received(note)
    pipeline.roller().run(TIME_LEFT)
    assert [*pipeline.catalog.receptions(0, NOW + 1, 9)] == [kept]


def test_more_notes_than_a_run_reads_let_no_ages_close_a_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which of them hold the window is not known; an empty queue closes it all the same."""
    monkeypatch.setattr(limits, "RECEPTIONS_READ_MAX", 3)
    pipeline = opened()
    old = NOW - 3 * SMALL.visibility_ms
    for number in range(3):
        pipeline.catalog.note_received(Reception(f"{number}", old, NOW - 9 * HOUR, NOW - 9 * HOUR))
    busy = pipeline.roller()
    for _ in range(5):
        pipeline.queue.send("{}")
        pipeline.queue.invoked(failed=False)
        pipeline.catalog.beat(pipeline.effects.now(), finished=True)
        assert not busy.run(TIME_LEFT).steps
        for message in pipeline.queue.receive():
            pipeline.queue.delete(message.receipt)
        pipeline.effects.pass_by(MINUTE)
    for _ in range(3):
        busy.run(TIME_LEFT)
    assert pipeline.state(hour(6)).status is Status.SEALED


def test_for_how_long_writers_finish_nothing() -> None:
    """A writer that only hands back is alive, and still finishes nothing."""
    pipeline = opened()
    roller = pipeline.roller()
    assert roller.run(TIME_LEFT).silent_ms == 0
    pipeline.catalog.beat(pipeline.effects.now(), finished=True)
    pipeline.queue.send("{}")
    for minutes in range(4):
        assert roller.run(TIME_LEFT).silent_ms == minutes * MINUTE
        pipeline.effects.pass_by(MINUTE)
        pipeline.catalog.beat(pipeline.effects.now(), finished=False)
    assert pipeline.roller().run(TIME_LEFT).silent_ms == 0, "a new sandbox does not know it"
    pipeline.catalog.beat(pipeline.effects.now(), finished=True)
    assert roller.run(TIME_LEFT).silent_ms == 0
    pipeline.queue.delete(pipeline.queue.receive()[0].receipt)
    pipeline.effects.pass_by(HOUR)
    assert roller.run(TIME_LEFT).silent_ms == 0, "nothing waits"
    pipeline.queue.send("{}")
    assert roller.run(TIME_LEFT).silent_ms == 0, "it waits since this moment"


def test_a_heartbeat_needs_no_finished_message() -> None:
    pipeline = opened()
    roller = pipeline.roller()
    for _ in range(6):
        pipeline.queue.send("{}")
        pipeline.queue.invoked(failed=False)
        pipeline.catalog.beat(pipeline.effects.now(), finished=False)
        roller.run(TIME_LEFT)
        for message in pipeline.queue.receive():
            pipeline.queue.delete(message.receipt)
        pipeline.effects.pass_by(MINUTE)
    assert pipeline.state(hour(6)).status is Status.SEALED


def test_a_look_at_the_queue_that_fails_ends_a_row_of_empty_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = opened()
    roller = pipeline.roller()

    def silent(*_: object) -> object:
        raise Unknown("no answer")

    roller.run(TIME_LEFT)
    roller.run(TIME_LEFT)
    with monkeypatch.context() as patch:
        patch.setattr(pipeline.queue, "backlog", silent)
        roller.run(TIME_LEFT)
    roller.run(TIME_LEFT)
    roller.run(TIME_LEFT)
    assert pipeline.state(hour(6)).status is Status.OPEN
    roller.run(TIME_LEFT)
    assert pipeline.state(hour(6)).status is Status.SEALED


def test_a_note_of_what_comes_again_in_hours_holds_its_window() -> None:
    pipeline = opened()
    comes = NOW + 6 * HOUR
    pipeline.catalog.note_received(Reception("1", comes, NOW - 2 * HOUR, NOW - 2 * HOUR))
    roller = pipeline.roller()
    for _ in range(5):
        roller.run(TIME_LEFT)
    assert pipeline.state(hour(6)).status is Status.OPEN

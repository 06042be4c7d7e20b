"""The queue's double: what its age metric says, and when."""

from __future__ import annotations

from tallyroll.adapters.memory import MemoryQueue
from tallyroll.model.messages import RedriveMark
from tests.harness.pipeline import MINUTE, START, WINDOW, StillEffects


def test_an_age_stands_at_the_start_of_its_period_and_shows_after_its_end() -> None:
    effects = StillEffects(START)
    queue = MemoryQueue(effects, age_period_ms=MINUTE, age_lag_ms=5_000)
    effects.pass_by(10_000)
    queue.send("a")
    effects.pass_by(54_999)
    assert queue.backlog(0).ages == ()

    effects.pass_by(1)

    assert queue.backlog(0).ages == ((START, 50_000),)
    (at, age) = queue.backlog(0).ages[0]
    assert at - age < START + 10_000, "no message is taken for newer than it is"


def test_an_idle_queue_has_no_ages() -> None:
    effects = StillEffects(START)
    queue = MemoryQueue(effects, age_period_ms=MINUTE)
    queue.delete("none")
    effects.pass_by(MINUTE)
    assert queue.backlog(0).ages == ((START, 0),)
    effects.pass_by(5 * MINUTE)
    assert queue.backlog(0).ages == ((START, 0),)


def test_a_redrive_without_form_is_left_out_as_by_sqs() -> None:
    queue = MemoryQueue(StillEffects(START))
    redrive = RedriveMark(WINDOW, "first", START)
    for target in (WINDOW, "no-window"):
        queue.send("a", redrive=RedriveMark(target, "first", START))
    assert [message.redrive for message in queue.receive()] == [redrive, None]

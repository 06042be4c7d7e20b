"""What a writer remembers: it never takes a message for counted that is not."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.ingest.counted_messages import REMEMBERED_MAX, CountedMessages
from tallyroll.ingest.writer import BatchReport, Writer
from tallyroll.model.messages import Message, RedriveMark
from tallyroll.model.states import Status
from tallyroll.ports.catalog import Claim
from tallyroll.ports.store import Outcome, Verdict
from tallyroll.ports.writer_notes import message_digest
from tallyroll.reasons import Reason
from tests.harness.pipeline import MINUTE, NOW, SMALL, TIME_LEFT, WINDOW, Pipeline, opened

MEGABYTE = 1_000_000


def message(number: int = 0, **changes: Any) -> Message:
    return replace(Message(f"m{number}", "{}", NOW, 1, "r"), **changes)


def again(message: Message, **changes: Any) -> Message:
    """Its next delivery."""
    return replace(message, receives=message.receives + 1, receipt="again", **changes)


# --- the memory


def test_a_message_is_known_once_it_was_kept_at_each_of_its_deliveries() -> None:
    memory = CountedMessages()
    assert message() not in memory
    memory.keep([message()])
    assert message() in memory
    assert again(message()) in memory
    assert message(1) not in memory


@pytest.mark.parametrize("more", ["", "x" * 100])
def test_a_body_that_is_no_valid_text_is_kept_like_any_other(more: str) -> None:
    memory = CountedMessages()
    memory.keep([message(body="\ud800" + more)])
    assert message(body="\ud800" + more) in memory
    assert message(body="\ud801" + more) not in memory


@pytest.mark.parametrize(
    "other", [{"body": "[]"}, {"sent": NOW + 1}, {"redrive": RedriveMark(WINDOW, "m0", NOW)}]
)
def test_another_content_under_its_message_id_is_not_known(other: dict[str, Any]) -> None:
    memory = CountedMessages()
    memory.keep([message()])
    assert message(**other) not in memory
    memory.keep([message(**other)])
    assert message(**other) in memory


@pytest.mark.parametrize("most", [5, 6])
def test_the_last_are_remembered_at_least_half_of_the_most(most: int) -> None:
    memory = CountedMessages(most)
    for number in range(20):
        memory.keep([message(number)])
        known = [each for each in range(20) if message(each) in memory]
        assert known == list(range(number + 1))[-len(known) :], "the last ones"
        assert min(1 + most // 2, number + 1) <= len(known) <= most


def test_what_comes_again_is_remembered_for_longer() -> None:
    memory = CountedMessages(most=4)
    memory.keep(message(number) for number in (0, 1, 2, 0, 3, 4))
    assert message(0) in memory
    assert message(1) not in memory


@pytest.mark.parametrize(("length", "bytes_max"), [(60, 19 * MEGABYTE), (10_000, 10 * MEGABYTE)])
def test_a_full_memory_is_small(length: int, bytes_max: int) -> None:
    """It must not matter beside what a batch takes."""
    most = REMEMBERED_MAX // 20
    memory = CountedMessages(most)
    memory.keep([message(body="x" * length)])  # the first digest takes memory of its own
    tracemalloc.start()
    try:
        for number in range(2 * most - 1):
            body = str(number).zfill(length)
            memory.keep([message(id=f"00000000-0000-4000-8000-{number:012d}", body=body)])
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 2 * MEGABYTE < held * 20 < bytes_max


# --- the writer


def counted(pipeline: Pipeline, *ids: str, **fields: Any) -> tuple[Writer, list[Message]]:
    """A writer, and messages that it was given once."""
    bodies = [{"id": each, "key": "k", "ts": NOW, **fields} for each in ids]
    messages = [pipeline.message(body) for body in bodies]
    writer = pipeline.writer()
    writer.write(messages, TIME_LEFT)
    return writer, messages


def write(writer: Writer, *messages: Message) -> BatchReport:
    return writer.write(messages, TIME_LEFT)


class Unreachable:
    """A port on which every call fails the test."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was called")


def test_for_what_the_writer_counted_nothing_is_read_noted_or_committed() -> None:
    pipeline = opened()
    writer, messages = counted(pipeline, "a", "b")
    unreachable = Unreachable()
    writer.store = Unreachable()
    writer._notes.catalog = writer._placer.catalog = unreachable
    writer._placer.cached = unreachable  # type: ignore[assignment]
    report = write(writer, *map(again, messages))
    assert (report.messages, report.duplicates, report.events, report.failures) == (2, 2, 0, [])
    assert report.finished == 2
    assert report.cost.total == report.notes_failed == 0
    assert pipeline.tally("k") == (2, 2_000_000)


def test_a_copy_that_is_not_marked_as_one_cancels_no_transaction() -> None:
    pipeline = opened()
    writer, messages = counted(pipeline, "a")
    commits = len(pipeline.store.commits)
    fresh = pipeline.message({"id": "b", "key": "k", "ts": NOW})
    report = write(writer, replace(messages[0], receipt="copy"), fresh)
    assert (report.duplicates, report.events) == (1, 1)
    assert len(pipeline.store.commits) == commits + 1
    assert pipeline.tally("k")[0] == 2


def test_another_writer_knows_nothing_of_it_and_then_remembers_what_it_found() -> None:
    pipeline = opened()
    _, messages = counted(pipeline, "a")
    other = pipeline.writer()
    notes = len(pipeline.catalog.receptions(0, NOW + MINUTE, 9))
    assert write(other, again(messages[0])).duplicates == 1
    assert messages[0] in other._memory
    assert len(pipeline.catalog.receptions(0, NOW + MINUTE, 9)) == notes, "taken back"


def test_what_is_handed_back_is_not_remembered() -> None:
    pipeline = opened()
    pipeline.store.script = [Outcome(Verdict.UNKNOWN)] * 99
    writer, (message,) = counted(pipeline, "a")
    pipeline.store.script = []
    assert message not in writer._memory
    assert write(writer, again(message)).events == 1
    assert pipeline.tally("k")[0] == 1
    assert message in writer._memory


def test_a_writer_that_remembers_before_the_answer_is_known_loses_the_event() -> None:
    """The tests above can fail."""
    pipeline = opened()
    pipeline.store.script = [Outcome(Verdict.UNKNOWN)] * 99
    writer, (message,) = counted(pipeline, "a")
    pipeline.store.script = []
    writer._memory.keep([message])
    report = write(writer, again(message))
    assert (report.duplicates, report.failures, pipeline.tally("k")[0]) == (1, [], 0)


def test_what_is_rejected_is_not_remembered() -> None:
    pipeline = opened()
    writer, _ = counted(pipeline, "a")
    rival = pipeline.message({"id": "a", "key": "k", "ts": NOW, "value": 2})
    for delivery in (rival, again(rival)):
        assert write(writer, delivery).rejected == {Reason.ID_CONFLICT: 1}
    assert len(pipeline.reasons()) == 2


def test_another_body_under_a_remembered_message_id_is_compared_with_what_is_stored() -> None:
    pipeline = opened()
    writer, (message,) = counted(pipeline, "a")
    body = message.body.replace('"k"', '"k", "value": 2')
    assert write(writer, again(message, body=body)).rejected == {Reason.ID_CONFLICT: 1}
    assert pipeline.tally("k") == (1, 1_000_000)


def test_an_event_of_several_keys_is_remembered_as_one() -> None:
    mapping = {"keys": ["a:{a}", "b:{b}"], "id": "id", "ts": "ts", "payload": "@"}
    pipeline = opened(replace(SMALL, mapping=mapping))
    message = pipeline.message({"a": "1", "b": "2", "id": "e", "ts": NOW - MINUTE})
    rival = pipeline.message({"a": "1", "b": "3", "id": "e", "ts": NOW - MINUTE})
    writer = pipeline.writer()
    assert write(writer, message).events == 1
    assert write(writer, rival).rejected == {Reason.ID_CONFLICT: 1}
    commits = len(pipeline.store.commits)
    assert write(writer, again(message)).duplicates == 1
    assert len(pipeline.store.commits) == commits
    assert write(writer, again(rival)).rejected == {Reason.ID_CONFLICT: 1}
    counts = {key: pipeline.tally(key)[0] for key in ("a:1", "b:2", "b:3")}
    assert counts == {"a:1": 1, "b:2": 1, "b:3": 0}


def test_a_redriven_message_is_remembered_as_another_than_the_one_that_was_rejected() -> None:
    pipeline = opened()
    body = {"id": "e", "key": "k", "ts": NOW}
    pipeline.catalog.claim((WINDOW, "k", "e"), Claim(WINDOW, NOW))
    redriven = replace(pipeline.message(body), redrive=RedriveMark(WINDOW, "first", NOW))
    writer = pipeline.writer()
    assert write(writer, redriven).events == 1
    plain = replace(again(redriven), redrive=None)
    assert redriven in writer._memory
    assert plain not in writer._memory
    assert write(writer, again(redriven), plain).duplicates == 2
    assert pipeline.tally("k")[0] == 1


def test_what_was_counted_is_a_duplicate_also_when_its_window_is_gone() -> None:
    """Another writer cannot know it, and rejects the message."""
    pipeline = opened()
    writer, (message,) = counted(pipeline, "a")
    pipeline.store.shut_gates(pipeline.spec())
    pipeline.move(Status.DROPPED)
    pipeline.store.drop_table(pipeline.spec().table)
    assert write(writer, again(message)).duplicates == 1
    report = write(pipeline.writer(), again(message))
    assert report.rejected == {Reason.WINDOW_SEALED: 1}


def test_a_batch_of_remembered_messages_does_not_tell_that_writers_finish() -> None:
    """It proves nothing of the store. So windows close by what other batches do."""
    pipeline = opened()
    writer, (message,) = counted(pipeline, "a")
    finished = pipeline.catalog.heartbeat().finished
    pipeline.effects.pass_by(MINUTE)
    write(writer, again(message))
    beat = pipeline.catalog.heartbeat()
    assert (beat.at, beat.finished) == (NOW + MINUTE, finished)
    write(writer, again(message), pipeline.message({"id": "b", "key": "k", "ts": NOW}))
    pipeline.effects.pass_by(MINUTE)
    write(writer)
    assert pipeline.catalog.heartbeat().finished == NOW + 2 * MINUTE


def test_a_remembered_message_is_not_among_those_that_may_kill_writers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = opened()
    writer, (known,) = counted(pipeline, "a")
    other = pipeline.message({"id": "b", "key": "k", "ts": NOW}, receives=2)

    class Dies(BaseException):
        """The process ends."""

    def die(*_: Any) -> Any:
        raise Dies

    monkeypatch.setattr(pipeline.store, "commit", die)
    with pytest.raises(Dies):
        write(writer, again(known), other)
    (note,) = pipeline.catalog.receptions(0, NOW + MINUTE, 9)
    assert note.digests == message_digest(other)
    monkeypatch.undo()
    assert write(pipeline.writer(), again(again(known)), again(other)).events == 1


def test_a_message_stays_counted_if_its_acknowledgement_is_lost_again_and_again() -> None:
    pipeline = opened()
    writer, (message,) = counted(pipeline, "a")
    for receives in (2, 500, 1_000):
        report = write(writer, replace(message, receives=receives))
        assert (report.duplicates, report.rejected) == (1, {})

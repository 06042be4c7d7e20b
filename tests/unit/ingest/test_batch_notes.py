"""Writers' notes of batches: what they name, whom they blame, in which groups writers go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from tallyroll.errors import Unknown
from tallyroll.ingest.batch_messages import BatchMessage
from tallyroll.ingest.batch_notes import BatchNotes
from tallyroll.ingest.fates import Disposition, Fate
from tallyroll.ingest.placement import Placer
from tallyroll.limits import LONE_DEATHS_MAX, MESSAGES_NOTED_MAX, RECEPTIONS_KEPT
from tallyroll.model.messages import Message
from tallyroll.ports.store import Outcome, Verdict
from tallyroll.ports.writer_notes import Deaths, Reception, deaths_of, message_digest, reception_of
from tallyroll.reasons import Reason
from tests.harness.pipeline import HOUR, MINUTE, NOW, SECOND, TIME_LEFT, WINDOW, Pipeline, opened

LONG_AGO = NOW - 20 * MINUTE  # longer than any writer lasts


class Killed(BaseException):
    """The writer's process ends."""


def kill(*_: object) -> None:
    raise Killed


def message(name: str, receives: int = 1, sent: int = NOW) -> Message:
    return Message(name, '{"key": "k"}', sent, receives, f"{name}#1")


def batch_notes(pipeline: Pipeline) -> BatchNotes:
    return BatchNotes(pipeline.settings, pipeline.catalog, pipeline.queue, pipeline.effects)


def notes(pipeline: Pipeline) -> list[Reception]:
    return pipeline.catalog.receptions(0, NOW + 24 * HOUR, 99)


def begun(pipeline: Pipeline, *messages: Message) -> list[list[str]]:
    groups = batch_notes(pipeline).begin([BatchMessage(each) for each in messages])
    return [[case.message.id for case in group] for group in groups]


def died(pipeline: Pipeline, *messages: Message, at: int = LONG_AGO, times: int = 1) -> None:
    for number in range(times):
        pipeline.catalog.note_received(reception_of(f"{at}-{number}", at, messages))


def test_a_digest_is_found_at_its_own_place_only() -> None:
    wanted = message_digest(message("a"))
    shifted = b"\0" + wanted + b"\0\0\0"
    assert message_digest(message("a")) not in Reception("1", 0, 0, 0, shifted).named
    assert message_digest(message("a")) in Reception("1", 0, 0, 0, shifted + wanted).named


def test_a_note_names_what_was_received_most_often_and_all_sendings() -> None:
    many = [message(f"m{n}", 2, NOW + n) for n in range(MESSAGES_NOTED_MAX)]
    note = reception_of("1", NOW, [*many, message("often", 9, NOW - 1)])
    assert (note.oldest, note.newest) == (NOW - 1, NOW + MESSAGES_NOTED_MAX - 1)
    assert len(note.digests) == 4 * MESSAGES_NOTED_MAX
    assert message_digest(message("often")) in note.named


def test_deaths_among_others_and_alone_are_told_apart() -> None:
    a, b, c = (message(name, 3) for name in "abc")
    found = [reception_of("1", 7, [a, b]), reception_of("2", 8, [a]), reception_of("3", 9, [a])]
    assert deaths_of([a, b, c], found) == {"a": Deaths(1, (8, 9)), "b": Deaths(1, ())}


@pytest.mark.parametrize("deaths", [LONE_DEATHS_MAX - 1, LONE_DEATHS_MAX])
def test_a_message_on_which_writers_died_alone_again_and_again_is_given_up(deaths: int) -> None:
    pipeline = opened()
    died(pipeline, message("a", 9), times=deaths)
    [[case]] = batch_notes(pipeline).begin([BatchMessage(message("a", 9))])
    assert bool(case.fate) is (deaths == LONE_DEATHS_MAX)


def test_messages_are_noted_from_their_second_receive_on() -> None:
    pipeline = opened()
    begun(pipeline, message("new"))
    assert notes(pipeline) == []
    begun(pipeline, message("new"), message("again", 2, NOW - MINUTE))
    [note] = notes(pipeline)
    assert (note.oldest, note.newest) == (NOW - MINUTE, NOW - MINUTE)
    assert message_digest(message("again")) in note.named
    assert message_digest(message("new")) not in note.named


def test_from_the_third_receive_on_a_message_is_apart_from_others_if_writers_died_on_it() -> None:
    pipeline = opened()
    died(pipeline, message("a", 3), message("b", 2))
    assert begun(pipeline, message("new"), message("a", 3), message("b", 2)) == [
        ["new", "b"],
        ["a"],
    ]


def test_a_writer_that_may_still_live_is_not_taken_for_dead() -> None:
    pipeline = opened()
    lasts = pipeline.settings.writer_lasts_ms
    died(pipeline, message("a", 3), at=NOW - lasts)
    assert begun(pipeline, message("new"), message("a", 3)) == [["new", "a"]]
    died(pipeline, message("a", 3), at=NOW - lasts - 1)
    assert begun(pipeline, message("new"), message("a", 3)) == [["new"], ["a"]]


def test_groups_are_cut_by_the_most_deaths() -> None:
    pipeline = opened()
    messages = [message(f"m{n}", 5) for n in range(16)]
    died(pipeline, *messages)
    died(pipeline, *messages[:2], at=LONG_AGO + 1, times=2)
    assert [len(group) for group in begun(pipeline, *messages)] == [2] * 8


def test_only_the_group_at_work_is_named() -> None:
    pipeline = opened()
    died(pipeline, message("a", 3), message("b", 3))
    groups = begun(pipeline, message("c", 2), message("a", 3), message("b", 3))
    assert groups[0] == ["c"]
    [note] = [each for each in notes(pipeline) if each.at == NOW]
    assert message_digest(message("c")) in note.named
    assert message_digest(message("a")) not in note.named


def test_only_what_was_received_before_is_named_in_a_group() -> None:
    pipeline = opened()
    book = batch_notes(pipeline)
    book.begin([BatchMessage(message("a", 2))])
    book.narrow([BatchMessage(message("a", 2)), BatchMessage(message("new"))])
    [note] = notes(pipeline)
    assert note.digests == message_digest(message("a"))


def beats(pipeline: Pipeline, book: BatchNotes, cases: Sequence[BatchMessage]) -> int | None:
    book.begin(cases)
    book.end(cases)
    return pipeline.catalog.heartbeat().at


def test_a_batch_whose_note_was_not_taken_is_no_sign_of_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = opened()
    book, cases = batch_notes(pipeline), [BatchMessage(message("a", 2))]

    def refuse(_: Reception) -> None:
        raise Unknown("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(pipeline.catalog, "note_received", refuse)
        assert beats(pipeline, book, cases) is None
    pipeline.effects.pass_by(SECOND)
    assert beats(pipeline, book, cases) == NOW + SECOND, "the next one is"


def test_a_window_is_not_held_for_what_is_rejected() -> None:
    pipeline = opened()
    late = pipeline.message({"id": "x", "key": "k", "ts": NOW}, sent=NOW + 9 * HOUR, receives=2)
    report = pipeline.writer().write([late], TIME_LEFT)
    assert report.rejected == {Reason.TOO_LATE: 1}
    assert pipeline.catalog.stragglers([pipeline.spec().window]) == {}


def test_what_was_finished_between_two_heartbeats_is_told_once() -> None:
    pipeline = opened()
    book = batch_notes(pipeline)
    unfinished, finished = (
        BatchMessage(message("a")),
        BatchMessage(message("b"), fate=Fate(Disposition.COUNTED)),
    )
    told: list[int | None] = []
    for case in (unfinished, finished, unfinished, unfinished):
        beats(pipeline, book, [case])
        told.append(pipeline.catalog.heartbeat().finished)
        pipeline.effects.pass_by(5 * SECOND)
    pipeline.effects.pass_by(MINUTE)
    beats(pipeline, book, [unfinished])
    told.append(pipeline.catalog.heartbeat().finished)
    assert told == [None, None, NOW + 10 * SECOND, NOW + 10 * SECOND, NOW + 10 * SECOND]


def test_a_heartbeat_that_was_not_taken_is_told_by_the_next_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = opened()
    book, finished = (
        batch_notes(pipeline),
        BatchMessage(message("a"), fate=Fate(Disposition.COUNTED)),
    )

    def refuse(at: int, *, finished: bool) -> None:
        raise Unknown("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(pipeline.catalog, "beat", refuse)
        assert beats(pipeline, book, [finished]) is None
    pipeline.effects.pass_by(SECOND)
    assert beats(pipeline, book, [BatchMessage(message("b"))]) == NOW + SECOND
    assert pipeline.catalog.heartbeat().finished == NOW + SECOND, "with what was finished before"


def test_the_roller_deletes_the_notes_that_are_of_no_more_use() -> None:
    pipeline = opened()
    kept = RECEPTIONS_KEPT * pipeline.settings.visibility_ms
    for at in (NOW - kept - 1, NOW - kept):
        died(pipeline, message("a", 3, at), at=at)
    pipeline.roller().run(TIME_LEFT)
    assert [note.at for note in notes(pipeline)] == [NOW - kept]


def test_between_two_groups_only_what_is_finished_is_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next group may kill the writer: what is done leaves, what is not stays."""
    pipeline = opened()
    bodies = {name: f'{{"key": "k", "id": "{name}"}}' for name in "abc"}
    done, back, last = (replace(message(name, 3), body=body) for name, body in bodies.items())
    died(pipeline, last)
    acknowledged: list[list[str]] = []
    monkeypatch.setattr(pipeline.queue, "acknowledge", acknowledged.append)
    place = Placer.place

    def placing(
        placer: Placer, cases: Sequence[BatchMessage], is_late: Callable[[], bool]
    ) -> list[BatchMessage]:
        if any(case.message is last for case in cases):
            [note] = [each for each in notes(pipeline) if each.at == NOW]
            assert note.digests == message_digest(last)
        cases = [case.handed_back("") if case.message is back else case for case in cases]
        return place(placer, cases)

    monkeypatch.setattr(Placer, "place", placing)
    report = pipeline.writer().write([done, back, last], TIME_LEFT)
    assert (report.events, report.failures) == (2, ["b"])
    assert acknowledged == [[done.receipt]]


def test_each_group_is_acknowledged_before_the_next_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The third group may kill the writer: what the second one finished must have left by then."""
    pipeline = opened()
    messages = [message(name, 3) for name in ("fine", "a", "b")]
    for number, each in enumerate(messages[1:]):
        died(pipeline, each, at=LONG_AGO + number)
    acknowledged: list[list[str]] = []
    monkeypatch.setattr(pipeline.queue, "acknowledge", acknowledged.append)
    report = pipeline.writer().write(messages, TIME_LEFT)
    assert (report.finished, report.failures) == (3, [])
    assert acknowledged == [["fine#1"], ["a#1"]]


def test_a_window_is_noted_before_its_messages_are_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The writer may die on the commit, and the note of its batch may not have been taken."""
    pipeline = opened()
    body = f'{{"id": "e", "key": "k", "ts": {NOW}}}'
    monkeypatch.setattr(pipeline.store, "commit", kill)
    with pytest.raises(Killed):
        pipeline.writer().write([pipeline.message(body, receives=2)], TIME_LEFT)
    assert pipeline.catalog.stragglers([WINDOW]) == {WINDOW: NOW}


def test_groups_for_which_no_time_is_left_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past its deadline a writer must not begin on a message, and be killed on it."""
    pipeline = opened()
    messages = [message("a", 3), message("b", 3)]
    died(pipeline, *messages)
    died(pipeline, *messages, at=LONG_AGO + 1)
    placed: list[int] = []
    place = Placer.place

    def placing(
        placer: Placer, cases: Sequence[BatchMessage], is_late: Callable[[], bool]
    ) -> list[BatchMessage]:
        placed.append(len(cases))
        return place(placer, cases)

    monkeypatch.setattr(Placer, "place", placing)
    report = pipeline.writer().write(messages, time_left_ms=0)
    assert sorted(report.failures) == ["a", "b"]
    assert placed == [1]
    assert pipeline.queue.delays[0][1] == pipeline.queue.delays[1][1] == 20
    assert pipeline.store.commits == []


def test_a_window_is_noted_until_its_last_message_comes_again() -> None:
    pipeline = opened()
    pipeline.store.script = [Outcome(Verdict.THROTTLED)] * 1_000
    bodies = [f'{{"id": "e{n}", "key": "k", "ts": {NOW}}}' for n in range(2)]
    messages = [
        replace(pipeline.message(body), receives=receives)
        for body, receives in zip(bodies, (50, 1), strict=True)
    ]
    pipeline.writer().write(messages, time_left_ms=0)
    assert [seconds for _, seconds in pipeline.queue.delays] == [300, 5]
    assert pipeline.catalog.stragglers([WINDOW]) == {WINDOW: NOW + 300 * SECOND}


def test_what_can_never_count_holds_no_window_however_often_it_comes_again() -> None:
    """The dead-letter queue does not take it, perhaps for ever."""
    pipeline = opened()
    pipeline.queue.refuses = lambda _: True
    bodies = ["no JSON", f'{{"id": "e", "key": "k", "ts": {NOW - 5 * HOUR}}}']
    messages = [replace(pipeline.message(body), receives=2) for body in bodies]
    report = pipeline.writer().write(messages, TIME_LEFT)
    assert len(report.failures) == 2
    assert notes(pipeline) == []
    assert pipeline.catalog._stragglers == {}


def hands_back(book: BatchNotes, *messages: Message) -> None:
    """A batch of messages for which no window is known when they are handed back."""
    cases = [BatchMessage(each) for each in messages]
    book.begin(cases)
    book.hand_back(cases)
    book.end(cases)


def test_what_comes_again_without_a_window_is_noted_until_the_last_of_it_does() -> None:
    """The note takes the place of the one before, and holds what that one held, as long."""
    pipeline = opened()
    book = batch_notes(pipeline)
    hands_back(book, message("patient", 500, NOW - HOUR))
    [(_, seconds)] = pipeline.queue.delays
    [first] = notes(pipeline)
    assert (first.at, first.oldest, first.newest) == (
        NOW + seconds * SECOND,
        NOW - HOUR,
        NOW - HOUR,
    )
    hands_back(book, message("soon", 2, NOW))
    [second] = notes(pipeline)
    assert (second.at, second.oldest, second.newest) == (first.at, NOW - HOUR, NOW)
    hands_back(book, message("sooner", 2, NOW - 2 * HOUR))
    [third] = notes(pipeline)
    assert (third.at, third.oldest, third.newest) == (first.at, NOW - 2 * HOUR, NOW)


def test_a_note_of_what_comes_again_stands_until_another_takes_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = opened()
    book = batch_notes(pipeline)
    hands_back(book, message("a", 2))
    before = notes(pipeline)

    def refuse(_: Reception) -> None:
        raise Unknown("no answer")

    monkeypatch.setattr(pipeline.catalog, "note_received", refuse)
    hands_back(book, message("b", 2))
    assert notes(pipeline) == before != []


def test_a_batch_holds_its_windows_until_what_comes_again_is_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A writer that dies between the two notes leaves one of them."""
    pipeline = opened()
    book, cases = batch_notes(pipeline), [BatchMessage(message("a", 2))]
    book.begin(cases)
    book.hand_back(cases)
    before = notes(pipeline)
    monkeypatch.setattr(pipeline.catalog, "note_received", kill)
    with pytest.raises(Killed):
        book.end(cases)
    assert notes(pipeline) == before != []


def test_what_came_again_in_an_earlier_batch_is_noted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = opened()
    book = batch_notes(pipeline)
    hands_back(book, message("a", 2))
    noted: list[Reception] = []
    monkeypatch.setattr(pipeline.catalog, "note_received", noted.append)
    done = BatchMessage(message("new"), fate=Fate(Disposition.COUNTED))
    book.begin([done])
    book.hand_back([done])
    book.end([done])
    assert noted == []

"""A look at the dead letters: each is given once, and all that stay are given back."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence

import pytest

from tallyroll.adapters.memory import MemoryDeadLetters
from tallyroll.adapters.system import SystemEffects
from tallyroll.errors import StoreError
from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.operations import dead_letter_scan
from tallyroll.operations.dead_letter_scan import HIDDEN_SECONDS, DeadLetterScan, Names
from tallyroll.ports.queue import Backlog
from tallyroll.reasons import Reason
from tests.harness.pipeline import SECOND, Pipeline, opened
from tests.harness.redriving import reject


def filled(number: int) -> tuple[Pipeline, MemoryDeadLetters]:
    """A pipeline with so many dead letters."""
    pipeline = opened()
    for index in range(number):
        reject(pipeline, f"body {index}", Reason.NOT_JSON)
    return pipeline, MemoryDeadLetters(pipeline.queue, pipeline.effects)


def batches(scan: DeadLetterScan, jobs: int = 2) -> list[list[str]]:
    """The ids of the letters that a look gives, by batch."""
    found: list[list[str]] = []
    scan.each(lambda batch: found.append([letter.id for letter in batch]), jobs)
    return found


def seen_by(scan: DeadLetterScan) -> list[str]:
    return [name for batch in batches(scan) for name in batch]


def test_a_look_sees_each_once_and_gives_all_back() -> None:
    pipeline, letters = filled(225)
    scan = DeadLetterScan(letters, pipeline.effects)
    found = batches(scan)
    assert [len(batch) for batch in found] == [100, 100, 25]
    assert len({name for batch in found for name in batch}) == 225
    assert (scan.seen, scan.expected, scan.total, scan.missed) == (225, 225, 225, 0)
    assert letters.count().visible == 0
    scan.close()
    assert letters.count().visible == 225


def test_a_look_of_which_others_hold_a_part() -> None:
    pipeline, letters = filled(25)
    held = letters.peek(10, HIDDEN_SECONDS)
    scan = DeadLetterScan(letters, pipeline.effects, 12)
    assert len(seen_by(scan)) == 12
    assert (scan.missed, scan.total) == (13, 12)
    letters.give_back(held)
    pipeline.effects.pass_by(HIDDEN_SECONDS * SECOND)
    assert letters.count().visible == 25, "they reappear by themselves"
    assert letters.delete(held) == [True] * 10
    assert len(pipeline.queue.dead_letters) == 15


@pytest.mark.parametrize(("hidden", "in_vain"), [(0, 1), (1, 2)])
def test_a_look_waits_once_more_only_if_letters_are_missing(
    monkeypatch: pytest.MonkeyPatch, hidden: int, in_vain: int
) -> None:
    pipeline, letters = filled(5)
    letters.peek(hidden, HIDDEN_SECONDS)
    peek, received = letters.peek, list[int]()

    def watched(many: int, seconds: int) -> list[ReceivedLetter]:
        page = peek(many, seconds)
        received.append(len(page))
        return page

    monkeypatch.setattr(letters, "peek", watched)
    scan = DeadLetterScan(letters, pipeline.effects)
    batches(scan, jobs=1)
    assert received.count(0) == in_vain
    assert (scan.seen, scan.missed) == (5 - hidden, hidden)


def test_letters_that_the_queue_does_not_count_yet_are_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline, letters = filled(3)
    monkeypatch.setattr(letters, "count", lambda: Backlog(0, 0, 0))
    assert len(seen_by(DeadLetterScan(letters, pipeline.effects))) == 3


@pytest.mark.parametrize("limit", [1, 9, 10, 11, 99, 100, 101, 115, 230])
def test_no_more_than_the_limit_are_received(limit: int) -> None:
    pipeline, letters = filled(230)
    scan = DeadLetterScan(letters, pipeline.effects, limit)
    assert len(seen_by(scan)) == limit
    assert letters.count().in_flight == limit


def test_only_the_last_receipt_deletes() -> None:
    pipeline, letters = filled(1)
    first = letters.peek(10, 1)
    pipeline.effects.pass_by(SECOND)
    (second,) = letters.peek(10, 60)
    assert second.receives == 2
    letters.give_back(first)
    assert letters.peek(10, 60) == []


def test_large_letters_come_in_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letter_scan, "BATCH_BYTES", 30 * 1024)
    pipeline = opened()
    for _ in range(60):
        reject(pipeline, "x" * 1024, Reason.NOT_JSON)
    scan = DeadLetterScan(MemoryDeadLetters(pipeline.queue, pipeline.effects), pipeline.effects)
    assert [len(batch) for batch in batches(scan)] == [40, 20]


def test_letters_that_stay_are_given_back_beyond_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQS stops giving out messages when too many are hidden; those that come again are known.

    This queue gives out those first: then a look must end, too.
    """
    monkeypatch.setattr(dead_letter_scan, "HELD_MAX", 20)
    pipeline, letters = filled(300)
    most = 0
    peek = letters.peek

    def watched(many: int, seconds: int) -> list[ReceivedLetter]:
        nonlocal most
        most = max(most, letters.count().in_flight)
        return peek(many, seconds)

    monkeypatch.setattr(letters, "peek", watched)
    scan = DeadLetterScan(letters, pipeline.effects)
    found = seen_by(scan)
    assert len(found) == len(set(found)), "none is given twice"
    assert scan.seen + scan.missed == 300, "what those that come again hide is told"
    assert 20 <= most <= 30
    assert len(scan._held) <= 20
    scan.close()
    assert letters.count().visible == 300


def test_all_letters_are_seen_where_those_given_back_come_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dead_letter_scan, "HELD_MAX", 20)
    pipeline, letters = filled(300)
    give_back = letters.give_back

    def to_the_end(given: Sequence[ReceivedLetter]) -> None:
        give_back(given)
        ids = {letter.id for letter in given}
        pipeline.queue.dead_letters.sort(key=lambda letter: letter.id in ids)

    monkeypatch.setattr(letters, "give_back", to_the_end)
    scan = DeadLetterScan(letters, pipeline.effects)
    assert len(set(seen_by(scan))) == scan.seen == 300
    scan.close()
    assert letters.count().visible == 300


def test_letters_that_reappear_meanwhile_are_not_given_again() -> None:
    pipeline, letters = filled(30)
    scan = DeadLetterScan(letters, pipeline.effects)
    found: list[str] = []

    def slow(batch: Sequence[ReceivedLetter]) -> None:
        found.extend(letter.id for letter in batch)
        pipeline.effects.pass_by(HIDDEN_SECONDS * SECOND)

    scan.each(slow, 3)
    assert sorted(found) == sorted(letter.id for letter in pipeline.queue.dead_letters)
    scan.close()
    assert letters.count().visible == 30, "by their last receipts"


def test_known_letters_between_new_ones_do_not_end_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """How often known ones came is counted from the last new one on."""
    pipeline, letters = filled(3)
    a, b, c = letters.peek(10, HIDDEN_SECONDS)
    pages = iter([a, *[a] * 10, b, *[a] * 10, c])

    def scripted(most: int, seconds: int) -> list[ReceivedLetter]:
        letter = next(pages, None)
        return [letter] if letter else []

    monkeypatch.setattr(letters, "peek", scripted)
    scan = DeadLetterScan(letters, pipeline.effects)
    assert batches(scan, jobs=1) == [[a.id], [b.id], [c.id]]


def test_deleted_letters_are_not_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, letters = filled(5)
    scan = DeadLetterScan(letters, pipeline.effects)
    deleted: list[str] = []

    def delete(batch: list[ReceivedLetter]) -> None:
        letters.delete(batch[:2])
        scan.forget(batch[:2])
        deleted.extend(letter.id for letter in batch[:2])

    scan.each(delete)
    given_back: list[str] = []
    monkeypatch.setattr(
        letters, "give_back", lambda held: given_back.extend(letter.id for letter in held)
    )
    scan.close()
    assert len(deleted) == 2
    assert sorted(given_back) == sorted(letter.id for letter in pipeline.queue.dead_letters)


def test_what_fails_stops_all_workers_and_gives_all_back() -> None:
    pipeline, letters = filled(350)
    scan = DeadLetterScan(letters, pipeline.effects)
    treated = []

    def fail(batch: Sequence[ReceivedLetter]) -> None:
        treated.append(len(batch))
        raise StoreError("broken", "Broken")

    with pytest.raises(StoreError, match="broken"):
        scan.each(fail, 3)
    assert treated == [100]
    scan.close()
    assert letters.count().visible == 350


def test_what_was_received_before_a_receive_failed_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline, letters = filled(350)
    scan = DeadLetterScan(letters, pipeline.effects)
    peek, calls = letters.peek, iter(range(1_000))

    def fickle(most: int, seconds: int) -> list[ReceivedLetter]:
        if next(calls) == 4:
            raise StoreError("ReceiveMessage: refused", "AccessDenied")
        return peek(most, seconds)

    monkeypatch.setattr(letters, "peek", fickle)
    with pytest.raises(StoreError, match="refused"):
        scan.each(lambda _: None, 3)
    scan.close()
    assert letters.count().visible == 350


def test_batches_are_treated_side_by_side_by_threads() -> None:
    _, letters = filled(800)
    lock, meeting = threading.Lock(), threading.Barrier(4, timeout=300)
    peek = letters.peek

    def one_at_once(most: int, seconds: int) -> list[ReceivedLetter]:
        with lock:  # the double is not made for threads
            return peek(most, seconds)

    letters.peek = one_at_once  # type: ignore[method-assign]
    found: Counter[str] = Counter()

    def treat(batch: Sequence[ReceivedLetter]) -> None:
        meeting.wait()
        with lock:
            found.update(letter.id for letter in batch)

    scan = DeadLetterScan(letters, SystemEffects(), 400)
    scan.each(treat, 4)
    assert len(found) == found.total() == scan.seen == 400


def test_names_are_known_by_their_hashes() -> None:
    names = Names()
    many = [f"letter-{number}" for number in range(5_000)]
    for name in many * 2:
        names.add(name)
    assert len(names) == 5_000
    assert all(name in names for name in many)
    assert not [name for name in many if f"another {name}" in names]
    assert 12 <= names._slots.itemsize * len(names._slots) / 5_000 <= 24
    names.add("\ud800")
    assert "\ud800" in names

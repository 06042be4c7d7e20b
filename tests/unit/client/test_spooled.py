"""A producer with a spool: what it keeps, what the next one sends, and what it tells."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from random import Random

import pytest

from tallyroll.client.outbox import Outbox
from tallyroll.client.receipts import Outgoing
from tallyroll.client.rules import ProducerRules
from tallyroll.client.spool import Spool
from tallyroll.errors import NotSent, Refused
from tallyroll.ports.queue import Post, PostError
from tests.harness.pipeline import NOW
from tests.unit.client.stepped import Answer, Bytes, Stepped, busy, refused


@pytest.fixture
def world() -> Stepped:
    return Stepped()


@pytest.fixture
def journal() -> Bytes:
    return Bytes()


def test_what_is_confirmed_is_not_kept(world: Stepped, journal: Bytes) -> None:
    producer = world.producer(journal=journal)
    producer.send("k")
    producer.send("k")
    producer.send("k", id="own")
    assert journal.data.count(b"\n") == 4
    producer.close()
    assert journal.data == b""


def test_what_is_left_at_the_close_is_sent_by_the_next_start(
    world: Stepped, journal: Bytes
) -> None:
    producer = world.producer(journal=journal)
    world.poster.answers = [busy] * 100
    receipts = [producer.send("k"), producer.send("k"), producer.send("k", id="own")]
    with pytest.raises(NotSent, match="; the spool keeps it, and the next start sends it") as lost:
        producer.close(1)
    assert (lost.value.events, lost.value.kept) == (3, True)
    assert (producer.stats.kept, producer.stats.failed) == (3, 0)
    before = {*world.poster.bodies}

    world.poster.answers = []
    again = world.producer(journal=journal)
    assert again.stats.recovered == 3
    again.close()
    assert {*world.poster.bodies} == before
    assert {message["id"] for message in world.poster.messages} == {
        receipts[0].id.partition(":")[0],
        "own",
    }
    assert journal.data == b""


def test_what_the_next_start_sends_has_its_whole_time_again(world: Stepped, journal: Bytes) -> None:
    world.producer(journal=journal).send("k")  # killed
    world.effects.pass_by(5_000)
    world.poster.answers = [busy]
    again = world.producer(journal=journal, give_up_ms=1_000)
    again.flush()
    assert (again.stats.confirmed, again.stats.failed) == (1, 0)


def test_a_file_with_an_outcome_that_is_not_told_yet_is_not_emptied(
    world: Stepped, journal: Bytes
) -> None:
    rules = ProducerRules(linger_ms=0, give_up_ms=None)
    spool = Spool(journal, compact_bytes=1)
    outbox = Outbox(rules, lambda: "p", Random(1), spool, 0)
    outbox.add("own", "k", '{"id":"own"}', 0)
    (lost,) = outbox.answered(outbox.take(1), [PostError("no", final=True)], 1)
    found = Spool(Bytes(journal.data)).recover()
    assert [message.id for message, _ in found.given_up] == ["own"]
    outbox.reported([lost])
    outbox.add("next", "k", '{"id":"next"}', 2)
    outbox.answered(outbox.take(3), [None], 3)
    assert journal.data == b"", "now nothing is left to tell"


def test_a_file_with_what_only_the_next_start_sends_is_not_emptied(journal: Bytes) -> None:
    rules = ProducerRules(linger_ms=0, give_up_ms=None)
    outbox = Outbox(rules, lambda: "p", Random(1), Spool(journal, compact_bytes=1), 0)
    outbox.add("kept", "k", '{"id":"kept"}', 0)
    outbox.failed(outbox.take(1), "AccessDenied", 1, unknown=False, final=True)
    outbox.add("next", "k", '{"id":"next"}', 2)
    outbox.answered(outbox.take(3), [None], 3)
    outbox.close()
    assert [message.id for message in Spool(journal).recover().messages] == ["kept"]


def unsure(posts: Sequence[Post]) -> list[PostError | None]:
    """An answer that does not tell whether the queue has the messages."""
    return [PostError("?", unknown=True)] * len(posts)


@pytest.mark.parametrize("last", [refused("no"), Refused("SendMessageBatch: no", "AccessDenied")])
def test_a_try_that_may_have_been_taken_is_not_forgotten(
    world: Stepped, last: Answer | Exception
) -> None:
    world.poster.answers = [unsure, busy, last]
    producer = world.producer()
    producer.send("k")
    with pytest.raises(NotSent) as caught:
        producer.flush()
    assert caught.value.unknown


def test_a_try_that_may_have_been_taken_is_not_forgotten_at_the_close(world: Stepped) -> None:
    world.poster.answers = [unsure, *[busy] * 100]
    producer = world.producer()
    producer.send("k")
    with pytest.raises(NotSent, match="the producer was closed; an earlier try may") as caught:
        producer.close(1)
    assert caught.value.unknown


def test_a_queue_that_refuses_everything_leaves_it_in_the_spool(
    world: Stepped, journal: Bytes
) -> None:
    """What is wrong is the queue's address or a permission, not the messages."""
    world.poster.answers = [Refused("SendMessageBatch: AccessDenied: no", "AccessDenied")]
    producer = world.producer(journal=journal)
    receipt = producer.send("k")
    with pytest.raises(NotSent, match="AccessDenied: no; the spool keeps it"):
        producer.flush()
    error = receipt.exception(0)
    assert error
    assert error.kept
    producer.close()
    assert world.producer(journal=journal).stats.recovered == 1


def test_what_the_queue_refuses_is_told_and_not_sent_later(world: Stepped, journal: Bytes) -> None:
    world.poster.answers = [refused("InvalidMessageContents: no")]
    producer = world.producer(journal=journal)
    producer.send("k")
    with pytest.raises(NotSent, match=r"InvalidMessageContents: no$"):
        producer.close()
    assert journal.data == b""


def test_a_loss_that_was_not_told_is_told_by_the_next_start(world: Stepped, journal: Bytes) -> None:
    """The process was killed between its note of the loss and the callback."""
    before = Spool(journal)
    lost = Outgoing(0, "p0", "k", 0.0, NOW)
    before.open(lost, "[0]")
    before.add(lost, "[1]")
    before.single(Outgoing(1, "own", "k", 0.0, body='{"id":"own"}'))
    before.settle([], [(lost, "given up after 3 tries: no reply")])

    producer = world.producer(journal=journal)
    (told,) = world.told
    assert (told.id, told.events) == ("p0", 2)
    assert told.error
    assert (str(told.error), told.error.unknown) == ("given up after 3 tries: no reply", True)
    with pytest.raises(NotSent, match=r"^2 events not sent: given up after 3 tries") as caught:
        producer.flush()
    assert caught.value.unknown
    stats = producer.stats
    assert (stats.recovered, stats.failed, stats.confirmed) == (3, 2, 1)
    producer.close()
    assert world.producer(journal=journal).stats.recovered == 0
    assert len(world.told) == 2


def test_a_loss_that_was_told_at_the_start_is_not_told_again(
    world: Stepped, journal: Bytes
) -> None:
    before = Spool(journal)
    before.single(Outgoing(0, "own", "k", 0.0, body='{"id":"own"}'))
    lost = Outgoing(1, "lost", "k", 0.0, body='{"id":"lost"}', events=1)
    before.single(lost)
    before.settle([], [(lost, "no")])
    for _ in range(2):  # the first one is killed
        world.producer(journal=journal)
    assert [told.id for told in world.told] == ["lost"]


def test_a_loss_that_the_full_disk_cannot_note_is_kept(world: Stepped, journal: Bytes) -> None:
    """It is not told as lost, since the next start sends it again."""
    world.poster.answers = [refused("no")]
    producer = world.producer(journal=journal)
    receipt = producer.send("k")
    journal.room = 0
    with pytest.raises(NotSent, match="No space left on device; the spool keeps it"):
        producer.flush()
    error = receipt.exception(0)
    assert error
    assert error.kept
    journal.room = 10_000
    assert world.producer(journal=journal).stats.recovered == 1


def test_a_loss_whose_report_the_full_disk_cannot_note_is_told_again(
    world: Stepped, journal: Bytes
) -> None:
    world.poster.answers = [refused("no")]
    producer = world.producer(journal=journal)
    producer.send("k").add_done_callback(lambda _: setattr(journal, "room", 0))
    with pytest.raises(NotSent, match=r"no$"):
        producer.close()
    journal.room = 10_000
    assert world.producer(journal=journal).stats.failed == 1
    assert [str(told.error) for told in world.told] == [str(world.told[0].error)] * 2


def test_a_confirmation_that_the_full_disk_cannot_note_is_told_nevertheless(
    world: Stepped, journal: Bytes
) -> None:
    producer = world.producer(journal=journal)
    receipt = producer.send("k")
    journal.room = 0
    producer.flush()
    assert receipt.result(0).error is None
    assert producer.stats.confirmed == 1


def test_an_event_that_the_full_disk_does_not_take_is_not_accepted(
    world: Stepped, journal: Bytes
) -> None:
    producer = world.producer(journal=journal)
    producer.send("k")
    journal.room = len(journal.data)
    for key, record_id in (("k", None), ("k", "own"), ("other", None)):
        with pytest.raises(OSError, match="No space left"):
            producer.send(key, id=record_id)
    producer.flush()
    assert (producer.stats.accepted, len(world.poster.bodies)) == (1, 1)


def test_damaged_lines_are_counted_and_logged(
    world: Stepped, journal: Bytes, caplog: pytest.LogCaptureFixture
) -> None:
    world.producer(journal=journal).send("k")
    journal.data = b"not of a spool\n" + journal.data
    with caplog.at_level(logging.ERROR):
        producer = world.producer(journal=journal)
    assert caplog.messages == ["1 lines of the spool are damaged"]
    assert (producer.stats.damaged, producer.stats.recovered) == (1, 1)


def test_a_packet_that_is_full_begins_another_in_the_spool(world: Stepped, journal: Bytes) -> None:
    producer = world.producer(journal=journal, packet_bytes=300)
    for _ in range(2):
        producer.send("k", payload="x" * 200)
    del producer  # killed
    again = world.producer(journal=journal)
    again.flush()
    assert [len(message["events"]) for message in world.poster.messages] == [1, 1]

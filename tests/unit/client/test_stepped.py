"""What a producer does at each turn, without threads: waits, repeats, gives up, and tells."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from unittest.mock import Mock
from weakref import WeakSet

import pytest

from tallyroll.client import intake
from tallyroll.client import producer as producer_module
from tallyroll.client.outbox import Outbox
from tallyroll.client.receipts import Receipt
from tallyroll.client.rules import ProducerRules
from tallyroll.errors import (
    BufferFull,
    NotSent,
    Refused,
    Rejected,
    Throttled,
    Unknown,
    UsageError,
)
from tallyroll.ports.queue import Post, PostError
from tests.harness.pipeline import MINUTE, NOW
from tests.unit.client.stepped import Answer, Bytes, Stepped, all_taken, busy, refused


@pytest.fixture
def world() -> Stepped:
    return Stepped()


def test_a_step_sends_what_is_due_and_nothing_before(world: Stepped) -> None:
    producer = world.producer(linger_ms=200)
    receipt = producer.send("k")
    assert not producer.step()
    assert world.poster.bodies == []
    world.effects.pass_by(200)
    assert producer.step()
    assert receipt.result(0).tries == 1
    assert not producer.step()


def test_a_flush_sleeps_until_the_queue_takes_it(world: Stepped) -> None:
    world.poster.answers = [Unknown("no reply"), busy]
    producer = world.producer()
    receipt = producer.send("k")
    producer.flush()
    assert receipt.result(0).tries == 3
    assert len(world.effects.slept) == 2
    assert len(set(world.poster.bodies)) == 1


def test_a_flush_ends_at_its_time_and_says_what_waits(world: Stepped) -> None:
    world.poster.answers = [Unknown("no reply")] * 100
    producer = world.producer()
    producer.send("k")
    with pytest.raises(TimeoutError, match="still being sent: events 1"):
        producer.flush(1)
    assert world.effects.now() == NOW + 1_000


def test_a_full_buffer_is_emptied_by_the_one_that_waits(world: Stepped) -> None:
    producer = world.producer(buffer_bytes=1)
    first, second = producer.send("a"), producer.send("b")
    assert first.done()
    assert not second.done()
    assert world.effects.slept == []  # the packet is closed before its time
    assert producer.stats.blocked == 1


def test_a_full_buffer_that_stays_full_is_told(world: Stepped) -> None:
    world.poster.answers = [Unknown("no reply")] * 100
    producer = world.producer(buffer_bytes=1, block_ms=1_000)
    producer.send("a")
    with pytest.raises(BufferFull, match=r"bytes are held, of 1, after 1000 ms$"):
        producer.send("b")
    assert producer.stats.waiting == 1


def test_a_producer_closed_while_one_waits_for_room_takes_no_more(world: Stepped) -> None:
    producer = world.producer(buffer_bytes=1)

    def close(posts: Sequence[Post]) -> list[PostError | None]:
        producer.close(0)
        return all_taken(posts)

    world.poster.answers = [close]
    producer.send("a")
    with pytest.raises(UsageError, match="the producer is closed"):
        producer.send("b")


@pytest.mark.parametrize("late", [all_taken, Unknown("no reply")])
def test_an_answer_after_the_close_changes_nothing(
    world: Stepped, late: Answer | Exception
) -> None:
    """A request is on its way when the close gives up: its messages were told as perhaps taken."""
    producer = world.producer()
    lost: list[NotSent] = []

    def close(posts: Sequence[Post]) -> list[PostError | None]:
        with pytest.raises(NotSent, match="the producer was closed") as caught:
            producer.close(0)
        lost.append(caught.value)
        if isinstance(late, Exception):
            raise late
        return late(posts)

    world.poster.answers = [close]
    receipt = producer.send("k")
    producer.flush()
    assert [error.unknown for error in lost] == [True]
    assert str(receipt.exception(0)).endswith("; an earlier try may have been taken")
    assert (producer.stats.failed, producer.stats.confirmed) == (1, 0)
    assert len(world.told) == 1


def test_a_close_ends_once_and_gives_up_what_is_left(world: Stepped) -> None:
    world.poster.answers = [busy] * 100
    producer = world.producer()
    producer.send("k")
    with pytest.raises(NotSent, match=r"1 event not sent: event .*: the producer was closed$"):
        producer.close(1)
    producer.close()
    assert producer.stats.failed == 1


def test_a_loss_is_told_with_the_number_of_events_and_once(world: Stepped) -> None:
    world.poster.answers = [refused("InvalidMessageContents: no")]
    producer = world.producer()
    for key in ("a", "a", "b", "c"):
        producer.send(key)
    with pytest.raises(NotSent) as caught:
        producer.flush()
    told = r"4 events not sent: 2 events of key 'a': InvalidMessageContents: no (and others)"
    assert str(caught.value) == told
    assert (caught.value.events, caught.value.unknown, caught.value.kept) == (4, False, False)
    producer.flush()


def test_of_many_losses_one_that_may_have_been_taken_makes_all_of_them_unknown(
    world: Stepped,
) -> None:
    world.poster.answers = [refused("no")] * 20 + [Unknown("no reply")]
    producer = world.producer(give_up_ms=0)
    for number in range(201):
        producer.send("k", id=f"e{number}")
    with pytest.raises(NotSent, match="201 events not sent") as caught:
        producer.flush()
    assert (caught.value.events, caught.value.unknown) == (201, True)


def test_a_loss_and_a_flush_that_ends_early_are_told_together(world: Stepped) -> None:
    world.poster.answers = [
        lambda posts: [PostError("no", final=True), *busy(posts[1:])],
        *[busy] * 100,
    ]
    producer = world.producer()
    producer.send("a")
    producer.send("b")
    with pytest.raises(NotSent, match=r"^1 event not sent: .*; 1 events are still being sent$"):
        producer.flush(1)


@pytest.mark.parametrize("answer", [busy, Unknown("no reply")])
def test_a_message_is_given_up_when_its_last_try_began_too_late(
    world: Stepped, answer: Answer | Exception
) -> None:
    world.poster.answers = [answer] * 100
    producer = world.producer(give_up_ms=1_000)
    receipt = producer.send("k")
    with pytest.raises(NotSent, match=r"given up after \d+ tries: "):
        producer.flush()
    error = receipt.exception(0)
    assert error
    assert error.unknown is (answer is not busy)
    assert world.effects.now() >= NOW + 1_000
    with pytest.raises(NotSent, match="given up after"):
        receipt.result(0)


def test_a_queue_that_is_refused_as_a_whole_is_not_tried_again(world: Stepped) -> None:
    world.poster.answers = [Refused("SendMessageBatch: AccessDenied: no", "AccessDenied")]
    producer = world.producer()
    producer.send("k")
    with pytest.raises(NotSent, match=r"AccessDenied: no$"):
        producer.flush()
    assert len(world.poster.bodies) == 1
    assert (producer.stats.throttled, producer.stats.unknown) == (0, 0)


def test_a_request_that_failed_for_now_is_counted_as_what_it_was(world: Stepped) -> None:
    slow, silent = Throttled("slow"), Unknown("no reply")
    world.poster.answers = [silent, slow, slow, silent, slow]
    producer = world.producer()
    producer.send("k")
    producer.flush()
    assert (producer.stats.throttled, producer.stats.unknown) == (3, 2)


def test_a_receipt_shows_its_event_and_whether_it_is_done(world: Stepped) -> None:
    producer = world.producer()
    receipt = producer.send("k", id="view-1")
    assert repr(receipt) == "<Receipt 'view-1' of key 'k': waiting>"
    producer.flush()
    assert repr(receipt) == "<Receipt 'view-1' of key 'k': done>"


def test_a_receipt_that_is_waited_for_again_after_a_timeout(world: Stepped) -> None:
    producer = world.producer()
    receipt = producer.send("k")
    with pytest.raises(TimeoutError, match="has no outcome yet"):
        receipt.result(0)
    producer.flush()
    assert receipt.result(0).events == 1


def test_what_failed_is_sent_again_without_waiting_for_others() -> None:
    outbox = Outbox(ProducerRules(linger_ms=200, give_up_ms=None), lambda: "p", Random(1), None, 0)
    outbox.add("old", "k", "{}", 0)
    flying = outbox.take(200)
    outbox.add("young", "k", "{}", 210)
    assert outbox.take(215) == []
    outbox.failed(flying, "no reply", 220, unknown=True, final=False)
    again = outbox.due_at()
    assert again
    assert again < 210 + 200
    assert {message.id for message in outbox.take(again)} == {"old", "young"}


def test_a_queue_that_fails_again_and_again_is_asked_less_often() -> None:
    chance = Mock(spec=Random, random=lambda: 0.999)
    outbox = Outbox(ProducerRules(linger_ms=0, give_up_ms=None), lambda: "p", chance, None, 0)
    outbox.add("k", "k", "{}", 0)
    pauses: list[float] = []
    tick = 0.0
    for _ in range(4):
        outbox.failed(outbox.take(tick), "no reply", tick, unknown=True, final=False)
        due = outbox.due_at()
        assert due
        pauses.append(due - tick)
        tick = due
    assert pauses == [pytest.approx(pauses[0] * 2**tries) for tries in range(4)]
    outbox.answered(outbox.take(tick), [None], tick)
    outbox.add("k", "k", "{}", tick)
    outbox.failed(outbox.take(tick), "no reply", tick, unknown=True, final=False)
    assert outbox.due_at() == pytest.approx(tick + pauses[0]), "it had answered"


def test_what_is_held_is_what_waits() -> None:
    """A message counts with its body, and makes room once it is sent; then others may linger."""
    outbox = Outbox(ProducerRules(linger_ms=200, give_up_ms=None), lambda: "p", Random(1), None, 0)
    body = "x" * 100_000
    for number in range(11):
        outbox.add(f"e{number}", "k", body, 0)
        assert outbox.held > (number + 1) * len(body)
    assert outbox.full
    while outbox.held:
        batch = outbox.take(200)
        outbox.answered(batch, [None] * len(batch), 200)
    assert outbox.unsettled == {}
    outbox.add("young", "k", body, 210)
    assert outbox.take(220) == []


def test_a_packet_is_closed_when_it_is_full(world: Stepped) -> None:
    producer = world.producer(packet_events=2, packet_bytes=1_000)
    receipts: list[Receipt] = [producer.send("k") for _ in range(3)]
    receipts += [producer.send("l", payload="x" * 900), producer.send("l", payload="x" * 900)]
    producer.flush()
    sizes = [len(message["events"]) for message in world.poster.messages]
    assert sorted(sizes) == [1, 1, 1, 2]
    assert len({receipt.id.partition(":")[0] for receipt in receipts}) == 4


def test_an_event_too_large_for_a_packet_goes_alone_under_an_id_of_its_own(world: Stepped) -> None:
    producer = world.producer(packet_bytes=1_000)
    large = producer.send("k", payload="x" * 1_000)
    nearly = producer.send("k", payload="x" * 900)
    producer.flush()
    alone, packet = world.poster.messages
    assert (alone["id"], alone["ts"], alone["payload"]) == (large.id, NOW, "x" * 1_000)
    assert packet["events"] == [[NOW % MINUTE, 1, "x" * 900]]
    assert nearly.id == f"{packet['id']}:0"


def test_text_that_sqs_does_not_take_is_escaped(world: Stepped) -> None:
    producer = world.producer()
    producer.send("k", payload="\u00fc\ufffe")
    producer.flush()
    assert "\u00fc\\ufffe" in world.poster.bodies[0]
    assert world.poster.messages[0]["events"][0][2] == "\u00fc\ufffe"


def test_only_the_newest_own_ids_keep_their_first_time(
    world: Stepped, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "STAMPS_KEPT", 2)
    producer = world.producer()
    for record_id in ("a", "b", "c", "b", "a"):
        producer.send("k", id=record_id)
        world.effects.pass_by(1)
    producer.flush()
    times = [(message["id"], message["ts"] - NOW) for message in world.poster.messages]
    assert times == [("a", 0), ("b", 1), ("c", 2), ("b", 1), ("a", 4)]


def test_a_flush_in_the_turn_of_another_does_not_wait_for_itself(world: Stepped) -> None:
    """Without threads, nobody else ends the request or the callback in which it is called."""
    producer = world.producer()

    def flush(posts: Sequence[Post]) -> list[PostError | None]:
        with pytest.raises(TimeoutError, match="still being sent: events 1"):
            producer.flush()
        return all_taken(posts)

    world.poster.answers = [flush]
    receipt = producer.send("k")
    receipt.add_done_callback(lambda _: producer.flush())
    producer.flush()
    assert producer.stats.confirmed == 1


def test_after_a_fork_what_was_held_is_the_parents(world: Stepped) -> None:
    producer = world.producer()
    held = producer.send("held by the parent")
    producer.after_fork()
    producer.send("of the child")
    producer.flush()
    assert [message["key"] for message in world.poster.messages] == ["of the child"]
    assert not held.done()
    assert producer.stats.accepted == 1


def test_a_fork_reaches_every_producer_that_is_open(
    world: Stepped, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_module, "_alive", WeakSet())
    one, other, closed = world.producer(), world.producer(journal=Bytes()), world.producer()
    closed.close()
    for each in (one, other):
        each.send("k")
    producer_module._begin_anew()
    assert one.stats.accepted == 0
    with pytest.raises(UsageError, match="before a fork, and its spool is the parent's: make one"):
        other.send("k")
    with pytest.raises(UsageError, match="is closed"):
        closed.send("k")


def test_who_waits_for_a_receipt_may_go_away(
    world: Stepped, caplog: pytest.LogCaptureFixture
) -> None:
    """Both while its loop runs on, and when the loop is gone."""
    producer = world.producer()
    troubles: list[object] = []

    async def wait_a_turn(receipt: Receipt) -> None:
        task = asyncio.ensure_future(_wait_for(receipt))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def flush_afterwards() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: troubles.append(context))
        await wait_a_turn(producer.send("k"))
        producer.flush()
        await asyncio.sleep(0)

    asyncio.run(flush_afterwards())
    asyncio.run(wait_a_turn(producer.send("k")))
    producer.flush()
    assert (troubles, caplog.messages) == ([], [])
    assert producer.stats.confirmed == 2


async def _wait_for(receipt: Receipt) -> None:
    await receipt


def test_a_retraction_is_sent_like_an_event(world: Stepped) -> None:
    world.poster.answers = [Unknown("no reply")]
    producer = world.producer()
    receipt = producer.retract("Ada", "ballot-7", ts=NOW, by="ops", why="a test")
    producer.flush()
    fields = {"key": "Ada", "id": "ballot-7", "ts": NOW, "by": "ops", "why": "a test"}
    assert world.poster.messages == [["tallyroll-retract", 1, fields]] * 2
    assert receipt.result(0).tries == 2


def test_a_retraction_without_a_place_is_refused(world: Stepped) -> None:
    with pytest.raises(Rejected, match="either the window or the ts"):
        world.producer().retract("Ada", "ballot-7")

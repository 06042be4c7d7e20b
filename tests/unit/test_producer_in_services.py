"""`tallyroll.Producer` among callbacks, in asyncio, in Lambda handlers, and when it ends."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Signal
from threading import Thread
from typing import Any
from unittest.mock import Mock, call
from weakref import WeakMethod

import pytest
from botocore.exceptions import EndpointConnectionError

from tallyroll import Producer
from tallyroll import pipeline as wiring
from tallyroll.adapters.journal import FileJournal
from tallyroll.client.receipts import Delivery, call_safely
from tallyroll.errors import BufferFull, NotSent, UsageError
from tallyroll.pipeline import producer as services
from tallyroll.pipeline.producer import _close_at_exit
from tests.unit.standing_in import URL, StandIn, client_error, taken


def test_asyncio() -> None:
    async def main() -> Delivery:
        async with Producer(URL, client=StandIn()) as producer:
            receipt = await producer.asend("k")
            await producer.aflush()
            return await receipt

    assert asyncio.run(main()).key == "k"


def test_callbacks_are_called_once_also_when_they_come_late() -> None:
    heard: list[str] = []
    with Producer(URL, client=StandIn()) as producer:
        receipt = producer.send("k")
        receipt.add_done_callback(lambda done: heard.append(done.id))
        receipt.add_done_callback(lambda _: 1 / 0)  # is logged
        producer.flush()
        assert heard == [receipt.id]
        receipt.add_done_callback(lambda done: heard.append(done.key))
    assert heard == [receipt.id, "k"]


def test_a_callback_cannot_end_the_sending() -> None:
    def leave(_: object) -> None:
        raise SystemExit(1)

    client = StandIn()
    with closing_at_once(Producer(URL, client=client, connections=1)) as producer:
        for _ in range(3):
            producer.send("k").add_done_callback(leave)
            producer.flush(60)
        assert len(client.bodies) == 3


@contextmanager
def closing_at_once(producer: Producer) -> Iterator[Producer]:
    """For one whose thread may have ended: a `with` of its own would wait for it for ever."""
    try:
        yield producer
    finally:
        producer.close(0)


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
def test_a_client_cannot_end_the_sending(error: BaseException) -> None:
    """Whether it had sent the event before it raised this is unknown: it is sent again."""

    class Leaving(StandIn):
        failed = False

        def send_message_batch(self, **asked: Any) -> dict[str, Any]:
            if not self.failed:
                self.failed = True
                raise error
            return super().send_message_batch(**asked)

    client = Leaving()
    with closing_at_once(Producer(URL, client=client, connections=1)) as producer:
        producer.send("k")
        producer.flush(60)
        assert len(client.bodies) == 1
        assert producer.stats.unknown == 1


def test_a_block_without_a_spool_waits_for_what_only_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However long it takes: nothing else keeps the event."""
    close = Mock()
    with Producer(URL, client=StandIn()) as producer:
        monkeypatch.setattr(producer, "close", close)
    assert close.mock_calls == [call(None)]


class Unreachable(StandIn):
    def send_message_batch(self, **_: Any) -> dict[str, Any]:
        raise EndpointConnectionError(endpoint_url="https://sqs")


def test_a_block_with_a_spool_ends_while_the_queue_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "EXIT_S", 0.01)

    lost: list[str] = []

    def within() -> None:
        try:
            with Producer(URL, client=Unreachable(), spool=tmp_path / "spool") as producer:
                for _ in range(3):
                    producer.send("k")
        except NotSent as error:
            lost.append(str(error))

    block = Thread(target=within, daemon=True)  # the test does not wait for one that never ends
    block.start()
    block.join(60)
    [told] = lost
    assert re.match("3 events not sent: .* the spool keeps it, and the next", told)


def test_a_spool_whose_producer_could_not_be_made_can_be_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "spool"
    with pytest.raises(UsageError, match="give the pipeline's name, too"):
        Producer(URL, spool=path, bucket="archive")
    path.write_bytes(b"damaged\n")
    with monkeypatch.context() as patch:
        patch.setattr(FileJournal, "replace", _full)
        with pytest.raises(OSError, match="No space left"):
            Producer(URL, client=StandIn(), spool=path)
    Producer(URL, client=StandIn(), spool=path).close()


def _full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_callback_that_ends_the_program_leaves_the_spool_to_the_next_start(
    tmp_path: Path,
) -> None:
    path = tmp_path / "spool"
    producer = Producer(URL, client=Unreachable(), spool=path, on_delivery=lambda _: sys.exit(3))
    for _ in range(3):
        producer.send("k")
    with pytest.raises(SystemExit):
        producer.close(0.01)
    with Producer(URL, client=StandIn(), spool=path) as again:
        assert again.stats.recovered == 3


def test_a_lambda_handler_returns_after_its_events_are_sent() -> None:
    class Context:
        def get_remaining_time_in_millis(self) -> int:
            return 60_000

    client = StandIn()
    producer = Producer(URL, client=client, linger_ms=3_600_000)

    @producer.flush_after
    def handler(event: dict[str, Any], context: Context) -> int:
        producer.send(event["key"])
        if event["key"] == "bad":
            raise ValueError("no")
        return len(client.bodies)

    assert handler({"key": "k"}, Context()) == 0
    assert len(client.bodies) == 1
    with pytest.raises(ValueError, match="no"):
        handler({"key": "bad"}, Context())
    assert len(client.bodies) == 2

    @producer.flush_after(reserve=59.99)
    def late(event: dict[str, Any], context: Context) -> None:
        producer.send(event["key"])
        raise ValueError("no")

    go_on = Signal()
    client.answers = [lambda entries: taken(entries) if go_on.wait(60) else {}]
    with pytest.raises(ValueError, match="no") as caught:
        late({"key": "k"}, Context())
    (note,) = caught.value.__notes__
    assert note == "and of its events: not confirmed yet, and still being sent: events 1"
    go_on.set()

    @producer.flush_after
    def without_context() -> None:
        producer.send("k")

    without_context()
    assert len(client.bodies) == 4
    producer.close()


def test_a_callback_neither_flushes_nor_waits_for_room() -> None:
    """It runs on the thread that would have to make room."""
    heard: list[str] = []

    def on_delivery(delivery: Delivery) -> None:
        if delivery.id == "1":
            with pytest.raises(UsageError, match="flush waits for callbacks: do not call it in"):
                producer.flush()
            producer.send("k", id="2")
            with pytest.raises(BufferFull, match=r"bytes are held, of 1$"):
                producer.send("k", id="3")
        heard.append(delivery.id)

    client = StandIn()
    producer = Producer(
        URL, client=client, connections=1, buffer_bytes=1, linger_ms=0, on_delivery=on_delivery
    )
    producer.send("k", id="1")
    producer.flush()
    producer.close()
    assert heard == ["1", "2"]


def test_a_forked_producer_makes_a_client_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections are not to be shared with the parent."""
    client = StandIn()
    monkeypatch.setattr(wiring, "LateClient", lambda *_: client)
    producer = Producer(URL)
    poster = producer._poster
    producer.after_fork()
    assert producer._poster is not poster
    producer.send("k")
    producer.close()
    assert len(client.bodies) == 1


def test_what_is_lost_at_exit_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    producer = Producer(URL, client=StandIn(client_error("QueueDoesNotExist")))
    producer.send("k")
    _close_at_exit(WeakMethod(producer.close))
    (told,) = caplog.messages
    assert told.startswith("at exit, 1 event not sent: ")
    assert "QueueDoesNotExist" in told
    with pytest.raises(UsageError, match="is closed"):
        producer.send("k")


def test_a_producer_that_is_gone_is_not_closed_at_exit() -> None:
    class Owner:
        def close(self, timeout: float) -> None:
            raise AssertionError

    owner = Owner()
    gone: WeakMethod[Callable[[float], None]] = WeakMethod(owner.close)
    del owner
    assert gone() is None
    _close_at_exit(gone)


def test_a_loss_is_added_to_the_error_that_ends_the_block() -> None:
    def send_in_a_block(error: Exception | None) -> None:
        with Producer(URL, client=StandIn(client_error("QueueDoesNotExist"))) as producer:
            producer.send("k")
            if error:
                raise error

    with pytest.raises(NotSent, match="QueueDoesNotExist"):
        send_in_a_block(None)
    with pytest.raises(ValueError, match="mine") as caught:
        send_in_a_block(ValueError("mine"))
    (note,) = caught.value.__notes__
    assert note.startswith("and of the producer's events: 1 event not sent: ")


def test_asyncio_waits_for_room_beside_the_loop() -> None:
    entered, go_on = Signal(), Signal()

    def slowly(entries: list[dict[str, Any]]) -> dict[str, Any]:
        entered.set()
        assert go_on.wait(60)
        return taken(entries)

    async def main() -> int:
        client = StandIn(slowly)
        producer = Producer(URL, client=client, buffer_bytes=1, linger_ms=0, connections=1)
        await producer.asend("a")
        assert await asyncio.to_thread(entered.wait, 60)
        second = asyncio.ensure_future(producer.asend("b"))
        while not producer.stats.blocked:
            await asyncio.sleep(0.001)
        assert not second.done()
        go_on.set()
        await (await second)
        await producer.aclose()
        return len(client.bodies)

    assert asyncio.run(main()) == 2

    async def full() -> None:
        go_on.clear()
        client = StandIn(slowly)
        async with Producer(URL, client=client, buffer_bytes=1, when_full="raise") as producer:
            await producer.asend("a")
            with pytest.raises(BufferFull):
                await producer.asend("b")
            go_on.set()

    asyncio.run(full())


def test_an_exit_on_the_main_thread_is_a_signals() -> None:
    with pytest.raises(SystemExit):
        call_safely(sys.exit, 0)

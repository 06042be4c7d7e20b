"""A receipt while its message is settled by another thread."""

from __future__ import annotations

from threading import Thread

from tallyroll.client import receipts
from tallyroll.client.receipts import Delivery, Outgoing, Receipt


def message() -> Outgoing:
    return Outgoing(0, "p", "k", 0.0, 0, events=2)


def test_each_that_waits_for_a_message_is_woken() -> None:
    waiting = message()
    results: list[Delivery] = []
    threads = [
        Thread(target=lambda index=index: results.append(Receipt(waiting, index).result(30)))
        for index in range(3)
    ]
    signals = set()
    for thread in threads:
        thread.start()
        while waiting.signal is None:
            thread.join(0.001)
        thread.join(0.02)  # each asks for the signal before the next one does
        signals.add(waiting.signal)
    assert len(signals) == 1, "the first ones would wait for a signal that nobody gives"
    waiting.settle(None)
    for thread in threads:
        thread.join(60)
    assert results == [Delivery("p", "k", 2, 0)] * 3


def test_a_callback_is_called_once_and_released() -> None:
    """A service may keep receipts: what their callbacks hold must not stay with them."""
    settled = message()
    called: list[Receipt] = []
    receipt = Receipt(settled, 0)
    receipt.add_done_callback(called.append)
    settled.settle(None)
    for _ in range(2):
        settled.call_back()
    assert called == [receipt]
    assert settled.callbacks == []


def test_a_callback_is_not_added_in_the_middle_of_a_settlement() -> None:
    """Else it is added after all were called, and never called itself."""
    settled = message()
    receipt = Receipt(settled, 0)
    called: list[Receipt] = []
    adding = Thread(target=receipt.add_done_callback, args=(called.append,))
    with receipts._turn:
        adding.start()
        adding.join(0.05)
        assert settled.callbacks == []
        settled.delivery = Delivery("p", "k", 2, 1)
    adding.join(60)
    assert called == [receipt]

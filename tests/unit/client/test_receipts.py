"""A receipt while its message is settled by another thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from time import sleep

from tallyroll.client import receipts
from tallyroll.client.receipts import Delivery, Outgoing, Receipt
from tallyroll.errors import NotSent


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


def test_a_loss_wakes_the_one_that_waits() -> None:
    waiting, lost = message(), NotSent("no", events=2)
    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(Receipt(waiting, 0).exception, 30)
        while waiting.signal is None:
            sleep(0.001)
        waiting.settle(lost)
        assert told.result(60) is lost


def test_what_is_settled_is_released_and_its_callbacks_called_once() -> None:
    """A service may keep receipts: neither bodies nor what callbacks hold must stay with them."""
    settled = message()
    settled.entries, settled.body = ["[1]"], "x"
    called: list[Receipt] = []
    receipt = Receipt(settled, 0)
    receipt.add_done_callback(called.append)
    settled.settle(None)
    for _ in range(2):
        settled.call_back()
    assert called == [receipt]
    assert (settled.entries, settled.body, settled.callbacks) == ([], "", [])


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

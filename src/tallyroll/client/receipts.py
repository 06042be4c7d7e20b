"""What a producer gives for an event: a receipt, which becomes the delivery of its message."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from threading import Event as Signal
from threading import Lock, current_thread, main_thread
from typing import Any

from tallyroll.errors import NotSent
from tallyroll.model.formats.compression import Compressor

_log = logging.getLogger(__name__)
_OTHERS = " (and others)"
_turn = Lock()  # of the signals and callbacks of all messages, for a moment each


@dataclass(frozen=True, slots=True)
class Delivery:
    """The result of one message: the `events` of `key` that it holds, under `id`.

    `error` is None once the queue has the message for certain. `tries` is the number of requests.
    """

    id: str
    key: str
    events: int
    tries: int
    error: NotSent | None = None


@dataclass(slots=True, eq=False)
class Outgoing:
    """One message on its way: a single event with its `body`, or a packet of `entries` from `t0` on
    (ms), whose body is made when it is closed.

    `number` counts a producer's messages. Times are in ms on the monotonic clock. `held` is roughly
    what the message takes in memory (bytes). It is `flying` while a request holds it. `compressor`
    has the first part of a packet that is larger than a body may be.
    """

    number: int
    id: str
    key: str
    created: float
    t0: int | None = None
    entries: list[str] = field(default_factory=list)
    body: str = ""
    size: int = 0
    compressor: Compressor | None = None
    events: int = 0
    held: int = 0
    tries: int = 0
    unknown: bool = False
    began: float = 0.0
    flying: bool = False
    recovered: bool = False
    delivery: Delivery | None = None
    signal: Signal | None = None
    callbacks: list[tuple[Callable[[Receipt], object], Receipt]] = field(default_factory=list)

    def settle(self, error: NotSent | None) -> Delivery:
        """Set the delivery, and wake those that wait for it."""
        with _turn:
            self.delivery = Delivery(self.id, self.key, self.events, self.tries, error)
            if self.signal:
                self.signal.set()
        self.entries, self.body = [], ""
        return self.delivery

    def call_back(self) -> None:
        """Call what waits for the delivery."""
        with _turn:
            callbacks, self.callbacks = self.callbacks, []
        for function, receipt in callbacks:
            call_safely(function, receipt)


class Receipt:
    """The future of one event: done once its message has its delivery. Thread-safe.

    `await receipt` in asyncio, or `receipt.result(timeout)` elsewhere.
    """

    __slots__ = ("_index", "_message")

    def __init__(self, message: Outgoing, index: int) -> None:
        self._message = message
        self._index = index

    @property
    def id(self) -> str:
        """The event's id, by which `tallyroll event` finds it."""
        if self._message.t0 is None:
            return self._message.id
        return f"{self._message.id}:{self._index}"

    @property
    def key(self) -> str:
        """The event's key."""
        return self._message.key

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._message.delivery is not None

    def result(self, timeout: float | None = None) -> Delivery:
        """The delivery of the event's message. Raises NotSent, or TimeoutError after `timeout`
        seconds.
        """
        delivery = self._wait(timeout)
        if delivery.error:
            raise delivery.error
        return delivery

    def exception(self, timeout: float | None = None) -> NotSent | None:
        """Why the event is not certainly in the queue; None if it is. Raises TimeoutError."""
        return self._wait(timeout).error

    def add_done_callback(self, function: Callable[[Receipt], object]) -> None:
        """Call `function` with this receipt once it is done, on a thread of the producer; at once,
        on this thread, if it is done. What the function raises is logged.
        """
        with _turn:
            if self._message.delivery is None:
                self._message.callbacks.append((function, self))
                return
        call_safely(function, self)

    def __await__(self) -> Generator[Any, None, Delivery]:
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        def done(_: Receipt) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(wake)

        self.add_done_callback(done)
        yield from woken
        return self.result(0)

    def _wait(self, timeout: float | None) -> Delivery:
        message = self._message
        with _turn:
            if not self.done():
                message.signal = message.signal or Signal()
        if message.signal and not message.signal.wait(timeout):
            raise TimeoutError(f"event {self.id!r} has no outcome yet")
        assert message.delivery
        return message.delivery

    def __repr__(self) -> str:
        state = "waiting" if self._message.delivery is None else "done"
        return f"<Receipt {self.id!r} of key {self.key!r}: {state}>"


def call_safely(function: Callable[..., object], *arguments: object) -> None:
    """Call a user's function; log what it raises, unless it `ends_the_program`."""
    try:
        function(*arguments)
    except BaseException as error:  # SystemExit would end a producer's thread for good
        if ends_the_program(error):
            raise
        _log.exception("a producer's callback failed")


def ends_the_program(error: BaseException) -> bool:
    """Whether an exception is Ctrl-C or an exit on the main thread, which may be a signal's."""
    return not isinstance(error, Exception) and current_thread() is main_thread()


def _unlock() -> None:
    """In a child after a fork: a thread that it does not have may hold the lock."""
    global _turn  # noqa: PLW0603
    _turn = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


class Losses:
    """What was lost since the last time that it was raised; its producer's lock guards it."""

    def __init__(self) -> None:
        self._lost: NotSent | None = None

    def note(self, settled: Sequence[Outgoing]) -> None:
        """Note the messages that were not sent."""
        for message in settled:
            error = message.delivery.error if message.delivery else None
            if error:
                self._lost = _both(self._lost, error) if self._lost else error

    def raise_all(self, waiting: int = 0) -> None:
        """Raise NotSent for what was noted; `waiting` events are still being sent."""
        lost, self._lost = self._lost, None
        if not lost:
            return
        text = f"{lost.events} event{'s' * (lost.events > 1)} not sent: {lost}"
        if waiting:
            text += f"; {waiting} events are still being sent"
        raise NotSent(text, events=lost.events, unknown=lost.unknown, kept=lost.kept)


def _both(lost: NotSent, other: NotSent) -> NotSent:
    """Both as one error, with the first one's text."""
    return NotSent(
        f"{str(lost).removesuffix(_OTHERS)}{_OTHERS}",
        events=lost.events + other.events,
        unknown=lost.unknown or other.unknown,
        kept=lost.kept and other.kept,
    )

"""Makes messages of events and delivers them to the event queue.

Bodies and ids are made once, and everything that is sent has an id. So sending a message again,
after the queue may have taken it, counts nothing twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from threading import Lock
from typing import Any

from tallyroll.client.packing import pack
from tallyroll.client.spans import SendCalendar
from tallyroll.errors import Reason
from tallyroll.limits import QUEUE_BATCH_MAX
from tallyroll.model.events import Event, Packet, event_body
from tallyroll.model.ids import uuid7, uuid7_time
from tallyroll.model.json_texts import load_json
from tallyroll.ports.effects import Effects, attempts
from tallyroll.ports.queue import Sender

SENDS_AT_ONCE = 8
SEND_TRIES = 4  # on top of the queue client's own tries of throttled requests
BACKOFF_MS = 400


@dataclass(frozen=True, slots=True, eq=False)
class Outgoing:
    """One message: its body, its number of events, their origin (for messages to people), and
    whether it may be sent again if no reply came.
    """

    body: str
    events: int
    origin: str
    repeatable: bool = True


@dataclass(slots=True)
class Sent:
    """The result of a run so far.

    `waiting` messages are neither taken nor given up; `read_to` is the last line read.
    """

    lines: int = 0
    read_to: int = 0
    events: int = 0
    messages: int = 0
    rejected: Counter[Reason] = field(default_factory=Counter)
    waiting: dict[Outgoing, None] = field(default_factory=dict)
    lost: list[tuple[Outgoing, str]] = field(default_factory=list)
    broken: bool = False
    stopped: bool = False
    interrupted: bool = False

    def take(self, message: Outgoing) -> None:
        """Record that the queue took a message."""
        del self.waiting[message]
        self.messages += 1
        self.events += message.events

    def give_up(self, message: Outgoing, why: str) -> None:
        """Record that the queue may not have taken a message."""
        del self.waiting[message]
        self.lost.append((message, why))

    @property
    def unsent(self) -> list[Outgoing]:
        """The messages that the queue may not have taken."""
        return [*(message for message, _ in self.lost), *self.waiting]

    @property
    def status(self) -> int:
        """The command's exit status."""
        if self.interrupted:
            return 130
        return int(bool(self.rejected or self.unsent or self.broken))


class Producer:
    """Packs events and sends them to the event queue.

    An event with an id of its own is sent alone and deduplicated on it. With `packed`, the others
    are packed by key and time. At most `rate` events are sent per second, ten messages per request,
    eight requests at once. `sent` is the result.
    """

    def __init__(
        self,
        sender: Sender,
        effects: Effects,
        calendar: SendCalendar,
        *,
        packed: bool = True,
        rate: float | None = None,
    ) -> None:
        self.sent = Sent()
        self._sender = sender
        self._effects = effects
        self._calendar = calendar
        self._packed = packed
        self._rate = rate
        self._began = effects.now()
        self._turn = Lock()
        self._singles: list[Outgoing] = []
        self._loose: list[Event] = []

    def add(self, event: Event, origin: str) -> None:
        """Add an event for the next `flush`; one without id and time happened now. `origin` names
        it in messages to people.
        """
        self._calendar.note(event)
        if event.id is None and event.ts is None:
            event = replace(event, ts=self._effects.now())
        if event.id is None and self._packed:
            self._loose.append(event)
            return
        if event.id is None:
            event = replace(event, id=self._new_id())
        # An event without a time belongs to the window in which it is sent. Sent again later, it
        # might be counted in another window.
        dated = event.ts is not None or uuid7_time(event.id or "") is not None
        self._singles.append(Outgoing(queueable(event_body(event)), 1, origin, repeatable=dated))

    def add_packet(self, body: str, packet: Packet, origin: str) -> None:
        """Add a packet that was made elsewhere, for the next `flush`."""
        self._calendar.note(packet)
        self._singles.append(Outgoing(queueable(body), len(packet.entries), origin))

    def flush(self, progressed: Callable[[], None] = lambda: None) -> None:
        """Send everything added; stop after a round of requests of which the queue took nothing.
        Calls `progressed` after each round.
        """
        messages = self._messages()
        self.sent.waiting.update(dict.fromkeys(messages))
        for round_ in self._rounds(messages):
            if self._rate:
                due = self._began + self.sent.events * 1000 / self._rate
                self._effects.sleep(max(0, due - self._effects.now()))
            before = self.sent.messages
            self._send_round(round_)
            progressed()
            if self.sent.messages == before:
                self.sent.stopped = True
                return

    def interrupt(self) -> None:
        """Count everything added and not sent as unsent."""
        self.sent.interrupted = True
        self.sent.waiting.update(dict.fromkeys(self._messages()))

    def warning(self) -> str | None:
        """A warning about events before the pipeline's first window, once some were sent."""
        return self._calendar.warning() if self.sent.messages else None

    def _messages(self) -> list[Outgoing]:
        """The messages of everything added since the last call."""
        singles, loose = self._singles, self._loose
        self._singles, self._loose = [], []
        if loose:
            span_ms = self._calendar.span_ms
            singles += map(_packet, pack(loose, self._new_id, span_ms=span_ms))
        return singles

    def _new_id(self) -> str:
        return uuid7(self._effects.now(), self._effects.chance)

    def _rounds(self, messages: Sequence[Outgoing]) -> Iterator[list[Outgoing]]:
        """Split messages into rounds of up to 80; with a rate, of the events of about 250 ms."""
        round_: list[Outgoing] = []
        events = 0
        for message in messages:
            round_.append(message)
            events += message.events
            full = len(round_) == SENDS_AT_ONCE * QUEUE_BATCH_MAX
            if full or (self._rate and events >= self._rate / 4):
                yield round_
                round_, events = [], 0
        if round_:
            yield round_

    def _send_round(self, round_: Sequence[Outgoing]) -> None:
        again, failed = round_, dict[Outgoing, str]()
        for _ in attempts(self._effects, SEND_TRIES, BACKOFF_MS):
            jobs = [
                partial(self._send_batch, again[at : at + QUEUE_BATCH_MAX])
                for at in range(0, len(again), QUEUE_BATCH_MAX)
            ]
            failed = dict(chain.from_iterable(self._effects.together(jobs, SENDS_AT_ONCE)))
            for message, why in failed.items():
                if not message.repeatable:
                    self.sent.give_up(message, f"{why} (it may have been taken)")
            again = [message for message in failed if message.repeatable]
            if not again:
                return
        for message in again:
            self.sent.give_up(message, failed[message])

    def _send_batch(self, batch: Sequence[Outgoing]) -> list[tuple[Outgoing, str]]:
        """Send up to ten messages; count those taken at once, so that an interrupt loses none."""
        failures = self._sender.send([message.body for message in batch])
        details = {failure.index: failure.detail for failure in failures}
        with self._turn:
            for index, message in enumerate(batch):
                if index not in details:
                    self.sent.take(message)
        return [(batch[index], detail) for index, detail in details.items()]


def queueable(body: str) -> str:
    """The same JSON, with the two characters escaped that JSON allows and SQS does not.

    Source: Amazon SQS API Reference, SendMessage.
    """
    return body.replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")


def _packet(body: str) -> Outgoing:
    fields: dict[str, Any] = load_json(body)
    count = len(fields.get("events", "1"))
    return Outgoing(queueable(body), count, f"{count} packed events of key {fields['key']!r}")

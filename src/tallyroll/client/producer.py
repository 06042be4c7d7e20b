"""The messages that `tallyroll send` makes of events, and their delivery to the event queue.

Bodies and ids are made once a run, and everything that is sent has an id, so sending again what the
queue did not certainly take counts nothing twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any

from tallyroll.client.packing import pack
from tallyroll.client.spans import SendCalendar
from tallyroll.errors import Reason
from tallyroll.limits import QUEUE_BATCH_MAX
from tallyroll.model.events import Event, Packet, event_body
from tallyroll.model.ids import uuid7, uuid7_time
from tallyroll.model.json_texts import load_json
from tallyroll.ports.effects import Effects, backoff_ms
from tallyroll.ports.queue import Sender

SENDS_AT_ONCE = 8
SEND_TRIES = 4  # on top of the producer's own tries of throttled requests
BACKOFF_MS = 200


@dataclass(frozen=True, slots=True, eq=False)
class Outgoing:
    """One message: its body, how many events it carries, where they came from, and whether it may
    be sent again when no answer came.
    """

    body: str
    events: int
    origin: str
    repeatable: bool = True


@dataclass(slots=True)
class Sent:
    """What became of a run's lines and messages; `waiting` are neither taken nor given up, and
    `read_to` is the number of the last line that was read.
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
        """Note that the queue took a message."""
        del self.waiting[message]
        self.messages += 1
        self.events += message.events

    def give_up(self, message: Outgoing, why: str) -> None:
        """Note that the queue did not certainly take a message."""
        del self.waiting[message]
        self.lost.append((message, why))

    @property
    def unsent(self) -> list[Outgoing]:
        """The messages that the queue did not certainly take."""
        return [*(message for message, _ in self.lost), *self.waiting]

    @property
    def status(self) -> int:
        """The command's exit status."""
        if self.interrupted:
            return 130
        return int(bool(self.rejected or self.unsent or self.broken))


class Envelopes:
    """Makes messages of a chunk of events: those with own ids singly, the others packed."""

    def __init__(self, effects: Effects, calendar: SendCalendar, *, packed: bool) -> None:
        self._effects = effects
        self._calendar = calendar
        self._packed = packed
        self._singles: list[Outgoing] = []
        self._loose: list[Event] = []

    def add(self, event: Event, origin: str) -> None:
        """Take in an event; one that has neither an id nor a time happened now."""
        self._calendar.note(event)
        if event.id is None and event.ts is None:
            event = replace(event, ts=self._effects.now())
        if event.id is None and self._packed:
            self._loose.append(event)
            return
        if event.id is None:
            event = replace(event, id=self._new_id())
        # Without a time the window follows from when it is sent: again may be an hour too late.
        dated = event.ts is not None or uuid7_time(event.id or "") is not None
        self._singles.append(Outgoing(queueable(event_body(event)), 1, origin, repeatable=dated))

    def add_packet(self, body: str, packet: Packet, origin: str) -> None:
        """Take in a packet that somebody else made."""
        self._calendar.note(packet)
        self._singles.append(Outgoing(queueable(body), len(packet.entries), origin))

    def messages(self) -> list[Outgoing]:
        """The messages of everything taken in since the last call."""
        singles, loose = self._singles, self._loose
        self._singles, self._loose = [], []
        if loose:
            span_ms = self._calendar.span_ms
            singles += map(_packet, pack(loose, self._new_id, span_ms=span_ms))
        return singles

    def _new_id(self) -> str:
        return uuid7(self._effects.now(), self._effects.chance)


def queueable(body: str) -> str:
    """The same JSON without the two characters that a message may not hold and JSON may.

    Source: Amazon SQS API Reference, SendMessage.
    """
    return body.replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")


def _packet(body: str) -> Outgoing:
    fields: dict[str, Any] = load_json(body)
    count = len(fields.get("events", "1"))
    return Outgoing(queueable(body), count, f"{count} packed events of key {fields['key']!r}")


class Delivery:
    """Sends messages, ten a request and eight requests side by side, at most `rate` events a
    second.
    """

    def __init__(self, sender: Sender, effects: Effects, sent: Sent, rate: float | None) -> None:
        self._sender = sender
        self._effects = effects
        self._sent = sent
        self._rate = rate
        self._began = effects.now()
        self._turn = Lock()

    def send(self, messages: Sequence[Outgoing], told: Callable[[], None]) -> None:
        """Send all; stop where a whole round stays refused, since the next would be too."""
        self._sent.waiting.update(dict.fromkeys(messages))
        for round_ in self._rounds(messages):
            if self._rate:
                due = self._began + self._sent.events * 1000 / self._rate
                self._effects.sleep(max(0, due - self._effects.now()))
            before = self._sent.messages
            self._send_round(round_)
            told()
            if self._sent.messages == before:
                self._sent.stopped = True
                return

    def _rounds(self, messages: Sequence[Outgoing]) -> Iterator[list[Outgoing]]:
        """Up to 80 messages each; with a rate, about a quarter of a second's events."""
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
        for attempt in range(SEND_TRIES):
            if attempt:
                self._effects.sleep(backoff_ms(attempt, self._effects.chance, BACKOFF_MS))
            jobs = [
                partial(self._send_batch, again[at : at + QUEUE_BATCH_MAX])
                for at in range(0, len(again), QUEUE_BATCH_MAX)
            ]
            failed = {
                message: why
                for failures in self._effects.together(jobs, SENDS_AT_ONCE)
                for message, why in failures
            }
            for message, why in failed.items():
                if not message.repeatable:
                    self._sent.give_up(message, f"{why} (it may have been taken)")
            again = [message for message in failed if message.repeatable]
            if not again:
                return
        for message in again:
            self._sent.give_up(message, failed[message])

    def _send_batch(self, batch: Sequence[Outgoing]) -> list[tuple[Outgoing, str]]:
        """Send ten; what was taken is noted at once, so that an interrupted run knows of it."""
        failures = self._sender.send([message.body for message in batch])
        details = {failure.index: failure.detail for failure in failures}
        with self._turn:
            for index, message in enumerate(batch):
                if index not in details:
                    self._sent.take(message)
        return [(batch[index], detail) for index, detail in details.items()]


class Producer:
    """Packs events and sends them to the event queue.

    An event with an id of its own travels alone and is deduplicated on it; the others are packed by
    key and time, if `packed`. At most `rate` events are sent a second. `sent` says what the queue
    took.
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
        self._calendar = calendar
        self._envelopes = Envelopes(effects, calendar, packed=packed)
        self._delivery = Delivery(sender, effects, self.sent, rate)

    def add(self, event: Event, origin: str) -> None:
        """Take in an event, for the next `flush`; `origin` names it in messages for people."""
        self._envelopes.add(event, origin)

    def add_packet(self, body: str, packet: Packet, origin: str) -> None:
        """Take in a packet that was made elsewhere, for the next `flush`."""
        self._envelopes.add_packet(body, packet, origin)

    def flush(self, told: Callable[[], None] = lambda: None) -> None:
        """Send what was taken in; call `told` after each round of requests."""
        self._delivery.send(self._envelopes.messages(), told)

    def interrupt(self) -> None:
        """Count what was taken in and not sent as unsent."""
        self.sent.interrupted = True
        self.sent.waiting.update(dict.fromkeys(self._envelopes.messages()))

    def warning(self) -> str | None:
        """What to say of events before the pipeline's first window, once some were sent."""
        return self._calendar.warning() if self.sent.messages else None

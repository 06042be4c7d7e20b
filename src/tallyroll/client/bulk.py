"""Makes messages of events and delivers them to the event queue.

Bodies and ids are made once, and everything that is sent has an id. So sending a message again,
after the queue may have taken it, counts nothing twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from hashlib import blake2b
from itertools import chain
from threading import Lock

from tallyroll.client.interleaving import interleaved
from tallyroll.client.packing import Packed, Packer, PacketLimits, queueable
from tallyroll.client.savings import Savings
from tallyroll.client.send_calendar import SendCalendar
from tallyroll.limits import QUEUE_BATCH_MAX
from tallyroll.model.events import Envelope, Event, Packet, message_body
from tallyroll.model.ids import uuid7, uuid7_time
from tallyroll.model.records import event_time
from tallyroll.model.windows import WindowId
from tallyroll.ports.backoff import BULK_REQUEST
from tallyroll.ports.effects import Effects
from tallyroll.ports.queue import Sender, SendFailure
from tallyroll.reasons import Reason

SENDS_AT_ONCE = 8


@dataclass(frozen=True, slots=True, eq=False)
class BulkMessage:
    """One message: its body, its number of events, their origin (for messages to people), whether
    it may be sent again if no reply came, and the events' key.
    """

    body: str
    events: int
    origin: str
    repeatable: bool = True
    key: str = ""


@dataclass(slots=True)
class Sent:
    """The result of a run so far.

    `waiting` messages are neither taken nor given up; `read_to` is the last line read. `refused`
    events, in so many `refused_messages`, were not sent because no window takes them. `undated`
    events had neither an id nor a time. `savings` are those of packing. `taken` has the messages
    that the queue took, with the time (ms) after it did, if they are to be kept.
    """

    lines: int = 0
    read_to: int = 0
    events: int = 0
    messages: int = 0
    rejected: Counter[Reason] = field(default_factory=Counter)
    refused: int = 0
    refused_messages: int = 0
    undated: int = 0
    savings: Savings = field(default_factory=Savings)
    taken: list[tuple[BulkMessage, int]] | None = None
    waiting: dict[BulkMessage, None] = field(default_factory=dict)
    lost: list[tuple[BulkMessage, str]] = field(default_factory=list)
    broken: bool = False
    stopped: bool = False
    interrupted: bool = False

    def take(self, message: BulkMessage, now: int) -> None:
        """Record that the queue took a message, before `now` (ms)."""
        del self.waiting[message]
        self.messages += 1
        self.events += message.events
        if self.taken is not None:
            self.taken.append((message, now))

    def give_up(self, message: BulkMessage, why: str) -> None:
        """Record that the queue may not have taken a message."""
        del self.waiting[message]
        self.lost.append((message, why))

    @property
    def unsent(self) -> list[BulkMessage]:
        """The messages that the queue may not have taken."""
        return [*(message for message, _ in self.lost), *self.waiting]

    @property
    def status(self) -> int:
        """The command's exit status."""
        if self.interrupted:
            return 130
        return int(bool(self.rejected or self.refused or self.unsent or self.broken))


class Nowhere:
    """A sender that takes everything and sends nothing, for what only counts what it would send."""

    def send(self, bodies: Iterable[str]) -> list[SendFailure]:  # noqa: ARG002
        """Take the bodies."""
        return []


class BulkSender:
    """Packs events and sends them to the event queue.

    An event with an id of its own is sent alone and deduplicated on it. With `packed`, the others
    are packed by key and time, and packets compressed where that saves requests, if asked to
    `compress`. At most `rate` events are sent per second, ten messages per request,
    eight requests at once. `sent` is the result.

    With a `name`, such as the digest of a file, sending can be repeated: the same events, added
    under the same origins, make the same messages, whenever and in whatever portions they are
    added. So a second run counts nothing twice. This holds for events with an id or a time. Between
    two sources, `rename` gives the next name.

    An event that no window takes is not sent, unless `anyway`; `refused` is called with its
    message.
    """

    def __init__(
        self,
        sender: Sender,
        effects: Effects,
        calendar: SendCalendar,
        *,
        packed: bool = True,
        compress: bool = False,
        rate: float | None = None,
        name: str | None = None,
        anyway: bool = False,
        refused: Callable[[BulkMessage], object] = lambda _: None,
    ) -> None:
        with_ids = calendar.settings.remembers_ids
        self.sent = Sent(savings=Savings.estimated(with_ids=with_ids))
        self.named = False  # whether an id was made from `name`
        self._sender = sender
        self._effects = effects
        self._calendar = calendar
        self._packed = packed
        self._rate = rate
        self._name = name
        self._anyway = anyway
        self._refused = refused
        self._began = effects.now()
        self._turn = Lock()
        self._ready: list[BulkMessage] = []
        self._loose = Packer(self._new_id, calendar.start_of, compress=compress)
        self._compress = compress
        self.limit_packets(PacketLimits())

    def limit_packets(self, limits: PacketLimits) -> None:
        """Pack events with names by these limits from now on. Their ids follow from them."""
        self._limits = limits
        vars(self).pop("_prefix", None)
        # Always by the same span.
        self._named, self._apart = (
            Packer(self._new_id, self._named_start, limits, compress=self._compress)
            for _ in range(2)
        )

    def rename(self, name: str) -> None:
        """Name the events that are added from now on. Raises ValueError between `add` and the
        `flush` of its packets: a packet has one name.
        """
        if self.packing:
            raise ValueError("events with another name wait in packets: flush them first")
        self._name = name
        vars(self).pop("_prefix", None)

    @property
    def span_ms(self) -> int:
        """The span of packets with names (ms). Their ids follow from it."""
        return self._calendar.span_ms

    @property
    def packing(self) -> bool:
        """Whether packets with names wait for more events."""
        return self._named.waiting + self._apart.waiting > 0

    @cached_property
    def _prefix(self) -> str:
        """The beginning of the ids made from `name`: another one for each way to cut packets."""
        way = f"{self._calendar.span_ms} {self._limits.way}" if self._packed else "single"
        return blake2b(f"{self._name} {way}".encode(), digest_size=10).hexdigest()

    def _named_start(self, ts: int) -> int:
        return ts // self._calendar.span_ms * self._calendar.span_ms

    def add(self, event: Event, origin: str, *, apart: bool = False) -> None:
        """Add an event for the next `flush`; one without id and time happened now. `origin` names
        it in messages to people and, with a `name`, in ids. What is added `apart` changes no packet
        of the others.
        """
        if event.id is not None:
            self._add_single(event, origin)
            return
        record_id = None
        if event.ts is None:
            event = replace(event, ts=self._effects.now())
            self.sent.undated += 1
        elif self._name is not None:
            self.named = True
            record_id = f"{self._prefix}-{origin.replace(' ', '-')}"
        if self._packed:
            packer = self._loose
            if record_id:
                packer = self._apart if apart else self._named
            self._add_packed(packer.add(event, record_id))
            window = self._calendar.window_start(event.ts or 0)
            self.sent.savings.alone.add(window, event.key, len(event.payload or ""))
        else:
            self._add_single(replace(event, id=record_id or self._new_id()), origin)

    def _add_single(self, event: Event, origin: str) -> None:
        # An event without a time belongs to the window in which it is sent. Sent again later, it
        # might be counted in another window.
        dated = event.ts is not None or uuid7_time(event.id or "") is not None
        message = BulkMessage(queueable(message_body(event)), 1, origin, dated, event.key)
        self._offer(message, self._time_of(event) if dated else None)

    def add_packet(self, body: str, packet: Packet, origin: str) -> None:
        """Add a packet that was made elsewhere, for the next `flush`."""
        message = BulkMessage(queueable(body), len(packet.entries), origin, key=packet.key)
        self._offer(message, self._time_of(packet))

    def _add_packed(self, packets: Iterable[Packed]) -> None:
        for packet in packets:
            origin = f"{packet.events} packed events of key {packet.key!r}"
            message = BulkMessage(queueable(packet.body), packet.events, origin, key=packet.key)
            if self._offer(message, packet.ts):
                window = self._calendar.window_start(packet.ts)
                self.sent.savings.add_packet(window, packet.key, packet.body, packet.events)

    def _time_of(self, envelope: Envelope) -> int:
        return event_time(envelope, self._began)

    def _offer(self, message: BulkMessage, happened: int | None) -> bool:
        """Have a message sent, unless no window takes what `happened` then (ms)."""
        taken = happened is None or self._calendar.check(happened, message.events)
        if taken or self._anyway:
            self._ready.append(message)
            return True
        self.sent.refused += message.events
        self.sent.refused_messages += 1
        self._refused(message)
        return False

    def flush(self, progressed: Callable[[], None] = lambda: None, *, end: bool = True) -> None:
        """Send everything added, its keys in turn; stop after a round of requests of which the
        queue took nothing. Calls `progressed` after each round.

        Unless this is the `end`, packets with names wait until they are complete.
        """
        self._add_packed(self._loose.rest())
        if end:
            self._add_packed(self._named.rest())
            self._add_packed(self._apart.rest())
        ready, self._ready = self._ready, []
        messages = list(interleaved(ready, lambda message: message.key, len(ready) or 1))
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
        """Count everything added and not sent as unsent, but for packets with names that are not
        complete: when all is added again, they must be made again, with all their events.
        """
        self.sent.interrupted = True
        self._add_packed(self._loose.rest())
        self.sent.waiting.update(dict.fromkeys(self._ready))
        self._ready = []

    def expect_windows(self, ids: Container[WindowId]) -> None:
        """Judge events as if these past windows were open."""
        self._calendar.expected = ids

    def warnings(self, *, load: bool = False) -> list[str]:
        """What to tell of events that no window takes, to who loads or sends."""
        return self._calendar.warnings(sent=self._anyway, load=load)

    def _new_id(self) -> str:
        return uuid7(self._effects.now(), self._effects.chance)

    def _rounds(self, messages: Sequence[BulkMessage]) -> Iterator[list[BulkMessage]]:
        """Split messages into rounds of up to 80; with a rate, of the events of about 250 ms."""
        round_: list[BulkMessage] = []
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

    def _send_round(self, round_: Sequence[BulkMessage]) -> None:
        again, failed = round_, dict[BulkMessage, str]()
        for _ in BULK_REQUEST.attempts(self._effects):
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

    def _send_batch(self, batch: Sequence[BulkMessage]) -> list[tuple[BulkMessage, str]]:
        """Send up to ten messages; count those taken at once, so that an interrupt loses none."""
        failures = self._sender.send([message.body for message in batch])
        details = {failure.index: failure.detail for failure in failures}
        now = self._effects.now()
        with self._turn:
            for index, message in enumerate(batch):
                if index not in details:
                    self.sent.take(message, now)
        return [(batch[index], detail) for index, detail in details.items()]

"""A producer's messages, from the first event to the delivery: which are packed, which are sent
now, which are sent again, and which are given up.

It has no threads and no clock, and does no I/O but the spool's: the producer asks it under a lock.
Times (`tick`) are in ms on a monotonic clock.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from heapq import heappop, heappush

from tallyroll.client.interleaving import Turns
from tallyroll.client.packing import fits, packet_body, sent_body
from tallyroll.client.receipts import Outgoing, Receipt
from tallyroll.client.rules import ProducerRules, group_of
from tallyroll.client.spool import Spool
from tallyroll.client.stats import Counts
from tallyroll.errors import NotSent
from tallyroll.limits import QUEUE_BATCH_MAX, QUEUE_MESSAGE_BYTES_MAX
from tallyroll.model.sharding import Chance
from tallyroll.ports.backoff import PRODUCER_REQUEST
from tallyroll.ports.queue import Post, PostError

ENTRY_BYTES = 70  # of an entry in memory, beside its text
MESSAGE_BYTES = 1_200  # of a message, beside its key, entries and body


class Outbox:
    """The messages that are not settled. `unsettled` has them by number."""

    def __init__(
        self,
        rules: ProducerRules,
        new_id: Callable[[], str],
        chance: Chance,
        spool: Spool | None,
        tick: float,
    ) -> None:
        self.counts = Counts()
        self.unsettled: OrderedDict[int, Outgoing] = OrderedDict()
        self.held = 0
        self.rush = 0  # how many wait until nothing is left: then no message waits for others
        self._rules = rules
        self._new_id = new_id
        self._chance = chance
        self._spool = spool
        self._number = 0
        self._open: OrderedDict[tuple[str, int], Outgoing] = OrderedDict()  # by age
        self._ready = Turns[Outgoing]()
        self._order: deque[Outgoing] = (
            deque()
        )  # the ready ones by age; those that are not are passed
        self._ready_numbers: set[int] = set()
        self._ready_bytes = 0
        self._resting: list[tuple[float, int, Outgoing]] = []
        self._resume_at = 0.0
        self._troubles = 0
        self._unreported: set[int] = set()
        self.given_up = self._recover(spool, tick) if spool else []

    def _recover(self, spool: Spool, tick: float) -> list[Outgoing]:
        """Take over the messages of an earlier process; return those that it gave up and did not
        report for certain.
        """
        found = spool.recover()
        self._number = found.next_number
        self.counts.damaged = len(found.damaged)
        for message in found.messages:
            message.created = tick
            self.counts.recovered += message.events
            self._begin(message)
            self._finish(message)
        for message, why in found.given_up:
            self.counts.recovered += message.events
            self.counts.failed += message.events
            self._unreported.add(message.number)
            message.settle(NotSent(why, events=message.events, unknown=True))
        return [message for message, _ in found.given_up]

    # --- events in

    def pack(self, key: str, t0: int, entry: str, tick: float) -> Receipt:
        """Add an event to its packet. Raises OSError if the spool does not take it."""
        place = key, t0
        size = (len(entry) if entry.isascii() else len(entry.encode())) + 1
        packet = self._open.get(place)
        if packet is None or not fits(
            packet, size, self._rules.packet_bytes, compress=self._rules.compressed
        ):
            fresh = Outgoing(self._number, self._new_id(), key, tick, t0)
            if self._spool:
                self._spool.open(fresh, entry)
            if packet:
                self._close(place)
            packet = self._open[place] = fresh
            self._number += 1
            self._begin(packet)
        elif self._spool:
            self._spool.add(packet, entry)
        index = packet.events
        packet.entries.append(entry)
        packet.events = index + 1
        packet.size += size
        packet.held += ENTRY_BYTES + size
        self.held += ENTRY_BYTES + size
        self.counts.accepted += 1
        if packet.events >= self._rules.packet_events:
            self._close(place)
        return Receipt(packet, index)

    def add(self, record_id: str, key: str, body: str, tick: float) -> Receipt:
        """Add an event that travels alone. Raises OSError if the spool does not take it."""
        message = Outgoing(self._number, record_id, key, tick, body=body, events=1)
        if self._spool:
            self._spool.single(message)
        self._number += 1
        self._begin(message)
        self.counts.accepted += 1
        self._finish(message)
        return Receipt(message, 0)

    def _begin(self, message: Outgoing) -> None:
        self.unsettled[message.number] = message
        message.held = MESSAGE_BYTES + len(message.key)
        self.held += message.held

    def _close(self, place: tuple[str, int]) -> None:
        self._finish(self._open.pop(place))

    def _finish(self, message: Outgoing) -> None:
        """Let a message be sent: it is complete."""
        if not message.body:
            assert message.t0 is not None
            body = packet_body(message.id, message.key, message.t0, message.entries)
            message.body = sent_body(message, body, compress=self._rules.compressed)
            message.entries, message.compressor = [], None
        message.size = len(message.body.encode())
        self.held -= message.held
        message.held = MESSAGE_BYTES + len(message.key) + message.size
        self.held += message.held
        self._make_ready(message)

    def close_packets(self) -> None:
        """Let the open packets take no more events."""
        for place in list(self._open):
            self._close(place)

    # --- messages out

    @property
    def newest(self) -> int:
        """The number of the newest message; -1 before the first."""
        return self._number - 1

    def has_up_to(self, number: int) -> bool:
        """Whether a message up to this one is not settled."""
        return next(iter(self.unsettled), number + 1) <= number

    @property
    def full(self) -> bool:
        """Whether a whole request is ready."""
        return len(self._ready) >= QUEUE_BATCH_MAX or self._ready_bytes >= QUEUE_MESSAGE_BYTES_MAX

    @property
    def pending(self) -> int:
        """The number of messages that no request holds."""
        return len(self._ready) + len(self._open) + len(self._resting)

    def due_at(self) -> float | None:
        """When there may be something to send; None if nothing is held."""
        due = [self._resting[0][0]] if self._resting else []
        oldest = self._oldest_ready()
        if oldest:
            now = self.rush or self.full or oldest.tries or oldest.recovered
            due.append(0.0 if now else oldest.created + self._rules.linger_ms)
        if self._open:
            first = next(iter(self._open.values()))
            due.append(first.created + self._rules.linger_ms)
        return max(min(due), self._resume_at) if due else None

    def take(self, tick: float, *, pressed: bool = False) -> list[Outgoing]:
        """The messages of the next request, their bodies made; none if nothing is due.

        `pressed`: someone waits for room, so packets are closed before their time.
        """
        if tick < self._resume_at:
            return []
        while self._resting and self._resting[0][0] <= tick:
            self._make_ready(heappop(self._resting)[2], again=True)
        while self._open:
            place, packet = next(iter(self._open.items()))
            aged = packet.created + self._rules.linger_ms <= tick
            if not aged and (self.full or not pressed):
                break
            self._close(place)
        oldest = self._oldest_ready()
        if not oldest:
            return []
        waits = oldest.created + self._rules.linger_ms > tick
        if waits and not (pressed or self.rush or self.full or oldest.tries or oldest.recovered):
            return []
        return self._batch(tick)

    def _batch(self, tick: float) -> list[Outgoing]:
        batch: list[Outgoing] = []
        size = 0
        while self._ready and len(batch) < QUEUE_BATCH_MAX:
            message = self._ready.peek()
            if batch and size + message.size > QUEUE_MESSAGE_BYTES_MAX:
                break
            self._ready_numbers.discard(self._ready.take().number)
            self._ready_bytes -= message.size
            message.tries += 1
            message.began, message.flying = tick, True
            size += message.size
            batch.append(message)
        self.counts.requests += 1
        self.counts.retries += sum(message.tries > 1 for message in batch)
        return batch

    def posts(self, batch: Iterable[Outgoing]) -> list[Post]:
        """What the queue is to take."""
        if not self._rules.grouped:
            return [Post(message.body) for message in batch]
        return [Post(message.body, group_of(message.key)) for message in batch]

    def _make_ready(self, message: Outgoing, *, again: bool = False) -> None:
        self._ready.put(message.key, message)
        self._ready_numbers.add(message.number)
        self._ready_bytes += message.size
        if again:
            self._order.appendleft(message)
        else:
            self._order.append(message)

    def _oldest_ready(self) -> Outgoing | None:
        while self._order and self._order[0].number not in self._ready_numbers:
            self._order.popleft()
        return self._order[0] if self._order else None

    # --- outcomes

    def answered(
        self, batch: Sequence[Outgoing], errors: Sequence[PostError | None], tick: float
    ) -> list[Outgoing]:
        """Take the answer to a request; return the messages that are settled by it."""
        self._troubles, self._resume_at = 0, 0.0
        settled: list[tuple[Outgoing, NotSent | None]] = []
        for message, error in zip(batch, errors, strict=True):
            message.flying = False
            if message.number not in self.unsettled:
                continue
            if error is None:
                settled.append((message, None))
                continue
            message.unknown |= error.unknown
            self.counts.unknown += error.unknown
            if error.final:
                settled.append((message, self._not_sent(message, error.detail)))
            elif self._expired(message):
                settled.append((message, self._given_up(message, error.detail)))
            else:
                pause = PRODUCER_REQUEST.wait_ms(message.tries - 1, self._chance)
                heappush(self._resting, (tick + pause, message.number, message))
        return self._settle(settled)

    def failed(
        self, batch: Sequence[Outgoing], detail: str, tick: float, *, unknown: bool, final: bool
    ) -> list[Outgoing]:
        """Take the failure of a whole request; return the messages that are settled by it.

        `final`: the queue refuses the request, however often it is sent. With a spool its messages
        stay there: what is wrong is the queue, its address or a permission, and not they.
        """
        self.counts.unknown += unknown
        self.counts.throttled += not unknown and not final
        if not final:
            pause = PRODUCER_REQUEST.wait_ms(self._troubles, self._chance)
            self._troubles += 1
            self._resume_at = max(self._resume_at, tick + pause)
        settled: list[tuple[Outgoing, NotSent | None]] = []
        for message in batch:
            message.flying = False
            if message.number not in self.unsettled:
                continue
            message.unknown |= unknown
            if final:
                kept = self._spool is not None
                settled.append((message, self._not_sent(message, detail, kept=kept)))
            elif self._expired(message):
                settled.append((message, self._given_up(message, detail)))
            else:
                self._make_ready(message, again=True)
        return self._settle(settled)

    def abandon(self) -> list[Outgoing]:
        """Settle everything that is left: a spool keeps it, else it is not sent."""
        self._open.clear()
        kept = self._spool is not None
        left = list(self.unsettled.values())
        for message in left:
            message.unknown |= message.flying
        return self._settle(
            [
                (message, self._not_sent(message, "the producer was closed", kept=kept))
                for message in left
            ]
        )

    def _expired(self, message: Outgoing) -> bool:
        """Whether the last try began when it was time to give up: a frozen process tries again."""
        limit = self._rules.give_up_ms
        return limit is not None and message.began >= message.created + limit

    def _given_up(self, message: Outgoing, detail: str) -> NotSent:
        return self._not_sent(message, f"given up after {message.tries} tries: {detail}")

    def _not_sent(self, message: Outgoing, detail: str, *, kept: bool = False) -> NotSent:
        what = f"{message.events} events" if message.events > 1 else f"event {message.id!r}"
        fate = ""
        if kept:
            fate = "; the spool keeps it, and the next start sends it"
        elif message.unknown:
            fate = "; an earlier try may have been taken"
        text = f"{what} of key {message.key!r}: {detail}{fate}"
        return NotSent(text, events=message.events, unknown=message.unknown, kept=kept)

    def _settle(self, settled: Sequence[tuple[Outgoing, NotSent | None]]) -> list[Outgoing]:
        """Note outcomes in the spool first: what is reported as not sent is never sent later."""
        if self._spool and settled:
            try:
                self._note(self._spool, settled)
            except OSError as problem:  # the next start sends them again, and none counts twice
                settled = [
                    (message, error and self._not_sent(message, str(problem), kept=True))
                    for message, error in settled
                ]
        for message, error in settled:
            del self.unsettled[message.number]
            self.held -= message.held
            if error is None:
                self.counts.messages += 1
                self.counts.confirmed += message.events
            elif error.kept:
                self.counts.kept += message.events
            else:
                self.counts.failed += message.events
            message.settle(error)
        self._compact()
        return [message for message, _ in settled]

    def _note(self, spool: Spool, settled: Sequence[tuple[Outgoing, NotSent | None]]) -> None:
        failed = [(message, str(error)) for message, error in settled if error and not error.kept]
        confirmed = [message.number for message, error in settled if error is None]
        if failed or confirmed:
            spool.settle(confirmed, failed)
            self._unreported.update(message.number for message, _ in failed)

    def reported(self, messages: Iterable[Outgoing]) -> None:
        """Note that the outcomes of messages were told: the spool need not have them any more."""
        numbers = [each.number for each in messages if each.number in self._unreported]
        if self._spool and numbers:
            with suppress(OSError):  # then the next start tells them again
                self._spool.settle(numbers)
                self._unreported.difference_update(numbers)

    def _compact(self) -> None:
        """Shorten the spool, unless it has messages that this process does not hold any more."""
        if self._spool and not self.counts.kept and not self._unreported:
            with suppress(OSError):  # then it stays long
                self._spool.compact(self.unsettled.values(), self.held)

    def close(self) -> None:
        """Close the spool, and empty it if the next start has nothing to send or tell. Call it when
        everything is settled.
        """
        assert not self.unsettled
        if self._spool:
            with suppress(OSError):
                if not (self.counts.kept or self._unreported):
                    self._spool.rewrite(())
            self._spool.close()

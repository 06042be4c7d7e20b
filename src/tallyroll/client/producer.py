"""The producer that services hold: takes events at any time, sends them from threads of its own.

What it holds, packs and repeats is the outbox's. This module adds the lock, the threads, the
waiting, and the calls to the user's code.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from threading import Condition, Lock, Thread, current_thread
from typing import Any
from weakref import WeakSet

from tallyroll.client.intake import Intake, Uploads
from tallyroll.client.outbox import Outbox
from tallyroll.client.receipts import (
    Delivery,
    Losses,
    Outgoing,
    Receipt,
    call_safely,
    ends_the_program,
)
from tallyroll.client.rules import Limits, ProducerRules
from tallyroll.client.spool import Spool
from tallyroll.client.stats import Stats
from tallyroll.errors import BufferFull, Missing, NotSent, Refused, StoreError, Unknown, UsageError
from tallyroll.model.events import Event
from tallyroll.model.ids import uuid7
from tallyroll.model.retractions import Retraction
from tallyroll.ports.effects import Effects
from tallyroll.ports.queue import Poster, PostError

_log = logging.getLogger(__name__)

JOIN_S = 1.0  # for a thread whose request has ended


class PortProducer:
    """A producer on ports; `tallyroll.Producer` is the one on AWS."""

    def __init__(
        self,
        poster: Poster,
        effects: Effects,
        rules: ProducerRules,
        limits: Limits,
        *,
        spool: Spool | None = None,
        on_delivery: Callable[[Delivery], object] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        uploads: Uploads | None = None,
    ) -> None:
        self._poster = poster
        self._effects = effects
        self._rules = rules
        self._limits = limits
        self._on_delivery = on_delivery
        self._monotonic = monotonic
        self._spooled = spool is not None
        self._uploads = uploads
        try:
            self._begin(spool)
        except BaseException:
            if spool:
                with suppress(OSError):
                    spool.close()  # so that the next try can open it
            raise
        _alive.add(self)

    def _begin(self, spool: Spool | None) -> None:
        self._lock = Lock()
        self._wake = Condition(self._lock)  # for workers
        self._settled = Condition(self._lock)  # for those that wait for room or for outcomes
        self._threads: list[Thread] = []
        self._closed = ""
        self._stopping = False
        self._blocked = 0
        self._calling = 0
        self._losses = Losses()  # since the last flush
        self._outbox = Outbox(self._rules, self._new_id, self._effects.chance, spool, self._tick())
        self._intake = Intake(self._outbox, self._rules, self._new_id)
        if self._outbox.counts.damaged:
            _log.error("%d lines of the spool are damaged", self._outbox.counts.damaged)
        self._losses.note(self._outbox.given_up)
        self._call_back(self._outbox.given_up)
        self._outbox.reported(self._outbox.given_up)
        if self._outbox.pending:  # from the spool
            self._start()

    def after_fork(self) -> None:
        """In a child, begin anew: what is held is the parent's, and so are its threads and file."""
        self._begin(None)
        if self._spooled:
            self._closed = (
                "was made before a fork, and its spool is the parent's: make one after it"
            )

    # --- events in

    def send(
        self,
        key: str,
        value: Any = 1,
        payload: Any = None,
        id: str | None = None,  # noqa: A002  (the field's name)
        ts: int | None = None,
    ) -> Receipt:
        """Take an event, and return the future of its delivery.

        An event with an `id` travels alone and is deduplicated on it: give it its `ts` (ms since
        the epoch), too, if you may send it again yourself. Events without ids are packed by key.
        Without `ts`, the event happened now. Once `send` returns, the event is sent until the queue
        has it. A try whose outcome is unknown is repeated under the same id, so it never counts
        twice.

        A payload that is too large for a message is uploaded first, if the producer has a bucket.

        Raises Rejected for what can never count, BufferFull, UsageError if the producer is closed,
        OSError if the spool does not take the event, and StoreError if its payload could not be
        uploaded.
        """
        event = Event.of(key, value=value, payload=payload, id=id, ts=ts)
        return self._send(event, blocks=self._limits.blocks)

    def retract(
        self,
        key: str,
        id: str,  # noqa: A002  (the field's name)
        *,
        ts: int | None = None,
        window: str | None = None,
        index: int | None = None,
        keys: Sequence[str] = (),
        by: str = "",
        why: str = "",
    ) -> Receipt:
        """Take an event back: its `key` and `id`, and its time `ts` (ms since the epoch) or its
        window. However often it is sent, it takes effect once; the id stays taken.

        `index` is that of an event in the packet `id`; `keys` are all keys of an event of several.
        Who (`by`) and `why` are stored. Raises as `send` does.
        """
        given = {"ts": ts, "window": window, "index": index, "by": by, "why": why}
        retraction = Retraction.of(key, id, keys, **given)
        return self._send(retraction, blocks=self._limits.blocks)

    def _send(self, event: Event | Retraction, *, blocks: bool) -> Receipt:
        outbox = self._outbox
        if self._uploads and isinstance(event, Event):
            event = self._uploads.referred(event)
        with self._lock:
            if self._closed:
                raise UsageError(f"the producer {self._closed}")
            if outbox.held >= self._limits.buffer_bytes:
                self._make_room(blocks=blocks)
            receipt = self._intake.add(event, self._effects.now(), self._tick())
            if not self._threads:
                self._start()
            elif outbox.pending == 1 or outbox.full:
                self._wake.notify()
        return receipt

    def _new_id(self) -> str:
        return uuid7(self._effects.now(), self._effects.chance)

    def _tick(self) -> float:
        return self._monotonic() * 1000

    def _make_room(self, *, blocks: bool) -> None:
        """Wait until there is room. Raises BufferFull, or UsageError if it was closed meanwhile."""
        outbox, most = self._outbox, self._limits.buffer_bytes
        text = f"{outbox.held} bytes are held, of {most}"
        if not blocks or current_thread() in self._threads:
            raise BufferFull(text)
        outbox.counts.blocked += 1
        self._blocked += 1
        self._wake.notify_all()
        try:
            if not self._wait_for(
                lambda: outbox.held < most or bool(self._closed), self._limits.block_ms
            ):
                raise BufferFull(f"{text}, after {self._limits.block_ms:g} ms")
        finally:
            self._blocked -= 1
        if self._closed:
            raise UsageError(f"the producer {self._closed}")

    # --- messages out

    def _start(self) -> None:
        for number in range(self._limits.workers):
            name = f"tallyroll-producer-{number}"
            thread = Thread(target=self._work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        while True:
            with self._lock:
                batch = self._await_batch()
            if not batch:
                return
            self._deliver(batch)

    def _await_batch(self) -> list[Outgoing]:
        """The next request's messages; none once the producer stops. Called under the lock."""
        outbox = self._outbox
        while not self._stopping:
            tick = self._tick()
            batch = outbox.take(tick, pressed=self._blocked > 0)
            if batch:
                if outbox.pending:
                    self._wake.notify()
                return batch
            due = outbox.due_at()
            self._wake.wait(None if due is None else max(due - tick, 1) / 1000)
        return []

    def _deliver(self, batch: Sequence[Outgoing]) -> None:
        """Send a request and take its outcome. Called without the lock."""
        errors: Sequence[PostError | None] | None = None
        problem: BaseException | None = None
        try:
            errors = self._poster.post(self._outbox.posts(batch))
        except BaseException as error:  # a user's client may raise anything
            if ends_the_program(error):
                raise
            problem = error
        with self._lock:
            tick = self._tick()
            if errors is not None:
                settled = self._outbox.answered(batch, errors, tick)
            else:
                settled = self._outbox.failed(
                    batch,
                    str(problem) if isinstance(problem, StoreError) else repr(problem),
                    tick,
                    unknown=isinstance(problem, Unknown) or not isinstance(problem, StoreError),
                    final=isinstance(problem, Missing | Refused),
                )
            self._losses.note(settled)
            self._calling += 1
        try:
            self._call_back(settled)
        finally:
            with self._lock:
                self._outbox.reported(settled)
                self._calling -= 1
                self._settled.notify_all()

    def _call_back(self, settled: Sequence[Outgoing]) -> None:
        for message in settled:
            message.call_back()
            if self._on_delivery and message.delivery:
                call_safely(self._on_delivery, message.delivery)

    # --- waiting

    def flush(self, timeout: float | None = None) -> None:
        """Return once the queue has every event that was accepted before, and the callbacks of
        their deliveries have returned.

        Raises NotSent if events were lost since the last flush. Raises TimeoutError after `timeout`
        seconds; what is left is still being sent.
        """
        if current_thread() in self._threads:
            raise UsageError("flush waits for callbacks: do not call it in one")
        outbox = self._outbox
        with self._lock:
            outbox.close_packets()
            outbox.rush += 1
            newest = outbox.newest
            self._wake.notify_all()
            try:
                self._wait_for(
                    lambda: not self._calling and not outbox.has_up_to(newest),
                    None if timeout is None else timeout * 1000,
                )
            finally:
                outbox.rush -= 1
            waiting = sum(
                each.events for each in outbox.unsettled.values() if each.number <= newest
            )
            self._losses.raise_all(waiting)
        if waiting:
            raise TimeoutError(f"not confirmed yet, and still being sent: events {waiting}")

    def _wait_for(self, met: Callable[[], bool], most_ms: float | None) -> bool:
        """Wait under the lock, at most `most_ms`, and return whether the condition is met."""
        deadline = None if most_ms is None else self._tick() + most_ms
        while not met():
            left = None if deadline is None else deadline - self._tick()
            if left is not None and left <= 0:
                return False
            if self._limits.workers:
                self._settled.wait(None if left is None else left / 1000)
            elif not self._drive(left):
                return False
        return True

    def _drive(self, left: float | None) -> bool:
        """Without threads, send the next request on this one, or sleep until there is one. Returns
        whether there was anything to wait for. Called under the lock, which it gives away.
        """
        tick = self._tick()
        batch = self._outbox.take(tick, pressed=self._blocked > 0)
        due = None if batch else self._outbox.due_at()
        if not batch and due is None:
            return False
        self._lock.release()
        try:
            if due is None:
                self._deliver(batch)
            else:
                pause = max(due - tick, 1)
                self._effects.sleep(pause if left is None else min(pause, left))
        finally:
            self._lock.acquire()
        return True

    def step(self) -> bool:
        """Without threads, send the next request if one is due; return whether one was."""
        with self._lock:
            batch = self._outbox.take(self._tick())
        if batch:
            self._deliver(batch)
        return bool(batch)

    def close(self, timeout: float | None = None) -> None:
        """Take no more events, flush, and end the threads. After `timeout` seconds, what is left is
        given up, or kept by the spool for the next start. Raises NotSent if there is such.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = "is closed"
        lost: NotSent | None = None
        try:
            self.flush(timeout)
        except TimeoutError:
            pass
        except NotSent as error:
            lost = error
        finally:  # also when Ctrl-C ends the flush
            self._end()
        if lost:
            raise lost
        self._losses.raise_all()

    def _end(self) -> None:
        """Settle what is left, and end the threads."""
        with self._lock:
            self._stopping = True
            self._wake.notify_all()
            settled = self._outbox.abandon()
            self._losses.note(settled)
            self._settled.notify_all()
        done: Sequence[Outgoing] = ()
        try:
            self._call_back(settled)
            done = settled
        finally:  # a callback may end the program
            with self._lock:
                self._outbox.reported(done)
                self._outbox.close()
            for thread in self._threads:
                thread.join(0 if settled else JOIN_S)
            _alive.discard(self)

    @property
    def stats(self) -> Stats:
        """The producer's numbers so far."""
        with self._lock:
            counts = self._outbox.counts
            return Stats(**asdict(counts), waiting=counts.waiting, held_bytes=self._outbox.held)


_alive: WeakSet[PortProducer] = WeakSet()


def _begin_anew() -> None:
    for producer in list(_alive):
        producer.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)

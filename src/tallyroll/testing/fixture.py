"""What the fixture `tallyroll` gives: a pipeline that a test posts to, drains and counts."""

from __future__ import annotations

import logging
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from unittest.mock import patch

from tallyroll.errors import Absent, Rejected, UsageError
from tallyroll.model.amounts import format_amount, shown
from tallyroll.model.formats.fields import check_key
from tallyroll.model.retractions import Retraction
from tallyroll.operations.retraction.desk import RetractionDesk
from tallyroll.pipeline import Pipeline
from tallyroll.reads.counts import Count
from tallyroll.settings import Settings
from tallyroll.settings.common import RETRACTION_OFF
from tallyroll.testing.aws import emulated_aws
from tallyroll.testing.clock import Clock, OneThread
from tallyroll.testing.course import LifecycleDriver
from tallyroll.testing.engines import pipeline_of
from tallyroll.testing.errors import TestingError
from tallyroll.testing.handlers import invoke
from tallyroll.testing.options import DEFAULTS, FixtureOptions
from tallyroll.testing.queues import event_of, letters, next_batch, queue_at

_logger = logging.getLogger(__name__)
_READ_MS = 60_000
_BODY_SHOWN = 200  # characters in a log line
_INVOCATIONS_MAX = 100_000
_GATHER_MS = 1_000  # for which Lambda gathers a batch


class _WriterDied(BaseException):
    """The sandbox of a writer ended in the middle of its work; nothing in it can catch that."""


@dataclass(frozen=True, slots=True)
class RejectedMessage:
    """A message in the dead-letter queue, with the id and body that the producer gave it.

    `reason` is one of `tallyroll.errors.Reason`, such as `too-late`, and `detail` says it for
    people; `undelivered` if SQS moved the message because it was received too often. `window` is
    the window of its time, if that is known.
    """

    id: str
    body: str
    reason: str
    detail: str
    window: str | None


class RetractedSum(NamedTuple):
    """What was retracted of a key: so many `events`, and the sum of their values."""

    events: int
    sum: Decimal


class Tallyroll:
    """A pipeline in this process. `queue_url` is where events are posted; `settings` has the names
    of everything else.
    """

    __test__ = False

    def __init__(self, ports: Pipeline, clock: Clock) -> None:
        self.settings: Settings = ports.settings
        self.queue_url: str = ports.settings.queue_url
        self._ports = ports
        self._clock = clock
        self._course = LifecycleDriver(ports, clock)
        self._writer = ports.writer
        self._deaths = 0
        self._logged = 0  # dead letters

    def __repr__(self) -> str:
        """What happened to the messages so far: pytest shows it with a failed assertion."""
        try:
            events, dead = queue_at(self.queue_url), queue_at(self.settings.dead_letters_url)
        except TestingError as error:
            return f"<tallyroll: {error}>"
        waiting = len(events.held())
        why = Counter(letter.why for letter in letters(dead))
        rejected = ", ".join(f"{number} {reason}" for reason, number in sorted(why.items()))
        return (
            f"<tallyroll: {len(events.sent)} sent, {waiting} waiting"
            f"{' for drain()' if waiting else ''}, {len(dead.sent)} rejected"
            f"{f' ({rejected})' if rejected else ''}>"
        )

    def drain(self) -> None:
        """Let the writer work until the event queue is empty.

        Messages that the writer hands back, or that a crash left behind, become visible again after
        a time: the clock moves on until then.
        """
        queue = queue_at(self.queue_url)
        for _ in range(_INVOCATIONS_MAX):
            self._course.catch_up()
            if self._work():
                continue
            ready_at = queue.next_ready_at()
            if ready_at is None:
                return
            self._clock.move_to(min(int(ready_at) + _GATHER_MS, self._course.due))
        raise TestingError(
            f"the event queue is not empty after {_INVOCATIONS_MAX:,} invocations of the writer"
        )

    def count(self, key: str) -> int:
        """How many events of a key are counted, over all time."""
        return self._counted(key).events

    def sum(self, key: str) -> Decimal:
        """The sum of the values of a key's events, over all time."""
        return Decimal(format_amount(self._counted(key).amount))

    def retract(
        self,
        key: str,
        id: str,  # noqa: A002  (the field's name)
        *,
        ts: int | None = None,
        window: str | None = None,
        index: int | None = None,
        keys: Sequence[str] = (),
        by: str = "test",
        why: str = "",
    ) -> None:
        """Take an event back, as `tallyroll retract` does: by the time `ts` (ms) at which it
        happened, or its window. Authorizes it and sends the message; `drain` carries it out.

        Raises UsageError if the settings let nobody retract, or for wrong fields, Absent for an
        event that can come no more, and Rejected for what cannot be retracted.
        """
        if self.settings.retraction == RETRACTION_OFF:
            remedy = '@pytest.mark.tallyroll(retraction="operator")'
            raise UsageError(f"retraction off: nobody may take events back: give {remedy}")
        given = {"ts": ts, "window": window, "index": index, "by": by, "why": why}
        try:
            asked = Retraction.of(key, id, keys, **given)
        except Rejected as rejected:
            raise UsageError(rejected.detail) from None
        self._course.catch_up()
        ports = self._ports
        desk = RetractionDesk(
            *(self.settings, ports.store, ports.catalog, ports.totals, lambda: ports.bucket),
            *(ports.codec, ports.effects),
        )
        found = desk.find(asked)
        if found.hopeless:
            raise Absent(f"there is no event {id!r} of key {key!r} in {found.window}")
        if not found.note:
            desk.authorize(found)
            ports.sender.send([found.retraction.body])

    def retracted(self, key: str) -> RetractedSum:
        """What was retracted of a key, over all time: it is in neither `count` nor `sum`."""
        events, amount = self._counted(key).retracted
        return RetractedSum(events, Decimal(format_amount(amount)))

    def rejected(self) -> list[RejectedMessage]:
        """The messages that were rejected so far, each once, in the order of their rejection."""
        found: dict[str, RejectedMessage] = {}
        for letter in letters(queue_at(self.settings.dead_letters_url)):
            body = letter.body
            if letter.pointer:
                stored = self._ports.bucket.get(letter.pointer.key)
                body = stored.decode("utf-8", "surrogatepass")
            message = RejectedMessage(
                letter.first_id, body, letter.why, letter.detail, letter.window
            )
            found.setdefault(message.id, message)
        return list(found.values())

    def advance(
        self,
        delta: timedelta | None = None,
        *,
        weeks: float = 0,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
    ) -> None:
        """Let time pass, for the whole process: the clock moves on, and the pipeline works as it
        does when it is deployed. Queued events are counted, windows open, close, are sealed,
        archived and dropped when that is due.

        Raises UsageError unless the time is positive.
        """
        if not isinstance(delta, timedelta | None):
            raise UsageError(f"advance by {delta!r}: give a unit, such as hours=2, or a timedelta")
        passed = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
        passed += delta or timedelta()
        if passed <= timedelta():
            raise UsageError(f"advance by {passed}: give a time over 0, such as hours=2")
        queue = queue_at(self.queue_url)
        self._course.catch_up()
        until = self._clock.now() + round(passed / timedelta(milliseconds=1))
        while True:
            while self._work():
                pass
            if self._clock.now() >= until:
                return
            ready_at = queue.next_ready_at()
            ready_at = until if ready_at is None else int(ready_at) + _GATHER_MS
            self._clock.move_to(min(ready_at, self._course.due, until))
            self._course.catch_up()

    def redeliver(self) -> None:
        """Put every message into the queue once more that was sent so far, as SQS may do; `drain`
        then delivers them. They keep their ids and their times of sending.
        """
        queue_at(self.queue_url).deliver_again()

    def crash_next_writer(self) -> None:
        """Let the next invocation of the writer die after its first transaction is committed, so
        that it acknowledges nothing. Called twice, the next two die.
        """
        self._deaths += 1

    def windows(self) -> dict[str, str]:
        """The state of each window by its id, ascending, such as `{"20261120T080000Z": "open"}`;
        empty before the pipeline was first used.
        """
        return {window.id: window.status.value for window in self._course.windows()}

    def _counted(self, key: str) -> Count:
        try:
            check_key(key)
        except Rejected as rejected:
            raise UsageError(rejected.detail) from None
        count = self._ports.reader.count(key, None, None, _READ_MS, consistent=True)
        if not count.complete:
            raise TestingError(f"{key!r} cannot be counted: windows {count.missing} are not read")
        return count

    def _work(self) -> bool:
        """Invoke the writer with what can be received now; return whether there was anything."""
        queue = queue_at(self.queue_url)
        batch = next_batch(queue)
        if not batch:
            return False
        event = event_of(batch, queue)
        if self._deaths:
            self._deaths -= 1
            self._die(event)
            return True
        answer = invoke("writer", self._writer, event)
        self._log_rejected()
        failed = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        for message in batch:
            if message.id not in failed and message.receipt_handle:
                queue.delete_message(message.receipt_handle)
        return True

    def _log_rejected(self) -> None:
        dead = queue_at(self.settings.dead_letters_url)
        for letter in letters(dead, self._logged):
            body = letter.pointer.key if letter.pointer else shown(letter.body, _BODY_SHOWN)
            _logger.warning("rejected: %s: %s: %s", letter.why, letter.detail, body)
        self._logged = len(dead.sent)

    def _die(self, event: dict[str, Any]) -> None:
        """Invoke a writer whose sandbox dies; the next one is new."""
        store = self._writer.store
        commit = store.commit

        def last_commit(*args: Any) -> Any:
            commit(*args)
            raise _WriterDied

        with (
            patch.object(store, "commit", last_commit),
            suppress(_WriterDied),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")  # Powertools misses the metrics of one that died
            invoke("writer", self._writer, event)
        del self._ports.writer
        self._writer = self._ports.writer


@contextmanager
def running(settings: Settings = DEFAULTS, **changes: Any) -> Iterator[Tallyroll]:
    """A pipeline in this process, inside moto's `mock_aws`, as the fixture gives it.

    `changes` are `engine` (`moto`, `memory` or `dynamodb-local`), `endpoint`, `region`, and
    settings by name.
    Raises UsageError and SettingsError.
    """
    options = FixtureOptions(settings=settings).changed(changes)
    clock = Clock()
    try:
        with emulated_aws(f"{options.settings.name}-", options.region):
            region = os.environ["AWS_DEFAULT_REGION"]
            with pipeline_of(options, region, OneThread(clock)) as ports:
                yield Tallyroll(ports, clock)
    finally:
        clock.close()

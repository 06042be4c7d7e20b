"""Finds out of sent messages whether each is counted, rejected, or still on its way.

A message is counted exactly when its record is in its window's table, because one transaction
writes the record and the tally. So each message is looked up by its window, key and id, strongly
consistently, until its record is there with its content. Redeliveries and SQS's approximate counts
cannot mislead this. A count that begins after all messages were found includes all of them. Where
an id counts once beyond its window, its event may count in another one, by an earlier message: once
lookups find nothing new for some seconds, the ids that are taken are looked up, too.

A rejected message never gets a record. Once lookups find nothing new for some seconds, the dead
letters are searched for its body. A letter may also come from an earlier run with the same body:
one that was first sent before this run began is believed only if the event queue is empty by its
counts. The record is looked up once more after the letter was seen.

What is not promised: an event with an id but no time counts in the window of the time at which SQS
took it. It is looked for in the windows of ten seconds before and after the reply, by this
machine's clock. A record of an earlier event with the same id and content there is taken for it.

Each message costs one consistent read, 100 a request, and each poll without a result up to 800
more. At most `PENDING_MAX` messages are held, some 600 bytes each: beyond that, the sender waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

from tallyroll.client.bulk import BulkMessage
from tallyroll.errors import Missing, StoreError, Throttled, Unknown
from tallyroll.limits import BATCH_GET_KEYS_MAX, TS_MS_MAX
from tallyroll.model.acceptance import is_undated
from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.model.events import decode, digest
from tallyroll.model.ids import identity_names
from tallyroll.model.records import event_time
from tallyroll.model.states import Calendar
from tallyroll.operations.dead_letter_scan import JOBS, DeadLetterScan
from tallyroll.operations.event_status import EventStatus, Sought, Whereabouts
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.dead_letters import DeadLetters
from tallyroll.ports.effects import Effects
from tallyroll.ports.queue import Queue
from tallyroll.ports.store import Store
from tallyroll.reasons import Reason

PENDING_MAX = 50_000
LOOKUPS_AT_ONCE = 8
POLL_MS, POLL_MS_MAX = 250, 2_000
QUIET_MS = 3_000  # without a newly counted message, before the dead letters are searched
LOOK_MS_MAX = 60_000
CLOCK_MS = 1_000  # by which SQS's clock may be behind this machine's
SENT_WITHIN_MS = 10_000

OnPoll = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Expected:
    """A message that was sent. `times` (ms) are those of the windows in which it may count."""

    key: str
    id: str
    digest: bytes
    times: tuple[int, ...]
    events: int


class Arrivals:
    """The messages of one run that are expected, and the result so far.

    `counted` is a number of events; `rejected` has the numbers by reason, and `details` a detail of
    each reason.
    """

    def __init__(
        self, store: Store, catalog: Catalog, queue: Queue, letters: DeadLetters, effects: Effects
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._queue = queue
        self._letters = letters
        self._effects = effects
        self._whereabouts = Whereabouts(store, catalog, effects)
        self._began = effects.now() - CLOCK_MS
        self._pending: dict[bytes, Expected] = {}
        self._turn = 0  # of the groups that are looked up together
        self.counted = 0
        self.rejected: Counter[str] = Counter()
        self.details: dict[str, str] = {}

    def expect(self, taken: Iterable[tuple[BulkMessage, int]]) -> None:
        """Expect messages that the queue took, with the times (ms) at which it had taken them.

        Of messages with equal bodies one is looked for, which stands for all.
        """
        for message, at in taken:
            envelope = decode(message.body)
            times = {event_time(envelope, at)}
            if is_undated(envelope):
                times = {at - SENT_WITHIN_MS, at + SENT_WITHIN_MS}
            assert envelope.id
            mark = _mark(message.body)
            same = self._pending.get(mark)
            self._pending[mark] = Expected(
                envelope.key,
                envelope.id,
                digest(envelope),
                tuple(sorted(times)),
                message.events + (same.events if same else 0),
            )

    @property
    def messages(self) -> int:
        """The number of messages that are neither counted nor rejected."""
        return len(self._pending)

    @property
    def events(self) -> int:
        """The number of events in them."""
        return sum(expected.events for expected in self._pending.values())

    def queued(self) -> int | None:
        """About how many messages are in the event queue, from all producers; None if unknown."""
        try:
            return self._queue.counts().total
        except StoreError:
            return None

    def wait(self, timeout_ms: int, on_progress: OnPoll, most: int = 0) -> bool:
        """Wait until no more than `most` messages are pending, or for `timeout_ms`; return whether
        that is so. Calls `on_progress` after each poll. Raises Refused if nothing can be looked up.
        """
        deadline = quiet_since = self._effects.now()
        deadline += timeout_ms
        pause, look_after = POLL_MS, QUIET_MS
        while True:
            settled = self.sweep()
            now = self._effects.now()
            if settled:
                quiet_since, pause, look_after = now, POLL_MS, QUIET_MS
            elif now - quiet_since >= look_after or now >= deadline:
                self.look()
                look_after *= 2
            on_progress()
            if len(self._pending) <= most or now >= deadline:
                return len(self._pending) <= most
            self._effects.sleep(min(pause, deadline - now))
            pause = min(2 * pause, POLL_MS_MAX)

    def sweep(self) -> int:
        """Look up pending messages, as long as one in ten is settled; return how many were. Raises
        Refused.

        What is looked up together are messages from first to last in the order of their sending, at
        even distances. Writers count roughly in that order: neighbours would be either all counted
        or none, and a sweep that meets none would know nothing of the others.
        """
        calendar = self._calendar()
        if calendar is None:
            return 0
        marks, settled = [*self._pending], 0
        groups = -(-len(marks) // (LOOKUPS_AT_ONCE * BATCH_GET_KEYS_MAX))
        for _ in range(groups):
            self._turn += 1
            group = marks[self._turn % groups :: groups]
            found = self._settle(group, calendar)
            settled += found
            if found * 10 < len(group):
                break
        return settled

    def _calendar(self) -> Calendar | None:
        try:
            return self._catalog.calendar()
        except (Throttled, Unknown):
            return None

    def _settle(self, marks: Iterable[bytes], calendar: Calendar) -> int:
        """Settle those of these messages whose records are there; return how many."""
        before = len(self._pending)
        seeks = [
            (mark, Sought(home.id, home, [(expected.key, expected.id)], expected.digest))
            for mark in marks
            if (expected := self._pending.get(mark))
            for home in dict.fromkeys(
                calendar.grid.at(time) for time in expected.times if time <= TS_MS_MAX
            )
        ]
        seeks.sort(key=lambda seek: seek[1].home)
        pages = [
            seeks[first : first + BATCH_GET_KEYS_MAX]
            for first in range(0, len(seeks), BATCH_GET_KEYS_MAX)
        ]
        jobs = [partial(self._whereabouts.places, [seek for _, seek in page]) for page in pages]
        for page, places in zip(pages, self._effects.together(jobs, LOOKUPS_AT_ONCE), strict=True):
            for (mark, _), place in zip(page, places, strict=True):
                self._judge(mark, place)
        return before - len(self._pending)

    def _judge(self, mark: bytes, place: EventStatus | StoreError) -> None:
        expected = self._pending.get(mark)
        if expected is None:
            return
        if isinstance(place, StoreError):
            if not isinstance(place, Throttled | Unknown | Missing):
                raise place
        elif place is EventStatus.COUNTED:
            del self._pending[mark]
            self.counted += expected.events
        elif place in (EventStatus.CONFLICT, EventStatus.DISPLACED) and len(expected.times) == 1:
            self._reject(mark, Reason.ID_CONFLICT, f"another event has the id {expected.id!r}")

    def _reject(self, mark: bytes, reason: str, detail: str) -> None:
        self.rejected[reason] += self._pending.pop(mark).events
        self.details.setdefault(reason, detail)

    def look(self) -> None:
        """Look up the ids of pending messages that may be taken in another window, and search the
        dead letters for the others, for a minute at most. Letters that cannot be received are not
        found.
        """
        with suppress(StoreError):
            self._settle_taken()
        found: dict[bytes, ReceivedLetter] = {}
        until = self._effects.now() + LOOK_MS_MAX
        try:
            if self._letters.count().empty:
                return
            emptied = self.queued() == 0
            with closing(DeadLetterScan(self._letters, self._effects)) as look:

                def match(letters: Sequence[ReceivedLetter]) -> None:
                    for letter in letters:
                        mark = _mark(letter.body)
                        if mark in self._pending and (emptied or letter.first_sent >= self._began):
                            found[mark] = letter
                    if len(found) == len(self._pending) or self._effects.now() >= until:
                        look.stop()

                look.each(match, JOBS)
        except StoreError:
            pass
        calendar = self._calendar()
        if calendar and found:
            self._settle(found, calendar)
            for mark, letter in found.items():
                if mark in self._pending:
                    self._reject(mark, letter.why, letter.detail)

    def _settle_taken(self) -> None:
        """Settle the messages whose ids are taken beyond their windows."""
        calendar = self._catalog.calendar()
        if calendar is None:
            return
        homes = [
            (mark, expected, calendar.grid.at(time).id)
            for mark, expected in self._pending.items()
            for time in expected.times
            if time <= TS_MS_MAX
        ]
        specs = self._catalog.specs(list(dict.fromkeys(home for *_, home in homes)))
        named = [
            (mark, expected, name)
            for mark, expected, home in homes
            if home in specs
            for name in identity_names(specs[home], (expected.key,), expected.id)
        ]
        taken = self._store.identities([name for *_, name in named]) if named else {}
        for mark, expected, name in named:
            if name not in taken or mark not in self._pending:
                continue
            if taken[name].digest == expected.digest:
                del self._pending[mark]
                self.counted += expected.events
            else:
                where = f"in window {taken[name].window}"
                detail = f"another event has the id {expected.id!r}, {where}"
                self._reject(mark, Reason.ID_CONFLICT, detail)


def _mark(body: str) -> bytes:
    return blake2b(body.encode("utf-8", "surrogatepass"), digest_size=16).digest()

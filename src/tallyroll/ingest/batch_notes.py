"""What a writer notes about its batches, and the groups in which it writes them.

The notes serve the roller, which must not close a window while messages for it are hidden from the
queue's age metric, and other writers, which must find out which messages kill writers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from tallyroll import limits
from tallyroll.errors import StoreError
from tallyroll.ingest.batch_messages import BatchMessage
from tallyroll.ingest.fates import Disposition, Fate
from tallyroll.ingest.handing_back import delay_seconds
from tallyroll.model.messages import Message
from tallyroll.model.windows import WindowId
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.queue import Backlog, Queue
from tallyroll.ports.writer_notes import (
    DEATHS_SEEN_MAX,
    Deaths,
    Reception,
    deaths_of,
    message_digest,
    reception_of,
)
from tallyroll.reasons import Reason
from tallyroll.settings import Settings

COUNTS_KEPT_MS = 10_000
BEATS_PER_VISIBILITY = 10  # minimum of heartbeats per visibility timeout


@dataclass(eq=False)
class BatchNotes:
    """The notes of one writer; it works on one batch at a time."""

    settings: Settings
    catalog: Catalog
    queue: Queue
    effects: Effects
    _reception: Reception | None = field(default=None, init=False)
    _unplaced: list[tuple[Message, int]] = field(default_factory=list, init=False)
    _kept: Reception | None = field(default=None, init=False)
    _noted: dict[WindowId, int] = field(default_factory=dict, init=False)
    _failed: int = field(default=0, init=False)
    _finished: bool = field(default=False, init=False)
    _beat_at: int | None = field(default=None, init=False)
    _counts: Backlog = field(default=Backlog(0, 0, 0), init=False)
    _counted_at: int | None = field(default=None, init=False)

    def begin(self, cases: Sequence[BatchMessage]) -> list[list[BatchMessage]]:
        """Note the batch's messages that were received before; return the groups to write, in
        order.

        The last groups hold the messages on which writers died, in ever smaller groups. A message
        is rejected unread if several writers died on it alone, or if it was received 950 times.
        """
        self._failed, now = 0, self.effects.now()
        before = [case.message for case in cases if case.message.receives > 1]
        self._reception, self._unplaced = None, []
        if not before:
            return [[*cases]] if cases else []
        self._reception = reception_of(self._new_id(), now, before)
        self._put(self._reception)
        deaths: Mapping[str, Deaths] = {}
        hidden = [message for message in before if message.receives > 2]
        if hidden:
            since = now - limits.RECEPTIONS_KEPT * self.settings.visibility_ms
            until = now - self.settings.writer_lasts_ms
            with suppress(StoreError):
                noted = self.catalog.receptions(since, until, limits.RECEPTIONS_SEEN_MAX)
                deaths = deaths_of(hidden, noted)
        usual, suspects, lone = [], [], []
        for case in (_given_up(case, deaths.get(case.message.id)) for case in cases):
            died = deaths.get(case.message.id)
            if case.fate:
                usual.append(case)
            elif (died and died.alone) or case.message.receives >= limits.RECEIVES_ALONE:
                lone.append([case])
            elif died:
                suspects.append(case)
            else:
                usual.append(case)
        groups = [group for group in [usual, *self._cut(suspects, deaths), *lone] if group]
        if len(groups) > 1:
            self.narrow(groups[0])
        return groups

    def _cut(
        self, suspects: Sequence[BatchMessage], deaths: Mapping[str, Deaths]
    ) -> list[list[BatchMessage]]:
        """Divide messages on which writers died into random groups, halved with each death."""
        if not suspects:
            return []
        died = min(DEATHS_SEEN_MAX, max(deaths[case.message.id].among for case in suspects))
        size = -(-len(suspects) >> died) or 1
        drawn = [(self.effects.chance.random(), case) for case in suspects]
        mixed = [case for _, case in sorted(drawn, key=lambda pair: pair[0])]
        return [mixed[at : at + size] for at in range(0, len(mixed), size)]

    def narrow(self, group: Sequence[BatchMessage]) -> None:
        """Note that the writer now works on this group only, so that its death counts for it."""
        if self._reception:
            named = [case.message for case in group if case.message.receives > 1]
            digests = b"".join(map(message_digest, named[: limits.MESSAGES_NOTED_MAX]))
            self._reception = replace(self._reception, digests=digests)
            self._put(self._reception)

    def placed(self, cases: Iterable[BatchMessage]) -> None:
        """Note the windows of messages that were received before, after their placement."""
        now = self.effects.now()
        self._note_windows((case, now) for case in cases if case.message.receives > 1)

    def hand_back(self, cases: Sequence[BatchMessage]) -> None:
        """Hide the messages that must come again for some time, and note their windows until then,
        unless they can never count.
        """
        back = [
            (case, case.fate or Fate(Disposition.HANDED_BACK)) for case in cases if case.comes_again
        ]
        if not back:
            return
        now = self.effects.now()
        delay = partial(
            delay_seconds,
            now=now,
            in_flight=self._in_flight(),
            retention_ms=self.settings.queue_retention_ms,
        )
        delays = [delay(case.message, waits=fate.waits, due=fate.due) for case, fate in back]
        receipts = [case.message.receipt for case, _ in back]
        with suppress(StoreError):
            self.queue.delay(list(zip(receipts, delays, strict=True)))
        hidden = [
            (case, now + seconds * 1_000)
            for (case, fate), seconds in zip(back, delays, strict=True)
            if not fate.hopeless
        ]
        self._note_windows(hidden)
        self._unplaced += [
            (case.message, at)
            for case, at in hidden
            # A redriven message is placed once its target is known. A retraction that waits keeps
            # no window open: what it finds closed, it still retracts.
            if case.message.receives > 1
            and not case.retraction
            and not (case.target if case.message.redrive else case.span)
        ]

    def end(self, cases: Sequence[BatchMessage]) -> int:
        """Clear the batch's note, and note a heartbeat if all its notes were stored; return how
        many were not.

        Messages that come again and have no window yet keep a note.
        """
        now = self.effects.now()
        self._keep_unplaced(now)
        if self._reception:
            self._take(partial(self.catalog.clear_received, self._reception))
            self._reception = None
        self._finished |= any(not case.comes_again for case in cases)
        every = min(limits.HEARTBEAT_EVERY_MS, self.settings.visibility_ms // BEATS_PER_VISIBILITY)
        due = self._beat_at is None or now - self._beat_at >= every
        if due and not self._failed:
            beat = partial(self.catalog.beat, now, finished=self._finished)
            if self._take(beat):
                self._beat_at, self._finished = now, False
        return self._failed

    def _keep_unplaced(self, now: int) -> None:
        """Note the sending times of the messages that come again and have no known window, which
        keeps every window open that may accept them. Extends and replaces this writer's last such
        note, unless that has expired.
        """
        if not self._unplaced:
            return
        messages = [message for message, _ in self._unplaced]
        until = max(at for _, at in self._unplaced)
        kept = replace(reception_of(self._new_id(), until, messages), digests=b"")
        before = self._kept
        if before and before.at <= now - 2 * self.settings.visibility_ms:
            before = None
        if before:
            kept = replace(
                kept,
                at=max(before.at, kept.at),
                oldest=min(before.oldest, kept.oldest),
                newest=max(before.newest, kept.newest),
            )
        if self._put(kept):
            self._kept = kept
            if before:
                self._take(partial(self.catalog.clear_received, before))

    def _new_id(self) -> str:
        return f"{self.effects.chance.getrandbits(64):016x}"

    def _put(self, reception: Reception) -> bool:
        return self._take(partial(self.catalog.note_received, reception))

    def _take(self, note: Callable[[], None]) -> bool:
        """Store a note; return whether that succeeded. If not, the batch has no heartbeat."""
        try:
            note()
        except StoreError:
            self._failed += 1
            return False
        return True

    def _note_windows(self, expected: Iterable[tuple[BatchMessage, int]]) -> None:
        """Note per window until when (ms) its messages may be hidden, at most every ten seconds."""
        newest: dict[WindowId, int] = {}
        for case, at in expected:
            if case.window and not case.rejection:
                newest[case.window] = max(at, newest.get(case.window, at))
        every = limits.STRAGGLER_NOTE_EVERY_MS
        now = self.effects.now()
        self._noted = {window: at for window, at in self._noted.items() if at + every > now}
        for window, at in newest.items():
            note = partial(self.catalog.note_straggler, window, at)
            if at - self._noted.get(window, at - every) >= every and self._take(note):
                self._noted[window] = at

    def _in_flight(self) -> int:
        """The number of messages in flight, up to ten seconds old; 0 if unknown."""
        now = self.effects.now()
        if self._counted_at is None or now - self._counted_at >= COUNTS_KEPT_MS:
            self._counted_at = now
            with suppress(StoreError):
                self._counts = self.queue.counts()
        return self._counts.in_flight


def _given_up(case: BatchMessage, died: Deaths | None) -> BatchMessage:
    """The case, rejected if it seems to crash writers. It is not read: reading may be the cause."""
    receives = case.message.receives
    if died and len(died.alone) >= limits.LONE_DEATHS_MAX:
        detail = f"{len(died.alone)} writers died while they worked on this message alone"
    elif receives >= limits.RECEIVES_GIVEN_UP:
        detail = f"received {receives} times and still not finished"
    else:
        return case
    return case.rejected(Reason.CRASHES_WRITER, detail)

"""Waits for what becomes of a retraction that was sent: it takes effect, or it is a dead letter.

It has taken effect exactly when its tombstone is stored, or, once its window is sealed, its
correction. A letter may come from an earlier retraction with the same body: it is believed only if
it was first sent after this wait was prepared, or if the event queue is empty by its counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

from tallyroll.errors import Absent, Rejected, StoreError, Throttled, Unknown
from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.model.retractions import RetractionNote
from tallyroll.operations.arrivals import CLOCK_MS, LOOK_MS_MAX, POLL_MS, POLL_MS_MAX, QUIET_MS
from tallyroll.operations.dead_letter_scan import JOBS, DeadLetterScan
from tallyroll.operations.retraction.desk import Retractable, RetractionDesk
from tallyroll.ports.dead_letters import DeadLetters
from tallyroll.ports.effects import Effects
from tallyroll.ports.queue import Queue


@dataclass(eq=False)
class RetractionEffect:
    """What becomes of a retraction. Make it before the retraction is sent."""

    desk: RetractionDesk
    queue: Queue
    letters: DeadLetters
    effects: Effects

    def __post_init__(self) -> None:
        self._began = self.effects.now() - CLOCK_MS

    def wait(
        self, sent: Retractable, timeout_ms: int, on_poll: Callable[[], object]
    ) -> RetractionNote | ReceivedLetter | None:
        """The note of the retraction, or its letter; None if neither is there in time. Calls
        `on_poll` after each look. Raises StoreError if nothing can be looked up.
        """
        began = self.effects.now()
        deadline, look_at, pause = began + timeout_ms, began + QUIET_MS, POLL_MS
        while True:
            if note := self._note(sent):
                return note
            now = self.effects.now()
            if now >= min(look_at, deadline):
                # Its effect may have been seen only after the letter of a second delivery.
                if letter := self._letter(sent.retraction.body):
                    return self._note(sent) or letter
                look_at = now + 2 * (now - began)
            on_poll()
            if now >= deadline:
                return None
            self.effects.sleep(min(pause, deadline - now))
            pause = min(2 * pause, POLL_MS_MAX)

    def _note(self, sent: Retractable) -> RetractionNote | None:
        try:
            if sent.proven and sent.state:
                return self.desk.correction_note(sent.state, sent.tombstones[0])
            found = self.desk.find(sent.retraction)
        except (Throttled, Unknown):
            return None
        except (Absent, Rejected):
            # Since it was sent, its window was moved away by a new length of windows, or its packet
            # came without the event: the letter says so.
            return None
        # An event that came with another time is not the one that the message names.
        return found.note if found.retraction.window == sent.retraction.window else None

    def _letter(self, body: str) -> ReceivedLetter | None:
        found: list[ReceivedLetter] = []
        until = self.effects.now() + LOOK_MS_MAX
        with suppress(StoreError):
            if self.letters.count().empty:
                return None
            emptied = self.queue.counts().empty
            with closing(DeadLetterScan(self.letters, self.effects)) as scan:

                def match(letters: Sequence[ReceivedLetter]) -> None:
                    found.extend(
                        each
                        for each in letters
                        if each.body == body and (emptied or each.first_sent >= self._began)
                    )
                    if found or self.effects.now() >= until:
                        scan.stop()

                scan.each(match, JOBS)
        return found[0] if found else None

"""A search of the dead letters: how many there are by reason, and some of them whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from threading import Lock
from typing import Any

from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.operations.saved_letters import LetterGroups, body_of, letter_json
from tallyroll.ports.dead_letters import DeadLetters

SHOWN_MAX, SAMPLES_MAX = 50, 3
BODY_MAX = 2_000


class LetterSearch:
    """The groups of letters, and the first 50 of a reason that hold a text, in whatever case: in
    the body, the detail or an id. Without both, three of each reason. It is thread-safe.
    """

    def __init__(self, reason: str = "", text: str = "") -> None:
        self._reason, self._text = reason, text.casefold()
        self._lock, self._samples = Lock(), Counter[str]()
        self._shown: list[ReceivedLetter] = []
        self.groups = LetterGroups()

    def add(self, batch: Sequence[ReceivedLetter]) -> None:
        """Look at letters that were not added before."""
        with self._lock:
            self.groups.add(batch)
            for letter in batch:
                told = f"{letter.body}\n{letter.detail}\n{letter.id}\n{letter.first_id}"
                fits = self._reason in ("", letter.why) and self._text in told.casefold()
                few = self._reason or self._text or self._samples[letter.why] < SAMPLES_MAX
                if fits and few and len(self._shown) < SHOWN_MAX:
                    self._samples[letter.why] += 1
                    self._shown.append(letter)

    def found(self, letters: DeadLetters) -> list[dict[str, Any]]:
        """What was found as JSON, the first 2,000 characters of each body."""
        found = [letter_json(letter, body_of(letter, letters)) for letter in self._shown]
        return [one | {"body": one["body"][:BODY_MAX]} for one in found]

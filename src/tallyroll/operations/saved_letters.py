"""Saves dead letters to a file, so that they can be read, repaired and deleted."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from threading import Lock
from typing import Any, TextIO

from tallyroll.errors import StoreError
from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.model.windows import WindowId, iso
from tallyroll.operations.letter_events import BODIES_AT_ONCE
from tallyroll.ports.dead_letters import DeadLetters
from tallyroll.ports.effects import Effects
from tallyroll.resources import DEAD_LETTERS_RETENTION_SECONDS

Body = tuple[str, str]
"""A letter's body, and why it could not be read, or ""."""


class LetterFile:
    """JSON Lines of dead letters, one object a letter. It is thread-safe.

    `saved` is how many lines were written; `unread` is how many bodies could not be read, and
    `problem` is why the first of them could not.
    """

    def __init__(self, file: TextIO, letters: DeadLetters, effects: Effects) -> None:
        self._file = file
        self._letters = letters
        self._effects = effects
        self._lock = Lock()
        self.saved = 0
        self.unread = 0
        self.problem = ""

    def save(
        self, batch: Sequence[ReceivedLetter], *, only_read: bool = False
    ) -> list[ReceivedLetter]:
        """Write letters; return those that are on the disk with their bodies.

        A letter whose body cannot be read is written with the `problem`, or left out if
        `only_read`.
        """
        jobs = [partial(body_of, letter, self._letters) for letter in batch]
        in_bucket = any(letter.pointer for letter in batch)
        bodies = self._effects.together(jobs, BODIES_AT_ONCE if in_bucket else 1)
        read = [letter for letter, (_, problem) in zip(batch, bodies, strict=True) if not problem]
        lines = [
            json.dumps(letter_json(letter, body)) + "\n"
            for letter, body in zip(batch, bodies, strict=True)
            if not (only_read and body[1])
        ]
        with self._lock:
            self._file.writelines(lines)
            self._file.flush()
            os.fsync(self._file.fileno())
            self.saved += len(lines)
            self.unread += len(batch) - len(read)
            self.problem = next((problem for _, problem in bodies if problem), self.problem)
        return read


class LetterGroups:
    """Dead letters counted by reason and window."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, WindowId], tuple[int, int, int]] = {}

    def add(self, batch: Sequence[ReceivedLetter]) -> None:
        """Add letters that were not added before."""
        for letter in batch:
            group = letter.why, letter.window or ""
            number, oldest, arrived = self._groups.get(group, (0, sys.maxsize, sys.maxsize))
            oldest, arrived = min(oldest, letter.first_sent), min(arrived, letter.arrived)
            self._groups[group] = number + 1, oldest, arrived

    def json(self) -> list[dict[str, Any]]:
        """The groups as JSON, by reason: how many letters, when the oldest message was sent, and
        when the first letter expires.
        """
        return [
            {
                "reason": reason,
                "window": window or None,
                "count": number,
                "oldest": iso(oldest),
                "expires": expires(arrived),
            }
            for (reason, window), (number, oldest, arrived) in sorted(self._groups.items())
        ]


def body_of(letter: ReceivedLetter, letters: DeadLetters) -> Body:
    """A letter's body, from the bucket if it is there."""
    try:
        return letters.body(letter), ""
    except StoreError as error:
        return "", str(error)


def expires(arrived: int) -> str:
    """When the queue forgets a letter that arrived at this time (ms)."""
    return iso(arrived + DEAD_LETTERS_RETENTION_SECONDS * 1000)


def letter_json(letter: ReceivedLetter, body: Body) -> dict[str, str]:
    """A letter as JSON, without what it does not have; its body is always there."""
    text, problem = body
    facts = {
        "letter": letter.id,
        "message": letter.first_id,
        "reason": letter.why,
        "detail": letter.detail,
        "window": letter.window or "",
        "redriven_to": letter.target or "",
        "sent": iso(letter.first_sent),
        "dead_since": iso(letter.arrived),
        "expires": expires(letter.arrived),
        "looked_at": str(letter.receives),
        "body_lies_in": f"{letter.pointer.bucket}/{letter.pointer.key}" if letter.pointer else "",
        "problem": problem,
    }
    return {name: value for name, value in facts.items() if value} | {"body": text}

"""A look into the dead letters: how many there are by reason, and some of them whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from threading import Lock
from typing import Any

from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.operations.dead_letter_scan import DeadLetterScan
from tallyroll.operations.saved_letters import LetterGroups, body_of, letter_json
from tallyroll.ports.dead_letters import DeadLetters
from tallyroll.ports.effects import Effects

SEEN_MAX, SHOWN_MAX, SAMPLES_MAX = 500, 50, 3
BODY_MAX = 2_000
JOBS = 4


def search_letters(
    letters: DeadLetters, effects: Effects, reason: str = "", text: str = ""
) -> dict[str, Any]:
    """The groups of up to 500 letters, and as JSON the first 50 of the reason that hold the text,
    in whatever case: in the body, the detail or an id. Without both, three of each reason.

    Letters are hidden from other readers while it looks, a second or so. Raises StoreError.
    """
    groups, shown, samples, turn = LetterGroups(), list[ReceivedLetter](), Counter[str](), Lock()
    wanted = text.casefold()

    def look(batch: Sequence[ReceivedLetter]) -> None:
        with turn:
            groups.add(batch)
            for letter in batch:
                told = f"{letter.body}\n{letter.detail}\n{letter.id}\n{letter.first_id}"
                fits = letter.why == reason or not reason
                few = bool(reason or text) or samples[letter.why] < SAMPLES_MAX
                if fits and few and wanted in told.casefold() and len(shown) < SHOWN_MAX:
                    samples[letter.why] += 1
                    shown.append(letter)

    with closing(DeadLetterScan(letters, effects, SEEN_MAX)) as scan:
        scan.each(look, JOBS)
        found = [letter_json(letter, body_of(letter, letters)) for letter in shown]
    return {
        "seen": scan.seen,
        "expected": max(scan.expected, scan.seen),
        "groups": groups.json(),
        "letters": [one | {"body": one["body"][:BODY_MAX]} for one in found],
    }

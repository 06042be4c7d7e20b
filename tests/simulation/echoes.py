"""Who sends ids again where ids outlive their windows: hours later, with another time or content,
under another key, or beside the first one.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.simulation.holdings import MICROS
from tests.simulation.plans import WINDOW_MS
from tests.simulation.producers import KEYS, Letter
from tests.simulation.sent import Sent
from tests.simulation.world import Streams

if TYPE_CHECKING:
    from tests.simulation.pipeline import System

EVERY_MS_MAX = 14_000
KEPT = 40  # of the letters that were sent last, so that many echoes are of windows that end
ACROSS = 0.15
JUST_MS = 500
OWN_IDS = ("producer", "echo")  # ids that say nothing of a time
OTHER_VALUE = 5  # which no first letter and no rival has
SHARES = (("copy", 0.6), ("moved", 0.1), ("undated", 0.1), ("other", 0.1), ("rekeyed", 0.1))


class Echoes:
    """Sends events without a time, and echoes of what anybody sent."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._chance = Streams(system.world).random
        self._sent: list[Letter] = []
        self._number = 0

    def on_send(self, letter: Letter) -> None:
        """Take note of a letter that was sent."""
        if letter.sent.record_id is not None:
            self._sent = [*self._sent[1 - KEPT :], letter]

    def live(self) -> None:
        """Send as long as producers do."""
        system = self._system
        while self._goes_on():
            if self._chance() < ACROSS:
                self._send_across()
            elif self._chance() < 0.4 or not self._sent:
                letter = self._first()
                system._send(letter)
                if self._chance() < 0.4:  # beside it, perhaps in one batch
                    system._send(self._echo(letter))
            else:
                system._send(self._echo(self._sent[int(self._chance() * len(self._sent))]))

    def _send_across(self) -> None:
        """Send an event twice, before and after a window begins: a backlog has both in one
        batch.
        """
        system, letter = self._system, self._first()
        system.world.pause(WINDOW_MS - (system.world.now + JUST_MS) % WINDOW_MS)
        for _ in range(2):
            if system.producing:
                system._send(letter)
            system.world.pause(2 * JUST_MS)

    def _goes_on(self) -> bool:
        self._system.world.pause(self._chance() * EVERY_MS_MAX)
        return self._system.producing

    def _first(self) -> Letter:
        """An event with an id of its own and no time: a copy falls into the window of its day."""
        self._number += 1
        key, record_id = self._key(), f"echo-{self._number}"
        body = {"id": record_id, "key": key, "value": 1}
        return Letter(json.dumps(body), Sent(key, record_id, None, 1, MICROS))

    def _key(self) -> str:
        return KEYS[int(self._chance() * len(KEYS))]

    def _echo(self, letter: Letter) -> Letter:
        """A letter again, or another one of its id."""
        drawn, kind = self._chance(), ""
        for name, share in SHARES:
            kind = name
            drawn -= share
            if drawn < 0:
                break
        fields: dict[str, Any] = json.loads(letter.body) if letter.body.startswith("{") else {}
        sent = letter.sent
        own = str(fields.get("id", "")).startswith(OWN_IDS) and "events" not in fields
        if kind == "copy" or not own:
            return letter
        match kind:
            case "moved":
                ts = self._system.world.now - int(self._chance() * 2 * WINDOW_MS)
                fields, sent = {**fields, "ts": ts}, replace(sent, ts=ts)
            case "undated":
                fields.pop("ts", None)
                sent = replace(sent, ts=None)
            case "other":
                fields["value"] = OTHER_VALUE
                sent = replace(sent, amount=OTHER_VALUE * MICROS)
            case _:
                key = self._key()
                fields, sent = {**fields, "key": key}, replace(sent, key=key)
        return Letter(json.dumps(fields), sent)

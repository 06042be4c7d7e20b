"""Who takes events back by messages: before the event is sent, beside it, later, and wrongly."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tallyroll.model.retractions import MARK, VERSION
from tests.simulation.holdings import MICROS
from tests.simulation.plans import WINDOW_MS
from tests.simulation.producers import KEYS, Letter
from tests.simulation.sent import Asked, Sent
from tests.simulation.world import Streams

if TYPE_CHECKING:
    from tests.simulation.pipeline import System

EVERY_MS_MAX = 9_000
SOON_MS_MAX = 40_000
ENDING, ELSEWHERE = 0.35, 0.25
BESIDE_REDRIVE = 0.4
READ_BY_MS_MAX = 6_000
BY = ("ann", "bob", "")
WHY = ("counted wrongly", "again", "")
SHARES = (
    ("after", 0.6),
    *(("before", 0.12), ("beside", 0.14), ("wrong", 0.1), ("malformed", 0.04)),
)
MALFORMED = (
    '["tallyroll-retract", 1, {"key": "hot"}]',
    '["tallyroll-retract", 2, {"key": "hot", "id": "x", "ts": 1796083080000}]',
    '["tallyroll-retract", 1, {"key": "hot", "id": "x"}]',
)


class Retractors:
    """Sends retractions as long as producers send events; operators retract some, too."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._world = system.world
        self._chance = Streams(system.world).random
        self._sent: list[tuple[Sent, str]] = []
        self._redriven: list[Sent] = []
        self._number = 0

    def on_sent(self, sent: Sent, body: str) -> None:
        """Take note of a message that was sent."""
        if not sent.bad:
            self._sent.append((sent, body))

    def on_redriven(self, sent: Sent) -> None:
        """Take note of a message that was redriven."""
        if not sent.bad:
            self._redriven.append(sent)

    def live(self) -> None:
        """Send as long as producers do, and some time longer."""
        rarely = self._system.plan.retractions.by_operators
        every_ms_max = (6 if rarely else 1) * EVERY_MS_MAX
        while self._goes_on(self._chance() * every_ms_max):
            getattr(self, f"_{self._kind()}")()
        while self._asks_on(self._chance() * every_ms_max):  # what is sealed or dropped by now
            if asked := self.some():
                self._ask(asked)

    def _kind(self) -> str:
        drawn, kind = self._chance(), ""
        for name, share in SHARES:
            kind = name
            drawn -= share
            if drawn < 0:
                break
        return kind

    def some(self) -> Asked | None:
        """What takes something back that was sent: now and then what is about to be dropped, or was
        redriven into another window.
        """
        drawn, chosen = self._chance(), [sent for sent, _ in self._sent]
        if drawn < ENDING:
            chosen = [each for each in chosen if self._is_ending(each)] or chosen
        elif drawn < ENDING + ELSEWHERE:
            chosen = self._away() or chosen
        return self._asked(chosen[int(self._chance() ** 1.5 * len(chosen))]) if chosen else None

    def beside_redrive(self, message_ids: Sequence[str]) -> None:
        """Now and then retract what is about to be redriven, and let writers begin on that."""
        sent = [self._system.oracle.sent[each] for each in message_ids]
        chosen = [one for one in sent if not one.bad and self._system.is_asking]
        if chosen and self._chance() < BESIDE_REDRIVE:
            for one in chosen:
                self._ask(self._asked(one))
            self._world.pause(self._chance() * READ_BY_MS_MAX)

    def _is_ending(self, sent: Sent) -> bool:
        window, oracle = self._system.oracle.identity_of(sent)[0], self._system.oracle
        return window in oracle.sealed and window not in oracle.archives.gone

    def _away(self) -> list[Sent]:
        """What was redriven into another window, or else is a dead letter, which may be soon."""
        oracle = self._system.oracle
        if self._chance() < 0.6:
            return [one for one in self._redriven if one.target != oracle.window_of(one.time)]
        dead = [oracle.sent[message_id] for message_id in oracle.dead]
        return [one for one in dead if not one.bad]

    def _after(self) -> None:
        """Retract something that was sent; now and then it is sent again."""
        if asked := self.some():
            self._ask_again(asked)
            again = [letter for letter in self._sent if letter[0].record_id == asked.id]
            if again and self._chance() < 0.3:
                sent, body = again[0]
                letter = Letter(body, replace(sent, first_id="", first_sent=0, target=""))
                self._later(SOON_MS_MAX, partial(self._system._send, letter))

    def _before(self) -> None:
        """Retract an event that is sent only later."""
        letter = self._letter()
        self._ask_again(self._asked(letter.sent))
        self._later(SOON_MS_MAX, partial(self._system._send, letter))

    def _beside(self) -> None:
        """Send an event and its retraction together."""
        letter = self._letter()
        first = self._chance() < 0.5
        if first:
            self._system._send(letter)
        self._ask_again(self._asked(letter.sent))
        if not first:
            self._system._send(letter)

    def _wrong(self) -> None:
        """Retract what is not there, or not so."""
        if not self._sent:
            return
        asked = self._asked(self._sent[int(self._chance() * len(self._sent))][0])
        kind = int(self._chance() * 5)
        changes: tuple[dict[str, Any], ...] = (
            {"record_id": f"absent-{self._number}"},
            {"key": KEYS[int(self._chance() * len(KEYS))]},
            {"index": int(self._chance() * 6)},
            {"index": None},
            {"window": "", "ts": self._world.now - int(self._chance() * 2 * WINDOW_MS)},
        )
        self._ask(replace(asked, **changes[kind]))

    def _malformed(self) -> None:
        body = MALFORMED[int(self._chance() * len(MALFORMED))]
        self._system.send_message(body, Asked(is_malformed=True))

    def _letter(self) -> Letter:
        """An event of now, or of a moment ahead, whose window may not be made yet."""
        self._number += 1
        key, record_id = KEYS[int(self._chance() * len(KEYS))], f"back-{self._number}"
        ts = self._world.now + int((self._chance() * 2 - 1) * self._system.base.skew_ms * 0.9)
        body = {"id": record_id, "key": key, "ts": ts, "value": 1}
        return Letter(json.dumps(body), Sent(key, record_id, ts, 1, MICROS))

    def _asked(self, sent: Sent) -> Asked:
        """A message that takes back what was sent, or one event of a packet."""
        keys = [key for _, key, _ in self._system.oracle.identities_of(sent)]
        asked = Asked(
            key=keys[0],
            record_id=sent.id,
            ts=sent.time,
            index=int(self._chance() * len(sent.times)) if sent.times else None,
            by=BY[int(self._chance() * len(BY))],
            why=WHY[int(self._chance() * len(WHY))],
        )
        if self._chance() < 0.4:
            window = self._system.oracle.window_of(sent.time)
            asked = replace(asked, ts=None, window=window)
        return asked

    def _ask_again(self, asked: Asked) -> None:
        """Send a message; now and then another one of the same event, beside it or later."""
        self._ask(asked)
        if self._chance() < 0.25:
            other = replace(asked, by=BY[int(self._chance() * len(BY))])
            self._later(0 if self._chance() < 0.5 else SOON_MS_MAX, partial(self._ask, other))

    def _ask(self, asked: Asked) -> None:
        if not asked.key:  # of a message whose mapping finds none
            return
        fields: dict[str, Any] = {"key": asked.key, "id": asked.id}
        fields |= {"window": asked.window} if asked.window else {"ts": asked.ts}
        fields |= {"by": asked.by, "why": asked.why}
        if asked.index is not None:
            fields["index"] = asked.index
        self._system.send_message(json.dumps([MARK, VERSION, fields]), asked)

    def _later(self, most_ms: int, send: Any) -> None:
        def late() -> None:
            if self._goes_on(self._chance() ** 2 * most_ms):
                send()

        self._world.spawn("retract-later", late, self._world.current.group)

    def _asks_on(self, pause_ms: float) -> bool:
        self._world.pause(pause_ms)
        return self._system.is_asking

    def _goes_on(self, pause_ms: float) -> bool:
        self._world.pause(pause_ms)
        return self._system.producing

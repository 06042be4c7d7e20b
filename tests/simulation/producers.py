"""What simulated producers send: events of every kind, packets, rivals, and hopeless messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from tallyroll.model.formats.compression import compressed
from tallyroll.reasons import Reason
from tests.harness.payloads import noise
from tests.simulation.holdings import MICROS
from tests.simulation.sent import Sent

KEYS = ("hot", "hot", "hot", "hot", "warm.2", "käse")
LARGE_CHARACTERS = 900
OF_THE_PAST = 0.15  # the share of the past's events, where there are any
VALUES = (("1", MICROS),) * 5 + (("2.5", 2_500_000), ("-3", -3 * MICROS), ("0", 0))
BAD: tuple[tuple[str, Reason], ...] = (
    ("", Reason.EMPTY_BODY),
    ("nonsense", Reason.NOT_JSON),
    ("[1]", Reason.NOT_AN_OBJECT),
    ('{"key": "~t.1"}', Reason.BAD_KEY),
    ('{"key": "hot", "value": true}', Reason.BAD_VALUE),
    ('{"key": "hot", "ts": 1795000000}', Reason.TS_IN_SECONDS),
    ('{"key": "hot", "id": "p", "events": []}', Reason.BAD_PACKET),
    ('{"v": 2, "key": "hot"}', Reason.UNKNOWN_VERSION),
)


@dataclass(frozen=True, slots=True)
class Letter:
    """A body, and what is to become of it."""

    body: str
    sent: Sent


class Producer:
    """Makes letters; `window_ms` bounds how late or early their events may lie, `history` holds the
    starts of past windows of which some are. Some payloads are `large`, or none.
    """

    def __init__(
        self,
        name: str,
        random: Random,
        window_ms: int,
        skew_ms: int,
        lateness: float,
        *,
        poison: bool,
        history: Sequence[int] = (),
        large: bool = False,
    ) -> None:
        self._name = name
        self._random = random
        self._window_ms = window_ms
        self._skew_ms = skew_ms
        self._lateness = lateness
        self._poison = poison
        self._history = history
        self._large = large
        self._number = 0

    def letter(self, now: int) -> Letter:
        """A letter of a random kind, written at `now` (ms)."""
        chance = self._random.random()
        for share, kind in (
            (0.05, self._bad),
            (0.15, self._packet),
            (0.15, self._anonymous),
            (0.10, self._uuid7),
            (0.05, self._undated),
        ):
            if chance < share:
                return kind(now)
            chance -= share
        return self._dated(now)

    def rival(self, letter: Letter) -> Letter | None:
        """Another content under the same id, if the letter has an id and a time of its own."""
        fields = json.loads(letter.body) if not letter.sent.bad else {}
        if not fields.get("ts") or not fields.get("id"):
            return None
        fields["value"] = 7
        rival = Sent(letter.sent.key, letter.sent.record_id, letter.sent.ts, 1, 7 * MICROS)
        return Letter(json.dumps(fields), rival)

    def _key(self) -> str:
        return KEYS[int(self._random.random() * len(KEYS))]

    def _value(self) -> tuple[str, int]:
        return VALUES[int(self._random.random() * len(VALUES))]

    def _new_id(self) -> str:
        self._number += 1
        if self._poison and self._random.random() < 0.02:
            return f"poison-{self._name}-{self._number}"
        return f"{self._name}-{self._number}"

    def _time(self, now: int) -> int:
        """Mostly just now; sometimes a window or more ago, sometimes ahead, sometimes too far."""
        chance = self._random.random()
        if chance < 0.02:
            return now + self._skew_ms + 60_000
        if chance < 0.1:
            return now + int(self._random.random() * self._skew_ms * 0.9)
        if past := self._past():
            return past
        if self._random.random() < self._lateness:
            return now - int(self._random.random() * 3 * self._window_ms)
        return now - int(self._random.random() * 3_000)

    def _past(self) -> int | None:
        """A moment in one of the past windows, now and then."""
        if not self._history or self._random.random() >= OF_THE_PAST:
            return None
        start = self._history[int(self._random.random() * len(self._history))]
        return start + int(self._random.random() * self._window_ms)

    def _event(self, now: int, record_id: str | None, *, dated: bool) -> Letter:
        key, (value, amount) = self._key(), self._value()
        ts = self._time(now) if dated else None
        fields = {"id": record_id, "key": key, "ts": ts}
        kept = {name: field for name, field in fields.items() if field is not None}
        draw = self._random.random()
        if draw < 0.2:
            kept["payload"] = {"by": "producer"}  # type: ignore[assignment]
        if draw < 0.1 and self._large:
            kept["payload"] = noise(LARGE_CHARACTERS, int(draw * 10**9))
        body = json.dumps(kept)[:-1] + f', "value": {value}}}'
        return Letter(body, Sent(key, record_id, ts, 1, amount))

    def _dated(self, now: int) -> Letter:
        return self._event(now, self._new_id(), dated=True)

    def _anonymous(self, now: int) -> Letter:
        return self._event(now, None, dated=self._random.random() < 0.5)

    def _undated(self, now: int) -> Letter:
        return self._event(now, self._new_id(), dated=False)

    def _uuid7(self, now: int) -> Letter:
        ts, rest = self._time(now), self._random.getrandbits(60)
        digits = f"{ts:012x}7{rest:015x}"
        record_id = (
            f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-8{digits[17:20]}-{digits[20:]}0000"
        )
        letter = self._event(now, record_id, dated=False)
        return Letter(letter.body, Sent(letter.sent.key, record_id, ts, 1, letter.sent.amount))

    def _packet(self, now: int) -> Letter:
        t0 = self._past() or now - int(self._random.random() * 5_000)
        room = self._window_ms - t0 % self._window_ms
        events, amounts, times = [], [], []
        mixed = self._random.random() < 0.1
        for number in range(1 + int(self._random.random() * 5)):
            value, amount = self._value()
            dt = int(self._random.random() * min(room, 2_000))
            if number and mixed:
                dt = room + 5  # in the next window, unless windows are longer by then
            events.append(f"[{dt}, {value}]")
            amounts.append(amount)
            times.append(t0 + dt)
        key, record_id = self._key(), self._new_id()
        body = (
            f'{{"v": 1, "id": "{record_id}", "key": {json.dumps(key)}, "t0": {t0},'
            f' "events": [{", ".join(events)}]}}'
        )
        sent = Sent(key, record_id, times[0], len(times), sum(amounts), times=tuple(times))
        sent = replace(sent, amounts=tuple(amounts))
        return Letter(compressed(body) if self._number % 2 else body, sent)

    def _bad(self, _now: int) -> Letter:
        body, reason = BAD[int(self._random.random() * len(BAD))]
        return Letter(body, Sent(bad=reason))

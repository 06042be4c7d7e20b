"""A pipeline of another system's messages: most are mapped, and deployments change the mapping."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest

from tallyroll.adapters.memory import DeadLetter, MemoryCatalog
from tallyroll.errors import Reason
from tallyroll.ingest.placement import Placer
from tallyroll.model.foreign.mappings import Mappings
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.ports.store import Outcome, Verdict
from tests.simulation import pipeline
from tests.simulation.holdings import Identity, WeighedItems
from tests.simulation.operators import Operator
from tests.simulation.oracle import Oracle
from tests.simulation.pipeline import Result, System, simulate
from tests.simulation.plans import SETTINGS
from tests.simulation.planted import Planted
from tests.simulation.producers import KEYS, Letter
from tests.simulation.sent import Sent
from tests.simulation.world import UNBOUND, Bounds

NAMES = tuple(dict.fromkeys(KEYS))
REST = {"id": "view", "ts": "at", "value": "n"}
BY_VIDEO, BY_CHANNEL, BROKEN = (
    {"key": name, **REST} for name in ("video", "who.channel", "who.nothing")
)
SLOW_APPENDS = {"slow_verb": "append_mapping", "slow_ms": 60_000, "tardy": 0.2}
MAPPINGS: tuple[dict[str, str], ...] = (BY_VIDEO, BY_CHANNEL, BROKEN, {})


@dataclass(frozen=True, slots=True)
class Foreign(Sent):
    """A message to be mapped; `key` is its video."""

    @property
    def channel(self) -> str:
        """The key that another mapping gives it."""
        return NAMES[(NAMES.index(self.key) + 1) % len(NAMES)]


def foreign(letter: Letter) -> Letter:
    """The same letter as another system's message if it has an id and a time, or else marked."""
    if letter.sent.bad:
        return letter
    given = json.loads(letter.body)
    if "events" in given or not given.get("id") or not given.get("ts"):
        return Letter(json.dumps({**given, "v": 1}), letter.sent)
    told = {field.name: getattr(letter.sent, field.name) for field in fields(Sent)}
    sent = Foreign(**told)
    message: dict[str, Any] = {
        "video": sent.key,
        "who": {"channel": sent.channel},
        "view": given["id"],
        "at": given["ts"],
        "n": given.get("value", 1),
    }
    if len(given["id"]) % 2:
        text = json.dumps(message)
        message = {"Type": "Notification", "TopicArn": "t", "MessageId": "m", "Message": text}
    return Letter(json.dumps(message), sent)


class MappedOracle(Oracle):
    """Works out by itself which key a message has, and that it has no other ever."""

    catalog: MemoryCatalog

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._key_of_first: dict[str, str] = {}

    def identity_of(self, sent: Sent) -> Identity:
        window, _, record_id = super().identity_of(sent)
        return window, self._key_of(sent), record_id

    def _home_of(self, sent: Sent) -> Identity:
        window, _, record_id = super()._home_of(sent)
        return window, self._key_of(sent), record_id

    def _key_of(self, sent: Sent) -> str:
        """Its key by the mapping of its sending, or by the first later one that finds a key; empty
        if none does.
        """
        if not isinstance(sent, Foreign):
            return sent.key
        for mapping in self._held(sent):
            if mapping in (BY_VIDEO, BY_CHANNEL):
                return sent.key if mapping == BY_VIDEO else sent.channel
        return ""

    def _held(self, sent: Sent) -> list[dict[str, str]]:
        """The mappings since its sending, the one that held then first."""
        calendar = self.catalog.calendar()
        entries = calendar.mappings.entries if calendar else ()
        at = sent.first_sent or sent.sent
        past = max((number for number, (since, _) in enumerate(entries) if since <= at), default=0)
        return [json.loads(text) if text else {} for _, text in entries[past:]]

    def on_send(self, sent: Sent) -> None:
        super().on_send(sent)
        if isinstance(sent, Foreign):
            self._by_id.setdefault((sent.channel, sent.id), []).append(sent)

    def on_letter_deleted(self, first_id: str) -> None:
        first = self.sent[first_id]
        counted = (first.n, first.amount) in self._counted.get((self._key_of(first), first.id), ())
        if not counted and first_id not in self._redriven:
            self._world.fail(f"2: the dead letter of {first} was deleted, and it is nowhere")

    def on_commit(
        self, spec: Spec, records: list[Record], outcome: Outcome, items: WeighedItems
    ) -> None:
        """Check that a message has the key that it had when it was counted first."""
        super().on_commit(spec, records, outcome, items)
        if outcome.verdict is not Verdict.COMMITTED:
            return
        calendar = self.catalog.calendar()
        until = calendar.mappings.until if calendar else 0
        for record in records:
            for sent in self._messages_of((spec.window, record.key, record.id)):
                if (sent.first_sent or sent.sent) >= until:
                    continue  # no writer has read this copy yet
                first = sent.first_id or sent.message_id
                if self._key_of_first.setdefault(first, record.key) != record.key:
                    had = self._key_of_first[first]
                    self._world.fail(f"5: {first} counted under {had!r} and {record.key!r}")

    def _deserved(
        self, sent: Sent, letter: DeadLetter, catalog: MemoryCatalog, *, counted: bool
    ) -> bool:
        holds = next(iter(self._held(sent)), None)
        if letter.reason is Reason.MAPPING_FAILED:
            return holds == BROKEN or bool(sent.bad)
        if letter.reason is Reason.BAD_KEY:
            return holds == {} or bool(sent.bad)
        return super()._deserved(sent, letter, catalog, counted=counted)


class MappedOperator(Operator):
    """Deploys other mappings, too."""

    def _changes(self) -> dict[str, Any]:
        drawn = self._world.current.aside.random()
        return {**super()._changes(), "mapping": MAPPINGS[int(drawn * len(MAPPINGS))]}


class MappedSystem(System):
    """A system that had a mapping from its first deployment on."""

    base = replace(SETTINGS, mapping=BY_VIDEO)
    oracle: MappedOracle

    def __init__(self, seed: int, bounds: Bounds = UNBOUND) -> None:
        super().__init__(seed, bounds)
        self.oracle.catalog = self.catalog

    def _send(self, letter: Any) -> None:
        super()._send(foreign(letter))


def simulate_mapped(seed: int, /, **tweaks: Any) -> tuple[Result, Mappings]:
    """Run one seed with mapped messages; also gives the mappings at its end."""
    made: list[MappedSystem] = []

    def system(seed: int, bounds: Bounds) -> MappedSystem:
        made.append(MappedSystem(seed, bounds))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "Oracle", MappedOracle)
        patch.setattr(pipeline, "Operator", MappedOperator)
        patch.setattr(pipeline, "System", system)
        result = simulate(seed, **tweaks)
    calendar = made[0].catalog.calendar()
    return result, calendar.mappings if calendar else Mappings()


# --- planted mistakes


def read_without_settling(patch: pytest.MonkeyPatch) -> None:
    """Writers believe their list, and a later mapping may hold for what they have counted."""
    patch.setattr(Placer, "_calendar_for", lambda self, _cases: self.cached.calendar())


def appended_without_a_condition(patch: pytest.MonkeyPatch) -> None:
    """A roller that slept appends from where it once read that nothing was settled."""

    def append(self: MemoryCatalog, read: Mappings, text: str) -> None:
        if self._calendar:
            kept = self._calendar.mappings
            entries = (*kept.entries, (read.until, text))
            self._calendar = replace(self._calendar, mappings=replace(kept, entries=entries))

    patch.setattr(MemoryCatalog, "append_mapping", append)


PLANTED = (
    Planted(read_without_settling, 0),
    Planted(appended_without_a_condition, 0, SLOW_APPENDS),
)

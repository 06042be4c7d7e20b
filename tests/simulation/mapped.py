"""A pipeline of another system's messages: most are mapped, and deployments change the mapping.

Some mappings count each event under several keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest

import tallyroll.ingest.transactions
import tallyroll.ingest.writer
import tallyroll.model.foreign.mapping
from tallyroll.adapters.memory import DeadLetter, MemoryCatalog
from tallyroll.ingest.placement import Placer
from tallyroll.ingest.transactions import Commit, Continuation, _bisected, plan
from tallyroll.ingest.writer import BatchReport, Writer
from tallyroll.model.foreign.mappings import Mappings
from tallyroll.model.records import Record, all_records
from tallyroll.model.specs import Spec
from tallyroll.ports.store import Metering, Outcome, Verdict
from tallyroll.reasons import Reason
from tests.simulation import pipeline
from tests.simulation.holdings import Found, Identity, WeighedItems
from tests.simulation.identity_book import Content
from tests.simulation.operators import Operator
from tests.simulation.oracle import Oracle
from tests.simulation.pipeline import Result, System, simulate
from tests.simulation.plans import SETTINGS
from tests.simulation.planted import Planted
from tests.simulation.planted_retractions import one_key_of_a_group_retracted
from tests.simulation.producers import KEYS, Letter
from tests.simulation.sent import Sent
from tests.simulation.world import UNBOUND, Bounds

NAMES = tuple(dict.fromkeys(KEYS))
REST = {"id": "view", "ts": "at", "value": "n"}
BY_VIDEO, BY_CHANNEL, BROKEN = (
    {"key": name, **REST} for name in ("video", "who.channel", "who.nothing")
)
FANNED = {"keys": ["{video}", "{who.channel}", "minute:{%M}"], **REST}
SLOW_APPENDS = {"slow_verb": "append_mapping", "slow_ms": 60_000, "tardy": 0.2}
MAPPINGS: tuple[dict[str, Any], ...] = (BY_VIDEO, FANNED, BY_CHANNEL, BROKEN, FANNED, {})


@dataclass(frozen=True, slots=True)
class Foreign(Sent):
    """A message to be mapped; `key` is its video."""

    @property
    def channel(self) -> str:
        """The key that another mapping gives it."""
        return NAMES[(NAMES.index(self.key) + 1) % len(NAMES)]

    @property
    def minute(self) -> str:
        """The key that its time gives it."""
        return f"minute:{self.time // 60_000 % 60:02}"


def foreign(letter: Letter) -> Letter:
    """The same letter as another system's message if it has an id and a time, or else marked."""
    if letter.sent.bad:
        return letter
    given = json.loads(letter.body)
    if "zlib" in given:  # marked by its form
        return letter
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
    """Works out by itself which keys a message has, and that it has no others ever."""

    catalog: MemoryCatalog

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._keys_of_first: dict[str, tuple[str, ...]] = {}
        self.fanned = 0

    def identity_of(self, sent: Sent) -> Identity:
        return self.identities_of(sent)[0]

    def identities_of(self, sent: Sent) -> list[Identity]:
        window, _, record_id = super().identity_of(sent)
        return [(window, key, record_id) for key in self._keys_of(sent)]

    def content_of(self, sent: Sent) -> Content:
        return self._keys_of(sent), *super().content_of(sent)

    def _home_of(self, sent: Sent) -> Identity:
        window, _, record_id = super()._home_of(sent)
        return window, self._keys_of(sent)[0], record_id

    def _messages_of(self, identity: Identity) -> list[Sent]:
        sent = self._by_id.get(identity[1:], [])
        return [each for each in sent if identity in self.identities_of(each)]

    def _keys_of(self, sent: Sent) -> tuple[str, ...]:
        """Its keys, ascending, by the mapping of its sending, or by the first later one that finds
        some; an empty one if none does.
        """
        if not isinstance(sent, Foreign):
            return (sent.key,)
        for mapping in self._held(sent):
            if mapping == FANNED:
                return tuple(sorted((sent.key, sent.channel, sent.minute)))
            if mapping in (BY_VIDEO, BY_CHANNEL):
                return (sent.key if mapping == BY_VIDEO else sent.channel,)
        return ("",)

    def _held(self, sent: Sent) -> list[dict[str, Any]]:
        """The mappings since its sending, the one that held then first."""
        calendar = self.catalog.calendar()
        entries = calendar.mappings.entries if calendar else ()
        at = sent.first_sent or sent.sent
        past = max((number for number, (since, _) in enumerate(entries) if since <= at), default=0)
        return [json.loads(text) if text else {} for _, text in entries[past:]]

    def on_send(self, sent: Sent) -> None:
        super().on_send(sent)
        if isinstance(sent, Foreign):
            for key in (sent.channel, sent.minute):
                self._by_id.setdefault((key, sent.id), []).append(sent)

    def on_commit(
        self, spec: Spec, records: list[Record], outcome: Outcome, items: WeighedItems
    ) -> None:
        """Check that a message has the keys that it had when it was counted first, and that the
        counters of an event do not disagree.
        """
        super().on_commit(spec, records, outcome, items)
        if outcome.verdict is not Verdict.COMMITTED:
            return
        calendar = self.catalog.calendar()
        until = calendar.mappings.until if calendar else 0
        counted = {(spec.window, record.key, record.id): record for record in records}
        for identity in counted:
            messages = self._messages_of(identity)
            self._check_agreement(identity, counted, messages)
            for sent in messages:
                if (sent.first_sent or sent.sent) >= until:
                    continue  # no writer has read this copy yet
                first, keys = sent.first_id or sent.message_id, self._keys_of(sent)
                if self._keys_of_first.setdefault(first, keys) != keys:
                    had = self._keys_of_first[first]
                    self._world.fail(f"5: {first} counted under {had!r} and {keys!r}")

    def _check_agreement(
        self, identity: Identity, counted: Mapping[Identity, Record], messages: Sequence[Sent]
    ) -> None:
        """Check that a commit counts an event under all of its keys, with one amount."""
        record = counted[identity]
        groups = [
            self.identities_of(sent)
            for sent in messages
            if (sent.n, sent.amount) == (record.n, record.amount)
        ]
        for group in groups:
            found = [counted.get(each) for each in group]
            if all(each and (each.n, each.amount) == (record.n, record.amount) for each in found):
                self.fanned += len(group) > 1
                return
        self._world.fail(f"1: the counters of {identity} disagree: it has the keys of {groups}")

    def _count_once(self, identity: Identity, messages: Sequence[Sent]) -> None:
        """Check the same of each of an event's keys."""
        _, key, record_id = identity
        homes = {(Oracle._home_of(self, sent)[0], key, record_id) for sent in messages}
        for home in (identity,) if identity in homes else homes:
            counts_as = self._counts_as.setdefault(home, identity)
            if counts_as != identity:
                self._world.fail(f"1: {home} counts as {counts_as} and as {identity}")

    def _judge(self, sent: Sent, found: Found, catalog: MemoryCatalog, *, waits: bool) -> None:
        super()._judge(sent, found, catalog, waits=waits)
        stored = [found.records.get(each) for each in self.identities_of(sent)]
        mine = (sent.n, sent.amount)
        rivals = [each for each in self._rivals_of(sent) if (each.n, each.amount) == mine]
        if mine in stored and set(stored) != {mine} and not rivals:
            self._world.fail(f"1: {sent} counts under some of its keys: {stored}")

    def _rivals_of(self, sent: Sent) -> list[Sent]:
        """The messages of another content that have one of its identities."""
        mine = self.content_of(sent)
        return [
            rival
            for identity in self.identities_of(sent)
            for rival in self._messages_of(identity)
            if self.content_of(rival) != mine
        ]

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


class FannedSystem(MappedSystem):
    """The same, with a mapping of several keys."""

    base = replace(SETTINGS, mapping=FANNED)


def simulate_mapped(seed: int, /, **tweaks: Any) -> tuple[Result, Mappings, int]:
    """Run one seed with mapped messages; also gives the mappings at its end, and how many records
    of events of several keys were counted.
    """
    made: list[MappedSystem] = []

    def system(seed: int, bounds: Bounds) -> MappedSystem:
        made.append((FannedSystem if seed % 2 else MappedSystem)(seed, bounds))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "Oracle", MappedOracle)
        patch.setattr(pipeline, "Operator", MappedOperator)
        patch.setattr(pipeline, "System", system)
        result = simulate(seed, **tweaks)
    calendar = made[0].catalog.calendar()
    mappings = calendar.mappings if calendar else Mappings()
    return result, mappings, made[0].oracle.fanned


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


def events_divided_by_the_plan(patch: pytest.MonkeyPatch) -> None:
    """Each record of an event is committed, retried and judged by itself."""

    def divided(spec: Spec, records: Iterable[Record], metering: Metering) -> list[Commit]:
        apart = [replace(record, others=()) for record in all_records(records)]
        return plan(spec, apart, metering)

    patch.setattr(tallyroll.ingest.writer, "plan", divided)


def events_divided_by_bisecting(patch: pytest.MonkeyPatch) -> None:
    def halved(commit: Commit, detail: str) -> Continuation:
        apart = tuple(replace(record, others=()) for record in commit.puts)
        return _bisected(replace(commit, records=apart), detail)

    patch.setattr(tallyroll.ingest.transactions, "_bisected", halved)


def keys_by_processing_time(patch: pytest.MonkeyPatch) -> None:
    """A template's minute is that in which the writer works."""
    write, clock = Writer.write, {"now": 0}

    def written(self: Writer, messages: Any, time_left_ms: int) -> BatchReport:
        clock["now"] = self.effects.now()
        return write(self, messages, time_left_ms)

    patch.setattr(Writer, "write", written)
    patch.setattr(tallyroll.model.foreign.mapping, "event_time", lambda *_: clock["now"])


PLANTED = (
    Planted(events_divided_by_the_plan, 1),
    Planted(events_divided_by_bisecting, 2),
    Planted(keys_by_processing_time, 1),
    Planted(one_key_of_a_group_retracted, 7),
    Planted(read_without_settling, 0),
    Planted(appended_without_a_condition, 7, SLOW_APPENDS),
)

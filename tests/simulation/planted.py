"""Bugs to plant: each patches the core or its store so that one promise no longer holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

import tallyroll.cleanup
import tallyroll.commits
import tallyroll.placing
import tallyroll.sealing
from tallyroll.errors import StoreError
from tallyroll.items import gate_item, record_item
from tallyroll.memory import MemoryStore
from tallyroll.ports import Outcome, Verdict
from tallyroll.records import Increment, Record
from tallyroll.specs import Spec
from tallyroll.writer import Writer

Patch = pytest.MonkeyPatch
COMMIT = MemoryStore.commit


def _write(store: Any, spec: Spec, records: Sequence[Record], added: Sequence[Increment]) -> None:
    items = store.items(spec.table)
    puts = [record_item(record) for record in records]
    for item in puts + [store._added(spec, items, increment) for increment in added]:
        items[item["pk"]["S"], item["sk"]["S"]] = item


def put_without_condition(patch: Patch) -> None:
    def commit(
        self: Any, spec: Spec, records: Sequence[Record], increments: Sequence[Increment]
    ) -> Outcome:
        outcome = COMMIT(self, spec, records, increments)
        if outcome.verdict is not Verdict.CANCELLED:
            return outcome
        _write(self, spec, records, increments)
        return Outcome(Verdict.COMMITTED)

    patch.setattr(MemoryStore, "commit", commit)


def tally_outside_the_transaction(patch: Patch) -> None:
    def commit(
        self: Any, spec: Spec, records: Sequence[Record], increments: Sequence[Increment]
    ) -> Outcome:
        outcome = COMMIT(self, spec, records, ())
        if outcome.verdict is Verdict.COMMITTED:
            self._system.world.step()
            _write(self, spec, (), increments)
        return replace(outcome, increments=outcome.records[:1] * len(increments))

    patch.setattr(MemoryStore, "commit", commit)


def gate_ignored(patch: Patch) -> None:
    def commit(
        self: Any, spec: Spec, records: Sequence[Record], increments: Sequence[Increment]
    ) -> Outcome:
        outcome = COMMIT(self, spec, records, increments)
        known = {sk[2:] for _, sk in self.items(spec.table)} if outcome.verdict in SHUT else ()
        if outcome.verdict not in SHUT or any(record.id in known for record in records):
            return outcome
        _write(self, spec, records, increments)
        return Outcome(Verdict.COMMITTED)

    patch.setattr(MemoryStore, "commit", commit)


SHUT = (Verdict.GATE_SHUT,)


def random_shard_per_delivery(patch: Patch) -> None:
    chance = Random(1)

    def shard(self: Spec, key: str, record_id: str) -> int:
        return int(chance.random() * self.shards_of(key)) + 1

    patch.setattr(Spec, "shard", shard)


def unknown_taken_for_success(patch: Patch) -> None:
    after = tallyroll.commits.after

    def hopeful(commit: Any, outcome: Outcome, *rest: Any) -> Any:
        if outcome.verdict is Verdict.UNKNOWN:
            outcome = Outcome(Verdict.COMMITTED)
        return after(commit, outcome, *rest)

    patch.setattr(tallyroll.commits, "after", hopeful)


def window_by_processing_time(patch: Patch) -> None:
    write, clock = Writer.write, {"now": 0}

    def written(self: Any, messages: Any, time_left_ms: int) -> Any:
        clock["now"] = self._effects.now()
        return write(self, messages, time_left_ms)

    patch.setattr(Writer, "write", written)
    patch.setattr(tallyroll.placing, "event_time", lambda envelope, sent: clock["now"])


def rejects_acknowledged_before_sent(patch: Patch) -> None:
    reject = Writer._reject

    def careless(self: Any, cases: Any) -> None:
        fates = [case.fate for case in cases]
        with suppress(StoreError):
            reject(self, cases)
        for case, fate in zip(cases, fates, strict=True):
            case.fate = fate

    patch.setattr(Writer, "_reject", careless)


def dropped_without_proof(patch: Patch) -> None:
    patch.setattr(tallyroll.cleanup, "prove", lambda *_: 0)


def gates_left_open_when_sealing(patch: Patch) -> None:
    patch.setattr(MemoryStore, "shut_gate", lambda *_: None)


def tallies_listed_before_the_gates_are_shut(patch: Patch) -> None:
    seal = tallyroll.sealing.seal

    def hasty(spec: Spec, store: Any, totals: Any, effects: Any, deadline: int) -> Any:
        listed = {number: store.bucket(spec, number) for number in range(1, spec.buckets + 1)}
        store.shut_gates(spec)

        class Stale:
            def bucket(self, spec: Spec, number: int) -> Any:
                return listed[number]

        return seal(spec, Stale(), totals, effects, deadline)  # type: ignore[arg-type]

    patch.setattr("tallyroll.roller.seal", hasty)
    patch.setattr("tallyroll.roller.Roller._shut", lambda self, window: None)


def gates_opened_blindly(patch: Patch) -> None:
    def open_gate(self: Any, spec: Spec, number: int) -> None:
        item = gate_item(number)
        self.items(spec.table)[item["pk"]["S"], item["sk"]["S"]] = item

    patch.setattr(MemoryStore, "open_gate", open_gate)


@dataclass(frozen=True)
class Planted:
    """A bug, the seeds within which it must be caught, and the weather in which it shows sooner."""

    bug: Callable[[Patch], None]
    seeds: int = 12
    weather: Mapping[str, object] = field(default_factory=dict)


DROWSY: Mapping[str, object] = {
    "stall": 0.04,
    "stall_ms_max": 900_000,
    "zombie": 1.0,
    "slow_verb": "make_table",
    "slow_ms": 9_000,
    "duplicate": 0.7,
    "belated": 0.2,
}
LATE_CLOSERS = {"misread": 1.0, "slow_verb": "bucket", "slow_ms": 9_000}
SLEEPERS = {
    "stall": 0.02,
    "stall_ms_max": 600_000,
    "zombie": 1.0,
    "slow_verb": "open_gate",
    "slow_ms": 9_000,
}
PLANTED = (
    Planted(put_without_condition),
    Planted(tally_outside_the_transaction),
    Planted(gate_ignored, 25, {"misread": 1.0}),
    Planted(random_shard_per_delivery),
    Planted(unknown_taken_for_success),
    Planted(window_by_processing_time),
    Planted(rejects_acknowledged_before_sent),
    Planted(dropped_without_proof),
    Planted(gates_left_open_when_sealing, 25, {"misread": 1.0}),
    Planted(tallies_listed_before_the_gates_are_shut, 60, LATE_CLOSERS),
    Planted(gates_opened_blindly, 60, SLEEPERS),
)

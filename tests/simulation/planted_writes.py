"""Bugs of the write path."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import tallyroll.ingest.placement
import tallyroll.ingest.transactions
import tallyroll.ingest.writer
import tallyroll.model.records
from tallyroll.adapters.dynamodb.items import chunk_item, record_item
from tallyroll.adapters.memory import MemoryCatalog, MemoryStore
from tallyroll.adapters.memory.store import _added
from tallyroll.errors import StoreError
from tallyroll.ingest.fates import Disposition, Fate
from tallyroll.ingest.placement import Placer
from tallyroll.ingest.writer import Writer
from tallyroll.model.acceptance import check_accepts
from tallyroll.model.records import Increment, Record
from tallyroll.model.specs import Spec
from tallyroll.ports.store import Outcome, Verdict

Patch = pytest.MonkeyPatch
COMMIT = MemoryStore.commit


def _write(store: Any, spec: Spec, records: Sequence[Record], added: Sequence[Increment]) -> None:
    items = store.items(spec.table)
    stripes = store._stripes(spec, added)
    puts = [record_item(replace(each, stripe=stripes.get(each.key))) for each in records]
    for item in puts + [_added(spec, items, each, 0, stripes[each.key]) for each in added]:
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


def chunks_outside_the_transaction(patch: Patch) -> None:
    """They are put first, as on a store without transactions, and stay if nothing follows."""

    def commit(
        self: Any, spec: Spec, records: Sequence[Record], increments: Sequence[Increment]
    ) -> Outcome:
        for chunk in (each for record in records for each in record.chunks):
            item = chunk_item(chunk)
            self.items(spec.table)[item["pk"]["S"], item["sk"]["S"]] = item
        bare = [replace(record, attachments=()) for record in records]
        return COMMIT(self, spec, bare, increments)

    patch.setattr(MemoryStore, "commit", commit)


def chunks_dropped_in_the_retry(patch: Patch) -> None:
    later = tallyroll.ingest.transactions._later

    def bare(commit: Any, *rest: Any) -> Any:
        again = later(commit, *rest)
        return replace(again, records=tuple(replace(one, attachments=()) for one in again.records))

    patch.setattr(tallyroll.ingest.transactions, "_later", bare)


def gate_ignored(patch: Patch) -> None:
    shut = (Verdict.GATE_SHUT,)

    def commit(
        self: Any, spec: Spec, records: Sequence[Record], increments: Sequence[Increment]
    ) -> Outcome:
        outcome = COMMIT(self, spec, records, increments)
        known = {sk[2:] for _, sk in self.items(spec.table)} if outcome.verdict in shut else ()
        if outcome.verdict not in shut or any(record.id in known for record in records):
            return outcome
        _write(self, spec, records, increments)
        return Outcome(Verdict.COMMITTED)

    patch.setattr(MemoryStore, "commit", commit)


def random_shard_per_delivery(patch: Patch) -> None:
    chance = Random(1)

    def shard(self: Spec, key: str, record_id: str) -> int:
        return int(chance.random() * self.shards_of(key)) + 1

    patch.setattr(Spec, "shard", shard)


def window_by_processing_time(patch: Patch) -> None:
    write, clock = Writer.write, {"now": 0}

    def written(self: Any, messages: Any, time_left_ms: int) -> Any:
        clock["now"] = self.effects.now()
        return write(self, messages, time_left_ms)

    patch.setattr(Writer, "write", written)
    for module in (tallyroll.ingest.placement, tallyroll.model.records):
        patch.setattr(module, "event_time", lambda envelope, sent: clock["now"])


def lateness_by_processing_time(patch: Patch) -> None:
    """A backlog that outlives its windows is rejected, though it was sent in time."""
    write, clock = Writer.write, {"now": 0}

    def written(self: Any, messages: Any, time_left_ms: int) -> Any:
        clock["now"] = self.effects.now()
        return write(self, messages, time_left_ms)

    patch.setattr(Writer, "write", written)
    patch.setattr(
        tallyroll.ingest.placement,
        "check_accepts",
        lambda spec, ts, sent: check_accepts(spec, ts, clock["now"]),
    )


def conflicts_taken_for_duplicates(patch: Patch) -> None:
    for module in (tallyroll.ingest.transactions, tallyroll.ingest.writer):
        patch.setattr(module, "beside_stored", lambda *_: Fate(Disposition.DUPLICATE))


def unknown_taken_for_success(patch: Patch) -> None:
    after = tallyroll.ingest.transactions.after

    def hopeful(commit: Any, outcome: Outcome, *rest: Any) -> Any:
        if outcome.verdict is Verdict.UNKNOWN:
            outcome = Outcome(Verdict.COMMITTED)
        return after(commit, outcome, *rest)

    patch.setattr(tallyroll.ingest.transactions, "after", hopeful)


def remembered_before_the_answer(patch: Patch) -> None:
    """A message whose commit fails comes again, and is taken for one that was counted."""
    count = Writer._count

    def hasty(self: Any, placed: Any, *rest: Any) -> Any:
        self._memory.keep(each.message for each in placed)
        return count(self, placed, *rest)

    patch.setattr(Writer, "_count", hasty)


def duplicates_kept_in_the_retry(patch: Patch) -> None:
    """A commit with a duplicate is cancelled again and again: nothing of it ever counts."""
    patch.setattr(tallyroll.ingest.transactions, "_fate", lambda record, element: None)


def duplicates_still_tallied_in_the_retry(patch: Patch) -> None:
    sorted_out = tallyroll.ingest.transactions._sorted_out

    def careless(commit: Any, *rest: Any) -> Any:
        step = sorted_out(commit, *rest)
        for again in step.commits:
            object.__setattr__(again, "increments", commit.increments)
        return step

    patch.setattr(tallyroll.ingest.transactions, "_sorted_out", careless)


def rejects_acknowledged_before_sent(patch: Patch) -> None:
    reject = Writer._reject

    def careless(self: Any, cases: Any) -> Any:
        with suppress(StoreError):
            reject(self, cases)
        return cases

    patch.setattr(Writer, "_reject", careless)


def shards_by_the_writers_own_settings(patch: Patch) -> None:
    """N changes within a window as soon as a deployment changes it."""
    assign = Placer._assign

    def assigned(self: Any, case: Any, envelope: Any, ts: int, spec: Spec) -> Any:
        own = self.settings
        spec = replace(spec, shards=own.shards, hot=own.hot_shards)
        return assign(self, case, envelope, ts, spec)

    patch.setattr(Placer, "_assign", assigned)


def stripes_by_the_writers_own_settings(patch: Patch) -> None:
    """As if a spec were cached that belongs to another deployment."""
    assign = Placer._assign

    def assigned(self: Any, case: Any, envelope: Any, ts: int, spec: Spec) -> Any:
        own = self.settings
        spec = replace(spec, buckets=own.buckets, stripes_min=own.stripes_min)
        return assign(self, case, envelope, ts, spec)

    patch.setattr(Placer, "_assign", assigned)


def spec_replaced_by_a_later_deployment(patch: Patch) -> None:
    def put_spec(self: Any, spec: Spec, wishes: int | None = None) -> Spec:
        self._specs[spec.window] = spec
        return spec

    patch.setattr(MemoryCatalog, "put_spec", put_spec)


def sent_before_it_was_opened(patch: Patch) -> None:
    """A past window takes in what was sent before it was opened for that."""

    def lenient(spec: Spec, ts: int, sent: int) -> None:
        check_accepts(replace(spec, accept_from=0), ts, sent)

    patch.setattr(tallyroll.ingest.placement, "check_accepts", lenient)

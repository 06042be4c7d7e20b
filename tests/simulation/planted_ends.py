"""Bugs of closing, sealing, exporting and dropping windows."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

import tallyroll.archive.proof
import tallyroll.lifecycle.cleanup
import tallyroll.lifecycle.dropper
import tallyroll.lifecycle.proven
import tallyroll.lifecycle.sealing
from tallyroll.adapters.dynamodb.items import DynamoItemCodec, gate_item
from tallyroll.adapters.memory import MemoryBucket, MemoryCatalog, MemoryStore
from tallyroll.archive.layout import prefix_of, proof_key
from tallyroll.lifecycle.cleanup import Cleanup
from tallyroll.lifecycle.state_machine import Step, WindowFacts
from tallyroll.model import windows
from tallyroll.model.items import StoredItem
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status, Window
from tallyroll.model.windows import WindowLength, end_of, start_of
from tallyroll.ports.bucket import Bucket

Patch = pytest.MonkeyPatch
ALL = 1_000_000


def gates_shut_but_one(patch: Patch) -> None:
    """Sealing begins before the last gate is shut."""
    shut_gate = MemoryStore.shut_gate

    def shut(self: Any, spec: Spec, number: int) -> None:
        if number < spec.gates:
            shut_gate(self, spec, number)

    patch.setattr(MemoryStore, "shut_gate", shut)


def gates_opened_blindly(patch: Patch) -> None:
    def open_gate(self: Any, spec: Spec, number: int) -> None:
        item = gate_item(number)
        self.items(spec.table)[item["pk"]["S"], item["sk"]["S"]] = item

    patch.setattr(MemoryStore, "open_gate", open_gate)


def tallies_listed_before_the_gates_are_shut(patch: Patch) -> None:
    seal = tallyroll.lifecycle.sealing.seal

    def hasty(spec: Spec, store: Any, totals: Any, effects: Any, begun: Any) -> Any:
        numbers = range(1, spec.buckets + 1)
        listed = {number: list(store.stripes(spec, number, begun.place, ALL)) for number in numbers}
        store.shut_gates(spec)

        class Stale:
            metering_of = staticmethod(store.metering_of)

            def fold(self, *_: Any) -> Any:
                return iter(())

            def stripes(self, spec: Spec, number: int, *_: Any) -> Any:
                return iter(listed[number])

        return seal(spec, Stale(), totals, effects, begun)  # type: ignore[arg-type]

    patch.setattr("tallyroll.lifecycle.roller.seal", hasty)
    patch.setattr("tallyroll.lifecycle.roller.Roller._shut", lambda self, window: None)
    patch.setattr(tallyroll.lifecycle.sealing, "STRIPES_PER_SLICE", ALL)


def bucket_cut_after_a_page(patch: Patch) -> None:
    """A listing of tallies ends after its first page."""
    stripes = MemoryStore.stripes
    patch.setattr(MemoryStore, "stripes", lambda self, *asked: islice(stripes(self, *asked), 1))


def closed_without_asking_the_queue(patch: Patch) -> None:
    patch.setattr("tallyroll.lifecycle.draining.drained", lambda *_: True)


def stragglers_forgotten(patch: Patch) -> None:
    """What the queue's age metric leaves out is taken for gone."""
    patch.setattr(MemoryCatalog, "stragglers", lambda *_: {})


def made_by_an_old_calendar(patch: Patch) -> None:
    """A roller that slept through a change of the windows' length makes one of the old length."""
    create = MemoryCatalog.create
    patch.setattr(MemoryCatalog, "create", lambda self, window, *_: create(self, window))


def length_where_the_new_windows_begin(patch: Patch) -> None:
    """Another length starts where a window of it begins, though one of the old length lasts on."""

    def bound(_: WindowLength, after: WindowLength, at: int) -> int:
        start = start_of(after, at)
        return start if start == at else end_of(after, start)

    patch.setattr(windows, "common_bound", bound)


def dropped_without_proof(patch: Patch) -> None:
    patch.setattr(tallyroll.lifecycle.cleanup, "prove", lambda *_: 0)
    patch.setattr(tallyroll.lifecycle.proven, "check_proof", lambda *_: None)


def dropped_by_the_state_alone(patch: Patch) -> None:
    """Cleanup writes `dropping` before it tags the table, and the dropper looks at no tag."""
    perform = Cleanup._perform

    def hasty(self: Any, hold: Any, step: Step, window: Window) -> Window:
        if step is not Step.DROP:
            return perform(self, hold, step, window)
        moved: Window = self._advance(window, Status.DROPPING, problem="")
        self._tag_proven(moved)
        return moved

    def by_state(window: Window, store: Any) -> WindowFacts:
        table = store.describe_table(window.table)
        return WindowFacts(table=table.status if table else None)

    patch.setattr(Cleanup, "_perform", hasty)
    patch.setattr(tallyroll.lifecycle.dropper, "facts_of_drop", by_state)


def proven_by_the_exports_status(patch: Patch) -> None:
    """The manifest is there: that has to do."""

    def trusting(window: Window, spec: Spec, codec: Any, bucket: Bucket, *_: Any) -> int:
        bucket.put(proof_key(window.attempt.archive), b"{}")
        return 0

    patch.setattr(tallyroll.lifecycle.cleanup, "prove", trusting)
    patch.setattr(tallyroll.lifecycle.proven, "check_proof", lambda *_: None)


def proven_by_checksums(patch: Patch) -> None:
    """Files and manifests agree: nothing is recounted, so that a short export goes unseen."""
    patch.setattr(tallyroll.archive.proof, "compare", lambda *_: [])
    patch.setattr(tallyroll.archive.proof, "keys_differing_from_totals", lambda *_: [])


def payloads_not_exported(patch: Patch) -> None:
    """Whatever is counted agrees."""
    encode = DynamoItemCodec.encode

    def poorer(self: Any, item: StoredItem) -> bytes:
        told = {name: value for name, value in item.attributes.items() if name != "data"}
        return encode(self, replace(item, attributes=told))

    patch.setattr(DynamoItemCodec, "encode", poorer)


def attempts_share_a_prefix(patch: Patch) -> None:
    """A second attempt writes over the archive of the first, which may be proven by then."""

    def put_once(self: Any, key: str, body: bytes) -> bytes:
        self.put(key, body)
        return body

    patch.setattr(
        tallyroll.lifecycle.cleanup,
        "prefix_of",
        lambda pipeline, window, attempt: prefix_of(pipeline, window, "only"),
    )
    patch.setattr(tallyroll.lifecycle.cleanup, "check_place", lambda *_: None)
    patch.setattr(tallyroll.lifecycle.proven, "check_place", lambda *_: None)
    patch.setattr(MemoryBucket, "put_once", put_once)

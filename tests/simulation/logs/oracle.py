"""What counts where keys are logged, by the oracle's own book: events by their messages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.ports.store import Outcome, Verdict
from tests.simulation.holdings import Identity, WeighedItems, logged
from tests.simulation.oracle import Oracle

ENTRY = "an entry of a log"
LEAVES = ("log1+zlib", "log1e+zlib")


class LogOracle(Oracle):
    """An oracle that knows no leaves, but the events in them."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._slots: dict[Identity, list[bool]] = {}
        self._put: list[tuple[Identity, int, bool]] = []

    def told(self, spec: Spec, records: Sequence[Record]) -> Sequence[Record]:
        self._put = [
            ((spec.window, each.key, each.id[:-3]), int(each.id[-2:]), each.format == LEAVES[1])
            for each in records
            if each.format in LEAVES
        ]
        return [*chain.from_iterable(self._apart(spec, record) for record in records)]

    def _apart(self, spec: Spec, record: Record) -> list[Record]:
        if record.format not in LEAVES:
            return [record]
        assert record.data
        rule, found = spec.logs[record.key], logged(record.data, record.n)
        group, slot, _ = map(int, record.id.removeprefix("~log.").split("."))
        for each in found:
            if each.sent // rule.slot_ms != group * rule.slots + slot:
                self._world.fail(f"8: {each} is not of the slot of {record.id}")
        return [
            Record(
                record.key, each.message, record.shard, each.ts, 1, each.amount, b"", format=ENTRY
            )
            for each in found
        ]

    def on_commit(
        self, spec: Spec, records: list[Record], outcome: Outcome, items: WeighedItems
    ) -> None:
        if outcome.verdict is Verdict.COMMITTED:
            for record in records:
                identity = (spec.window, record.key, record.id)
                if identity in self.stored:
                    self._world.fail(f"1: {identity} counted already, and counts again")
            for slot, position, ends in self._put:
                before = self._slots.setdefault(slot, [])
                if any(before) or len(before) != position:
                    self._world.fail(f"8: position {position} of {slot} after {before}")
                before.append(ends)
        super().on_commit(spec, records, outcome, items)

    def some_identity(self, chance: float) -> Identity | None:
        """One that is no entry: nobody can look up a message."""
        found = super().some_identity(chance)
        messages = self._messages_of(found) if found else []
        return None if any(sent.record_id is None for sent in messages) else found

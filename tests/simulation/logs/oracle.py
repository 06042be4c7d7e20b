"""What counts where keys are logged, by the oracle's own book: events by their messages; what is
taken back of them, by their leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.ports.store import Outcome, Verdict
from tests.simulation.holdings import Identity, Name, WeighedItems, logged
from tests.simulation.oracle import Oracle
from tests.simulation.retraction_book import Counted, RetractionBook
from tests.simulation.sent import Sent
from tests.simulation.world import World

ENTRY = "an entry of a log"
LEAVES = ("log1+zlib", "log1e+zlib")


class LogBook(RetractionBook):
    """A book in which an event of a log has the name by which it is listed: its leaf, and its index
    there. `places` are these names, by the events' messages.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.places: dict[str, Name] = {}

    def on_counted(self, window: str, record: Record, brought: Sent) -> None:
        if record.format != ENTRY:
            super().on_counted(window, record, brought)

    def on_leaf(self, window: str, leaf: Record) -> None:
        """Take note of a leaf: what is taken back of it is so as of a packet."""
        assert leaf.data
        inside = logged(leaf.data, leaf.n)
        amounts = tuple(each.amount for each in inside)
        name = (window, leaf.key, leaf.id)
        self.counted[name] = Counted((leaf.key,), window, leaf, amounts, self._world.now)
        self._windows.setdefault((leaf.key, leaf.id), []).append(window)
        self.places |= {each.message: (*name, index) for index, each in enumerate(inside)}


class LogOracle(Oracle):
    """An oracle that knows no leaves, but the events in them."""

    retractions: LogBook

    def __init__(self, world: World, *given: Any, **named: Any) -> None:
        super().__init__(world, *given, **named)
        self.retractions = LogBook(self, world)
        self._slots: dict[Identity, list[bool]] = {}
        self._put: list[Record] = []

    def told(self, spec: Spec, records: Sequence[Record]) -> Sequence[Record]:
        self._put = [each for each in records if each.format in LEAVES]
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
            for leaf in self._put:
                slot, position = (spec.window, leaf.key, leaf.id[:-3]), int(leaf.id[-2:])
                before = self._slots.setdefault(slot, [])
                if any(before) or len(before) != position:
                    self._world.fail(f"8: position {position} of {slot} after {before}")
                before.append(leaf.format == LEAVES[1])
                self.retractions.on_leaf(spec.window, leaf)
        super().on_commit(spec, records, outcome, items)

    def some_identity(self, chance: float) -> Identity | None:
        """One that is no entry: nobody can look up a message."""
        found = super().some_identity(chance)
        messages = self._messages_of(found) if found else []
        return None if any(sent.record_id is None for sent in messages) else found

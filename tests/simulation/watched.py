"""The in-memory ports of a simulation, every change of which the oracle sees."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tallyroll.adapters.dynamodb.items import TALLY, Item, Key
from tallyroll.adapters.memory import (
    MemoryCatalog,
    MemoryDeadLetters,
    MemoryStore,
)
from tallyroll.adapters.memory.queue import Held
from tallyroll.errors import Missing, Throttled
from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.model.ids import IdentityItem
from tallyroll.model.messages import Message, RedriveMark, Rejection
from tallyroll.model.periods import PeriodState, period_of, periods_at
from tallyroll.model.records import Increment, Record
from tallyroll.model.retractions import Authorization, Tombstone
from tallyroll.model.sharding import random_suffix
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar, LivePointer, Status, Window, Wish, Wishes
from tallyroll.model.tallies import Tally
from tallyroll.model.windows import WindowId
from tallyroll.ports.rate import Turn
from tallyroll.ports.store import Outcome, Verdict
from tallyroll.ports.table_listing import TableFacts, TableStatus
from tallyroll.settings import Settings
from tests.simulation.holdings import WeighedItems
from tests.simulation.identity_rules import THROTTLED, is_deleted, unanswered
from tests.simulation.plans import shown_in_part_ms
from tests.simulation.sqs_rules import StrictQueue
from tests.simulation.stale import CatalogLens, PastLens, StoreLens
from tests.simulation.world import SimEffects

if TYPE_CHECKING:
    from tests.simulation.pipeline import System


class SimStore(MemoryStore):
    """The store, watched by the oracle."""

    def __init__(self, system: System) -> None:
        creating_ms = system.world.random.random() ** 2 * 40_000
        super().__init__(
            SimEffects(system.world),
            system.catalog,
            creating_ms=creating_ms,
            deleting_ms=5_000,
            new_items=partial(WeighedItems, lambda: system.world.now),
        )
        self._system = system
        self._identity_lens = PastLens(system.world, ("identity_items",), ("identities",))
        self._lens = StoreLens(system.world, shown_in_part_ms(system.weather.clock_ms))
        self.shut_at: dict[str, int] = {}
        self.known: Mapping[str, int] = {}
        """How many stripes the process knows of whose commit is carried out now, by the key."""
        self.hints = True
        """Whether it adds hints to tallies."""

    def seen(self, verb: str) -> MemoryStore:
        """The store as a read by this verb may see it now."""
        if verb == "identities":
            return self._identity_lens.seen(self, verb)
        return self._lens.seen(self, verb)

    def known_at(self, table: str, at: float) -> TableFacts | None:
        """What DescribeTable said of a table that still stands, at `at` (ms)."""
        facts = self.describe_table(table)
        if facts is None:
            return None
        held = self.table(table)
        if at < held.ready_at - self._creating_ms:
            return None
        if at < held.ready_at:
            return TableFacts(TableStatus.CREATING, protected=True)
        if held.gone_at is not None and at < held.gone_at - self._deleting_ms:
            return TableFacts(TableStatus.ACTIVE, protected=True)
        return facts

    def weighed(self, table: str) -> WeighedItems:
        """A table's items."""
        items = self.items(table)
        assert isinstance(items, WeighedItems)
        return items

    def _changes(self, table: str) -> int:
        """How many changes of items a table knows: none if it is away, or being made."""
        try:
            return len(self.weighed(table).changes)
        except Missing:
            return 0

    def commit(
        self, spec: Spec, records: Sequence[Record], increments: Sequence[Increment]
    ) -> Outcome:
        """A commit, answered once queries see the whole of it."""
        world = self._system.world
        if any(record.identities for record in records):
            self._identity_lens.seen(self, "commit")
            self._forget()
            if how := self._away():
                return unanswered(how, records, increments)
        first = self._changes(spec.table)
        outcome = super().commit(spec, records, increments)
        records = self._system.oracle.told(spec, records)
        if outcome.verdict is not Verdict.GATE_MISSING:
            items = self.weighed(spec.table)
            self._system.oracle.on_commit(spec, list(records), outcome, items)
            shown_at = self._lens.take_apart(spec.table, items, first)
            if shown_at > world.now:
                self._system.historian.on_commit(spec, records, shown_at)
                world.pause(shown_at - world.now)
        return outcome

    def retract(self, spec: Spec, tombstones: Sequence[Tombstone]) -> Outcome:
        """The same of a transaction of tombstones."""
        world = self._system.world
        first = self._changes(spec.table)
        outcome = super().retract(spec, tombstones)
        if outcome.verdict is not Verdict.GATE_MISSING:
            items = self.weighed(spec.table)
            self._system.oracle.on_retract(spec, tombstones, outcome, items)
            shown_at = self._lens.take_apart(spec.table, items, first)
            if shown_at > world.now:
                self._system.historian.on_retract(spec, tombstones, shown_at)
                world.pause(shown_at - world.now)
        return outcome

    def tag_table(self, table: str, tags: Mapping[str, str]) -> None:
        """A table tagged as proven, which may be dropped from then on."""
        window = self._system.catalog.window(table.rpartition("-")[2])
        if window and window.attempt.id in tags.values():
            self._system.oracle.retractions.check_copy(window, self._system.bucket)
        super().tag_table(table, tags)

    def identities(self, names: Sequence[str]) -> Mapping[str, IdentityItem]:
        self._forget()
        how = self._away()
        if how == THROTTLED:
            raise Throttled("identities: throttled", "ThrottlingException")
        if how:
            raise Missing("identities: no such table", "ResourceNotFoundException")
        return super().identities(names)

    def _away(self) -> str:
        """How the table of identities does not answer now; "" if it does."""
        world = self._system.world
        how = self._system.plan.identities.away(world.now - world.start)
        if how:
            world.note(f"identities are {how}")
        return how

    def _forget(self) -> None:
        """Delete the identities that DynamoDB has deleted by now."""
        world, day_seconds = self._system.world, self._system.day_seconds
        if not self._system.plan.identities.forgets:
            return
        for name, item in [*self.identity_items.items()]:
            if is_deleted(world.seed, name, item, world.now, day_seconds):
                world.note("an identity is deleted")
                del self.identity_items[name]

    def record(self, spec: Spec, key: str, record_id: str) -> Record | None:
        self._lens.reveal(spec.table, [key])
        return super().record(spec, key, record_id)

    def tallies(self, spec: Spec, keys: Sequence[str]) -> dict[str, Tally]:
        self._lens.reveal(spec.table, keys)
        return super().tallies(spec, keys)

    def read_stripes(self, table: str, places: Sequence[Key]) -> list[Item]:
        """The existing ones of these stripes."""
        stripes = [each["sk"]["S"].removeprefix(TALLY) for each in places]
        self._lens.reveal(table, dict.fromkeys(each.rpartition(".")[0] for each in stripes))
        items = self.items(table)
        names = [(each["pk"]["S"], each["sk"]["S"]) for each in places]
        return [items[name] for name in names if name in items]

    def raise_stripes(self, table: str, place: Key, wide: int) -> None:
        """Say in a key's first stripe that there are so many, unless it is away or says more."""
        items, name = self.items(table), (place["pk"]["S"], place["sk"]["S"])
        if name in items and int(items[name].get("w", {"N": "0"})["N"]) < wide:
            items[name] = {**items[name], "w": {"N": str(wide)}}

    def _stripes(self, spec: Spec, increments: Sequence[Increment]) -> dict[str, int]:
        if not self.known:
            return super()._stripes(spec, increments)
        chance = self._effects.chance
        return {each.key: random_suffix(self.known[each.key], chance) for each in increments}

    def _blocks(self, spec: Spec, records: Sequence[Record]) -> Mapping[str, Collection[int]]:
        return super()._blocks(spec, records) if self.hints else {}

    def drop_table(self, table: str) -> None:
        facts = self.describe_table(table)
        if facts and facts.protected:
            window = self._system.catalog.window(table.rpartition("-")[2])
            items = self.weighed(table)
            oracle, bucket = self._system.oracle, self._system.bucket
            oracle.archives.on_drop(window, items, self.tags(table), bucket)
        super().drop_table(table)

    def shut_gate(self, spec: Spec, number: int) -> None:
        """A gate shut; one that is shut already changes nothing, however late a roller comes."""
        gates = [item for item in self.items(spec.table).values() if "open" in item]
        super().shut_gate(spec, number)
        if gates != [item for item in self.items(spec.table).values() if "open" in item]:
            self.shut_at[spec.table] = self._system.world.now

    def open_gate(self, spec: Spec, number: int) -> None:
        before = self.describe_table(spec.table) and dict(self.items(spec.table))
        super().open_gate(spec, number)
        if before:
            self._system.oracle.on_gate(spec, before, self.items(spec.table))


class SimCatalog(MemoryCatalog):
    """The catalog, watched by the oracle."""

    def __init__(self, system: System) -> None:
        super().__init__()
        self._system = system
        self._lens = CatalogLens(system.world, shown_in_part_ms(system.weather.clock_ms))

    def seen(self, verb: str) -> MemoryCatalog:
        """The catalog as a read by this verb may see it now."""
        return self._lens.seen(self, verb)

    def take_turn(self, turn: Turn) -> int:
        turn = turn.read_at(self._system.world.now * 1_000)
        start = super().take_turn(turn)
        self._system.leases.on_turn(turn, start)
        return start

    def overlapping(self, function: str) -> Sequence[str]:
        """What runs when a function does: with cleanup the dropper, which would only read if no
        window waited for it.
        """
        windows = self.windows(0, self._system.world.now) if function == "cleanup" else ()
        return ["dropper"] if any(one.status is Status.DROPPING for one in windows) else []

    def window(self, window: WindowId) -> Window | None:
        self._lens.reveal(window)
        return super().window(window)

    def found(self, calendar: Calendar) -> Calendar:
        before = self.calendar()
        stands = super().found(calendar)
        if before is None:
            self._system.oracle.spans.on_founded(stands.grid.lengths)
        return stands

    def extend(self, read: Calendar, extended: Calendar, live: LivePointer) -> bool:
        changed = super().extend(read, extended, live)
        if changed:
            self._system.world.note(f"windows are {extended.grid.lengths}")
            self._system.oracle.spans.on_length(*extended.grid.lengths[-1])
        return changed

    def create(self, window: Window, calendar: Calendar | None = None) -> bool:
        """A creation, answered once queries see the whole of it."""
        world = self._system.world
        before = {
            period.name: self._periods.get(period.name) for period in periods_at(window.start)
        }
        created = super().create(window, calendar)
        if created:
            self._system.oracle.spans.on_created(window)
            shown_at = self._lens.take_apart(window.id, before)
            if shown_at > world.now:
                world.pause(shown_at - world.now)
        return created

    def advance_period(self, state: PeriodState, *, settled: bool = False) -> PeriodState:
        changed = super().advance_period(state, settled=settled)
        self._system.world.note(f"{state.name} is at epoch {state.epoch} v{changed.version}")
        if changed.complete:
            period = period_of(state.name)
            windows = self.windows(period.start, period.end)
            self._system.oracle.on_rolled_up(changed, windows, self._system.totals.rolled())
        return changed

    def authorize(self, authorization: Authorization) -> None:
        super().authorize(authorization)
        self._system.oracle.retractions.on_authorized(authorization)

    @property
    def standing(self) -> Wishes:
        """The wishes that stand now."""
        return self._wishes

    @property
    def frozen(self) -> Sequence[Spec]:
        """All specs."""
        return list(self._specs.values())

    def put_wishes(self, read: Wishes, wanted: Mapping[str, Wish]) -> Wishes:
        before = self._wishes
        after = super().put_wishes(read, wanted)
        self._system.oracle.wishes.on_put(before, after)
        return after

    def put_spec(self, spec: Spec, wishes: int | None = None) -> Spec:
        is_new = spec.window not in self._specs
        stands = super().put_spec(spec, wishes)
        if is_new:
            book = self._system.oracle.wishes
            book.on_frozen(stands, self._wishes, by_before=wishes is None)
        self._system.world.note(f"{spec.window[9:15]} has shards {stands.shards} {stands.hot}")
        self._system.oracle.on_spec(stands)
        return stands

    def advance(self, window: Window) -> Window:
        before = self.window(window.id)
        changed = super().advance(window)
        order = list(Status)
        if before and order.index(before.status) > order.index(changed.status):
            self._system.world.fail(f"{window.id} went from {before.status} to {changed.status}")
        self._system.world.note(f"{window.id[9:15]} is {changed.status} v{changed.version}")
        if changed.status is Status.PROVEN and changed.attempt.archive:
            self._system.oracle.archives.on_proven(changed.attempt.archive)
        if changed.status is Status.SEALED:
            items = self._system.store.weighed(window.table)
            self._system.oracle.on_sealed(changed, items)
        return changed


class SimQueue(StrictQueue):
    """The queue, watched by the oracle."""

    def __init__(self, system: System, max_receives: int) -> None:
        super().__init__(
            system.world,
            system.queue_rules(),
            system.base.queue_retention_ms,
            visibility_ms=system.settings.visibility_ms,
            max_receives=max_receives,
            age_period_ms=system.settings.drain_period_ms,
            age_lag_ms=int(system.world.random.random() * 20_000),
        )
        self._system = system

    def send(self, body: str, delay_ms: float = 0, redrive: RedriveMark | None = None) -> str:
        message_id = super().send(body, delay_ms, redrive)
        if redrive:
            self._system.oracle.on_redriven(message_id, redrive)
            self._system.retractors.on_redriven(self._system.oracle.sent[message_id])
        return message_id

    def take_settings(self, settings: Settings) -> None:
        """Be deployed with other settings."""
        self._visibility_ms = settings.visibility_ms

    def deliver(self, held: Any) -> Message | None:
        message = super().deliver(held)
        if message is None:
            self._system.oracle.on_dead(self.dead_letters[-1], self._system.catalog)
        else:
            self._system.oracle.book.on_delivered(message)
        return message

    def reject(self, rejections: Sequence[Rejection]) -> list[bool]:
        there = super().reject(rejections)
        for letter in self.dead_letters[-len(rejections) :]:
            self._system.oracle.on_dead(letter, self._system.catalog)
        return there

    def acknowledge(self, receipts: Sequence[str]) -> None:
        for receipt in receipts:
            self._system.oracle.on_acknowledged(receipt.partition("#")[0])
        super().acknowledge(receipts)

    def expired(self, held: Held) -> None:
        """Nothing may end in silence: not even a message that nobody ever received."""
        self._system.world.fail(f"2: {self._system.oracle.sent[held.id]} expired in the queue")


class SimDeadLetters(MemoryDeadLetters):
    """The dead letters as the operator sees them, watched by the oracle."""

    def __init__(self, system: System) -> None:
        super().__init__(system.queue, SimEffects(system.world))
        self._system = system

    def delete(self, letters: Sequence[ReceivedLetter]) -> list[bool]:
        gone = super().delete(letters)
        for letter, is_gone in zip(letters, gone, strict=True):
            if is_gone:
                self._system.oracle.on_letter_deleted(letter.first_id)
        return gone

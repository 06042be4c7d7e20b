"""What the checks of an endpoint share: a table of their own, and how they write and read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TypeVar

from tallyroll.errors import StoreError, Unknown
from tallyroll.lifecycle.state_machine import freeze
from tallyroll.model.amounts import MICROS
from tallyroll.model.records import Record, increments_of
from tallyroll.model.specs import Spec
from tallyroll.model.states import Window
from tallyroll.model.tallies import Tally, gathered
from tallyroll.model.windows import Grid
from tallyroll.ports.backoff import CHECK
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Answer, Outcome, Store, Verdict
from tallyroll.ports.table_listing import TableStatus
from tallyroll.settings import Settings

SETTINGS = Settings(shards=4, stripes_min=8, buckets=4, gates=8)
PAGE = 200
MADE_WITHIN_MS, DROPPED_WITHIN_MS = 120_000, 60_000
POLL_MS = 200
NEVER_ARRIVED = ("EndpointConnectionError", "ConnectTimeoutError")

T = TypeVar("T")


class Broken(Exception):
    """An endpoint broke the rule of a check; the text is the evidence."""


class Undecided(Exception):
    """A check could not be carried out; the text says why."""


@dataclass(frozen=True)
class Scale:
    """How much the checks under concurrency do."""

    events: int = 1_000
    at_once: int = 16
    rounds: int = 20
    within_ms: int = 10_000


@dataclass
class Stage:
    """A table of its own at the endpoint, which is the window table and the catalog in one.

    `other` is the same store through another client, with connections of its own. `added_twice`
    sends one transaction that adds 1 twice, under one request token, and returns the sum. `reach`
    raises Unknown if nobody answers there.
    """

    store: Store
    other: Store
    catalog: Catalog
    effects: Effects
    spec: Spec
    added_twice: Callable[[], int]
    reach: Callable[[], None] = lambda: None
    scale: Scale = field(default_factory=Scale)
    stopping: Event = field(default_factory=Event)
    begun: bool = False  # whether the table may exist

    def make(self) -> None:
        """Make the table, and open its gates. Raises StoreError."""
        spec = self.spec
        self.reach()  # first: a request that is not answered may have made a table
        try:
            self.begun = True
            self.store.make_table(spec.table, {})
        except Unknown as error:
            self.begun = error.code not in NEVER_ARRIVED
            raise
        until = self.effects.now() + MADE_WITHIN_MS
        while not self._active():
            if self.effects.now() >= until:
                raise Unknown(f"table {spec.table} is not active after two minutes")
            self.effects.sleep(POLL_MS)
        self.catalog.create(Window(spec.window, spec.table, spec.start, spec.end))
        self.store.open_gates(spec)

    def _active(self) -> bool:
        facts = self.store.describe_table(self.spec.table)
        return facts is not None and facts.status is TableStatus.ACTIVE

    def drop(self) -> None:
        """Stop what still runs, and drop the table if it exists. Raises StoreError."""
        self.stopping.set()
        if not self.begun:
            return
        until = self.effects.now() + DROPPED_WITHIN_MS
        last: StoreError = Unknown(f"table {self.spec.table} still exists")
        while self.effects.now() < until:
            try:
                self.store.drop_table(self.spec.table)
                facts = self.store.describe_table(self.spec.table)
                if facts is None or facts.status is TableStatus.DELETING:
                    return
            except Unknown:
                raise
            except StoreError as error:  # a table that is being made or changed
                last = error
            self.effects.sleep(POLL_MS)
        raise last

    def placed(self, *, shards: int = 4, stripes: int = 4, buckets: int = 4) -> Spec:
        """The window with other numbers of shards, stripes and buckets."""
        return replace(self.spec, shards=shards, stripes_min=stripes, buckets=buckets)

    def commit(self, spec: Spec, *records: Record) -> Outcome:
        """One transaction, tried again while it is throttled. Raises Undecided if it stays so, or
        if no answer comes.
        """
        detail = ""
        for _ in CHECK.attempts(self.effects):
            outcome = self.store.commit(spec, records, increments_of(records))
            if outcome.verdict is Verdict.UNKNOWN:
                raise Undecided(f"a transaction was not answered: {outcome.detail}")
            if outcome.verdict is not Verdict.THROTTLED:
                return outcome
            detail = outcome.detail
        raise Undecided(f"a transaction stays throttled: {detail}")

    def commit_settled(self, spec: Spec, *records: Record) -> Outcome:
        """The same, also tried again while other transactions are in its way."""
        outcome = self.commit(spec, *records)
        for _ in CHECK.attempts(self.effects):
            if not _passing(outcome):
                break
            outcome = self.commit(spec, *records)
        return outcome

    def commit_new(self, spec: Spec, *records: Record) -> None:
        """A transaction of new records. Raises Broken if it is not carried out."""
        outcome = self.commit_settled(spec, *records)
        if outcome.verdict is not Verdict.COMMITTED:
            raise Broken(
                f"a transaction of {len(records)} new records was not carried out:"
                f" {outcome.verdict}: {outcome.detail}"
            )

    def stored(self, spec: Spec, *keys: str) -> dict[tuple[str, str], Record]:
        """The records of these keys, by consistent queries."""
        found = {}
        for key in keys:
            for shard in range(1, spec.shards_of(key) + 1):
                after, more = "", True
                while more:
                    page = self.store.records(spec, key, shard, after, PAGE)
                    found.update({(key, record.id): record for record in page.records})
                    more = page.more
                    after = page.records[-1].id if more else ""
        return found

    def tally(self, spec: Spec, *keys: str) -> Tally:
        """The sum of the keys' tallies, by consistent queries of all buckets."""
        stripes = [
            stripe.tally
            for number in range(1, spec.buckets + 1)
            for page in self.store.stripes(spec, number, "", PAGE)
            for stripe in page
            if stripe.tally.key in keys
        ]
        return gathered(keys[0], stripes)

    def at_last(self, look: Callable[[], str]) -> None:
        """Raise Broken with what `look` finds wrong, if it finds something each time for 2 s: not
        that a read is old is to be found here, but that a write is wrong.
        """
        wrong = ""
        for _ in CHECK.attempts(self.effects):
            if not (wrong := look()):
                return
        raise Broken(wrong)

    def turns(self) -> Iterator[int]:
        """0, 1, ... for a check that repeats: fewer than `rounds` where the time is up before."""
        until = self.effects.now() + self.scale.within_ms // 2
        for turn in range(self.scale.rounds):
            if turn and (self.stopping.is_set() or self.effects.now() >= until):
                return
            yield turn

    def together(self, jobs: Sequence[Callable[[], T]]) -> list[T]:
        """Run jobs at once, each on a thread."""
        return self.effects.together(jobs, len(jobs))


def _passing(outcome: Outcome) -> bool:
    """Whether a cancelled transaction may succeed as it stands."""
    elements = (*outcome.records, *outcome.increments)
    return outcome.verdict is Verdict.CANCELLED and (
        outcome.gate_contended
        or any(each.answer in (Answer.CONTENDED, Answer.THROTTLED) for each in elements)
    )


def spec_on(table: str, settings: Settings, now: int) -> Spec:
    """The window of `now` (ms), kept in this table."""
    span = Grid.of(settings.window_length).at(now)
    return freeze(Window(span.id, table, span.start, span.end), settings)


def record(
    spec: Spec, key: str, name: str, amount: int = MICROS, digest: bytes = b"d" * 16
) -> Record:
    """A record of one event at the beginning of the window."""
    return Record(
        key=key,
        id=name,
        shard=spec.shard(key, name),
        ts=spec.start,
        n=1,
        amount=amount,
        digest=digest,
        series=((0, 1),),
    )

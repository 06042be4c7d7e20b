"""The engines that one contract holds for, and the records that its tests write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from tallyroll.adapters.system import SystemEffects
from tallyroll.model.amounts import MICROS
from tallyroll.model.records import Record, increments_of
from tallyroll.model.sharding import Chance
from tallyroll.model.specs import Spec
from tallyroll.model.states import Window
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Outcome, Store, Verdict
from tallyroll.ports.totals import Totals

T = TypeVar("T")
WINDOW = "20261120T080000Z"
START = 1_795_161_600_000  # 2026-11-20 08:00 UTC
HOUR = 3_600_000


class SteadyEffects(SystemEffects):
    """One thread, seeded chance, no waiting: `slept` has the waits in ms."""

    def __init__(self) -> None:
        super().__init__()
        self.chance: Chance = Random(7)
        self.slept: list[float] = []

    def sleep(self, ms: float) -> None:
        self.slept.append(ms)

    def together(self, jobs: Sequence[Callable[[], T]], at_once: int) -> list[T]:
        return [job() for job in jobs]


@dataclass(frozen=True)
class Engine:
    """The ports of one engine; `prefix` keeps the names of one test's tables apart."""

    name: str
    prefix: str
    effects: Effects
    store: Store
    catalog: Catalog
    totals: Totals

    def spec(self, *, shards: int = 4, stripes_min: int = 8, gates: int = 3) -> Spec:
        """The spec of a small window."""
        return Spec(
            window=WINDOW,
            table=f"{self.prefix}-{WINDOW}",
            start=START,
            end=START + HOUR,
            shards=shards,
            stripes_min=stripes_min,
            buckets=4,
            gates=gates,
            suffix="calculated",
            accept_from=0,
            accept_until=START + 2 * HOUR,
            skew=300_000,
        )

    def opened(self, spec: Spec | None = None) -> Spec:
        """A window whose table is there and whose gates are open."""
        spec = self.made(spec)
        self.store.open_gates(spec)
        return spec

    def closed(self, spec: Spec) -> None:
        """Shut the window's gates and fold it."""
        self.store.shut_gates(spec)
        assert "" not in self.store.fold(spec, "")

    def made(self, spec: Spec | None = None) -> Spec:
        """A window that is being created: its table is there, its gates are not."""
        spec = spec or self.spec()
        self.catalog.create(Window(spec.window, spec.table, spec.start, spec.end))
        self.store.make_table(spec.table, {"tallyroll": self.prefix})
        return spec


def record(
    spec: Spec, key: str, record_id: str, *, amount: int = MICROS, digest: bytes = b"d" * 16
) -> Record:
    """A record of one event in the fifth minute of the window."""
    ts = START + 5 * 60_000
    return Record(
        key=key,
        id=record_id,
        shard=spec.shard(key, record_id),
        ts=ts,
        n=1,
        amount=amount,
        digest=digest,
        series=((spec.slot(ts), 1),),
    )


def with_data(plain: Record, data: bytes) -> Record:
    """The record with a payload of these bytes."""
    return replace(plain, data=data, format="json")


def cost(store: Store, *records: Record) -> int:
    """What storing these records costs."""
    return sum(map(store.metering_of("").record_cost, records))


def commit(store: Store, spec: Spec, *records: Record) -> Outcome:
    """One commit of these records and of what they add."""
    return store.commit(spec, records, increments_of(records))


def counted(store: Store, spec: Spec, *records: Record) -> None:
    """Commit, and be sure of it."""
    outcome = commit(store, spec, *records)
    assert outcome.verdict is Verdict.COMMITTED, outcome

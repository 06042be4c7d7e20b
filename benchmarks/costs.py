"""What a million events cost on AWS, a month in which nothing happens, and what writers sustain:
`make costs`.

The write units of events come from the requests that the writer would send, by AWS's rule; those of
totals and all prices from `tallyroll.planning`. Where a figure is assumed, and not computed, the
last table says so: put your own in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, count
from math import ceil
from random import Random

from benchmarks.tables import Rows, show
from tallyroll.adapters.dynamodb.throughput import METERING
from tallyroll.client.packing import MINUTE_MS, PACKET_EVENTS_MAX, pack
from tallyroll.ingest.cost import WriteCost, commit_cost
from tallyroll.ingest.transactions import Commit, plan
from tallyroll.lifecycle.state_machine import freeze
from tallyroll.limits import (
    QUEUE_BATCH_MAX,
    QUEUE_CHARGED_BYTES,
    TABLE_UNITS_QUOTA,
    WARM_WRITE_UNITS_MIN,
)
from tallyroll.model.events import Event, decode, event_body
from tallyroll.model.items import sized
from tallyroll.model.messages import Message
from tallyroll.model.periods import DAY_MS
from tallyroll.model.records import Record, record_of
from tallyroll.model.specs import IdentityScope, Spec
from tallyroll.model.states import Window
from tallyroll.planning.costs import (
    FUNCTION_GB,
    FUNCTION_MS_IDLE,
    TALLY_ITEM_BYTES,
    StoredSize,
    function_dollars,
    idle_month,
    warm_dollars,
)
from tallyroll.planning.load import PeakLoad as Planned
from tallyroll.planning.plan import ARCHIVED_SHARE
from tallyroll.planning.prices import (
    API_REQUEST,
    LAMBDA_REQUEST,
    MILLION,
    REST_API_REQUEST,
    SQS_REQUEST,
    WRITE_UNIT,
)
from tallyroll.planning.reads import READ_MS
from tallyroll.planning.writers import (
    PACKED_EVENT_MS,
    RECORD_ENVELOPE_BYTES,
    TRANSACTION_MS,
    WRITER_MS_PER_MESSAGE,
    Sustained,
    message_ms,
    sustained,
)
from tallyroll.planning.writes import KeysTotalled
from tallyroll.settings import Settings

WRITERS = (2, 4, 20, 100, 1_000)
BATCH_SIZES = (10, 100, 1_000, 10_000)
BATCH = 980  # messages that a writer is handed at once
EVENTS = 9_800
KEYS = 1_000  # of the loads over an hour
START_MS = 1_795_161_600_000
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Load:
    """One kind of traffic, as message bodies that carry EVENTS events in all."""

    name: str
    bodies: Sequence[str]
    keys: int
    span_ms: int

    @property
    def totalled(self) -> KeysTotalled:
        """The totals of a million events, which go on as these do: the same keys at the same rate,
        or a new key with each event.
        """
        if self.keys == EVENTS:
            return KeysTotalled(MILLION, MILLION, MILLION)
        times = MILLION / EVENTS * self.span_ms
        windows, days = max(1.0, times / HOUR_MS), max(1.0, times / DAY_MS)
        return KeysTotalled(self.keys * windows, self.keys * days, self.keys)

    @property
    def messages_each(self) -> float:
        """Messages per event."""
        return len(self.bodies) / EVENTS


def loads() -> Iterator[Load]:
    """Events alone and in packets: of one key, and of many keys over an hour."""
    hot = [f'{{"id": "vote-{n:08d}", "key": "Ada", "ts": {START_MS + n}}}' for n in range(EVENTS)]
    yield Load("one hot key, own ids", hot, 1, EVENTS)
    cold = [f'{{"id": "o-{n:08d}", "key": "k-{n}", "ts": {START_MS + n}}}' for n in range(EVENTS)]
    yield Load("every event its own key", cold, EVENTS, EVENTS)
    chance = Random(1)
    hot_events = scattered("Ada", EVENTS, START_MS, MINUTE_MS)
    yield Load("one hot key, packets of 10", packets(hot_events, events_max=10), 1, MINUTE_MS)
    yield Load("one hot key, packets of 1,000", packets(hot_events), 1, MINUTE_MS)
    paid = [replace(event, payload=f'{{"user":"{chance.random():.16f}"}}') for event in hot_events]
    yield Load("packets of 1,000 with payloads", packets(paid), 1, MINUTE_MS)
    hour = scattered("", EVENTS, START_MS, HOUR_MS)
    spread = [replace(event, key=f"k-{chance.random() * KEYS:.0f}") for event in hour]
    alone = [event_body(replace(event, id=f"s-{n:08d}")) for n, event in enumerate(spread)]
    yield Load("1,000 keys over an hour, own ids", alone, KEYS, HOUR_MS)
    yield Load("the same, packed by minute (a file)", packets(spread), KEYS, HOUR_MS)
    yield Load(
        "the same, packed by window (stdin)", packets(spread, span_ms=HOUR_MS), KEYS, HOUR_MS
    )


def scattered(key: str, events: int, since: int, span_ms: int) -> list[Event]:
    """Events without ids at random times in a span, ascending."""
    chance = Random(2)
    times = sorted(since + int(chance.random() * span_ms) for _ in range(events))
    return [Event(key, None, ts, MILLION, None) for ts in times]


def packets(
    events: Iterable[Event], events_max: int = PACKET_EVENTS_MAX, span_ms: int = MINUTE_MS
) -> list[str]:
    """The bodies of their packets."""
    ids = count()
    new_id = lambda: f"00000000-0000-7000-8000-{next(ids):012d}"  # noqa: E731
    return list(pack(events, new_id, events_max=events_max, span_ms=span_ms))


def store_cost(spec: Spec, bodies: Sequence[str]) -> WriteCost:
    """The writes for these messages, in full batches."""
    cost = WriteCost()
    for commit in chain.from_iterable(batches(spec, bodies)):
        cost += commit_cost(commit.records, commit.increments, METERING)
    return cost


def batches(spec: Spec, bodies: Sequence[str]) -> Iterator[list[Commit]]:
    """The transactions of each full batch."""
    for first in range(0, len(bodies), BATCH):
        records = [_record(spec, body, first + n) for n, body in enumerate(bodies[first:][:BATCH])]
        yield list(plan(spec, records, METERING))


def writer_ms(spec: Spec, bodies: Sequence[str], at_once: int) -> float:
    """How long writers run for these messages, in full batches: their own time for each message,
    and the time of transactions, so many of them at once.
    """
    return _run_ms(len(bodies), batches(spec, bodies), at_once)


def _run_ms(messages: int, made: Iterable[Sequence[Commit]], at_once: int) -> float:
    rounds = sum(ceil(len(commits) / at_once) for commits in made)
    return messages * message_ms(EVENTS / messages) + rounds * TRANSACTION_MS


@dataclass(frozen=True, slots=True)
class Computed:
    """What the writer does for one event of a load, in a default deployment: write units and its
    time; and what is stored for a million.
    """

    load: Load
    units: float
    ms: float
    kept: StoredSize


@cache
def computed() -> list[Computed]:
    """Every load, computed. Keys have a stripe of a tally for each transaction at the most."""
    settings, found = Settings(), []
    spec = freeze(Window("20261120T080000Z", "", START_MS, START_MS + HOUR_MS), settings)
    scale = MILLION / EVENTS
    for load in loads():
        made = list(batches(spec, load.bodies))
        commits = list(chain.from_iterable(made))
        cost, records = WriteCost(), [record for commit in commits for record in commit.records]
        for commit in commits:
            cost += commit_cost(commit.records, commit.increments, METERING)
        tallies = sum(len(commit.increments) for commit in commits)
        sizes = sum(sized(record).size for record in records) + tallies * TALLY_ITEM_BYTES
        stored = StoredSize(
            table_bytes=sizes * scale,
            table_items=(len(records) + tallies) * scale,
            total_items=load.totalled.items,
            archived_share=1.0 if records[0].packed else ARCHIVED_SHARE,
        )
        run_ms = _run_ms(len(load.bodies), made, settings.transactions_at_once)
        found.append(Computed(load, cost.total / EVENTS, run_ms / EVENTS, stored))
    return found


def _record(spec: Spec, body: str, number: int) -> Record:
    return record_of(decode(body), Message(f"m{number}", body, START_MS, 1, ""), spec)


def queue_requests(bodies: Sequence[str]) -> float:
    """SQS requests: sent by tens, received by tens, deleted by tens."""
    requests = 0.0
    for first in range(0, len(bodies), QUEUE_BATCH_MAX):
        size = sum(len(body.encode()) for body in bodies[first : first + QUEUE_BATCH_MAX])
        chunks = -(-size // QUEUE_CHARGED_BYTES)
        requests += 2 * chunks + 1
    return requests


def of_events(settings: Settings) -> Rows:
    """What a million events of each load cost, until they are in the totals."""
    rows: Rows = [
        ("load", "units each", "writes", "sealing", "roll-ups", "SQS", "Lambda", "in all")
    ]
    for one in computed():
        load, keys = one.load, one.load.totalled
        rolled = keys.rollup_units if settings.rollups else 0.0
        costs = (
            one.units * MILLION * WRITE_UNIT,
            keys.sealing_units * WRITE_UNIT,
            rolled * WRITE_UNIT,
            queue_requests(load.bodies) / EVENTS * MILLION * SQS_REQUEST,
            function_dollars(one.ms * MILLION)
            + load.messages_each * MILLION / BATCH * LAMBDA_REQUEST,
        )
        rows.append(
            (load.name, f"{one.units:.3f}", *(f"{cost:.3f}" for cost in (*costs, sum(costs))))
        )
    return rows


def of_identities(settings: Settings) -> Rows:
    """What the writes of a million events cost where an id counts once in the whole pipeline, or
    once for its key: in the windows' tables, and in that of identities, which they share.
    """
    scoped = replace(settings, identity=IdentityScope.PIPELINE)
    spec = freeze(Window("20261120T080000Z", "", START_MS, START_MS + HOUR_MS), scoped)
    rows: Rows = [("load", "units each", "of these for ids", "events a transaction", "writes")]
    for load in loads():
        commits = list(chain.from_iterable(batches(spec, load.bodies)))
        records = [record for commit in commits for record in commit.records]
        cost = WriteCost()
        for commit in commits:
            cost += commit_cost(commit.records, commit.increments, METERING)
        ids = sum(METERING.identities_cost(record) for record in records)
        each = (cost.total / EVENTS, ids / EVENTS)
        dollars = cost.total / EVENTS * MILLION * WRITE_UNIT
        full = f"{EVENTS / len(commits):,.1f}"
        rows.append((load.name, *(f"{units:.3f}" for units in each), full, f"{dollars:.3f}"))
    return rows


def of_keeping(settings: Settings) -> Rows:
    """What it costs to keep a million events of each load: tables until they are dropped, and the
    first month of archives and totals.
    """
    rows: Rows = []
    for one in computed():
        keys = one.load.totalled
        if not settings.rollups:
            keys = replace(keys, days=0, months=0)
        costs = replace(one.kept, total_items=keys.items).costs(settings)
        if not rows:
            rows.append(("load", *(cost.name for cost in costs), "in all"))
        dollars = [cost.dollars for cost in costs]
        rows.append((one.load.name, *(f"{cost:.3f}" for cost in (*dollars, sum(dollars)))))
    return rows


def of_a_month(settings: Settings) -> Rows:
    """What stands there costs in a month, whether anything is counted or not."""
    costs = idle_month(settings)
    costs["in all"] = sum(costs.values())
    return [("for", "cost"), *((name, f"{cost:.2f}") for name, cost in costs.items())]


def of_reads() -> Rows:
    """What a million reads cost by who lets readers in, without the read units."""
    function = function_dollars(READ_MS * MILLION) + LAMBDA_REQUEST * MILLION
    requests = {"http": API_REQUEST, "private": REST_API_REQUEST, "none": 0.0}
    rows: Rows = [("`tallyroll:api`", "API", "Lambda", "in all")]
    for name, price in requests.items():
        costs = (price * MILLION, function, price * MILLION + function)
        rows.append((f"`{name}`", *(f"{cost:.2f}" for cost in costs)))
    return rows


def of_warm_throughput(settings: Settings) -> Rows:
    """What warm throughput costs in a month, by the length of windows: each has a table."""
    lengths = {"windows of an hour": 3_600, "of six hours": 21_600, "of a day": 86_400}
    rows: Rows = [("write units a second", *lengths)]
    for units in (WARM_WRITE_UNITS_MIN, 10_000, TABLE_UNITS_QUOTA):
        months = [
            warm_dollars(replace(settings, window_seconds=seconds), units)
            for seconds in lengths.values()
        ]
        rows.append((f"{units:,}", *(f"{month:,.2f}" for month in months)))
    return rows


def of_writers(settings: Settings, packed: int = 1) -> Rows:
    """How many events a second N writers count with batches of B messages; and what tables take.

    Events are of 128 bytes, of 1,000 keys; with `packed`, so many are in a packet.
    """
    load = Planned(events_per_second=1_000, hottest_per_second=1, packed=packed)
    rows: Rows = [("writers", *(f"batches of {size:,}" for size in BATCH_SIZES))]

    def of(writers: int, size: int) -> Sustained:
        return sustained(load, writers=writers, batch_size=size, settings=settings)

    for writers in WRITERS:
        rates = [of(writers, size).events_per_second for size in BATCH_SIZES]
        rows.append((f"{writers:,}", *(f"{rate:,.0f}" for rate in rates)))
    for name, units in (
        ("a new table", WARM_WRITE_UNITS_MIN),
        ("a table at the default quota", TABLE_UNITS_QUOTA),
    ):
        rates = [units / of(1, size).units_per_event for size in BATCH_SIZES]
        rows.append((name, *(f"{rate:,.0f}" for rate in rates)))
    return rows


def assumed() -> Rows:
    """The figures that are not computed."""
    return [
        ("what", "value"),
        ("messages in a writer's batch", f"{BATCH}"),
        ("writer's time for a message, ms", f"{WRITER_MS_PER_MESSAGE}"),
        ("the same, for each event of a packet, ms", f"{PACKED_EVENT_MS}"),
        ("a full transaction, ms", f"{TRANSACTION_MS}"),
        ("bytes of a message in Lambda's event, beside its body", f"{RECORD_ENVELOPE_BYTES:,}"),
        ("memory of functions, GB", f"{FUNCTION_GB:.2f}"),
        ("an idle run of roller, cleanup or dropper, ms", f"{FUNCTION_MS_IDLE}"),
    ]


def main() -> None:
    """Print the tables."""
    settings = Settings()
    for title, rows in (
        ("A million events, in US dollars", of_events(settings)),
        ("The same writes, with ids that count once beyond their window", of_identities(settings)),
        ("Keeping them, in US dollars", of_keeping(settings)),
        ("An idle month, in US dollars", of_a_month(settings)),
        ("Warm throughput, a month, in US dollars", of_warm_throughput(settings)),
        ("A million reads, in US dollars", of_reads()),
        ("Events a second by writers and batches, single events", of_writers(settings)),
        ("The same, packets of 1,000", of_writers(settings, PACKET_EVENTS_MAX)),
        ("Assumed, not computed", assumed()),
    ):
        show(title, rows)
    print("units are without conflicts; `python -m benchmarks.conflicts` models these")
    print("`python -m benchmarks.sizing` measures a writer's time for a message here")
    print("left out: logs, data transfer, read units, endpoints in a VPC, metrics of functions")


if __name__ == "__main__":
    main()

"""What a probe of a deployment sends, planned before anything is sent, and what that costs.

Every sender's events have a value of their own, larger than all events of the senders before it
together: so a sum says how many events of each sender are in it, and a sum that does not belong to
its number of events is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tallyroll.client.packing import pack
from tallyroll.errors import Missing
from tallyroll.ingest.cost import GATE_UNITS, TALLY_UNITS
from tallyroll.limits import QUEUE_BATCH_MAX, SKEW_MS_MAX
from tallyroll.model.amounts import MICROS
from tallyroll.model.events import Event, check_key, event_body
from tallyroll.model.sharding import Chance
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status
from tallyroll.model.windows import window_id
from tallyroll.operations.probe.history import Identity
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.live_windows import list_live

SENDERS = READERS = 4
EVENTS_MAX, KEYS_MAX = 100_000, 100
WINDOWS_MAX = 2
PACKED_EVERY, PACKED_EVENTS = 4, 10  # a quarter of the events goes in packets of ten
TWICE_EVERY = 8  # one message of so many is sent twice
SPECS_MAX = 100  # of one look at the windows
MARGIN_MS = 300_000  # for so long a window that is over must still take what is sent
ROUNDS = 120  # of a reader, while events are counted, three reads and a look-up each
POLLS = 400  # of all keys, while the last events are waited for
CATALOG_READS = 8  # of one count: calendar, pointer, windows, totals, periods
RECORD_UNITS = 2  # of one event or ten without payload: under 1 KB
SEALING_UNITS, ROLLUP_UNITS = 4, 6  # a key and window; a key, for its day and month
QUEUE_REQUESTS = 3  # sent, received and deleted, ten messages each
MILLION = 1_000_000
# On demand in us-east-1, dollars a million. Sources: Amazon DynamoDB pricing, Amazon SQS pricing.
WRITE_DOLLARS, READ_DOLLARS, QUEUE_DOLLARS = 0.625, 0.125, 0.40


@dataclass(frozen=True, slots=True)
class Parcel:
    """One message: its body, the record that it becomes, its events and sum (millionths), and how
    often it is sent.
    """

    body: str
    identity: Identity
    n: int
    amount: int
    times: int


@dataclass(frozen=True, slots=True)
class Cost:
    """What a probe costs at the most: units by AWS's rule, dollars in us-east-1 on demand."""

    events: int
    messages: int
    write_units: int
    reads: int
    read_units: int

    @property
    def dollars(self) -> float:
        """DynamoDB and SQS; the functions' time is some seconds."""
        requests = QUEUE_REQUESTS * -(-self.messages // QUEUE_BATCH_MAX)
        return (
            self.write_units * WRITE_DOLLARS
            + self.read_units * READ_DOLLARS
            + requests * QUEUE_DOLLARS
        ) / MILLION


@dataclass(frozen=True, slots=True)
class Plan:
    """Keys of their own, the windows in which their events happen, ascending, and each sender's
    messages. `cost` is what all of it takes.
    """

    keys: tuple[str, ...]
    windows: tuple[Spec, ...]
    senders: tuple[tuple[Parcel, ...], ...]
    cost: Cost

    @property
    def parcels(self) -> list[Parcel]:
        """All messages, each once."""
        return [parcel for sender in self.senders for parcel in sender]


def planned(
    catalog: Catalog, now: int, chance: Chance, *, prefix: str, keys: int, events: int
) -> Plan:
    """The plan of a probe that begins now (ms), with new keys under the prefix.

    Raises Rejected for a prefix that no key may have, Missing if no window takes events, and
    StoreError.
    """
    run = f"{window_id(now)}-{chance.getrandbits(32):08x}"
    names = tuple(check_key(f"{prefix}{run}/{number}") for number in range(1, keys + 1))
    live = list_live(catalog, catalog.live(), 0, now + SKEW_MS_MAX)
    begun = [each.id for each in live if each.status is Status.OPEN and each.start <= now]
    windows = _taking(catalog.specs(begun[-SPECS_MAX:]).values(), now)
    senders = tuple(
        tuple(_parcels(number, _of(events, number), names, windows, now, run))
        for number in range(SENDERS)
    )
    messages = sum(parcel.times for sender in senders for parcel in sender)
    places = len(names) * (len(windows) * SEALING_UNITS + ROLLUP_UNITS)
    stripes = max(spec.stripes_of(name) for spec in windows for name in names)
    live_now = sum(not each.status.sealed for each in live)
    reads = READERS * ROUNDS * 3 + POLLS * len(names)
    cost = Cost(
        events,
        messages,
        messages * (RECORD_UNITS + TALLY_UNITS + GATE_UNITS) + places,
        reads,
        reads * (live_now * stripes + CATALOG_READS) + READERS * ROUNDS * CATALOG_READS,
    )
    return Plan(names, windows, senders, cost)


def _taking(specs: Iterable[Spec], now: int) -> tuple[Spec, ...]:
    """The current window, and the last one before it if that takes events for some time yet."""
    open_ = sorted((spec for spec in specs if spec.accept_from <= now), key=lambda spec: spec.start)
    current = [spec for spec in open_ if now in spec.span]
    over = [spec for spec in open_ if spec.end <= now and now + MARGIN_MS <= spec.accept_until]
    if not current:
        raise Missing("no window takes events now: does the roller run?", "NoWindow")
    return tuple([*over, *current][-WINDOWS_MAX:])


def _of(events: int, sender: int) -> int:
    return events // SENDERS + (sender < events % SENDERS)


def _parcels(
    sender: int,
    events: int,
    keys: Sequence[str],
    windows: Sequence[Spec],
    now: int,
    run: str,
) -> list[Parcel]:
    amount = MICROS * 10 ** (sender * len(str(EVENTS_MAX // SENDERS)))
    packets = events // PACKED_EVERY // PACKED_EVENTS
    singles = events - packets * PACKED_EVENTS
    parcels = []
    for number in range(singles + packets):
        key = keys[number % len(keys)]
        window = windows[number // len(keys) % len(windows)]
        ts = max(window.start, min(now, window.end - 1 - number % 1_000))
        record_id = f"{run}-{sender + 1}-{number + 1}"
        event = Event(key, record_id, ts, amount, None)
        n = 1
        body = event_body(event)
        if number >= singles:
            n = PACKED_EVENTS
            [body] = pack([replace(event, id=None)] * n, partial(str, record_id), span_ms=1)
        times = 1 + (number % TWICE_EVERY == 0)
        parcels.append(Parcel(body, (window.start, key, record_id), n, n * amount, times))
    return parcels

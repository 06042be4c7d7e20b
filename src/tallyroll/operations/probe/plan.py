"""Plans what a probe of a deployment sends, and its cost, before anything is sent.

Each sender's events have a value larger than all events of the senders before it together. So a sum
shows how many events of each sender it holds, and a sum that does not fit its number of events is
found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tallyroll.client.packing import pack
from tallyroll.errors import Missing
from tallyroll.limits import IDENTITY_UNITS, QUEUE_BATCH_MAX, SKEW_MS_MAX
from tallyroll.model.amounts import MICROS
from tallyroll.model.events import Event, message_body
from tallyroll.model.formats.fields import check_key
from tallyroll.model.sharding import Chance
from tallyroll.model.specs import IdentityScope, Spec
from tallyroll.model.states import Status
from tallyroll.model.windows import window_id
from tallyroll.operations.probe.history import Fact, Identity
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.live_windows import list_live

SENDERS = READERS = 4
EVENTS_MAX, KEYS_MAX = 100_000, 100
WINDOWS_MAX = 2
PACKED_EVERY, PACKED_EVENTS = 4, 10  # a quarter of the events is sent in packets of ten
TWICE_EVERY = 8  # every eighth message is sent twice
SPECS_MAX = 100  # read at the start
MARGIN_MS = 300_000  # a window that has ended must take events for so much longer
ROUNDS = 120  # of a reader while events are counted: three counts and a lookup each
POLLS = 400  # of all keys, while waiting for the last events
CATALOG_READS = 8  # of one count, besides tallies: calendar, pointer, windows, totals, periods
MESSAGE_UNITS = 6  # a record under 1 KB (one event, or ten without payload), a tally and a gate
SEALING_UNITS, ROLLUP_UNITS = 4, 6  # per key and window; per key, for its day and month
QUEUE_REQUESTS = 3  # sent, received and deleted, ten messages each
MILLION = 1_000_000
# On demand in us-east-1, dollars per million. Sources: Amazon DynamoDB pricing, Amazon SQS pricing.
WRITE_DOLLARS, READ_DOLLARS, QUEUE_DOLLARS = 0.625, 0.125, 0.40


@dataclass(frozen=True, slots=True)
class Parcel:
    """One message: its body, its record's identity, its events and sum (millionths), and how often
    it is sent.
    """

    body: str
    identity: Identity
    n: int
    amount: int
    times: int

    def fact(self, at: int) -> Fact:
        """The record, and a time of a history."""
        return Fact(self.identity, self.n, self.amount, at)


@dataclass(frozen=True, slots=True)
class ProbeCost:
    """What a probe costs at most: units by AWS's rules, dollars in us-east-1 on demand."""

    events: int
    messages: int
    write_units: int
    reads: int
    read_units: int

    @property
    def dollars(self) -> float:
        """The cost of DynamoDB and SQS; the functions' few seconds are left out."""
        requests = QUEUE_REQUESTS * -(-self.messages // QUEUE_BATCH_MAX)
        return (
            self.write_units * WRITE_DOLLARS
            + self.read_units * READ_DOLLARS
            + requests * QUEUE_DOLLARS
        ) / MILLION


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """The probe's own keys, the windows in which its events happen, ascending, each sender's
    messages, and the cost of all.
    """

    keys: tuple[str, ...]
    windows: tuple[Spec, ...]
    senders: tuple[tuple[Parcel, ...], ...]
    cost: ProbeCost


def planned(
    catalog: Catalog, now: int, chance: Chance, *, prefix: str, keys: int, events: int
) -> ProbePlan:
    """The plan of a probe that begins `now` (ms), with new keys under the prefix.

    Raises Rejected if keys may not have the prefix, Missing if no window takes events, and
    StoreError.
    """
    run = f"{window_id(now)}-{chance.getrandbits(32):08x}"
    names = tuple(check_key(f"{prefix}{run}/{number}") for number in range(1, keys + 1))
    live = list_live(catalog, catalog.live(), 0, now + SKEW_MS_MAX)
    begun = [each.id for each in live if each.status is Status.OPEN and each.start <= now]
    windows = _taking(catalog.specs(begun[-SPECS_MAX:]).values(), now)
    senders = tuple(
        tuple(_parcels(number, events, names, windows, now, run)) for number in range(SENDERS)
    )
    messages = sum(parcel.times for sender in senders for parcel in sender)
    with_ids = any(spec.identity is not IdentityScope.WINDOW for spec in windows)
    places = len(names) * (len(windows) * SEALING_UNITS + ROLLUP_UNITS)
    stripes = max(spec.stripes_of(name) for spec in windows for name in names)
    live_now = sum(not each.status.sealed for each in live)
    reads = READERS * ROUNDS * 3 + POLLS * len(names)
    cost = ProbeCost(
        events,
        messages,
        messages * (MESSAGE_UNITS + with_ids * IDENTITY_UNITS) + places,
        reads,
        reads * (live_now * stripes + CATALOG_READS) + READERS * ROUNDS * CATALOG_READS,
    )
    return ProbePlan(names, windows, senders, cost)


def _taking(specs: Iterable[Spec], now: int) -> tuple[Spec, ...]:
    """The current window, and the one before it if that takes events for MARGIN_MS longer."""
    open_ = sorted((spec for spec in specs if spec.accept_from <= now), key=lambda spec: spec.start)
    current = [spec for spec in open_ if now in spec.span]
    over = [spec for spec in open_ if spec.end <= now and now + MARGIN_MS <= spec.accept_until]
    if not current:
        raise Missing("no window takes events now: does the roller run?", "NoWindow")
    return tuple([*over, *current][-WINDOWS_MAX:])


def _parcels(
    sender: int, events: int, keys: Sequence[str], windows: Sequence[Spec], now: int, run: str
) -> list[Parcel]:
    """A sender's share of so many events."""
    events = events // SENDERS + (sender < events % SENDERS)
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
        body = message_body(event)
        if number >= singles:
            n = PACKED_EVENTS
            [body] = pack([replace(event, id=None)] * n, partial(str, record_id), span_ms=1)
        times = 1 + (number % TWICE_EVERY == 0)
        parcels.append(Parcel(body, (window.start, key, record_id), n, n * amount, times))
    return parcels

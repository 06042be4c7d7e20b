"""What a running pipeline's load is: from its catalog, tallies and records, and from AWS's metrics
and quotas. It only reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from typing import Any, TypeVar

from tallyroll.errors import Archived, Missing, StoreError
from tallyroll.lifecycle.health import HOUR_MS, MINUTE_MS
from tallyroll.limits import SERIES_SLOTS
from tallyroll.model.items import sized
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec, sixtieth_seconds
from tallyroll.model.states import Calendar, Status, Window
from tallyroll.model.tallies import Series, added
from tallyroll.operations.doctor.checkup import Checkup
from tallyroll.planning.facts import Measurements, ids_seen
from tallyroll.planning.load import HOT_LISTED_MAX, PACKET_ITEM_BYTES
from tallyroll.ports.gauges import OF_LOGS, Gauge, Gauges, Points, Quota
from tallyroll.ports.table_listing import window_of
from tallyroll.reads.lookups import Lookups
from tallyroll.reads.top import Top

# A day, but for two minutes: CloudWatch then still gives one datapoint a minute in one call.
BACK_MS = 24 * HOUR_MS - 2 * MINUTE_MS
WINDOWS_MAX = 24
TALLIES_READ_MS = 60_000  # of all windows together
SAMPLED_KEYS, SAMPLED_SHARDS, SAMPLED_RECORDS = 5, 4, 20  # the hottest keys, of each so many
_METRICS, _QUOTAS = "cloudwatch:GetMetricStatistics", "servicequotas:GetServiceQuota"
_COUNTED = (Gauge.COUNTED_SINGLE, Gauge.COUNTED_PACKED, Gauge.COUNTED_LOGGED)
_TRIGGER, _TABLES = "lambda:ListEventSourceMappings", "dynamodb:ListTables"

T = TypeVar("T")


@dataclass
class _Traffic:
    """What the windows' tallies say of the load."""

    windows: int = 0
    events: int = 0
    seconds: float = 0.0
    keys: int = 0
    peak: float = 0.0
    units: int = 0
    rates: dict[str, float] = field(default_factory=dict)
    newest: Spec | None = None
    counted: Spec | None = None  # the newest that has events, and its table

    def add(self, window: Window, events: int, keys: int, now: int) -> None:
        """Add a window's sums."""
        seconds = _seconds(window, now)
        self.windows += 1
        self.events += events
        self.seconds += seconds
        self.keys = max(self.keys, keys)
        self.peak = max(self.peak, events / seconds)
        self.units = max(self.units, window.peak or 0)

    def rate(self, key: str, events_per_second: float) -> None:
        """Note a key's rate, if it is its highest yet."""
        self.rates[key] = max(self.rates.get(key, 0.0), events_per_second)


class _Unknown:
    """Collects why readings are not known."""

    def __init__(self) -> None:
        self.lines: dict[str, None] = {}

    def read(self, what: str, ask: Callable[[], T], action: str = "") -> T | None:
        """What is asked for; None if it cannot be read. `action` is what IAM has to allow."""
        try:
            return ask()
        except StoreError as error:
            denied = "Denied" in error.code and action
            # One line for all readings that one permission allows.
            line = f"{action} is not allowed: {error}" if denied else f"{what}: {error}"
            self.lines[line] = None
            return None


def survey(case: Checkup, calendar: Calendar, gauges: Gauges) -> tuple[Measurements, list[str]]:
    """The facts of a pipeline, and why some of them are not known. Raises StoreError if its catalog
    cannot be read.
    """
    unknown = _Unknown()
    now = case.effects.now()
    traffic = _traffic(case, calendar, unknown, now)
    hot = dict(Counter(traffic.rates).most_common(HOT_LISTED_MAX))
    spec = traffic.newest
    names = unknown.read("tables", lambda: case.names, _TABLES)
    prefix = case.resources.windows.name
    asked = [gauge for gauge in Gauge if case.settings.logs or gauge not in OF_LOGS]
    values = {gauge: _points(gauges, gauge, now - BACK_MS, unknown) for gauge in asked}
    counted = values[Gauge.COUNTED]
    return (
        Measurements(
            settings=case.settings,
            windows=traffic.windows,
            events=traffic.events,
            peak_per_second=max(traffic.peak, *_rates(counted)) or None,
            mean_per_second=traffic.events / traffic.seconds if traffic.seconds else None,
            keys=traffic.keys,
            hot=hot,
            shards_of={key: spec.shards_of(key) for key in hot} if spec else {},
            stripes=spec.stripes_of(next(iter(hot))) if spec and hot else None,
            table_units=traffic.units or None,
            tables=None if names is None else len(names),
            window_tables=sum(window_of(name, prefix) is not None for name in names or ()),
            **_of_quotas(gauges, unknown),
            **_of_trigger(gauges, unknown),
            **_of_metrics(values),
            **_of_samples(_samples(case, traffic.counted, hot, unknown), hot, values),
        ),
        list(unknown.lines),
    )


def _traffic(case: Checkup, calendar: Calendar, unknown: _Unknown, now: int) -> _Traffic:
    """The load by the tallies of the last windows that began, the newest first."""
    traffic = _Traffic()
    current = calendar.grid.at(now)
    since = max(0, now - WINDOWS_MAX * (current.end - current.start))
    begun = [
        window
        for window in case.catalog.windows(since, now + 1)
        if window.status is not Status.CREATING
    ]
    specs = case.catalog.specs([window.id for window in begun])
    lookups = Lookups(case.store, case.catalog, case.totals, case.effects)
    for window in reversed(begun[-WINDOWS_MAX:]):
        left_ms = now + TALLIES_READ_MS - case.effects.now()
        if left_ms <= 0:
            unknown.lines[f"windows up to {window.id}: there was no time left to read them"] = None
            break
        if spec := specs.get(window.id):
            traffic.newest = traffic.newest or spec
            ask = partial(lookups.top, window.id, HOT_LISTED_MAX, left_ms)
            look = partial(_look, case, ask, traffic, window, spec, now)
            if unknown.read(f"window {window.id}", look) is False:
                unknown.lines[f"window {window.id}: only a part of its tallies was read"] = None
    return traffic


def _look(
    case: Checkup, ask: Callable[[], Top], traffic: _Traffic, window: Window, spec: Spec, now: int
) -> bool:
    """Add a window's traffic: its sums, and the peaks of its largest and of its noted keys. Other
    keys, and all of a dropped table, are taken as spread over the window. False: only in part.
    """
    try:
        top = ask()
    except Archived:
        traffic.add(window, window.events or 0, window.keys or 0, now)
        return True
    traffic.add(window, top.events, top.keys, now)
    seconds = _seconds(window, now)
    for each in top.largest:
        traffic.rate(each.key, each.n / seconds)
    noted = (*spec.hot, *case.catalog.hot(window.id))
    keys = list(dict.fromkeys([*(each.key for each in top.largest), *noted]))
    with suppress(Missing):  # dropped
        tallies = case.store.tallies(spec, keys)
        for key, tally in tallies.items():
            traffic.rate(key, busiest(tally.series, spec))
        every = added(tally.series for tally in tallies.values())
        others = top.events - sum(tally.n for tally in tallies.values())
        traffic.peak = max(traffic.peak, busiest(every, spec) + max(0, others) / seconds)
        if top.events:
            traffic.counted = traffic.counted or spec
    return top.complete


def _seconds(window: Window, now: int) -> float:
    """How long a window has lasted, at least a sixtieth of its length."""
    lasted = max(min(now, window.end) - window.start, (window.end - window.start) / SERIES_SLOTS)
    return max(1.0, lasted / 1000)


def busiest(series: Series, spec: Spec) -> float:
    """Events a second in the busiest sixtieth of a window, or in as many as last a second."""
    slot_s = sixtieth_seconds(spec)
    joined = ceil(1 / slot_s)
    sums = Counter[int]()
    for slot, events in series:
        sums[slot // joined] += events
    return max(sums.values(), default=0) / (joined * slot_s)


def _samples(
    case: Checkup, spec: Spec | None, hot: Mapping[str, float], unknown: _Unknown
) -> dict[str, list[Record]]:
    """Some records of each of the hottest keys in the newest window that has events."""
    found: dict[str, list[Record]] = {}
    if spec is None:
        return found
    for key in list(hot)[:SAMPLED_KEYS]:
        sample = found.setdefault(key, [])
        for shard in range(1, min(spec.shards_of(key), SAMPLED_SHARDS) + 1):
            ask = partial(case.store.records, spec, key, shard, "", SAMPLED_RECORDS)
            page = unknown.read("a sample of records", ask)
            sample.extend(page.records if page else ())
    return found


def _points(gauges: Gauges, gauge: Gauge, since: int, unknown: _Unknown) -> Points:
    read = unknown.read(f"the metric of {gauge}", lambda: gauges.points(gauge, since), _METRICS)
    return read or Points(1_000, ())


def _rates(points: Points) -> list[float]:
    """A sum's rates a second; 0 if there are none."""
    return [0.0, *(value * 1000 / points.period_ms for _, value in points.values)]


def _sum(points: Points) -> float | None:
    return sum(value for _, value in points.values) if points.values else None


def _most(points: Points) -> float | None:
    return max((value for _, value in points.values), default=None)


def _share(part: float | None, of: float | None) -> float | None:
    return part / of if part is not None and of else None


def _of_quotas(gauges: Gauges, unknown: _Unknown) -> dict[str, Any]:
    def quota(one: Quota) -> float | None:
        return unknown.read(f"the quota of {one}", lambda: gauges.quota(one), _QUOTAS)

    return {
        "tables_quota": quota(Quota.TABLES),
        "table_units_quota": quota(Quota.TABLE_WRITES),
        "functions_quota": quota(Quota.FUNCTIONS),
    }


def _of_trigger(gauges: Gauges, unknown: _Unknown) -> dict[str, Any]:
    found = unknown.read("the writer's trigger", gauges.trigger, _TRIGGER)
    return {
        "batch_size": found.batch_size if found else None,
        "batch_window_seconds": found.batch_window_seconds if found else None,
        "max_concurrency": found.max_concurrency if found else None,
    }


def _of_metrics(values: Mapping[Gauge, Points]) -> dict[str, Any]:
    messages, batches = _sum(values[Gauge.MESSAGES]), _sum(values[Gauge.BATCHES])
    throttled = _sum(values[Gauge.THROTTLED])
    # Only batches with such a throttle have this metric.
    of_key_range = _sum(values[Gauge.THROTTLED_KEY_RANGE])
    durations = [value for _, value in values[Gauge.BATCH_MS].values]
    reads = values[Gauge.READS]
    return {
        "messages": messages,
        "batch_messages": _share(messages, batches),
        "batch_ms": sum(durations) / len(durations) if durations else None,
        "writers": _most(values[Gauge.WRITERS]),
        "writers_throttled": _sum(values[Gauge.WRITERS_THROTTLED]),
        "throttled": throttled,
        "throttled_key_range": of_key_range if throttled is None else of_key_range or 0.0,
        "oldest_s": _most(values[Gauge.OLDEST_S]),
        "in_flight": _most(values[Gauge.IN_FLIGHT]),
        "reads_per_second": max(_rates(reads)) if reads.values else None,
        "logged_units": _units_of_logs(values),
    }


def _units_of_logs(values: Mapping[Gauge, Points]) -> float | None:
    none = Points(1_000, ())
    units, events = (
        _sum(values.get(gauge, none)) for gauge in (Gauge.UNITS_LOGGED, Gauge.COUNTED_LOGGED)
    )
    return _share(units, events)


def _of_samples(
    samples: Mapping[str, Sequence[Record]],
    hot: Mapping[str, float],
    values: Mapping[Gauge, Points],
) -> dict[str, Any]:
    """The sizes of records, and the share of packed events in all: of the hottest keys, weighted by
    their rates, where there is no metric. Leaves of logs are no packets.
    """
    records = [record for sample in samples.values() for record in sample]
    single = [sized(record).size for record in records if not record.packed]
    packets = [record for record in records if _is_packet(record)]
    entries = sum(sized(record).size - PACKET_ITEM_BYTES for record in packets)
    events = sum(record.n for record in packets)
    rates = {key: hot[key] for key, sample in samples.items() if sample}
    packed_rates = sum(rate * _packed_share(samples[key]) for key, rate in rates.items())
    counted = {gauge: _sum(values[gauge]) or 0.0 for gauge in _COUNTED if gauge in values}
    of_metrics = _share(counted[Gauge.COUNTED_PACKED], sum(counted.values()))
    of_samples = _share(packed_rates, sum(rates.values()))
    return {
        "item_bytes": _share(sum(single), len(single)),
        "packet_events": _share(events, len(packets)),
        "packet_event_bytes": _share(max(1, entries), events),
        "packed_share": of_samples if of_metrics is None else of_metrics,
        "ids": {key: ids_seen(sample) for key, sample in samples.items()},
    }


def _packed_share(sample: Sequence[Record]) -> float:
    """The share of packed events in a sample that has any."""
    packed = sum(record.n for record in sample if _is_packet(record))
    return packed / sum(each.n for each in sample)


def _is_packet(record: Record) -> bool:
    return record.packed and not record.logged

"""What a view of a whole pipeline shows beside counts: its windows, the last hour's metrics."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tallyroll.limits import TS_MS_MAX
from tallyroll.model.states import Calendar, Window
from tallyroll.model.windows import Span
from tallyroll.operations.overview.status import part
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.gauges import Gauge, Gauges
from tallyroll.ports.live_windows import list_live
from tallyroll.ports.stack import Stack

RECENT, SHOWN_MAX = 120, 240
HOUR_MS = 3_600_000
SHOWN = (
    *(Gauge.MESSAGES, Gauge.BATCHES, Gauge.COUNTED, Gauge.THROTTLED, Gauge.THROTTLED_KEY_RANGE),
    *(Gauge.REQUESTS_SINGLE, Gauge.REQUESTS_PACKED),
    *(Gauge.WRITERS, Gauge.OLDEST_S, Gauge.IN_FLIGHT),
)


def recent_windows(catalog: Catalog, calendar: Calendar, now: int) -> Sequence[Window]:
    """The windows that are not dropped, and of the others the newest: some 120 lengths back."""
    pointer, current = catalog.live(), calendar.grid.at(now)
    recent = max(0, current.start - RECENT * (current.end - current.start))
    listed = [*list_live(catalog, pointer, 0, recent), *catalog.windows(recent, TS_MS_MAX + 1)]
    return list({window.id: window for window in listed}.values())


def gauges_json(
    gauges: Gauges, effects: Effects
) -> tuple[dict[str, list[tuple[int, float]]], dict[str, str]]:
    """The metrics of the last hour, by their names, as [start ms, value] pairs; and of those that
    could not be read, the reasons.
    """
    since, unknown = effects.now() - HOUR_MS, dict[str, str]()

    def read(gauge: Gauge) -> list[tuple[int, float]]:
        return part(unknown, gauge, lambda: [*gauges.points(gauge, since).values]) or []

    found = effects.together([partial(read, gauge) for gauge in SHOWN], len(SHOWN))
    pairs = zip(map(str, SHOWN), found, strict=True)
    return {name: said for name, said in pairs if name not in unknown}, unknown


def alarms_json(stack: Stack | None) -> list[dict[str, str]]:
    """The deployment's alarms. Raises StoreError."""
    alarms = stack.all_alarms() if stack else ()
    return [{"name": one.name, "state": one.state, "says": one.says} for one in alarms]


def shape_json(catalog: Catalog, span: Span | None) -> dict[str, Any] | None:
    """Over how many partition keys a window spreads records, tallies, listings and gates; None: it
    is not made. Raises StoreError.
    """
    spec = catalog.specs([span.id]).get(span.id) if span else None
    if spec is None:
        return None
    return {
        "shards": spec.shards,
        "stripes": spec.stripes_min,
        "buckets": spec.buckets,
        "gates": spec.gates,
        "hot": dict(spec.hot),
    }

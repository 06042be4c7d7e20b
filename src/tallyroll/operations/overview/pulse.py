"""What a pipeline does beside its status: metrics of the last hour, alarms, its window's shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from tallyroll.lifecycle.health import HOUR_MS
from tallyroll.model.windows import Span
from tallyroll.operations.doctor.checkup import Checkup
from tallyroll.operations.overview.status import part
from tallyroll.ports.gauges import Gauge, Gauges

SHOWN = (
    *(Gauge.MESSAGES, Gauge.BATCHES, Gauge.COUNTED, Gauge.THROTTLED, Gauge.THROTTLED_KEY_RANGE),
    *(Gauge.REQUESTS_SINGLE, Gauge.REQUESTS_PACKED),
    *(Gauge.WRITERS, Gauge.OLDEST_S, Gauge.IN_FLIGHT),
)
SHAPE = ("shards", "stripes_min", "gates", "hot")


def pulse_json(case: Checkup, gauges: Gauges, span: Span | None) -> dict[str, Any]:
    """The metrics of the last hour by name, as (start ms, value) pairs; the deployment's alarms;
    over how many partition keys a window spreads what it stores, None if it is not made. What could
    not be read is `unknown`, with the reason.
    """
    since, unknown, stack = case.effects.now() - HOUR_MS, dict[str, str](), case.stack

    def read(gauge: Gauge) -> Sequence[tuple[int, float]] | None:
        return part(unknown, gauge, lambda: gauges.points(gauge, since).values)

    shown = (*SHOWN, *((Gauge.REQUESTS_LOGGED,) if case.settings.logs else ()))
    found = case.effects.together([partial(read, gauge) for gauge in shown], len(shown))
    specs = part(unknown, "shards", lambda: case.catalog.specs([span.id] if span else []))
    alarms = part(unknown, "alarms", lambda: stack.all_alarms() if stack else ())
    spec = specs.get(span.id) if specs and span else None
    pairs = zip(map(str, shown), found, strict=True)
    return {
        "gauges": {name: values for name, values in pairs if values is not None},
        "alarms": [*map(asdict, alarms or ())],
        "shape": spec and {name: getattr(spec, name) for name in SHAPE},
        "unknown": unknown,
    }

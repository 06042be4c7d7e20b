"""The doctor's check of keys that DynamoDB throttles, by its own notes in CloudWatch."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from tallyroll.lifecycle.health import MINUTE_MS
from tallyroll.limits import SHARDS_MAX
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status, Window
from tallyroll.model.windows import DYNAMODB, store_of
from tallyroll.operations.doctor.checkup import Checkup, Sign, fine, warning
from tallyroll.ports.stack import HotPart, Stack

HEAT_BACK_MS = 15 * MINUTE_MS  # notes come minutes late
SPLIT_BY = 4
PARTS_SHOWN = 5
_ENABLED, _ENABLING = "ENABLED", "ENABLING"
_SPLIT = (
    "`tallyroll keys split --shards {shards} -- {key}` gives it more shards in the next windows"
)


def throttled_keys(case: Checkup) -> Iterator[Sign]:
    """No key of an open window is throttled, by what DynamoDB notes where that is an option."""
    if not case.settings.contributor_insights:
        yield fine("not noted: tallyroll:contributor_insights is off")
        return
    if case.stack is None:
        yield fine("no metrics are known")
        return
    opened = [
        window
        for window in case.windows.values()
        if window.status is Status.OPEN and store_of(window.table) == DYNAMODB
    ]
    for signs in case.each(opened, partial(_of_window, case, case.stack)):
        yield from signs
    yield fine(f"no key is noted as throttled within {HEAT_BACK_MS // MINUTE_MS} minutes")


def _of_window(case: Checkup, stack: Stack, window: Window) -> list[Sign]:
    heat = stack.table_heat(window.table, case.effects.now() - HEAT_BACK_MS)
    signs = []
    if heat.state not in ("", _ENABLED, _ENABLING):
        why = f" ({heat.reason})" if heat.reason else ""
        signs.append(
            warning(
                f"{window.id}: throttled keys of {window.table} are not noted: Contributor Insights"
                f" is {heat.state}{why}",
                "The roller asks for it once, when it makes a table. For this one, with"
                " dynamodb:UpdateContributorInsights on it, which operators lack: `aws dynamodb"
                f" update-contributor-insights --table-name {window.table}"
                " --contributor-insights-action ENABLE --contributor-insights-mode THROTTLED_KEYS`",
            )
        )
    by_key: dict[str, list[HotPart]] = {}
    for part in heat.parts:
        by_key.setdefault(part.key, []).append(part)
    if by_key:
        spec = case.catalog.specs([window.id])[window.id]
        signs += [_hot(window, spec, parts) for parts in by_key.values()]
    return [replace(sign, window=window.id) for sign in signs]


def _hot(window: Window, spec: Spec, parts: list[HotPart]) -> Sign:
    """A throttled key, or the throttled parts of tallies and gates, with what helps."""
    times = f"some {sum(part.throttles for part in parts):,} times"
    key = parts[0].key
    if not key:
        named = ", ".join(f"{part.name} ({part.throttles:,})" for part in parts[:PARTS_SHOWN])
        return warning(
            f"{window.id}: the window's tallies and gates were throttled {times}, on {named}",
            "Raise tallyroll:stripes and tallyroll:gates for the next windows, and have producers"
            " pack (docs/sharding.md, Conflicts).",
        )
    shards = spec.shards_of(key)
    shown = ", ".join(f"{part.shard} ({part.throttles:,})" for part in parts[:PARTS_SHOWN])
    more = min(SHARDS_MAX, SPLIT_BY * shards)
    split = (
        _SPLIT.format(key=shlex.quote(key), shards=more)
        if shards < SHARDS_MAX
        else "It has as many shards as a key can have"
    )
    return warning(
        f"{window.id}: the key {key!r} was throttled {times}, of its {shards:,} shards on {shown}",
        f"{split}. Have its producers pack (docs/operations.md, key-throttles).",
    )

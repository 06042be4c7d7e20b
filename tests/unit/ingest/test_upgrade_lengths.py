"""Calendars with months, as the writer of the release before reads them, by its own sources."""

from __future__ import annotations

import json
import os
import sys
import tarfile
from pathlib import Path

from tallyroll.adapters.dynamodb.attributes import attributes_of
from tallyroll.adapters.dynamodb.catalog_items import calendar_facts
from tallyroll.model.states import Calendar
from tallyroll.model.windows import Grid, window_start
from tests.harness.pipeline import HOUR, NOW, START, WINDOW, spec_of
from tests.harness.processes import ran
from tests.harness.release import ARCHIVE, CODE

PROGRAM = """
import json, logging, sys
from dataclasses import fields
from types import SimpleNamespace
from tallyroll.adapters.dynamodb.catalog_items import parse_calendar
from tallyroll.ingest.placement import Delivery, Placer
from tallyroll.model.messages import Message
from tallyroll.model.specs import Spec
from tallyroll.ports.catalog_cache import CachedCatalog
from tallyroll.settings import Settings

logging.disable()
items, facts, times, now = json.load(sys.stdin)
known = [each.name for each in fields(Spec)]
spec, told = Spec(**{name: of for name, of in facts.items() if name in known}), {}
for name, item in items.items():
    catalog = SimpleNamespace(
        calendar=lambda: parse_calendar(item),
        specs=lambda windows: {spec.window: spec} if spec.window in windows else {},
    )
    cached = CachedCatalog(catalog, SimpleNamespace(now=lambda: now), 0)
    bodies = [json.dumps({"key": "k", "id": "e", "ts": ts}) for ts in times] + ['{"key": 7}']
    cases = [Delivery(Message("m", body, max(times), 1, "r")) for body in bodies]
    Placer(Settings(), catalog, cached).place(cases)
    told[name] = [
        [fate.kind.name, fate.reason or fate.detail] if (fate := case.fate) else case.spec.window
        for case in cases
    ]
json.dump(told, sys.stdout)
"""


def test_it_hands_back_what_falls_into_months_and_counts_what_does_not(tmp_path: Path) -> None:
    december = window_start("20261201T000000Z")
    hours = Grid.of(3600)
    grids = {
        "hours": hours,
        "minutes": hours.with_length(60, december),
        "months": hours.with_length("month", NOW),
        "founded": Grid.of("month"),
    }
    assert grids["months"].lengths[-1] == (december, "month")
    items = {
        name: attributes_of(calendar_facts(Calendar(grid, START))) for name, grid in grids.items()
    }
    spec = spec_of(accept_until=december + HOUR)
    facts = {name: getattr(spec, name) for name in spec.__slots__ if name != "hot"}
    with tarfile.open(ARCHIVE) as tar:
        tar.extractall(tmp_path, filter="data")
    done = ran(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([items, facts, [NOW, december], NOW]),
        env={**os.environ, "PYTHONPATH": str(tmp_path / CODE)},
        check=True,
    )
    refused = ["REJECTED", "bad-key"]
    failed = ["HANDED_BACK", "the writer failed on it: TypeError"]
    unmade = ["HANDED_BACK", "window 20261201T000000Z is not made yet"]
    assert json.loads(done.stdout) == {
        "hours": [WINDOW, unmade, refused],
        "minutes": [WINDOW, unmade, refused],
        "months": [WINDOW, failed, refused],
        "founded": [failed, failed, refused],
    }

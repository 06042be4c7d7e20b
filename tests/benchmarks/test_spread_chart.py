"""The chart of both orders is the one in the documents, and is what a load does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar
from xml.etree import ElementTree as ET

from benchmarks.producing import load, units_by_second
from benchmarks.spread_chart import FILE, drawn
from tallyroll.adapters.memory import MemoryCatalog
from tallyroll.adapters.system import SystemEffects
from tallyroll.client.bulk import BulkSender
from tallyroll.client.checkpoint import Checkpoint
from tallyroll.client.loading import BadFile, Load, SourceLayout
from tallyroll.client.send_calendar import SendCalendar
from tallyroll.client.sources.places import Format, Place
from tallyroll.client.sources.shapes import ByColumns
from tallyroll.limits import PARTITION_WRITE_UNITS
from tallyroll.model.events import Event, decode
from tallyroll.ports.queue import SendFailure
from tallyroll.settings import Settings


class Recording:
    """A queue that keeps the keys and ids in the order in which they were sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []

    def send(self, bodies: Iterable[str]) -> list[SendFailure]:
        for body in bodies:
            event = decode(body)
            assert isinstance(event, Event)
            assert event.id
            self.sent.append((event.key, event.id))
        return []


T = TypeVar("T")


class OneThread(SystemEffects):
    """Requests in their order."""

    def together(self, jobs: Sequence[Callable[[], T]], at_once: int) -> list[T]:
        return [job() for job in jobs]


def test_the_chart_is_up_to_date() -> None:
    assert FILE.read_text(encoding="utf-8") == drawn(), "run python -m benchmarks.spread_chart"


def test_the_chart_has_a_line_for_each_partition_in_both_orders() -> None:
    lines = [each for each in ET.fromstring(drawn()).iter() if each.tag.endswith("polyline")]
    assert len(lines) == 8
    assert {len(each.attrib["points"].split()) for each in lines} == {20}
    assert re.findall(r"(\d+) of 20 seconds", drawn())[1] == "0"


def test_a_load_of_sorted_keys_asks_no_partition_for_more_than_it_takes(tmp_path: Path) -> None:
    events = load()
    path = tmp_path / "sorted.csv"
    rows = (f"{key},{record_id},1795163400000\n" for key, record_id in events)
    path.write_text("key,id,ts\n" + "".join(rows))
    queue, effects = Recording(), OneThread()
    calendar = SendCalendar(MemoryCatalog(), Settings(), effects, lambda _: None)
    loading = Load(
        BulkSender(queue, effects, calendar, name="load"),
        SourceLayout({form: ByColumns({}) for form in Format}),
        Checkpoint(tmp_path / "checkpoint", {"shape": ""}),
        BadFile(tmp_path / "bad", 0),
        skip_changes=False,
        on_progress=lambda _: None,
        listed=lambda *_: None,
    )
    loading.run([Place("sorted.csv", path.stat().st_size, Format.CSV, path)])

    assert sorted(queue.sent) == sorted(events)
    before = max(map(max, units_by_second(events)))
    after = max(map(max, units_by_second(queue.sent)))
    assert after < PARTITION_WRITE_UNITS < before

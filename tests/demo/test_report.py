from __future__ import annotations

import io
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from local.demo.emf import Ledger
from local.demo.report import (
    Sum,
    Traffic,
    Verdict,
    cost_table,
    hot_key_cost,
    judge_keys,
    judge_windows,
    key_table,
    print_verdict,
    traffic_table,
    window_tables,
)
from local.demo.selecting import Selected
from local.demo.view import PlainView, Snapshot
from tallyroll.lifecycle.state_machine import freeze
from tallyroll.model.states import Attempt, Status, Window
from tallyroll.model.windows import window_id
from tallyroll.settings import Settings

NOON = 1_795_176_000_000  # 2026-11-20T12:00:00Z
TRUTH = {"a": Sum(3, 3_000_000), "b": Sum(1, -500_000)}


def dropped(**times: int) -> Window:
    return Window("20260101T000000Z", "t", 0, 1, Status.DROPPED, times=times)


def test_exact_numbers_are_good() -> None:
    verdict = Verdict()
    judge_keys(TRUTH, dict(TRUTH), verdict)
    assert not verdict.failures


@pytest.mark.parametrize(
    "counted",
    [
        {**TRUTH, "a": Sum(2, 3_000_000)},
        {**TRUTH, "a": Sum(3, 3_000_001)},
        {"a": TRUTH["a"]},
        {**TRUTH, "c": Sum(1, 0)},
    ],
    ids=["fewer events", "another sum", "a key missing", "a key too many"],
)
def test_any_difference_is_a_failure(counted: dict[str, Sum]) -> None:
    verdict = Verdict()
    judge_keys(TRUTH, counted, verdict)
    assert len(verdict.failures) == 1


@pytest.mark.parametrize(
    ("window", "proofs", "failures"),
    [
        (dropped(proven=5, dropping=5), {"20260101T000000Z": True}, 0),
        (dropped(proven=6, dropping=5), {}, 1),
        (dropped(dropping=5), {}, 1),
        (dropped(proven=5, dropping=5), {"20260101T000000Z": False}, 1),
    ],
    ids=["proven first", "proven later", "never proven", "does not verify"],
)
def test_a_drop_needs_a_proof_before_it(
    window: Window, proofs: dict[str, bool], failures: int
) -> None:
    verdict = Verdict()
    judge_windows([window], proofs, verdict)
    assert len(verdict.failures) == failures


def test_a_hot_key_in_full_batches_costs_what_was_promised() -> None:
    cost = hot_key_cost(Settings(), 9_800)
    assert 2.0 < cost.total / 9_800 <= 2.1
    assert 0.01 < cost.requests / 9_800 <= 0.012


def test_the_ledger_adds_metrics_and_keeps_complaints() -> None:
    ledger = Ledger()
    ledger.log('{"_aws": {}, "service": "writer", "EventsCounted": [2.0, 3.0]}')
    ledger.log('{"_aws": {}, "EventsCounted": [4.0]}')
    ledger.log('{"level": "INFO", "message": "fine"}')
    ledger.log('{"level": "WARNING", "service": "writer", "message": "hm", "reasons": {"x": 1}}')
    ledger.log("Traceback")
    assert ledger.sum("EventsCounted") == 9
    assert list(ledger.problems) == ["writer: hm {'x': 1}", "Traceback"]


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize(
    ("starts", "hot", "shown"),
    [
        ((NOON, NOON + 5_000), {"Ada": 64}, ["│ 12:00:05 │", "│     16 │", "hot keys: Ada 64"]),
        ((NOON, NOON + 86_400_000), {}, ["│ 11-21 12:00:00 │", "│     16 │"]),
    ],
    ids=["of one day", "of two days"],
)
def test_windows_are_shown_whole_in_a_terminal(
    starts: tuple[int, ...], hot: dict[str, int], shown: list[str], columns: int
) -> None:
    settings = Settings(shards=16, hot_shards=hot)
    windows = [
        replace(
            dropped(proven=start, dropped=start + 1),
            id=window_id(start),
            start=start,
            keys=12,
            events=123_456,
            attempt=Attempt(items=12_345),
        )
        for start in starts
    ]
    specs = {window.id: freeze(window, settings) for window in windows}
    console = Console(width=columns, record=True, file=io.StringIO())
    for table in window_tables(windows, specs, {window.id: True for window in windows}, console):
        console.print(table)
    text = console.export_text()
    for part in (*shown, "│ dropped │", "┃ keys ┃", "│ 123,456 │", "│ 12,345 │", "read again"):
        assert part in text
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= columns


def test_tables_show_what_they_are_given() -> None:
    console = Console(width=110, record=True)
    ledger = Ledger()
    ledger.log('{"_aws": {}, "SingleEventsCounted": [10], "WriteUnitsSingle": [23]}')
    console.print(key_table("The vote", TRUTH, {**TRUTH, "b": Sum(2, 0)}, most=1))
    console.print(cost_table(ledger, Settings()))
    print_verdict(console, Verdict(["a: counted 2"]), "", ["writer: hm"])
    text = console.export_text()
    assert "1 more key " in text
    assert text.count("✗") == 2
    assert "2.300" in text
    assert "NOT EXACT" in text
    assert "log: writer: hm" in text


def test_a_phase_without_sending_tells_no_events() -> None:
    console = Console(width=100, file=io.StringIO(), record=True)
    view = PlainView(console)
    view.show(Snapshot("sending", planned=200, sent=197))
    view.show(Snapshot("archiving, 1 window left", windows=[dropped()]))
    assert console.export_text().splitlines() == [
        "sending: sent 197 of 200, counted 0 (0/s), queued 0",
        "archiving, 1 window left; windows: 000000 dropped",
    ]


# --- the document's copy of a night

ROOT = Path(__file__).parents[2]
WHOLE = (ROOT / "docs" / "demo.md").read_text(encoding="utf-8")
NIGHT = WHOLE[WHOLE.index("Events and messages\n") : WHOLE.index("What an event cost\n")]


def test_readme_shows_lines_of_the_document() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = [line for line in readme.splitlines() if line.startswith(("│", "┃", "EXACT"))]
    assert len(shown) >= 6
    assert set(shown) <= {*WHOLE.splitlines()}


def printed(table: Table) -> str:
    """A table as the document has it."""
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in console.export_text().splitlines())


def numbers(text: str) -> list[int]:
    """The whole numbers at the ends of rows, down to the frame."""
    return [int(each.replace(",", "")) for each in re.findall(r"([\d,]+) │\n", text)]


def test_the_document_shows_the_table_of_traffic() -> None:
    (sent, _, twice, messages, deliveries, kills, counted, duplicates, _, *rejected) = numbers(
        NIGHT.partition("The vote\n")[0]
    )
    reasons = re.findall(r"│   ([a-z-]+) +│ +\d+ │\n", NIGHT)
    traffic = Traffic(
        sent=sent,
        twice=twice,
        messages=messages,
        deliveries=deliveries,
        kills=kills,
        counted=counted,
        duplicates=duplicates,
        rejected=dict(zip(reasons, rejected, strict=True)),
    )
    assert printed(traffic_table(traffic)) in NIGHT


def test_the_document_shows_the_table_of_windows() -> None:
    def at(clock: str) -> int:
        hours, minutes, seconds = map(int, clock.split(":"))
        return NOON + 1_000 * (3_600 * (hours - 12) + 60 * minutes + seconds)

    rows = [
        [cell.strip() for cell in line.strip("│\n").split("│")]
        for line in NIGHT.partition("Windows of")[2].splitlines()
        if line.startswith("│")
    ]
    windows = [
        replace(
            dropped(proven=at(proven), dropped=at(gone)),
            id=window_id(at(start)),
            start=at(start),
            keys=int(keys),
            events=int(events.replace(",", "")),
            attempt=Attempt(items=int(items.replace(",", ""))),
        )
        for start, _, _, keys, events, items, proven, gone, _ in rows
    ]
    spec = freeze(windows[0], Settings(shards=16, hot_shards={"Ada": 64}))
    (table,) = window_tables(
        windows,
        dict.fromkeys([window.id for window in windows], spec),
        {window.id: True for window in windows},
        Console(width=100),
    )
    assert printed(table) in NIGHT


def test_the_document_shows_the_query_and_its_rows() -> None:
    of_keys = re.findall(r"│ (\w+) +│ +([\d,]+) │ +[\d,]+ │ +(\d+) │", NIGHT)
    rows = [(key, int(n.replace(",", "")), Decimal(f"{of}.000000")) for key, n, of in of_keys]
    selected = Selected(rows[:-1], archives=NIGHT.count("│ dropped │"), unconverted=0)
    assert f"{selected.heading}\n{printed(selected.table())}EXACT" in WHOLE


def test_a_query_that_finds_other_sums_or_too_few_files_is_told() -> None:
    counted = {"Ada": Sum(2, 3_500_000), "Grace": Sum()}
    for rows, unconverted, told in (
        ([("Ada", 2, Decimal("3.500000"))], 0, ([], [])),
        ([("Ada", 2, Decimal("3.500001"))], 0, (["SQL finds"], [])),
        ([], 1, (["SQL finds"], ["1 archive not"])),
    ):
        verdict = Verdict()
        Selected(rows, archives=1, unconverted=unconverted).judge(counted, verdict)
        found = ([text[:9] for text in verdict.failures], [text[:13] for text in verdict.slow])
        assert found == told

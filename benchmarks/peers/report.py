"""The comparison as tables and a chart: on the terminal, in docs/benchmarks.md, and in part in the
README.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from math import log10
from pathlib import Path
from textwrap import fill

from rich.table import Table

from benchmarks.peers.measure import REQUEST_MS, REQUEST_MS_OTHER, Measured
from benchmarks.peers.reads import Read
from tallyroll.planning.prices import AS_OF, REGION

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
WHOLE = ROOT / "docs" / "benchmarks.md"
PICTURES = ROOT / "docs" / "pictures"
COLUMNS = 120
BEGIN, END = "<!-- what `make bench` measured -->", "<!-- end of what `make bench` measured -->"
IN_README = ("(a)", "(b)", "(e)", "(f) Tallyroll, packed", "(g)")
HEADS = ("counted", "off", "events/s", "ratio", "requests", "units", "CPU us", "$ / million")
READ_HEADS = ("N", "Tallyroll", "Query in turn", "Query on 16 threads")
CAPTION = (
    "requests, write units and client CPU are for one event. Dollars: SQS, Lambda and DynamoDB"
    f" ({REGION}, {AS_OF}), with totals and roll-ups of Tallyroll's keys, and on the assumption"
    f" that a request takes {REQUEST_MS_OTHER:.0f} ms and a transaction"
    f" {REQUEST_MS['TransactWriteItems']:.0f}"
)

COLOURS = {
    "light": {"ink": "#1d2733", "soft": "#5b6875", "bar": "#9fb3c8", "ours": "#0b62b8"},
    "dark": {"ink": "#e3e9ef", "soft": "#9aa8b5", "bar": "#4a5b6c", "ours": "#6db3f7"},
}
WIDTH, LEFT, PANEL, ROW, TOP = 900, 210, 210, 24, 52


def write_table(title: str, rows: Sequence[Measured]) -> Table:
    """The ways on one load."""
    table = Table(title=title, title_justify="left")
    table.add_column("way")
    for head in HEADS:
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(*cells(row, rows[0]))
    return table


def cells(row: Measured, first: Measured) -> tuple[str, ...]:
    """A line of the table; ratios are to the first way."""
    return (
        row.way,
        f"{row.counted:,}",
        f"{row.off:,}" if row.off else "exact",
        f"{row.per_second:,.0f}",
        f"{row.per_second / first.per_second:.1f}",
        f"{row.requests:.4f}",
        f"{row.units:.3f}",
        f"{row.cpu_us:.0f}",
        _short(row.dollars),
    )


def read_table(reads: Sequence[Read]) -> Table:
    """The reads."""
    table = Table(title="A count over N shards, ms (median)", title_justify="left")
    for head in READ_HEADS:
        table.add_column(head, justify="right")
    for read in reads:
        table.add_row(*read_cells(read))
    return table


def read_cells(read: Read) -> tuple[str, ...]:
    """A line of the reads."""
    return (f"{read.shards}", *(f"{ms:.1f}" for ms in (read.ours, read.in_turn, read.threads)))


def write_documents(
    found: Mapping[str, Sequence[Measured]], reads: Sequence[Read], events: int
) -> None:
    """Put the tables and the chart where the documents have their marks."""
    PICTURES.mkdir(exist_ok=True)
    hot = next(iter(found.values()))
    for theme in COLOURS:
        (PICTURES / f"bench-{theme}.svg").write_text(chart(hot, theme), encoding="utf-8")
    _put(README, excerpt(next(iter(found)), hot, events))
    _put(WHOLE, section(found, reads, events))


def _put(path: Path, lines: Iterator[str]) -> None:
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    text = "\n".join(lines)
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def excerpt(title: str, rows: Sequence[Measured], events: int) -> Iterator[str]:
    """The README's lines: the chart, and some ways on the first load."""
    yield from picture("docs/pictures")
    yield f"\n**{events:,} events of {title}**\n"
    shown = [row for row in rows if row.way.startswith(IN_README)]
    yield from markdown(("way", *HEADS), [cells(row, rows[0]) for row in shown])


def picture(folder: str) -> Iterator[str]:
    """The chart for light and dark pages."""
    yield "<picture>"
    yield f'  <source media="(prefers-color-scheme: dark)" srcset="{folder}/bench-dark.svg">'
    report = "Events off the truth, events per second and dollars per million events"
    yield f'  <img alt="{report}" src="{folder}/bench-light.svg">'
    yield "</picture>"


def section(
    found: Mapping[str, Sequence[Measured]], reads: Sequence[Read], events: int
) -> Iterator[str]:
    """The lines of docs/benchmarks.md."""
    yield from picture("pictures")
    for title, rows in found.items():
        yield f"\n**{events:,} events of {title}**\n"
        yield from markdown(("way", *HEADS), [cells(row, rows[0]) for row in rows])
    yield "\n**A count over N shards, ms (median)**\n"
    yield from markdown(READ_HEADS, [read_cells(read) for read in reads])
    today = datetime.now(UTC).date()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    text = (
        f"Measured by `make bench` on {today}: {platform.machine()}, {cores} cores, Python"
        f" {platform.python_version()}, DynamoDB Local on the same machine, with Java's full"
        f" optimization, after a load for each way that is not counted; {CAPTION}."
    )
    yield f"\n{fill(text, COLUMNS)}"


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table in Markdown, numbers to the right."""
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "|".join("---" if not number else "--:" for number in range(len(heads))) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def chart(rows: Sequence[Measured], theme: str) -> str:
    """Three panels of bars: events off the truth, events per second, dollars per million."""
    panels = (
        ("events off the truth", [float(row.off) for row in rows], False),
        ("events per second (log)", [row.per_second for row in rows], True),
        ("$ per million events", [row.dollars for row in rows], False),
    )
    height = TOP + ROW * len(rows) + 12
    colours = COLOURS[theme]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<style>text{{font:13px system-ui,sans-serif;fill:{colours['ink']}}}",
        f".soft{{fill:{colours['soft']}}} .bar{{fill:{colours['bar']}}}",
        f".ours{{fill:{colours['ours']}}}</style>",
    ]
    for index, row in enumerate(rows):
        parts.append(f'<text x="0" y="{_baseline(index)}">{escape(row.way)}</text>')
    for panel, (title, values, is_log) in enumerate(panels):
        x = LEFT + panel * (PANEL + 20)
        parts.append(f'<text class="soft" x="{x}" y="24">{title}</text>')
        for index, (row, value) in enumerate(zip(rows, values, strict=True)):
            parts += _bar(x, index, value, max(values), row, is_log=is_log)
    return "\n".join([*parts, "</svg>", ""])


def _bar(
    x: int, index: int, value: float, most: float, row: Measured, *, is_log: bool
) -> list[str]:
    share = log10(max(value, 1)) / log10(most) if is_log else value / most if most else 0.0
    width = round(share * (PANEL - 60), 1)
    kind = "ours" if "Tallyroll" in row.way else "bar"
    report = f"{value:,.0f}" if value >= 100 or value.is_integer() else _short(value)
    return [
        f'<rect class="{kind}" x="{x}" y="{_baseline(index) - 12}" width="{width}" height="15"/>',
        f'<text x="{x + width + 6}" y="{_baseline(index)}">{report}</text>',
    ]


def _short(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def _baseline(index: int) -> int:
    return TOP + ROW * index

"""Draws what one key takes of a table by its partitions, for light and dark pages: the file
`docs/limits.svg`. On the left with the 16 shards that a key had before, on the right with more.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.limits import PARTITIONS, SHARDS, SHARDS_BEFORE, rates_of, writes
from tallyroll.planning.shards import table_rate

FILE = Path(__file__).parents[1] / "docs" / "limits.svg"
WIDTH, HEIGHT, TOP, BOTTOM, LEFT, GAP = 860, 300, 40, 66, 64, 64
RATE_MAX, STEP = 40_000, 10_000
PANEL = (WIDTH - LEFT - GAP - 80) // 2
SHOWN = (4, 10, 20, 30, 40, 60, 80)  # partitions
# Okabe and Ito's colours, which people with colour blindness tell apart.
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #5b6875; } .name { font-size: 14px; fill: #1d2733; }
.axis { stroke: #d5dce3; } .all { stroke: #5b6875; stroke-dasharray: 5 4; }
polyline { fill: none; stroke-width: 2; } .n16 { stroke: #e69f00; } .n64 { stroke: #cc79a7; }
.n256 { stroke: #0072b2; } .n1024 { stroke: #009e73; }
@media (prefers-color-scheme: dark) { text { fill: #9aa8b5; } .name { fill: #e3e9ef; }
  .axis { stroke: #303b46; } .all { stroke: #9aa8b5; } .n16 { stroke: #f0c04a; }
  .n64 { stroke: #e6a8cb; } .n256 { stroke: #56b4e9; } .n1024 { stroke: #3fcf9f; } }
"""


def _y(rate: float) -> float:
    return HEIGHT - BOTTOM - rate / RATE_MAX * (HEIGHT - BOTTOM - TOP)


def _x(left: float, partitions: int) -> float:
    return left + partitions / PARTITIONS[-1] * PANEL


def _line(left: float, kind: str, label: str, rates: Sequence[float]) -> str:
    points = " ".join(
        f"{_x(left, partitions):.1f},{_y(rate):.1f}"
        for partitions, rate in zip(SHOWN, rates, strict=True)
    )
    x, y = left + PANEL + 5, _y(rates[-1]) + 4
    return (
        f'<polyline class="{kind}" points="{points}"/><text x="{x:.1f}" y="{y:.1f}">{label}</text>'
    )


def _panel(name: str, left: float, shards: Sequence[int]) -> str:
    """Events a second by partitions: of the whole table, and of one key by its shards."""
    parts = [f'<text class="name" x="{left}" y="{TOP - 16}">{name}</text>']
    for rate in range(0, RATE_MAX + 1, STEP):
        y = _y(rate)
        parts.append(
            f'<line class="axis" x1="{left}" x2="{left + PANEL}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{rate:,}</text>')
    for partitions in PARTITIONS:
        x, y = _x(left, partitions), HEIGHT - BOTTOM + 18
        parts.append(f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{partitions}</text>')
    parts.append(
        _line(left, "all", "table", [table_rate(writes(), partitions=each) for each in SHOWN])
    )
    for number in shards:
        rates = [rates_of(number, partitions).mean for partitions in SHOWN]
        parts.append(_line(left, f"n{number}", f"{number:,}", rates))
    return "".join(parts)


def drawn() -> str:
    """The chart."""
    panels = [
        _panel(f"Before: {SHARDS_BEFORE} shards", LEFT, SHARDS[:1]),
        _panel("Now: 256 shards, or another number", LEFT + PANEL + GAP + 28, SHARDS[1:]),
    ]
    legend = (
        "Events a second by the table's partitions, before DynamoDB splits any. Dashed: many keys"
        " together."
    )
    panels.append(f'<text x="{LEFT}" y="{HEIGHT - 12}">{legend}</text>')
    label = "With few shards a key gains little from more partitions, with 256 much more"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' aria-label="{label}"><style>{_STYLE}</style>{"".join(panels)}</svg>\n'
    )

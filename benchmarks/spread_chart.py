"""Draws how sends spread over partitions: `python -m benchmarks.spread_chart`.

Writes `docs/spread.svg`: the write units of each partition in each second, for input that is sorted
by key, as it is and with the keys in turn. It is the data of `python -m benchmarks.producing`, and
fixed: it depends on no machine.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.producing import PARTITIONS, load, turned, units_by_second
from tallyroll.limits import PARTITION_WRITE_UNITS

FILE = Path(__file__).parents[1] / "docs" / "spread.svg"
WIDTH, HEIGHT, TOP, BOTTOM, LEFT, GAP = 860, 284, 40, 68, 56, 56
UNITS_MAX, STEP = 2_000, 500
PANEL = (WIDTH - LEFT - GAP - 10) // 2
# Okabe and Ito's colours, which people with colour blindness tell apart.
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #5b6875; } .name { font-size: 14px; fill: #1d2733; }
.axis { stroke: #d5dce3; } .limit { stroke: #c8332b; stroke-dasharray: 5 4; }
.over { fill: #c8332b; }
polyline { fill: none; stroke-width: 1.8; } .p0 { stroke: #0072b2; } .p1 { stroke: #e69f00; }
.p2 { stroke: #009e73; } .p3 { stroke: #cc79a7; }
@media (prefers-color-scheme: dark) { text { fill: #9aa8b5; } .name { fill: #e3e9ef; }
  .axis { stroke: #303b46; } .limit { stroke: #f0564a; } .over { fill: #f0564a; }
  .p0 { stroke: #56b4e9; } .p1 { stroke: #f0c04a; } .p2 { stroke: #3fcf9f; }
  .p3 { stroke: #e6a8cb; } }
"""


def _y(units: float) -> float:
    return HEIGHT - BOTTOM - units / UNITS_MAX * (HEIGHT - BOTTOM - TOP)


def panel(name: str, left: float, seconds: Sequence[Sequence[float]]) -> str:
    """One order of sending: a line for each partition, and the limit of a partition."""
    right, step = left + PANEL, PANEL / (len(seconds) - 1)
    parts = [f'<text class="name" x="{left}" y="{TOP - 16}">{name}</text>']
    for units in range(0, UNITS_MAX + 1, STEP):
        y = _y(units)
        parts.append(f'<line class="axis" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        label = f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{units:,}</text>'
        parts.append(label)
    for number in range(PARTITIONS):
        points = " ".join(
            f"{left + at * step:.1f},{_y(second[number]):.1f}" for at, second in enumerate(seconds)
        )
        parts.append(f'<polyline class="p{number}" points="{points}"/>')
    limit = _y(PARTITION_WRITE_UNITS)
    parts.append(
        f'<line class="limit" x1="{left}" x2="{right}" y1="{limit:.1f}" y2="{limit:.1f}"/>'
    )
    over = sum(max(second) > PARTITION_WRITE_UNITS for second in seconds)
    report = f"{over} of {len(seconds)} seconds ask more of a partition than it takes"
    below = HEIGHT - BOTTOM
    parts.append(f'<text x="{left}" y="{below + 18}">0 s</text>')
    parts.append(f'<text x="{right}" y="{below + 18}" text-anchor="end">{len(seconds)} s</text>')
    kind = ' class="over"' if over else ""
    parts.append(f'<text{kind} x="{left}" y="{below + 36}">{report}</text>')
    return "".join(parts)


def drawn() -> str:
    """The chart, for light and dark pages."""
    events = load()
    panels = [
        panel("Sorted by key: sent in this order", LEFT, units_by_second(events)),
        panel(
            "Keys in turn: as load and send send it",
            LEFT + PANEL + GAP,
            units_by_second(turned(events)),
        ),
    ]
    legend = (
        f"Each line is a partition: its write units a second. Dashed: {PARTITION_WRITE_UNITS:,},"
        " all that one takes."
    )
    panels.append(f'<text x="{LEFT}" y="{HEIGHT - 8}">{legend}</text>')
    label = f"write units a second of each of {PARTITIONS} partitions, in two orders of sending"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' aria-label="{label}"><style>{_STYLE}</style>{"".join(panels)}</svg>\n'
    )


def main() -> int:
    """Write the file."""
    FILE.write_text(drawn(), encoding="utf-8")
    print(f"{FILE.name} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main())

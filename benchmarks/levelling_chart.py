"""Draws how a write rate levels a burst, for light and dark pages: `docs/levelling.svg`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.levelling import RATE, SECONDS, Levelled

FILE = Path(__file__).parents[1] / "docs" / "levelling.svg"
WIDTH, LEFT, RIGHT, TOP, PANEL, GAP, BOTTOM = 860, 64, 16, 34, 110, 46, 52
TICK_SECONDS = 15
# Okabe and Ito's colours, which people with colour blindness tell apart.
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #5b6875; } .name { font-size: 14px; fill: #1d2733; }
.axis { stroke: #d5dce3; } .limit { stroke: #c8332b; stroke-dasharray: 5 4; }
polyline { fill: none; stroke-width: 1.8; } .arrived { stroke: #5b6875; }
.without { stroke: #e69f00; } .with { stroke: #0072b2; stroke-width: 2.4; }
@media (prefers-color-scheme: dark) { text { fill: #9aa8b5; } .name { fill: #e3e9ef; }
  .axis { stroke: #303b46; } .limit { stroke: #f0564a; } .arrived { stroke: #9aa8b5; }
  .without { stroke: #f0c04a; } .with { stroke: #56b4e9; } }
"""


def _round_up(most: float) -> int:
    """A round number of two leading digits, at or above `most`."""
    step: int = 10 ** max(0, len(str(int(most))) - 2)
    return -(-int(most) // step) * step


def _panel(
    number: int, name: str, lines: Sequence[tuple[str, Sequence[float]]], limit: int = 0
) -> str:
    """One number over time: a line of each kind, which names its style."""
    top = TOP + number * (PANEL + GAP)
    below, right = top + PANEL, WIDTH - RIGHT
    most = _round_up(max(max(values) for _, values in lines))
    step = (right - LEFT) / (SECONDS - 1)
    parts = [f'<text class="name" x="{LEFT}" y="{top - 10}">{name}</text>']
    for value in (0, most // 2, most):
        y = below - value / most * PANEL
        parts.append(f'<line class="axis" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:,}</text>')
    for kind, values in lines:
        points = " ".join(
            f"{LEFT + at * step:.1f},{below - value / most * PANEL:.1f}"
            for at, value in enumerate(values)
        )
        parts.append(f'<polyline class="{kind}" points="{points}"/>')
    if limit:
        y = below - limit / most * PANEL
        parts.append(f'<line class="limit" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
    for second in range(0, SECONDS + 1, TICK_SECONDS):
        x = LEFT + min(second, SECONDS - 1) * step
        parts.append(f'<text x="{x:.1f}" y="{below + 16}" text-anchor="middle">{second} s</text>')
    return "".join(parts)


def drawn(without: Levelled, with_rate: Levelled) -> str:
    """The chart."""
    seconds = range(SECONDS)

    def asked(course: Levelled) -> list[float]:
        return [course.asked[second] for second in seconds]

    panels = [
        _panel(
            0,
            "Events that arrive a second",
            [("arrived", [with_rate.arrived[at] for at in seconds])],
        ),
        _panel(
            1,
            "Write units a second that the tables are asked for",
            [("without", asked(without)), ("with", asked(with_rate))],
            RATE,
        ),
        _panel(
            2,
            "Messages in the queue",
            [("without", without.waiting[:SECONDS]), ("with", with_rate.waiting[:SECONDS])],
        ),
    ]
    height = TOP + 3 * (PANEL + GAP) + BOTTOM - GAP
    legend = (
        f"Blue: with a write rate of {RATE}, the dashed line. Yellow: without one. All"
        f" {with_rate.counted:,} events are counted, both times."
    )
    panels.append(f'<text x="{LEFT}" y="{height - 10}">{legend}</text>')
    label = "A burst of ten times the events goes into the queue, and a flat line into the tables"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' aria-label="{label}"><style>{_STYLE}</style>{"".join(panels)}</svg>\n'
    )

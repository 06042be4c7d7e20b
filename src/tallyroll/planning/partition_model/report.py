"""The report of a simulation: one HTML page with its charts, light and dark, without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from tallyroll.planning.partition_model.result import HEAT_ROWS, TimeSeries
from tallyroll.planning.partition_model.table import Floats

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 860, 190, 70, 28, 12
HEAT_HEIGHT = 300
LEVELS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.95)  # shares of a partition's limit at which colours begin
POINTS_MAX = 600
TICKS = 4
Rows = Sequence[tuple[str, ...]]
_STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --soft: #5b6875; --paper: #fff; --line: #d5dce3;
  --mark: #0b62b8; --h0: #f3f6f9; --h1: #d9e8f6; --h2: #a9cdec; --h3: #f5cf7f; --h4: #ee8f4d;
  --h5: #c8332b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e9ef; --soft: #9aa8b5; --paper: #12181f;
  --line: #303b46; --mark: #6db3f7; --h0: #1a222b; --h1: #1f3a52; --h2: #2d648f; --h3: #a87b22;
  --h4: #cf6a26; --h5: #f0564a; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 900px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .4rem; }
p { color: var(--soft); margin: .3rem 0; }
svg { width: 100%; height: auto; display: block; } text { fill: var(--soft); font-size: 12px; }
.axis { stroke: var(--line); stroke-width: 1; } .course { stroke: var(--mark); stroke-width: 1.6;
  fill: none; } .area { fill: var(--mark); opacity: .14; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .25rem .6rem;
  border-bottom: 1px solid var(--line); } td + td, th + th { text-align: right; }
rect { shape-rendering: crispEdges; }
.h0 { fill: var(--h0); } .h1 { fill: var(--h1); } .h2 { fill: var(--h2); } .h3 { fill: var(--h3); }
.h4 { fill: var(--h4); } .h5 { fill: var(--h5); }
"""


def page(
    title: str, summary: Rows, course: TimeSeries, tables: Sequence[tuple[str, Rows]] = ()
) -> str:
    """The page of a course; `summary` and `tables` are rows, the headings first."""
    seconds = course.seconds * len(course.came)
    delays = course.delays()
    charts = [
        ("Heat of partitions", _HEAT_TEXT, heat_chart(course, seconds)),
        (
            "Messages that wait",
            "In the queue, and with writers because a write was refused.",
            line_chart(np.add(course.queued, course.refused), seconds, "messages"),
        ),
        (
            "Delay",
            "How long the message waited that was counted last.",
            line_chart(delays, seconds, "s"),
        ),
        (
            "Throttles",
            "Messages that writers hold because a partition or the table refused them.",
            line_chart(np.array(course.refused), seconds, "refused"),
        ),
        (
            "Partitions",
            "Of the current window's table.",
            line_chart(np.array(course.partitions), seconds, "partitions"),
        ),
    ]
    parts = [f"<h1>{escape(title)}</h1>", _table(summary)]
    parts += [f"<h2>{escape(name)}</h2>{_table(rows)}" for name, rows in tables]
    parts += [
        f"<h2>{escape(name)}</h2><p>{escape(text)}</p>{chart}" for name, text, chart in charts
    ]
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n"
        "</body>\n</html>\n"
    )


_HEAT_TEXT = (
    "Ranges of hashes from top to bottom, time from left to right: the write units that the busiest"
    " partition of a range takes, of the 1,000 a second that it may take. A rising number of"
    " partitions makes the stripes thinner."
)


def heat_chart(course: TimeSeries, seconds: float) -> str:
    """The heat map of partitions, with the scale of its colours."""
    columns = len(course.heat)
    step_x = (WIDTH - LEFT - 10) / max(1, columns)
    step_y = (HEAT_HEIGHT - TOP) / HEAT_ROWS
    cells = []
    for row in range(HEAT_ROWS):
        levels = [_level(float(column[row])) for column in course.heat]
        begun = 0
        for at in range(1, columns + 1):
            if at == columns or levels[at] != levels[begun]:
                x, width = LEFT + begun * step_x, (at - begun) * step_x
                cells.append(
                    f'<rect class="h{levels[begun]}" x="{x:.1f}" y="{TOP + row * step_y:.1f}"'
                    f' width="{width + 0.3:.1f}" height="{step_y + 0.3:.1f}"/>'
                )
                begun = at
    legend = []
    for number, level in enumerate(LEVELS):
        x, y = LEFT + number * 120, HEAT_HEIGHT + BOTTOM + 8
        legend.append(
            f'<rect class="h{number}" x="{x}" y="{y}" width="16" height="12"/>'
            f'<text x="{x + 22}" y="{y + 10}">from {level:.0%}</text>'
        )
    axis = _times(seconds, HEAT_HEIGHT)
    label = f'<text x="4" y="{TOP + 10}">hash 0</text><text x="4" y="{HEAT_HEIGHT}">hash 1</text>'
    return _svg(
        HEAT_HEIGHT + BOTTOM + 26, "heat of partitions over time", *cells, *axis, label, *legend
    )


def line_chart(values: Floats, seconds: float, unit: str) -> str:
    """A course over time, from 0 up to its maximum."""
    values = np.asarray(values, dtype=np.float64)
    if len(values) > POINTS_MAX:
        cut = len(values) // POINTS_MAX
        values = values[: len(values) // cut * cut].reshape(-1, cut).max(axis=1)
    most = float(values.max()) if len(values) else 0.0
    top = _round_up(most)
    floor, width = HEIGHT, WIDTH - LEFT - 10
    scale = (floor - TOP) / top
    points = [
        f"{LEFT + at * width / max(1, len(values) - 1):.1f},{floor - value * scale:.1f}"
        for at, value in enumerate(values)
    ]
    grid = []
    for tick in range(TICKS + 1):
        y = floor - tick * (floor - TOP) / TICKS
        grid.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - 10}" y1="{y:.1f}" y2="{y:.1f}"/>')
        grid.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{_short(top * tick / TICKS)}</text>"
        )
    area = (
        f'<polygon class="area" points="{LEFT},{floor} {" ".join(points)} {WIDTH - 10},{floor}"/>'
    )
    line = f'<polyline class="course" points="{" ".join(points)}"/>'
    return _svg(
        HEIGHT + BOTTOM,
        f"{unit} over time, at most {most:,.1f}",
        *grid,
        area,
        line,
        *_times(seconds, HEIGHT),
    )


def _level(share: float) -> int:
    return max(number for number, least in enumerate(LEVELS) if share >= least)


def _round_up(most: float) -> float:
    """The next 1, 2, 4 or 10 times a power of ten."""
    if most <= 0:
        return 1.0
    power = float(10 ** np.floor(np.log10(most)))
    return next(factor * power for factor in (1.0, 2.0, 4.0, 10.0) if factor * power >= most)


def _short(number: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:g}{letter}"
    return f"{number:g}"


def _times(seconds: float, y: float) -> list[str]:
    width = WIDTH - LEFT - 10
    unit, name = (60.0, "min") if seconds >= 300 else (1.0, "s")
    return [
        f'<text x="{LEFT + width * tick / 6:.1f}" y="{y + 18}"'
        f' text-anchor="{"end" if tick == 6 else "middle"}">'
        f"{seconds * tick / 6 / unit:g} {name}</text>"
        for tick in range(7)
    ]


def _svg(height: float, label: str, *parts: str) -> str:
    head = f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(label)}">'
    return f"{head}{''.join(parts)}</svg>"


def _table(rows: Rows) -> str:
    heading, *others = rows
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in others
    )
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heading)
    return f"<table><tr>{head}</tr>{lines}</table>"

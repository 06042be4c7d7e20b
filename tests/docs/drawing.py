"""Draws pictures for light and dark pages, and the architecture as one of them.

`python -m tests.docs.reference` writes the pictures.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 860, 388
THEMES = {
    "light": {
        "page": "#ffffff",
        "text": "#1d2733",
        "faint": "#5b6875",
        "line": "#7c8b99",
        "queue": "#fdf1dc",
        "function": "#e3eefb",
        "table": "#e2f3ec",
        "bucket": "#f3e8f5",
        "outside": "#f2f4f6",
    },
    "dark": {
        "page": "#0d1117",
        "text": "#e3e9ef",
        "faint": "#9aa8b5",
        "line": "#6b7885",
        "queue": "#3a2f16",
        "function": "#17304c",
        "table": "#15382c",
        "bucket": "#38233c",
        "outside": "#1b222b",
    },
}
Point = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A part: its kind, its place, its name, and what it does."""

    kind: str
    x: int
    y: int
    name: str
    does: tuple[str, ...] = ()
    width: int = 148
    height: int = 64

    def drawn(self) -> str:
        """The part as SVG."""
        middle = self.x + self.width / 2
        top = self.y + self.height / 2 + 5 - 8 * len(self.does)
        lines = [f'<text class="name" x="{middle}" y="{top}">{escape(self.name)}</text>']
        lines += [
            f'<text x="{middle}" y="{top + 17 * (at + 1)}">{escape(line)}</text>'
            for at, line in enumerate(self.does)
        ]
        return (
            f'<rect class="{self.kind}" x="{self.x}" y="{self.y}" width="{self.width}"'
            f' height="{self.height}" rx="7"/>{"".join(lines)}'
        )


def arrow(*points: Point, told: str = "", at: Point = (0, 0)) -> str:
    """An arrow through some points, and what goes along it."""
    path = " ".join(f"{'L' if number else 'M'}{x} {y}" for number, (x, y) in enumerate(points))
    text = f'<text class="told" x="{at[0]}" y="{at[1]}">{escape(told)}</text>' if told else ""
    return f'<path d="{path}" marker-end="url(#head)"/>{text}'


BOXES = (
    Box("outside", 12, 84, "Producers", ("post JSON,", "in any language")),
    Box("queue", 212, 84, "SQS", ("levels the load,", "delivers at least once")),
    Box("function", 412, 84, "Writer", ("calculates shards,", "one transaction")),
    Box("table", 670, 6, "Window 10:00", (), 178, 36),
    Box("table", 670, 35, "Window 11:00", (), 178, 36),
    Box("table", 670, 64, "Window 12:00", ("the live one: records,", "tallies, gates"), 178, 84),
    Box("queue", 412, 8, "Dead letters", ("each with a reason",), 148, 48),
    Box("outside", 12, 204, "Readers", ("GET /v1/counters",)),
    Box("function", 412, 204, "Aggregator", ("adds up all stripes:", "one exact number")),
    Box("table", 670, 204, "Catalog and totals", ("states, sealed totals",), 178),
    Box("bucket", 12, 316, "S3", ("archives with proofs",)),
    Box("function", 212, 316, "Cleanup", ("exports, recounts,", "tags what is proven")),
    Box("function", 412, 316, "Dropper", ("deletes what is", "proven and tagged")),
    Box("function", 670, 316, "Roller", ("makes, opens, closes,", "seals windows"), 178),
)
LIFE = 640  # of a window: where the lines of roller, cleanup and dropper meet
ARROWS = (
    arrow((160, 116), (210, 116)),
    arrow((360, 116), (410, 116), told="batches", at=(385, 108)),
    arrow((486, 84), (486, 58)),
    arrow((560, 116), (668, 116), told="put, add, check", at=(604, 108)),
    arrow((410, 236), (162, 236), told="exact, live", at=(286, 228)),
    arrow((670, 236), (562, 236), told="totals", at=(600, 228)),
    arrow((740, 148), (740, 176), (486, 176), (486, 202), told="tallies", at=(560, 170)),
    arrow((212, 348), (162, 348), told="export", at=(186, 340)),
    arrow((286, 316), (286, 290), (LIFE, 290), (LIFE, 136), (668, 136)),
    arrow((486, 316), (486, 292), told="the life of a window", at=(570, 284)),
    arrow((759, 316), (759, 292), told="states", at=(784, 296)),
    arrow((LIFE, 290), (759, 290), (759, 270)),
)


def architecture(theme: str) -> str:
    """The architecture as SVG."""
    drawn = "".join(ARROWS) + "".join(box.drawn() for box in BOXES)
    return picture(theme, (WIDTH, HEIGHT), "Tallyroll's architecture", drawn)


def picture(theme: str, size: Point, label: str, drawn: str) -> str:
    """A whole picture: what is `drawn`, on a page of this size."""
    colours = THEMES[theme]
    width, height = size
    kinds = "".join(
        f".{kind} {{ fill: {colours[kind]}; stroke: {colours['line']}; }} "
        for kind in ("queue", "function", "table", "bucket", "outside")
    )
    style = (
        f"text {{ font: 12px system-ui, sans-serif; fill: {colours['faint']};"
        " text-anchor: middle; } "
        f".name {{ font-size: 14px; font-weight: 600; fill: {colours['text']}; }} "
        ".told { font-size: 11px; } "
        f"path {{ fill: none; stroke: {colours['line']}; stroke-width: 1.4; }} "
        f"#head path {{ fill: {colours['line']}; stroke: none; }} {kinds}"
    )
    head = (
        '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"'
        ' orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker>'
    )
    width, height = size
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' role="img" aria-label="{label}"><style>{style}</style>'
        f'<defs>{head}</defs><rect width="{width}" height="{height}" fill="{colours["page"]}"/>'
        f"{drawn}</svg>\n"
    )

"""Draws a gate against a late writer, along time: `docs/pictures/gate-{light,dark}.svg`."""

from __future__ import annotations

from html import escape

from tests.docs.drawing import Box, arrow, picture

SIZE = (860, 330)
SHUT, LISTED = 360, 600  # when the gate is shut, and when the tallies are listed
LANES = (("Writer A", 52), ("Gate", 112), ("Writer B", 192), ("Roller", 268))


def lane(name: str, y: int) -> str:
    """The name of a lane, and its line along time."""
    return (
        f'<text class="name" x="48" y="{y + 5}">{name}</text>'
        f'<path d="M96 {y} L840 {y}" stroke-dasharray="2 5"/>'
    )


def note(x: int, y: int, *lines: str) -> str:
    """Text without a box."""
    return "".join(
        f'<text class="told" x="{x}" y="{y + 14 * at}">{escape(line)}</text>'
        for at, line in enumerate(lines)
    )


BOXES = (
    Box("function", 196, 34, "transaction", width=128, height=36),
    Box("table", 104, 98, "open", width=SHUT - 104, height=28),
    Box("outside", SHUT, 98, "shut", width=840 - SHUT, height=28),
    Box("function", 104, 174, "takes a message", width=148, height=36),
    Box("function", 396, 174, "transaction", width=128, height=36),
    Box("queue", 690, 166, "window-sealed", ("among the dead letters",), 150, 52),
    Box("function", SHUT - 64, 250, "shuts the gate", width=128, height=36),
    Box("function", LISTED - 70, 250, "lists all tallies", width=140, height=36),
)
PARTS = (
    note(260, 22, "checks the gate, puts the record, adds to the tally"),
    arrow((260, 70), (260, 96), told="committed", at=(296, 88)),
    note(304, 184, "sleeps for hours"),
    arrow((460, 174), (460, 128), told="cancelled: nothing is stored", at=(548, 154)),
    arrow((524, 192), (688, 192), told="handed back until sealed", at=(604, 184)),
    arrow((SHUT, 250), (SHUT, 128)),
    note((SHUT + LISTED) // 2, 262, "settle_ms"),
    note(LISTED, 304, "A is counted, and B can never come:", "these are the totals"),
    arrow((96, 322), (240, 322), told="time", at=(112, 314)),
)


def late_writer(theme: str) -> str:
    """The whole picture."""
    lanes = "".join(lane(name, y) for name, y in LANES)
    parts = f"{lanes}{''.join(box.drawn() for box in BOXES)}{''.join(PARTS)}"
    label = "A gate against a late writer: a transaction commits before the gate is shut, or fails"
    return picture(theme, SIZE, label, parts)

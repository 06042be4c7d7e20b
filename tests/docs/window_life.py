"""Draws the life of a window: its states, who moves it on and when, and what holds meanwhile."""

from __future__ import annotations

from html import escape

from tallyroll.model.states import Status
from tallyroll.settings import Settings
from tests.docs.drawing import Box, arrow, picture

WIDTH = 860
TOP, PITCH = 58, 64  # the first state, and from one state to the next
STATE = (104, 34)
BAR_WIDTH, FIRST_BAR, BARS_APART = 58, 586, 69
SETTINGS = Settings()


def time(ms: int) -> str:
    """A time in its largest unit: `1 h`."""
    units = ((86_400_000, "days"), (3_600_000, "h"), (60_000, "min"))
    size, unit = next(each for each in units if ms >= each[0])
    return f"{ms // size} {unit}"


# From each state to the next: who moves the window on, and when.
STEPS = (
    (
        "roller",
        (
            "The table is active, and the window starts within",
            "{freeze_lead_ms} (skew_ms + 2 roller_period_ms).",
        ),
    ),
    (
        "roller",
        (
            "The window ended {accept_for_ms} ago (accept_for_ms),",
            "and no message in the queue is for it.",
        ),
    ),
    ("roller", ("All gates are shut. {settle_ms} later (settle_ms)", "the tallies become totals.")),
    ("cleanup", ("It was sealed {retention_ms} ago (retention_ms).",)),
    ("cleanup", ("The archive is complete, and its recount equals", "the tallies and the totals.")),
    ("cleanup", ("The table has the tag of its proof.",)),
    (
        "dropper",
        (
            "{settle_ms} later (settle_ms) the deletion protection",
            "is lifted, and then the table is deleted.",
        ),
    ),
)
# What holds, from the middle of one state's box to the middle of another's, by number; 8: for ever.
BARS = (
    ("table", (("table", "exists", 0, 6.8),)),
    ("writers", (("function", "commit", 1, 2.2),)),
    ("counts", (("table", "tallies", 1, 3), ("queue", "totals", 3, 8))),
    ("archive", (("outside", "written", 4, 5), ("bucket", "proven", 5, 8))),
)


def window_life(theme: str) -> str:
    """The life of a window as SVG."""
    states = list(Status)
    height = TOP + PITCH * len(states) - 10
    drawn = [_heading(12 + STATE[0] / 2, "state"), _heading(170, "by"), _heading(230, "when")]
    for number, status in enumerate(states):
        kind = "outside" if status is Status.DROPPED else "table"
        drawn.append(Box(kind, 12, TOP + PITCH * number, status, (), *STATE).drawn())
    assert len(STEPS) == len(states) - 1
    for number, (actor, lines) in enumerate(STEPS):
        drawn.append(_step(TOP + PITCH * number + STATE[1], actor, lines))
    for column, (title, parts) in enumerate(BARS):
        x = FIRST_BAR + BARS_APART * column
        drawn.append(_heading(x + BAR_WIDTH / 2, title))
        for kind, text, since, until in parts:
            y, end = (round(TOP + STATE[1] / 2 + PITCH * at) for at in (since, until))
            box = Box(kind, x, y, "", (), BAR_WIDTH, min(end, height - 8) - y)
            drawn += [box.drawn(), _text(x + BAR_WIDTH / 2, y + box.height / 2 + 4, text)]
    return picture(theme, (WIDTH, height), "The life of a window", "".join(drawn))


def _step(y: int, actor: str, lines: tuple[str, ...]) -> str:
    """The arrow from one state to the next, below a box that ends at `y`."""
    x = 12 + STATE[0] / 2
    middle = y + (PITCH - STATE[1]) / 2
    times = {
        name: time(getattr(SETTINGS, name))
        for name in ("freeze_lead_ms", "accept_for_ms", "settle_ms", "retention_ms")
    }
    told = [
        _text(212, middle + 5 + 16 * at - 8 * (len(lines) - 1), line.format_map(times), "start")
        for at, line in enumerate(lines)
    ]
    chip = Box("function", 136, round(middle) - 12, "", (), 68, 24).drawn()
    return f"{arrow((x, y), (x, y + PITCH - STATE[1] - 2))}{chip}" + "".join(
        [_text(170, middle + 4, actor), *told]
    )


def _heading(x: float, text: str) -> str:
    return f'<text class="name" style="font-size: 12px" x="{x:g}" y="36">{escape(text)}</text>'


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text style="text-anchor: {anchor}" x="{x:g}" y="{y:g}">{escape(text)}</text>'

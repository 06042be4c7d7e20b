"""What a person sees while the demo runs: a live view on a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from local.demo.report import numbered
from tallyroll.model.states import Status, Window

PLAIN_EVERY_S = 3.0
LIVE_PER_SECOND = 4
BAR_WIDTH = 40
WINDOWS_SHOWN = 8
KEYS_SHOWN = 12

COLOURS = {
    Status.CREATING: "dim",
    Status.OPEN: "green",
    Status.CLOSING: "yellow",
    Status.SEALED: "cyan",
    Status.EXPORTING: "blue",
    Status.PROVEN: "magenta",
    Status.DROPPING: "magenta",
    Status.DROPPED: "dim",
}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One moment of a run: events sent of those planned, events counted, both per second, windows
    and keys. Nothing is `planned` while nothing is sent or counted.
    """

    phase: str
    planned: int = 0
    sent: int = 0
    counted: int = 0
    per_second: float = 0.0
    queued: int = 0
    faults: str = ""
    windows: Sequence[Window] = ()
    keys: Mapping[str, int] = field(default_factory=dict)


Show = Callable[[Snapshot], None]
"""Shows a moment of a run."""


@contextmanager
def busy(console: Console, doing: str) -> Iterator[None]:
    """Say what is done while the block lasts: a spinner on a terminal, a line elsewhere."""
    if not console.is_terminal:
        console.print(f"{doing} ...", highlight=False)
        yield
        return
    with console.status(f"{doing} ..."):
        yield


def mishaps(redelivered: int, killed: int) -> str:
    """What went wrong on purpose so far."""
    return f"{redelivered:,} delivered again, {numbered(killed, 'writer')} killed"


@contextmanager
def view_on(console: Console) -> Iterator[Show]:
    """What shows snapshots on a console: redrawn in place on a terminal, lines elsewhere."""
    if not console.is_terminal:
        yield PlainView(console).show
        return
    with Live(console=console, refresh_per_second=LIVE_PER_SECOND, transient=True) as live:
        yield lambda snapshot: live.update(_drawn(snapshot))


class PlainView:
    """A line every few seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = 0.0
        self._phase = ""

    def show(self, snapshot: Snapshot) -> None:
        """Print a line, if the phase has changed or the last one is old enough."""
        now = time.monotonic()
        if snapshot.phase == self._phase and now - self._last < PLAIN_EVERY_S:
            return
        self._last, self._phase = now, snapshot.phase
        states = ", ".join(
            f"{window.id[9:15]} {window.status}" for window in snapshot.windows[-WINDOWS_SHOWN:]
        )
        events = (
            f": sent {snapshot.sent:,} of {snapshot.planned:,}, counted"
            f" {snapshot.counted:,} ({snapshot.per_second:,.0f}/s), queued {snapshot.queued}"
        )
        self._console.print(
            snapshot.phase
            + (events if snapshot.planned else "")
            + (f"; {snapshot.faults}" if snapshot.faults else "")
            + (f"; windows: {states}" if states else ""),
            highlight=False,
            soft_wrap=True,
        )


def _drawn(snapshot: Snapshot) -> Group:
    if not snapshot.planned:
        return Group(Text(snapshot.phase, "bold"), Text(), _windows(snapshot.windows))
    bars = Table.grid(padding=(0, 2))
    for name, value in (("sent", snapshot.sent), ("counted", snapshot.counted)):
        bar = ProgressBar(max(1, snapshot.planned), value, BAR_WIDTH)
        bars.add_row(name, bar, f"{value:,} of {snapshot.planned:,}")
    line = Text(f"{snapshot.per_second:,.0f} counted per second, {snapshot.queued} queued")
    if snapshot.faults:
        line.append(f"   {snapshot.faults}", "red")
    tables = Table.grid(padding=(0, 6))
    tables.add_row(_keys(snapshot.keys), _windows(snapshot.windows))
    return Group(Text(snapshot.phase, "bold"), bars, line, Text(), tables)


def _keys(keys: Mapping[str, int]) -> Table:
    table = Table(box=None, padding=(0, 1), title="live count", title_justify="left")
    table.add_column("key")
    table.add_column("events", justify="right")
    table.add_column("")
    ranked = sorted(keys.items(), key=lambda entry: (-entry[1], entry[0]))[:KEYS_SHOWN]
    most = max(1, *keys.values()) if keys else 1
    for key, events in ranked:
        table.add_row(key, f"{events:,}", "█" * round(24 * events / most))
    return table


def _windows(windows: Sequence[Window]) -> Table:
    table = Table(box=None, padding=(0, 1), title="windows", title_justify="left")
    table.add_column("window")
    table.add_column("state")
    table.add_column("events", justify="right")
    for window in windows[-WINDOWS_SHOWN:]:
        events = "" if window.events is None else f"{window.events:,}"
        table.add_row(window.id[9:], Text(window.status, COLOURS[window.status]), events)
    return table

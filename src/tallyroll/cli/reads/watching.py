"""`--watch`: a view that is renewed until somebody ends it, by Ctrl-C."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, TypeVar

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tallyroll.cli.screen import BAR, Screen, bar, number_of, printable, sparkline
from tallyroll.errors import Throttled, Unknown
from tallyroll.model.windows import iso
from tallyroll.operations.doctor.queue_checks import span_text
from tallyroll.reads.counts import Count

if TYPE_CHECKING:
    from tallyroll.ports.effects import Effects

COUNTS_MS, STATUS_MS = 2_000, 5_000
SPARKS = 12
KEY_MAX = 24
GAPS = 8  # columns of the screen between the five of a picture
T = TypeVar("T")


@dataclass(eq=False)
class Watch(Generic[T]):
    """Looks every `every_ms` until it is interrupted: `picture` is what a terminal shows of a look;
    where there is none, or JSON is asked for, `lines` puts it out. What was not answered is asked
    again; the picture stays, and says so. `manner` is what its last line says of a look.
    """

    screen: Screen
    effects: Effects
    every_ms: int
    look: Callable[[], T]
    lines: Callable[[T], None]
    picture: Callable[[T], RenderableType]
    manner: Callable[[T], str] = lambda _: ""

    def until_ended(self) -> int:
        """Watch; the exit status. Raises what the first look raises, and errors that stay."""
        began = self.effects.now()
        found = self.look()
        try:
            if self.screen.json or not self.screen.is_terminal:
                self._put_out(found)
            else:
                self._show(found)
        except KeyboardInterrupt:
            self.screen.tell(f"watched for {span_text(self.effects.now() - began)}")
        return 0

    def _put_out(self, found: T) -> None:
        while True:
            self.lines(found)
            self.screen.flush()
            while True:
                self.effects.sleep(self.every_ms)
                try:
                    found = self.look()
                    break
                except (Throttled, Unknown) as error:
                    self.screen.tell(f"{_clock(self.effects.now())} no answer: {error}")

    def _show(self, found: T) -> None:
        with self.screen.live() as show:
            shown, said = self.picture(found), ""
            while True:
                every = f"every {self.every_ms // 1000} s{self.manner(found)}"
                when = f"{_clock(self.effects.now())} UTC, {every}"
                show(Group(shown, Text(printable(said or f"{when}; Ctrl-C ends"), style="dim")))
                self.effects.sleep(self.every_ms)
                try:
                    found = self.look()
                    shown, said = self.picture(found), ""
                except (Throttled, Unknown) as error:
                    said = said or f"no answer since {_clock(self.effects.now())} UTC: {error}"


@dataclass(eq=False)
class CountsView:
    """Counts as bars, with their rates. Where a line has not enough columns for all, the bar is
    shorter, then the sparkline, then the key; the numbers stay whole.
    """

    screen: Screen
    seen: dict[str, deque[tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=SPARKS + 1))
    )

    def picture(self, looked: tuple[Sequence[Count], int]) -> RenderableType:
        """The picture of the counts of all keys; so many messages wait in the queue."""
        counts, waiting = looked
        rows = []
        for count in counts:
            self._add(count)
            events = f"{count.events:,}" + ("" if count.complete else " or more")
            rows.append((printable(count.key, kept=""), events, *self._pace(count.key)))
        keys, *numbers, sparks = zip(*rows, strict=True)
        whole = [max(map(len, texts)) for texts in numbers]
        left = max(1, self.screen.columns - sum(whole) - GAPS)
        key_cells = min(KEY_MAX, max(map(cell_len, keys)), left)
        spark_cells = min(len(max(sparks, key=len)), left - key_cells)
        bar_cells = min(BAR, left - key_cells - spark_cells)
        table = Table(box=None, pad_edge=False, show_header=False, expand=False)
        table.add_column(max_width=key_cells, no_wrap=True, overflow="ellipsis")
        table.add_column(no_wrap=True)
        for cells in (*whole, spark_cells):
            table.add_column(justify="right", no_wrap=True, min_width=cells)
        most = max(count.events for count in counts)
        for count, (key, events, rate, spark) in zip(counts, rows, strict=True):
            latest = spark[max(0, len(spark) - spark_cells) :]
            cells_of = (key, bar(count.events, most, bar_cells), events, rate, latest)
            table.add_row(*map(Text, cells_of))
        notes = [_missing(count) for count in counts if not count.complete]
        if waiting:
            notes.append(f"{number_of(waiting, 'message')} in the queue")
        return Group(table, *(Text(printable(note), style="yellow") for note in notes))

    def _add(self, count: Count) -> None:
        if count.complete:  # what is missing for a while is no event that came after it
            self.seen[count.key].append((count.as_of, count.events + count.retracted[0]))

    def _pace(self, key: str) -> tuple[str, str]:
        """Events a second since the look before, and how many came between all looks. A retraction
        takes none of them away; if an eventual look goes back behind the one before, none came.
        """
        seen = [*self.seen[key]]
        pairs = [*pairwise(seen)]
        steps = [max(0, after - before) for (_, before), (_, after) in pairs]
        if not pairs:
            return "", ""
        (since, _), (at, _) = pairs[-1]
        rate = 1000 * steps[-1] / max(1, at - since)
        return f"{rate:+,.1f}/s", sparkline(steps)


def _missing(count: Count) -> str:
    return f"{count.key}: could not read {', '.join(count.missing)}: the rest is counted"


def _clock(ms: int) -> str:
    return iso(ms)[11:19]

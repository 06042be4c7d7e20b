"""What the command shows: tables or JSON Lines on stdout, messages and progress on stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any, Protocol, TextIO, TypeVar

from rich import box
from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from tallyroll.errors import UsageError

PIPE_COLUMNS = 1_000  # into a file or pipe, the row of a table is one line
PROSE_COLUMNS = 80  # there, of tables whose cells are sentences, and of paragraphs
WHOLE_MAX = 24  # characters of a cell that is not broken: an ISO 8601 instant
PROSE_MIN = 12  # characters of a column of sentences, at the least
GAP = 3  # characters between two columns
EXCERPT_MAX = 2_000  # characters of a payload or body that are shown
FIRST_LINE_S, NEXT_LINE_S = 2.0, 10.0  # of progress where there is no terminal
BAR, BLOCKS = 24, "▁▂▃▄▅▆▇█"  # the longest bar; the heights of a sparkline
_UNITS = ("B", "KB", "MB", "GB", "TB")
_RETRACTED = ("retracted", "retracted sum")
RIGHT = ("events", "sum", *_RETRACTED, "keys", "shards", "stripes", "count", "value", "dollars")

Cell = str | int | None
T = TypeVar("T")


class Progressed(Protocol):
    """Shows how much is `completed`, what was `done` in words, a new `total` if there is one, and
    the rate of what was `counted`, if that is given.
    """

    def __call__(
        self, completed: int, done: str, total: int | None = ..., counted: int | None = ...
    ) -> None:
        """Show it."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave a closed pipe to `main`, instead of ending the process here."""
        raise BrokenPipeError


class Screen:
    """The terminal, or what stands in its place; `json` asks for machine-readable output."""

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self._out = _console(sys.stdout)
        self._err = _console(sys.stderr)

    def tell(self, message: str) -> None:
        """One message for people, on stderr."""
        self._err.print(Text(f"tallyroll: {printable(message)}"), soft_wrap=True)

    def ask(self, question: str, otherwise: str) -> str:
        """Ask on stderr. Raises UsageError, which says what to do `otherwise`, if nobody can be
        asked.
        """
        if not sys.stdin.isatty():
            raise UsageError(f"nobody can be asked here: {otherwise}")
        sys.stderr.write(question)
        sys.stderr.flush()
        return sys.stdin.readline().strip()

    def await_stdin(self, what: str) -> None:
        """Say what is waited for if a person is to type it."""
        if sys.stdin.isatty():
            self.tell(f"reading {what} from this terminal: Ctrl-D ends them")

    @property
    def is_terminal(self) -> bool:
        """Whether stdout is a terminal."""
        return self._out.is_terminal

    @property
    def columns(self) -> int:
        """How many characters a line of stdout has."""
        return self._out.width

    @contextmanager
    def live(self) -> Iterator[Callable[[RenderableType], None]]:
        """Shows pictures on a terminal, each in the place of the one before, at once."""
        with Live(console=self._out, auto_refresh=False) as view:
            yield lambda picture: view.update(picture, refresh=True)

    def flush(self) -> None:
        """Write what stdout still holds back."""
        sys.stdout.flush()

    def emit(self, value: Mapping[str, Any]) -> None:
        """One line of JSON on stdout."""
        sys.stdout.write(json.dumps(value) + "\n")

    def line(self, as_json: Mapping[str, Any], text: str) -> None:
        """One line on stdout: the JSON if it is asked for, else the text."""
        sys.stdout.write((json.dumps(as_json) if self.json else printable(text)) + "\n")

    def show(
        self,
        columns: Sequence[str],
        found: Sequence[T],
        as_json: Callable[[T], Mapping[str, Any]],
        in_words: Callable[[T], Mapping[str, Cell]],
    ) -> None:
        """Show what was found as lines of JSON or, if it is anything, as a table. A cell is what
        `in_words` has under the column's name, else what the JSON has.
        """
        if self.json:
            for one in found:
                self.emit(as_json(one))
        elif found:
            rows = [{**as_json(one), **in_words(one)} for one in found]
            self.table(columns, [[row.get(name) for name in columns] for row in rows])

    def table(
        self, columns: Sequence[str], rows: Iterable[Iterable[Cell]], *, prose: bool = False
    ) -> None:
        """A table on stdout. A column without any content is left out, except for the first. One of
        `prose` is as wide as 80 columns where there is no terminal.

        Short cells and numbers are never broken. If they do not fit side by side, each row is a
        list of names and values.
        """
        lines = [[_text(cell) for cell in row] for row in rows]
        shown = [at for at in range(len(columns)) if not at or any(line[at] for line in lines)]
        widths = {at: max([len(columns[at]), *(len(line[at]) for line in lines)]) for at in shown}
        whole = {at for at in shown if widths[at] <= WHOLE_MAX or columns[at] in RIGHT}
        rest = PROSE_MIN if prose else WHOLE_MAX
        least = sum(widths[at] if at in whole else rest for at in shown)
        width = (prose and self._prose_columns) or self._out.width
        if least + GAP * (len(shown) - 1) > width:
            self._list(
                [columns[at] for at in shown], [[line[at] for at in shown] for line in lines]
            )
            return
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for at in shown:
            table.add_column(
                columns[at],
                justify="right" if columns[at] in RIGHT else "left",
                no_wrap=at in whole,
                overflow="fold",
            )
        for line in lines:
            table.add_row(*(Text(line[at]) for at in shown))
        self._out.print(table, width=width)

    def paragraph(self, text: str) -> None:
        """Sentences on stdout, after an empty line."""
        self._out.print()
        self._out.print(Text(printable(text)), width=self._prose_columns)

    @property
    def _prose_columns(self) -> int | None:
        return None if self._out.is_terminal else PROSE_COLUMNS

    def _list(self, columns: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
        """Each line as names and values below each other, without the empty ones."""
        for number, line in enumerate(lines):
            table = Table(box=None, pad_edge=False, show_header=False)
            table.add_column(no_wrap=True, min_width=max(map(len, columns)))
            table.add_column(overflow="fold")
            for name, cell in zip(columns, line, strict=True):
                if cell:
                    table.add_row(name, Text(cell))
            if number:
                self._out.print()
            self._out.print(table)

    @contextmanager
    def progress(
        self, doing: str, total: int | None = None, *, typed: bool = False
    ) -> Iterator[Progressed]:
        """Progress on stderr: a bar at a terminal, else a line now and then once it takes long.
        Nothing is shown while a person types the input (`typed`).

        """
        began = time.monotonic()
        next_line = began + FIRST_LINE_S

        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[done]}"),
            TimeElapsedColumn(),
            console=self._err,
            transient=True,
            disable=typed or not self._err.is_terminal,
        ) as bar:
            task = bar.add_task(doing, total=total, done="")

            def report(
                completed: int, done: str, total: int | None = total, counted: int | None = None
            ) -> None:
                nonlocal next_line
                now = time.monotonic()
                text = done + pace(now - began, completed, total, counted)
                bar.update(task, completed=completed, total=total, done=text)
                if not self._err.is_terminal and now >= next_line:
                    next_line = now + NEXT_LINE_S
                    self.tell(f"{doing}: {text}")

            yield report


def pace(took_s: float, completed: int, total: int | None, counted: int | None) -> str:
    """How many were counted a second, and how long the rest of the total will take."""
    if took_s < 1 or not completed:
        return ""
    rate = f", {counted / took_s:,.0f}/s" if counted else ""
    if not total:
        return rate
    minutes, seconds = divmod(int(max(0, total - completed) * took_s / completed), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{rate}, {hours}:{minutes:02}:{seconds:02} left"


def printable(text: str, kept: str = "\n\t") -> str:
    """The text as a terminal may show it: what is invisible, or moves or colours other text, is an
    escape.
    """
    return "".join(
        char if char.isprintable() or char in kept else char.encode("unicode_escape").decode()
        for char in text
    )


def bar(value: int, most: int, longest: int = BAR) -> str:
    """A bar of so many of `most`: `longest` characters at most, one at least if there is any."""
    if value <= 0 or most <= 0 or longest <= 0:
        return ""
    return "█" * max(1, longest * value // most)


def sparkline(values: Sequence[int]) -> str:
    """The values as a line of blocks, of eight heights; the lowest stands for nothing alone."""
    most = max(values, default=0)
    if not most:
        return BLOCKS[0] * len(values)
    top = len(BLOCKS) - 1
    return "".join(BLOCKS[-(-value * top // most)] for value in values)


def excerpt(text: str) -> str:
    """The beginning of a long text, and how much is left out."""
    more = len(text) - EXCERPT_MAX
    return text if more <= 0 else f"{text[:EXCERPT_MAX]}... ({more:,} more characters: --json)"


def number_of(count: int, noun: str, plural: str = "") -> str:
    """So many of something, as `1 event` or `2,000 events`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {plural or noun + 's'}"


def some(names: Sequence[str]) -> str:
    """The first five names, and how many more there are."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more


def size_text(size: int, whole_from: float = inf) -> str:
    """Bytes as people say them, `512 B` or `1.5 MB`; without a fraction from so many units on."""
    number, unit = float(size), 0
    while number >= 1000 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    digits = 1 if unit and number < whole_from else 0
    return f"{number:.{digits}f} {_UNITS[unit]}"


def short_time(text: str) -> str:
    """An ISO 8601 instant as a table has it: `11-20 08:00:00`, UTC."""
    return text[5:19].replace("T", " ")


def known(**fields: Any) -> dict[str, Any]:
    """The fields that have a value: JSON leaves out the others."""
    return {name: value for name, value in fields.items() if value is not None}


def _text(cell: Cell) -> str:
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:,}" if isinstance(cell, int) else printable(cell or "", kept="")


def _console(stream: TextIO) -> Console:
    return _Console(
        file=stream,
        width=None if stream.isatty() else PIPE_COLUMNS,
        markup=False,
        highlight=False,
        emoji=False,
    )

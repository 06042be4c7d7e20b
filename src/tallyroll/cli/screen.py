"""What the command shows: tables or JSON Lines on stdout, messages and progress on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

PIPE_COLUMNS = 1_000  # into a file or pipe, nothing is folded
RIGHT = ("events", "sum", "keys", "shards", "count")


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave a closed pipe to `main`, instead of ending the process here."""
        raise BrokenPipeError


class Screen:
    """The terminal, or what stands in its place; `json` asks for machine-readable output."""

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self._out = _console(to_stderr=False)
        self._err = _console(to_stderr=True)

    @property
    def interactive(self) -> bool:
        """Whether somebody watches stderr."""
        return self._err.is_terminal

    def tell(self, message: str) -> None:
        """One message for people, on stderr."""
        self._err.print(Text(f"tallyroll: {message}"), soft_wrap=True)

    def emit(self, value: Mapping[str, Any]) -> None:
        """One line of JSON on stdout."""
        sys.stdout.write(json.dumps(value) + "\n")

    def table(
        self, columns: Sequence[str], rows: Iterable[Sequence[str]], *, keep: Sequence[str] = ()
    ) -> None:
        """A table on stdout; a column without any content is left out unless it is in `keep`."""
        lines = list(rows)
        shown = [
            at for at, name in enumerate(columns) if name in keep or any(line[at] for line in lines)
        ]
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for at in shown:
            table.add_column(
                columns[at],
                justify="right" if columns[at] in RIGHT else "left",
                no_wrap=at == shown[0],
                overflow="fold",
            )
        for line in lines:
            table.add_row(*(Text(line[at]) for at in shown))
        self._out.print(table)

    def progress(self) -> Progress:
        """A progress bar on stderr, invisible where nobody watches; a task's field `done` says what
        was done.
        """
        return Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[done]}"),
            TimeElapsedColumn(),
            console=self._err,
            transient=True,
            disable=not self.interactive,
        )


def some(names: Sequence[str]) -> str:
    """The first five names, and how many more there are."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more


def _console(*, to_stderr: bool) -> Console:
    stream = sys.stderr if to_stderr else sys.stdout
    return _Console(
        file=stream,
        width=None if stream.isatty() else PIPE_COLUMNS,
        markup=False,
        highlight=False,
        emoji=False,
    )

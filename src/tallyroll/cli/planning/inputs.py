"""What both commands take: rates, and files of events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from cyclopts import Parameter

from tallyroll.cli.arguments import read_by
from tallyroll.cli.screen import Screen
from tallyroll.client.jsonlines import LineSource, envelope_of
from tallyroll.errors import Rejected, UsageError
from tallyroll.model.events import Event


def _number(text: str) -> float:
    try:
        return float(text.replace("_", ""))
    except ValueError:
        raise UsageError(f"{text!r}: give a number") from None


RATE = Parameter(metavar="X", converter=read_by(_number))
GB = Parameter(metavar="GB", converter=read_by(_number))


def events_of(source: LineSource, bad: list[int], screen: Screen) -> Iterator[tuple[Event, int]]:
    """The events of a file, each with its bytes; the numbers of other lines go to `bad`."""
    for number, line in source.lines():
        try:
            envelope, text = envelope_of(line)
        except Rejected as rejected:
            bad.append(number)
            screen.tell(f"line {number}: {rejected}")
            continue
        if not isinstance(envelope, Event):
            raise UsageError(f"line {number} is a packet: give the events that are in it")
        yield envelope, len(text.encode())


@contextmanager
def options_named(names: Mapping[str, str]) -> Iterator[None]:
    """Let errors name the option where they begin with the field that it is."""
    try:
        yield
    except UsageError as error:
        field, space, rest = str(error).partition(" ")
        if field not in names:
            raise
        raise UsageError(f"{names[field]}{space}{rest}") from None

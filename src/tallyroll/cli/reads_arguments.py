"""The arguments of `tallyroll event`, `events` and `top`; light, since every run of the command
reads them.
"""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable
from typing import Any

from tallyroll.cli.archive_arguments import Command

_TIMES = "2026-11-20T08:00Z, a window id or ms"
_WINDOW = "the window's id, such as 20261120T080000Z (tallyroll windows list)"
_EVENT = """Read one event by its id. Its window follows from --ts or --window, else from the time
in an id that is a UUIDv7. The id of a packed event is {packet id}:{index}; a packet's own id gives
all its events."""
_EVENT_END = """examples:
  tallyroll event candidate-7 ballot-123 --ts 2026-11-20T08:15:00Z
  tallyroll event video-42 0193a1c0-7b1e-4c39-9d4f-6e1f0a2b3c4d:17 --window 20261120T080000Z"""
_EVENTS = """List the events of a key in a window, in the order of their ids (by code point),
packets unpacked. With --json each is a line as `tallyroll send` takes it and `tallyroll archive
read` gives it. If there are more, a message tells the cursor that goes on."""
_EVENTS_END = """example:
  tallyroll events candidate-7 --window 20261120T080000Z --limit 1000 --json"""
_TOP = """List the keys of a window that have most events, or the largest sums: of a live window
from its tallies, exact at this moment; of a sealed one from its totals, also when its table is
gone."""
_TOP_END = """example:
  tallyroll top --window 20261120T080000Z -n 3"""


def add_reads(
    commands: Any, command: Command, run: Callable[[str], Callable[[Namespace], int]]
) -> None:
    """Add the commands; `run` gives what runs a function of `cli_reads`."""
    usage = "KEY ID [--ts T | --window W]"
    event = command(commands, "tallyroll event", "read one event", usage, _EVENT_END, _EVENT)
    event.add_argument("key", metavar="KEY", help="its key")
    event.add_argument("id", metavar="ID", help="its id")
    where = event.add_mutually_exclusive_group()
    where.add_argument("--ts", metavar="T", help=f"when it happened: {_TIMES}")
    where.add_argument("--window", metavar="W", help=_WINDOW)
    event.set_defaults(run=run("event"))

    usage = "KEY --window W [--limit N] [--cursor C]"
    events = command(
        commands, "tallyroll events", "list a key's events", usage, _EVENTS_END, _EVENTS
    )
    events.add_argument("key", metavar="KEY", help="the key")
    events.add_argument("--window", metavar="W", required=True, help=_WINDOW)
    events.add_argument(
        "--limit", metavar="N", type=_number, default=100, help="at most so many (100 by default)"
    )
    events.add_argument("--cursor", metavar="C", help="go on after an earlier answer")
    events.set_defaults(run=run("events"))

    usage = "--window W [-n N] [--by events|sum]"
    top = command(commands, "tallyroll top", "list the largest keys", usage, _TOP_END, _TOP)
    top.add_argument("--window", metavar="W", required=True, help=_WINDOW)
    top.add_argument(
        "-n", metavar="N", type=_number, default=10, help="how many keys (10 by default)"
    )
    top.add_argument(
        "--by", choices=("events", "sum"), default="events", help="by events (the default) or sum"
    )
    top.set_defaults(run=run("top"))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise ArgumentTypeError(f"{text!r}: give a whole number, over 0")
    return int(text)

"""The arguments of `tallyroll windows list`; light, since every run of the command reads them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Any

from tallyroll.cli.archive_arguments import Command
from tallyroll.model.states import Status

_LIST = """List the windows that are not dropped, or all of them: state and since when, what they
hold, their archives, when each state began (UTC), and which are late in their step."""
_LIST_END = """examples:
  tallyroll windows list --all --since 2026-11-01 --hot
  tallyroll windows list --state closing --state exporting --json"""


def add_list(
    below: Any,
    command: Command,
    add_range: Callable[[ArgumentParser], None],
    run: Callable[[Namespace], int],
) -> None:
    """Add `windows list`."""
    usage = "[--since T] [--until T] [--state S] [--all] [--hot] [--size]"
    listed = command(below, "tallyroll windows list", "list windows", usage, _LIST_END, _LIST)
    add_range(listed)
    listed.add_argument(
        "--state",
        metavar="S",
        dest="states",
        action="append",
        choices=[status.value for status in Status],
        help="only windows in this state, such as open or sealed; may be repeated",
    )
    listed.add_argument("--all", action="store_true", help="also those that are dropped")
    listed.add_argument(
        "--hot", action="store_true", help="list the keys that have shards of their own, too"
    )
    listed.add_argument(
        "--size", action="store_true", help="ask for the tables' size, which is some hours old"
    )
    listed.set_defaults(run=run)

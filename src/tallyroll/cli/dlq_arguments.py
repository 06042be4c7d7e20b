"""The arguments of `tallyroll dlq`; light, since every run of the command reads them."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from typing import Any

from tallyroll.cli.archive_arguments import Command
from tallyroll.errors import Reason
from tallyroll.model.dead_letters import UNDELIVERED
from tallyroll.operations.looks import JOBS

LOOKED_AT = 10_000
JOBS_MAX = 10  # each puts 25 claims at once, and the client has 256 connections
_DLQ = """Look at the dead letters, messages that were rejected with a reason or that nobody could
deliver, and redrive those that may still count.

SQS keeps no list of its messages: a look receives all of them, and gives them back at the end. If
it is killed meanwhile, they reappear after five minutes; nothing is lost. What another look holds
at the moment is missing here, and told."""
_DLQ_END = """example:
  tallyroll dlq list"""
_LIST = """Count the dead letters by reason and window. `undelivered` are those that the queue's own
fuse moved after 1,000 receives."""
_LIST_END = """example:
  tallyroll dlq list --json"""
_SHOW = (
    """Show dead letters whole: reason, window, times, body (from the bucket, if it is there)."""
)
_SHOW_END = """examples:
  tallyroll dlq show 3f6c3a0e-5f0d-4b7e-9c0b-7a4d1b1f2e11
  tallyroll dlq show --reason too-late -n 3"""
_REDRIVE = """Send dead letters again, so that each event counts once however often this is repeated
or interrupted. An event goes to its own window if that still takes events. If that one is sealed
without it, it goes to the current window, or where --to says, and the choice is put down in the
ledger before anything is sent. What was counted already is deleted. The rest stays: what can never
count, and what has to wait; each with what can be done about it.

Letters are worked on in batches, several side by side. An interrupt lets those end that are worked
on. Run again, it goes on with what is left."""
_REDRIVE_END = """exit status: 0 nothing was left, 1 something was

examples:
  tallyroll dlq redrive --dry-run
  tallyroll dlq redrive --reason too-late --to 20261120T080000Z --yes"""


def add_dead_letters(
    commands: Any, command: Command, run: Callable[[str], Callable[[Namespace], int]]
) -> None:
    """Add `dlq` and what is below it; `run` gives what runs a function of `cli_dead_letters`."""
    usage = "COMMAND ..."
    dlq = command(commands, "tallyroll dlq", "see dead letters, redrive", usage, _DLQ_END, _DLQ)
    below = dlq.add_subparsers(metavar="COMMAND", prog="tallyroll dlq", required=True)

    listed = command(
        below, "tallyroll dlq list", "count dead letters", "[--limit N]", _LIST_END, _LIST
    )
    _add_limit(listed)
    listed.set_defaults(run=run("list_letters"))

    usage = "MESSAGE-ID | --reason R [-n N]"
    show = command(below, "tallyroll dlq show", "show dead letters", usage, _SHOW_END, _SHOW)
    show.add_argument(
        "messages",
        metavar="MESSAGE-ID",
        nargs="*",
        help="the letter's id, or that of the message when it was new",
    )
    _add_reason(show)
    show.add_argument("-n", metavar="N", type=_number, default=10, help="at most so many (10)")
    _add_limit(show)
    show.set_defaults(run=run("show"))

    usage = "[--reason R] [--message ID] [--to WINDOW] [--yes | --dry-run]"
    redrive = command(
        below, "tallyroll dlq redrive", "send dead letters again", usage, _REDRIVE_END, _REDRIVE
    )
    _add_reason(redrive)
    redrive.add_argument(
        "--message",
        metavar="ID",
        dest="messages",
        action="append",
        default=[],
        help="only this one, by either of its ids; may be given several times",
    )
    redrive.add_argument(
        "--to",
        metavar="WINDOW",
        default="current",
        help="where events go that can no longer count in their own window: an open one's id,"
        "\nor current (the default)",
    )
    way = redrive.add_mutually_exclusive_group()
    way.add_argument("--dry-run", action="store_true", help="only say what would be done")
    way.add_argument("--yes", action="store_true", help="do not ask")
    redrive.add_argument(
        "--unverified",
        action="store_true",
        help="also what a dropped window may have counted: only its archive can tell",
    )
    redrive.add_argument(
        "--jobs",
        metavar="N",
        type=_jobs,
        default=JOBS,
        help=f"work on so many batches of 100 letters side by side, 1 to {JOBS_MAX} ({JOBS})",
    )
    _add_limit(redrive, f"{LOOKED_AT:,} by default; all of them once it sends")
    redrive.set_defaults(run=run("redrive"))


def _add_reason(command: ArgumentParser) -> None:
    command.add_argument(
        "--reason",
        metavar="R",
        dest="reasons",
        action="append",
        default=[],
        type=_reason,
        help="only those of this reason; may be given several times",
    )


def _add_limit(command: ArgumentParser, default: str = f"{LOOKED_AT:,} by default") -> None:
    command.add_argument(
        "--limit",
        metavar="N",
        type=_number,
        help=f"look at no more than N letters ({default})",
    )


def _reason(text: str) -> str:
    known = (*Reason, UNDELIVERED)
    if text not in known:
        raise ArgumentTypeError(f"{text!r}: known are {', '.join(known)}")
    return text


def _jobs(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= JOBS_MAX):
        raise ArgumentTypeError(f"{text!r}: give a whole number, 1 to {JOBS_MAX}")
    return int(text)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise ArgumentTypeError(f"{text!r}: give a whole number, over 0")
    return int(text)

"""The arguments of `tallyroll archive`; light, since every run of the command reads them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Any, Protocol

_TIMES = "2026-11-20T08:00Z, a window id or ms"
_ARCHIVE = """See what is archived, verify it again, read its events, restore it into a table.
All of it from the bucket alone: the tables may be long gone."""
_ARCHIVE_END = """example:
  tallyroll archive list"""
_LIST = """List the archives: of each window the one that counts (proven, else complete, else the
last attempt), or every attempt."""
_LIST_END = """examples:
  tallyroll archive list --since 2026-11-01 --until 2026-12-01
  tallyroll archive list --athena votes    the statement that adds proven ones to an Athena table"""
_VERIFY = """Stream archives once more: checksums, counts, every record recounted per key and
compared with the tallies in the archive and with its proof. The first differences of each are
told, with file and line, and all are counted. Without ARCHIVE: all, of each window the one that
counts."""
_VERIFY_END = """examples:
  tallyroll archive verify --since 2026-11-20 --until 2026-11-21
  tallyroll archive verify 20261120T080000Z --against-totals"""
_READ = """Print the events of an archive as JSON Lines, as `tallyroll send` takes them, packets
unpacked. The archive is verified on the way: it was whole if the exit status is 0."""
_READ_END = """examples:
  tallyroll archive read 20261120T080000Z --key candidate-7
  tallyroll archive read 20261120T080000Z --raw | gzip > window.json.gz"""
_RESTORE = """Restore an archive into a new table, for inspection: no writer writes there, for no
window has that name and all its gates are shut. Ended early, the same command goes on.
--native lets DynamoDB import the files itself (ImportTable, on AWS alone): no write units, but
only for a proven archive in S3."""
_RESTORE_END = """example:
  tallyroll archive restore 20261120T080000Z --table votes-inspected"""

_EXPLAIN = """Compare an archive with its window's table, item by item, while the table lives: which
records are missing from it, extra in it or different, and the keys whose tallies disagree. It reads
the whole table; what the archive holds is kept in a temporary file."""
_EXPLAIN_END = """example:
  tallyroll archive explain 20261120T080000Z"""


class Command(Protocol):
    """Adds one command to others: name, summary, usage, what ends its help, and its description."""

    def __call__(
        self, commands: Any, prog: str, summary: str, usage: str, end: str, description: str = ""
    ) -> ArgumentParser:
        """The new command's parser."""
        ...


def add_archive(
    commands: Any, command: Command, run: Callable[[str], Callable[[Namespace], int]]
) -> None:
    """Add `archive` and its commands; `run` gives what runs a function of `cli_archive`."""
    archive = command(
        commands,
        "tallyroll archive",
        "list, verify, read, restore archives",
        "COMMAND ...",
        _ARCHIVE_END,
        _ARCHIVE,
    )
    below = archive.add_subparsers(metavar="COMMAND", prog="tallyroll archive", required=True)

    usage = "[--all | --athena TABLE] [--bucket B | --dir DIR] [options]"
    listed = command(below, "tallyroll archive list", "list archives", usage, _LIST_END, _LIST)
    _add_range(listed)
    shown = listed.add_mutually_exclusive_group()
    shown.add_argument("--all", action="store_true", help="every attempt, also given-up ones")
    shown.add_argument(
        "--athena",
        metavar="TABLE",
        help="print the SQL that adds the proven ones to this table as partitions",
    )
    _add_source(listed)
    listed.set_defaults(run=run("list_archives"))

    usage = "[ARCHIVE ...] [--bucket B | --dir DIR] [options]"
    verified = command(
        below, "tallyroll archive verify", "verify archives again", usage, _VERIFY_END, _VERIFY
    )
    verified.add_argument("archives", metavar="ARCHIVE", nargs="*", help=_WHICH)
    _add_range(verified)
    _add_totals(verified)
    _add_source(verified)
    verified.set_defaults(run=run("verify"))

    usage = "ARCHIVE [--key KEY] [--raw] [--bucket B | --dir DIR] [options]"
    read = command(
        below, "tallyroll archive read", "print an archive's events", usage, _READ_END, _READ
    )
    read.add_argument("archive", metavar="ARCHIVE", help=_WHICH)
    read.add_argument("--key", help="only this key's, and say how many its tally counts")
    read.add_argument(
        "--raw", action="store_true", help="the items as they stand, DynamoDB JSON, tallies too"
    )
    _add_totals(read)
    _add_source(read)
    read.set_defaults(run=run("read"))

    usage = "ARCHIVE --table TABLE [--native] [--bucket B | --dir DIR]"
    restored = command(
        below,
        "tallyroll archive restore",
        "restore an archive into a table",
        usage,
        _RESTORE_END,
        _RESTORE,
    )
    restored.add_argument("archive", metavar="ARCHIVE", help=_WHICH)
    restored.add_argument("--table", required=True, help="the new table's name")
    restored.add_argument("--native", action="store_true", help="by DynamoDB's own ImportTable")
    _add_source(restored)
    restored.set_defaults(run=run("restore"))
    _add_explain(below, command, run)


def _add_explain(
    below: Any, command: Command, run: Callable[[str], Callable[[Namespace], int]]
) -> None:
    usage = "ARCHIVE [--limit N] [--bucket B | --dir DIR]"
    explained = command(
        below,
        "tallyroll archive explain",
        "explain why an archive was not proven",
        usage,
        _EXPLAIN_END,
        _EXPLAIN,
    )
    explained.add_argument("archive", metavar="ARCHIVE", help=_WHICH)
    explained.add_argument(
        "--limit", metavar="N", type=int, default=100, help="show N differences of each kind (100)"
    )
    _add_source(explained)
    explained.set_defaults(run=run("explain"))


_WHICH = "a window id, or an archive's prefix in the bucket"


def _add_range(command: ArgumentParser) -> None:
    command.add_argument("--since", metavar="T", help=f"windows that start from then on: {_TIMES}")
    command.add_argument("--until", metavar="T", help="windows that start before then")


def _add_totals(command: ArgumentParser) -> None:
    command.add_argument(
        "--against-totals", action="store_true", help="compare with the totals table, too"
    )


def _add_source(command: ArgumentParser) -> None:
    source = command.add_mutually_exclusive_group()
    source.add_argument("--bucket", help="the bucket; TALLYROLL_BUCKET if left out")
    source.add_argument(
        "--dir", metavar="DIR", help="a directory that the bucket was copied to, instead"
    )

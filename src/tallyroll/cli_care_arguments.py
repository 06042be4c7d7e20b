"""The arguments of `tallyroll doctor` and `tallyroll teardown`; light, since every run of the
command reads them.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Any

from tallyroll.cli_archive_arguments import Command

_DOCTOR = """Check a pipeline's invariants, one line a check, with what to do about what is found:
windows that are missing or stuck, tables that are not as declared or that no window names, totals
against tallies, archives and their proofs, queues, dead letters, quotas. It only reads.

Whether something is late or too much depends on the deployment's settings: they are read from the
roller's function where there is one, else this environment's hold."""
_DOCTOR_END = """exit status:
  0  all is well, or there are warnings only
  1  there are findings
  2  wrong use
  3  something could not be checked

examples:
  tallyroll doctor
  tallyroll doctor --deep --json    every tally, total and archive is read"""
_TEARDOWN = """Take down the window tables, which outlive the stack. Run it again to go on with what
an interruption left.

--export closes all windows at once, however young, then seals, archives, proves and drops them,
by what roller and cleanup do. Nothing is dropped unproven. The queue must be empty.
--force deletes the tables as they are, after listing what is lost, and after the pipeline's name
was typed. Only tables of this pipeline's name and tag, or named by its catalog, are touched.

Permanent tables and the bucket are never touched: the end says how to remove them."""
_TEARDOWN_END = """exit status: 0 no table is left, 1 some are, 2 wrong use, 3 AWS not reached

examples:
  tallyroll --name votes teardown --export --dry-run
  tallyroll --name votes teardown --force --yes votes"""


def add_care(
    commands: Any,
    command: Command,
    run: Callable[[str, str], Callable[[Namespace], int]],
    duration: Callable[[str], int],
) -> None:
    """Add both commands; `run` gives what runs a function of a module."""
    usage = "[--deep] [--bucket BUCKET]"
    doctor = command(commands, "tallyroll doctor", "check a pipeline", usage, _DOCTOR_END, _DOCTOR)
    doctor.add_argument(
        "--deep", action="store_true", help="read all tallies, totals and archives, not a sample"
    )
    _add_bucket(doctor)
    doctor.set_defaults(run=run("cli_doctor", "doctor"))

    usage = "--export | --force [--yes NAME] [--dry-run] [options]"
    teardown = command(
        commands, "tallyroll teardown", "take window tables down", usage, _TEARDOWN_END, _TEARDOWN
    )
    how = teardown.add_mutually_exclusive_group(required=True)
    how.add_argument("--export", action="store_true", help="archive, prove, then drop")
    how.add_argument("--force", action="store_true", help="delete unproven: events are lost")
    teardown.add_argument(
        "--dry-run", action="store_true", help="say what would be done and lost, do nothing"
    )
    teardown.add_argument("--yes", metavar="NAME", help="the pipeline's name, instead of typing it")
    teardown.add_argument(
        "--schedules-off",
        action="store_true",
        help="the stack is still there, and its schedules are disabled",
    )
    teardown.add_argument(
        "--timeout",
        metavar="TIME",
        type=duration,
        default="24h",
        help="with --export: go on no longer than that (24h by default)",
    )
    _add_bucket(teardown)
    teardown.set_defaults(run=run("cli_teardown", "teardown"))


def _add_bucket(command: Any) -> None:
    command.add_argument(
        "--bucket", help="the archive bucket; the deployment's or TALLYROLL_BUCKET if left out"
    )

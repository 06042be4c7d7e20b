"""The arguments of `tallyroll doctor`, `tallyroll probe` and `tallyroll teardown`; light, since
every run of the command reads them.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Any

from tallyroll.cli.archive_arguments import Command

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
_PROBE = """Send events to a deployment, read them by several clients while they are counted, and
judge what was read: no count above what was sent, below what was counted, or smaller than one
before it; sums that belong to their events; cached reads no older than the cache allows.

Without --live only the plan and its cost are printed. With --live they are printed first, and
nothing is sent before somebody agreed. The keys are new ones, under --prefix; their counts stay."""
_PROBE_END = """exit status:
  0  every rule holds, and every event was counted
  1  a rule is broken
  2  wrong use, or not agreed to
  3  not all was sent, or counted in time; AWS was not reached, or something is not there

examples:
  tallyroll --name votes probe
  tallyroll --name votes probe --live --events 2000 --yes"""
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
    """Add the commands; `run` gives what runs a function of a module."""
    usage = "[--deep] [--bucket BUCKET]"
    doctor = command(commands, "tallyroll doctor", "check a pipeline", usage, _DOCTOR_END, _DOCTOR)
    doctor.add_argument(
        "--deep", action="store_true", help="read all tallies, totals and archives, not a sample"
    )
    _add_bucket(doctor)
    doctor.set_defaults(run=run("doctor", "doctor"))

    _add_probe(commands, command, run, duration)

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
    teardown.set_defaults(run=run("teardown", "teardown"))


def _add_probe(
    commands: Any,
    command: Command,
    run: Callable[[str, str], Callable[[Namespace], int]],
    duration: Callable[[str], int],
) -> None:
    usage = "[--live [--yes]] [--prefix PREFIX] [--events N] [--keys N] [--timeout TIME]"
    probe = command(
        commands, "tallyroll probe", "probe whether counts are exact", usage, _PROBE_END, _PROBE
    )
    probe.add_argument("--live", action="store_true", help="do it, and pay for it")
    probe.add_argument("--yes", action="store_true", help="agree to the cost without being asked")
    probe.add_argument(
        "--prefix",
        default="tallyroll-probe/",
        help="what the keys begin with (tallyroll-probe/ by default)",
    )
    probe.add_argument(
        "--events",
        metavar="N",
        type=int,
        default=1_000,
        help="how many events to send (1000 by default)",
    )
    probe.add_argument(
        "--keys", metavar="N", type=int, default=3, help="of how many keys (3 by default)"
    )
    probe.add_argument(
        "--timeout",
        metavar="TIME",
        type=duration,
        default="15m",
        help="wait no longer than that for the last event (15m by default)",
    )
    probe.set_defaults(run=run("probe", "probe"))


def _add_bucket(command: Any) -> None:
    command.add_argument(
        "--bucket", help="the archive bucket; the deployment's or TALLYROLL_BUCKET if left out"
    )

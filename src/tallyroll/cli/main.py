"""The command `tallyroll`: send events, read counts, see and open windows.

It works against AWS or the local engine, by AWS's usual environment. Tables for people by default,
JSON on stdout with --json, messages on stderr. Exit statuses: 0 done, 1 done in part, 2 wrong use,
3 AWS could not be reached or something is not there, 130 interrupted, 141 the reader went away.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace, RawTextHelpFormatter
from collections.abc import Callable, Sequence
from importlib import import_module, metadata, util
from typing import Any

from tallyroll import __version__
from tallyroll.cli.archive_arguments import add_archive
from tallyroll.cli.care_arguments import add_care
from tallyroll.cli.dlq_arguments import add_dead_letters
from tallyroll.cli.reads_arguments import add_reads
from tallyroll.cli.windows_arguments import add_list
from tallyroll.errors import (
    Absent,
    Archived,
    Missing,
    StoreError,
    TallyrollError,
    Throttled,
    Unknown,
    UsageError,
)
from tallyroll.settings import PREFIX, Settings

DONE_IN_PART, WRONG_USE, NOT_REACHED, READER_GONE = 1, 2, 3, 141
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_TIMES = "2026-11-20T08:00Z, a window id or ms"

_MAIN = """Send events to a Tallyroll pipeline, read its counts, see and open its windows.

Where the pipeline is follows from AWS's usual environment: AWS_PROFILE, AWS_REGION, and for the
local engine AWS_ENDPOINT_URL and AWS_ENDPOINT_URL_DYNAMODB."""
_MAIN_END = """exit status:
  0    done
  1    done in part: bad or unsent lines, an incomplete count, windows that did not open,
       dead letters that were left or not seen, differences in an archive, a broken promise
  2    wrong use
  3    AWS or the local engine not reached, or something is not there
  130  interrupted
  141  the reader of the output went away

example:
  tallyroll --name votes count candidate-7"""
_SEND = """Send events to the queue: JSON Lines from a file or stdin (gzip is recognized), or one
event given by options. Each line is
{"key": ..., "id": ..., "ts": ms, "value": ..., "payload": ...}; only `key` is required.
Lines that could never count are listed and left out.

An event with an id of its own goes singly, and counts once however often it is sent. Events
without ids are packed, hundreds to a message: cheaper by far, but a second run counts them again.
What the queue did not certainly take is kept by --unsent, under the ids it was sent with."""
_SEND_END = """examples:
  tallyroll send votes.jsonl.gz --unsent unsent.jsonl
  tallyroll send --key candidate-7 --id ballot-123 --ts 2026-11-20T08:15:00Z"""
_COUNT = """Count keys: over all time, or over the windows in [since, until)."""
_COUNT_END = """example:
  tallyroll count candidate-7 candidate-8 --since 20261120T080000Z --windows"""
_WINDOWS = """See the pipeline's windows, or open past ones to load history."""
_WINDOWS_END = """example:
  tallyroll windows list"""
_OPEN = """Open past windows on purpose, so that events which happened before the pipeline's first
window can be loaded. The roller makes their tables; send events once they are open (--wait), for
what is sent before is rejected. A window that exists stays as it is."""
_OPEN_END = """example:
  tallyroll windows open --since 2026-10-01 --until 2026-10-02 --accept-for 12h --wait"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (sys.argv's by default); give its exit status."""
    try:
        arguments = parser().parse_args(argv)
    except SystemExit as end:
        return int(end.code or 0)
    try:
        status = int(arguments.run(arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes stdout once more at its end: let it, into nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except KeyboardInterrupt:
        _say("interrupted")
        return 130
    except UsageError as error:
        _say(str(error))
        return WRONG_USE
    except StoreError as error:
        _say(f"{error}\n{_remedy(error)}")
        return NOT_REACHED
    except Archived as error:
        _say(f"{error}\nRead it with: tallyroll archive read {error.window}")
        return NOT_REACHED
    except Absent as error:
        _say(str(error))
        return NOT_REACHED
    except TallyrollError as error:
        _say(str(error))
        return DONE_IN_PART
    return status


def parser() -> ArgumentParser:
    """The command's arguments; each command's parser names the function that runs it."""
    top = _parser("tallyroll", _MAIN, _MAIN_END, "[--name NAME] [--json] COMMAND ...")
    _add_shared(top, None, as_json=False)
    top.add_argument("--version", action="version", version=_versions_text())
    commands = top.add_subparsers(metavar="COMMAND", prog="tallyroll", required=True)
    _add_send(commands)
    _add_count(commands)
    _add_windows(commands)
    add_reads(commands, _command, _read)
    add_dead_letters(commands, _command, _dead_letters)
    add_archive(commands, _command, _archive)
    add_care(commands, _command, _care, _duration)
    version = _command(
        commands, "tallyroll version", "the versions of Tallyroll, Python and boto3", "", ""
    )
    version.set_defaults(run=_version)
    return top


def _add_send(commands: Any) -> None:
    usage = "[FILE | --key KEY [--value V] [--id ID] [--ts T] [--payload JSON]] [options]"
    send = _command(commands, "tallyroll send", "send events to the queue", usage, _SEND_END, _SEND)
    send.add_argument("file", metavar="FILE", nargs="?", help="JSON Lines; - or nothing for stdin")
    send.add_argument("--key", help="the key of one event")
    send.add_argument("--value", metavar="V", help="its value, a number; 1 if left out")
    send.add_argument("--id", help="its id: it counts once however often it is sent")
    send.add_argument("--ts", metavar="T", help=f"when it happened: {_TIMES}")
    send.add_argument("--payload", metavar="JSON", help="what else to keep of it")
    send.add_argument(
        "--pack", action="store_true", default=None, help="pack events without ids (the default)"
    )
    send.add_argument(
        "--no-pack", action="store_false", dest="pack", help="send them singly, under ids made here"
    )
    send.add_argument(
        "--limit-rate", metavar="N", type=_rate, help="send at most N events a second on average"
    )
    send.add_argument(
        "--unsent",
        metavar="OUT",
        help="write the messages that were not certainly taken to this file, to be sent again",
    )
    send.set_defaults(run=_send)


def _add_count(commands: Any) -> None:
    usage = "KEY [KEY ...] [--since T] [--until T] [--windows]"
    count = _command(commands, "tallyroll count", "count keys", usage, _COUNT_END, _COUNT)
    count.add_argument("keys", metavar="KEY", nargs="+", help="a key")
    _add_range(count, required=False)
    count.add_argument("--windows", action="store_true", help="list each window's share, too")
    count.set_defaults(run=_view("count"))


def _add_windows(commands: Any) -> None:
    usage = "COMMAND ..."
    windows = _command(
        commands, "tallyroll windows", "see windows, open past ones", usage, _WINDOWS_END, _WINDOWS
    )
    below = windows.add_subparsers(metavar="COMMAND", prog="tallyroll windows", required=True)
    add_list(
        below,
        _command,
        lambda listed: _add_range(listed, required=False),
        _care("windows", "list_windows"),
    )
    usage = "--since T --until T [--accept-for TIME] [--wait] [--timeout TIME]"
    opened = _command(below, "tallyroll windows open", "open past windows", usage, _OPEN_END, _OPEN)
    _add_range(opened, required=True)
    opened.add_argument(
        "--accept-for",
        metavar="TIME",
        type=_duration,
        default="24h",
        help="how long from now they take events: 90s, 30m, 24h (the default), 7d",
    )
    opened.add_argument("--wait", action="store_true", help="wait until they are open")
    opened.add_argument(
        "--timeout",
        metavar="TIME",
        type=_duration,
        default="15m",
        help="wait no longer than that (15m by default)",
    )
    opened.set_defaults(run=_view("open_windows"))


def _add_range(command: ArgumentParser, *, required: bool) -> None:
    command.add_argument(
        "--since", metavar="T", required=required, help=f"from this bound of a window on: {_TIMES}"
    )
    command.add_argument(
        "--until", metavar="T", required=required, help="up to this bound of a window"
    )


def _add_shared(command: ArgumentParser, name: object, as_json: object) -> None:
    command.add_argument(
        "--name",
        default=name,
        help=f"the pipeline's name; {PREFIX}NAME or tallyroll if left out",
    )
    command.add_argument(
        "--json", action="store_true", default=as_json, help="JSON on stdout instead of tables"
    )


def _command(
    commands: Any, prog: str, summary: str, usage: str, end: str, description: str = ""
) -> ArgumentParser:
    shared = ArgumentParser(add_help=False)
    _add_shared(shared, SUPPRESS, SUPPRESS)
    command: ArgumentParser = commands.add_parser(
        prog.rpartition(" ")[2],
        prog=prog,
        help=summary,
        parents=[shared],
        usage=f"{prog} {usage}".strip(),
        description=description or f"Print {summary}.",
        epilog=end or f"example:\n  {prog}",
        formatter_class=RawTextHelpFormatter,
        allow_abbrev=False,
    )
    return command


def _parser(prog: str, description: str, epilog: str, usage: str) -> ArgumentParser:
    return ArgumentParser(
        prog=prog,
        usage=f"{prog} {usage}",
        description=description,
        epilog=epilog,
        formatter_class=RawTextHelpFormatter,
        allow_abbrev=False,
    )


def _send(arguments: Namespace) -> int:
    _need_rich()
    from tallyroll.cli import send  # noqa: PLC0415 (boto3 takes 0.1 s, for which help need not wait)

    return _against_aws(send.run, arguments)


def _view(name: str) -> Callable[[Namespace], int]:
    def run(arguments: Namespace) -> int:
        _need_rich()
        from tallyroll.cli import views  # noqa: PLC0415 (boto3 takes 0.1 s, for which help need not wait)

        return _against_aws(getattr(views, name), arguments)

    return run


def _read(name: str) -> Callable[[Namespace], int]:
    def run(arguments: Namespace) -> int:
        _need_rich()
        from tallyroll.cli import reads  # noqa: PLC0415 (boto3 takes 0.1 s, for which help need not wait)

        return _against_aws(getattr(reads, name), arguments)

    return run


def _dead_letters(name: str) -> Callable[[Namespace], int]:
    def run(arguments: Namespace) -> int:
        _need_rich()
        from tallyroll.cli import dlq  # noqa: PLC0415 (boto3 takes 0.1 s, for which help need not wait)

        return _against_aws(getattr(dlq, name), arguments)

    return run


def _archive(name: str) -> Callable[[Namespace], int]:
    def run(arguments: Namespace) -> int:
        _need_rich()
        from tallyroll.cli import archive, explain  # noqa: PLC0415 (boto3 takes 0.1 s, for which help need not wait)

        module = explain if name == "explain" else archive
        return _against_aws(getattr(module, name), arguments)

    return run


def _care(module: str, name: str) -> Callable[[Namespace], int]:
    def run(arguments: Namespace) -> int:
        _need_rich()
        found = import_module(f"tallyroll.cli.{module}")  # boto3 takes 0.1 s, see above

        return _against_aws(getattr(found, name), arguments)

    return run


def _against_aws(command: Callable[..., int], arguments: Namespace) -> int:
    from tallyroll import pipeline  # noqa: PLC0415 (see above)
    from tallyroll.cli.screen import Screen  # noqa: PLC0415 (see above)

    environment = dict(os.environ)
    if arguments.name is not None:
        environment[PREFIX + "NAME"] = arguments.name
    with pipeline.connecting():
        return command(arguments, Settings.from_env(environment), Screen(json=arguments.json))


def _version(arguments: Namespace) -> int:
    print(json.dumps(_versions()) if arguments.json else _versions_text())
    return 0


def _versions() -> dict[str, str]:
    return {
        "tallyroll": __version__,
        "Python": platform.python_version(),
        "boto3": metadata.version("boto3"),
    }


def _versions_text() -> str:
    return ", ".join(f"{name} {version}" for name, version in _versions().items())


def _need_rich() -> None:
    if util.find_spec("rich") is None:
        raise Missing("the command needs rich: pip install '.[cli]' in the clone", "rich")


def _remedy(error: StoreError) -> str:
    code = error.code
    if "Region" in code:
        return "Set AWS_REGION, or a region in the profile that AWS_PROFILE names."
    if "Credential" in code or "Token" in code or "Profile" in code or "SSO" in code:
        return "Check the credentials: AWS_PROFILE, or AWS_ACCESS_KEY_ID and its secret."
    if "AccessDenied" in code:
        return "This identity may not do that: is it the right one (AWS_PROFILE)?"
    if isinstance(error, Throttled):
        return "The load is too high at the moment: try again later."
    if isinstance(error, Unknown):
        return (
            "Is the local engine running (AWS_ENDPOINT_URL), or the network and AWS_REGION right?"
        )
    return "Is --name right? Is the pipeline deployed there, or the local engine running?"


def _say(message: str) -> None:
    for line in message.splitlines():
        print(f"tallyroll: {line}", file=sys.stderr)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0
    if not 0 < rate < 1e9:
        raise ArgumentTypeError(f"{text!r}: give a number of events a second, over 0")
    return rate


def _duration(text: str) -> int:
    """The ms of a time span such as 90s, 30m, 24h or 7d."""
    match = re.fullmatch(r"(\d{1,9})(ms|s|m|h|d)", text)
    if not match:
        raise ArgumentTypeError(f"{text!r}: give a time span such as 90s, 30m, 24h or 7d")
    return int(match[1]) * _UNITS_MS[match[2]]

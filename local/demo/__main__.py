"""The main job on this machine: a vote night, or your own events, on an embedded AWS.

    make demo                          a vote night with redeliveries and killed writers
    make demo INPUT=events.jsonl       your own events, one JSON object a line (gzip is recognized)
    make demo ENGINE=cassandra         the tables of windows on a node of Apache Cassandra
    make demo ARGS="--faults off"      without the faults
    make demo ARGS=--console           with the console in a browser
    make demo ARGS="--archive-to DIR"  either, and keep the archives of all windows

exit status:
  0    every number is exact, and every dropped window was proven first
  1    a number is not exact, or the engine failed
  2    wrong use, or exact but for lines of the input that were left out
  3    the input cannot be read to its end
  4    nothing is lost, but this machine was too slow to count or archive all of it in time
  130  interrupted
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from local.aws.dynamodb_local import EngineError
from local.aws.embedded import ENGINES
from local.cassandra.jars import JarsError
from local.cassandra.node import NodeError
from local.demo.own_events import own_events
from local.demo.run import running
from local.demo.vote_night import Plan, vote_night
from local.runtime.poller import Faults
from tallyroll.client.jsonlines import UnreadableInput
from tallyroll.errors import TallyrollError, UsageError

VOTES = 24_000
SINGLES = 4_000
SECONDS = 20.0
REDELIVER = 0.03
KILL = 0.5
AGAIN_AFTER_S = 1
WRITERS = 2
BATCH_SIZE = 500
BATCH_WINDOW_S = 0.5
UNREADABLE = 3
SECONDS_MAX = 86_400
PLAIN_WIDTH = 110


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; the exit status."""
    options = parse(argv)
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    start = partial(
        running,
        console=console,
        engine=options.engine,
        dynamodb_endpoint=options.dynamodb_endpoint,
        faults=_faults(options),
        writers=WRITERS,
        batch_size=BATCH_SIZE,
        window_s=BATCH_WINDOW_S,
    )
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    try:
        if options.input:
            return own_events(console, start, options.input, options.archive_to)
        keep = options.archive_to
        plan = Plan(
            options.votes, options.singles, options.seconds, options.seed, keep, options.console
        )
        return vote_night(console, start, plan)
    except KeyboardInterrupt:
        console.print("interrupted: everything that was started is ended")
        return 130
    except UsageError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    except UnreadableInput as error:
        print(f"demo: the input cannot be read: {error}; nothing was counted", file=sys.stderr)
        return UNREADABLE
    except (EngineError, JarsError, NodeError, RuntimeError, TallyrollError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options. Exits with status 2 if they are wrong."""
    parser = _parser()
    options = parser.parse_args(argv)
    if options.singles > options.votes:
        parser.error(f"--singles {options.singles} must not be more than --votes {options.votes}")
    if options.console and options.input:
        parser.error("--console shows the vote night: leave --input out, or run make local")
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m local.demo",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--input", metavar="FILE", help="count these events instead (- is stdin)")
    parser.add_argument("--faults", choices=("on", "off"), default="on", help="default: on")
    parser.add_argument("--votes", type=_positive, default=VOTES, help=f"default: {VOTES}")
    parser.add_argument(
        "--singles",
        type=_positive,
        default=SINGLES,
        help=f"how many of them have ids of their own; default: {SINGLES}",
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=SECONDS,
        help=f"how long the voting takes; default: {SECONDS:g}",
    )
    parser.add_argument("--seed", type=int, default=1, help="of votes and faults; default: 1")
    parser.add_argument(
        "--console", action="store_true", help="serve the console on the vote night until Ctrl-C"
    )
    parser.add_argument("--engine", choices=ENGINES, default=ENGINES[0], help="keeps the tables")
    parser.add_argument("--dynamodb-endpoint", metavar="URL", help="use one that runs already")
    parser.add_argument(
        "--archive-to",
        metavar="DIR",
        type=_new_directory,
        help="copy the archives to this directory, which must be new or empty",
    )
    return parser


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a whole number over 0")
    return int(text)


def _new_directory(text: str) -> Path:
    path = Path(text)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise argparse.ArgumentTypeError(f"{text!r}: must be a new or an empty directory")
    return path


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds <= SECONDS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r}: must be over 0, at most {SECONDS_MAX}")
    return seconds


def _faults(options: argparse.Namespace) -> Faults:
    if options.faults == "off":
        return Faults(seed=options.seed)
    return Faults(seed=options.seed, redeliver=REDELIVER, kill=KILL, again_after_s=AGAIN_AFTER_S)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

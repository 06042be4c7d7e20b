"""The main job on this machine: a vote night, or your own events, on an embedded AWS.

    make demo                          a vote night with redeliveries and killed writers
    make demo INPUT=events.jsonl       your own events, one JSON object a line (gzip is recognized)
    make demo ARGS="--faults off"      without the faults

The exit status is 0 only if every number is exact and every dropped window was proven first.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from functools import partial

from rich.console import Console

from local.dynamodb_local import EngineError
from local.embedded import ENGINES
from local.own_events import own_events
from local.poller import Faults
from local.running import running
from local.vote_night import Plan, vote_night
from tallyroll.errors import TallyrollError, UsageError

VOTES = 24_000
SINGLES = 4_000
SECONDS = 20.0
REDELIVER = 0.03
KILL = 0.5
AGAIN_AFTER_S = 2
WRITERS = 2
BATCH_SIZE = 500
BATCH_WINDOW_S = 0.5
PLAIN_WIDTH = 110


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; the exit status."""
    options = _parser().parse_args(argv)
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    start = partial(
        running,
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
            return own_events(console, start, options.input)
        plan = Plan(options.votes, options.singles, options.seconds, options.seed)
        return vote_night(console, start, plan)
    except KeyboardInterrupt:
        console.print("interrupted: everything that was started is ended")
        return 130
    except UsageError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    except (EngineError, RuntimeError, TallyrollError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m local.demo",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--input", metavar="FILE", help="count these events instead (- is stdin)")
    parser.add_argument("--faults", choices=("on", "off"), default="on", help="default: on")
    parser.add_argument("--votes", type=int, default=VOTES, help=f"default: {VOTES}")
    parser.add_argument(
        "--singles", type=int, default=SINGLES, help=f"votes with ids of their own ({SINGLES})"
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"that the voting takes ({SECONDS:g})"
    )
    parser.add_argument("--seed", type=int, default=1, help="of votes and faults; default: 1")
    parser.add_argument("--engine", choices=ENGINES, default=ENGINES[0], help="keeps the tables")
    parser.add_argument("--dynamodb-endpoint", metavar="URL", help="use one that runs already")
    return parser


def _faults(options: argparse.Namespace) -> Faults:
    if options.faults == "off":
        return Faults(seed=options.seed)
    return Faults(seed=options.seed, redeliver=REDELIVER, kill=KILL, again_after_s=AGAIN_AFTER_S)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

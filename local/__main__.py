"""A whole pipeline on this machine, on an embedded AWS: `python -m local`."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from contextlib import suppress

from botocore.exceptions import ClientError

from local.aws import dynamodb_local
from local.aws.embedded import ENGINES, Embedded, scaled_settings
from local.pipeline import LocalPipeline, worth_reading

_GO_ON = """\
# in another shell, in this directory: paste the above, then for example
#   .venv/bin/tallyroll send --key a
#   .venv/bin/tallyroll count a
#   .venv/bin/tallyroll windows list
# Ctrl-C ends it"""


def main() -> int:
    """Run a whole pipeline until Ctrl-C; print the environment that its users need."""
    parser = argparse.ArgumentParser(prog="python -m local.aws.embedded", description=main.__doc__)
    parser.add_argument("--name", default="tallyroll", help="the pipeline's name")
    parser.add_argument("--window-seconds", type=int, default=60, help="length of a window")
    parser.add_argument(
        "--engine", choices=ENGINES, default=ENGINES[0], help="what keeps the tables"
    )
    parser.add_argument("--dynamodb-endpoint", help="use a DynamoDB Local that runs already")
    parser.add_argument("--writers", type=int, default=2, help="writers that run at once")
    parser.add_argument("--verbose", action="store_true", help="print all that the functions log")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        settings = scaled_settings(options.name, options.window_seconds)
        with (
            suppress(KeyboardInterrupt),
            Embedded(
                settings, engine=options.engine, dynamodb_endpoint=options.dynamodb_endpoint
            ) as aws,
        ):
            _run(aws, options.writers, verbose=options.verbose)
    except (dynamodb_local.EngineError, RuntimeError, ClientError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _run(aws: Embedded, writers: int, *, verbose: bool) -> None:
    def log(function: str, line: str) -> None:
        if verbose or worth_reading(line):
            print(f"{function}: {line}", file=sys.stderr, flush=True)

    with LocalPipeline(aws, writers=writers, on_log=log, on_error=lambda text: log("error", text)):
        for name, value in aws.environment.items():
            print(f"export {name}={shlex.quote(value)}")
        print(_GO_ON, flush=True)
        try:
            while True:
                signal.pause()
        finally:
            print(aws.complaints(), end="", file=sys.stderr, flush=True)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

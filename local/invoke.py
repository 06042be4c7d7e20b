"""A sample event on the running local engine: the real handler, with the event's times shifted.

    make local ARGS="--env-file local.env"                         in one shell
    make invoke FUNCTION=writer EVENT=events/writer-own-id.json    in another one

All times in the event are shifted by one amount, a whole number of windows, so that it happens in
the current window, and an event that is too late stays too late. Times are ms since the epoch, ISO
times, window ids, and the time in UUIDv7 ids. The handler's answer is printed on stdout, its log on
stderr.

exit status:
  0  the handler answered
  1  the handler failed
  2  wrong use
  3  no local engine runs, or its pipeline is not there
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from local.runtime.pool import Function, FunctionError
from local.shifting import shifted, wrapped
from tallyroll.errors import TallyrollError
from tallyroll.pipeline import Pipeline, connecting
from tallyroll.settings import Settings
from tallyroll.settings.texts import PREFIX

FUNCTIONS = ("writer", "aggregator", "roller", "cleanup", "dropper", "compactor")
ENV_FILE = Path("local.env")
HANDLER_FAILED, WRONG_USE, NO_ENGINE = 1, 2, 3
TIMEOUT_S = 900.0
BEFORE_MS = 2_000  # samples are sent, and asked for, within these ms after their events happened
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_START = 'start one in another shell: make local ARGS="--env-file local.env"'
_LINES = "; its first line is JSON: give JSON Lines in a file whose name ends with .jsonl"
_ONE_LINE = (
    "; give messages as JSON Lines, each on a line of its own, in a file whose name ends with"
    " .jsonl: jq -c . FILE > FILE.jsonl"
)


class WrongUse(Exception):
    """The function or the event is not what it should be."""


class NoEngine(Exception):
    """No local engine answers."""


def main(argv: Sequence[str] | None = None) -> int:
    """Invoke a function with an event; the exit status."""
    options = _parser().parse_args(argv)
    try:
        event = read(options.function, options.event)
        environment = engine(options.env_file)
        shift = options.shift
        if shift is None:
            shift = shift_to_now(environment, moment_of(event))
        print(f"all times are shifted by {shift} ms", file=sys.stderr)
        return invoke(options.function, shifted(event, shift), environment)
    except WrongUse as error:
        print(f"invoke: {error}", file=sys.stderr)
        return WRONG_USE
    except NoEngine as error:
        print(f"invoke: {error}", file=sys.stderr)
        return NO_ENGINE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m local.invoke",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--function", default="", help=", ".join(FUNCTIONS))
    parser.add_argument("--event", default="", metavar="FILE", help="JSON, or JSON Lines of events")
    parser.add_argument(
        "--env-file",
        type=Path,
        metavar="FILE",
        help="the environment that `make local` wrote; by default this shell's, else local.env",
    )
    parser.add_argument(
        "--shift", type=int, metavar="MS", help="instead of into the current window"
    )
    return parser


def read(function: str, name: str) -> dict[str, Any]:
    """The event in a file, which must be one of the function's. Raises WrongUse."""
    if function not in FUNCTIONS:
        raise WrongUse(f"FUNCTION={function}: give one of {', '.join(FUNCTIONS)}")
    path = Path(name)
    if not name or not path.is_file():
        raise WrongUse(f"EVENT={name}: there is no such file; give one such as events/*.json")
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        event = wrapped(text) if path.suffix == ".jsonl" else json.loads(text)
    except ValueError as error:
        hint = _LINES if _is_json(text.partition("\n")[0]) else ""
        raise WrongUse(f"EVENT={name}: it is no JSON: {error}{hint}") from None
    if path.suffix == ".jsonl" and "\n" in text.strip() and _is_json(text):
        raise WrongUse(f"EVENT={name}: it is one JSON value over several lines{_ONE_LINE}")
    if isinstance(event, dict) and "key" in event:
        raise WrongUse(f"EVENT={name}: it is a message of a producer{_ONE_LINE}")
    known = _functions_of(event)
    if function not in known:
        fits = f"an event of {' or '.join(known)}" if known else "no event of any function"
        raise WrongUse(f"EVENT={name}: it is {fits}, not of {function}")
    return dict(event)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _functions_of(event: Any) -> tuple[str, ...]:
    if not isinstance(event, dict):
        return ()
    if "Records" in event:
        return ("writer",)
    if "requestContext" in event:
        return ("aggregator",)
    if event.get("source") == "aws.scheduler":
        named = str(event.get("resources"))
        return tuple(name for name in FUNCTIONS[2:] if f"-{name}'" in named)
    return ()


def moment_of(event: Mapping[str, Any]) -> int | None:
    """The time (ms) at which an event was sent or asked; None if the event does not say."""
    if "Records" in event:
        sent = [int(record["attributes"]["SentTimestamp"]) for record in event["Records"]]
        return max(sent, default=None)
    if "requestContext" in event:
        context = event["requestContext"]
        return int(context["timeEpoch"] if "timeEpoch" in context else context["requestTimeEpoch"])
    return int(datetime.fromisoformat(event["time"]).timestamp() * 1000)


def engine(env_file: Path | None) -> dict[str, str]:
    """The environment of the running engine. Raises NoEngine."""
    if env_file is None and "AWS_ENDPOINT_URL" in os.environ:
        environment = dict(os.environ)
        report = "AWS_ENDPOINT_URL"
    else:
        file = env_file or ENV_FILE
        report = str(file)
        if not file.is_file():
            raise NoEngine(f"no local engine runs: {file} is not there; {_START}")
        environment = _exports(file.read_text(encoding="utf-8"))
    endpoint = environment.get("AWS_ENDPOINT_URL", "")
    if urlsplit(endpoint).hostname not in _LOOPBACK:
        raise NoEngine(f"{report} names no local engine, but {endpoint or 'nothing'}; {_START}")
    return {k: v for k, v in environment.items() if k.startswith(("AWS_", PREFIX))}


def _exports(text: str) -> dict[str, str]:
    lines = re.findall(r"^export (\w+)=(.*)$", text, re.MULTILINE)
    return {name: "".join(shlex.split(value)) for name, value in lines}


def shift_to_now(environment: Mapping[str, str], moment: int | None) -> int:
    """By how many ms an event of that moment is shifted into the current window.

    Raises NoEngine if the engine does not answer, or has no such pipeline.
    """
    name = environment.get(f"{PREFIX}NAME", "tallyroll")
    try:
        with _environment(environment), connecting():
            made = Pipeline(Settings.from_env(environment))
            calendar = made.catalog.calendar()
    except TallyrollError as error:
        raise NoEngine(f"no local engine runs with the pipeline {name!r}: {error}; {_START}") from (
            error
        )
    if calendar is None:
        raise NoEngine(f"the pipeline {name!r} has no windows there; {_START}")
    now = made.effects.now()
    if moment is None:
        return 0
    then = calendar.grid.at(moment - BEFORE_MS).start
    return calendar.grid.at(now).start - then


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """This process's environment with these variables, meanwhile."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def function_of(name: str, environment: Mapping[str, str], log: Callable[[str], None]) -> Function:
    """A function as the engine runs it."""
    path = f"functions.{name}.handler.handler"
    return Function(path, environment, name=name, timeout_s=TIMEOUT_S, on_log=log)


def invoke(function: str, event: Any, environment: Mapping[str, str]) -> int:
    """Run the handler as the engine does; print its answer."""

    def log(line: str) -> None:
        print(f"{function}: {line}", file=sys.stderr, flush=True)

    with function_of(function, environment, log) as running:
        try:
            answer = running.invoke(event)
        except FunctionError as error:
            print(f"invoke: {function} failed: {error}\n{error.trace}", file=sys.stderr)
            return HANDLER_FAILED
    print(json.dumps(answer, indent=2, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())

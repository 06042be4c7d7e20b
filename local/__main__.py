"""A whole pipeline on this machine, on an embedded AWS: `python -m local`."""

from __future__ import annotations

import argparse
import re
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import fields
from pathlib import Path

from botocore.exceptions import ClientError

from local.aws import dynamodb_local
from local.aws.embedded import CASSANDRA, ENGINES, Embedded
from local.aws.kept_dir import KeptDir, KeptDirError, kept_dir
from local.cassandra.jars import JarsError
from local.cassandra.node import NodeError
from local.console import console_of
from local.options import LocalOptions, options_of
from local.pipeline import LocalPipeline, worth_reading
from local.runtime.http_api import HttpApi
from tallyroll.cli.arguments import duration
from tallyroll.cli.screen import number_of
from tallyroll.cli.windows import length
from tallyroll.errors import StoreError, UsageError
from tallyroll.model.windows import DYNAMODB, KEYSPACES
from tallyroll.operations.doctor.queue_checks import span_text
from tallyroll.reads.described.routes import ROUTES
from tallyroll.settings import Settings
from tallyroll.settings.texts import PREFIX

FAILURES = (
    *(dynamodb_local.EngineError, JarsError, KeptDirError, NodeError, StoreError),
    *(RuntimeError, ClientError, UsageError, ValueError, OSError),
)
_QUOTES = (
    ": a value of -c was cut at a space; give it in quotes that reach this command:"
    """ make local ARGS="-c 'tallyroll:mapping={\\"key\\": \\"detail.country\\"}'\""""
)
_ASKED = {"name": "--name", "window_seconds": "--window", "retention_seconds": "--retention"}
_WINDOW_TABLE = re.compile(r"\d{8}T\d{6}Z$")
PORTS = 3  # the HTTP API, AWS and DynamoDB take so many from --port on
_API_URL = "TALLYROLL_API_URL"
_ENDPOINTS = (_API_URL, "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB")
_GO_ON = """\
# in another shell, in this directory: {take}, then for example
#   .venv/bin/tallyroll send --key a
#   .venv/bin/tallyroll count a
#   curl "${api}/v1/counters?key=a"
# Ctrl-C ends it"""


def main() -> int:
    """Run a whole pipeline until Ctrl-C; print the environment that its users need."""
    options = _options()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        ports = _ports(options.port, options.env_file)
        chosen = options_of(
            options.context,
            name=options.name or "tallyroll",
            window_seconds=options.window or 60,
            retention_seconds=options.retention,
            store=KEYSPACES if options.engine == CASSANDRA else DYNAMODB,
        )
        with ExitStack() as stack:
            keep = None
            if options.keep:
                keep = stack.enter_context(kept_dir(options.keep, chosen.settings))
            embedded = Embedded(
                chosen.settings,
                engine=options.engine,
                dynamodb_endpoint=options.dynamodb_endpoint,
                port=ports[1],
                dynamodb_port=ports[2],
                keep=keep,
            )
            with suppress(KeyboardInterrupt), embedded as aws:
                _run(aws, options, chosen, ports[0], keep)
    except FAILURES as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m local", description=main.__doc__)
    parser.add_argument(
        *("-c", "--context"),
        action="append",
        default=[],
        metavar="tallyroll:NAME=VALUE",
        help="an option of the pipeline, as in a deployment (docs/deploy.md); goes before the"
        " options below; may be repeated",
    )
    parser.add_argument("--name", help="the pipeline's name (tallyroll)")
    parser.add_argument("--window", type=_span, metavar="SPAN", help="length of a window (60s)")
    parser.add_argument(
        "--retention",
        type=_span,
        metavar="SPAN",
        help="how long tables live after their windows' end (in proportion to the window)",
    )
    parser.add_argument(
        "--port",
        type=int,
        help=f"the HTTP API listens here, AWS and DynamoDB on the next {PORTS - 1} ports"
        " (free ones, or those in --env-file); the console on the one after them, if it is free",
    )
    parser.add_argument(
        "--env-file",
        type=Path,
        metavar="FILE",
        help="write the environment here; the next start takes the same ports from it",
    )
    parser.add_argument(
        "--engine", choices=ENGINES, default=ENGINES[0], help="what keeps the tables"
    )
    parser.add_argument("--dynamodb-endpoint", help="use a DynamoDB Local that runs already")
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="keep tables, queues and archives here over restarts; not kept are metrics, which"
        " messages were in flight, how often they were received, older versions of objects, and"
        " what is not the pipeline's (docs/local.md)",
    )
    parser.add_argument("--writers", type=int, default=2, help="writers that run at once")
    parser.add_argument("--verbose", action="store_true", help="print all that the functions log")
    options, unknown = parser.parse_known_args()
    if unknown:
        cut = any("={" in text and not text.endswith("}") for text in options.context)
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{_QUOTES if cut else ''}")
    if options.keep and (options.engine != ENGINES[0] or options.dynamodb_endpoint):
        given = "--dynamodb-endpoint" if options.dynamodb_endpoint else f"engine {options.engine}"
        parser.error(
            f"--keep with {given}: its tables are not in DIR; --keep needs a DynamoDB Local of its"
            " own: leave one of them out"
        )
    return options


def _span(text: str) -> int:
    """The seconds of a time span."""
    try:
        seconds = duration(text) // 1000
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r}: give a second at least")
    return seconds


def _ports(first: int | None, env_file: Path | None) -> tuple[int, int, int]:
    """The ports of the HTTP API, AWS and DynamoDB; 0 stands for any free one.

    Raises ValueError if one is no port.
    """
    if first is not None:
        if not 1 <= first <= 65_535 - PORTS + 1:
            raise ValueError(f"--port {first}: give one from 1 to {65_535 - PORTS + 1}")
        return first, first + 1, first + 2
    if env_file is None or not env_file.exists():
        return 0, 0, 0
    text = env_file.read_text(encoding="utf-8")
    api, aws, dynamodb = (_port_of(name, text) for name in _ENDPOINTS)
    return api, aws, 0 if dynamodb == aws else dynamodb


def _port_of(name: str, text: str) -> int:
    found = re.search(rf"^(?:export )?{name}=\S*?:(\d{{1,5}})\b", text, re.MULTILINE)
    return int(found[1]) if found else 0


def _overridden(options: argparse.Namespace) -> list[str]:
    """Arguments that -c goes before, with what it says instead."""
    given = {"name": options.name, "window_seconds": options.window}
    given["retention_seconds"] = options.retention
    return [
        f"{_ASKED[name]}, by -c {text}"
        for text in options.context
        for name in [text.partition("=")[0].partition(":")[2]]
        if given.get(name) is not None
    ]


def _found(aws: Embedded, keep: KeptDir) -> str:
    """What a directory held when this process began."""
    pages = aws.client("dynamodb").get_paginator("list_tables").paginate()
    tables = sum(bool(_WINDOW_TABLE.search(name)) for page in pages for name in page["TableNames"])
    queues, sqs = (aws.settings.queue_url, aws.settings.dead_letters_url), aws.client("sqs")
    names = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesDelayed")
    messages, letters = (
        sum(int(number) for number in reply["Attributes"].values())
        for queue in queues
        for reply in [sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)]
    )
    windows = number_of(tables, "table of a window", "tables of windows")
    return (
        f"# goes on from {keep.path}: {windows},"
        f" {number_of(messages, 'message')}, {number_of(letters, 'dead letter')}"
    )


def _unset(environment: Mapping[str, str]) -> str:
    """A line that takes back what an environment of another start may have set."""
    known = {*_ENDPOINTS, *(f"{PREFIX}{setting.name.upper()}" for setting in fields(Settings))}
    return f"unset {' '.join(sorted(known - environment.keys()))}\n"


def _run(
    aws: Embedded,
    options: argparse.Namespace,
    chosen: LocalOptions,
    api_port: int,
    keep: KeptDir | None,
) -> None:
    def log(function: str, line: str) -> None:
        if options.verbose or worth_reading(line):
            print(f"{function}: {line}", file=sys.stderr, flush=True)

    def failed(text: str) -> None:
        log("error", text)

    notes = [f"# overridden: {each}" for each in _overridden(options)]
    if keep and keep.goes_on:
        notes.append(_found(aws, keep))
    pipeline = LocalPipeline(
        aws,
        writers=options.writers,
        batch_size=chosen.batch_size,
        window_s=chosen.batch_window_s,
        on_log=log,
        on_error=failed,
    )
    api_at = HttpApi(pipeline.aggregator, tuple(ROUTES), api_port)
    after = options.port + PORTS if options.port else 0
    with pipeline, api_at as api, console_of(aws, after) as console:
        environment = {**aws.environment, _API_URL: api.url}
        exports = "".join(f"export {k}={shlex.quote(v)}\n" for k, v in environment.items())
        print(exports, end="")
        if options.env_file:
            options.env_file.write_text(_unset(environment) + exports, encoding="utf-8")
        for note in notes:
            print(note)
        print(f"# the console, in a browser: {console}")
        print(_report(aws.settings, options.env_file, chosen.without_effect), flush=True)
        try:
            while True:
                signal.pause()
        finally:
            print(aws.complaints(), end="", file=sys.stderr, flush=True)


def _report(settings: Settings, env_file: Path | None, without_effect: Sequence[str]) -> str:
    """The lines below the environment: what runs here, and how to use it."""
    window, retention = length(1000 * settings.window_seconds), span_text(settings.retention_ms)
    lines = [f"# {settings.name}: windows of {window}, their tables kept for {retention}"]
    if without_effect:
        lines.append(f"# without effect on this machine: {', '.join(without_effect)}")
    take = f". {shlex.quote(str(env_file))}" if env_file else "paste the above"
    return "\n".join((*lines, _GO_ON.format(take=take, api=_API_URL)))


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

"""`tallyroll load`: history from files, directories, stdin and S3 to the event queue."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tallyroll.cli.arguments import DURATION, Run, read_by
from tallyroll.cli.load.loading import LoadFiles, Loading
from tallyroll.cli.load.reading import ReadingOptions
from tallyroll.cli.screen import Screen, some
from tallyroll.cli.send import Awaiting, rate_of
from tallyroll.client.sources.places import Finder, Format, Place
from tallyroll.errors import UsageError

if TYPE_CHECKING:
    from tallyroll.pipeline import Pipeline

AS_IT_IS = ReadingOptions()


def load(
    *files: str,
    stdin: Annotated[bool, Parameter("-")] = False,
    how: ReadingOptions = AS_IT_IS,
    pack: Annotated[bool, Parameter(negative="--no-pack")] = True,
    compress: bool = False,
    rate: Annotated[
        float | None, Parameter(("--rate", "--limit-rate"), metavar="N", converter=read_by(rate_of))
    ] = None,
    dry_run: bool = False,
    open_windows: bool = False,
    accept_for: Annotated[int, DURATION] = 24 * 3_600_000,
    bad: Annotated[str | None, Parameter(metavar="OUT")] = None,
    checkpoint: Annotated[str | None, Parameter(metavar="FILE")] = None,
    wait: bool = False,
    timeout: Annotated[int, DURATION] = 15 * 60_000,
    run: Run,
) -> int:
    """Load history: files, objects of S3, exports.

    Each event counts in the window in which it happened. A FILE is JSON Lines, CSV
    or Parquet, also as gzip or Zstandard; a directory of them; s3://BUCKET/KEY or a
    prefix of keys; `-` for stdin; or a DynamoDB export (DynamoDB JSON, full or
    incremental). Files of AWS DMS have a first column Op. Every event needs a time.

    An event with an id counts once, however often it is loaded. Others are named
    after the content of their file and their line: the same file loaded again with
    the same options counts once. After an interrupt or crash the same command goes
    on at its checkpoint. Bad lines are kept in a file; all others are loaded.

    For example:
      tallyroll load history/ --open-windows
      tallyroll load s3://exports/plays.csv.gz --key video --ts at --ts-unit s

    :param files: what to load, in this order
    :param stdin: stdin, which is copied to a temporary file first
    :param pack: pack events without ids (the default), or send them singly, under ids made here
    :param compress: compress packets where that saves requests; older writers reject such packets
    :param rate: send at most N events a second on average
    :param dry_run: read everything, and say what would be sent: send, open and write nothing
    :param open_windows: open the past windows that the events need, first; they seal by themselves
    :param accept_for: how long from now those take events: 24h (the default), 7d
    :param bad: write bad lines to this file
    :param checkpoint: keep the checkpoint in this file
    :param wait: wait until all that was sent is counted or rejected
    :param timeout: wait no longer than that for windows to open, or for counts (15m by default)
    """
    given = _given(files, stdin=stdin, waits_for_nothing=dry_run and wait)
    layout, screen = how.layout(), run.screen
    with ExitStack() as stack:
        made = run.pipeline(run.with_queues() if wait else run.with_queue())
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="tallyroll-load-")))
        places = _found(made, given, folder, how.form, screen)
        layout.check(places)
        rate = None if dry_run else rate
        producer = made.bulk_sender(
            screen.tell, packed=pack, compress=compress, rate=rate, name="load", dry=dry_run
        )
        packets = f"{producer.span_ms} ms" if pack else "none"
        options = {"queue": made.settings.queue_url, **how.facts(), "packet span": packets}
        kept = LoadFiles.of(given, options, checkpoint, bad, places, dry=dry_run)
        stack.callback(kept.bad_file.close)
        awaiting = Awaiting(producer, screen, made.arrivals() if wait else None, timeout)
        loading = Loading(made, screen, layout, kept, awaiting)
        if open_windows:
            loading.open_windows(run.calendar(made), places, accept_for, timeout)
        loading.load(places, skip_changes=how.changes == "skip")
        loading.report()
    return loading.status


def _given(files: Sequence[str], *, stdin: bool, waits_for_nothing: bool) -> list[str]:
    """What to load. Raises UsageError."""
    if waits_for_nothing:
        raise UsageError("--dry-run sends nothing that --wait could wait for: leave one out")
    given = [*files, *(["-"] if stdin else [])]
    if not given:
        raise UsageError("give files, directories, s3://BUCKET/KEY, or - for stdin")
    return given


def _found(
    made: Pipeline, given: Sequence[str], folder: Path, form: Format | None, screen: Screen
) -> list[Place]:
    from tallyroll.pipeline.buckets import bucket_copy

    if "-" in given:
        screen.await_stdin("a source")
    finder = Finder(made.bucket_named, bucket_copy, sys.stdin.buffer, folder, form)
    places = finder.find(given)
    if finder.left_out:
        screen.tell(f"left out, of no known format: {some(finder.left_out)} (or give --format)")
    return places

"""The demo on a user's own events: each counts in the window in which it happened, however long
ago.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.table import Table

from local.demo.input_events import BadLines, InputEvents
from local.demo.report import (
    Sum,
    Traffic,
    Verdict,
    cost_table,
    judge_keys,
    key_table,
    numbered,
    print_verdict,
    traffic_table,
)
from local.demo.run import Run, Start, now_ms
from local.demo.view import Show, Snapshot, busy, mishaps, view_on
from tallyroll.model.states import Status, Window
from tallyroll.model.windows import Span, WindowId
from tallyroll.operations.backfill import open_past
from tallyroll.operations.teardown import TeardownProgress
from tallyroll.ports.paging import listed_tallies
from tallyroll.settings import Settings

ACCEPT_FOR_MS = 86_400_000  # windows of the past are open longer than any run takes
BATCH = 100
ASKED_KEYS = 12
POLL_S = 0.3
STALLED_S = 60.0
OPENING_S = 120.0
ARCHIVE_WITHIN_MS = 1_800_000
EMPTY_LOOKS = 3
EXACT, NOT_EXACT, BAD_LINES, TOO_SLOW = 0, 1, 2, 4


def settings_for(window_seconds: int) -> Settings:
    """The demo's settings for windows of this length: few keys' tallies and short schedules."""
    return Settings(
        name="own-events",
        window_seconds=window_seconds,
        shards=8,
        stripes_min=32,
        buckets=16,
        gates=16,
        roller_period_ms=1_000,
        visibility_ms=12_000,
        drain_period_ms=1_000,
        settle_ms=500,
        transactions_at_once=4,
        cache_live_ms=0,
        cache_calendar_ms=1_000,
    )


def own_events(console: Console, start: Start, path: str, archive_to: Path | None = None) -> int:
    """Count the events of a file (or `-`), print the result beside the file's own, and give the
    exit status: 0 exact, 1 not exact, 2 exact but for bad lines, which are listed. With
    `archive_to`, archive all windows and copy the archives there. Raises UsageError.
    """
    events = InputEvents()
    try:
        now = now_ms()
        window_seconds = _read(console, events, path, now)
        settings = settings_for(window_seconds)
        repeats = events.settle(window_seconds, now)
        _print_bad(console, events.bad)
        if not events.lines:
            console.print("no good line: nothing to count")
            return BAD_LINES if events.bad.reasons else EXACT
        console.print(
            f"{numbered(events.lines, 'event')}, {numbered(repeats, 'exact repeat')} among them;"
            f" windows of {_length(window_seconds)}",
            highlight=False,
        )
        with start(settings) as run:
            return _count(console, run, events, repeats, archive_to)
    finally:
        events.close()


def _read(console: Console, events: InputEvents, path: str, now: int) -> int:
    columns = (SpinnerColumn(), TextColumn("reading {task.fields[lines]:,} events"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("reading", total=None, lines=0)
        for lines in events.read(path, now, Settings().skew_ms):
            progress.update(task, lines=lines)
    return events.window_seconds(now)


def _print_bad(console: Console, bad: BadLines) -> None:
    if not bad.reasons:
        return
    table = Table(title="Bad lines, left out", title_justify="left")
    for name in ("line", "value", "reason", "what is wrong"):
        table.add_column(name, overflow="fold")
    for line in bad.first:
        table.add_row(str(line.number), line.shown, line.reason, line.detail)
    total = bad.reasons.total()
    if total > len(bad.first):
        table.caption = f"and {total - len(bad.first):,} more; of all: " + ", ".join(
            f"{number:,} {reason}" for reason, number in bad.reasons.items()
        )
    console.print(table)


def _count(
    console: Console, run: Run, events: InputEvents, repeats: int, archive_to: Path | None
) -> int:
    truth = {key: Sum(part.events, part.amount) for key, part in events.truth().items()}
    with view_on(console) as show:
        _open_past(run, events, show)
        messages = _send(run, events, show)
    windows = [window for window in run.inspection.windows() if window.shards]
    with busy(console, "listing all tallies"):
        counted, holding = _list_tallies(run, windows)
    hottest = sorted(truth, key=lambda key: -truth[key].events)[:ASKED_KEYS]
    verdict = Verdict()
    judge_keys(truth, counted, verdict)
    with busy(console, "asking for the final counts"):
        answers = run.inspection.final_count(hottest)
    judge_keys({key: truth[key] for key in hottest}, answers, verdict)
    kept = _archived(console, run, archive_to, verdict) if archive_to else ""
    rejected = Counter(letter.reason for letter in run.inspection.dead_letters())
    verdict.check(not rejected, f"rejected {dict(rejected)}, expected none")
    polled = run.pipeline.poller.polled
    traffic = Traffic(
        sent=events.lines,
        repeats=repeats,
        messages=messages,
        deliveries=polled.received,
        counted=sum(part.events for part in counted.values()),
        duplicates=round(run.ledger.sum("Duplicates")),
        kills=polled.killed,
        rejected=rejected,
    )
    console.print(traffic_table(traffic))
    console.print(key_table("Counted beside the file's own", truth, counted))
    console.print(cost_table(run.ledger, run.aws.settings))
    console.print(run.memory.line())
    if kept:
        console.print(kept, highlight=False, soft_wrap=True)
    print_verdict(
        console,
        verdict,
        f"{numbered(traffic.counted, 'event')} of {numbered(len(truth), 'key')} in"
        f" {numbered(holding, 'window')}: every event counted once, when it happened",
        run.problems(),
    )
    if verdict.failures or verdict.slow:
        return NOT_EXACT if verdict.failures else TOO_SLOW
    return BAD_LINES if events.bad.reasons else EXACT


def _archived(console: Console, run: Run, directory: Path, verdict: Verdict) -> str:
    """Close, seal, archive, prove and drop all windows, and copy the archives."""
    for schedule in run.pipeline.schedules.values():
        schedule.stop()  # the roller would make new windows
    with view_on(console) as show:

        def on_progress(progress: TeardownProgress) -> None:
            left = numbered(len(progress.left), "window")
            show(Snapshot(f"archiving, {left} left", windows=progress.left))

        last = run.adapters.teardown().run(ARCHIVE_WITHIN_MS, on_progress)
    for window in last.left:
        verdict.slow.append(
            f"window {window.id} is still {window.status}: {window.attempt.problem or None}"
        )
    return run.keep_archives(directory)


def _open_past(run: Run, events: InputEvents, show: Show) -> None:
    """Open the windows before the pipeline's first in which events happened, and wait for them."""
    calendar = run.adapters.catalog.calendar()
    assert calendar
    past = [span for span in events.spans(calendar.grid) if span.start < calendar.genesis]
    if not past:
        return
    catalog, name = run.adapters.catalog, run.aws.settings.name
    for stretch in stretches(past):
        open_past(catalog, calendar, name, stretch.start, stretch.end, now_ms(), ACCEPT_FOR_MS)
    wanted = {span.id for span in past}
    until = time.monotonic() + OPENING_S
    while True:
        windows = [window for window in run.inspection.windows() if window.id in wanted]
        waiting = sum(window.status is Status.CREATING for window in windows)
        opened = f"opened {len(past) - waiting} of {numbered(len(past), 'window')}"
        show(Snapshot(opened, events.lines, 0, 0, 0, 0))
        if not waiting:
            return
        if time.monotonic() > until:
            raise RuntimeError(
                f"{numbered(waiting, 'window')} not opened in {OPENING_S:g} s: {run.problems()}"
            )
        time.sleep(POLL_S)


def stretches(spans: Sequence[Span]) -> list[Span]:
    """Ascending windows, those that follow each other joined."""
    joined: list[Span] = []
    for span in spans:
        if joined and joined[-1].end == span.start:
            joined[-1] = Span(joined[-1].start, span.end)
        else:
            joined.append(span)
    return joined


def _send(run: Run, events: InputEvents, show: Show) -> int:
    """Send all events and wait until the queue is empty; the number of messages sent.

    Raises RuntimeError if nothing has moved for a minute.
    """
    progress = Progressing(run, events.lines)
    messages = 0
    bodies = events.bodies(now_ms, lambda: str(uuid.uuid4()))
    while batch := list(islice(bodies, BATCH)):
        run.sender.send(batch)
        messages += len(batch)
        progress.show(show, "sending", messages)
    empty = 0
    while empty < EMPTY_LOOKS:
        empty = empty + 1 if progress.show(show, "counting", messages) == 0 else 0
        time.sleep(POLL_S)
    return messages


class Progressing:
    """Shows how far the writers are, by their own metrics, and notices when they are stuck."""

    def __init__(self, run: Run, planned: int) -> None:
        self._run = run
        self._planned = planned
        self._moved = (-1, time.monotonic())
        self._began = time.monotonic()

    def show(self, show: Show, phase: str, messages: int) -> int:
        """Show this moment; give the messages queued. Raises RuntimeError if all is stuck."""
        now = time.monotonic()
        polled = self._run.pipeline.poller.polled
        if polled.deleted != self._moved[0]:
            self._moved = (polled.deleted, now)
        queued = self._run.queued()
        if queued and now - self._moved[1] > STALLED_S:
            raise RuntimeError(f"{queued} messages are stuck: {self._run.problems()}")
        counted = round(self._run.ledger.sum("EventsCounted"))
        show(
            Snapshot(
                phase=phase,
                planned=self._planned,
                sent=min(messages, self._planned),
                counted=counted,
                per_second=counted / max(0.1, now - self._began),
                queued=queued,
                faults=mishaps(polled.redelivered, polled.killed),
            )
        )
        return queued


def _list_tallies(run: Run, windows: Sequence[Window]) -> tuple[dict[str, Sum], int]:
    """Every key's count and sum over these windows, from the list of all their tallies, and how
    many of the windows hold any.
    """
    sums: dict[str, Sum] = {}
    holding: set[WindowId] = set()
    specs = run.adapters.catalog.specs([window.id for window in windows])
    for spec in specs.values():
        for number in range(1, spec.buckets + 1):
            for stripe in listed_tallies(run.adapters.store, spec, number):
                before = sums.get(stripe.key, Sum())
                sums[stripe.key] = Sum(before.events + stripe.n, before.amount + stripe.amount)
                holding.add(spec.window)
    return sums, len(holding)


def _length(seconds: int) -> str:
    unit, name = (86_400, "day") if seconds % 86_400 == 0 else (3_600, "hour")
    number = seconds // unit
    return f"{number} {name}" if number == 1 else f"{number} {name}s"

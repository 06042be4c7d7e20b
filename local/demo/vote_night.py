"""The vote night: votes are cast for some windows' time, while writers crash and messages come
twice.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from local.console import console_of
from local.demo.inspection import Letter
from local.demo.report import (
    Sum,
    Traffic,
    Verdict,
    cost_table,
    judge_keys,
    judge_windows,
    key_table,
    numbered,
    print_verdict,
    traffic_table,
    window_tables,
)
from local.demo.run import Counts, Run, Start, now_ms
from local.demo.selecting import select
from local.demo.view import Show, Snapshot, busy, mishaps, view_on
from local.demo.votes import CANDIDATES, LATE_VOTER, VoteNight
from tallyroll.model.amounts import MICROS
from tallyroll.model.events import Packet, decode
from tallyroll.model.states import Status, Window
from tallyroll.model.windows import WindowId
from tallyroll.reasons import Reason
from tallyroll.settings import Settings
from tallyroll.settings.common import PARQUET

WINDOW_SECONDS = 5
TICK_S = 0.2
MISHAPS_AT_SHARE = 0.3
CAST_WITHIN_MS = 1_000  # a machine that stalls shall not date votes back
VOTES_AT_ONCE = 250  # so few that their messages are sent before their window stops accepting
STALLED_S = 60.0
TOO_SLOW = 4
SETTINGS = Settings(
    name="vote-night",
    window_seconds=WINDOW_SECONDS,
    shards=16,
    hot_shards={CANDIDATES[0]: 64},
    stripes_min=64,
    buckets=16,
    gates=64,
    accept_for_ms=6_000,
    skew_ms=1_000,
    roller_period_ms=1_000,
    retention_ms=2_000,
    visibility_ms=3_000,
    drain_period_ms=1_000,
    drain_margin_ms=500,
    settle_ms=500,
    export_lease_ms=20_000,
    archive=PARQUET,
    transactions_at_once=4,
    cache_live_ms=0,
    cache_calendar_ms=1_000,
)


@dataclass(frozen=True, slots=True)
class Plan:
    """How many votes are cast in how many seconds, and how many of them by voters with ids of their
    own; where to keep the archives, if at all; whether to serve the console, also when it is over.
    """

    votes: int
    singles: int
    seconds: float
    seed: int
    archive_to: Path | None = None
    console: bool = False


class Night:
    """One vote night on a running pipeline; `truth` is what was truly cast."""

    def __init__(self, run: Run, plan: Plan) -> None:
        self._run = run
        self._plan = plan
        self._votes = VoteNight(plan.seed, plan.votes, plan.singles, WINDOW_SECONDS * 1000)
        self._counts = Counts(run, CANDIDATES)
        self.truth = self._votes.truth

    def hold(self, show: Show) -> set[WindowId]:
        """Cast the votes, then wait until every window that holds some is dropped; give those
        windows.
        """
        began = cast_until = now_ms()
        mishaps_due = True
        while not self._votes.over:
            time.sleep(TICK_S)
            now = now_ms()
            share = min(1.0, (now - began) / 1000 / self._plan.seconds)
            while due := round(self._plan.votes * share) - self._votes.cast_so_far:
                self._run.sender.await_room()  # votes are dated when they are sent
                now = now_ms()
                since = max(cast_until, now - CAST_WITHIN_MS)
                self._run.sender.send(self._votes.cast(min(due, VOTES_AT_ONCE), since, now))
                cast_until = now
            if mishaps_due and share > MISHAPS_AT_SHARE:
                self._run.sender.send(list(self._votes.mishaps(now_ms())))
                mishaps_due = False
            self._show(show, "voting")
        return self._await_dropped(show, began, cast_until)

    def _await_dropped(self, show: Show, began: int, ended: int) -> set[WindowId]:
        """Wait until the windows are dropped, or nothing has moved for a minute."""
        seen: object = None
        moved = time.monotonic()
        while True:
            windows = self._show(show, "closing, proving, dropping")
            held = [window for window in windows if window.start <= ended and window.end > began]
            done = all(window.status is Status.DROPPED for window in held)
            states = [(window.status, window.times) for window in held]
            progress = states, self._run.pipeline.poller.polled.deleted
            if progress != seen:
                seen, moved = progress, time.monotonic()
            if done or time.monotonic() - moved > STALLED_S:
                return {window.id for window in held}
            time.sleep(TICK_S)

    def _show(self, show: Show, phase: str) -> list[Window]:
        counted, per_second = self._counts.read()
        windows = self._run.inspection.windows()
        polled = self._run.pipeline.poller.polled
        show(
            Snapshot(
                phase=phase,
                planned=self._plan.votes,
                sent=self._votes.cast_so_far,
                counted=sum(part.events for part in counted.values()),
                per_second=per_second,
                queued=self._run.queued(),
                faults=mishaps(polled.redelivered, polled.killed),
                windows=windows,
                keys={key: part.events for key, part in counted.items()},
            )
        )
        return windows


def late_votes(letters: Sequence[Letter]) -> Counter[str]:
    """The votes by key that were rejected because they were sent too late."""
    votes: Counter[str] = Counter()
    for letter in letters:
        if letter.reason == Reason.TOO_LATE:
            envelope = decode(letter.body)
            if isinstance(envelope, Packet):
                votes[envelope.key] += len(envelope.entries)
            elif envelope.id != LATE_VOTER:
                votes[envelope.key] += 1
    return votes


def judge_rejections(
    letters: Sequence[Letter], expected: Mapping[str, int], verdict: Verdict
) -> None:
    """Every planned mishap is rejected for its reason, and nothing else but late votes."""
    late = [letter for letter in letters if late_votes([letter])]
    found = Counter(letter.reason for letter in letters)
    found.subtract(letter.reason for letter in late)
    rejected = {reason: number for reason, number in found.items() if number}
    verdict.check(rejected == dict(expected), f"rejected {rejected}, expected {dict(expected)}")


def _judge_time(windows: Sequence[Window], queued: int, verdict: Verdict) -> None:
    """Tell of windows and messages that this machine was too slow for."""
    for window in windows:
        if window.status is not Status.DROPPED:
            problem = window.attempt.problem or None
            verdict.slow.append(f"window {window.id} is still {window.status}: {problem}")
    if queued:
        verdict.slow.append(f"{numbered(queued, 'message')} still in the queue")


def _events(counted: Sum) -> int:
    return counted.events


def _without(truth: Sum, votes: int) -> Sum:
    return Sum(truth.events - votes, truth.amount - votes * MICROS)


def vote_night(console: Console, start: Start, plan: Plan) -> int:
    """Hold a vote night, print what came of it, and give the exit status: 0 if all is exact."""
    with ExitStack() as stack:
        run = stack.enter_context(start(SETTINGS))
        if plan.console:
            url = stack.enter_context(console_of(run.aws))
            console.print(f"the console, in a browser: {url}?range=all", soft_wrap=True)
        status = _held(console, run, plan, stack)
        if plan.console:
            console.print("the console stays as it is; Ctrl-C ends it")
            with suppress(KeyboardInterrupt):
                while True:
                    signal.pause()
    return status


def _held(console: Console, run: Run, plan: Plan, running: ExitStack) -> int:
    """Hold it and print what came of it; nothing is `running` then, but for the console."""
    night = Night(run, plan)
    with view_on(console) as show:
        held = night.hold(show)
    with busy(console, "asking for the final counts"):
        counted = run.inspection.final_count(CANDIDATES)
    windows = [window for window in run.inspection.windows() if window.id in held]
    with busy(console, "reading the archives again"):
        proofs = run.inspection.verify(windows)
    with busy(console, "asking the archives by SQL"):
        selected = select(run, windows)
    kept = run.keep_archives(plan.archive_to) if plan.archive_to else ""
    specs = run.adapters.catalog.specs([window.id for window in windows])
    letters = run.inspection.dead_letters()
    queued = run.queued()
    polled = run.pipeline.poller.polled
    if not plan.console:
        running.close()
    rejected = Counter(letter.reason for letter in letters)
    truth = {key: Sum(count, count * MICROS) for key, count in night.truth.votes.items()}
    verdict = Verdict()
    judge_windows(windows, proofs, verdict)
    _judge_time(windows, queued, verdict)
    late = late_votes(letters)
    if late:
        verdict.slow.append(
            f"{numbered(late.total(), 'vote')} rejected as too-late, in the dead letters:"
            f" {', '.join(f'{key} {number:,}' for key, number in late.items())}"
        )
    expected = Counter({str(reason): number for reason, number in night.truth.rejections.items()})
    judge_rejections(letters, expected, verdict)
    awaited = {key: _without(truth[key], late[key]) for key in truth}
    if queued:  # what waits is missing; more than was sent is wrong all the same
        found = {key: counted.get(key, Sum()) for key in awaited}
        awaited = {key: min(awaited[key], found[key], key=_events) for key in awaited}
    judge_keys(awaited, counted, verdict)
    if not verdict.slow:  # else archives are missing
        selected.judge(counted, verdict)
    traffic = Traffic(
        sent=sum(night.truth.votes.values()),
        twice=sum(night.truth.votes.values()) - plan.votes,
        messages=night.truth.messages,
        deliveries=polled.received,
        counted=sum(part.events for part in counted.values()),
        duplicates=round(run.ledger.sum("Duplicates")),
        kills=polled.killed,
        rejected=rejected,
    )
    console.print(traffic_table(traffic))
    console.print(key_table("The vote", truth, counted))
    for table in window_tables(windows, specs, proofs, console):
        console.print(table)
    console.print(cost_table(run.ledger, run.aws.settings))
    console.print(run.memory.line())
    console.print(selected.heading, highlight=False, soft_wrap=True)
    console.print(selected.table())
    if kept:
        console.print(kept, highlight=False, soft_wrap=True)
    print_verdict(
        console,
        verdict,
        f"{numbered(traffic.sent, 'vote')}, {traffic.deliveries:,} deliveries of"
        f" {numbered(traffic.messages, 'message')}, {numbered(traffic.kills, 'writer')} killed:"
        f" every vote counted once, and {numbered(len(windows), 'table')} dropped after their"
        " archives were proven",
        run.problems(),
    )
    return 1 if verdict.failures else TOO_SLOW if verdict.slow else 0

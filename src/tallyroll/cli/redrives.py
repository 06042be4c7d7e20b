"""Looks at the dead letters from the command line: their progress, what an interrupt does, and
redrives, which treat the letters that they see.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from tallyroll.cli.screen import Screen, number_of
from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.model.windows import WindowId
from tallyroll.operations.dead_letter_scan import JOBS, DeadLetterScan, Names
from tallyroll.operations.letter_events import Decision, LetterOutcome
from tallyroll.operations.redrive import Redriver

if TYPE_CHECKING:
    from tallyroll.pipeline import Pipeline

LOOKED_AT = 10_000  # letters, if --limit is left out
LEFT_TOLD = 20


def scan_through(
    made: Pipeline,
    treat: Callable[[DeadLetterScan, Sequence[ReceivedLetter]], None],
    limit: int | None,
    screen: Screen,
    doing: str = "looking",
    jobs: int | None = None,
) -> DeadLetterScan:
    """Have each batch of a look treated under a progress bar: by `jobs` workers side by side, or
    one after the other if it is None. Letters that stay are given back, however it ends.
    """
    scan = DeadLetterScan(made.dead_letters, made.effects, limit)
    turn = nullcontext() if jobs else Lock()

    def treated(batch: Sequence[ReceivedLetter]) -> None:
        with turn:
            treat(scan, batch)
        seen = scan.seen
        bar(total=scan.total, completed=seen, done=number_of(seen, "letter"), counted=seen)

    with screen.progress(doing) as bar, closing(scan), _interruptible(scan):
        scan.each(treated, jobs or JOBS)
    return scan


@contextmanager
def _interruptible(scan: DeadLetterScan) -> Iterator[None]:
    """Stop the look at the first interrupt, so that batches in work are finished, and then raise
    KeyboardInterrupt; at a second interrupt raise it at once.
    """
    interrupted = False

    def stop(*_: object) -> None:
        nonlocal interrupted
        if interrupted:
            raise KeyboardInterrupt
        interrupted = True
        scan.stop()

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupted:
        raise KeyboardInterrupt


@dataclass(frozen=True, slots=True)
class Choice:
    """The reasons and the messages' ids that were asked for; none of a kind asks for all."""

    reasons: Sequence[str] | None
    messages: Sequence[str] | None

    def of(self, batch: Sequence[ReceivedLetter]) -> list[ReceivedLetter]:
        """The letters that were asked for."""
        wanted = set(self.messages or ())
        return [
            letter
            for letter in batch
            if (not self.reasons or letter.why in self.reasons)
            and (not wanted or {letter.id, letter.first_id} & wanted)
        ]


def show_unfound(names: set[str], screen: Screen) -> bool:
    """Say of which messages there is no letter, and whether there are any."""
    for name in sorted(names):
        screen.tell(f"there is no dead letter {name}")
    return bool(names)


def show_missed(scan: DeadLetterScan, screen: Screen) -> bool:
    """Say if letters were missed, and whether."""
    if scan.missed:
        screen.tell(
            f"saw {scan.seen:,} of about {scan.expected:,} dead letters: the others lie beyond"
            " --limit, or another look holds them for up to five minutes; SQS's count may lag, too"
        )
    return scan.missed > 0


@dataclass(slots=True)
class RedriveSummary:
    """The results of a pass over dead letters, or, if it was `dry`, what they would be."""

    dry: bool
    unfound: set[str]
    counted: Counter[tuple[LetterOutcome, str, str, WindowId]] = field(default_factory=Counter)
    left: list[Decision] = field(default_factory=list)

    def add(self, decision: Decision) -> None:
        """Count the result for a letter."""
        letter = decision.letter
        self.unfound -= {letter.id, letter.first_id}
        self.counted[decision.course, letter.why, decision.why, decision.target or ""] += 1
        if decision.course is LetterOutcome.LEFT and len(self.left) < LEFT_TOLD:
            self.left.append(decision)

    @property
    def stay(self) -> int:
        """How many letters were left."""
        return sum(n for (course, *_), n in self.counted.items() if course is LetterOutcome.LEFT)

    @property
    def done(self) -> int:
        """How many were not left."""
        return self.counted.total() - self.stay

    def table(self, screen: Screen) -> None:
        """Show the results."""
        if screen.json or not self.counted:
            return
        redriven = f"would be {LetterOutcome.REDRIVEN}" if self.dry else LetterOutcome.REDRIVEN
        screen.table(
            ("dead letters", "reason", "window", "count", "why"),
            [
                (redriven if course is LetterOutcome.REDRIVEN else course, reason, window, n, why)
                for (course, reason, why, window), n in sorted(self.counted.items())
            ],
        )
        for decision in self.left:
            screen.tell(f"left: {decision.letter.first_id}: {decision.detail}")
        if (more := self.stay - len(self.left)) > 0:
            screen.tell(f"... and {more:,} more are left (--json tells all)")

    def end(self, scan: DeadLetterScan, screen: Screen) -> int:
        """Show them after the look; the exit status."""
        self.table(screen)
        if not self.counted:
            screen.tell("no such dead letters")
        unfound = show_unfound(self.unfound, screen)
        missed = show_missed(scan, screen)
        return int(unfound or missed or self.stay > 0)


@dataclass(frozen=True, slots=True)
class RedriveRun:
    """A redrive of chosen letters, at most `limit`, by `jobs` workers side by side."""

    made: Pipeline
    redriver: Redriver
    choice: Choice
    screen: Screen
    limit: int | None
    jobs: int

    def run(self, *, dry_run: bool, yes: bool) -> int:
        """Plan, ask, and redrive; the exit status. `yes` leaves out the first two, `dry_run` only
        plans.
        """
        if not yes:
            planned, scan = self._pass(dry=True, shown=dry_run)
            if dry_run or not planned.done:
                return planned.end(scan, self.screen)
            planned.table(self.screen)
            if not self._agreed(planned.done, scan.missed):
                self.screen.tell("nothing was sent")
                return 1
        done, scan = self._pass(dry=False, shown=True)
        return done.end(scan, self.screen)

    def _pass(self, *, dry: bool, shown: bool) -> tuple[RedriveSummary, DeadLetterScan]:
        """Decide on the chosen letters, in batches side by side, and redrive them unless it is
        `dry`. Each is a JSON line if it is to be `shown` and JSON is asked for.
        """
        summary = RedriveSummary(dry, set(self.choice.messages or ()))
        sent, lock = Names(), Lock()  # the lock is of both, and of stdout

        def treat(scan: DeadLetterScan, batch: Sequence[ReceivedLetter]) -> None:
            taken = self.choice.of(batch)
            with lock:
                back = [one for one in taken if one.target and one.first_id in sent]
            new = [one for one in taken if one not in back]
            decisions = self.redriver.decide(new) if dry else self.redriver.redrive(new)
            done = [one.letter for one in decisions if one.course is not LetterOutcome.LEFT]
            if not dry:
                scan.forget(done)
            with lock:
                for letter in () if dry else done:
                    sent.add(letter.first_id)
                for decision in (*decisions, *map(_came_back, back)):
                    summary.add(decision)
                    if self.screen.json and shown:
                        self.screen.emit(_json(decision))

        doing = "deciding" if dry else "redriving"
        limit = self.limit or (LOOKED_AT if dry else None)
        try:
            scan = scan_through(self.made, treat, limit, self.screen, doing, self.jobs)
        except KeyboardInterrupt:
            summary.table(self.screen)
            raise
        return summary, scan

    def _agreed(self, number: int, missed: int) -> bool:
        """Ask whether to send what is planned. Raises UsageError if nobody can answer."""
        more = ""
        if missed and not self.limit:
            more = f", and what can be redriven of some {missed:,} more"
        answer = self.screen.ask(
            f"Redrive {number:,} dead letters{more}? [y/N] ",
            "give --yes, or --dry-run to look only",
        )
        return answer.lower() in ("y", "yes")


def _came_back(letter: ReceivedLetter) -> Decision:
    detail = f"it was redriven just now and came back: {letter.detail or letter.why}"
    return Decision(letter, LetterOutcome.LEFT, letter.target, "came back", detail)


def _json(decision: Decision) -> dict[str, str | None]:
    letter = decision.letter
    return {
        "letter": letter.id,
        "message": letter.first_id,
        "reason": letter.why,
        "course": decision.course,
        "window": decision.target,
        "why": decision.why or None,
        "detail": decision.detail or None,
    }

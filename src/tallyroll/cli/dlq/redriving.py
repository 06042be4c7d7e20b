"""`tallyroll dlq redrive`: planned, agreed to, and sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tallyroll.cli.arguments import CURRENT, NUMBER, Run, exclusive, up_to
from tallyroll.cli.dlq.receiving import (
    AT_MOST,
    LOOKED_AT,
    Choice,
    Reasons,
    scan_through,
    show_missed,
    show_unfound,
)
from tallyroll.cli.screen import Screen
from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.model.windows import WindowId
from tallyroll.operations.dead_letter_scan import JOBS, DeadLetterScan, Names
from tallyroll.operations.letter_events import Decision, LetterOutcome
from tallyroll.operations.redrive import Redriver

if TYPE_CHECKING:
    from tallyroll.pipeline import Pipeline

JOBS_MAX = 10  # each puts 25 claims at once, and the client has 256 connections
LEFT_TOLD = 20
_WAY = exclusive()


def redrive(
    *,
    reasons: Reasons = None,
    messages: Annotated[list[str] | None, Parameter("--message", metavar="ID")] = None,
    to: Annotated[
        str,
        Parameter(
            metavar="WINDOW",
            help="where events go that can no longer count in their own window: an open one's id,"
            " previous, or current (the default)",
        ),
    ] = CURRENT,
    dry_run: Annotated[bool, Parameter(group=_WAY)] = False,
    yes: Annotated[bool, Parameter(group=_WAY)] = False,
    unverified: bool = False,
    jobs: Annotated[
        int,
        up_to(JOBS_MAX),
        Parameter(
            help=f"work on so many batches of 100 letters side by side, 1 to {JOBS_MAX} ({JOBS})"
        ),
    ] = JOBS,
    limit: Annotated[
        int | None, NUMBER, Parameter(help=f"{AT_MOST}; all of them once it sends)")
    ] = None,
    run: Run,
) -> int:
    """Send dead letters again.

    Each event counts once however often this is repeated or interrupted. An event
    goes to its own window if that still takes events. If that one is sealed
    without it, it goes to the current window, or where --to says, and the choice
    is put down in the ledger before anything is sent. What was counted already is
    deleted. The rest stays: what can never count, and what has to wait; each with
    what can be done about it. The exit status is 1 if something was left.

    Letters are worked on in batches, several side by side. An interrupt lets those
    end that are worked on. Run again, it goes on with what is left.

    For example:
      tallyroll dlq redrive --dry-run
      tallyroll dlq redrive --reason too-late --to 20261120T080000Z --yes

    :param messages: only this one, by either of its ids; may be given several times
    :param dry_run: only say what would be done
    :param yes: do not ask
    :param unverified: also what a dropped window may have counted: only its archive can tell
    """
    made = run.pipeline(run.with_queues())
    target = None if to == CURRENT else run.window(made, to)
    redriver = made.redriver(target, unverified=unverified)
    redriver.check_target()
    asked = RedriveRun(made, redriver, Choice(reasons, messages), run.screen, limit, jobs)
    return asked.run(dry_run=dry_run, yes=yes)


@dataclass(slots=True)
class RedriveSummary:
    """The results of a pass over dead letters, or, if it was `dry`, what they would be."""

    dry: bool
    unfound: set[str]
    counted: Counter[tuple[LetterOutcome, str, str, WindowId]] = field(default_factory=Counter)
    left: list[Decision] = field(default_factory=list)
    postponed: int = 0  # retractions

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
        """Show them after the scan; the exit status."""
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
        if done.postponed:
            done, scan = self._pass(dry=False, shown=True, after=done)
        return done.end(scan, self.screen)

    def _pass(
        self, *, dry: bool, shown: bool, after: RedriveSummary | None = None
    ) -> tuple[RedriveSummary, DeadLetterScan]:
        """Decide on the chosen letters, in batches side by side, and redrive them unless it is
        `dry`. Each is a JSON line if it is to be `shown` and JSON is asked for.

        Retractions are redriven in a pass of their own, `after` that of events.
        """
        summary = after or RedriveSummary(dry, set(self.choice.messages or ()))
        sent, lock = Names(), Lock()  # the lock is of both, and of stdout

        def treat(scan: DeadLetterScan, batch: Sequence[ReceivedLetter]) -> None:
            chosen = self.choice.of(batch)
            taken = [one for one in chosen if dry or one.retracts == (after is not None)]
            with lock:
                summary.postponed += 0 if after else len(chosen) - len(taken)
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
        if after and self.limit:
            limit = max(1, self.limit - after.counted.total())
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

"""A pass over dead letters that redrives them, or says what a redrive would do."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from tallyroll.cli.looks import LOOKED_AT, Choice, looking, tell_missed, tell_unfound
from tallyroll.cli.screen import Screen
from tallyroll.errors import UsageError
from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.model.windows import WindowId
from tallyroll.operations.letter_events import Course, Decision
from tallyroll.operations.looks import Look, Names
from tallyroll.operations.redrive import Redriver

if TYPE_CHECKING:
    from tallyroll.pipeline import Pipeline

LEFT_TOLD = 20
_WHAT = {True: "would be ", False: ""}


@dataclass(slots=True)
class RedriveSummary:
    """The results of a pass over dead letters."""

    look: Look
    counted: Counter[tuple[Course, str, str, WindowId]] = field(default_factory=Counter)
    left: list[Decision] = field(default_factory=list)
    unfound: set[str] = field(default_factory=set)

    def add(self, decision: Decision) -> None:
        """Count the result for a letter."""
        letter = decision.letter
        self.unfound -= {letter.id, letter.first_id}
        self.counted[decision.course, letter.why, decision.why, decision.target or ""] += 1
        if decision.course is Course.LEFT and len(self.left) < LEFT_TOLD:
            self.left.append(decision)

    def of(self, course: Course) -> int:
        """How many letters took this course."""
        return sum(n for (taken, *_), n in self.counted.items() if taken is course)

    @property
    def done(self) -> int:
        """How many were not left."""
        return self.counted.total() - self.of(Course.LEFT)

    def table(self, screen: Screen, *, dry: bool) -> None:
        """Show the results, or what they would be."""
        if screen.json or not self.counted:
            return
        rows = [
            (_what(course, dry=dry), reason, window, f"{n:,}", why)
            for (course, reason, why, window), n in sorted(self.counted.items())
        ]
        screen.table(("dead letters", "reason", "window", "count", "why"), rows)
        for decision in self.left:
            screen.tell(f"left: {decision.letter.first_id}: {decision.detail}")
        if (more := self.of(Course.LEFT) - len(self.left)) > 0:
            screen.tell(f"... and {more:,} more are left (--json tells all)")

    def end(self, screen: Screen, *, dry: bool) -> int:
        """Show it; the exit status."""
        self.table(screen, dry=dry)
        if not self.counted:
            screen.tell("no such dead letters")
        unfound = tell_unfound(self.unfound, screen)
        missed = tell_missed(self.look, screen)
        return int(unfound or missed or self.of(Course.LEFT) > 0)


def run_redrive(
    made: Pipeline,
    redriver: Redriver,
    choice: Choice,
    screen: Screen,
    *,
    dry_run: bool,
    yes: bool,
    limit: int | None,
    jobs: int,
) -> int:
    """Plan, ask, and redrive. `yes` leaves out the first two, `dry_run` only plans."""
    if not yes:
        most = limit or LOOKED_AT
        planned = _treated(
            made, redriver.decide, choice, screen, sends=False, shown=dry_run, limit=most, jobs=jobs
        )
        if dry_run or not planned.done:
            return planned.end(screen, dry=True)
        planned.table(screen, dry=True)
        if not _agreed(planned, limit):
            screen.tell("nothing was sent")
            return 1
    done = _treated(
        made, redriver.redrive, choice, screen, sends=True, shown=True, limit=limit, jobs=jobs
    )
    return done.end(screen, dry=False)


def _treated(
    made: Pipeline,
    treat: Callable[[Sequence[ReceivedLetter]], list[Decision]],
    choice: Choice,
    screen: Screen,
    *,
    sends: bool,
    shown: bool,
    limit: int | None,
    jobs: int,
) -> RedriveSummary:
    """Treat the chosen letters, in batches side by side; each is a JSON line if it is to be `shown`
    and JSON is asked for. `sends` says that `treat` sends them.
    """
    sent = Names()
    lock = Lock()  # of the summary, of what was sent, and of stdout
    with looking(made, limit, screen, "redriving" if sends else "deciding", jobs) as (look, each):
        summary = RedriveSummary(look, unfound=set(choice.messages))

        def treated(batch: Sequence[ReceivedLetter]) -> None:
            taken = choice.of(batch)
            with lock:
                back = [one for one in taken if one.target and one.first_id in sent]
            decisions = treat([one for one in taken if one not in back])
            done = [one.letter for one in decisions if one.course is not Course.LEFT]
            if sends:
                look.forget(done)
            with lock:
                for letter in done if sends else ():
                    sent.add(letter.first_id)
                for decision in (*decisions, *map(_came_back, back)):
                    summary.add(decision)
                    if screen.json and shown:
                        screen.emit(_json(decision))

        try:
            each(treated)
        except KeyboardInterrupt:
            summary.table(screen, dry=not sends)
            raise
    return summary


def _came_back(letter: ReceivedLetter) -> Decision:
    detail = f"it was redriven just now and came back: {letter.detail or letter.why}"
    return Decision(letter, Course.LEFT, letter.target, "came back", detail)


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


def _what(course: Course, *, dry: bool) -> str:
    if course is Course.REDRIVEN:
        return f"{_WHAT[dry]}{course}"
    return course


def _agreed(planned: RedriveSummary, limit: int | None) -> bool:
    """Ask whether to send what is planned. Raises UsageError if nobody can answer."""
    if not sys.stdin.isatty():
        raise UsageError("nobody can be asked here: give --yes, or --dry-run to look only")
    number, missed = planned.done, planned.look.missed
    more = f", and what can be redriven of some {missed:,} more" if missed and not limit else ""
    sys.stderr.write(f"Redrive {number:,} dead letters{more}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")

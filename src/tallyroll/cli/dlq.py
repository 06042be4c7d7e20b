"""`tallyroll dlq`: dead letters counted, shown and redriven."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock

from tallyroll import pipeline
from tallyroll.cli.dlq_arguments import LOOKED_AT
from tallyroll.cli.looks import chosen, looking
from tallyroll.cli.screen import Screen
from tallyroll.errors import Missing, UsageError
from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.model.windows import WindowId, iso
from tallyroll.operations.letter_events import Course, Decision
from tallyroll.operations.looks import Look, Names
from tallyroll.ports.dead_letters import DeadLetters
from tallyroll.resources import DEAD_LETTERS_RETENTION_SECONDS
from tallyroll.settings import Settings

CURRENT = "current"
SENDING = "redriving"
LEFT_TOLD = 20
_WHAT = {True: "would be ", False: ""}


@dataclass(slots=True)
class Group:
    """The dead letters of one reason and window: how many, and the oldest's times (ms)."""

    count: int = 0
    oldest: int = sys.maxsize
    arrived: int = sys.maxsize

    def add(self, letter: ReceivedLetter) -> None:
        """Count a letter."""
        self.count += 1
        self.oldest = min(self.oldest, letter.first_sent)
        self.arrived = min(self.arrived, letter.arrived)

    @property
    def expires(self) -> int:
        """When the queue forgets the first of them, ms."""
        return self.arrived + DEAD_LETTERS_RETENTION_SECONDS * 1000


def list_letters(arguments: Namespace, settings: Settings, screen: Screen) -> int:
    """`tallyroll dlq list`. Gives the exit status, 1 if the list may not be whole."""
    made = _adapters(arguments, settings, screen)
    groups: dict[tuple[str, WindowId], Group] = {}

    def count(batch: Sequence[ReceivedLetter]) -> None:
        for letter in batch:
            groups.setdefault((letter.why, letter.window or ""), Group()).add(letter)

    with looking(made, arguments.limit or LOOKED_AT, screen) as (look, each):
        each(count)
    for (reason, window), group in sorted(groups.items()) if screen.json else ():
        screen.emit(
            {
                "reason": reason,
                "window": window or None,
                "count": group.count,
                "oldest": iso(group.oldest),
                "expires": iso(group.expires),
            }
        )
    if groups and not screen.json:
        screen.table(
            ("reason", "window", "count", "oldest sent", "first expires"),
            [
                (reason, window, f"{group.count:,}", iso(group.oldest), iso(group.expires))
                for (reason, window), group in sorted(groups.items())
            ],
        )
    if not groups:
        screen.tell("no dead letters")
    return int(_tell_missed(look, screen))


def show(arguments: Namespace, settings: Settings, screen: Screen) -> int:
    """`tallyroll dlq show`. Gives the exit status; raises Missing if a message is not there."""
    if not arguments.messages and not arguments.reasons:
        raise UsageError("give a MESSAGE-ID, or a --reason")
    made = _adapters(arguments, settings, screen)
    shown: list[ReceivedLetter] = []

    def show_some(batch: Sequence[ReceivedLetter]) -> None:
        for letter in chosen(batch, arguments):
            if len(shown) < arguments.n:
                _show(letter, made.dead_letters, screen)
                shown.append(letter)
        if len(shown) == arguments.n:
            look.stop()

    with looking(made, arguments.limit or LOOKED_AT, screen) as (look, each):
        each(show_some)
    if not shown:
        _tell_missed(look, screen)
        raise Missing("there is no such dead letter", "NoLetter")
    found = {name for letter in shown for name in (letter.id, letter.first_id)}
    return int(_tell_unfound(set(arguments.messages) - found, screen))


def redrive(arguments: Namespace, settings: Settings, screen: Screen) -> int:
    """`tallyroll dlq redrive`. Gives the exit status, 1 if any letter was left."""
    made = _adapters(arguments, settings, screen)
    redriver = made.redriver(
        None if arguments.to == CURRENT else arguments.to, unverified=arguments.unverified
    )
    redriver.check_target()
    if not arguments.yes:
        limit = arguments.limit or LOOKED_AT
        planned = _pass(arguments, made, redriver.decide, "deciding", screen, limit)
        if arguments.dry_run or not planned.done:
            return planned.end(screen, dry=True)
        planned.table(screen, dry=True)
        if not _agreed(planned, arguments.limit):
            screen.tell("nothing was sent")
            return 1
    done = _pass(arguments, made, redriver.redrive, SENDING, screen, arguments.limit)
    return done.end(screen, dry=False)


@dataclass(slots=True)
class RedriveSummary:
    """What became of the letters that a pass looked at."""

    look: Look
    counted: Counter[tuple[Course, str, str, WindowId]] = field(default_factory=Counter)
    left: list[Decision] = field(default_factory=list)
    unfound: set[str] = field(default_factory=set)

    def add(self, decision: Decision) -> None:
        """Count what became of a letter."""
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
        """Show what became of the letters, or would."""
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
        unfound = _tell_unfound(self.unfound, screen)
        missed = _tell_missed(self.look, screen)
        return int(unfound or missed or self.of(Course.LEFT) > 0)


def _pass(
    arguments: Namespace,
    made: pipeline.Pipeline,
    treat: Callable[[Sequence[ReceivedLetter]], list[Decision]],
    doing: str,
    screen: Screen,
    limit: int | None,
) -> RedriveSummary:
    """Treat the chosen letters, in batches side by side, and show each on a JSON line if that is
    asked.
    """
    sends = doing == SENDING
    sent = Names()
    lock = Lock()  # of the summary, of what was sent, and of stdout
    with looking(made, limit, screen, doing, arguments.jobs) as (look, each):
        summary = RedriveSummary(look, unfound=set(arguments.messages))

        def treated(batch: Sequence[ReceivedLetter]) -> None:
            taken = chosen(batch, arguments)
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
                    if screen.json and (sends or arguments.dry_run):
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
    if not sys.stdin.isatty():
        raise UsageError("nobody can be asked here: give --yes, or --dry-run to look only")
    number, missed = planned.done, planned.look.missed
    more = f", and what can be redriven of some {missed:,} more" if missed and not limit else ""
    sys.stderr.write(f"Redrive {number:,} dead letters{more}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _adapters(arguments: Namespace, settings: Settings, screen: Screen) -> pipeline.Pipeline:
    return pipeline.Pipeline(
        pipeline.with_queues(settings, screen.tell, named=arguments.name is not None)
    )


def _tell_unfound(names: set[str], screen: Screen) -> bool:
    """Say of which messages there is no letter, and whether there are any."""
    for name in sorted(names):
        screen.tell(f"there is no dead letter {name}")
    return bool(names)


def _tell_missed(look: Look, screen: Screen) -> bool:
    """Say if letters were missed, and whether."""
    if look.missed:
        screen.tell(
            f"saw {look.seen:,} of about {look.expected:,} dead letters: the others lie beyond"
            " --limit, or another look holds them for up to five minutes; SQS's count may lag, too"
        )
    return look.missed > 0


def _show(letter: ReceivedLetter, letters: DeadLetters, screen: Screen) -> None:
    try:
        body, problem = letters.body(letter), ""
    except Missing as error:
        body, problem = "", str(error)
    facts = {
        "letter": letter.id,
        "message": letter.first_id,
        "reason": letter.why,
        "detail": letter.detail,
        "window": letter.window or "",
        "redriven to": letter.target or "",
        "sent": iso(letter.first_sent),
        "dead since": iso(letter.arrived),
        "expires": iso(letter.arrived + DEAD_LETTERS_RETENTION_SECONDS * 1000),
        "looked at": str(letter.receives),
        "body lies in": f"{letter.pointer.bucket}/{letter.pointer.key}" if letter.pointer else "",
        "problem": problem,
    }
    told = {name: value for name, value in facts.items() if value}
    if screen.json:
        screen.emit(
            {name.replace(" ", "_"): value for name, value in told.items()} | {"body": body}
        )
        return
    screen.table(("", "dead letter"), list(told.items()))
    sys.stdout.write(f"{_printable(body)}\n\n")


def _printable(text: str) -> str:
    """A body as a terminal may have it: what would move or colour it stands as an escape."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode()
        for char in text
    )

"""`tallyroll dlq`: dead letters counted, shown and redriven."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tallyroll import wiring
from tallyroll.cli_queues import with_queues
from tallyroll.cli_screen import Screen
from tallyroll.dead_letters import DeadLetters, Look, ReceivedLetter
from tallyroll.errors import Missing, UsageError
from tallyroll.redrive import Course, Decision, Redriver
from tallyroll.resources import DEAD_LETTERS_RETENTION_SECONDS
from tallyroll.settings import Settings
from tallyroll.windows import WindowId, iso

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
    letters = _adapters(arguments, settings, screen).dead_letters
    groups: dict[tuple[str, WindowId], Group] = {}
    with _looking(letters, arguments.limit, screen) as (look, told):
        for page in look.pages():
            for letter in page:
                groups.setdefault((letter.why, letter.window or ""), Group()).add(letter)
            told()
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
    letters = _adapters(arguments, settings, screen).dead_letters
    shown: list[ReceivedLetter] = []
    with _looking(letters, arguments.limit, screen) as (look, told):
        for letter in _chosen(look, arguments, told):
            _show(letter, letters, screen)
            shown.append(letter)
            if len(shown) == arguments.n:
                break
    if not shown:
        _tell_missed(look, screen)
        raise Missing("there is no such dead letter", "NoLetter")
    found = {name for letter in shown for name in (letter.id, letter.first_id)}
    return int(_tell_unfound(set(arguments.messages) - found, screen))


def redrive(arguments: Namespace, settings: Settings, screen: Screen) -> int:
    """`tallyroll dlq redrive`. Gives the exit status, 1 if any letter was left."""
    made = _adapters(arguments, settings, screen)
    redriver = Redriver(
        settings,
        made.store,
        made.catalog,
        made.dead_letters,
        made.effects,
        to=None if arguments.to == CURRENT else arguments.to,
        unverified=arguments.unverified,
    )
    redriver.check_target()
    if not arguments.yes:
        planned = _pass(arguments, made.dead_letters, redriver.decide, "deciding", screen)
        if arguments.dry_run or not planned.done:
            return planned.end(screen, dry=True)
        planned.table(screen, dry=True)
        if not _agreed(planned.done):
            screen.tell("nothing was sent")
            return 1
    done = _pass(arguments, made.dead_letters, redriver.redrive, SENDING, screen)
    return done.end(screen, dry=False)


@dataclass(slots=True)
class Summary:
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
    letters: DeadLetters,
    treat: Callable[[Sequence[ReceivedLetter]], list[Decision]],
    doing: str,
    screen: Screen,
) -> Summary:
    """Treat the chosen letters, a page at a time, and show each on a JSON line if that is asked."""
    sends = doing == SENDING
    sent: set[str] = set()
    with _looking(letters, arguments.limit, screen, doing) as (look, told):
        summary = Summary(look, unfound=set(arguments.messages))
        try:
            for page in _pages(look, arguments, told):
                back = [one for one in page if one.target and one.first_id in sent]
                decisions = treat([one for one in page if one not in back])
                done = [one.letter for one in decisions if one.course is not Course.LEFT]
                if sends:
                    look.forget(done)
                    sent.update(letter.first_id for letter in done)
                for decision in (*decisions, *(_came_back(letter) for letter in back)):
                    summary.add(decision)
                    if screen.json and (sends or arguments.dry_run):
                        screen.emit(_json(decision))
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


def _agreed(number: int) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("nobody can be asked here: give --yes, or --dry-run to look only")
    sys.stderr.write(f"Redrive {number:,} dead letters? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _adapters(arguments: Namespace, settings: Settings, screen: Screen) -> wiring.Adapters:
    return wiring.adapters(with_queues(settings, screen, named=arguments.name is not None))


@contextmanager
def _looking(
    letters: DeadLetters, limit: int, screen: Screen, doing: str = "looking"
) -> Iterator[tuple[Look, Callable[[], None]]]:
    """A look with a progress bar, after which all letters are given back, however it ends."""
    look = Look(letters, limit)
    with screen.progress() as bar:
        task = bar.add_task(doing, total=None, done="")

        def told() -> None:
            total = min(look.expected, limit)
            bar.update(task, total=total, completed=look.seen, done=f"{look.seen:,} letters")

        try:
            yield look, told
        finally:
            look.close()


def _pages(
    look: Look, arguments: Namespace, told: Callable[[], None]
) -> Iterator[list[ReceivedLetter]]:
    """Of the letters, those of the reasons and messages that were asked for; all if none were."""
    wanted = set(arguments.messages)
    for page in look.pages():
        told()
        found = [
            letter
            for letter in page
            if (not arguments.reasons or letter.why in arguments.reasons)
            and (not wanted or {letter.id, letter.first_id} & wanted)
        ]
        if found:
            yield found


def _chosen(look: Look, arguments: Namespace, told: Callable[[], None]) -> Iterator[ReceivedLetter]:
    for page in _pages(look, arguments, told):
        yield from page


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

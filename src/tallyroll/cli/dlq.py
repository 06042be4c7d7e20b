"""`tallyroll dlq`: dead letters counted, shown, redriven, saved and deleted. Each command gives its
exit status.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, TextIO

from cyclopts import App, Parameter, Token

from tallyroll.cli.arguments import CURRENT, NUMBER, Run, exclusive, up_to
from tallyroll.cli.redrives import (
    LOOKED_AT,
    Choice,
    RedriveRun,
    scan_through,
    show_missed,
    show_unfound,
)
from tallyroll.cli.screen import Screen, excerpt, number_of, printable, short_time
from tallyroll.errors import Missing, Reason, UsageError
from tallyroll.model.dead_letters import UNDELIVERED, ReceivedLetter
from tallyroll.model.windows import WindowId, iso, window_id
from tallyroll.operations.dead_letter_scan import JOBS, DeadLetterScan
from tallyroll.operations.saved_letters import LetterFile, body_of, expires, letter_json
from tallyroll.ports.dead_letters import DeadLetters

if TYPE_CHECKING:
    from tallyroll.pipeline import Pipeline

JOBS_MAX = 10  # each puts 25 claims at once, and the client has 256 connections

app = App(
    name="dlq",
    help="""See dead letters, redrive, save or delete them.

A dead letter is a message that was rejected with a reason, or that nobody
could deliver. Those that may still count can be redriven.

SQS keeps no list of its messages: a look receives all of them, and gives them
back at the end. If it is killed meanwhile, they reappear after five minutes;
nothing is lost. What another look holds at the moment is missing here, and
told.

For example:
  tallyroll dlq list""",
)


def _reasons(_: Any, tokens: Sequence[Token]) -> list[str]:
    known = (*Reason, UNDELIVERED)
    for token in tokens:
        if token.value not in known:
            raise ValueError(f"{token.value!r}: known are {', '.join(known)}")
    return [token.value for token in tokens]


_AT_MOST = f"look at no more than N letters ({LOOKED_AT:,} by default"
_Limit = Annotated[int | None, NUMBER, Parameter(help=f"{_AT_MOST})")]
_All = Annotated[int | None, NUMBER, Parameter(help="look at no more than N letters")]
_REASON = Parameter(
    "--reason",
    metavar="R",
    converter=_reasons,
    help="only those of this reason; may be given several times",
)
_Reasons = Annotated[list[str] | None, _REASON]
_ReasonsNeeded = Annotated[list[str], _REASON]
_WAY = exclusive()


@app.command(name="list")
def list_letters(*, limit: _Limit = None, run: Run) -> int:
    """Count dead letters by reason and window.

    Of each group: when its oldest message was sent, and when the first letter
    expires (UTC). `undelivered` are those that the queue's own fuse moved after
    1,000 receives.

    For example:
      tallyroll dlq list --json
    """
    made, screen = run.pipeline(run.with_queues()), run.screen
    groups: dict[tuple[str, WindowId], tuple[int, int, int]] = {}

    def count(_: DeadLetterScan, batch: Sequence[ReceivedLetter]) -> None:
        for letter in batch:
            group = letter.why, letter.window or ""
            number, oldest, arrived = groups.get(group, (0, sys.maxsize, sys.maxsize))
            oldest, arrived = min(oldest, letter.first_sent), min(arrived, letter.arrived)
            groups[group] = number + 1, oldest, arrived

    scan = scan_through(made, count, limit or LOOKED_AT, screen)
    found: list[dict[str, Any]] = [
        {
            "reason": reason,
            "window": window or None,
            "count": number,
            "oldest": iso(oldest),
            "expires": expires(arrived),
        }
        for (reason, window), (number, oldest, arrived) in sorted(groups.items())
    ]
    screen.show(
        ("reason", "window", "count", "oldest sent", "expires"),
        found,
        dict,
        lambda group: {
            "oldest sent": short_time(group["oldest"])[:-3],  # without seconds
            "expires": short_time(group["expires"])[:-3],
        },
    )
    if not groups:
        screen.tell("no dead letters")
    return int(show_missed(scan, screen))


@app.command
def show(
    messages: Annotated[list[str] | None, Parameter("MESSAGE-ID")] = None,
    /,
    *,
    reasons: _Reasons = None,
    n: Annotated[int, NUMBER, Parameter("-n")] = 10,
    limit: _Limit = None,
    run: Run,
) -> int:
    """Show dead letters: reason, window, times, body (from the bucket, if it is
    there).

    For example:
      tallyroll dlq show 3f6c3a0e-5f0d-4b7e-9c0b-7a4d1b1f2e11
      tallyroll dlq show --reason too-late -n 3

    :param messages: the letter's id, or that of the message when it was new
    :param n: at most so many (10)
    """
    if not messages and not reasons:
        raise UsageError("give a MESSAGE-ID, or a --reason")
    made = run.pipeline(run.with_queues())
    choice, screen = Choice(reasons, messages), run.screen
    shown: list[ReceivedLetter] = []

    def show_some(scan: DeadLetterScan, batch: Sequence[ReceivedLetter]) -> None:
        for letter in choice.of(batch)[: n - len(shown)]:
            _show(letter, made.dead_letters, screen)
            shown.append(letter)
        if len(shown) == n:
            scan.stop()

    scan = scan_through(made, show_some, limit or LOOKED_AT, screen)
    if not shown:
        show_missed(scan, screen)
        raise Missing("there is no such dead letter", "NoLetter")
    found = {name for letter in shown for name in (letter.id, letter.first_id)}
    return int(show_unfound({*(messages or ())} - found, screen))


@app.command
def redrive(
    *,
    reasons: _Reasons = None,
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
        int | None, NUMBER, Parameter(help=f"{_AT_MOST}; all of them once it sends)")
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


@app.command
def save(file: str, /, *, reasons: _Reasons = None, limit: _All = None, run: Run) -> int:
    """Save dead letters to a file.

    Each is a line of JSON: its body (from the bucket, if it is there), reason,
    detail, window and times. Nothing is deleted.

    For example:
      tallyroll dlq save letters.jsonl --reason bad-key

    :param file: the new file; one that exists is not overwritten
    """
    made, screen = run.pipeline(run.with_queues()), run.screen
    choice = Choice(reasons, None)
    with _new_file(file) as opened:
        letters = LetterFile(opened, made.dead_letters, made.effects)

        def keep(_: DeadLetterScan, batch: Sequence[ReceivedLetter]) -> None:
            letters.save(choice.of(batch))

        try:
            scan = scan_through(made, keep, limit, screen, "saving", JOBS)
        finally:
            screen.line(
                {"file": file, "saved": letters.saved, "unread": letters.unread},
                f"{number_of(letters.saved, 'dead letter')} saved to {file}",
            )
    _tell_unread(letters, screen)
    return int(show_missed(scan, screen) or letters.unread > 0)


@app.command
def delete(
    *,
    reasons: _ReasonsNeeded,
    save_to: Annotated[str | None, Parameter("--save", metavar="FILE")] = None,
    yes: bool = False,
    limit: _All = None,
    run: Run,
) -> int:
    """Delete dead letters of a reason, which are saved to a file before.

    A letter whose body cannot be read is left. Without --yes, the letters are
    counted, and it is asked.

    For example:
      tallyroll dlq delete --reason not-json --save not-json.jsonl

    :param save_to: the new file (NAME-dead-letters-TIME.jsonl in this directory)
    :param yes: do not ask
    """
    made, screen = run.pipeline(run.with_queues()), run.screen
    choice = Choice(reasons, None)
    now = window_id(made.effects.now())
    file = save_to or f"{run.settings.name}-dead-letters-{now}.jsonl"
    if not yes:
        found = 0

        def count(_: DeadLetterScan, batch: Sequence[ReceivedLetter]) -> None:
            nonlocal found
            found += len(choice.of(batch))

        scan = scan_through(made, count, limit or LOOKED_AT, screen, "counting")
        if not found:
            screen.tell("no such dead letters")
            return int(show_missed(scan, screen))
        more = f", and those of some {scan.missed:,} more" if scan.missed and not limit else ""
        question = f"Delete {number_of(found, 'dead letter')}{more}, saved to {file}? [y/N] "
        if screen.ask(question, "give --yes").lower() not in ("y", "yes"):
            screen.tell("nothing was deleted")
            return 1
    return _delete(made, choice, file, limit, screen)


def _delete(made: Pipeline, choice: Choice, file: str, limit: int | None, screen: Screen) -> int:
    """Save and delete the chosen letters; the exit status."""
    deleted, lock = 0, Lock()
    with _new_file(file) as opened:
        letters = LetterFile(opened, made.dead_letters, made.effects)

        def remove(scan: DeadLetterScan, batch: Sequence[ReceivedLetter]) -> None:
            nonlocal deleted
            saved = letters.save(choice.of(batch), only_read=True)
            answers = made.dead_letters.delete(saved) if saved else []
            gone = [letter for letter, sure in zip(saved, answers, strict=True) if sure]
            scan.forget(gone)
            with lock:
                deleted += len(gone)

        try:
            scan = scan_through(made, remove, limit, screen, "deleting", JOBS)
        finally:
            report = {"file": file, "saved": letters.saved, "deleted": deleted}
            text = f"{number_of(letters.saved, 'dead letter')} saved to {file}, {deleted:,} deleted"
            screen.line({**report, "unread": letters.unread}, text)
            if not letters.saved:
                Path(file).unlink()
    _tell_unread(letters, screen)
    if left := letters.saved - deleted:
        screen.tell(f"{number_of(left, 'letter')} saved, and not surely deleted: delete them again")
    return int(show_missed(scan, screen) or left > 0 or letters.unread > 0)


def _new_file(name: str) -> TextIO:
    """A new file, which must not exist. Raises UsageError."""
    try:
        return Path(name).open("x", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{name!r}: {error.strerror}") from None


def _tell_unread(letters: LetterFile, screen: Screen) -> None:
    if letters.unread:
        bodies = number_of(letters.unread, "body", "bodies")
        screen.tell(f"{bodies} could not be read: {letters.problem}")


def _show(letter: ReceivedLetter, letters: DeadLetters, screen: Screen) -> None:
    report = letter_json(letter, body_of(letter, letters))
    if screen.json:
        screen.emit(report)
        return
    body = report.pop("body")
    rows = [(name.replace("_", " "), value) for name, value in report.items()]
    screen.table(("", "dead letter"), rows)
    sys.stdout.write(f"{printable(excerpt(body))}\n\n")

"""`tallyroll dlq`: dead letters counted, shown, redriven, saved and deleted. Each command gives its
exit status.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, TextIO

from cyclopts import App, Parameter

from tallyroll.cli.arguments import NUMBER, Run
from tallyroll.cli.dlq.receiving import (
    LOOKED_AT,
    All,
    Choice,
    Limit,
    Reasons,
    ReasonsNeeded,
    scan_through,
    show_missed,
    show_unfound,
)
from tallyroll.cli.dlq.redriving import redrive
from tallyroll.cli.screen import Screen, excerpt, number_of, printable, short_time
from tallyroll.errors import Missing, UsageError
from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.model.windows import window_id
from tallyroll.operations.dead_letter_scan import JOBS, DeadLetterScan
from tallyroll.operations.overview.letter_search import LetterSearch
from tallyroll.operations.saved_letters import LetterFile, LetterGroups, body_of, letter_json

if TYPE_CHECKING:
    from tallyroll.pipeline import Pipeline

app = App(
    name="dlq",
    help="""See dead letters, redrive, save or delete them.

A dead letter is a message that was rejected with a reason, or that nobody
could deliver. Those that may still count can be redriven.

SQS keeps no list of its messages: a scan receives all of them, and gives them
back at the end. If it is killed meanwhile, they reappear after five minutes;
nothing is lost. What another scan holds at the moment is missing here, and
told.

For example:
  tallyroll dlq list""",
)


@app.command(name="list")
def list_letters(*, limit: Limit = None, run: Run) -> int:
    """Count dead letters by reason and window.

    Of each group: when its oldest message was sent, and on which day the first
    letter expires (UTC; --json has its time). `undelivered` are those that the
    queue's own fuse moved after 1,000 receives.

    For example:
      tallyroll dlq list --json
    """
    made, screen = run.pipeline(run.with_queues()), run.screen
    groups = LetterGroups()

    def count(_: DeadLetterScan, batch: Sequence[ReceivedLetter]) -> None:
        groups.add(batch)

    scan = scan_through(made, count, limit or LOOKED_AT, screen)
    found = groups.json()
    screen.show(
        ("reason", "window", "count", "oldest sent", "expires"),
        found,
        dict,
        lambda group: {
            "oldest sent": short_time(group["oldest"])[:-3],  # without seconds
            "expires": short_time(group["expires"]).partition(" ")[0],  # the day
        },
    )
    if not found:
        screen.tell("no dead letters")
    return int(show_missed(scan, screen))


@app.command
def show(
    messages: Annotated[list[str] | None, Parameter("MESSAGE-ID")] = None,
    /,
    *,
    reasons: Reasons = None,
    n: Annotated[int, NUMBER, Parameter("-n")] = 10,
    limit: Limit = None,
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
            _show(letter_json(letter, body_of(letter, made.dead_letters)), screen)
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
def find(text: str, /, *, limit: Limit = None, run: Run) -> int:
    """Find dead letters by a text in them, in whatever case.

    It is looked for in the body, the detail and the ids. At most 50 letters are
    shown, of each body the first 2,000 characters.

    For example:
      tallyroll dlq find ballot-7

    :param text: the text
    """
    made, screen = run.pipeline(run.with_queues()), run.screen
    search = LetterSearch(text=text)
    scan = scan_through(made, lambda _, batch: search.add(batch), limit or LOOKED_AT, screen)
    found = search.found(made.dead_letters)
    for report in found:
        _show(report, screen)
    if not found:
        screen.tell("no such dead letter")
    return int(show_missed(scan, screen) or not found)


app.command(redrive)


@app.command
def save(file: str, /, *, reasons: Reasons = None, limit: All = None, run: Run) -> int:
    """Save dead letters to a file.

    Each is a line of JSON: its body (from the bucket, if it is there), reason,
    detail, window and times. Nothing is deleted.

    For example:
      tallyroll dlq save letters.jsonl --reason bad-key

    :param file: the new file; one that exists is not overwritten
    """
    made = run.pipeline(run.with_queues())
    return _save(made, Choice(reasons, None), file, limit, run.screen, deletes=False)


@app.command
def delete(
    *,
    reasons: ReasonsNeeded,
    save_to: Annotated[str | None, Parameter("--save", metavar="FILE")] = None,
    yes: bool = False,
    limit: All = None,
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
    return _save(made, choice, file, limit, screen, deletes=True)


def _save(
    made: Pipeline, choice: Choice, file: str, limit: int | None, screen: Screen, *, deletes: bool
) -> int:
    """Save the chosen letters, and delete those that are saved if it `deletes`; the exit status."""
    deleted, lock = 0, Lock()
    with _new_file(file) as opened:
        letters = LetterFile(opened, made.dead_letters, made.effects)

        def keep(scan: DeadLetterScan, batch: Sequence[ReceivedLetter]) -> None:
            nonlocal deleted
            saved = letters.save(choice.of(batch), only_read=deletes)
            doomed = saved if deletes else []
            answers = made.dead_letters.delete(doomed) if doomed else []
            gone = [letter for letter, sure in zip(doomed, answers, strict=True) if sure]
            scan.forget(gone)
            with lock:
                deleted += len(gone)

        try:
            scan = scan_through(
                made, keep, limit, screen, "deleting" if deletes else "saving", JOBS
            )
        finally:
            report = {"file": file, "saved": letters.saved}
            report |= {"deleted": deleted} if deletes else {}
            text = f"{number_of(letters.saved, 'dead letter')} saved to {file}"
            text += f", {deleted:,} deleted" if deletes else ""
            screen.line({**report, "unread": letters.unread}, text)
            if deletes and not letters.saved:
                Path(file).unlink()
    if letters.unread:
        bodies = number_of(letters.unread, "body", "bodies")
        screen.tell(f"{bodies} could not be read: {letters.problem}")
    left = letters.saved - deleted if deletes else 0
    if left:
        screen.tell(f"{number_of(left, 'letter')} saved, and not surely deleted: delete them again")
    return int(show_missed(scan, screen) or left > 0 or letters.unread > 0)


def _new_file(name: str) -> TextIO:
    """A new file, which must not exist. Raises UsageError."""
    try:
        return Path(name).open("x", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{name!r}: {error.strerror}") from None


def _show(report: dict[str, str], screen: Screen) -> None:
    if screen.json:
        screen.emit(report)
        return
    body = report.pop("body")
    rows = [(name.replace("_", " "), value) for name, value in report.items()]
    screen.table(("", "dead letter"), rows)
    sys.stdout.write(f"{printable(excerpt(body))}\n\n")

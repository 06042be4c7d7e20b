"""`tallyroll dlq`: dead letters counted, shown and redriven. Each gives its exit status."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import App, Parameter, Token

from tallyroll.cli.arguments import NUMBER, Run, exclusive, up_to
from tallyroll.cli.looks import LOOKED_AT, Choice, Redrive, look_through, tell_missed, tell_unfound
from tallyroll.cli.screen import Screen, excerpt, printable
from tallyroll.errors import Missing, Reason, UsageError
from tallyroll.model.dead_letters import UNDELIVERED, ReceivedLetter
from tallyroll.model.windows import WindowId, iso
from tallyroll.operations.looks import JOBS, Look
from tallyroll.ports.dead_letters import DeadLetters
from tallyroll.resources import DEAD_LETTERS_RETENTION_SECONDS

CURRENT = "current"
JOBS_MAX = 10  # each puts 25 claims at once, and the client has 256 connections

app = App(
    name="dlq",
    help="""See dead letters, redrive them.

A dead letter is a message that was rejected with a reason, or that nobody could deliver. Those
that may still count can be redriven.

SQS keeps no list of its messages: a look receives all of them, and gives them back at the end. If
it is killed meanwhile, they reappear after five minutes; nothing is lost. What another look holds
at the moment is missing here, and told.

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
_Reasons = Annotated[
    list[str] | None,
    Parameter(
        "--reason",
        metavar="R",
        converter=_reasons,
        help="only those of this reason; may be given several times",
    ),
]
_WAY = exclusive()


@app.command(name="list")
def list_letters(*, limit: _Limit = None, run: Run) -> int:
    """Count dead letters by reason and window.

    `undelivered` are those that the queue's own fuse moved after 1,000 receives.

    For example:
      tallyroll dlq list --json
    """
    made, screen = run.pipeline(run.with_queues()), run.screen
    groups: dict[tuple[str, WindowId], tuple[int, int, int]] = {}

    def count(_: Look, batch: Sequence[ReceivedLetter]) -> None:
        for letter in batch:
            group = letter.why, letter.window or ""
            number, oldest, arrived = groups.get(group, (0, sys.maxsize, sys.maxsize))
            oldest, arrived = min(oldest, letter.first_sent), min(arrived, letter.arrived)
            groups[group] = number + 1, oldest, arrived

    look = look_through(made, count, limit or LOOKED_AT, screen)
    found: list[dict[str, Any]] = [
        {
            "reason": reason,
            "window": window or None,
            "count": number,
            "oldest": iso(oldest),
            "expires": _expires(arrived),
        }
        for (reason, window), (number, oldest, arrived) in sorted(groups.items())
    ]
    screen.show(
        ("reason", "window", "count", "oldest sent", "first expires"),
        found,
        dict,
        lambda group: {"oldest sent": group["oldest"], "first expires": group["expires"]},
    )
    if not groups:
        screen.tell("no dead letters")
    return int(tell_missed(look, screen))


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

    def show_some(look: Look, batch: Sequence[ReceivedLetter]) -> None:
        for letter in choice.of(batch)[: n - len(shown)]:
            _show(letter, made.dead_letters, screen)
            shown.append(letter)
        if len(shown) == n:
            look.stop()

    look = look_through(made, show_some, limit or LOOKED_AT, screen)
    if not shown:
        tell_missed(look, screen)
        raise Missing("there is no such dead letter", "NoLetter")
    found = {name for letter in shown for name in (letter.id, letter.first_id)}
    return int(tell_unfound({*(messages or ())} - found, screen))


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
            " or current (the default)",
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
    redriver = made.redriver(None if to == CURRENT else to, unverified=unverified)
    redriver.check_target()
    asked = Redrive(made, redriver, Choice(reasons, messages), run.screen, limit, jobs)
    return asked.run(dry_run=dry_run, yes=yes)


def _expires(arrived: int) -> str:
    """When the queue forgets a letter that arrived at this time (ms)."""
    return iso(arrived + DEAD_LETTERS_RETENTION_SECONDS * 1000)


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
        "expires": _expires(letter.arrived),
        "looked at": str(letter.receives),
        "body lies in": f"{letter.pointer.bucket}/{letter.pointer.key}" if letter.pointer else "",
        "problem": problem,
    }
    told = {name: value for name, value in facts.items() if value}
    if screen.json:
        said = {name.replace(" ", "_"): value for name, value in told.items()}
        screen.emit(said | {"body": body})
        return
    screen.table(("", "dead letter"), list(told.items()))
    sys.stdout.write(f"{printable(excerpt(body))}\n\n")

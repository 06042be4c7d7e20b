"""How the commands of `tallyroll dlq` receive letters: which ones, their progress, an interrupt."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, Token

from tallyroll.cli.arguments import NUMBER
from tallyroll.cli.screen import Screen, number_of
from tallyroll.model.dead_letters import UNDELIVERED, ReceivedLetter
from tallyroll.operations.dead_letter_scan import JOBS, DeadLetterScan
from tallyroll.reasons import Reason

if TYPE_CHECKING:
    from tallyroll.pipeline import Pipeline

LOOKED_AT = 10_000  # letters, if --limit is left out


def _reasons(_: Any, tokens: Sequence[Token]) -> list[str]:
    known = (*Reason, UNDELIVERED)
    for token in tokens:
        if token.value not in known:
            raise ValueError(f"{token.value!r}: known are {', '.join(known)}")
    return [token.value for token in tokens]


AT_MOST = f"look at no more than N letters ({LOOKED_AT:,} by default"
Limit = Annotated[int | None, NUMBER, Parameter(help=f"{AT_MOST})")]
All = Annotated[int | None, NUMBER, Parameter(help="look at no more than N letters")]
_REASON = Parameter(
    "--reason",
    metavar="R",
    converter=_reasons,
    help="only those of this reason; may be given several times",
)
Reasons = Annotated[list[str] | None, _REASON]
ReasonsNeeded = Annotated[list[str], _REASON]


def scan_through(
    made: Pipeline,
    treat: Callable[[DeadLetterScan, Sequence[ReceivedLetter]], None],
    limit: int | None,
    screen: Screen,
    doing: str = "looking",
    jobs: int | None = None,
) -> DeadLetterScan:
    """Have each batch of a scan treated under a progress bar: by `jobs` workers side by side, or
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
    """Stop the scan at the first interrupt, so that batches in work are finished, and then raise
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
            " --limit, or another scan holds them for up to five minutes; SQS's count may lag, too"
        )
    return scan.missed > 0

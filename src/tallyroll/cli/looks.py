"""A look at the dead letters from the command line: its progress, and what an interrupt does."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from tallyroll.cli.screen import Screen
from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.operations.looks import JOBS, Look

if TYPE_CHECKING:
    from tallyroll.pipeline import Pipeline

LOOKED_AT = 10_000  # letters, if --limit is left out
MS = 1_000


def look_through(
    made: Pipeline,
    treat: Callable[[Look, Sequence[ReceivedLetter]], None],
    limit: int | None,
    screen: Screen,
    doing: str = "looking",
    jobs: int | None = None,
) -> Look:
    """Have each batch of a look treated under a progress bar: by `jobs` workers side by side, or
    one after the other if it is None. Letters that stay are given back, however it ends.
    """
    look = Look(made.dead_letters, made.effects, limit)
    turn = nullcontext() if jobs else Lock()
    began = made.effects.now()

    def treated(batch: Sequence[ReceivedLetter]) -> None:
        with turn:
            treat(look, batch)
        done = progress(look.seen, look.total, made.effects.now() - began)
        bar(total=look.total, completed=look.seen, done=done)

    with screen.progress(doing) as bar, closing(look), _interruptible(look):
        look.each(treated, jobs or JOBS)
    return look


@contextmanager
def _interruptible(look: Look) -> Iterator[None]:
    """Stop the look at the first interrupt, so that batches in work are finished, and then raise
    KeyboardInterrupt; at a second interrupt raise it at once.
    """
    interrupted = False

    def stop(*_: object) -> None:
        nonlocal interrupted
        if interrupted:
            raise KeyboardInterrupt
        interrupted = True
        look.stop()

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupted:
        raise KeyboardInterrupt


def progress(seen: int, total: int, took_ms: int) -> str:
    """How many letters were seen of so many, how many a second, and how long the rest will take."""
    told = f"{seen:,} letters"
    if not seen or took_ms < MS:
        return told
    left_s = max(0, total - seen) * took_ms // (seen * MS)
    minutes, seconds = divmod(left_s, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{told}, {seen * MS // took_ms:,}/s, {hours}:{minutes:02}:{seconds:02} left"


@dataclass(frozen=True, slots=True)
class Choice:
    """The reasons and the messages' ids that were asked for; none of a kind asks for all."""

    reasons: Sequence[str] | None
    messages: Sequence[str] | None

    def of(self, batch: Sequence[ReceivedLetter]) -> list[ReceivedLetter]:
        """The letters that were asked for."""
        return [
            letter
            for letter in batch
            if (not self.reasons or letter.why in self.reasons)
            and (not self.messages or {letter.id, letter.first_id}.intersection(self.messages))
        ]


def tell_unfound(names: set[str], screen: Screen) -> bool:
    """Say of which messages there is no letter, and whether there are any."""
    for name in sorted(names):
        screen.tell(f"there is no dead letter {name}")
    return bool(names)


def tell_missed(look: Look, screen: Screen) -> bool:
    """Say if letters were missed, and whether."""
    if look.missed:
        screen.tell(
            f"saw {look.seen:,} of about {look.expected:,} dead letters: the others lie beyond"
            " --limit, or another look holds them for up to five minutes; SQS's count may lag, too"
        )
    return look.missed > 0

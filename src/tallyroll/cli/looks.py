"""A look at the dead letters from the command line: its progress, and what an interrupt does."""

from __future__ import annotations

import signal
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

from tallyroll import pipeline
from tallyroll.cli.screen import Screen
from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.operations.looks import JOBS, Look

MS = 1_000

Each = Callable[[Callable[[Sequence[ReceivedLetter]], None]], None]
"""Has each batch treated."""


@contextmanager
def looking(
    made: pipeline.Pipeline,
    limit: int | None,
    screen: Screen,
    doing: str = "looking",
    jobs: int | None = None,
) -> Iterator[tuple[Look, Each]]:
    """A look, and what has its batches treated under a progress bar: by `jobs` workers side by
    side, or one after the other if it is None. Letters that stay are given back, however it ends.
    """
    look = Look(made.dead_letters, made.effects, limit)
    lock = Lock()
    with screen.progress() as bar:
        task = bar.add_task(doing, total=None, done="")
        began = made.effects.now()

        def each(treat: Callable[[Sequence[ReceivedLetter]], None]) -> None:
            def treated(batch: Sequence[ReceivedLetter]) -> None:
                if jobs is None:
                    with lock:
                        treat(batch)
                else:
                    treat(batch)
                done = progress(look.seen, look.total, made.effects.now() - began)
                bar.update(task, total=look.total, completed=look.seen, done=done)

            with _interruptible(look):
                look.each(treated, jobs or JOBS)

        try:
            yield look, each
        finally:
            look.close()


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


def chosen(batch: Sequence[ReceivedLetter], arguments: Namespace) -> list[ReceivedLetter]:
    """Of the letters, those of the reasons and messages that were asked for; all if none were."""
    wanted = set(arguments.messages)
    return [
        letter
        for letter in batch
        if (not arguments.reasons or letter.why in arguments.reasons)
        and (not wanted or {letter.id, letter.first_id} & wanted)
    ]

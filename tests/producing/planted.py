"""Mistakes to plant in the producer: each must be found by the seed that is named with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from tallyroll.client.intake import Intake
from tallyroll.client.outbox import Outbox
from tallyroll.client.receipts import Outgoing
from tallyroll.client.spool import Recovered, Spool
from tallyroll.ports.queue import Post, PostError

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Planted:
    """A mistake, and a seed that finds it."""

    plant: Callable[[Patch], None]
    seed: int


def new_id_for_each_try(patch: Patch) -> None:
    original, numbers = Outbox.posts, count()

    def posts(outbox: Outbox, batch: Iterable[Outgoing]) -> list[Post]:
        messages = list(batch)
        made = original(outbox, messages)
        return [
            Post(json.dumps({**json.loads(post.body), "id": f"try-{next(numbers)}"}))
            if message.tries > 1 and message.t0 is not None
            else post
            for message, post in zip(messages, made, strict=True)
        ]

    patch.setattr(Outbox, "posts", posts)


def unknown_is_success(patch: Patch) -> None:
    original = Outbox.failed

    def failed(
        outbox: Outbox, batch: Sequence[Outgoing], *arguments: Any, unknown: bool, final: bool
    ) -> list[Outgoing]:
        if unknown:
            return outbox.answered(batch, [None] * len(batch), arguments[-1])
        return original(outbox, batch, *arguments, unknown=unknown, final=final)

    patch.setattr(Outbox, "failed", failed)


def failed_entries_are_overlooked(patch: Patch) -> None:
    original = Outbox.answered

    def answered(
        outbox: Outbox, batch: Sequence[Outgoing], errors: Sequence[PostError | None], tick: float
    ) -> list[Outgoing]:
        return original(outbox, batch, [None] * len(errors), tick)

    patch.setattr(Outbox, "answered", answered)


def done_before_it_is_sent(patch: Patch) -> None:
    original = Outbox.take

    def take(outbox: Outbox, tick: float, *, pressed: bool = False) -> list[Outgoing]:
        batch = original(outbox, tick, pressed=pressed)
        if batch and outbox._spool:
            outbox._spool.settle(message.number for message in batch)
        return batch

    patch.setattr(Outbox, "take", take)


def only_first_events_are_spooled(patch: Patch) -> None:
    patch.setattr(Spool, "add", lambda *_: None)


def recovered_under_new_ids(patch: Patch) -> None:
    original, numbers = Spool.recover, count()

    def recover(spool: Spool) -> Recovered:
        found = original(spool)
        for message in found.messages:
            if message.t0 is not None:
                message.id = f"again-{next(numbers)}"
        return found

    patch.setattr(Spool, "recover", recover)


def given_up_is_not_noted(patch: Patch) -> None:
    original = Spool.settle
    patch.setattr(Spool, "settle", lambda spool, done, given_up=(): original(spool, done))


def done_before_it_is_reported(patch: Patch) -> None:
    original = Spool.settle

    def settle(
        spool: Spool, done: Iterable[int], given_up: Iterable[tuple[Outgoing, str]] = ()
    ) -> None:
        original(spool, [*done, *(message.number for message, _ in given_up)])

    patch.setattr(Spool, "settle", settle)


def torn_end_stays(patch: Patch) -> None:
    patch.setattr(Spool, "rewrite", lambda *_: None)


def rewriting_forgets_what_waits(patch: Patch) -> None:
    original = Spool.rewrite
    patch.setattr(Spool, "rewrite", lambda spool, *_: original(spool, ()))


def undated_ids_get_no_time(patch: Patch) -> None:
    patch.setattr(Intake, "_stamp", lambda *_: None)


PLANTED = {
    bug.__name__: Planted(bug, seed)
    for bug, seed in (
        (new_id_for_each_try, 0),
        (unknown_is_success, 3),
        (failed_entries_are_overlooked, 1),
        (done_before_it_is_sent, 4),
        (only_first_events_are_spooled, 18),
        (recovered_under_new_ids, 1),
        (given_up_is_not_noted, 399),
        (done_before_it_is_reported, 358),
        (torn_end_stays, 1),
        (rewriting_forgets_what_waits, 18),
        (undated_ids_get_no_time, 100),
    )
}

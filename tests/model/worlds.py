"""The worlds: small ones, which `make test` explores whole, and larger ones for `make proof`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.model.mistakes import Mistake
from tests.model.promises import Promise
from tests.model.state import CLOSING, DROPPED, OPEN, SEALED
from tests.model.world import KEY, PIPELINE, WINDOW, Event, Retraction, World

SMALL = (
    World(
        "closing",
        "a window with two gates closes while two contents of one id arrive",
        (Event((0,)), Event((0,), content=1, value=2)),
        until=(SEALED,),
        gates=2,
        parted=True,
        marks=("commit-not-answered", "conflict", "half-shut", "unseen", "sealed-with-events"),
    ),
    World(
        "dropping",
        "a window is archived and dropped while a writer sleeps, and a late roller makes its table"
        " again",
        (Event((0,)),),
        late_roller=True,
        marks=("torn-archive", "table-made-again", "dropped-with-events", "unverified-letter"),
    ),
    World(
        "redrive",
        "a letter is redriven to another window, by operators who die, while a copy is on its way",
        (Event((0,)),),
        rules=(WINDOW, WINDOW),
        until=(SEALED, CLOSING),
        operator=(0,),
        marks=("counted-elsewhere", "letter-and-effect"),
    ),
    World(
        "moved-claim",
        "a redriven letter meets a window that is sealed, and its claim moves",
        (Event((0,)),),
        rules=(WINDOW, WINDOW, WINDOW),
        until=(SEALED, SEALED, OPEN),
        writers=1,
        operator=(0,),
        marks=("claim-moved", "counted-elsewhere"),
    ),
    World(
        "dropped-home",
        "a letter's window is dropped, so nobody can look whether it counted",
        (Event((0,)),),
        rules=(WINDOW, WINDOW),
        until=(DROPPED, OPEN),
        writers=1,
        operator=(0,),
        late_roller=True,
        marks=("dropped-with-events", "unverified-letter", "table-made-again"),
    ),
    World(
        "forged",
        "a message says of itself that it was redriven, another copy does not",
        (Event((0,), forged=1), Event((0,))),
        rules=(WINDOW, WINDOW),
        until=(CLOSING, CLOSING),
        marks=("not-claimed-letter", "commit-not-answered"),
    ),
    World(
        "undated",
        "an event without a time is sent again after the hour",
        (Event((0,)), Event((0,), home=1)),
        rules=(KEY, KEY),
        until=(SEALED, SEALED),
        marks=("identity-met", "commit-not-answered", "counted-next-window"),
    ),
    World(
        "too-late",
        "an event is sent again after its window stopped accepting, without its letter being wrong",
        (Event((0,)), Event((0,), late=True)),
        rules=(KEY, KEY),
        until=(SEALED, OPEN),
        marks=("too-late-letter", "identity-met"),
    ),
    World(
        "pipeline-ids",
        "two keys have one id, with two contents, in two windows of scope pipeline",
        (Event((0,)), Event((1,), content=1, home=1)),
        name_keys=(0, 1),
        name_ids=(0, 0),
        rules=(PIPELINE, PIPELINE),
        until=(SEALED, CLOSING),
        marks=("conflict", "identity-met"),
    ),
    World(
        "shared-key",
        "two events of several keys share one key and the id, in two windows of scope key",
        (Event((0, 1)), Event((1, 2), content=1, home=1)),
        name_keys=(0, 1, 2),
        name_ids=(0, 0, 0),
        rules=(KEY, KEY),
        until=(SEALED, CLOSING),
        marks=("conflict", "identity-met"),
    ),
    World(
        "days",
        "copies come as late as they can: from the queue, as letters, redriven",
        (Event((0,)), Event((0,), home=1, sent=1)),
        rules=(KEY, KEY, KEY),
        sealed=(1,),
        until=(OPEN, SEALED, OPEN),
        writers=1,
        operator=(1,),
        days=5,
        marks=("identity-forgotten", "expiring-letter", "identity-met", "counted-elsewhere"),
    ),
    World(
        "beyond-days",
        "an id comes again within its days and beyond them",
        (Event((0,)), Event((0,), home=2), Event((0,), home=1, sent=2)),
        rules=(KEY, KEY, KEY),
        until=(OPEN, OPEN, OPEN),
        writers=1,
        days=6,
        retention=2,
        marks=("identity-met",),
    ),
    World(
        "rule-changed",
        "a window of rule `window` counted and is dropped; its letter is redriven to one of rule"
        " `key`",
        (Event((0,)),),
        rules=(WINDOW, KEY),
        until=(DROPPED, OPEN),
        writers=1,
        operator=(0,),
        marks=("dropped-with-events", "unverified-letter"),
    ),
    World(
        "retracted",
        "an event is retracted while its window is closed, archived, dropped and made again",
        (Event((0,)), Retraction((0,))),
        writers=1,
        late_roller=True,
        proves=True,
        marks=(
            *("tombstone", "correction", "dropped-with-tombstone", "corrected-after-drop"),
            *("table-made-again", "not-proven-letter", "nothing-letter"),
        ),
    ),
    World(
        "retracted-in-part",
        "listings see a retraction in part",
        (Event((0,), value=2), Retraction((0,))),
        until=(SEALED,),
        gates=2,
        parted=True,
        marks=("tombstone", "correction", "unseen", "half-shut"),
    ),
    World(
        "retracted-group",
        "an event of two keys is retracted by its second key",
        (Event((0, 1)), Retraction((1,))),
        name_keys=(0, 1),
        name_ids=(0, 0),
        until=(SEALED,),
        marks=("tombstone", "correction", "nothing-letter"),
    ),
    World(
        "retracted-elsewhere",
        "an event is redriven to a window in which another event has its id, and is retracted",
        (Event((0,)), Event((0,), content=1, home=1, value=2), Retraction((0,))),
        rules=(WINDOW, WINDOW),
        sealed=(0,),
        until=(SEALED, OPEN),
        writers=1,
        operator=(0,),
        marks=("tombstone-elsewhere", "nothing-letter", "conflict"),
    ),
)

LARGE: tuple[World, ...] = ()

PLANTED: Mapping[Mistake, tuple[str, Promise]] = {
    Mistake.GATE_OUTSIDE: ("closing", Promise.FINAL),
    Mistake.PUT_WITHOUT_CONDITION: ("closing", Promise.TALLY),
    Mistake.TALLY_OUTSIDE: ("closing", Promise.TALLY),
    Mistake.GROUP_DIVIDED: ("shared-key", Promise.ALL_KEYS),
    Mistake.UNKNOWN_ACKNOWLEDGED: ("closing", Promise.COUNTED_OR_LETTER),
    Mistake.GATE_LEFT_OPEN: ("closing", Promise.FINAL),
    Mistake.SEAL_BEFORE_SETTLE: ("closing", Promise.FINAL),
    Mistake.DROP_BEFORE_PROOF: ("dropping", Promise.PROVEN),
    Mistake.GATES_WITHOUT_STATE: ("dropping", Promise.FINAL),
    Mistake.STATE_NOT_READ_AGAIN: ("dropped-home", Promise.NO_FALSE_LETTER),
    Mistake.DROPPED_HANDED_BACK: ("rule-changed", Promise.ENDS),
    Mistake.ATTRIBUTE_BELIEVED: ("forged", Promise.PLACE),
    Mistake.CLAIM_MOVED_EARLY: ("moved-claim", Promise.PLACE),
    Mistake.IDENTITY_OUTSIDE: ("undated", Promise.ONCE),
    Mistake.IDENTITY_OVERWRITTEN: ("beyond-days", Promise.ONCE),
    Mistake.IDENTITY_EXPIRED: ("beyond-days", Promise.ONCE),
    Mistake.TTL_WITHOUT_WEEKS: ("beyond-days", Promise.NO_FALSE_LETTER),
    Mistake.TTL_A_DAY_SHORT: ("days", Promise.NO_FALSE_LETTER),
    Mistake.OLD_LETTERS_REDRIVEN: ("days", Promise.ONCE),
    Mistake.IDENTITY_NOT_READ: ("undated", Promise.NO_FALSE_LETTER),
    Mistake.IDENTITY_BEFORE_STATE: ("undated", Promise.NO_FALSE_LETTER),
    Mistake.ABSENT_IDENTITY_PROVES: ("rule-changed", Promise.ONCE),
    Mistake.PROOF_BY_NET_SUMS: ("retracted", Promise.ARCHIVED),
    Mistake.CONTENT_NOT_READ: ("retracted", Promise.COUNTED_FIRST),
    Mistake.ABSENT_ACKNOWLEDGED: ("retracted", Promise.RETRACTED_OR_LETTER),
    Mistake.CLAIM_WITHOUT_TIME: ("retracted-elsewhere", Promise.MEANT),
    Mistake.RECORD_BEFORE_TOMBSTONE: ("retracted", Promise.ONE_WAY),
    Mistake.CORRECTION_ON_TOTAL: ("retracted", Promise.CORRECTIONS),
    Mistake.RETRACTION_AFTER_SEALING: ("retracted", Promise.FINAL),
    Mistake.ONE_KEY_RETRACTED: ("retracted-group", Promise.ALL_KEYS_RETRACTED),
    Mistake.TOMBSTONE_NOT_IN_ARCHIVE: ("retracted", Promise.ONE_WAY),
    Mistake.CORRECTION_TWICE: ("retracted", Promise.CORRECTIONS),
}
"""The world in which each mistake is found, and the promise that it breaks first."""


def world_named(name: str, mistake: Mistake | None = None) -> World:
    """A world, with a mistake planted in it. Raises KeyError."""
    return replace({each.name: each for each in (*SMALL, *LARGE)}[name], mistake=mistake)

"""Rare states that a simulation is to meet: each has a name, and is counted where it is seen.

A promise that holds over ten thousand seeds says little of a state that none of them came to. A
long run prints how often each was met, and fails if one never was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tests.simulation.model_calls import MAPPED, mark_of

RETRACTION_MARKS: Mapping[str, str] = {
    "retracted-open": "events are retracted while their window is open",
    "retracted-sealed": "an event is retracted after its window was sealed",
    "retracted-dropped": "the same, and the window's table is gone: an operator has proven it",
    "retracted-in-packet": "an event of a packet is retracted",
    "retraction-before-event": "a retraction is asked before its event counts, and waits for it",
    "retraction-follows-claim": "an event is retracted that was redriven into another window",
    "retraction-without-table": "a retraction meets no table",
    "retraction-gate-shut": "a tombstone meets a gate that is shut",
    "retraction-unknown": "a tombstone's outcome is unknown, and it is tried again",
    "retraction-contended": "a tombstone meets a conflict",
    "tombstone-met": "a retraction finds a tombstone of its event",
    "own-tombstone-met": "a retraction that is tried again finds its own tombstone",
    "correction-met": "a retraction finds a correction of its event",
    "retractions-of-one-in-batch": "a batch holds several retractions of one event",
    "correction-after-proof": "a correction comes between the proof of an archive and the drop",
    "corrections-copied": "corrections are copied beside an archive",
    "corrections-copied-later": "the same, after the window was dropped",
    "retraction-redriven": "a retraction that was rejected is redriven, and has its effect",
    "retraction-authorized-later": "the same, and it was authorized only then",
    "letter-beside-effect": "a retraction is rejected, though its event is retracted already",
    "retracted-id-rejected": "an event is rejected whose identity is that of a retracted one",
    "retract-finds-it-done": "the command finds that an event is retracted",
    "retract-proves": "the command proves an event in the archive of a dropped window",
    "retract-hopeless": "the command finds that an event is not there, and can never come",
    "read-retracted": "a count says that some events are retracted",
    "read-rolled-up-retracted": "a count takes a day or month of which events are retracted",
    "rejected-bad-retraction": "a retraction is rejected that names no single event rightly",
    "rejected-retraction-off": "a retraction is rejected by a writer for which nobody may",
    "rejected-retraction-not-authorized": "a retraction is rejected that no operator authorized",
    "rejected-retraction-unproven": "a retraction is rejected, since its window was dropped",
    "rejected-nothing-to-retract": "a retraction is rejected whose event is not there",
}
HEAT_MARKS: Mapping[str, str] = {
    "stripes-raised": "a tally gets more stripes while its window is open",
    "stripes-raised-again": "the same, for the second time",
    "raise-in-vain": "a tally's stripes are raised by one who knows fewer than there are",
    "stripe-of-a-raise": "a commit is on a stripe that was not there in the beginning",
    "stripe-by-stale-number": "a commit knows of fewer stripes than there are",
    "rest-of-stripes-read": "a read learns of more stripes than it knew, and reads them",
    "raised-retracted": "an event is retracted on a stripe that was not there in the beginning",
    "raised-sealed": "a window is sealed some of whose tallies were raised",
    "listed-by-hint": "a list passes shards over",
    "listed-without-hint": "a list reads every shard, since its tallies do not cover all",
    "wish-put": "a wish for a key's shards is put",
    "wish-taken": "a window is frozen with a wish",
    "wish-met-by-roller": "a roller puts no spec, since the wishes have changed",
    "wish-raced": "a wish is withdrawn, since a window was frozen meanwhile without it",
    "wish-refused": "a wish is refused",
    "wish-lacked": "the release before freezes a window without a wish",
    "handed-back-by-before": "the release before cannot place a message, and hands it back",
    "read-by-before": "the release before reads a tally that was raised",
}
MARKS: Mapping[str, str] = {
    # Batches and commits
    "twice-in-batch": "a batch holds an event twice",
    "rivals-in-batch": "a batch holds two contents of one identity",
    "windows-in-batch": "a batch is for several windows",
    "counted-later": "a message counts at its second delivery or later",
    "remembered": "a message comes again to the writer that counted it, and is known to it",
    "runs-alone": "a message was received so often that it runs alone",
    "commit-unknown": "a commit's outcome is unknown, and it is tried again",
    "own-record-met": "a commit that is tried again finds its own record",
    "rival-met": "a commit finds another content stored under its identity",
    "chunks-committed": "an event is committed with a payload in chunks",
    "chunks-again": "a commit with chunks is tried again",
    "commit-contended": "a commit meets a conflict: gate and stripes are drawn anew",
    "commit-stubborn": "a commit is tried for the sixth time",
    "commit-bisected": "a commit that is refused as a whole is halved",
    "throttled-apart": "a throttled key waits, and the others of its commit go on",
    "throttled-by-key": "a commit that is throttled as a whole is tried again key by key",
    "no-time-left": "a commit is handed back because its next attempt would come too late",
    "gate-shut": "a commit meets a gate that is shut",
    "gate-missing": "a commit meets a gate that is missing, or no table",
    "belated-committed": "a commit that was given up is carried out minutes later",
    "belated-shut-out": "a commit that was given up is carried out later, and meets a shut gate",
    "zombie-committed": "a writer that has timed out goes on, and commits",
    # Messages that do not count at once
    "awaits-window": "a message waits for a window that is not made yet",
    "awaits-calendar": "a message waits for the first roller",
    "calendar-cached": "a writer's calendar is older than a change of the windows' length",
    "held-by-rate": "a message is handed back, since the write rate has no room for it",
    "closing-behind-gate": "a message is handed back, since its window is closing",
    "open-behind-gate": "a message is handed back, since its window's gates are not open yet",
    "duplicate-of-sealed": "a message of a sealed window is found there, and acknowledged",
    "looked-up-nowhere": "a writer looks a record up, and its table is gone",
    "follower-undecided": "two of a batch have one identity, and the first is undecided",
    "letter-refused": "the dead-letter queue does not take a message, which is handed back",
    "delivered-while-hidden": "a message is delivered while another writer has it",
    "deleted-in-vain": "a message that was received again is deleted by its old receipt",
    # Rejections
    "rejected-malformed": "a body that can never be read is rejected",
    "rejected-too-late": "a message that was sent too late is rejected",
    "rejected-too-far-ahead": "an event that lies too far ahead is rejected",
    "rejected-not-open-when-sent": "a message was sent before its past window was opened",
    "rejected-ts-required": "an event without a time is rejected",
    "rejected-packet-mixed-windows": "a packet over two windows is rejected",
    "rejected-window-sealed": "a message comes after its window was sealed",
    "rejected-unverified": "the same, and the window's table is gone",
    "rejected-id-conflict": "another content is stored under a message's identity",
    "rejected-crashes-writer": "a message that seems to kill writers is rejected",
    "fuse-moved": "the queue's own fuse moves a message",
    # Ids that outlive their windows
    "duplicate-elsewhere": "a duplicate is known by its id, which counts in another window",
    "duplicate-behind-seal": "the same, and its own window is sealed",
    "duplicate-of-dropped": "a message of a dropped window is known by its id, and acknowledged",
    "conflict-elsewhere": "an id is taken by another content in another window",
    "redrive-known-by-id": "a dead letter is deleted, since its id counted in whatever window",
    "identity-contended": "an event whose id is contended is committed apart from others",
    "identities-missing": "the table of identities is not there",
    "identities-throttled": "the table of identities is throttled",
    "identity-deleted": "an identity is deleted, since its time is over",
    "identity-used-again": "an id counts again that was forgotten",
    **RETRACTION_MARKS,
    **HEAT_MARKS,
    # Windows and their states
    "calendar-extended": "windows get another length",
    "months-extended": "windows by the calendar get another length, or others become such",
    "extended-in-vain": "windows get no other length, since another run was faster",
    "created-twice": "a window is created that is there",
    "created-by-an-old-calendar": "a window is refused, since the calendar has changed",
    "past-opened": "a window of the past is opened",
    "spec-stands": "a spec is put that stands already, as another deployment froze it",
    "hot-noted": "a writer notes a hot key",
    "hot-shards": "a window gives a key shards of its own",
    "state-conflict": "a state is written by two runs, and one of them gives way",
    "gate-opened-twice": "a gate is put that stands",
    "gate-not-opened": "a gate is not put, since its window is not being created any more",
    "gate-shut-twice": "a gate is shut that is shut",
    "table-made-twice": "a table is made that is there",
    "table-made-again": "a late roller makes the table of a dropped window",
    "straggler-held": "a note of messages that are about keeps a window open",
    "backlog-misread": "the queue's counts are wrong",
    "closed-by-age": "a window closes while the queue holds newer messages",
    "closed-when-empty": "a window closes, and the queue is empty",
    "sealed-in-slices": "a window is sealed in several slices",
    "seal-resumed": "a sealing goes on in the middle",
    "sealed-empty": "a window without events is sealed",
    "total-put-again": "a total is put that stands",
    "pointer-moved": "the live pointer moves on",
    "pointer-too-late": "the live pointer is not moved, since another run has changed it",
    # Days and months
    "rolled-up-day": "a day is rolled up",
    "rolled-up-again": "a day or month is rolled up that had been before",
    "roll-up-resumed": "a roll-up goes on in the middle, by another run",
    "roll-up-repeated": "sums of a day or month are put that stand",
    "rolled-period-reopened": "a window is opened in a day or month that is rolled up",
    "period-conflict": "a period's state is written by two runs, and one of them gives way",
    "nothing-to-roll-up": "a day or month is settled, since it has one window",
    # Archives
    "attempt-given-up": "an attempt at an archive ends with a problem",
    "attempt-anew": "another attempt is begun",
    "segments-doubled": "an attempt has more segments than the one before",
    "attempt-taken-over": "a run goes on with the attempt of one that was killed or late",
    "export-resumed": "an export goes on where notes of segments stand",
    "exporter-changed": "an attempt is by another exporter than the one before",
    "note-stands": "a run's note of progress is not put, since another run's stands",
    "proven-after-failure": "an archive is proven after another attempt had failed",
    "native-awaited": "DynamoDB's export is not over when it is looked at",
    "native-asked-twice": "DynamoDB's export is begun twice, and is one",
    "native-failed": "DynamoDB's export fails",
    "native-given-up": "an attempt by DynamoDB's export is given up",
    # Redrives
    "claimed": "a dead letter's identity is claimed",
    "claim-moved": "a claim moves to another window",
    "claim-lost": "a claim is not put, since another redrive was faster",
    "redriven-home": "an event is redriven into its own window",
    "redriven-elsewhere": "an event is redriven into another window",
    "redriven-counted": "a redriven event counts",
    "redriven-duplicate": "a redriven event is found a duplicate",
    "redrive-found-counted": "a dead letter is deleted, since its event counted already",
    "redrive-while-closing": "a dead letter is left, since its window is being closed",
    "redrive-unverified": "a dead letter is left, since its window's table is gone",
    "redrive-not-sent": "a dead letter is claimed, and not surely sent",
    "redrive-not-deleted": "a dead letter is sent again, and not deleted",
    # What fails for ever, and was met
    "ill-roller": "the roller runs no more",
    "ill-cleanup": "cleanup runs no more",
    "ill-aggregator": "the aggregator answers no more",
    "ill-writer": "one sandbox of the writer fails whatever it is given",
    "ill-deletion": "one table is never deleted",
    "ill-export": "one table is never exported",
    "ill-letters": "the dead-letter queue takes nothing any more",
    # What the doubles do as AWS does
    "ill-writers-die": "all writers die for minutes",
    "ill-writers-die-often": "most writers die for minutes",
    "ill-writers-held": "for minutes, messages are received and no writer is invoked",
    "ill-catalog-denied": "writers may not reach the catalog for minutes",
    "ill-notes-denied": "writers may note nothing for minutes",
    "flight-full": "the queue delivers nothing, since too much is in flight",
    "cohort": "messages of a killed batch come again together",
    "seen-in-part": "a query sees a transaction in part",
    "old-description": "a table is described as it was a while ago",
    "tardy-write": "a write that was given up is carried out later",
    # Reads
    "read-incomplete": "a count lacks windows, and says so",
    "read-rolled-up": "a count takes days or months",
    "read-from-cache": "a count comes from the cache",
    "ranged-counters": "several keys are counted by one read",
    "ranged-series": "a series is read",
    "ranged-minutes": "a series of minutes is read",
    "ranged-events": "all events of a key in a range are listed, page by page",
    "ranged-archived": "events of dropped windows are listed from their archives",
    "ranged-event": "an event is found by its id somewhere in a range",
    "ranged-keys": "all keys of a range are listed, page by page",
    "ranged-top": "the largest keys of a range are read",
    "ranged-total": "all keys of a range are counted together",
    "looked-up-archived": "a record is asked for whose table is gone",
    "looked-up-absent": "a record is asked for that is not there",
    # Actions of the model, as the real functions take them
    **{mark_of(call): f"the model's action `{call}`, as a function takes it" for call in MAPPED},
}


class Marks:
    """How often each mark was met."""

    def __init__(self, names: Mapping[str, str] = MARKS) -> None:
        self._names = names
        self.met: Counter[str] = Counter()

    def hit(self, name: str) -> None:
        """Count a mark. Raises KeyError if there is none of that name."""
        self._names[name]
        self.met[name] += 1


def never_met(met: Mapping[str, int], names: Mapping[str, str] = MARKS) -> list[str]:
    """The marks that were never met, in their order."""
    return [name for name in names if not met.get(name)]


def table(met: Mapping[str, int], names: Mapping[str, str] = MARKS) -> str:
    """How often each mark was met, a line each."""
    width = max(map(len, names))
    lines = [f"{name:{width}}  {met.get(name, 0):>9,}  {told}" for name, told in names.items()]
    return "\n".join([f"{'mark':{width}}  {'met':>9}", *lines])

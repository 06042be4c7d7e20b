"""Writers that fail for minutes on end, in a world that is otherwise gentle, and are mended then.

Each kind hides messages from the queue's age metric, which leaves out what was received three
times: windows may not close over such a backlog. A minute here is a window, as an hour is on AWS,
and twenty seconds are a visibility timeout.

- `writers-die`: every invocation dies before it does anything (an import error, no memory).
- `writers-die-often`: three of four do.
- `writers-held`: no invocation begins (concurrency zero). The event source receives the messages,
  and they come back after the visibility timeout with a higher receive count.
- `catalog-denied`: the writer may neither read nor write the catalog.
- `notes-denied`: the writer may read the catalog, and note nothing in it.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.simulation.lasting_faults import LastingFault
from tests.simulation.plans import START_MS, Plan

KINDS = ("writers-die", "writers-die-often", "writers-held", "catalog-denied", "notes-denied")
SHARE_OF_SEEDS = 0.1
SINCE_MS_MAX = 150_000
LASTS_MS_MIN, LASTS_MS_MAX = 30_000, 400_000
CYCLE_MS, DYING_MS = 8_000, 6_000  # where they die often
NOTES = ("note_straggler", "note_hot", "note_received", "clear_received", "beat")


def deaths(chance: Random) -> tuple[LastingFault, ...]:
    """What befalls the writers under a seed; mostly nothing."""
    if chance.random() >= SHARE_OF_SEEDS:
        return ()
    kind = KINDS[int(chance.random() * len(KINDS))]
    since = START_MS + int(chance.random() * SINCE_MS_MAX)
    until = since + LASTS_MS_MIN + int(chance.random() * (LASTS_MS_MAX - LASTS_MS_MIN))
    match kind:
        case "writers-die":
            return (LastingFault(kind, "dies", ("writer",), since=since, until=until),)
        case "writers-die-often":
            return tuple(
                LastingFault(kind, "dies", ("writer",), since=at, until=min(at + DYING_MS, until))
                for at in range(since, until, CYCLE_MS)
            )
        case "writers-held":
            return (LastingFault(kind, "held", ("writer",), since=since, until=until),)
        case _:
            verbs = NOTES if kind == "notes-denied" else ()
            return (LastingFault(kind, "denied", ("writer",), "catalog", verbs, since, until),)


def overlapping(plan: Plan) -> Plan:
    """The plan of a seed in which writers die: nothing else goes wrong, so that no message may be
    rejected for a window that closed over it.
    """
    return replace(
        plan, with_fuse=False, poison=False, outages=False, blackout="", deploys=False, gentle=True
    )

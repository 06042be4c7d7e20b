"""Which shards a list of a key's events reads.

A list may pass a shard over only if no event that counted before the list began can lie there. By
the rule `s1`, one transaction stores records and adds to a tally their number and the blocks of
their shards. So if every event that was stored is covered (events + retracted = covered, exactly),
no event lies beyond the blocks; otherwise every shard is read. The tallies are read anew for each
page, consistently, before the shards.
"""

from __future__ import annotations

from collections.abc import Sequence

from tallyroll.errors import Missing, Refused, StoreError
from tallyroll.limits import SHARDS_FEW
from tallyroll.model.specs import Spec
from tallyroll.model.tallies import Tally
from tallyroll.ports.store import Store


def shards_to_list(store: Store, spec: Spec, key: str) -> Sequence[int]:
    """The shards, ascending, that may hold records of a key. Few ones are read without asking the
    tallies, and so are all if these cannot be read. Raises Missing and Refused.
    """
    every = range(1, spec.shards_of(key) + 1)
    if len(every) <= SHARDS_FEW or not spec.own_stripes:
        return every
    if not store.metering_of(spec.table).tallied:
        return every
    try:
        tally = store.tallies(spec, [key])[key]
    except (Missing, Refused):
        raise
    except StoreError:
        return every
    return spec.shards_in(key, tally.blocks) if covers_all(tally) else every


def covers_all(tally: Tally) -> bool:
    """Whether the tally's blocks are those of all events that were stored."""
    return tally.covered == tally.stored

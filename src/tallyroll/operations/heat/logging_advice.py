"""Which hot keys a log would make cheaper, by their tallies and a sample of their records."""

from __future__ import annotations

from collections.abc import Sequence

from tallyroll.limits import LOG_KEYS_MAX, SERIES_SLOTS
from tallyroll.model.items import sized
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.operations.survey import busiest
from tallyroll.planning.alternatives import LogAdvice, ways_of
from tallyroll.planning.facts import ids_seen
from tallyroll.planning.load import ITEM_BYTES
from tallyroll.planning.plan import WRITERS_DEFAULT
from tallyroll.ports.store import Store

SHARDS_SAMPLED, RECORDS_SAMPLED = 4, 5  # of each shard so many


def log_advice(store: Store, spec: Spec, keys: Sequence[str], now: int) -> list[LogAdvice]:
    """The keys of an open window that would gain from a log, those first that gain most. Raises
    StoreError.
    """
    lasted = max(now - spec.start, (spec.end - spec.start) // SERIES_SLOTS) / 1_000
    found = []
    for key, tally in store.tallies(spec, [key for key in keys if key not in spec.logs]).items():
        if not tally.n:
            continue
        sample = _sample(store, spec, key)
        single = [sized(record).size for record in sample if not record.packed]
        size = round(sum(single) / len(single)) - ITEM_BYTES if single else 128
        ways = ways_of(
            tally.n / lasted,
            writers=WRITERS_DEFAULT,
            event_bytes=max(1, size),
            peak=busiest(tally.series, spec),
        )
        found.append(LogAdvice(key, ways, ids_seen(sample)))
    gains = sorted((each for each in found if each.gains), key=lambda each: -each.ways.saved)
    return gains[:LOG_KEYS_MAX]


def _sample(store: Store, spec: Spec, key: str) -> list[Record]:
    shards = range(1, min(spec.shards_of(key), SHARDS_SAMPLED) + 1)
    pages = [store.records(spec, key, shard, "", RECORDS_SAMPLED) for shard in shards]
    return [record for page in pages for record in page.records]

"""Checks of what is read: after a write, in batches, in pages, and under which names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.operations.conform.stage import Broken, Stage, record
from tallyroll.ports.store import Store, Verdict

READERS = 4
IN_TRANSACTION = 98
BATCHED = 130  # more than one BatchGetItem takes
ABSENT = 20
SHORT_PAGE = 7
# Sorted by UTF-8 bytes, which is not the order of UTF-16.
_NAMES = ("a", "a.", "b", "\u00e9", "\ufffd", "\U0001f600")
_KEYS = ("key", "Key", "KEY", "key ", " key", "k\u00e9y", "ke\u0301y", "key.1", "k\u00eay")


def consistent_reads(stage: Stage) -> str:
    """What was written is in each read that begins after it, also through another connection."""
    stale: Counter[str] = Counter()
    readers = [partial(_read_own_writes, stage, number, stale) for number in range(READERS)]
    writes = sum(stage.together(readers))
    if stale:
        counts = ", ".join(f"{times:,} by {kind}" for kind, times in sorted(stale.items()))
        raise Broken(f"after {writes:,} writes, reads did not show the write: {counts}")
    return f"{writes:,} writes, each read by GetItem and Query at once, some by Scan"


def _read_own_writes(stage: Stage, number: int, stale: Counter[str]) -> int:
    """Write and read in turn; how often."""
    turn = -1
    spec, key = stage.placed(shards=1, stripes=1), f"consistent-{number}"
    for turn in stage.turns():
        written = record(spec, key, f"event-{turn:04}")
        stage.commit_new(spec, written)
        if stage.other.record(spec, key, written.id) is None:
            stale["GetItem"] += 1
        page = stage.other.records(spec, key, 1, f"event-{turn - 1:04}" if turn else "", 10)
        if [each.id for each in page.records] != [written.id]:
            stale["Query"] += 1
        if not turn % 10 and not _scanned(stage.other, spec, key, 1)[written.id]:
            stale["Scan"] += 1
    return turn + 1


def _scanned(store: Store, spec: Spec, key: str, segments: int) -> Counter[str]:
    """How often a scan of the table has each record of a key that has one shard."""
    found: Counter[str] = Counter()
    for segment in range(segments):
        for page in store.scan(spec.table, segment, segments):
            ours = (item for item in page if item.pk == f"{key}.1")
            contents = map(store.codec.parse, ours)
            found.update(each.id for each in contents if isinstance(each, Record))
    return found


def batch_get(stage: Stage) -> str:
    """BatchGetItem has every item that exists, also one that was written just before."""
    spec = stage.placed(stripes=BATCHED)
    records = [record(spec, "batched", f"event-{number}") for number in range(BATCHED)]
    for at in range(0, BATCHED, IN_TRANSACTION):
        stage.commit_new(spec, *records[at : at + IN_TRANSACTION])
    names = []
    for turn in stage.turns():
        records.append(record(spec, "batched", f"late-{turn}"))
        stage.commit_new(spec, records[-1])
        names = [(each.key, each.id) for each in records]
        names += [("batched", f"absent-{number}") for number in range(ABSENT)]
        found = stage.other.lookup(spec, names)
        there = sum(1 for name in names[: len(records)] if name in found)
        if there < len(records):
            raise Broken(f"{len(records) - there:,} of {len(records):,} stored items were not read")
        if len(found) > there:
            raise Broken(f"{len(found) - there:,} items were read that are not stored")
        tally = stage.other.tallies(spec, ["batched"])["batched"]
        if tally.n != len(records):
            raise Broken(
                f"{len(records):,} events are counted, and the tallies read say {tally.n:,}"
            )
    return f"batches of up to {len(names):,} keys, each after a write"


def listings(stage: Stage) -> str:
    """Pages are complete and in the order of the sort keys' UTF-8 bytes, and scans are complete."""
    spec, key = stage.placed(shards=1, stripes=40, buckets=1), "listed"
    names = [f"{first}{second}" for first in _NAMES for second in _NAMES]
    for at in range(0, len(names), 50):
        stage.commit_new(spec, *(record(spec, key, name) for name in names[at : at + 50]))
    others = names[::3]  # to have more stripes than a short page takes
    for name in others:
        stage.commit_new(spec, record(spec, f"{key}.{name}", name))
    wanted = sorted(names, key=str.encode)
    for limit in (SHORT_PAGE, len(names) + 1):
        stage.at_last(partial(_records_wrong, stage, spec, key, wanted, limit))
    stage.at_last(partial(_stripes_wrong, stage, spec, key, len(names) + len(others)))
    for segments in (1, 4):
        stage.at_last(partial(_scan_wrong, stage, spec, key, set(names), segments))
    return f"{len(names):,} records in pages of {SHORT_PAGE}, and by scans"


def _records_wrong(stage: Stage, spec: Spec, key: str, wanted: list[str], limit: int) -> str:
    found: list[str] = []
    more = True
    while more and len(found) <= len(wanted):
        page = stage.store.records(spec, key, 1, found[-1] if found else "", limit)
        found += [each.id for each in page.records]
        more = page.more
    return _listing_wrong(found, wanted, str)


def _stripes_wrong(stage: Stage, spec: Spec, key: str, events: int) -> str:
    """What is wrong with a bucket's stripes in short pages, from which sealing makes totals."""
    pages = stage.store.stripes(spec, 1, "", SHORT_PAGE)
    stripes = [stripe for page in pages for stripe in page]
    places = [stripe.place for stripe in stripes]
    counted = sum(each.tally.n for each in stripes if each.tally.key.startswith(key))
    if counted != events:
        return f"a listing of tallies in short pages counts {counted:,} events of {events:,}"
    return _listing_wrong(places, sorted(set(places), key=str.encode), str)


def _listing_wrong(found: list[str], wanted: list[str], shown: Callable[[str], str]) -> str:
    if found == wanted:
        return ""
    if missing := set(wanted) - set(found):
        return f"a query in pages lacks {len(missing):,} of {len(wanted):,} items"
    if len(found) > len(wanted):
        return f"a query in pages has {len(found):,} items of {len(wanted):,}"
    at = next(at for at, name in enumerate(found) if name != wanted[at])
    return f"a query is not in the order of UTF-8 bytes: {shown(ascii(found[at]))} comes too early"


def _scan_wrong(stage: Stage, spec: Spec, key: str, names: set[str], segments: int) -> str:
    found = _scanned(stage.store, spec, key, segments)
    if missing := names - found.keys():
        return f"a scan in {segments} segments lacks {len(missing):,} of {len(names):,} items"
    if any(times > 1 for times in found.values()):
        return f"a scan in {segments} segments has an item twice"
    return ""


def distinct_keys(stage: Stage) -> str:
    """Keys that differ in case, accents or spaces are keys of their own."""
    spec = stage.placed(shards=1, stripes=1)
    for key in _KEYS:
        outcome = stage.commit_settled(spec, record(spec, key, "event"))
        if outcome.verdict is not Verdict.COMMITTED:
            raise Broken(f"the key {key!a} is taken for one of {_KEYS!a}")

    def look() -> str:
        counts = {key: stage.tally(spec, key).n for key in _KEYS}
        wrong = [key for key, n in counts.items() if n != 1]
        return f"the key {wrong[0]!a} counts {counts[wrong[0]]} events, not 1" if wrong else ""

    stage.at_last(look)
    return f"{len(_KEYS)} keys that look alike"

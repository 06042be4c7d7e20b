"""The memory that a proof takes; apart from its other tests, since it takes seconds."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest

from tallyroll.adapters.dynamodb.items import jsonable, record_item, tally_key, tombstone_item
from tallyroll.archive import proof, proof_joining
from tallyroll.archive.indexed import making
from tallyroll.archive.layout import progress_dir
from tallyroll.model.retractions import Tombstone
from tallyroll.model.totals import Total
from tests.harness.pipeline import NOW, WINDOW, record_with
from tests.unit.archive.test_recount import archived, exported, prefix, proven, rewrite

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("retracted", [False, pytest.param(True, marks=pytest.mark.proof)])
def test_memory_does_not_grow_with_the_number_of_keys(
    monkeypatch: pytest.MonkeyPatch, *, retracted: bool
) -> None:
    """The peak of a proof of ten times as many keys, all of them spilled and merged; of each one
    event is left, and perhaps another was retracted.
    """
    monkeypatch.setattr(proof_joining, "WANTED_HELD", 1_000)
    monkeypatch.setattr("tallyroll.model.formats.gzip_members.PART_BYTES_MAX", 16_384)
    monkeypatch.setattr(proof, "HELD_ITEMS", 0)
    monkeypatch.setattr(proof, "SUMS_HELD", 1_000)
    monkeypatch.setattr(making, "ENTRIES_HELD", 1_000)
    monkeypatch.setattr(proof, "DIGESTS_HELD", 1_000)
    monkeypatch.setattr(proof, "PARTITION_ITEMS", 4_000)
    monkeypatch.setattr(proof, "PARTITION_KEYS", 250)
    peaks = []
    for keys in (500, 5_000):
        pipeline, window = exported(events=0)
        spec, totals = pipeline.spec(), {}
        items = archived(pipeline)
        for n in range(keys):
            record = record_with(f"e{n}", f"key-{n:06d}")
            tally = {**tally_key(spec, record.key, 1), "n": {"N": "1"}, "v": {"N": "1"}}
            items += [jsonable(record_item(record)), tally]
            if retracted:
                gone = replace(record, id=f"gone-{n}")
                stone = Tombstone(gone.key, gone.id, 1, NOW, 1, 1_000_000, b"digest", 1, 30, "", "")
                tally |= {"rn": {"N": "1"}, "rv": {"N": "1"}}
                items += [jsonable(record_item(gone)), jsonable(tombstone_item(stone))]
            totals[record.key] = Total(record.key, WINDOW, 1, 1_000_000)
        pipeline.totals.put([*totals.values()])
        if retracted:
            pipeline.totals.put_retracted(WINDOW, dict.fromkeys(totals, (1, 1_000_000)))
        rewrite(pipeline, window, items)
        window = replace(window, keys=keys, events=keys, amount=keys * 1_000_000)
        del items, totals
        tracemalloc.start()
        assert proven(pipeline, window) == (2 + 2 * retracted) * keys + 4
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        spilled = list(pipeline.bucket.list(progress_dir(prefix(window))))
        peaks.append(peak - sum(len(pipeline.bucket.get(key)) for key in spilled))
    assert peaks[1] < 2.5 * peaks[0]

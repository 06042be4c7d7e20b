"""The memory that a proof takes; apart from its other tests, since it takes seconds."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest

from tallyroll.adapters.dynamodb.items import jsonable, record_item, tally_key
from tallyroll.archive import proof
from tallyroll.model.totals import Total
from tests.harness.pipeline import WINDOW, record_with
from tests.unit.archive.test_recount import archived, exported, proven, rewrite

pytestmark = pytest.mark.slow


def test_memory_does_not_grow_with_the_number_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peak of a proof of ten times as many keys, all of them spilled and merged."""
    monkeypatch.setattr("tallyroll.model.formats.gzip_members.PART_BYTES_MAX", 16_384)
    monkeypatch.setattr(proof, "SUMS_HELD", 1_000)
    monkeypatch.setattr(proof, "DIGESTS_HELD", 1_000)
    monkeypatch.setattr(proof, "PARTITION_ITEMS", 4_000)
    monkeypatch.setattr(proof, "PARTITION_KEYS", 250)
    peaks = []
    for keys in (1_000, 10_000):
        pipeline, window = exported(events=0)
        spec, totals = pipeline.spec(), {}
        items = archived(pipeline)
        for n in range(keys):
            record = record_with(f"e{n}", f"key-{n:06d}")
            tally = {**tally_key(spec, record.key, 1), "n": {"N": "1"}, "v": {"N": "1"}}
            items += [jsonable(record_item(record)), tally]
            totals[record.key] = Total(record.key, WINDOW, 1, 1_000_000)
        pipeline.totals.put([*totals.values()])
        rewrite(pipeline, window, items)
        window = replace(window, keys=keys, events=keys, amount=keys * 1_000_000)
        del items, totals
        tracemalloc.start()
        assert proven(pipeline, window) == 2 * keys + 4
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2.5 * peaks[0]

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tallyroll.adapters.dynamodb.items import (
    CODEC,
    Item,
    gate_item,
    jsonable,
    parse_item,
    record_item,
    tally_key,
    tombstone_item,
)
from tallyroll.archive.layout import (
    ArchivedItem,
    data_dir,
    progress_dir,
    proof_key,
    read_files,
    read_summary,
)
from tallyroll.archive.proof import prove
from tallyroll.archive.recount import (
    FINDINGS_KEPT,
    ArchivePass,
    Findings,
    Recount,
    keys_differing_from_totals,
)
from tallyroll.errors import ProofMismatch
from tallyroll.model.retractions import Tombstone
from tallyroll.model.states import Window
from tallyroll.model.tallies import Tally
from tallyroll.model.totals import Total
from tests.harness.archives import line_of, put_file, put_manifests, sealed_and_exported
from tests.harness.pipeline import NOW, WINDOW, Pipeline, hour, record_with

LATER = NOW + 600_000


def exported(events: int = 5, keys: int = 3) -> tuple[Pipeline, Window]:
    """A pipeline whose current window is sealed and exported, and that window's state."""
    return sealed_and_exported(
        {"id": f"e{n}", "key": f"k{n % keys}", "ts": NOW, "value": n} for n in range(events)
    )


def recounted(pipeline: Pipeline, window: Window) -> ArchivePass:
    """The window's archive, read to its end."""
    reading = ArchivePass(pipeline.bucket, prefix(window), CODEC)
    for _ in reading:
        pass
    return reading


def prefix(window: Window) -> str:
    return window.attempt.archive


def proven(pipeline: Pipeline, window: Window, deadline: int = LATER) -> int | None:
    ports = (CODEC, pipeline.bucket, pipeline.totals, pipeline.effects)
    return prove(window, pipeline.spec(), *ports, deadline)


def findings(pipeline: Pipeline, window: Window) -> list[str]:
    """What is wrong, said anew whatever an earlier run has noted."""
    for key in [*pipeline.bucket.list(progress_dir(prefix(window)))]:
        if "segment" not in key:
            del pipeline.bucket._objects[key]
    pipeline.bucket._objects.pop(proof_key(prefix(window)), None)
    try:
        proven(pipeline, window)
    except ProofMismatch as mismatch:
        return mismatch.findings
    return []


def rewrite(pipeline: Pipeline, window: Window, *parts: list[Item], expected: int = 0) -> None:
    """Put another archive in the place of the window's, whole but for what its files hold."""
    for key in [*pipeline.bucket.list(data_dir(prefix(window)))]:
        del pipeline.bucket._objects[key]
    files = [
        put_file(pipeline.bucket, prefix(window), f"000-{number:04d}", items)
        for number, items in enumerate(parts)
    ]
    if expected:
        files = [replace(file, items=expected) for file in files]
    put_manifests(pipeline.bucket, prefix(window), window.table, files, NOW)


def archived(pipeline: Pipeline) -> list[Item]:
    items = pipeline.store.items(pipeline.spec().table).values()
    return [jsonable(item) for item in items]


def test_a_whole_archive_is_proven_and_says_so_beside_it() -> None:
    pipeline, window = exported()
    items = proven(pipeline, window)
    assert items == len(pipeline.store.items(window.table))
    proof = json.loads(pipeline.bucket.get(proof_key(prefix(window))))
    digests = {"dataDigest", "archiveDigest", "compared"}
    assert {name: value for name, value in proof.items() if name not in digests} == {
        "window": WINDOW,
        "table": window.table,
        "attempt": "a1",
        "provenAt": "2026-11-20T08:30:00.000Z",
        "items": items,
        "keys": 3,
        "events": 5,
        "amountMillionths": "10000000",
        "dataDir": data_dir(prefix(window)),
    }


def test_an_empty_window_is_proven_too() -> None:
    assert proven(*exported(events=0)) == 4  # its gates


def test_the_recount_tells_records_tallies_and_gates_apart() -> None:
    pipeline, window = exported()
    counted = recounted(pipeline, window).counted
    assert counted.records == {"k0": (2, 3 * 10**6), "k1": (2, 5 * 10**6), "k2": (1, 2 * 10**6)}
    assert counted.tallies == counted.records
    assert (counted.gates_shut, counted.gates_open) == (4, 0)


def test_all_sums_of_a_recount_take_memory() -> None:
    one, two = {"a": (1, 1)}, {"a": (1, 1), "b": (1, 1)}
    assert [Recount(one, two).held, Recount(chunks=one, declared=two).held] == [3, 3]


def test_an_archive_taken_before_the_window_was_sealed() -> None:
    pipeline, window = exported()
    rewrite(pipeline, window, [*archived(pipeline)[4:], *(gate_item(n) for n in range(1, 5))])
    assert "gates: 0 shut and 4 open" in findings(pipeline, window)[0]


@pytest.mark.parametrize("kind", ["e#", "t#"])
def test_an_archive_that_lacks_an_item(kind: str) -> None:
    pipeline, window = exported()
    items = archived(pipeline)
    items.remove(next(item for item in items if item["sk"]["S"].startswith(kind)))
    rewrite(pipeline, window, items)
    assert any("(events, amount)" in finding for finding in findings(pipeline, window))
    with pytest.raises(ProofMismatch):
        proven(pipeline, window)
    assert proof_key(prefix(window)) not in pipeline.bucket.list("")


def test_an_archive_that_holds_too_much() -> None:
    pipeline, window = exported()
    stranger = jsonable(record_item(record_with("late", "k9")))
    rewrite(pipeline, window, [*archived(pipeline), stranger])
    by_records, by_key = findings(pipeline, window)
    assert "by records (4, 6, 11000000), when sealed (3, 5, 10000000)" in by_records
    assert "key 'k9'" in by_key


def test_a_tombstone_that_nothing_joins_to_its_record() -> None:
    """Records, tallies and totals do not agree, be the tallies net or not."""
    pipeline, window = exported()
    gone = Tombstone("k0", "e0", 1, NOW, 1, 0, b"d", 1, 30, "ann", "")
    tallies = [item for item in archived(pipeline) if item["sk"]["S"].startswith("t#k0")]
    net = {**tallies[0], "n": {"N": str(int(tallies[0]["n"]["N"]) - 1)}, "rn": {"N": "1"}}
    rest = [item for item in archived(pipeline) if item != tallies[0]]
    rewrite(pipeline, window, [*rest, net, jsonable(tombstone_item(gone))])
    assert any("key 'k0'" in finding for finding in findings(pipeline, window))


def test_a_total_that_is_missing_or_different() -> None:
    pipeline, window = exported()
    (k0, *others) = pipeline.totals.listed()
    for totals in ([], [replace(k0, n=k0.n + 1)], [replace(k0, amount=0)]):
        pipeline.totals._totals.clear()
        pipeline.totals.put([*others, *totals])
        assert [f"key {k0.key!r}" in finding for finding in findings(pipeline, window)] == [True]


def test_totals_of_other_windows_do_not_matter() -> None:
    pipeline, window = exported()
    pipeline.totals.put([Total("k0", hour(7), 1, 1), Total("k9", hour(7), 1, 1)])
    assert findings(pipeline, window) == []


@pytest.mark.parametrize("name", ["keys", "events", "amount"])
def test_what_was_noted_at_sealing_must_agree(name: str) -> None:
    pipeline, window = exported()
    changed = replace(window, **{name: getattr(window, name) + 1})
    assert len(findings(pipeline, changed)) == 1


def test_many_keys_are_read_from_the_totals_in_parts() -> None:
    counted = Recount()
    for n in range(250):
        counted.add(record_with("e", f"k{n}"))
    assert len(list(keys_differing_from_totals(WINDOW, counted, Pipeline().totals))) == 250


def test_a_key_that_differs_is_told_by_its_records_tallies_and_total() -> None:
    counted, totals = Recount(), Pipeline().totals
    for key in ("a", "b"):
        counted.add(record_with("e", key))
    counted.add(Tally("b", 1, 1_000_000))
    [of_a] = keys_differing_from_totals(WINDOW, counted, None)
    assert of_a == "key 'a': (events, amount) {'records': (1, 1000000), 'tallies': None}"
    totals.put([Total("a", WINDOW, 2, 5)])
    of_b = of_a.replace("'a'", "'b'").replace("None}", "(1, 1000000), 'total': None}")
    assert [*keys_differing_from_totals(WINDOW, counted, totals)] == [
        of_a.replace("}", ", 'total': (2, 5)}"),
        of_b,
    ]


def test_a_reading_passes_over_what_is_none_of_ours_and_says_where_all_stands() -> None:
    pipeline, window = exported()
    stranger: Item = {"pk": {"S": "x"}, "sk": {"S": "y"}}
    record = jsonable(record_item(record_with()))
    gate = jsonable(gate_item(1))
    rewrite(pipeline, window, [record, stranger, gate])
    reading = ArchivePass(pipeline.bucket, prefix(window), CODEC)
    assert (reading.expected, reading.data_dir) == (None, "")
    key = f"{data_dir(prefix(window))}000-0000.json.gz"
    assert [*reading] == [
        ArchivedItem(CODEC.decode(line_of(record)), parse_item(record), key, 1, 0),
        ArchivedItem(CODEC.decode(line_of(gate)), parse_item(gate), key, 3, 0),
    ]
    assert (reading.expected, reading.data_dir) == (3, data_dir(prefix(window)))
    [finding] = reading.findings.first
    assert finding.startswith(f"{key} line 2: ")


def test_findings_are_all_counted_and_the_first_kept() -> None:
    findings = Findings()
    for n in range(FINDINGS_KEPT + 2):
        findings.add(f"finding {n}")
        assert findings.count == n + 1
    assert findings.first == [f"finding {n}" for n in range(FINDINGS_KEPT)]


def test_a_recount_tells_all_that_is_wrong() -> None:
    pipeline, window = exported()
    keys = [key for key in pipeline.bucket.list("") if "data/" in key]
    for key in keys:
        del pipeline.bucket._objects[key]
    reading = recounted(pipeline, window)
    assert sorted(reading.findings.first) == [f"{key}: missing" for key in keys]
    assert len(keys) == 2


# --- files against manifests


def test_the_summary_must_agree_with_the_files() -> None:
    pipeline, window = exported()
    files = read_files(pipeline.bucket, read_summary(pipeline.bucket, prefix(window)))
    put_manifests(pipeline.bucket, prefix(window), window.table, files[:1], NOW)
    key = f"{prefix(window)}/AWSDynamoDB/a1/manifest-summary.json"
    summary = json.loads(pipeline.bucket.get(key))
    pipeline.bucket.put(key, json.dumps({**summary, "itemCount": 9}).encode())
    with pytest.raises(ProofMismatch, match="the summary says 9"):
        proven(pipeline, window)


def test_a_wrong_count_of_a_file() -> None:
    pipeline, window = exported()
    rewrite(pipeline, window, archived(pipeline), expected=1)
    with pytest.raises(ProofMismatch, match="the manifest says 1"):
        proven(pipeline, window)


@pytest.mark.parametrize("which", ["data/", "manifest-files", "manifest-summary"])
def test_a_missing_object(which: str) -> None:
    pipeline, window = exported()
    for key in [key for key in pipeline.bucket.list("") if which in key]:
        del pipeline.bucket._objects[key]
    with pytest.raises(ProofMismatch, match="missing"):
        proven(pipeline, window)


def test_a_truncated_file() -> None:
    pipeline, window = exported()
    key = next(key for key in pipeline.bucket.list("") if "data/" in key)
    pipeline.bucket.put(key, pipeline.bucket.get(key)[:-1])
    with pytest.raises(ProofMismatch, match="truncated"):
        proven(pipeline, window)


def test_an_item_that_is_none_of_ours() -> None:
    pipeline, window = exported()
    stranger: Item = {"pk": {"S": "x"}, "sk": {"S": "y"}}
    rewrite(pipeline, window, [*archived(pipeline), stranger])
    with pytest.raises(ProofMismatch, match="neither a record, a chunk, a tombstone, a tally nor"):
        proven(pipeline, window)


def test_an_item_that_is_no_object() -> None:
    pipeline, window = exported()
    rewrite(pipeline, window, [*archived(pipeline), None])  # type: ignore[list-item]
    with pytest.raises(ProofMismatch):
        proven(pipeline, window)


def test_a_tally_may_be_spread_over_stripes_and_buckets() -> None:
    pipeline, _ = exported()
    spec = pipeline.spec()
    parts = {tally_key(spec, "k0", stripe)["pk"]["S"] for stripe in range(1, 9)}
    assert len(parts) > 1

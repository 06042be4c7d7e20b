from __future__ import annotations

import gzip
import json
import re
import zlib
from dataclasses import replace

import pytest

from tallyroll.adapters.dynamodb.items import CODEC, gate_item
from tallyroll.adapters.memory import MemoryBucket
from tallyroll.archive.inventory import best, find, named, pipeline_prefix
from tallyroll.archive.layout import parse_prefix, prefix_of, proof_key, summary_key
from tallyroll.archive.recount import FINDINGS_KEPT
from tallyroll.archive.verification import ArchiveReading
from tallyroll.errors import Missing, UsageError
from tallyroll.model.events import Event, decode
from tallyroll.model.formats.payloads import FORMAT_PACKET
from tallyroll.model.records import Record
from tallyroll.model.stored import event_line, events_of
from tallyroll.model.totals import Total
from tallyroll.model.windows import window_start
from tests.harness.archives import EVENTS, PACKED, SINGLES, archived, event_of
from tests.harness.pipeline import NOW, WINDOW, StillEffects, hour, record_with

EFFECTS = StillEffects()

# --- what is there


def test_a_proven_archive_shows_what_its_proof_says() -> None:
    whole = archived()
    archive = whole.archive()
    assert archive.place == parse_prefix(whole.prefix)
    assert archive.place.window == WINDOW
    assert archive.complete
    assert archive.proven
    assert archive.items == len(whole.pipeline.store.items(whole.window.table))
    assert archive.proof
    assert (archive.proof.keys, archive.proof.events) == (3, 9)
    assert archive.proof.amount == whole.window.amount == 5_000_004
    assert archive.exported_at == archive.proof.proven_at == "2026-11-20T08:30:00.000Z"
    assert archive.size == sum(map(len, whole.bucket._objects.values()))
    assert archive.data_prefix == f"{whole.prefix}/AWSDynamoDB/a1/data/"


def test_an_export_without_a_proof_or_without_an_end() -> None:
    complete = archived(proven=False)
    archive = complete.archive()
    assert archive.complete
    assert not archive.proven
    complete.remove(summary_key(complete.prefix))
    archive = complete.archive()
    assert not archive.complete
    assert (archive.items, archive.data_prefix) == (None, None)


@pytest.mark.parametrize("name", ["proof.json", "manifest-summary.json"])
def test_a_damaged_proof_or_summary_is_told_and_ends_no_listing(name: str) -> None:
    whole = archived()
    [key] = [key for key in whole.bucket.list("") if key.endswith(name)]
    whole.bucket.put(key, b"{}")
    problem = whole.archive().problem
    assert problem
    assert "malformed" in problem
    assert key in problem
    assert not whole.archive().proven


def empty(bucket: MemoryBucket, window: str, attempt: str, *names: str) -> str:
    prefix = prefix_of("tallyroll", window, attempt)
    for name in names:
        bucket.put(f"{prefix}/{name}", b"{}")
    return prefix


def test_of_several_attempts_the_proven_one_counts() -> None:
    whole = archived(attempt="a2")
    data = "AWSDynamoDB/x/data/000-0000.json.gz"
    first = empty(whole.bucket, WINDOW, "a1", data)
    last = empty(whole.bucket, WINDOW, "a3", data, "AWSDynamoDB/x/manifest-summary.json")
    other = empty(whole.bucket, hour(9), "a1", data)
    found = find(whole.bucket, EFFECTS, pipeline_prefix("tallyroll"))
    assert [archive.prefix for archive in found] == [first, whole.prefix, last, other]
    assert [archive.complete for archive in found] == [False, True, True, False]
    assert [archive.prefix for archive in best(found)] == [whole.prefix, other]
    assert best(found[:1]) == found[:1]
    assert best([found[2], found[0]]) == [found[2]]


def test_other_objects_are_no_archives() -> None:
    whole = archived()
    for key in (
        "rejected/x/y",
        "archive/tallyroll/readme",
        f"archive/tallyroll-b/date=2026-11-20/hour=08/{WINDOW}/a1/proof.json",
        "archive/tallyroll/date=2026-11-20/hour=08/no-window/a1/proof.json",
        f"archive/tallyroll/date=2026-11-20/hour=08/{WINDOW}/notes",
    ):
        whole.bucket.put(key, b"")
    found = find(whole.bucket, EFFECTS, pipeline_prefix("tallyroll"))
    assert [archive.prefix for archive in found] == [whole.prefix]


def test_a_range_of_windows() -> None:
    bucket = MemoryBucket()
    for number in (0, 8, 9, 23, 24, 50):
        empty(bucket, hour(number), "a1", "AWSDynamoDB/x/_started")

    def found(since: int | None, until: int | None) -> list[str]:
        prefix = pipeline_prefix("tallyroll", since, until)
        return [each.place.window for each in find(bucket, EFFECTS, prefix, since, until)]

    starts = {number: window_start(hour(number)) for number in range(60)}
    assert found(None, None) == [hour(n) for n in (0, 8, 9, 23, 24, 50)]
    assert found(starts[8], starts[23]) == [hour(8), hour(9)]
    assert found(starts[9], starts[25]) == [hour(9), hour(23), hour(24)]
    assert found(starts[24], None) == [hour(24), hour(50)]
    assert found(None, starts[8]) == [hour(0)]


@pytest.mark.parametrize(
    ("since", "until", "prefix"),
    [
        (8, 9, "archive/votes/date=2026-11-20"),
        (8, 30, "archive/votes/date=2026-11-2"),
        (8, 24 * 40, "archive/votes/date=2026-1"),
    ],
)
def test_a_range_of_dates_is_listed_by_what_they_share(since: int, until: int, prefix: str) -> None:
    times = [window_start(hour(number)) for number in (since, until)]
    assert pipeline_prefix("votes", *times) == prefix
    assert pipeline_prefix("votes", times[0]) == "archive/votes/"


def test_an_archive_by_window_and_by_prefix() -> None:
    whole = archived(attempt="a2")
    given_up = empty(whole.bucket, WINDOW, "a3", "AWSDynamoDB/a3/data/000-0000.json.gz")

    def prefix(name: str) -> str:
        return named(whole.bucket, EFFECTS, "tallyroll", name).prefix

    assert prefix(WINDOW) == prefix(whole.prefix) == prefix(f"{whole.prefix}/") == whole.prefix
    assert prefix(f"s3://memory/{given_up}") == given_up
    for absent in (hour(9), whole.prefix[:-1], whole.prefix + "2"):
        with pytest.raises(Missing, match="there is no archive under"):
            prefix(absent)
    for wrong in ("yesterday", "archive/tallyroll", "", "/"):
        with pytest.raises(UsageError):
            prefix(wrong)


# --- verified again


def test_a_proven_archive_is_found_whole_again() -> None:
    whole = archived()
    verification = whole.verified(whole.pipeline.totals)
    assert verification.findings.first == []
    assert {key: n for key, (n, _) in verification.counted.records.items()} == EVENTS
    assert verification.counted.sums == (9, 5_000_004)


def test_an_export_by_dynamodb_itself_is_read_as_well() -> None:
    native = archived()
    export_id = "01234567890123-a1b2c3d4"
    for key in list(native.bucket.list(native.prefix)):
        body = native.bucket.get(key)
        moved = key.replace("/AWSDynamoDB/a1/", f"/AWSDynamoDB/{export_id}/")
        native.remove(key)
        native.bucket.put(
            moved, body.replace(b"/AWSDynamoDB/a1/", f"/AWSDynamoDB/{export_id}/".encode())
        )
    directory = f"{native.prefix}/AWSDynamoDB/{export_id}"
    for name in ("_started", "manifest-summary.checksum", "manifest-files.checksum"):
        native.bucket.put(f"{directory}/{name}", b"")
    key = f"{directory}/manifest-summary.json"
    said = json.loads(native.bucket.get(key))
    del said["tableName"]
    said["tableArn"] = f"arn:aws:dynamodb:us-east-1:123456789012:table/{native.window.table}"
    native.bucket.put(key, json.dumps(said).encode())

    assert native.archive().data_prefix == f"{directory}/data/"
    assert native.findings() == []


def test_a_missing_file() -> None:
    whole = archived()
    file = whole.files()[0]
    whole.remove(file.key)
    first, *others = whole.findings()
    assert first == f"{file.key}: missing"
    assert any("key 'k" in finding for finding in others)


def test_a_truncated_file_is_read_as_far_as_it_goes() -> None:
    whole = archived(segments=1)
    [file] = whole.files()
    whole.change(file.key, lambda body: body[:-1])
    first, *others = whole.findings()
    assert re.fullmatch(
        rf"{file.key} line {file.items + 1}: .*part 1 of the gzip data is truncated.*", first
    )
    assert others == []


def test_every_flipped_byte_of_a_data_file_is_found() -> None:
    whole = archived(segments=1)
    [file] = whole.files()
    body = whole.bucket.get(file.key)
    for at in range(len(body)):
        whole.bucket.put(file.key, body[:at] + bytes([body[at] ^ 0x20]) + body[at + 1 :])
        assert any(finding.startswith(file.key) for finding in whole.findings()), at
    whole.bucket.put(file.key, body)
    assert whole.findings() == []


def test_a_wrong_count_of_a_file_and_of_the_summary() -> None:
    whole = archived(segments=1)
    [file] = whole.files()
    [manifest] = [key for key in whole.bucket.list("") if key.endswith("manifest-files.json")]
    said = f'"itemCount": {file.items}'.encode()
    whole.change(manifest, lambda body: body.replace(said, b'"itemCount": 7'))
    assert whole.findings() == [
        f"7 items in the files, the summary says {file.items}",
        f"{file.key}: {file.items} items, the manifest says 7",
    ]
    whole.change(manifest, lambda body: body.replace(b'"itemCount": 7', said))
    whole.change_summary(itemCount=8)
    assert whole.findings() == [f"{file.items} items in the files, the summary says 8"]


def test_an_export_that_did_not_end() -> None:
    whole = archived()
    whole.remove(summary_key(whole.prefix))
    [finding] = whole.findings()
    assert "manifest missing" in finding
    assert "manifest-summary.json" in finding
    assert "not finished" in finding


def test_an_export_of_another_table() -> None:
    whole = archived()
    whole.change_summary(tableName=f"tallyroll-{hour(7)}")
    [finding] = whole.findings()
    assert f"an export of the table 'tallyroll-{hour(7)}', not of 'tallyroll-{WINDOW}'" in finding


def test_lines_that_are_no_items_of_ours_are_named_and_the_rest_is_counted() -> None:
    whole = archived(segments=1)
    [file] = whole.files()
    lines = gzip.decompress(whole.bucket.get(file.key)).splitlines()
    lines[1:1] = [b"no JSON", b'{"Item": {"pk": {"S": "x"}, "sk": {"S": "y"}}}']
    whole.bucket.put(file.key, gzip.compress(b"\n".join(lines)))
    findings = whole.findings()
    assert findings[0].startswith(f"{file.key} line 2: unreadable: Expecting")
    assert findings[1].startswith(f"{file.key} line 3: item {{'S': 'x'}}/{{'S': 'y'}} is neither")
    assert findings[2].startswith(f"{file.key}: {file.items + 2} items, the manifest says")
    assert findings[3].startswith(f"{file.key}: MD5 ")
    assert len(findings) == 4
    assert whole.verified().counted.sums[0] == 9


@pytest.mark.parametrize("kind", ["e#", "t#"])
def test_a_lost_record_and_a_lost_tally_are_found_by_key(kind: str) -> None:
    whole = archived()
    items = whole.items()
    items.remove(next(item for item in items if item["sk"]["S"].startswith(f"{kind}")))
    whole.rewrite(items)
    findings = whole.findings()
    assert [finding.startswith("key 'k") for finding in findings].count(True) == 1
    assert "when proven" in findings[-1]


def test_gates_that_stand_open() -> None:
    whole = archived()
    items = [item for item in whole.items() if "open" not in item]
    whole.rewrite([*items, gate_item(1)])
    assert "0 shut and 1 open" in whole.findings()[0]
    whole.rewrite(items)
    assert "0 shut and 0 open" in whole.findings()[0]


def test_a_proof_that_says_something_else() -> None:
    whole = archived()
    key = proof_key(whole.prefix)
    whole.change(key, lambda body: body.replace(b'"events": 9', b'"events": 8'))
    [finding] = whole.findings()
    assert "when proven (" in finding
    whole.bucket.put(key, b"[]")
    [finding] = whole.findings()
    assert "proof malformed" in finding


def test_totals_that_say_something_else() -> None:
    whole = archived()
    totals = whole.pipeline.totals
    [k0] = totals.of_window(WINDOW, ["k0"]).values()
    totals._totals.clear()
    totals.put([replace(k0, n=k0.n + 1), Total("k1", WINDOW, 2, 2_500_000)])
    assert whole.findings() == []
    found = whole.findings(totals)
    assert [finding[:8] for finding in found] == ["key 'k0'", "key 'k2'"]
    assert "'total': None" in found[1]


def test_all_differences_are_counted_and_the_first_are_kept() -> None:
    whole = archived(segments=1)
    [file] = whole.files()
    whole.bucket.put(file.key, gzip.compress(b"{}\n" * (FINDINGS_KEPT + 50)))
    findings = whole.verified().findings
    assert findings.first[0].startswith(f"{file.key} line 1: ")
    assert len(findings.first) == FINDINGS_KEPT
    assert findings.count == FINDINGS_KEPT + 50 + 4  # items, MD5, gates, proof


def test_a_file_that_unpacks_a_thousandfold_is_held_in_parts() -> None:
    whole = archived(segments=1)
    [file] = whole.files()
    whole.bucket.put(file.key, gzip.compress(b" " * (64 * 1024 * 1024)))
    first, *_ = whole.findings()
    assert "a line over 1048576 bytes" in first


# --- events


def unpacked() -> list[Event]:
    whole = archived()
    reading = ArchiveReading(whole.bucket, whole.archive(), CODEC)
    records = [found.holds for found in reading if isinstance(found.holds, Record)]
    lines = [event_line(record.key, event) for record in records for event in events_of(record)]
    decoded = map(decode, lines)
    return [event for event in decoded if isinstance(event, Event)]


def test_what_was_sent_is_read_again() -> None:
    events = sorted(unpacked(), key=lambda event: str(event.id))
    packed = [{**event, "id": f"p1:{index}"} for index, event in enumerate(PACKED)]
    assert events == [event_of(event) for event in [*SINGLES, *packed]]


def test_values_are_written_exactly() -> None:
    record = record_with(amount=123_456_789_012_345_678_000_001)
    [event] = events_of(record)
    line = event_line("k", event)
    assert '"value":123456789012345678.000001' in line
    assert decode(line) == Event("k", "e1", NOW, record.amount, None)


@pytest.mark.parametrize(
    ("data", "n", "amount", "wrong"),
    [
        (None, 1, 0, "cannot be unpacked"),
        (b"no zlib", 1, 0, "cannot be unpacked"),
        (zlib.compress(b"no JSON"), 1, 0, "cannot be unpacked"),
        (zlib.compress(b"7"), 1, 0, "cannot be unpacked"),
        (zlib.compress(b'[1, [[0, "x", null]]]'), 1, 0, "cannot be unpacked"),
        (zlib.compress(b'[1, [[0, "1", null]]]'), 2, 10**6, "its data"),
        (zlib.compress(b'[1, [[0, "1", null]]]'), 1, 10**6 + 1, "its data"),
    ],
)
def test_a_damaged_packet(data: bytes | None, n: int, amount: int, wrong: str) -> None:
    packet = record_with("p1", n=n, amount=amount, data=data, format=FORMAT_PACKET)
    with pytest.raises(ValueError, match=f"record 'p1' .*{wrong}"):
        events_of(packet)


def test_a_payload_that_is_no_text() -> None:
    with pytest.raises(ValueError, match="record 'e1' cannot be unpacked"):
        events_of(record_with(data=b"\xff", format="json"))

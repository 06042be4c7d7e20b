"""Large payloads over an update and a rollback: the release before, from its own sources, beside
this code.
"""

from __future__ import annotations

import json
import os
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tallyroll.adapters.directory import DirectoryBucket
from tallyroll.adapters.dynamodb.items import parse_item, record_item
from tallyroll.model.events import decode
from tallyroll.model.messages import Message
from tallyroll.model.records import Record, record_of
from tallyroll.model.specs import IdentityScope
from tallyroll.model.stored import StoredEvent, stored
from tests.harness.archives import Archived, sealed_and_exported
from tests.harness.payloads import noise
from tests.harness.pipeline import NOW, SMALL, opened, spec_of
from tests.harness.processes import ran
from tests.harness.release import ARCHIVE, CODE

SIZES = {"small": 900, "compressed": 9_000, "chunked": 120_000, "huge": 900_000}
BODIES = [
    json.dumps({"id": name, "key": "k", "ts": NOW, "payload": noise(size)})
    for name, size in SIZES.items()
]
REFERRING = json.dumps({"v": 2, "key": "k", "id": "r", "payload_ref": {}})
PROGRAM = """
import json, sys
from dataclasses import fields, replace
from pathlib import Path
from tallyroll.adapters.directory import DirectoryBucket
from tallyroll.adapters.dynamodb.items import CODEC, jsonable, record_item
from tallyroll.archive.recount import Reading
from tallyroll.errors import Rejected, UsageError
from tallyroll.model.events import decode
from tallyroll.model.messages import Message
from tallyroll.model.records import Record, record_of
from tallyroll.model.specs import Spec
from tallyroll.model.stored import stored

folder, prefix, facts, bodies, referring, suffix = json.load(sys.stdin)
known = [each.name for each in fields(Spec)]
spec, told = Spec(**{name: of for name, of in facts.items() if name in known}), {}
told["items"] = [
    jsonable(record_item(record_of(decode(body), Message("m", body, spec.start, 1, ""), spec)))
    for body in bodies
]
reading = Reading(DirectoryBucket(Path(folder)), prefix, CODEC)
told["read"] = {}
for found in reading:
    if isinstance(found.holds, Record):
        try:
            told["read"][found.holds.id] = stored(found.holds).payload
        except ValueError as error:
            told["read"][found.holds.id] = type(error).__name__
told["records"], told["tallies"] = reading.counted.records, reading.counted.tallies
told["findings"] = reading.findings.count, reading.findings.first
try:
    replace(spec, suffix=suffix).shard("k", "e")
except UsageError as error:
    told["placing"] = str(error)
try:
    decode(referring)
except Rejected as rejected:
    told["referring"] = rejected.reason
json.dump(told, sys.stdout)
"""


@pytest.fixture(scope="module")
def archived() -> Archived:
    return Archived(*sealed_and_exported(BODIES))


@pytest.fixture(scope="module")
def before(archived: Archived, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the release before makes of this code's archive, and of the same messages."""
    folder = tmp_path_factory.mktemp("release")
    with tarfile.open(ARCHIVE) as tar:
        tar.extractall(folder, filter="data")
    copy = folder / "copy"
    for key in archived.bucket.list(""):
        DirectoryBucket(copy).put(key, archived.bucket.get(key))
    spec, ruled = spec_of(), opened(replace(SMALL, identity=IdentityScope.KEY)).spec()
    facts = {name: getattr(spec, name) for name in spec.__slots__ if name != "hot"}
    done = ran(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([str(copy), archived.prefix, facts, BODIES, REFERRING, ruled.suffix]),
        env={**os.environ, "PYTHONPATH": str(Path(folder) / CODE)},
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_what_it_stored_is_read_and_recognised(before: dict[str, Any]) -> None:
    """Its records have the place and the digest of this code's, whatever the size."""
    spec = spec_of()
    for body, item in zip(BODIES, before["items"], strict=True):
        found = parse_item(item)
        assert isinstance(found, Record)
        event = stored(found)
        assert isinstance(event, StoredEvent)
        assert json.loads(event.payload or "") == json.loads(body)["payload"]
        own = record_of(decode(body), Message("m", body, spec.start, 1, ""), spec)
        assert (own.key, own.id, own.shard, own.digest) == (
            found.key,
            found.id,
            found.shard,
            found.digest,
        )
        small = json.loads(body)["id"] == "small"
        assert (own.slot, found.slot, found.stripe, found.keys) == (30, None, None, ())
        assert (parse_item(record_item(replace(own, slot=None))) == found) is small


def test_it_counts_what_this_code_stored_and_takes_no_chunk_for_a_record(
    before: dict[str, Any],
) -> None:
    assert before["records"] == before["tallies"] == {"k": [4, 4_000_000]}


def test_it_shows_no_payload_that_is_not_the_events(before: dict[str, Any]) -> None:
    assert json.loads(before["read"].pop("small")) == noise(SIZES["small"])
    assert before["read"] == dict.fromkeys(("compressed", "chunked", "huge"), "UnicodeDecodeError")


def test_it_does_not_prove_a_window_with_chunks_so_it_cannot_drop_it(
    before: dict[str, Any], archived: Archived
) -> None:
    chunks = sum(item["sk"]["S"].startswith("c#") for item in archived.items())
    count, first = before["findings"]
    assert count == chunks > 50
    assert all("is neither a record, a tally nor a gate" in finding for finding in first)
    assert archived.findings(archived.pipeline.totals) == []


def test_it_refuses_a_reference_and_does_not_lose_the_payload(before: dict[str, Any]) -> None:
    """A redrive counts the event, once this code is back."""
    assert before["referring"] == "unknown-version"


def test_it_places_nothing_in_a_window_in_which_ids_count_once_beyond_it(
    before: dict[str, Any],
) -> None:
    """So its writer hands the messages back: it would not put their identities."""
    assert "calculated+s1+id1" in before["placing"]

"""Retractions over an update and a rollback: the release before, from its own sources, continues
what this code began, and this code what it left.
"""

from __future__ import annotations

import json
import os
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tallyroll.adapters.directory import DirectoryBucket
from tallyroll.archive.layout import progress_dir
from tallyroll.archive.notes import ReadNote, note_body, parse_note
from tallyroll.lifecycle.sealing import Sealing, seal
from tests.harness.archives import Archived, archived
from tests.harness.processes import ran
from tests.harness.release import ARCHIVE, CODE
from tests.harness.retracted_archives import RETRACTIONS, retracted_archive

PROGRAM = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from tallyroll.adapters.directory import DirectoryBucket
from tallyroll.adapters.dynamodb.items import CODEC
from tallyroll.archive.notes import ReadNote, parse_note
from tallyroll.archive.recount import Reading
from tallyroll.errors import ProofMismatch
from tallyroll.lifecycle.sealing import Sealing

folder, prefix, progress, notes = json.load(sys.stdin)
reading, told = Reading(DirectoryBucket(Path(folder)), prefix, CODEC), {"notes": []}
for _ in reading:
    pass
told["findings"] = reading.findings.first
told["sealings"] = [Sealing.parse(text).text() for text in progress]
for note in notes:
    try:
        told["notes"].append(asdict(parse_note(ReadNote, "note", note.encode())))
    except ProofMismatch as mismatch:
        told["notes"].append(str(mismatch))
json.dump(told, sys.stdout)
"""


@pytest.fixture(scope="module")
def retracted() -> Archived:
    return retracted_archive()


@pytest.fixture(scope="module")
def sealings(retracted: Archived) -> list[Sealing]:
    """The progress of sealing the window again, and one with a key that is begun."""
    pipeline = retracted.pipeline
    ports = (pipeline.store, pipeline.totals, pipeline.effects)
    found = [*seal(pipeline.spec(), *ports, Sealing())]
    assert any(any(of.retracted) for each in found for of in each.begun)
    return found


@pytest.fixture(scope="module")
def notes(retracted: Archived) -> list[ReadNote]:
    """A note of an archive without tombstones, and one with them."""
    return [note_of(archived()), note_of(retracted)]


def note_of(archive: Archived) -> ReadNote:
    keys = archive.bucket.list(progress_dir(archive.prefix))
    key = next(key for key in keys if "proof-" in key)
    return parse_note(ReadNote, key, archive.bucket.get(key))


@pytest.fixture(scope="module")
def before(
    retracted: Archived,
    sealings: list[Sealing],
    notes: list[ReadNote],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Any]:
    """What the release before makes of all that."""
    folder = tmp_path_factory.mktemp("release")
    with tarfile.open(ARCHIVE) as tar:
        tar.extractall(folder, filter="data")
    copy = folder / "copy"
    for key in retracted.bucket.list(""):
        DirectoryBucket(copy).put(key, retracted.bucket.get(key))
    texts = [each.text() for each in sealings]
    bodies = [note_body(note).decode() for note in notes]
    done = ran(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([str(copy), retracted.prefix, texts, bodies]),
        env={**os.environ, "PYTHONPATH": str(Path(folder) / CODE)},
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_it_proves_no_archive_with_tombstones(before: dict[str, Any]) -> None:
    """So nothing is dropped after a rollback, and no note of its own hides one."""
    unknown = [each for each in before["findings"] if "neither a record" in each]
    tombstones = [each for each in unknown if "'r#" in each or "'p#" in each]
    assert len(tombstones) == len(RETRACTIONS) + 1, "one of them was of two keys"


def test_it_continues_a_sealing_and_this_code_one_of_its_own(
    before: dict[str, Any], sealings: list[Sealing]
) -> None:
    for text, own in zip(before["sealings"], sealings, strict=True):
        assert Sealing.parse(text) == Sealing.parse(own.text())
        assert (own.events, own.amount) == (Sealing.parse(text).events, Sealing.parse(text).amount)


def test_it_goes_on_with_a_note_without_tombstones_alone(
    before: dict[str, Any], notes: list[ReadNote]
) -> None:
    plain, with_tombstones = before["notes"]
    assert plain["items"] == notes[0].items
    assert "note damaged" in with_tombstones

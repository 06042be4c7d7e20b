"""A small window has few objects, and its proof goes on where a run had not the time to end it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tallyroll.adapters.dynamodb.items import CODEC
from tallyroll.adapters.memory import MemoryBucket
from tallyroll.archive import proof
from tallyroll.archive.layout import progress_dir
from tallyroll.archive.notes import HeldNotes
from tallyroll.archive.proof import prove
from tallyroll.archive.scan_export import segments_for
from tallyroll.errors import ProofMismatch
from tallyroll.settings import Settings
from tests.harness.archives import Archived, archived, as_archived, sealed_and_exported
from tests.harness.pipeline import NOW, SMALL
from tests.harness.retracted_archives import bodies

LATER = NOW + 60_000
OBJECTS_MAX = 5


def exported(events: int = 9_999) -> Archived:
    """A window of so many events, exported as a deployment without options does it."""
    each = ({"id": f"e{n}", "key": f"k{n}", "ts": NOW, "value": 1} for n in range(events))
    made = Archived(*sealed_and_exported(each, segments=1))
    settings = Settings()
    stripes, least = settings.stripes_min, settings.export_segments
    assert segments_for(made.window, stripes, least) == 2 * made.window.attempt.segments
    return made


def run(made: Archived, deadline: int = LATER) -> int | None:
    ports = (CODEC, made.bucket, made.pipeline.totals, made.pipeline.effects)
    return prove(made.window, made.pipeline.spec(), *ports, deadline)


def notes(made: Archived) -> list[str]:
    names = (key.rpartition("/")[2] for key in made.bucket.list(progress_dir(made.prefix)))
    return [name for name in names if not name.startswith("segment-")]


def read(made: Archived, monkeypatch: pytest.MonkeyPatch) -> Sequence[str]:
    """The data files that are read from now on."""
    files: list[str] = []
    stream = MemoryBucket.stream

    def streamed(bucket: MemoryBucket, key: str) -> object:
        files.append(key)
        return stream(bucket, key)

    monkeypatch.setattr(MemoryBucket, "stream", streamed)
    return files


@pytest.mark.parametrize("events", [1, 2_000])
def test_it_has_few_objects(events: int) -> None:
    made = exported(events)
    assert run(made)
    assert len(list(made.bucket.list(""))) <= OBJECTS_MAX
    assert made.findings(made.pipeline.totals) == []


def test_so_it_has_with_packets_chunks_and_retractions() -> None:
    made = as_archived(*sealed_and_exported(bodies(), segments=1, settings=SMALL))
    assert len(list(made.bucket.list(""))) <= OBJECTS_MAX


def test_a_run_that_had_not_the_time_leaves_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    made = archived(proven=False, segments=1)
    effects = made.pipeline.effects
    put = HeldNotes.put_once

    def slow(held: HeldNotes, key: str, body: bytes) -> bytes:
        effects.pass_by(LATER - effects.now())
        return put(held, key, body)

    monkeypatch.setattr(HeldNotes, "put_once", slow)
    assert run(made) is None
    assert [name for name in notes(made) if name.endswith(".json")] == ["proof-00000.json"]
    files = read(made, monkeypatch)
    assert run(made, effects.now() + 1_000)
    assert files == [], "what is noted was not read again"


def test_with_no_time_at_all_nothing_is_left() -> None:
    made = archived(proven=False, segments=1)
    assert run(made, NOW) is None
    assert notes(made) == []
    assert run(made)


def test_what_was_noted_in_the_bucket_must_be_of_this_archive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = archived(proven=False, segments=1)
    with monkeypatch.context() as patch:
        patch.setattr(proof, "HELD_ITEMS", 0)
        patch.setattr(proof, "compare", lambda *_: ["a finding"])
        with pytest.raises(ProofMismatch):
            run(made)
    assert "proof-00000.json" in notes(made)
    items = made.items()
    made.rewrite(items[1:])
    with pytest.raises(ProofMismatch, match="changed while it was being proven"):
        run(made)


def test_a_larger_one_notes_in_the_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    made = archived(proven=False, segments=1)
    monkeypatch.setattr(proof, "HELD_ITEMS", len(made.items()) - 1)
    assert run(made)
    assert len(notes(made)) == 5
    monkeypatch.setattr(proof, "HELD_ITEMS", len(made.items()))
    again = archived(proven=False, segments=1)
    assert run(again)
    assert notes(again) == []

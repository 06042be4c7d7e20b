"""The scan exporter: resumed, at work twice, killed anywhere; no data file but those of the
manifest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tallyroll.adapters.dynamodb.items import CODEC
from tallyroll.adapters.memory import MemoryBucket, bucket, store
from tallyroll.archive import scan_export
from tallyroll.archive.layout import data_dir, find_summary, prefix_of
from tallyroll.archive.recount import ArchivePass
from tallyroll.archive.scan_export import Exported, export, note_key, segments_for
from tallyroll.errors import Missing, ProofMismatch, Unknown
from tallyroll.model.items import StoredItem
from tallyroll.model.states import Attempt, Window
from tests.harness.pipeline import NOW, WINDOW, Pipeline, opened

LATER = NOW + 600_000


def filled(segments: int = 4) -> tuple[Pipeline, Window]:
    pipeline = opened()
    pipeline.write(*({"id": f"e{n}", "key": f"k{n % 7}", "ts": NOW} for n in range(200)))
    prefix = prefix_of("tallyroll", WINDOW, "a1")
    attempt = Attempt("a1", 1, prefix, segments=segments, export_at=NOW)
    return pipeline, replace(pipeline.state(), attempt=attempt)


def run(pipeline: Pipeline, window: Window, deadline: int = LATER) -> Exported:
    return export(window, pipeline.store, pipeline.bucket, pipeline.effects, deadline)


def prefix(window: Window) -> str:
    return window.attempt.archive


def is_whole(pipeline: Pipeline, window: Window) -> bool:
    """Whether the archive is the table, and its data files those of the manifest."""
    reading = ArchivePass(pipeline.bucket, prefix(window), CODEC)
    found = list(reading)
    names = [(each.item.pk, each.item.sk) for each in found]
    assert reading.findings.first == []
    assert len(names) == reading.expected
    standing = set(pipeline.bucket.list(data_dir(prefix(window))))
    assert standing == {file.key for file in reading.files()}
    return sorted(names) == sorted(pipeline.store.items(window.table))


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of several parts, without tens of megabytes."""
    monkeypatch.setattr(scan_export, "PART_BYTES", 200)
    monkeypatch.setattr(bucket, "PART_BYTES_MIN", 1)
    monkeypatch.setattr(store, "PAGE_ITEMS", 20)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(("segments", "file_bytes"), [(1, 10**9), (4, 10**9), (4, 1), (40, 1)])
def test_every_item_is_in_one_file(
    segments: int, file_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_export, "FILE_BYTES", file_bytes)
    pipeline, window = filled(segments)
    assert run(pipeline, window) == Exported(segments, whole=True)
    assert is_whole(pipeline, window)
    assert pipeline.bucket.uploads() == []


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1])
def test_parts_are_no_smaller_than_s3_takes(size: int) -> None:
    chance, pipeline = Random(1), Pipeline()
    files = scan_export._Files(pipeline.bucket, "f")
    for _ in range(size * 12):  # megabytes that do not shrink
        files.add(chance.randbytes(700_000).hex().encode())
    files.end()
    assert [len(file.parts) for file in files.ended] == [2] * size


def test_a_later_run_skips_what_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, window = filled()
    scan, scanned = pipeline.store.scan, []

    def slow(table: str, segment: int, segments: int) -> Iterator[list[StoredItem]]:
        scanned.append(segment)
        pipeline.effects.pass_by(1_000)
        return scan(table, segment, segments)

    monkeypatch.setattr(pipeline.store, "scan", slow)
    first = run(pipeline, window, NOW + 2_500)
    assert (first.segments, first.whole) == (2, False)
    assert find_summary(prefix(window), pipeline.bucket.list("")) is None
    assert run(pipeline, window, LATER) == Exported(2, whole=True)
    assert sorted(scanned) == [0, 1, 2, 3]
    assert is_whole(pipeline, window)


def test_a_segment_without_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PAGE_ITEMS", 5)
    pipeline, window = filled(1)
    scan = pipeline.store.scan

    def slow(table: str, segment: int, segments: int) -> Iterator[list[StoredItem]]:
        for page in scan(table, segment, segments):
            pipeline.effects.pass_by(1_000)
            yield page

    monkeypatch.setattr(pipeline.store, "scan", slow)
    assert run(pipeline, window, NOW + 5_000) == Exported(0, whole=False)
    assert pipeline.bucket.uploads() == []
    assert list(pipeline.bucket.list("")) == []


def test_more_segments_the_more_items_and_twice_as_many_after_one_in_vain() -> None:
    _, window = filled()
    sized = replace(window, events=1_000_000, keys=10_000, attempt=Attempt())
    assert segments_for(replace(window, events=3, keys=1, attempt=Attempt()), 64, 8) == 8
    assert segments_for(sized, 64, 8) == 82
    assert segments_for(replace(sized, events=9_999), 64, 1) == 1, "a tally has an event at least"
    assert segments_for(replace(sized, attempt=Attempt(number=2)), 64, 8) == 4 * 82
    assert segments_for(replace(sized, events=10**12), 64, 8) == scan_export.SEGMENTS_MAX
    assert (
        segments_for(replace(sized, attempt=Attempt(number=10**6)), 64, 8)
        == scan_export.SEGMENTS_MAX
    )


def test_an_export_that_ends_early_is_never_taken_for_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline, window = filled()

    def fail(*_: object) -> None:
        raise Unknown("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(pipeline.store, "scan", fail)
        done = run(pipeline, window)
    assert (done.segments, done.whole, str(done.error)) == (0, False, "no answer")
    assert find_summary(prefix(window), pipeline.bucket.list("")) is None
    assert run(pipeline, window).whole


def test_a_table_that_is_gone_is_told() -> None:
    pipeline, window = filled()
    pipeline.store.drop_table(window.table)
    assert isinstance(run(pipeline, window).error, Missing)


class Killed(BaseException):
    """No code survives it."""


VERBS = ("put_once", "start_upload", "put_part", "complete_upload", "abort_upload", "list", "get")


def at_call(
    monkeypatch: pytest.MonkeyPatch, number: int, blow: Callable[[], None], *, after: bool
) -> None:
    """Have something happen at one call of the bucket, before or after it does its work."""
    calls = 0

    def struck(verb: str) -> Any:
        perform = getattr(MemoryBucket, verb)

        def call(self: MemoryBucket, *args: Any) -> Any:
            nonlocal calls
            calls += 1
            mine = calls == number
            if mine and not after:
                blow()
            result = perform(self, *args)
            if mine and after:
                blow()
            return result

        return call

    for verb in VERBS:
        monkeypatch.setattr(MemoryBucket, verb, struck(verb))


def kill() -> None:
    raise Killed


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("after", [False, True])
def test_killed_at_any_call_the_next_run_makes_it_whole(*, after: bool) -> None:
    number, lived = 0, False
    while not lived:
        number += 1
        pipeline, window = filled(3)
        with pytest.MonkeyPatch.context() as patch:
            at_call(patch, number, kill, after=after)
            try:
                run(pipeline, window)
                lived = True
            except Killed:
                pass
        assert run(pipeline, window).whole
        assert is_whole(pipeline, window)
    assert number > 15


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("after", [False, True])
def test_another_run_at_any_call_does_no_harm(*, after: bool) -> None:
    number, lived = 0, False
    while not lived:
        number += 1
        pipeline, window = filled(3)
        others: list[Exported] = []

        def work(pipeline: Pipeline = pipeline, window: Window = window) -> None:
            others.append(run(pipeline, window))  # noqa: B023 - used at once

        with pytest.MonkeyPatch.context() as patch:
            at_call(patch, number, work, after=after)
            slow = run(pipeline, window)
        lived = not others
        assert slow.whole
        assert is_whole(pipeline, window)
        assert pipeline.bucket.uploads() == []
    assert number > 15


def test_an_upload_that_was_aborted_behind_our_back_ends_the_attempt() -> None:
    pipeline, window = filled(2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryBucket, "complete_upload", lambda *_: kill())
        with pytest.raises(Killed):
            run(pipeline, window)
    for key, upload in [*pipeline.bucket._uploads]:
        pipeline.bucket.abort_upload(key, upload)
    run_all = iter(lambda: run(pipeline, window).whole, True)
    with pytest.raises(ProofMismatch, match="aborted before it was completed"):
        list(run_all)


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (lambda note: b"{", "damaged"),
        (lambda note: json.dumps({**note, "segments": 9}).encode(), "another segment"),
        (lambda note: json.dumps({**note, "table": "x"}).encode(), "another segment"),
        (lambda note: json.dumps({**note, "files": [{}]}).encode(), "damaged"),
    ],
)
def test_a_note_that_is_not_ours_ends_the_attempt(
    change: Callable[[Any], bytes], finding: str
) -> None:
    pipeline, window = filled(2)
    assert run(pipeline, window).whole
    key = note_key(window, 1)
    pipeline.bucket.put(key, change(json.loads(pipeline.bucket.get(key))))
    with pytest.raises(ProofMismatch, match=finding):
        run(pipeline, window)

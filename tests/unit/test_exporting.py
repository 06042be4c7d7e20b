from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll import exporting, memory_store
from tallyroll.archive import is_complete, prefix_of, read_items, read_manifests
from tallyroll.errors import Unknown
from tallyroll.exporting import export
from tallyroll.ports import Window
from tests.unit.pipeline import NOW, WINDOW, Pipeline, opened


def filled() -> tuple[Pipeline, Window]:
    pipeline = opened()
    pipeline.write(*({"id": f"e{n}", "key": f"k{n % 7}", "ts": NOW} for n in range(200)))
    prefix = prefix_of("tallyroll", WINDOW, "a1")
    return pipeline, replace(pipeline.state(), attempt="a1", archive=prefix)


@pytest.mark.parametrize(("segments", "file_bytes"), [(1, 10**9), (4, 10**9), (4, 1)])
def test_every_item_is_in_one_file(
    segments: int, file_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "FILE_BYTES", file_bytes)
    monkeypatch.setattr(memory_store, "PAGE_ITEMS", 20)
    pipeline, window = filled()
    assert window.archive
    written = export(window, pipeline.store, pipeline.bucket, pipeline.effects, segments)
    items, files = read_manifests(pipeline.bucket, window.archive)
    found = [item for file in files for item in read_items(pipeline.bucket, file)]
    names = {(item["pk"]["S"], item["sk"]["S"]) for item in found}
    assert len(found) == len(names) == items == written
    assert names == set(pipeline.store.items(window.table))
    assert len({file.key for file in files}) == len(files) >= segments
    if file_bytes == 1:
        assert len(files) > segments


def test_an_export_that_ends_early_is_never_taken_for_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline, window = filled()
    assert window.archive

    def fail(*_: object) -> None:
        raise Unknown("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(pipeline.store, "scan", fail)
        with pytest.raises(Unknown):
            export(window, pipeline.store, pipeline.bucket, pipeline.effects, 2)
    assert not is_complete(pipeline.bucket, window.archive)

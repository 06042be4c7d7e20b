from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.archive.layout import data_dir, proof_key, superseded_by
from tallyroll.errors import Missing
from tallyroll.lifecycle.health import PARQUET_LATE_MS
from tallyroll.model.states import Status
from tallyroll.operations.doctor.archive_checks import SIGNS_PER_WINDOW
from tallyroll.operations.doctor.checkup import Level, Sign
from tallyroll.ports.bucket import ticket_of
from tests.harness.doctoring import bad, examined, first, grown, only
from tests.harness.pipeline import Pipeline

DAY = 86_400_000


@pytest.fixture
def pipeline() -> Pipeline:
    return grown()


@pytest.fixture
def sealed(pipeline: Pipeline) -> str:
    return first(pipeline, Status.SEALED)


@pytest.fixture
def dropped(pipeline: Pipeline) -> str:
    return first(pipeline, Status.DROPPED)


def change_total(pipeline: Pipeline, key: str, window: str, n: int) -> None:
    totals = pipeline.totals._totals
    totals[key, window] = replace(totals[key, window], n=n)


def of_totals(pipeline: Pipeline) -> Sign:
    """What a deep look finds wrong with totals, besides their listing."""
    checks = examined(pipeline, deep=True)
    assert {name for name, check in checks.items() if check.bad} <= {"totals", "listing"}
    [sign] = checks["totals"].bad
    assert (sign.level, bool(sign.remedy)) == (Level.FINDING, True)
    return sign


def test_a_total_that_was_changed(pipeline: Pipeline, sealed: str) -> None:
    change_total(pipeline, "k1", sealed, 7)
    sign = of_totals(pipeline)
    assert sign.text == (
        f"{sealed}: key 'k1': (events, amount) by tallies (1, 1500000), its total (7, 1500000)"
    )
    # A look at one bucket of four at a time meets it before long.
    assert any("totals" in bad(pipeline) for _ in range(50))


def test_a_total_that_is_missing(pipeline: Pipeline, sealed: str) -> None:
    del pipeline.totals._totals["k1", sealed]
    assert "its total none" in of_totals(pipeline).text


def test_a_tally_that_was_changed(pipeline: Pipeline, sealed: str) -> None:
    table = pipeline.state(sealed).table
    tallies = [item for (pk, _), item in pipeline.store.items(table).items() if pk[:2] == "~t"]
    tallies[0]["n"]["N"] = "2"
    texts = bad(pipeline, deep=True)["totals"]
    assert len(texts) == 2
    assert f"{sealed}: (keys, events, amount) by tallies (3, 4, 4500000)" in texts[1]


def test_many_differences_are_told_in_part(sealed: str, pipeline: Pipeline) -> None:
    pipeline.totals._totals.clear()
    state = pipeline.state(sealed)
    texts = bad(pipeline, deep=True)["totals"]
    assert 0 < len(texts) <= SIGNS_PER_WINDOW * 9
    assert state.keys == 3


def test_keys_in_several_passes(
    pipeline: Pipeline, sealed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallyroll.operations.doctor.total_checks.KEYS_HELD", 2)
    assert bad(pipeline, deep=True) == {}
    change_total(pipeline, "k2", sealed, 7)
    assert "'k2'" in of_totals(pipeline).text


def test_a_sealed_window_without_a_spec(pipeline: Pipeline, sealed: str) -> None:
    del pipeline.catalog._specs[sealed]
    assert f"{sealed}: it is sealed, and has no spec" in bad(pipeline)["totals"]


def test_a_drop_without_a_proof(pipeline: Pipeline, dropped: str) -> None:
    del pipeline.bucket._objects[proof_key(pipeline.state(dropped).attempt.archive)]
    sign = only(pipeline, "archives")
    assert sign.text.startswith(f"{dropped}: DROPPED WITHOUT A PROOF")
    assert "list-object-versions" in sign.remedy


@pytest.mark.parametrize(("days", "told"), [(32, True), (31, False)])
def test_archives_that_a_rule_may_have_deleted_are_not_missed(
    pipeline: Pipeline, dropped: str, days: int, told: bool
) -> None:
    """Some objects of an archive are older than its proof: they may expire a day before it does."""
    state = pipeline.state(dropped)
    proven = pipeline.effects.now() - 30 * DAY
    pipeline.catalog.advance(replace(state, times={**state.times, Status.PROVEN: proven}))
    del pipeline.bucket._objects[proof_key(state.attempt.archive)]
    pipeline.settings = replace(pipeline.settings, archive_expire_days=days)
    assert ("archives" in bad(pipeline)) == told


@pytest.mark.parametrize("deep", [False, True])
def test_a_dropped_window_of_which_the_parquet_alone_is_left(
    pipeline: Pipeline, dropped: str, *, deep: bool
) -> None:
    pipeline.settings = replace(pipeline.settings, archive="parquet")
    pipeline.bucket.put(ticket_of("tallyroll", dropped), b"")
    assert pipeline.compactor().run(900_000).problems == []
    for key in sorted(pipeline.bucket.passing):
        pipeline.bucket.delete(key)
    assert bad(pipeline, deep=deep) == {}
    prefix = superseded_by(pipeline.bucket, pipeline.state(dropped).attempt.archive)
    assert prefix
    body = pipeline.bucket.get(f"{prefix}/events/0000.parquet")
    pipeline.bucket.put(f"{prefix}/events/0000.parquet", body[:-1])
    assert bool(bad(pipeline, deep=deep)) is deep
    pipeline.bucket.delete(proof_key(prefix))
    assert "DROPPED WITHOUT A PROOF" in bad(pipeline, deep=deep)["archives"][0]


def test_a_window_that_waits_for_its_parquet(pipeline: Pipeline, dropped: str) -> None:
    pipeline.bucket.put(ticket_of("tallyroll", f"parked/{dropped}"), b"it is too large")
    assert "parquet" not in bad(pipeline)
    pipeline.settings = replace(pipeline.settings, archive="both")
    state, since = pipeline.state(dropped), pipeline.effects.now() - PARQUET_LATE_MS
    pipeline.catalog.advance(replace(state, times={**state.times, Status.DROPPED: since}))
    sign = only(pipeline, "parquet", Level.WARNING)
    assert sign.text.startswith(f"{dropped}: dropped at ")
    assert "tallyroll archive compact" in sign.remedy
    pipeline.bucket.delete(ticket_of("tallyroll", f"parked/{dropped}"))
    assert examined(pipeline)["parquet"].level is Level.OK


def test_a_state_that_names_no_archive(pipeline: Pipeline, dropped: str) -> None:
    state = pipeline.state(dropped)
    pipeline.catalog.advance(replace(state, attempt=replace(state.attempt, archive="")))
    assert "the state names the archive ''" in only(pipeline, "archives").text


def test_a_deep_look_tells_once_that_no_archive_is_named(pipeline: Pipeline, dropped: str) -> None:
    state = pipeline.state(dropped)
    pipeline.catalog.advance(replace(state, attempt=replace(state.attempt, archive="elsewhere")))
    (text,) = bad(pipeline, deep=True)["archives"]
    assert "the state names the archive 'elsewhere'" in text


def test_a_table_that_goes_during_the_comparison_of_totals_is_no_finding(
    pipeline: Pipeline, sealed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise Missing("there is no such table", "ResourceNotFoundException")

    change_total(pipeline, "k1", sealed, 7)
    monkeypatch.setattr(pipeline.store, "stripes", gone)
    assert "totals" not in bad(pipeline, deep=True)


def test_an_archive_that_is_gone(pipeline: Pipeline, dropped: str) -> None:
    prefix = data_dir(pipeline.state(dropped).attempt.archive)
    for key in [*pipeline.bucket.list(prefix)]:
        del pipeline.bucket._objects[key]
    assert "changed since they were proven" in only(pipeline, "archives").text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (None, "manifest missing"),
        (b"", "0 items in the files, the summary says"),
        (b'{"itemCount": 1', "manifest malformed"),
    ],
)
def test_a_destroyed_manifest(
    pipeline: Pipeline, dropped: str, body: bytes | None, text: str
) -> None:
    """Without it nobody can read the archive, however whole its data files are."""
    prefix = pipeline.state(dropped).attempt.archive
    (key,) = (key for key in pipeline.bucket.list(prefix) if key.endswith("manifest-files.json"))
    if body is None:
        del pipeline.bucket._objects[key]
    else:
        pipeline.bucket.put(key, body)
    assert text in only(pipeline, "archives").text
    assert any(text in each for each in bad(pipeline, deep=True)["archives"])


def test_a_damaged_archive_is_read_if_deep(pipeline: Pipeline, dropped: str) -> None:
    key = next(iter(pipeline.bucket.list(data_dir(pipeline.state(dropped).attempt.archive))))
    body = pipeline.bucket.get(key)
    pipeline.bucket.put(key, body[:-9])
    texts = bad(pipeline, deep=True)["archives"]
    assert any("changed since" in text for text in texts)
    assert any("unreadable" in text for text in texts)
    assert len(bad(pipeline)["archives"]) == 1


def test_without_a_bucket(pipeline: Pipeline) -> None:
    sign = only(pipeline, "archives", Level.UNCHECKED, bucket=None)
    assert "no bucket is known" in sign.text
    assert examined(grown(2), bucket=None)["archives"].level is Level.OK

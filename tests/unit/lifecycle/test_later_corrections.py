"""Corrections that come after a window was dropped: they are copied beside its archive, too."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tallyroll.adapters.dynamodb.items import CODEC
from tallyroll.adapters.memory import MemoryBucket
from tallyroll.archive.corrections import copy_later_ones, corrections_copied, corrections_dir
from tallyroll.archive.inventory import best, find
from tallyroll.archive.layout import prefix_of
from tallyroll.archive.parquet.source import ParquetItems
from tallyroll.archive.verification import ArchiveReading
from tallyroll.errors import Unknown
from tallyroll.lifecycle import later_corrections
from tallyroll.lifecycle.cleanup import Cleanup
from tallyroll.lifecycle.later_corrections import EVERY_MS, LaterCorrections, Pass, next_pass
from tallyroll.lifecycle.runner import Rolled
from tallyroll.model.states import Attempt, Status, Window
from tallyroll.model.totals import Correction
from tallyroll.model.windows import window_start
from tallyroll.ports.bucket import corrected_note, is_archived
from tallyroll.settings import Settings
from tests.harness.archives import Archived
from tests.harness.pipeline import HOUR, MINUTE, NOW, WINDOW, StillEffects
from tests.harness.retracted_archives import correction_of
from tests.unit.lifecycle.test_compactor import Watched, parquet, run, ticketed

DAY = 24 * HOUR
SETTLED = Settings(name="tallyroll", settle_ms=MINUTE)
NOTE = "archive/tallyroll/corrected-2026-11.json"


@pytest.fixture
def whole() -> Archived:
    """A dropped window with one correction, which is copied."""
    return ticketed()


class Beside:
    """What another object is, but for some of its attributes."""

    def __init__(self, of: Any, **others: Any) -> None:
        self._of, self._others = of, others

    def __getattr__(self, name: str) -> Any:
        return self._others.get(name) or getattr(self._of, name)


def late(whole: Archived) -> Correction:
    """Take another event back."""
    made = correction_of(whole, "e#e1")
    whole.pipeline.totals.correct([made])
    return made


def copied(whole: Archived, prefix: str | None = None) -> list[str]:
    there = corrections_copied(whole.bucket, prefix or whole.prefix, whole.window.id)
    return sorted(each.id for each in there)


def cleaned(whole: Archived, bucket: Any = None, **changes: Any) -> Rolled:
    """Cleanup runs, and again once what it saw first is settled."""
    pipeline = whole.pipeline
    settings = replace(pipeline.settings, **changes)
    ports = pipeline.store, pipeline.catalog, pipeline.totals, bucket or whole.bucket
    cleanup = Cleanup(settings, *ports, pipeline.effects)
    cleanup.run(15 * MINUTE)
    later(whole, settings.settle_ms)
    return cleanup.run(15 * MINUTE)


def later(whole: Archived, ms: int) -> None:
    whole.pipeline.effects.pass_by(ms)


@pytest.mark.parametrize(
    ("noted", "revision", "now", "due"),
    [
        (None, 0, NOW, None),
        (None, 3, NOW, Pass(3, NOW)),
        (Pass(3, NOW, WINDOW), 4, NOW + DAY, Pass(3, NOW, WINDOW)),
        (Pass(3, NOW, None), 3, NOW + 9 * DAY, None),
        (Pass(3, NOW, None), 4, NOW + EVERY_MS - 1, None),
        (Pass(3, NOW, None), 4, NOW + EVERY_MS, Pass(4, NOW + EVERY_MS)),
    ],
)
def test_a_pass_is_ended_and_once_a_day_a_new_one_begins(
    noted: Pass | None, revision: int, now: int, due: Pass | None
) -> None:
    assert next_pass(noted, revision, now) == due


def test_what_is_retracted_after_the_drop_is_copied_and_proven_beside_the_archive(
    whole: Archived,
) -> None:
    late(whole)
    assert copied(whole) == ["e0"]
    assert cleaned(whole).problems == []
    assert copied(whole) == ["e0", "e1"]
    verified = whole.verified(whole.pipeline.totals)
    assert verified.findings.first == []
    assert verified.retractions.lacking.count == 0


def test_the_month_is_looked_at_once_a_day_and_only_after_a_change(whole: Archived) -> None:
    cleaned(whole)
    late(whole)
    later(whole, HOUR)
    cleaned(whole)
    assert copied(whole) == ["e0"]
    later(whole, EVERY_MS)
    cleaned(whole)
    assert copied(whole) == ["e0", "e1"]
    files = [*whole.bucket.list(corrections_dir(whole.prefix))]
    later(whole, EVERY_MS)
    calls: list[str] = []
    cleaned(whole, Watched(whole.bucket, lambda name, given: calls.append(f"{name} {given[0]}")))
    assert f"get {NOTE}" in calls
    assert not [each for each in calls if whole.prefix in each]
    assert [*whole.bucket.list(corrections_dir(whole.prefix))] == files


def test_where_nobody_may_retract_any_more_nothing_is_copied(whole: Archived) -> None:
    late(whole)
    assert cleaned(whole, retraction="off").problems == []
    assert copied(whole) == ["e0"]
    assert not [*whole.bucket.list(NOTE)]


@pytest.mark.parametrize("layout", ["both", "parquet"])
def test_parquet_gets_them_too_and_what_expires_gets_none(whole: Archived, layout: str) -> None:
    run(whole, layout=layout)
    late(whole)
    before = copied(whole)
    assert cleaned(whole).problems == []
    [made] = parquet(whole)
    assert copied(whole, made.prefix) == ["e0", "e1"]
    assert copied(whole) == (["e0", "e1"] if layout == "both" else before)
    [best_one] = best(find(whole.bucket, whole.pipeline.effects, made.prefix))
    source = ParquetItems(whole.bucket, made.prefix, CODEC)
    assert (
        ArchiveReading(whole.bucket, best_one, CODEC, None, source).verified().findings.count == 0
    )


def test_parquet_that_is_made_meanwhile_gets_them(whole: Archived) -> None:
    """The compactor lists what it copies before they are put, and they are put before it ends."""
    late(whole)

    def compacts(name: str, _: Any) -> None:
        if name == "put_once":
            run(whole)

    bucket: Any = Watched(whole.bucket, compacts, ("put_once",))
    copy_later_ones(whole.window, whole.pipeline.totals, bucket, whole.pipeline.effects)
    [made] = parquet(whole)
    assert copied(whole, made.prefix) == ["e0", "e1"]


def test_an_archive_that_has_expired_gets_none(whole: Archived) -> None:
    late(whole)
    for key in [*whole.bucket.list(whole.prefix)]:
        whole.remove(key)
    assert cleaned(whole).problems == []
    assert not [*whole.bucket.list(whole.prefix)]


def test_what_a_revision_counts_is_looked_for_once_it_can_be_seen(whole: Archived) -> None:
    """A Query beside the correction's transaction may see the revision of it alone."""
    made, pipeline = correction_of(whole, "e#e1"), whole.pipeline
    settings = pipeline.settings
    ports = pipeline.store, pipeline.catalog
    revisions = {f"month#{WINDOW[:6]}": 2}
    early: Any = Beside(pipeline.totals, revisions=lambda: revisions)
    Cleanup(settings, *ports, early, whole.bucket, pipeline.effects).run(15 * MINUTE)
    pipeline.totals.correct([made])
    later(whole, settings.settle_ms)
    Cleanup(settings, *ports, pipeline.totals, whole.bucket, pipeline.effects).run(15 * MINUTE)
    assert copied(whole) == ["e0", "e1"]


def test_parquet_that_is_proven_only_afterwards_gets_them(whole: Archived) -> None:
    """It was written, and the source's corrections were copied, before there was another one."""
    late(whole)

    def cleans(name: str, given: Any) -> None:
        if given[0].endswith("/manifest.json"):
            cleaned(whole)

    run(whole, Watched(whole.bucket, cleans, ("put",)), layout="both")
    [made] = parquet(whole)
    assert made.proven
    assert copied(whole, made.prefix) == copied(whole) == ["e0", "e1"]


def test_the_note_is_not_locked_with_the_archive() -> None:
    assert corrected_note("tallyroll", "2026-11") == NOTE
    assert not is_archived(NOTE)
    assert is_archived("archive/corrected-2026-11.json/date=2026-11-20/hour=08/w/a/proof.json")


# --- passes over a month


@dataclass
class Month:
    """Windows of a month, of which nothing is there but their states, and one pass after another;
    corrections of those in `failing` cannot be copied.
    """

    windows: dict[str, Status]
    bucket: MemoryBucket = field(default_factory=MemoryBucket)
    effects: StillEffects = field(default_factory=StillEffects)
    copied: list[str] = field(default_factory=list)
    failing: set[str] = field(default_factory=set)
    revision: int = 1
    problems: list[str] = field(default_factory=list)

    def states(self, since: int, until: int) -> list[Window]:
        made = [
            self.state(f"202611{number}T080000Z", status) for number, status in self.windows.items()
        ]
        return [each for each in made if since <= each.start < until]

    def state(self, window: str, status: Status, archive: str = "") -> Window:
        start = window_start(window)
        attempt = Attempt(id="a1", archive=archive or prefix_of("tallyroll", window, "a1"))
        return Window(window, "t", start, start + HOUR, status, attempt=attempt)

    def copy_later_ones(self, window: Window, *_: object) -> None:
        if window.id[6:8] in self.failing:
            raise Unknown("not now", "Timeout")
        self.copied.append(window.id[6:8])
        self.effects.pass_by(MINUTE)

    def run(self, time: int = HOUR) -> list[str]:
        """A run of cleanup; what it copied."""
        catalog: Any = Beside(None, windows=self.states)
        totals: Any = Beside(None, revisions=self.revisions)
        rolled, self.copied = Rolled(), []
        passes = LaterCorrections(SETTLED, catalog, totals, self.bucket, self.effects)
        passes.copy(self.effects.now() + time, rolled)
        assert len(rolled.problems) == len(self.failing) or not self.copied
        self.problems = rolled.problems
        return self.copied

    def revisions(self) -> dict[str, int]:
        return {"month#202611": self.revision}


@pytest.fixture
def month(monkeypatch: pytest.MonkeyPatch) -> Month:
    made = Month(dict.fromkeys(("05", "06", "07"), Status.DROPPED))
    monkeypatch.setattr(later_corrections, "copy_later_ones", made.copy_later_ones)
    assert made.run() == []
    made.effects.pass_by(MINUTE)
    return made


def test_a_pass_goes_on_where_its_time_ended(month: Month) -> None:
    month.revision = 2
    assert month.run(2 * MINUTE) == ["05", "06"]
    assert month.run() == ["07"]
    assert month.run() == []
    month.effects.pass_by(EVERY_MS)
    assert month.run() == []
    month.effects.pass_by(MINUTE)
    assert month.run() == ["05", "06", "07"]
    month.effects.pass_by(2 * EVERY_MS)
    assert month.run() == []
    month.effects.pass_by(MINUTE)
    assert month.run() == []


def test_a_window_that_cannot_be_served_holds_no_other_up_and_has_another_pass(
    month: Month,
) -> None:
    month.failing = {"06"}
    assert month.run() == ["05", "07"]
    month.failing = set()
    month.effects.pass_by(EVERY_MS)
    month.run()
    month.effects.pass_by(MINUTE)
    assert month.run() == ["05", "06", "07"]


@pytest.mark.parametrize("status", later_corrections.BEING_DROPPED)
def test_a_window_that_is_about_to_be_dropped_has_another_pass(
    month: Month, status: Status
) -> None:
    """Its correction may have come after its copy, and before the pass."""
    month.windows["06"] = status
    assert month.run() == ["05", "07"]
    month.windows["06"] = Status.DROPPED
    month.effects.pass_by(EVERY_MS)
    month.run()
    month.effects.pass_by(MINUTE)
    assert month.run() == ["05", "06", "07"]


def test_windows_that_are_not_sealed_have_no_pass_for_their_sake(month: Month) -> None:
    month.windows["06"] = Status.OPEN
    assert month.run() == ["05", "07"]
    month.effects.pass_by(EVERY_MS)
    month.run()
    month.effects.pass_by(MINUTE)
    assert month.run() == []


def test_an_archive_under_another_prefix_is_not_touched(
    month: Month, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = month.state("20261106T080000Z", Status.DROPPED, "archive/other/a1")
    monkeypatch.setattr(month, "states", lambda *_: [other])
    assert month.run() == []
    assert "archive/other/a1" in month.problems[0]


def test_a_line_in_two_files_is_one_correction(whole: Archived) -> None:
    [file] = whole.bucket.list(corrections_dir(whole.prefix))
    whole.bucket.put(file.replace(".jsonl", "-again.jsonl"), whole.bucket.get(file))
    assert copied(whole) == ["e0"]
    assert (
        whole.verified().retractions.corrected
        == whole.verified(whole.pipeline.totals).retractions.corrected
    )

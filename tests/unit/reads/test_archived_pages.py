"""Pages of a key's events over dropped and live windows: the archives go on where tables ended."""

from __future__ import annotations

import gc
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import pytest

from tallyroll.adapters.dynamodb.items import CODEC, parse_item
from tallyroll.adapters.memory import MemoryBucket
from tallyroll.archive.parquet.by_key import KeyItems
from tallyroll.archive.parquet.files import DUCKDB
from tallyroll.errors import Archived, ProofMismatch, Refused, UsageError
from tallyroll.model.formats.payloads import Chunk
from tallyroll.model.states import Status
from tallyroll.pipeline import archived_pages
from tallyroll.pipeline.archived_pages import ArchivedPages, _Run
from tallyroll.reads.http import answer_error, answer_event, answer_events
from tallyroll.reads.reader import PortReader
from tests.harness.archives import Archived as Archive
from tests.harness.archives import archived, as_archived, leave_parquet, sealed_and_exported
from tests.harness.pipeline import HOUR, NOW, SMALL, TIME_LEFT, WINDOW, hour
from tests.harness.retracted_archives import correction_of, retracted_archive

DAY = {"date": "2026-11-20"}
RANGE = {"since": hour(7), "until": hour(10)}


def reader(archive: Archive, bucket: MemoryBucket | None = None) -> PortReader:
    """A new reader, as after a restart."""
    made = archive.pipeline
    pages = ArchivedPages(made.catalog, made.totals, bucket or made.bucket, CODEC, made.effects)
    ports = (made.store, made.catalog, made.totals, made.effects)
    return PortReader(made.settings, *ports, archives=lambda: pages)


def page(of: PortReader, key: str = "k0", left: int = TIME_LEFT, **more: Any) -> dict[str, Any]:
    given = RANGE | {"key": key, "archived": "true"}
    given |= {name: str(value) for name, value in more.items()}
    return answer_events(of, given, left).body


def pages(
    of: PortReader, between: Callable[[], object] = lambda: None, **more: Any
) -> Iterator[dict[str, Any]]:
    found = page(of, **more)
    yield found
    while "cursor" in found:
        between()
        found = page(of, **more | {"cursor": found["cursor"]})
        yield found


def listed(found: Iterator[dict[str, Any]]) -> list[Any]:
    return [one for each in found for one in each["events"]]


def drop(archive: Archive) -> None:
    """Drop the window at 08."""
    made, window = archive.pipeline, archive.window
    sums: dict[str, Any] = {"keys": window.keys, "events": window.events, "amount": window.amount}
    made.move(Status.DROPPED, attempt=window.attempt, **sums)
    made.store.drop_table(window.table)


@pytest.fixture(params=[archived, retracted_archive])
def whole(request: pytest.FixtureRequest) -> Archive:
    """The window at 08, archived: of plain events, or of chunks, several keys and retractions."""
    made: Archive = request.param()
    made.pipeline.move(Status.PROVEN, attempt=made.window.attempt)
    if request.param is retracted_archive:
        made.pipeline.totals.correct([correction_of(made, "e#e0"), correction_of(made, "e#p", 2)])
    return made


@pytest.mark.parametrize("layout", ["dynamodb", "parquet"])
@pytest.mark.parametrize("packed", ["true", "false"])
@pytest.mark.parametrize("limit", [1, 2, 100])
def test_a_dropped_window_reads_as_it_did_before(
    whole: Archive, limit: int, packed: str, layout: str
) -> None:
    keys = sorted(whole.verified().counted.records)
    more: dict[str, Any] = {"limit": limit, "packed": packed}
    before = {key: listed(pages(reader(whole), key=key, **more)) for key in keys}
    live = {
        key: answer_events(reader(whole), RANGE | {"key": key, "packed": packed}, TIME_LEFT).body
        for key in keys
    }
    assert before == {key: body["events"] for key, body in live.items()}
    drop(whole)
    if layout == "parquet":
        leave_parquet(whole)
    assert before == {key: listed(pages(reader(whole), key=key, **more)) for key in keys}


@pytest.fixture
def day() -> Archive:
    """Events of k0 in 07 and 09, which are live, and in 08, which is archived."""
    made = archived()
    pipeline = made.pipeline
    pipeline.move(Status.PROVEN, attempt=made.window.attempt)
    pipeline.write(*({"id": each, "key": "k0", "ts": NOW - HOUR} for each in "ab"))
    pipeline.effects.pass_by(HOUR)
    pipeline.roller().run(TIME_LEFT)
    pipeline.write(*({"id": each, "key": "k0", "ts": NOW + HOUR} for each in "cd"))
    return made


@pytest.mark.parametrize("limit", [1, 4, 100])
@pytest.mark.parametrize("after", [0, 1, 3, 5])
def test_one_cursor_goes_through_all_windows_and_through_a_drop(
    day: Archive, limit: int, after: int
) -> None:
    whole = page(reader(day))
    assert len(whole["events"]) == 10
    dropping = iter([None] * after + [drop])

    def between() -> None:
        if step := next(dropping, None):
            step(day)

    between()
    found = [*pages(reader(day), between, limit=limit)]
    assert listed(iter(found)) == whole["events"]
    assert all(each["complete"] and len(each["events"]) <= limit for each in found)


def test_a_window_that_is_dropped_while_it_is_read_is_read_from_its_archive(
    day: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, catalog = page(reader(day)), day.pipeline.catalog
    before = catalog.windows(0, NOW + HOUR)
    drop(day)
    now = catalog.windows
    answers = [before]
    monkeypatch.setattr(catalog, "windows", lambda *span: answers.pop() if answers else now(*span))
    assert page(reader(day))["events"] == whole["events"]


class Streams(MemoryBucket):
    """Counts what is streamed, and takes a while for it."""

    def __init__(self, of: Archive, *takes_ms: int) -> None:
        super().__init__()
        self._objects, self._of, self._takes_ms = of.bucket._objects, of, iter(takes_ms)
        self.streamed = 0

    def stream(self, key: str) -> Iterator[bytes]:
        self.streamed += 1
        self._of.pipeline.effects.pass_by(next(self._takes_ms, 0))
        return super().stream(key)


@pytest.mark.parametrize(("kept", "times"), [(10_000, 1), (2, 2)])
def test_an_archive_is_read_once_for_many_pages(
    day: Archive, monkeypatch: pytest.MonkeyPatch, kept: int, times: int
) -> None:
    whole = page(reader(day))
    drop(day)
    monkeypatch.setattr(archived_pages, "RECORDS_KEPT", kept)
    bucket = Streams(day)
    assert listed(pages(reader(day, bucket), limit=1)) == whole["events"]
    assert bucket.streamed == times * len(day.files())


def test_a_page_is_of_its_own_run_whatever_another_thread_reads_meanwhile(
    day: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, read, serves = page(reader(day)), ArchivedPages._read, _Run.serves
    drop(day)
    one: dict[str, ArchivedPages] = {}

    def overtaken(self: _Run, *asked: Any) -> bool:
        one["it"]._kept = replace(self, key="other", records=())
        return serves(self, *asked)

    known = lambda self, *asked: read(one.setdefault("it", self), *asked)  # noqa: E731
    monkeypatch.setattr(ArchivedPages, "_read", known)
    monkeypatch.setattr(_Run, "serves", overtaken)
    assert listed(pages(reader(day), limit=1)) == whole["events"]


def test_a_page_is_no_larger_than_an_answer_may_be(
    day: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = page(reader(day))
    drop(day)
    monkeypatch.setattr(archived_pages, "BYTES_MAX", 200)
    monkeypatch.setattr(archived_pages, "LAST_BYTES_MAX", 1)
    found = [*pages(reader(day))]
    assert listed(iter(found)) == whole["events"]
    assert len(found) > 3


@pytest.mark.parametrize("layout", ["dynamodb", "parquet"])
def test_time_that_runs_out_ends_a_page_or_names_the_command(day: Archive, layout: str) -> None:
    whole = page(reader(day))
    drop(day)
    if layout == "parquet":
        leave_parquet(day)
    first, *others = pages(reader(day, Streams(day, TIME_LEFT)))
    assert (first["complete"], [one["id"] for one in first["events"]]) == (False, ["a", "b"])
    assert listed(iter([first, *others])) == whole["events"]
    with pytest.raises(Archived, match=r"too large to be read in time: .*read \S+ --key k0`"):
        page(reader(day, Streams(day, TIME_LEFT)), since=WINDOW)


def test_from_half_of_the_time_on_no_archive_is_begun(
    day: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = page(reader(day))
    drop(day)
    catalog, effects = day.pipeline.catalog, day.pipeline.effects
    windows, waits = catalog.windows, iter([TIME_LEFT // 2])

    def slow(*span: int) -> Any:
        effects.pass_by(next(waits, 0))
        return windows(*span)

    monkeypatch.setattr(catalog, "windows", slow)
    first, *others = pages(reader(day))
    assert (first["complete"], [one["id"] for one in first["events"]]) == (True, ["a", "b"])
    assert listed(iter([first, *others])) == whole["events"]


def gone(day: Archive, says: str) -> None:
    """Each page fails, before anything is listed, and names the command."""
    with pytest.raises(Archived, match=says) as error:
        page(reader(day), since=WINDOW)
    answer = answer_error(error.value)
    assert (answer.status, answer.body["archive"]) == (410, day.prefix)
    assert f"`tallyroll archive read {WINDOW} --key k0`" in answer.body["detail"]


@pytest.mark.parametrize(
    ("bound", "says"), [("ITEMS_MAX", "items, over 1"), ("ARCHIVE_BYTES_MAX", "has over 1 bytes")]
)
def test_an_archive_that_is_too_large_for_a_page(
    day: Archive, monkeypatch: pytest.MonkeyPatch, bound: str, says: str
) -> None:
    drop(day)
    monkeypatch.setattr(archived_pages, bound, 1)
    gone(day, says)


def test_an_archive_as_parquet_needs_duckdb_and_has_its_own_bound(
    day: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop(day)
    leave_parquet(day)
    page(reader(day))
    monkeypatch.setattr(archived_pages, "PARQUET_BYTES_MAX", 1)
    gone(day, "has over 1 bytes")
    monkeypatch.setattr(archived_pages, "installed", lambda: False)
    gone(day, "is there only as Parquet, which needs DuckDB")


def test_an_archive_that_is_not_proven(day: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    drop(day)
    found = replace(day.archive(), proof=None)
    monkeypatch.setattr(archived_pages, "find", lambda *_: [found])
    gone(day, "not there, or not proven")


def test_a_damaged_archive_gives_nothing(day: Archive) -> None:
    drop(day)
    items = day.items()
    day.rewrite([item for item in items if item["sk"]["S"] != "e#e0"])
    with pytest.raises(ProofMismatch, match=r"key 'k0': \(events, amount\)"):
        page(reader(day))
    day.rewrite(items)
    page(reader(day))
    day.spoil()
    with pytest.raises(ProofMismatch, match="items, the manifest says") as error:
        page(reader(day))
    assert answer_error(error.value).status == 500


def test_of_parquet_no_further_part_is_fetched_once_it_is_late(day: Archive) -> None:
    drop(day)
    leave_parquet(day)
    bucket = Streams(day, TIME_LEFT)
    with pytest.raises(Archived, match="too large to be read in time"):
        page(reader(day, bucket), since=WINDOW)
    assert bucket.streamed == 1


@pytest.mark.parametrize(
    ("fails", "says"),
    [
        (
            lambda: OSError(28, "No space left on device"),
            r"cannot be kept on disk here \(.*No space",
        ),
        (lambda: Refused("DuckDB: full", DUCKDB), "takes more memory than there is here"),
    ],
)
def test_parquet_that_is_too_large_for_this_machine(
    day: Archive, monkeypatch: pytest.MonkeyPatch, fails: Callable[[], Exception], says: str
) -> None:
    def full(items: KeyItems, _files: object) -> NoReturn:
        folders.append(items._folder)
        raise fails()

    folders: list[Path] = []
    drop(day)
    leave_parquet(day)
    monkeypatch.setattr(KeyItems, "_fetched", full)
    gone(day, says)
    gc.disable()  # a folder goes with the last reference, not at some time
    try:
        with pytest.raises(Archived):
            answer_event(reader(day), {"key": "k0", "id": "e0", "archived": "true", **DAY})
        assert len(folders) == 2
        assert not any(each.exists() for each in folders)
    finally:
        gc.enable()


@pytest.mark.parametrize("zlib_is", ["the same", "another"])
@pytest.mark.parametrize("layout", ["dynamodb", "parquet"])
def test_payloads_in_chunks_under_another_key_are_read(
    monkeypatch: pytest.MonkeyPatch, layout: str, zlib_is: str
) -> None:
    mapping = {"keys": ["{a}", "{b}"], "id": "name", "ts": "at", "payload": "blob"}
    chance = Random(3)
    bodies = [
        {"name": f"e{n}", "a": f"user-{n}", "b": "all", "at": NOW, "blob": text}
        for n, text in enumerate(chance.randbytes(80_000).hex() for _ in range(3))
    ]
    made = as_archived(*sealed_and_exported(bodies, settings=replace(SMALL, mapping=mapping)))
    made.pipeline.move(Status.PROVEN, attempt=made.window.attempt)
    assert len(parts(made)) > 10
    keys = ("all", "user-1")
    before = [page(reader(made), key=key)["events"] for key in keys]
    assert [[one["payload"] for one in some] for some in before] == [
        [body["blob"] for body in bodies],
        [bodies[1]["blob"]],
    ]
    drop(made)
    if layout == "parquet":
        leave_parquet(made)
    if zlib_is == "another":
        compress = zlib.compress
        monkeypatch.setattr(zlib, "compress", lambda data, level=1: compress(data, level))
    assert [page(reader(made), key=key)["events"] for key in keys] == before


def parts(of: Archive) -> list[Any]:
    return [item for item in of.items() if isinstance(parse_item(item), Chunk)]


def test_damaged_parquet_gives_nothing(day: Archive) -> None:
    drop(day)
    later = correction_of(day, "e#e0")
    prefix = leave_parquet(day)
    key = f"{prefix}/events/0000.parquet"
    before = day.bucket.get(key)
    day.change(key, lambda body: body[:-1] + bytes([body[-1] ^ 1]))
    with pytest.raises(ProofMismatch, match=r"events/0000\.parquet: \d+ bytes, SHA-256"):
        page(reader(day))
    day.bucket.put(key, before)
    page(reader(day))
    day.pipeline.totals.correct([later])
    assert page(reader(day))["events"][2]["retracted"]


@pytest.mark.parametrize("layout", ["dynamodb", "parquet"])
@pytest.mark.parametrize("key", ['q"', "é", "a/b <c> é", "a", "a.1", "q\\"])
def test_a_key_is_found_however_it_is_written(key: str, layout: str) -> None:
    bodies = [
        {"key": each, "id": f"{n}", "ts": NOW, "payload": {"of": key}}
        for n, each in enumerate(["a", "b", key, "a.1", "é", "z"])
    ]
    made = as_archived(*sealed_and_exported(bodies))
    made.pipeline.move(Status.PROVEN, attempt=made.window.attempt)
    before = page(reader(made), key=key)["events"]
    drop(made)
    if layout == "parquet":
        leave_parquet(made)
    assert before
    assert page(reader(made), key=key)["events"] == before


def test_what_cannot_be_asked_for(day: Archive) -> None:
    with pytest.raises(UsageError, match=r"with tallyroll:read_archives=true"):
        page(day.pipeline.reader())
    with pytest.raises(UsageError, match="archived true: give since and until"):
        page(reader(day), order="time")
    with pytest.raises(UsageError, match="archived true: give since and until"):
        answer_events(reader(day), {"key": "k", "window": WINDOW, "archived": "true"}, TIME_LEFT)
    with pytest.raises(UsageError, match="limit 0"):
        page(reader(day), limit=0)

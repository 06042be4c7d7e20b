"""`tallyroll.Reader`: what services hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from inspect import signature
from types import SimpleNamespace
from typing import Any

import pytest

from tallyroll import Reader, errors
from tallyroll.adapters.dynamodb.items import CODEC
from tallyroll.errors import ProofMismatch, UsageError
from tallyroll.limits import TS_MS_MAX
from tallyroll.model.states import Status
from tallyroll.pipeline import reading
from tallyroll.pipeline.archived_pages import ArchivedPages
from tests.harness.archives import archived
from tests.harness.pipeline import HOUR, NOW, START, WINDOW, Pipeline, hour, opened

BEGIN = "2026-11-20T08:00Z"  # of the current window
AS_WRITTEN = [
    START,
    BEGIN,
    "20261120T080000Z",
    datetime(2026, 11, 20, 8, tzinfo=UTC),
    datetime(2026, 11, 20, 9, tzinfo=timezone(timedelta(hours=1))),
]


@pytest.fixture
def reader() -> Reader:
    """Of a key with one event in the window before, and two in the current one."""
    pipeline: Pipeline = opened()
    for number, ts in enumerate((NOW - HOUR, NOW, NOW)):
        event = {"id": f"e{number}", "key": "Ada", "ts": ts, "value": 1.5}
        pipeline.write(event)
    ports = (pipeline.store, pipeline.catalog, pipeline.totals, pipeline.effects)
    return Reader(pipeline.settings, *ports)


@pytest.mark.parametrize("since", AS_WRITTEN, ids=repr)
def test_a_time_may_be_written_in_any_way(reader: Reader, since: Any) -> None:
    assert reader.count("Ada", since).value == Decimal(3)
    assert reader.count("Ada", until=since).events == 1
    [count] = reader.counts(["Ada"], since)
    assert count.events == 2
    assert [point.events for point in reader.series("Ada", since).points] == [2]
    assert [found.what.id for found in reader.events_within("Ada", since)] == ["e1", "e2"]
    assert [found.what.id for found in reader.event_within("Ada", "e1", since).found] == ["e1"]
    assert reader.top_within(since).largest[0].n == reader.total(since).events == 2
    assert next(reader.follow("Ada", since)).what.id == "e1"


@pytest.mark.parametrize("day", ["2026-11-20", date(2026, 11, 20), START - 8 * HOUR], ids=repr)
def test_a_day_may_be_a_date(reader: Reader, day: Any) -> None:
    [found] = reader.event_on("Ada", "e0", day).found
    assert found.what.id == "e0"
    assert reader.event("Ada", "e0", ts=datetime(2026, 11, 20, 7, 30, tzinfo=UTC)) == found
    assert reader.count("Ada", date(2026, 11, 20)).events == 3


def test_a_time_zone_may_be_a_name(reader: Reader) -> None:
    curve = reader.series("Ada", BEGIN, zone="Europe/Berlin")
    assert str(curve.zone) == "Europe/Berlin"


@pytest.mark.parametrize(
    ("since", "says"),
    [
        (datetime(2026, 11, 20, 8), "has no time zone"),  # noqa: DTZ001
        ("yesterday evening", "yesterday evening"),
        ("2026-11-20T08:30Z", "inside a window"),
    ],
)
def test_what_is_no_time_is_refused(reader: Reader, since: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        reader.count("Ada", since)


def test_events_are_read_whole_whether_their_windows_were_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = archived()
    made = whole.pipeline
    settings = replace(made.settings, bucket="memory")
    names = ("store", "catalog", "totals", "effects", "bucket")
    ports = {name: getattr(made, name) for name in names} | {"codec": CODEC, "shared_cache": None}
    ports["archived_pages"] = lambda: ArchivedPages(
        made.catalog, made.totals, made.bucket, CODEC, made.effects
    )
    monkeypatch.setattr(
        reading, "Pipeline", lambda *_, **__: SimpleNamespace(settings=settings, **ports)
    )
    monkeypatch.setattr(reading, "glances_on", lambda *_: None)
    window = whole.window
    sums: dict[str, Any] = {"keys": window.keys, "events": window.events, "amount": window.amount}
    made.move(Status.PROVEN, attempt=window.attempt, **sums)
    reader = Reader.connect("tallyroll", bucket="memory")
    day = (WINDOW, hour(9))
    before = list(reader.events_archived("k0", *day))
    assert before == list(reader.events_within("k0", *day))
    assert len(before) == 6
    made.move(Status.DROPPED, attempt=window.attempt, **sums)
    made.store.drop_table(window.table)
    with pytest.raises(errors.Archived):
        list(reader.events_within("k0", *day))
    after = list(reader.events_archived("k0", *day))
    assert after == [replace(one, status=Status.DROPPED) for one in before]
    assert [*reader.events_page("k0", *day, archived=True).found] == after
    whole.spoil()
    with pytest.raises(ProofMismatch):
        next(reader.events_archived("k0", *day))


def test_archives_need_a_bucket(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TALLYROLL_BUCKET", raising=False)
    for each in (reader, Reader.connect("votes")):
        with pytest.raises(UsageError, match=r"Reader.connect\(bucket=...\), or set"):
            each.events_archived("Ada")


@pytest.mark.parametrize(
    "since",
    [
        -1,
        10**16,
        2**60,
        2**70,
        1.5,
        datetime.max.replace(tzinfo=UTC),
        datetime(1969, 1, 1, tzinfo=UTC),
    ],
    ids=repr,
)
def test_what_is_in_no_year_of_windows_is_refused(reader: Reader, since: Any) -> None:
    with pytest.raises(UsageError, match=r"time .*: must be whole ms since the epoch"):
        reader.count("Ada", since)
    with pytest.raises(UsageError, match="must be whole ms"):
        reader.event_on("Ada", "e0", since)
    with pytest.raises(UsageError, match="must be whole ms"):
        reader.event("Ada", "e0", ts=since)
    with pytest.raises(UsageError):
        reader.count("Ada", TS_MS_MAX)


def reads_with(reader: Reader, *names: str) -> dict[str, Callable[..., Any]]:
    """The public reads of these parameters, by their names."""
    found = {name: getattr(reader, name) for name in dir(reader) if not name.startswith("_")}
    return {
        name: read
        for name, read in found.items()
        if callable(read) and {*names} <= {*signature(read).parameters}
    }


def test_each_read_of_a_range_takes_text(reader: Reader) -> None:
    reads = reads_with(reader, "since")
    assert len(reads) > 10
    del reads["events_archived"]  # which needs a bucket
    for name, read in reads.items():
        given = {"key": "Ada", "keys": ["Ada"], "event_id": "e1", "since": BEGIN}
        given["until"] = "2026-11-20T09:00Z"
        taken = {each: value for each, value in given.items() if each in signature(read).parameters}
        answer = read(**taken)
        assert not isinstance(answer, Iterator) or next(answer), name


@pytest.mark.parametrize("key", ["", "k" * 3_000, "lone \ud800", None], ids=ascii)
def test_what_is_no_key_is_refused_by_each_read(reader: Reader, key: Any) -> None:
    given = {"key": key, "keys": [key], "event_id": "e1", "window": WINDOW, "day": START}
    for read in (*reads_with(reader, "key").values(), reader.counts):
        taken = {each: value for each, value in given.items() if each in signature(read).parameters}
        with pytest.raises(UsageError, match=r"^key "):
            read(**taken)


@pytest.mark.parametrize("event_id", ["", "e" * 3_000, "lone \ud800"], ids=ascii)
def test_what_is_no_id_is_refused_by_each_read(reader: Reader, event_id: str) -> None:
    for read in (reader.event, reader.event_within, partial(reader.event_on, day=START)):
        with pytest.raises(UsageError, match=r"^id "):
            read("Ada", event_id)


def test_a_key_is_not_taken_for_a_list_of_its_letters(reader: Reader) -> None:
    with pytest.raises(UsageError, match="keys 'Ada': give a list"):
        reader.counts("Ada")


def test_its_public_names() -> None:
    shown = {name for name in dir(Reader) if not name.startswith("_")}
    assert shown == {
        *("connect", "count", "counts", "series", "minutes", "age_ms", "kept_ms", "shared_use"),
        *("event", "event_on", "event_within", "follow", "pages_of"),
        *("events", "events_within", "events_page", "events_by_time", "events_archived"),
        *("top", "top_within", "total", "keys", "keys_page"),
    }


def test_it_connects_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLYROLL_NAME", "parliament")
    monkeypatch.setenv("TALLYROLL_CACHE_LIVE_MS", "7000")
    assert Reader.connect("votes")._settings.name == "votes"
    assert Reader.connect(region="eu-central-1")._settings.name == "parliament"
    assert Reader.connect().kept_ms == 7000
    assert Reader.connect().shared_use() is None
    assert Reader.connect(cache_url="redis://127.0.0.1:6379").shared_use() is not None
    with pytest.raises(UsageError, match="Bad_Name"):
        Reader.connect("Bad_Name")
    with pytest.raises(UsageError, match="give rediss://"):
        Reader.connect(cache_url="redis://elsewhere:6379")

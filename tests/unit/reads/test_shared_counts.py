"""Counts from a cache that several processes share: sooner, and never other ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.adapters.memory import MemoryCatalog
from tallyroll.errors import StoreError, Throttled
from tallyroll.model.states import Status
from tallyroll.model.tallies import ReadCost
from tallyroll.reads.counting import shared
from tallyroll.reads.counting.flights import KeptCounts
from tallyroll.reads.counting.shared import PAUSE_MS, PAUSE_MS_MAX, Asked, SharedCounts, SharedUse
from tallyroll.reads.counts import Count, PeriodCount, WindowCount
from tallyroll.reads.reader import PortReader
from tests.harness.pipeline import NOW, START, TIME_LEFT, Pipeline, StillEffects
from tests.harness.shared_cache import HeldCache
from tests.unit.reads.test_reader import counted, event

KEPT_MS = 5_000
A: Asked = ("a", None, None, False)
SECRET = "5" * 64


class Processes:
    """Readers of a pipeline that share a cache."""

    def __init__(self, pipeline: Pipeline | None = None) -> None:
        self.pipeline = pipeline or counted()
        self.cache = HeldCache(self.pipeline.effects)

    def reader(self, kept_ms: int = KEPT_MS) -> PortReader:
        one = self.pipeline
        settings = replace(one.settings, cache_live_ms=kept_ms)
        ports = (one.store, one.catalog, one.totals, one.effects)
        return PortReader(settings, *ports, cache=self.cache)

    def pass_by(self, ms: int) -> None:
        self.pipeline.effects.pass_by(ms)


@pytest.fixture
def processes() -> Processes:
    return Processes()


def refused(*_: Any, **__: Any) -> Any:
    raise Throttled("slow down")


def test_what_one_process_counted_another_one_answers(processes: Processes) -> None:
    counts = processes.reader().counts(["k", "l"])
    other = processes.reader()
    processes.pass_by(KEPT_MS - 1)
    processes.pipeline.store.tallies = refused  # type: ignore[method-assign]
    found = other.counts(["k", "l"])
    assert found == [replace(count, gathering=None) for count in counts]
    assert [count.source for count in found] == ["shared", "shared"]
    assert found[0].windows[1].status is Status.OPEN
    assert other.shared_use() == SharedUse(hits=2)
    assert other.shared_use() == SharedUse()
    assert other.counts(["k"])[0].source == "kept"
    assert processes.cache.calls == ["get", "put", "get"]


def test_all_of_a_count_comes_back() -> None:
    window = WindowCount("20261120T080000Z", 3, -5, Status.CLOSING, ReadCost(2, 9), (1, 10**30))
    count = Count("k", 3, -5, (window,), 7, {}, (PeriodCount("2026-11-19", 24, 1, 2, (3, 4)),))
    key = shared.key_of(SECRET)
    found = shared._opened(key, "n", shared._sealed(key, "n", count))
    assert found is not None
    assert found == count
    assert found.windows[0].reading == ReadCost(2, 9)


def test_what_is_older_than_counts_are_kept_is_read_anew(processes: Processes) -> None:
    processes.reader().count("k")
    processes.pipeline.write(event("e9", NOW))
    processes.pass_by(KEPT_MS)
    assert processes.reader().count("k").events == 7


def test_each_question_has_an_entry_of_its_own(processes: Processes) -> None:
    processes.reader().count("k")
    since = processes.reader().count("k", START)
    assert (since.events, since.source) == (3, "read")
    assert processes.reader().count("k", by_window=True).source == "read"
    assert processes.reader().count("l").events == 1


def test_a_consistent_read_neither_asks_the_cache_nor_tells_it(processes: Processes) -> None:
    processes.reader().count("k")
    processes.pipeline.write(event("e9", NOW))
    calls = [*processes.cache.calls]
    assert processes.reader().count("k", consistent=True).events == 7
    assert processes.cache.calls == calls


def test_who_answered_later_takes_no_older_entry(processes: Processes) -> None:
    """An answer that is not whole is not kept, yet it says as of when the process answered."""
    first, second = processes.reader(), processes.reader()
    processes.cache.holding = True
    first.count("k")
    processes.pass_by(1)
    tallies, processes.pipeline.store.tallies = processes.pipeline.store.tallies, refused  # type: ignore[method-assign]
    assert not second.count("k").complete
    processes.pipeline.store.tallies = tallies  # type: ignore[method-assign]
    processes.cache.release()
    assert second.count("k").source == "confirmed"
    assert processes.reader().count("k").source == "shared"


def test_an_incomplete_answer_is_not_shared(processes: Processes) -> None:
    processes.pipeline.store.tallies = refused  # type: ignore[method-assign]
    assert not processes.reader().count("k").complete
    assert processes.cache.entries == {}


def test_another_pipeline_of_the_same_name_has_other_entries(processes: Processes) -> None:
    processes.reader().count("k")
    again = Processes(counted())
    again.pipeline.effects = processes.pipeline.effects
    again.cache = processes.cache
    catalog = again.pipeline.catalog
    calendar = catalog.calendar()
    assert calendar
    catalog._calendar = replace(calendar, secret=SECRET)
    again.pipeline.write(event("e9", NOW))
    assert again.reader().count("k").events == 7


def test_without_a_secret_nothing_is_shared(processes: Processes) -> None:
    catalog = processes.pipeline.catalog
    calendar = catalog.calendar()
    assert calendar
    catalog._calendar = replace(calendar, secret="")
    assert processes.reader().count("k").events == 6
    assert processes.cache.calls == []


def test_a_calendar_that_cannot_be_read_is_no_reason_to_fail() -> None:
    effects = StillEffects()
    catalog = MemoryCatalog()
    catalog.calendar = refused  # type: ignore[method-assign]
    cache = HeldCache(effects)
    one = SharedCounts(cache, catalog, effects.now, KEPT_MS, 60_000)
    assert one.found([A], TIME_LEFT, dict) == {}
    assert cache.calls == []


def test_no_secret_and_no_counted_key_is_in_the_cache(processes: Processes) -> None:
    pipeline = processes.pipeline
    pipeline.write(event("e9", NOW, key="somebody"))
    processes.reader().count("somebody")
    calendar = pipeline.catalog.calendar()
    assert calendar
    [(name, (entry, _))] = processes.cache.entries.items()
    for told in (calendar.secret, shared.key_of(calendar.secret).hex()):
        assert told not in name
        assert told.encode() not in entry
    assert "somebody" not in name


@pytest.mark.parametrize("spoil", [
    lambda entry: b"",
    lambda entry: b"x",
    lambda entry: entry[:-1],
    lambda entry: entry.replace(b'"events":6', b'"events":7'),
    lambda entry: b"\0" * 16 + entry[16:],
    lambda entry: b"\x80\x04N.",
])  # fmt: skip
def test_what_is_damaged_or_forged_is_not_there(
    processes: Processes, spoil: Callable[[bytes], bytes]
) -> None:
    processes.reader().count("k")
    entries = processes.cache.entries
    processes.cache.entries = {
        name: (spoil(entry), until) for name, (entry, until) in entries.items()
    }
    reader = processes.reader()
    answer = reader.count("k")
    assert (answer.events, answer.source) == (6, "read")
    assert reader.shared_use() == SharedUse(misses=1)


def test_an_entry_is_good_under_its_own_name_alone(processes: Processes) -> None:
    processes.reader().counts(["k", "l"])
    first, second = processes.cache.entries
    entries = processes.cache.entries
    processes.cache.entries = {first: entries[second], second: entries[first]}
    assert [count.events for count in processes.reader().counts(["k", "l"])] == [6, 1]


def test_a_large_count_is_not_shared(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "ENTRY_BYTES_MAX", 100)
    assert processes.reader().count("k").events == 6
    assert processes.cache.calls == ["get"]


# --- a cache that is down or slow


def test_a_dead_cache_is_asked_once_in_a_while(processes: Processes) -> None:
    reader = processes.reader(kept_ms=1)
    processes.cache.fails = True
    pauses = []
    asked_at = processes.pipeline.effects.now()
    for _ in range(500):
        assert reader.count("k").events == 6
        if processes.cache.calls:
            processes.cache.calls.clear()
            pauses.append(processes.pipeline.effects.now() - asked_at)
            asked_at = processes.pipeline.effects.now()
            assert reader.shared_use() == SharedUse(misses=1, errors=1)
        processes.pass_by(500)
    assert pauses[:4] == [0, PAUSE_MS, 2 * PAUSE_MS, 4 * PAUSE_MS]
    assert pauses[-1] == PAUSE_MS_MAX


def test_a_cache_that_is_back_is_used_again(processes: Processes) -> None:
    processes.cache.fails = True
    reader = processes.reader()
    reader.count("k")
    processes.cache.fails = False
    processes.pass_by(KEPT_MS)
    reader.count("k")
    assert processes.reader().count("k").source == "shared"
    processes.cache.fails = True
    processes.pass_by(KEPT_MS)
    reader.count("k")
    processes.cache.calls.clear()
    processes.cache.fails = False
    processes.pass_by(KEPT_MS)
    reader.count("k")
    assert processes.cache.calls == ["get", "put"]  # the pause was a short one again


def test_a_slow_cache_is_left_alone_like_a_dead_one(processes: Processes) -> None:
    processes.cache.takes_ms = processes.cache.wait_ms + 1
    assert processes.reader().count("k").events == 6
    assert processes.cache.calls == ["get"]


def test_who_has_little_time_does_not_ask(processes: Processes) -> None:
    reader = processes.reader()
    assert reader.count("k", time_left_ms=2 * shared.STEPS * processes.cache.wait_ms - 1).complete
    assert processes.cache.calls == []


def test_where_nothing_may_be_old_nothing_is_shared(processes: Processes) -> None:
    reader = processes.reader(kept_ms=0)
    assert reader.count("k").events == 6
    assert (processes.cache.calls, reader.shared_use()) == ([], None)


@pytest.mark.parametrize(
    ("mistake", "found_by"),
    [
        ("no nonce", test_another_pipeline_of_the_same_name_has_other_entries),
        ("no hash", test_an_entry_is_good_under_its_own_name_alone),
        ("joined", test_a_consistent_read_neither_asks_the_cache_nor_tells_it),
        ("fails", test_a_dead_cache_is_asked_once_in_a_while),
    ],
)
def test_planted_mistakes_are_found(
    mistake: str, found_by: Callable[[Processes], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    if mistake == "no nonce":
        monkeypatch.setattr(shared, "key_of", lambda _: b"always")
    elif mistake == "no hash":
        monkeypatch.setattr(shared, "compare_digest", lambda *_: True)
    elif mistake == "joined":
        monkeypatch.setattr(
            KeptCounts,
            "read",
            lambda kept, asked, read: kept._gathered(asked, read, kept._now() + TIME_LEFT),
        )
    else:
        monkeypatch.setattr(SharedCounts, "_call", lambda _, call: call())
    with pytest.raises((AssertionError, Throttled, RecursionError, StoreError)):
        found_by(Processes())

"""Counts of a process that has counted before: one look, in which every change is seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Throttled, UsageError
from tallyroll.model.periods import month_of
from tallyroll.model.records import Record, increments_of
from tallyroll.model.states import Status, Window
from tallyroll.model.totals import Correction
from tallyroll.ports.counting.glances import Glance, Seen
from tallyroll.ports.store import Verdict
from tallyroll.reads.counting import kept
from tallyroll.reads.counting.kept import Kept
from tallyroll.reads.counting.plans import ReadPlan
from tallyroll.reads.counting.singly import SingleGlances
from tallyroll.reads.counts import counter_json
from tallyroll.reads.reader import PortReader
from tests.harness.pipeline import HOUR, NOW, START, TIME_LEFT, Pipeline, hour
from tests.harness.shared_cache import HeldCache
from tests.unit.reads.test_reader import counted, event

MICROS = 1_000_000
COLD = ("windows_with_specs", "of_key")


class _Watched:
    """A reader; `looks` are its glances, `asked` the calls that only a cold count makes."""

    has_eventual = True

    def __init__(
        self,
        pipeline: Pipeline,
        settle_ms: int = 0,
        kept_ms: int = 0,
        cache: HeldCache | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.looks: list[Glance] = []
        self.asked: list[str] = []
        self.old: Seen | None = None  # what eventual looks see
        self.fails = False  # whether they fail
        ports = (pipeline.store, pipeline.catalog, pipeline.totals, pipeline.effects)
        self._glances = SingleGlances(*ports)
        settings = replace(pipeline.settings, cache_live_ms=kept_ms, settle_ms=settle_ms)
        self.reader = PortReader(settings, *ports, self, cache)
        for port, verb in ((pipeline.catalog, COLD[0]), (pipeline.totals, COLD[1])):
            setattr(port, verb, self._noting(verb, getattr(port, verb)))

    def _noting(self, verb: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any) -> Any:
            self.asked.append(verb)
            return call(*args)

        return noted

    def look(self, at: Glance) -> Seen:
        if at.keys:  # else it is the beginning of a cold count
            self.looks.append(at)
        if at.eventual and self.fails:
            raise Throttled("slow down")
        if at.eventual and self.old:
            return self.old
        return self._glances.look(at)

    def counts(self, *keys: str, **more: Any) -> list[int]:
        """The events of the keys; what was asked for before is forgotten."""
        self.looks.clear()
        self.asked.clear()
        return [one.events for one in self.reader.counts(keys, None, None, TIME_LEFT, **more)]

    @property
    def is_warm(self) -> bool:
        """Whether the last count took one look."""
        return len(self.looks) == 1 and not self.asked


@pytest.fixture
def watched() -> _Watched:
    """Key k has 1 event in a sealed window and 5 in live ones, and was counted."""
    one = _Watched(counted())
    assert one.counts("k") == [6]
    assert one.asked.count("windows_with_specs") == 1
    return one


def test_what_is_known_is_asked_for_by_one_look(watched: _Watched) -> None:
    watched.pipeline.write(event("e9", NOW))
    assert (watched.counts("k"), watched.is_warm) == ([7], True)
    [look] = watched.looks
    assert list(look.windows) == [hour(7), hour(8), hour(9), hour(10)]
    assert list(look.unbegun) == [hour(9), hour(10)]
    assert [spec.window for spec in look.begun] == [hour(7), hour(8)]
    assert list(look.months) == ["month#202611"]


def test_a_warm_answer_is_what_a_cold_one_is(watched: _Watched) -> None:
    watched.pipeline.move(Status.CLOSING)
    assert watched.reader.count("k") == watched.pipeline.reader().count("k")
    assert watched.reader.count("k").windows[-1].status is Status.CLOSING


def test_another_key_of_a_range_takes_its_sums_alone(watched: _Watched) -> None:
    assert watched.counts("k", "l") == [6, 1]
    assert (len(watched.looks), watched.asked) == (1, ["of_key"])
    assert (watched.counts("l", "k"), watched.is_warm) == ([1, 6], True)


def test_a_consistent_count_takes_nothing_that_is_kept(watched: _Watched) -> None:
    watched.counts("l")
    assert watched.counts("k", consistent=True) == [6]
    assert (watched.looks, len(watched.asked)) == ([], 2)
    assert (watched.counts("k", "l"), watched.is_warm) == ([6, 1], True)  # and leaves it


def test_an_eventual_count_may_be_old_and_says_so(watched: _Watched) -> None:
    watched.counts("k")
    watched.old = watched.look(watched.looks[-1])
    watched.pipeline.write(event("e9", NOW))
    [count] = watched.reader.counts(["k"], eventual=True)
    assert (count.events, count.source, watched.looks[-1].eventual) == (6, "eventual", True)
    assert counter_json(count)["reads"] == "eventual"
    assert (watched.counts("k"), watched.looks[0].eventual) == ([7], False)  # nothing was kept


def test_an_eventual_count_of_what_is_not_known_is_consistent(watched: _Watched) -> None:
    [count] = watched.reader.counts(["l"], eventual=True)
    assert (count.events, "reads" in counter_json(count)) == (1, False)
    assert not any(look.eventual for look in watched.looks)


def test_an_eventual_look_that_is_older_than_what_is_kept_leaves_it(watched: _Watched) -> None:
    watched.counts("k")
    watched.old = watched.look(watched.looks[-1])
    _open_past(watched.pipeline)
    assert watched.counts("k") == [7]
    assert watched.counts("k", eventual=True) == [7]  # the look has the pointer from before
    assert watched.asked
    watched.old = None
    assert (watched.counts("k"), watched.is_warm) == ([7], True)


def test_an_eventual_count_is_neither_kept_nor_shared() -> None:
    pipeline = counted()
    cache = HeldCache(pipeline.effects)
    watched = _Watched(pipeline, kept_ms=1_000, cache=cache)
    watched.counts("k")
    pipeline.effects.pass_by(1_000)
    watched.counts("k")
    watched.old = watched.look(watched.looks[-1])
    pipeline.effects.pass_by(1_000)
    pipeline.write(event("e9", NOW))
    cache.calls.clear()
    assert watched.counts("k", eventual=True) == [6]
    assert not cache.calls
    assert watched.counts("k") == [7]


def test_an_eventual_look_that_fails_leaves_what_is_kept(watched: _Watched) -> None:
    watched.fails = True
    assert watched.counts("k", eventual=True) == [6]
    assert watched.asked, "it was counted as if nothing were known"
    assert (watched.counts("k"), watched.is_warm) == ([6], True)


def test_where_no_read_is_eventual_no_answer_says_so(watched: _Watched) -> None:
    watched.has_eventual = False
    [count] = watched.reader.counts(["k"], eventual=True)
    assert (count.source, watched.looks[-1].eventual) == ("confirmed", False)


def test_a_count_is_read_in_one_way(watched: _Watched) -> None:
    with pytest.raises(UsageError, match="one of the two"):
        watched.counts("k", consistent=True, eventual=True)


def test_a_window_that_has_begun_since_is_counted(watched: _Watched) -> None:
    _begin_next(watched.pipeline)
    assert watched.counts("k") == [7]


def test_a_window_that_was_sealed_since_is_counted_by_its_total(watched: _Watched) -> None:
    _seal(watched.pipeline)
    assert (watched.counts("k"), watched.is_warm) == ([6], False)
    watched.pipeline.store.drop_table(watched.pipeline.state().table)
    assert (watched.counts("k"), watched.is_warm) == ([6], True)


def test_a_window_that_was_dropped_since_is_counted_by_its_total(watched: _Watched) -> None:
    _seal(watched.pipeline)
    for _ in range(2):
        watched.pipeline.store.drop_table(watched.pipeline.state().table)
    assert watched.counts("k") == [6]


def test_a_window_of_the_past_that_was_opened_since_is_counted(watched: _Watched) -> None:
    _open_past(watched.pipeline)
    assert watched.counts("k") == [7]


def test_a_correction_since_is_counted(watched: _Watched) -> None:
    _correct(watched.pipeline)
    assert watched.counts("k") == [5]
    assert (watched.counts("k"), watched.is_warm) == ([5], True)


def test_a_roller_that_changes_nothing_leaves_what_is_known(watched: _Watched) -> None:
    watched.pipeline.roller().run(TIME_LEFT)  # it forgets which window was created last
    watched.counts("k")
    for _ in range(2):
        watched.pipeline.roller().run(TIME_LEFT)
        assert (watched.counts("k"), watched.is_warm) == ([6], True)


def test_a_look_that_fails_is_no_failure_of_the_count(
    watched: _Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(at: Glance) -> Seen:
        if at.keys:
            raise Throttled("slow down")
        return look(at)

    look = watched.look
    monkeypatch.setattr(watched, "look", refuse)
    assert watched.counts("k") == [6]


# --- what would go wrong


@pytest.mark.parametrize("mistake", ["absence of a spec kept", "revision not asked for"])
def test_without_asking_a_count_is_wrong(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "spec" in mistake:
        monkeypatch.setattr(ReadPlan, "unbegun", [])
    else:
        monkeypatch.setattr("tallyroll.reads.counting.counter.months_of", lambda *_: set())
    one = _Watched(counted())
    one.counts("k")
    (_begin_next if "spec" in mistake else _correct)(one.pipeline)
    assert one.counts("k") == [6]
    assert one.counts("k", consistent=True) != [6]


# --- what is not kept


def test_a_creation_that_is_seen_in_part_is_not_believed() -> None:
    """The pointer names the window already, and the listing lacks it yet."""
    one = _Watched(counted())
    windows = one.pipeline.catalog.windows_with_specs
    _open_past(one.pipeline)

    def without(since: int, until: int) -> Any:
        found, specs = windows(since, until)
        return [window for window in found if window.id != hour(3)], specs

    one.pipeline.catalog.windows_with_specs = without  # type: ignore[method-assign]
    assert one.counts("k") == [6]
    one.pipeline.catalog.windows_with_specs = windows  # type: ignore[method-assign]
    assert one.counts("k") == [7]


@pytest.mark.parametrize("passes", [0, 59_999, 60_000])
def test_sums_are_kept_once_their_revision_has_settled(passes: int) -> None:
    """Till then a correction's transaction may be seen in part."""
    one = _Watched(counted(), settle_ms=60_000)
    _correct(one.pipeline)
    assert one.counts("k") == [5]
    one.pipeline.effects.pass_by(passes)
    one.counts("k")
    assert one.asked == ["of_key"]
    one.counts("k")
    assert one.is_warm is (passes == 60_000)


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "ROWS_MAX", 40)
    monkeypatch.setattr(kept, "RANGES_MAX", 3)
    reader = _Watched(counted()).reader
    held: Kept = reader._counter._kept
    for number in range(60):
        reader.count(f"k{number}")
        assert held._rows == sum(
            one.rows for each in held._ranges.values() for one in each.sealed.values()
        )
        assert held._rows <= 40
    for back in range(6):
        reader.count("k", START - back * HOUR)
    assert len(held._ranges) <= 3


def test_a_plan_of_an_open_range_ends() -> None:
    one = _Watched(counted())
    one.counts("k")
    one.pipeline.effects.pass_by(HOUR)
    assert (one.counts("k"), one.is_warm) == ([6], True)
    one.pipeline.effects.pass_by(1)
    assert (one.counts("k"), one.is_warm) == ([6], False)


# --- what happens meanwhile


def _seal(pipeline: Pipeline) -> None:
    pipeline.move(Status.CLOSING)
    pipeline.roller().run(TIME_LEFT)
    assert pipeline.state().status is Status.SEALED


def _begin_next(pipeline: Pipeline) -> None:
    """Window 09 opens, which was created before, and has an event."""
    pointer = pipeline.catalog.live()
    pipeline.catalog.put_spec(replace(pipeline.spec(), **_placed(pipeline, 9)))
    pipeline.store.open_gates(pipeline.spec(hour(9)))
    pipeline.move(Status.OPEN, hour(9))
    assert pipeline.catalog.live() == pointer
    _commit(pipeline, hour(9))


def _placed(pipeline: Pipeline, number: int) -> dict[str, Any]:
    window = pipeline.state(hour(number))
    return {"window": window.id, "table": window.table, "start": window.start, "end": window.end}


def _open_past(pipeline: Pipeline) -> None:
    """Window 03 is created and opened, and has an event."""
    start = START - 5 * HOUR
    window = Window(hour(3), f"tallyroll-{hour(3)}", start, start + HOUR)
    assert pipeline.catalog.create(window)
    pipeline.store.make_table(window.table, {})
    spec = replace(pipeline.spec(), **_placed(pipeline, 3), accept_from=0)
    pipeline.catalog.put_spec(spec)
    pipeline.store.open_gates(spec)
    pipeline.move(Status.OPEN, hour(3))
    _commit(pipeline, hour(3))


def _commit(pipeline: Pipeline, window: str) -> None:
    spec = pipeline.spec(window)
    record = Record("k", "one", 1, spec.start, 1, MICROS, b"digest", ((1, 1),))
    outcome = pipeline.store.commit(spec, [record], increments_of([record]))
    assert outcome.verdict is Verdict.COMMITTED


def _correct(pipeline: Pipeline) -> None:
    pipeline.totals.correct([Correction(hour(6), "e0", ("k",), 1, MICROS, b"digest", START)])
    assert pipeline.totals.revision(month_of(START).name) == 1

"""Wishes for the shards of a key: a wish that stands is in every spec that is frozen after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tallyroll.errors import Absent, StateConflict, UsageError
from tallyroll.limits import HOT_KEYS_MAX, HOT_LIST_BYTES_MAX
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status, Wish, Wishes
from tallyroll.operations.heat.wishes import HotKey, WishDesk
from tallyroll.ports.table_listing import TableFacts
from tests.harness.pipeline import HOUR, MINUTE, NOW, START, TIME_LEFT, Pipeline, hour, opened

TEN = START + 2 * HOUR


@pytest.fixture
def pipeline() -> Pipeline:
    return opened()


@pytest.fixture
def desk(pipeline: Pipeline) -> WishDesk:
    calendar = pipeline.catalog.calendar()
    assert calendar
    return WishDesk(pipeline.catalog, calendar, pipeline.effects)


def roll_at(pipeline: Pipeline, at: int) -> None:
    """Let the roller run at this time, until it has nothing to do."""
    pipeline.effects.pass_by(at - pipeline.effects.now())
    for _ in range(2):
        rolled = pipeline.roller().run(TIME_LEFT)
        assert not rolled.problems


def test_a_wish_is_in_the_windows_from_then_on(pipeline: Pipeline, desk: WishDesk) -> None:
    split = desk.split("k", 1_024, TEN + MINUTE, TEN + HOUR + 1)
    assert split.window == hour(10), "the window of that time"
    assert split.replaced is None
    roll_at(pipeline, START + 4 * HOUR)
    found = [pipeline.spec(hour(n)).shards_of("k") for n in (8, 9, 10, 11)]
    assert found == [4, 4, 1_024, 1_024], "beyond shards_max, which bounds what adapts by itself"
    assert pipeline.spec(hour(12)).hot == {"k": 512}, "from where it halves"
    assert pipeline.spec(hour(10)).why == {"k": "wish"}
    assert pipeline.spec(hour(12)).why == {"k": "rate"}


def test_without_a_time_the_first_window_that_takes_it(pipeline: Pipeline, desk: WishDesk) -> None:
    assert desk.split("k", 64, None).window == hour(9)
    roll_at(pipeline, START + 58 * MINUTE)
    assert pipeline.spec(hour(9)).hot == {"k": 64}
    assert desk.split("l", 64, None).window == hour(10)
    assert desk.split("k", 32, None).window == hour(8 + 1), "the frozen one has as many"


@pytest.mark.parametrize("frozen_at", [NOW, START + 58 * MINUTE])
def test_a_frozen_window_is_refused_with_the_first_that_takes_it(
    pipeline: Pipeline, desk: WishDesk, frozen_at: int
) -> None:
    roll_at(pipeline, frozen_at)
    last, first = (hour(8), hour(9)) if frozen_at == NOW else (hour(9), hour(10))
    since = pipeline.spec(last).end - 1
    with pytest.raises(
        UsageError, match=rf"{last} is frozen with 4 .*takes 64 is {first} \(--from"
    ):
        desk.split("k", 64, since)
    assert pipeline.catalog.wishes() == Wishes(), "nothing was wished meanwhile"
    assert desk.split("k", 64, since + 1).window == first


def test_a_window_that_became_longer_since_the_command_began(
    pipeline: Pipeline, desk: WishDesk
) -> None:
    """The window of noon holds 13:00, too, of which the desk's calendar knows nothing."""
    pipeline.settings, noon = replace(pipeline.settings, window_seconds=7_200), START + 4 * HOUR
    for at in (START, TEN, noon):
        roll_at(pipeline, at)
    assert pipeline.spec(hour(12)).end == noon + 2 * HOUR
    with pytest.raises(UsageError, match=rf"{hour(12)} is frozen .*is {hour(14)} \(--from"):
        desk.split("k", 64, noon + HOUR)
    assert desk.split("k", 64, noon + 3 * HOUR).window == hour(14)


def test_a_window_that_is_frozen_while_the_wish_is_put(
    pipeline: Pipeline, desk: WishDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The specs are read after the wish is put: before it, they were not frozen."""
    before = desk.split("k", 8, TEN).wish
    pipeline.effects.pass_by(START + 58 * MINUTE - NOW)
    put = pipeline.catalog.put_wishes

    def overtaken(read: Wishes, wanted: dict[str, Wish]) -> Wishes:
        monkeypatch.undo()
        roll_at(pipeline, pipeline.effects.now())
        return put(read, wanted)

    monkeypatch.setattr(pipeline.catalog, "put_wishes", overtaken)
    with pytest.raises(UsageError, match=f"{hour(9)} is frozen .* is {hour(10)}"):
        desk.split("k", 64, START + HOUR)
    assert pipeline.catalog.wishes().of == {"k": before}, "the wish before it stands again"

    monkeypatch.setattr(pipeline.catalog, "put_wishes", overtaken)
    assert desk.split("l", 64, None).window == hour(10), "without a time the next one does"
    assert pipeline.catalog.wishes().of["l"].since == TEN


def test_a_wish_between_a_rollers_read_and_its_spec(
    pipeline: Pipeline, desk: WishDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.effects.pass_by(START + 58 * MINUTE - NOW)
    _wish_before_the_spec(pipeline, desk, monkeypatch)
    roll_at(pipeline, pipeline.effects.now())
    assert pipeline.spec(hour(9)).hot == {"k": 64}
    assert not any(one.lacks for one in desk.hot_keys())


def test_a_roller_that_does_not_check_loses_it_and_the_list_tells(
    pipeline: Pipeline, desk: WishDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_spec = pipeline.catalog.put_spec
    pipeline.effects.pass_by(START + 58 * MINUTE - NOW)
    _wish_before_the_spec(pipeline, desk, monkeypatch, lambda spec, _: put_spec(spec))
    roll_at(pipeline, pipeline.effects.now())
    assert pipeline.spec(hour(9)).hot == {}
    wish = pipeline.catalog.wishes().of["k"]
    assert desk.hot_keys() == [
        HotKey("k", hour(9), 4, 8, hour(6), "", wish, lacks=True),
        HotKey("k", hour(10), wish=wish),
    ]


def _wish_before_the_spec(
    pipeline: Pipeline,
    desk: WishDesk,
    patch: pytest.MonkeyPatch,
    put: Callable[[Spec, int], object] | None = None,
) -> None:
    put = put or pipeline.catalog.put_spec

    def overtaken(spec: Spec, wishes: int) -> object:
        patch.undo()
        desk.split("k", 64, START + HOUR)
        return put(spec, wishes)

    patch.setattr(pipeline.catalog, "put_spec", overtaken)


def test_wishes_that_change_again_and_again_leave_it_to_the_next_run(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.effects.pass_by(START + 58 * MINUTE - NOW)

    def changed(*_: object) -> None:
        raise StateConflict("changed")

    with monkeypatch.context() as patch:
        patch.setattr(pipeline.catalog, "put_spec", changed)
        pipeline.roller().run(TIME_LEFT)
        assert hour(9) not in pipeline.catalog.specs([hour(9)])
    roll_at(pipeline, pipeline.effects.now())
    assert pipeline.state(hour(9)).status is Status.OPEN


@pytest.mark.parametrize(
    ("since", "until", "error"),
    [
        (NOW - 1, None, "--from 2026-11-20T08:29:59.999Z is past: it is 2026-11-20T08:30"),
        (None, NOW - 1, "--until 2026-11-20T08:29:59.999Z is past"),
        (TEN, TEN, "--until 2026-11-20T10:00:00.000Z: the first window that takes it starts at"),
        (None, NOW + MINUTE, "--until 2026-11-20T08:31:00.000Z: .* 2026-11-20T09:00:00.000Z"),
    ],
)
def test_wrong_times(desk: WishDesk, since: int | None, until: int | None, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        desk.split("k", 64, since, until)
    assert desk.catalog.wishes() == Wishes()


def test_there_are_as_many_as_a_spec_has_room_for(desk: WishDesk) -> None:
    long = "x" * 512
    most = HOT_LIST_BYTES_MAX // 512
    assert most == HOT_KEYS_MAX
    for n in range(most):
        desk.split(f"{n:03}{long[3:]}", 64, None)
    with pytest.raises(UsageError, match=r"201 keys .* at most 200 .* tallyroll keys merge"):
        desk.split("k", 64, None)
    desk.split(f"{1:03}{long[3:]}", 65, None)
    desk.merge(f"{0:03}{long[3:]}")
    with pytest.raises(UsageError, match="102,401 bytes"):
        desk.split(long + "x", 64, None)
    desk.split("k", 64, None)


def test_a_wish_is_withdrawn_and_its_windows_keep_it(pipeline: Pipeline, desk: WishDesk) -> None:
    wish = desk.split("k", 64, None).wish
    roll_at(pipeline, START + 58 * MINUTE)
    assert desk.merge("k") == wish
    assert desk.frozen_with("k", wish) == [hour(9)]
    with pytest.raises(Absent, match="no wish for 'k'"):
        desk.merge("k")
    roll_at(pipeline, START + 4 * HOUR)
    assert [pipeline.spec(hour(n)).shards_of("k") for n in (9, 10, 11)] == [64, 32, 16]


def test_the_roller_removes_what_has_ended(pipeline: Pipeline, desk: WishDesk) -> None:
    lasting = desk.split("lasting", 64, None).wish
    desk.split("ended", 64, None, TEN)
    roll_at(pipeline, TEN - 2 * MINUTE)
    assert pipeline.spec(hour(10)).hot == {"lasting": 64, "ended": 32}
    assert set(pipeline.catalog.wishes().of) == {"lasting", "ended"}
    roll_at(pipeline, TEN + 58 * MINUTE)
    assert pipeline.catalog.wishes().of == {"lasting": lasting}


def test_a_wish_stays_for_a_window_that_is_frozen_late(pipeline: Pipeline, desk: WishDesk) -> None:
    desk.split("k", 64, None, TEN)
    described, late = pipeline.store.describe_table, [hour(9)]

    def absent(table: str) -> TableFacts | None:
        return None if table.endswith(tuple(late)) else described(table)

    pipeline.store.describe_table = absent  # type: ignore[method-assign]
    roll_at(pipeline, TEN + 58 * MINUTE)
    assert "k" in pipeline.catalog.wishes().of
    late.clear()
    roll_at(pipeline, TEN + 59 * MINUTE)
    assert pipeline.spec(hour(9)).hot == {"k": 64}
    roll_at(pipeline, START + 4 * HOUR)
    assert pipeline.catalog.wishes().of == {}


def test_hot_keys_with_what_comes(pipeline: Pipeline, desk: WishDesk) -> None:
    one = desk.split("one", 64, None).wish
    later = desk.split("two", 32, TEN + HOUR).wish
    assert desk.hot_keys() == [
        HotKey("one", hour(9), wish=one),
        HotKey("two", hour(11), wish=later),
    ]
    roll_at(pipeline, START + 58 * MINUTE)
    assert desk.hot_keys() == [
        HotKey("one", hour(9), 64, 64, hour(9), "wish", one),
        HotKey("two", hour(11), wish=later),
    ]
    roll_at(pipeline, TEN + 58 * MINUTE)
    found = {(each.key, each.window): each for each in desk.hot_keys()}
    assert found["one", hour(10)] == HotKey("one", hour(10), 64, 64, hour(9), "wish", one)
    assert found["two", hour(11)] == HotKey("two", hour(11), 32, 32, hour(11), "wish", later)


def test_a_wish_to_come_is_listed_beside_as_many_shards_of_now(
    pipeline: Pipeline, desk: WishDesk
) -> None:
    desk.split("k", 64, None)
    roll_at(pipeline, START + HOUR)
    wish = desk.split("k", 64, TEN + 3 * HOUR).wish
    assert desk.hot_keys() == [
        HotKey("k", hour(9), 64, 64, hour(9), "wish"),
        HotKey("k", hour(13), wish=wish),
    ]


def test_others_change_the_wishes_meanwhile(
    desk: WishDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, times = desk.catalog.put_wishes, [0]

    def overtaken(read: Wishes, wanted: dict[str, Wish]) -> Wishes:
        times[0] += 1
        if times[0] <= limit[0]:
            put(read, {**read.of, f"other-{times[0]}": Wish(9, NOW, None, NOW)})
        return put(read, wanted)

    limit = [3]
    monkeypatch.setattr(desk.catalog, "put_wishes", overtaken)
    desk.split("k", 64, None)
    assert set(desk.catalog.wishes().of) == {"k", "other-1", "other-2", "other-3"}
    limit[0] = 100
    with pytest.raises(StateConflict, match="run it again"):
        desk.split("l", 64, None)

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.errors import Refused, StoreError, Throttled
from tallyroll.model.states import LivePointer, Status
from tallyroll.model.windows import window_start
from tallyroll.operations.teardown import (
    DELETE_WITHIN_MS,
    STUCK_MS,
    Teardown,
    TeardownProgress,
    delete,
    inventory,
    waits,
    without_table,
)
from tallyroll.ports.queue import Backlog
from tallyroll.resources import TAG_PIPELINE
from tests.harness.doctoring import bad, case_of, first, grown, listing_of, states
from tests.harness.pipeline import HOUR, NOW, SMALL, TIME_LEFT, Pipeline, StillEffects, hour, opened

DAY = 24 * HOUR


class Crash(BaseException):
    """The command is killed."""


def teardown(pipeline: Pipeline) -> Teardown:
    before = pipeline.settings
    pipeline.settings = replace(before, retention_ms=0)
    made = Teardown(
        pipeline.settings,
        pipeline.store,
        pipeline.catalog,
        pipeline.effects,
        pipeline.roller(),
        pipeline.cleanup(),
        pipeline.dropper(),
    )
    pipeline.settings = before
    return made


def ignore(progress: object) -> None:
    """Nobody watches."""


def counted(pipeline: Pipeline) -> int:
    return sum(pipeline.reader().count(f"k{n}", None, None, TIME_LEFT).events for n in range(3))


def test_every_window_is_carried_to_its_end() -> None:
    pipeline = grown()
    events = counted(pipeline)
    assert events == 24
    told: list[TeardownProgress] = []
    last = teardown(pipeline).run(DAY, told.append)
    assert last.left == ()
    assert pipeline.store.tables() == []
    assert set(states(pipeline).values()) == {Status.DROPPED}
    assert max(states(pipeline)) == hour(10)  # no window was made meanwhile
    assert counted(pipeline) == events
    assert told[0].left != ()
    # All is proven; what the doctor misses is the roller.
    assert bad(pipeline, deep=True).keys() == {"roller"}


def test_a_window_that_was_never_opened_has_the_pipelines_rule_of_ids() -> None:
    pipeline = opened(replace(SMALL, identity="key"))
    calendar = pipeline.catalog.calendar()
    assert calendar
    teardown(pipeline).run(DAY, ignore)
    assert pipeline.spec(hour(10)).genesis == calendar.genesis == pipeline.spec().genesis


def test_windows_that_were_never_opened() -> None:
    """Also those whose table is not made yet."""
    pipeline = Pipeline(SMALL, StillEffects(NOW))
    pipeline.roller().run(TIME_LEFT)
    table = pipeline.state(hour(10)).table
    assert pipeline.state(hour(10)).status is Status.CREATING
    pipeline.store.drop_table(table)
    assert teardown(pipeline).run(DAY, ignore).left == ()
    assert states(pipeline) == dict.fromkeys((hour(8), hour(9), hour(10)), Status.DROPPED)
    assert pipeline.state(hour(10)).events == 0


def test_what_arrives_meanwhile_is_not_lost_unseen() -> None:
    pipeline = opened()
    tear = teardown(pipeline)
    tear._close(pipeline.state(hour(8)))
    tear.roller.run(TIME_LEFT, make=False)
    report = pipeline.write({"key": "k0", "id": "late", "ts": NOW})
    assert report.failures or pipeline.reasons() == ["window-sealed"]


@pytest.mark.parametrize("port", ["store", "catalog", "bucket"])
def test_interrupted_anywhere_and_begun_again(port: str) -> None:
    """A crash before each eleventh call at a port; the next run goes on, and all ends proven."""
    pipeline = grown(3)
    events, calls = counted(pipeline), 0
    target = getattr(pipeline, port)
    names = {
        "store": ("describe_table", "shut_gates", "drop_table", "tag_table", "scan"),
        "catalog": ("advance", "put_spec", "live"),
        "bucket": ("put", "put_once", "get"),
    }[port]

    def crashing(method: object) -> object:
        def call(*arguments: object, **more: object) -> object:
            nonlocal calls
            calls += 1
            if calls % 11 == 0:
                raise Crash
            return method(*arguments, **more)  # type: ignore[operator]

        return call

    for name in names:
        setattr(target, name, crashing(getattr(target, name)))
    crashes, last = 0, None
    while last is None:
        try:
            last = teardown(pipeline).run(DAY, ignore)
        except Crash:
            crashes += 1
            assert crashes < 200
    assert crashes > 1
    assert last.left == ()
    assert pipeline.store.tables() == []
    for name in names:
        delattr(target, name)
    assert counted(pipeline) == events
    assert "archives" not in bad(pipeline, deep=True)


def test_a_window_that_cannot_be_proven_stays() -> None:
    pipeline = grown(3)
    sealed = first(pipeline, Status.SEALED)
    key = ("k0", sealed)
    pipeline.totals._totals[key] = replace(pipeline.totals._totals[key], n=99)
    began = pipeline.effects.now()
    last = teardown(pipeline).run(DAY, ignore)
    assert [window.id for window in last.left] == [sealed]
    assert "k0" in last.left[0].attempt.problem
    assert pipeline.state(sealed).table in pipeline.store.tables()
    assert STUCK_MS <= pipeline.effects.now() - began <= DAY


def test_a_window_that_the_live_pointer_has_passed_is_told() -> None:
    pipeline = grown(3)
    sealed = first(pipeline, Status.SEALED)
    pipeline.catalog._live = LivePointer(window_start(sealed) + HOUR, 99)
    last = teardown(pipeline).run(DAY, ignore)
    assert [window.id for window in last.left] == [sealed]
    assert last.problems == (f"window {sealed}: passed by the live pointer (tallyroll doctor)",)


def test_time_is_up() -> None:
    pipeline = grown(3)
    began = pipeline.effects.now()
    assert teardown(pipeline).run(0, ignore).left
    assert pipeline.effects.now() < began + HOUR


def test_what_a_deletion_would_lose() -> None:
    pipeline = grown()
    pipeline.write({"key": "k0", "id": "one more"})
    found = inventory(case_of(pipeline))
    losses = {loss.window: loss for loss in found.losses}
    sealed = first(pipeline, Status.SEALED)
    assert (losses[sealed].events, losses[sealed].archived) == (3, False)
    assert losses[hour(8)].events == 1
    assert losses[hour(10)].events == 0
    assert len(losses) == len(pipeline.store.tables())


def test_only_tables_of_this_pipeline() -> None:
    pipeline = opened()
    make = pipeline.store.make_table
    make("tallyroll-eu-20261120T080000Z", {TAG_PIPELINE: "tallyroll-eu"})
    make("tallyroll-20200101T000000Z", {TAG_PIPELINE: "another"})
    make("tallyroll-20200101T010000Z", {TAG_PIPELINE: "tallyroll"})
    make("tallyroll-20200101T020000Z")
    make("tallyroll-20200101T020000Z-inspected", {TAG_PIPELINE: "tallyroll"})
    pipeline.store.table(f"tallyroll-{hour(8)}").tags.clear()
    pipeline.store.table(f"tallyroll-{hour(7)}").tags[TAG_PIPELINE] = "another"
    found = inventory(case_of(pipeline))
    hours = [hour(n) for n in (6, 8, 9, 10)]
    assert [loss.window for loss in found.losses] == ["20200101T010000Z", *hours]
    assert found.spared == {
        "tallyroll-20200101T000000Z": "its tag tallyroll is 'another'",
        "tallyroll-20200101T020000Z": "it has no tag tallyroll, and the catalog does not name it",
        f"tallyroll-{hour(7)}": "its tag tallyroll is 'another'",
    }


def test_a_foreign_table_under_a_windows_name_is_spared() -> None:
    pipeline = opened()
    for number, foreign in ((8, "id S HASH"), (9, "")):
        table = pipeline.store.table(f"tallyroll-{hour(number)}")
        table.foreign = foreign
        table.tags.clear()
    pipeline.catalog.advance(replace(pipeline.state(hour(9)), status=Status.CREATING, times={}))
    found = inventory(case_of(pipeline))
    assert [loss.window for loss in found.losses] == [hour(6), hour(7), hour(10)]
    assert found.spared == {
        f"tallyroll-{hour(8)}": "another hand made it: its keys are id S HASH, not pk S HASH, sk S"
        " RANGE",
        f"tallyroll-{hour(9)}": "another hand made it: its tag tallyroll is missing,"
        " not 'tallyroll'",
    }


def test_windows_whose_tables_are_gone_hold_up_no_other() -> None:
    pipeline = grown()
    by_state = {status: window for window, status in states(pipeline).items()}
    gone = {by_state[status] for status in (Status.OPEN, Status.SEALED)} | {hour(6)}
    alive = [w for w in pipeline.catalog.windows(0, NOW + DAY) if w.status is not Status.DROPPED]
    for window in gone:
        pipeline.store.drop_table(pipeline.state(window).table)
    found = without_table(case_of(pipeline), alive)
    assert found == {w: f"its table tallyroll-{w} is gone" for w in sorted(gone)}
    before = pipeline.effects.now()
    assert teardown(pipeline).run(DAY, ignore, found).left == ()
    assert pipeline.effects.now() - before < STUCK_MS
    assert pipeline.store.tables() == []
    assert {w for w, s in states(pipeline).items() if s is not Status.DROPPED} == gone


def test_a_window_whose_table_is_still_to_be_made_is_no_loss() -> None:
    pipeline = Pipeline(SMALL, StillEffects(NOW))
    pipeline.roller().run(TIME_LEFT)
    window = pipeline.state(hour(10))
    pipeline.store.drop_table(window.table)
    assert window.status is Status.CREATING
    assert without_table(case_of(pipeline), [window]) == {}
    pipeline.store.make_table(window.table, {TAG_PIPELINE: "another"})
    window = replace(window, times={})
    assert "another hand made" in without_table(case_of(pipeline), [window])[window.id]


def test_deletion_waits_until_tables_are_gone_and_names_what_is_refused() -> None:
    pipeline = opened()
    store = pipeline.store
    store._deleting_ms = 30_000
    tables = store.tables()
    drop = store.drop_table

    def picky(table: str) -> None:
        if table == tables[1]:
            store.table(table).protected = False
            raise Refused("DeleteTable: AccessDeniedException: no", "AccessDeniedException")
        drop(table)

    store.drop_table = picky  # type: ignore[method-assign]
    listing = listing_of(pipeline)
    protect, tries = listing.protect, 0

    def late(table: str) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise Throttled("UpdateTable: it is being changed", "ResourceInUseException")
        protect(table)

    listing.protect = late  # type: ignore[method-assign]
    done = delete(case_of(pipeline, tables=listing), tables, ignore)
    assert store.tables() == [tables[1]]
    assert sorted(done.gone) == sorted(set(tables) - {tables[1]})
    assert done.refused.keys() == {tables[1]}
    assert store.table(tables[1]).protected
    assert done.left == []


def test_deletion_gives_up_on_what_does_not_go() -> None:
    pipeline = opened()
    pipeline.store._deleting_ms = DAY
    done = delete(case_of(pipeline), pipeline.store.tables(), ignore)
    assert len(done.left) == 5
    assert DELETE_WITHIN_MS <= pipeline.effects.now() - NOW < 2 * DELETE_WITHIN_MS


def test_an_error_ends_a_deletion() -> None:
    pipeline = opened()

    def fail(table: str) -> None:
        raise StoreError("no answer")

    pipeline.store.drop_table = fail  # type: ignore[method-assign]
    with pytest.raises(StoreError):
        delete(case_of(pipeline), ["a"], ignore)


def test_a_queue_is_empty_if_three_looks_say_so() -> None:
    class Counts:
        def __init__(self, *visible: int) -> None:
            self.left = list(visible)

        def backlog(self, _since: int) -> Backlog:
            return Backlog(self.left.pop(0), 0, 0)

    effects = StillEffects()
    assert not waits(Counts(0, 0, 0), effects)
    assert waits(Counts(0, 0, 1), effects)
    assert waits(Counts(1), effects)

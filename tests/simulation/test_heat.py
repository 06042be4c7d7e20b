"""Some worlds raise stripes, wish and have other releases; the book of wishes can fail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.adapters.memory import MemoryCatalog
from tallyroll.model.specs import log_rule
from tallyroll.model.states import Wish, Wishes
from tallyroll.operations.heat.wishes import Split
from tests.harness.pipeline import spec_of
from tests.simulation.before import CatalogOfBefore, settings_of_before
from tests.simulation.plans import FAULTS_MS, SETTINGS, START_MS, plan_of
from tests.simulation.wish_book import WishBook
from tests.simulation.world import Group, Violation, World

SPEC = replace(spec_of(), shards=3, hot={"hot": 8}, suffix="calculated+s1")
LOGS = {"hot": log_rule(80)}
WISH = Wish(8, SPEC.start, None, SPEC.start)


def test_some_worlds_heat_and_others_are_as_they_were() -> None:
    plans = [plan_of(seed) for seed in range(400)]
    heats = [plan.heat for plan in plans if plan.heat.heats]
    assert 60 <= len(heats) <= 110
    assert {plan.wishes for plan in heats} == {plan.has_before for plan in heats} == {True, False}
    assert all(
        plan.before_from < plan.before_until <= FAULTS_MS for plan in heats if plan.has_before
    )
    assert not any(plan.heat.has_before for plan in plans if plan.with_fuse)
    cold = next(plan.heat for plan in plans if not plan.heat.heats)
    assert not cold.first()


@pytest.mark.parametrize(
    ("wished", "finding"),
    [({}, ""), ({"hot": WISH}, ""), ({"hot": replace(WISH, shards=9)}, "8: .* was frozen while 9")],
)
def test_a_spec_without_a_wish_that_stands_is_found(wished: dict[str, Wish], finding: str) -> None:
    for by_before in (False, True):
        book = WishBook(World(1, START_MS))
        if finding and not by_before:
            with pytest.raises(Violation, match=finding):
                book.on_frozen(SPEC, Wishes(wished, 1), by_before=by_before)
        else:
            book.on_frozen(SPEC, Wishes(wished, 1), by_before=by_before)


def put(world: World, book: WishBook, wish: Wish) -> None:
    """A command puts a wish."""
    world.spawn("wish", lambda: book.on_put(Wishes(), Wishes({"hot": wish}, 1)), Group("wish1"))
    world.run(world.now + 1)


def test_a_promise_without_the_wish_is_found() -> None:
    world = World(1, START_MS)
    book = WishBook(world)
    more = replace(WISH, shards=9)
    promised, standing = Split(more, SPEC.window, None), Wishes({"hot": more}, 1)
    with pytest.raises(Violation, match="never put"):
        book.on_split("hot", promised, standing, [], 0)
    book = WishBook(world := World(1, START_MS))
    put(world, book, more)
    book.on_split("hot", promised, Wishes({"hot": WISH}, 2), [SPEC], 0)  # replaced since
    book.on_split("hot", promised, standing, [SPEC], SPEC.end)  # the window is over
    assert book.most == 9
    with pytest.raises(Violation, match="is without it"):
        book.on_split("hot", promised, standing, [SPEC], 0)


def test_a_refused_wish_that_stands_is_found() -> None:
    world = World(1, START_MS)
    book = WishBook(world)
    put(world, book, WISH)
    world.spawn("other", lambda: book.on_refused("hot", Wishes({"hot": WISH}, 1)), Group("wish2"))
    world.run(world.now + 1)
    world.spawn("own", lambda: book.on_refused("hot", Wishes({"hot": WISH}, 1)), Group("wish1"))
    with pytest.raises(Violation, match="was refused, and stands"):
        world.run(world.now + 1)


def test_the_release_before_reads_no_rule_of_stripes() -> None:
    catalog = MemoryCatalog()
    catalog.put_spec(SPEC)
    catalog.put_wishes(Wishes(), {"hot": WISH})
    reader, writer = (CatalogOfBefore(catalog, not_place=each) for each in (False, True))
    [read] = reader.specs([SPEC.window]).values()
    assert (read.own_stripes, read.stripes_of("hot")) == (False, SPEC.stripes_most("hot"))
    assert read.shard("hot", "x") == SPEC.shard("hot", "x")
    [unknown] = writer.specs([SPEC.window]).values()
    with pytest.raises(Exception, match="suffix strategy"):
        unknown.shard("hot", "x")
    assert not reader.wishes().of
    assert not settings_of_before(SETTINGS).own_stripes


def test_the_release_before_places_nothing_in_a_window_with_logs() -> None:
    catalog = MemoryCatalog()
    catalog.put_spec(replace(SPEC, suffix="calculated+log2", logs=LOGS))
    reader, writer = (CatalogOfBefore(catalog, not_place=each) for each in (False, True))
    [read] = reader.specs([SPEC.window]).values()
    assert read.logs == LOGS
    [unknown] = writer.specs([SPEC.window]).values()
    with pytest.raises(Exception, match="suffix strategy"):
        unknown.shard("hot", "x")
    assert not settings_of_before(replace(SETTINGS, logs={"hot": 80})).logs

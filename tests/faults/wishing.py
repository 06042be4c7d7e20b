"""A life in which an operator wishes shards for a key, under faults."""

from __future__ import annotations

from functools import partial

from tallyroll.adapters.dynamodb.catalog_items import key_of, parse_spec
from tallyroll.cli.main import NOT_REACHED
from tests.faults.exactness import Ledger
from tests.faults.injector import Crash
from tests.faults.lives import NOW_WINDOW, is_, turns
from tests.faults.world import BEGIN, World, window_of
from tests.harness.pipeline import HOUR, MINUTE

NEXT_WINDOW = window_of(BEGIN + HOUR)
SPLIT = ("split", "wished", "--shards", "48")
OTHER, WITHDRAWN = ("split", "other", "--shards", "32"), ("merge", "other")


def wished_life(world: World, _: Ledger) -> None:
    """A key gets the shards that are wished for it, and none that were withdrawn. A command whose
    process crashed is run again.
    """
    turns(world, is_(world, "open", NOW_WINDOW), world.roll)
    _carry_out(world, SPLIT, {0})
    _carry_out(world, OTHER, {0})
    # One that had withdrawn the wish before it crashed finds none when it is run again.
    _carry_out(world, WITHDRAWN, {0, NOT_REACHED})
    world.time.pass_by(BEGIN + HOUR // 2 - MINUTE - world.time.now())
    turns(world, is_(world, "open", NEXT_WINDOW), world.roll)
    key = key_of(NEXT_WINDOW, "spec")
    item = world.raw.dynamodb.get_item(TableName=f"{world.settings.name}-catalog", Key=key)["Item"]
    spec = parse_spec(item)
    if spec.hot != {"wished": 48} or spec.why != {"wished": "wish"}:
        world.problems.append(f"{NEXT_WINDOW} is frozen with {spec.hot}, {spec.why}")


def _carry_out(world: World, words: tuple[str, ...], ends: set[int]) -> None:
    done: set[int] = set()
    turns(world, partial(_any, ends, done), lambda: done.add(_keys(world, *words)))


def _any(ends: set[int], done: set[int]) -> bool:
    return bool(ends & done)


def _keys(world: World, *words: str) -> int:
    """The exit status of `tallyroll keys`; -1 if its process crashed."""
    try:
        return world.command("keys", *words)
    except Crash:
        world.crashes += 1
        return -1

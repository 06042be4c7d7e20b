"""The book of identities can fail, and worlds have every rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.adapters.dynamodb.items import Item
from tallyroll.model.records import Record
from tallyroll.model.specs import IdentityScope, Spec
from tests.harness.pipeline import spec_of
from tests.simulation.identity_rules import DAY_SECONDS, MISSING, THROTTLED, is_deleted
from tests.simulation.oracle import Oracle
from tests.simulation.plans import START_MS, WINDOW_MS, plan_of
from tests.simulation.sent import Sent
from tests.simulation.truth import window_name
from tests.simulation.world import Violation, World

DAY = 10  # seconds
DAY_MS = DAY * 1000
EXPIRES = 1_000
ITEM: Item = {"expires": {"N": str(EXPIRES)}}
DIGEST = b"digest"


def test_half_of_the_worlds_remember_ids_and_they_have_every_rule() -> None:
    plans = [plan_of(seed).identities for seed in range(400)]
    remembering = [plan for plan in plans if plan.remembers]
    assert 150 <= len(remembering) <= 250
    assert {plan.scope for plan in remembering} == {*IdentityScope}
    assert {plan.changes for plan in remembering} == {False, True}
    assert {plan.day_seconds < DAY_SECONDS for plan in remembering} == {False, True}
    hows = {outage.how for plan in remembering for outage in plan.outages}
    assert hows == {MISSING, THROTTLED}
    assert not any(plan_of(n).gentle for n, plan in enumerate(plans) if plan.outages)


def test_an_identity_is_deleted_some_time_after_it_expires() -> None:
    def deleted(at: int) -> set[bool]:
        return {is_deleted(seed, "a", ITEM, at * 1000, DAY) for seed in range(50)}

    assert deleted(EXPIRES - 1) == {False}
    assert deleted(EXPIRES + DAY) == {False, True}
    assert deleted(EXPIRES + 2 * DAY) == {True}


class Scene:
    """Events of one id without a time, counted at will in windows of one rule."""

    def __init__(self, scope: IdentityScope) -> None:
        self.world = World(1, START_MS)
        self.oracle = Oracle(self.world, WINDOW_MS, DAY, with_fuse=False)
        self._scope = scope

    def count(self, sent: int, at: int, key: str = "a", **more: Any) -> Sent:
        """Count what was sent at `sent`, at another time (s after the start)."""
        told = Sent(key, "x", sent=START_MS + sent * 1000, message_id=f"{key}{sent}", **more)
        spec = self.spec(told)
        self.oracle.on_send(told)
        self.oracle.book.on_spec(spec)
        self.world.now = START_MS + at * 1000
        record = Record(key, "x", 1, told.time, told.n, told.amount, DIGEST, ())
        self.oracle.book.on_counted(spec, record, [told])
        return told

    def spec(self, sent: Sent) -> Spec:
        """The spec of the window of a message."""
        return spec_of(
            window=self.oracle.window_of(sent.time), identity=self._scope, identity_days=2
        )

    def item(self, sent: Sent) -> Item:
        """The item of a message's id."""
        window = window_name(self.oracle.spans.at(sent.time)[0])
        return {"w": {"S": window}, "k": {"S": sent.key}, "h": {"B": DIGEST}}


@pytest.mark.parametrize("scope", [IdentityScope.KEY, IdentityScope.PIPELINE])
def test_an_id_that_counts_in_two_windows_is_found(scope: IdentityScope) -> None:
    scene = Scene(scope)
    scene.count(50, 51)
    with pytest.raises(Violation, match="counts in"):
        scene.count(65, 150)


FREE: dict[str, Callable[[Scene], object]] = {
    "sent more than its days later": lambda scene: scene.count(71, 72),
    "a copy that lived longer than AWS lets it": lambda scene: scene.count(65, 66 + 14 * DAY),
    "the same event under another of its keys": lambda scene: scene.count(50, 51),
}


@pytest.mark.parametrize("again", FREE)
def test_what_the_promise_leaves_out_may_count_again(again: str) -> None:
    scene = Scene(IdentityScope.PIPELINE)
    scene.count(50, 51)
    FREE[again](scene)


def test_in_the_scope_of_the_key_other_keys_are_free() -> None:
    scene = Scene(IdentityScope.KEY)
    scene.count(0, 1)
    scene.count(1, 2, "b")
    with pytest.raises(Violation, match="counts in"):
        scene.count(2, 3, "b", amount=7)


@pytest.mark.parametrize("stored", [0, 1, 2])
def test_each_event_that_counts_has_one_item(stored: int) -> None:
    scene = Scene(IdentityScope.PIPELINE)
    item = scene.item(scene.count(0, 1))
    items = {str(number): item for number in range(stored)}
    if stored == 1:
        scene.oracle.book.check_items(items)
        other = {**item, "h": {"B": b"other"}}
        with pytest.raises(Violation, match="of nothing that counts"):
            scene.oracle.book.check_items({**items, "other": other})
        return
    with pytest.raises(Violation, match=f"has {stored} identities, not 1"):
        scene.oracle.book.check_items(items)


def test_an_item_may_be_gone_once_no_copy_can_come() -> None:
    scene = Scene(IdentityScope.PIPELINE)
    scene.count(0, 1)
    scene.world.now += (2 + 43) * DAY_MS
    scene.oracle.book.check_items({})


def test_a_message_is_known_by_the_rules_of_its_own_and_its_target_window() -> None:
    scene = Scene(IdentityScope.PIPELINE)
    first = scene.count(0, 1)
    copy = replace(first, sent=START_MS + 300_000, message_id="later")
    book = scene.oracle.book
    assert book.taken_by(copy) == [], "no rule of its window is known"
    redriven = replace(copy, target=scene.oracle.window_of(first.time))
    assert book.has_counted(redriven)
    book.on_spec(scene.spec(copy))
    assert book.has_counted(copy)
    assert not book.has_counted(replace(copy, amount=7))

"""The book of retractions can fail, and worlds have every rule of who may retract."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.adapters.memory import DeadLetter, MemoryCatalog
from tallyroll.model.messages import Message
from tallyroll.model.records import Record
from tallyroll.model.retractions import Authorization, Tombstone
from tallyroll.model.states import Window
from tallyroll.model.totals import Correction
from tallyroll.reasons import Reason
from tallyroll.settings.common import RETRACTION_OPERATOR, RETRACTION_QUEUE, RETRACTIONS
from tests.harness.pipeline import spec_of
from tests.simulation.holdings import MICROS, Found
from tests.simulation.oracle import Oracle
from tests.simulation.pipeline import System
from tests.simulation.plans import FAULTS_MS, SETTINGS, START_MS, WINDOW_MS, plan_of
from tests.simulation.retraction_rules import ASKING_MS
from tests.simulation.sent import Asked, Sent
from tests.simulation.world import Group, Violation, World

DIGEST = b"digest"
EVENT = Sent("a", "x", START_MS + 5_000, message_id="event", sent=START_MS)
PACKET = replace(EVENT, n=2, amount=3 * MICROS, times=(1, 2), amounts=(MICROS, 2 * MICROS))
ASKED = Asked(key="a", record_id="x", ts=EVENT.ts, by="ann", message_id="asked", sent=START_MS)


def test_some_worlds_retract_and_they_have_every_rule() -> None:
    plans = [plan_of(seed) for seed in range(400)]
    retracting = [plan.retractions for plan in plans if plan.retractions.retracts]
    assert 60 <= len(retracting) <= 110
    assert {plan.first_mode for plan in retracting} == {*RETRACTIONS}
    assert {plan.changes for plan in retracting} == {False, True}
    assert not any(plan.retractions.changes for plan in plans if not plan.deploys)


def test_nobody_asks_once_nobody_waits_for_it() -> None:
    """Else a message may come when the queue is no longer polled: it would seem to be stuck."""
    seed = next(seed for seed in range(99) if plan_of(seed).retractions.by_operators)  # ask rarely
    system, life = System(seed), Group("life", mortal=False)
    system.producing = False
    system.send_message("", EVENT)
    system.world.spawn("retractors", system.retractors.live, life)
    system.world.run(START_MS + 2 * (FAULTS_MS + ASKING_MS))
    asked = [each.sent for each in system.oracle.sent.values() if isinstance(each, Asked)]
    assert START_MS + FAULTS_MS < max(asked) < START_MS + FAULTS_MS + ASKING_MS


class Scene:
    """One event or packet that counts, in a world where `mode` says who may retract."""

    def __init__(self, sent: Sent = EVENT, mode: str = RETRACTION_QUEUE) -> None:
        self.world = World(1, START_MS)
        self.oracle = Oracle(self.world, WINDOW_MS, 10, with_fuse=False)
        self.oracle.deployed.append(replace(SETTINGS, retraction=mode))
        self.book = self.oracle.retractions
        self.spec = spec_of(window=self.oracle.window_of(EVENT.time))
        self.record = Record("a", "x", 1, EVENT.time, sent.n, sent.amount, DIGEST, ())
        self.oracle.on_send(sent)
        self.book.on_counted(self.spec.window, self.record, sent)

    def retract(self, *keys: str, **more: Any) -> None:
        """Put tombstones of the event under `keys` at once, with other fields if some are given."""
        fields = {"id": "x", "n": 1, "amount": MICROS, "digest": DIGEST, "by": "ann"}
        fields |= {"shard": 1, "ts": EVENT.time, "stripe": 1, "slot": 1, "why": ""}
        made = [Tombstone(**{**fields, **more, "key": key}) for key in keys or ("a",)]
        self.book.on_retracted(self.spec, made)

    def correct(self) -> None:
        """Add a correction of the event."""
        made = Correction(self.spec.window, "x", ("a",), 1, MICROS, DIGEST, START_MS, by="ann")
        self.book.on_corrected(made)

    def seal(self) -> None:
        """Take note that the window is sealed."""
        start, end = self.spec.start, self.spec.end
        self.oracle.sealed[self.spec.window] = Window(self.spec.window, "t", start, end)

    def reject(self, reason: Reason) -> None:
        """Reject the message that asks."""
        self.world.now += 1_000
        message = Message("asked", "", START_MS, 1, "receipt")
        self.oracle.book.on_delivered(message)
        self.oracle.on_dead(DeadLetter(message, reason), MemoryCatalog())


def asking(*given: Any) -> Scene:
    """A scene whose event somebody asks to take back."""
    scene = Scene(*given)
    scene.oracle.on_send(ASKED)
    return scene


def in_turn(*steps: Callable[[Scene], None]) -> Callable[[Scene], None]:
    """These, one after the other."""

    def happen(scene: Scene) -> None:
        for step in steps:
            step(scene)

    return happen


def recount(scene: Scene) -> None:
    """Find nothing in tables and archives."""
    scene.book.check(Found(), {}, [])


WRONG: dict[str, tuple[Callable[[], Scene], Callable[[Scene], None]]] = {
    "which nobody asked": (Scene, Scene.retract),
    "which never counted": (asking, lambda scene: scene.retract(id="y")),
    "says": (asking, lambda scene: scene.retract(amount=7)),
    "which is no event of a packet": (asking, lambda scene: scene.retract(index=0)),
    "the whole packet": (lambda: asking(PACKET), Scene.retract),
    "is retracted by a tombstone after": (asking, in_turn(Scene.retract, Scene.retract)),
    "is retracted by a correction after": (
        asking,
        in_turn(Scene.retract, Scene.seal, Scene.correct),
    ),
    "in the sealed window": (asking, in_turn(Scene.seal, Scene.retract)),
    "that is not sealed": (asking, Scene.correct),
    "is not retracted": (asking, lambda scene: scene.oracle.on_acknowledged("asked")),
    "was wrongly rejected": (asking, lambda scene: scene.reject(Reason.NOTHING_TO_RETRACT)),
    "and is no dead letter": (asking, lambda scene: scene.book.judge(ASKED, [], waits=False)),
    "retracted were": (asking, in_turn(Scene.retract, recount)),
}


@pytest.mark.parametrize("finding", WRONG)
def test_what_is_wrong_is_found(finding: str) -> None:
    make, happen = WRONG[finding]
    with pytest.raises(Violation, match=finding):
        happen(make())


def test_what_somebody_asked_may_be_done_once_and_acknowledged_often() -> None:
    scene = asking()
    scene.retract()
    for _ in range(2):
        scene.oracle.on_acknowledged("asked")


def test_events_of_one_id_are_retracted_at_once_each_under_its_keys() -> None:
    scene = asking()
    other = replace(EVENT, key="b")
    scene.book.on_counted(scene.spec.window, replace(scene.record, key="b"), other)
    scene.book.on_asked(replace(ASKED, key="b"))
    scene.retract("a", "b")
    assert [key for _, key, _, _ in scene.book.retracted] == ["a", "b"]


@pytest.mark.parametrize("keys", [("a",), ("b",)])
def test_an_event_of_two_keys_is_retracted_under_both(keys: tuple[str, ...]) -> None:
    scene = asking()
    one = (scene.spec.window, "a", "x")
    counted = scene.book.counted[one] = replace(scene.book.counted[one], keys=("a", "b"))
    scene.book.counted[scene.spec.window, "b", "x"] = counted
    scene.book.on_asked(replace(ASKED, key="b"))
    with pytest.raises(Violation, match="was retracted under"):
        scene.retract(*keys)


def test_what_is_sealed_is_corrected() -> None:
    scene = asking()
    scene.seal()
    scene.correct()
    scene.oracle.on_acknowledged("asked")


def test_a_packets_event_is_retracted_by_its_index() -> None:
    scene = asking(PACKET)
    scene.book.on_asked(replace(ASKED, index=1))
    scene.retract(index=1, amount=2 * MICROS)
    assert scene.book.effect_of(replace(ASKED, index=1))
    assert not scene.book.effect_of(ASKED)


def test_where_only_operators_may_a_message_is_no_word() -> None:
    scene = asking(EVENT, RETRACTION_OPERATOR)
    scene.reject(Reason.RETRACTION_NOT_AUTHORIZED)
    with pytest.raises(Violation, match="which nobody asked"):
        scene.retract()


def test_what_an_operator_authorized_is_not_to_be_refused() -> None:
    scene = asking(EVENT, RETRACTION_OPERATOR)
    target = (scene.spec.window, "a", "x", None)
    scene.book.on_authorized(Authorization(target, "ann", "", START_MS))
    with pytest.raises(Violation, match="was wrongly rejected"):
        scene.reject(Reason.RETRACTION_NOT_AUTHORIZED)
    scene.retract()

"""A redrive's workers side by side, in every order that chance gives: each event counts once.

The letters of one event lie in the batches of several workers at the same time, and redrives
overlap, are killed, and go on. Time is virtual, and the workers are greenlets.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tallyroll.adapters.memory import MemoryDeadLetters
from tallyroll.errors import StoreError
from tallyroll.operations import dead_letter_scan
from tallyroll.operations.dead_letter_scan import DeadLetterScan
from tallyroll.operations.letter_events import Decision, LetterOutcome
from tallyroll.operations.redrive import Redriver
from tallyroll.reasons import Reason
from tests.harness.pipeline import NOW, SECOND, hour, opened
from tests.harness.redriving import LATE, Operator, drain, records, reject, seal
from tests.simulation.weather import CALM
from tests.simulation.wires import LettersWire, StoreWire, Wire
from tests.simulation.world import Group, SimEffects, World

if TYPE_CHECKING:
    from tallyroll.model.dead_letters import ReceivedLetter

EVENTS = 12
COPIES = 3
PROCESSES = 3
WORKERS = 4
ROUGH = replace(CALM, latency_ms=40, crash=0.002, refused=0.02, unanswered=0.02)


class Scene:
    """Late events, each in several letters, and processes that redrive them in one world."""

    def __init__(self, seed: int) -> None:
        self.pipeline = opened()
        for _ in range(COPIES):
            for number in range(EVENTS):
                event = {"key": "k", "id": f"e{number}", "ts": LATE}
                reject(self.pipeline, json.dumps(event), Reason.TOO_LATE)
        seal(self.pipeline, hour(6))
        self.world = World(seed, NOW)
        self.letters = MemoryDeadLetters(self.pipeline.queue, SimEffects(self.world))
        self.at_once = 0
        self.decisions: list[Decision] = []
        self._working: Counter[str] = Counter()

    def redrive(self, to: str | None) -> None:
        """One process's redrive."""
        world, pipeline, effects = self.world, self.pipeline, SimEffects(self.world)
        letters: Any = LettersWire(world, cast("Any", self.letters))
        redriver = Redriver(
            pipeline.settings,
            cast("Any", StoreWire(world, pipeline.store)),
            cast("Any", Wire(world, pipeline.catalog)),
            letters,
            effects,
            to=to,
        )
        look = DeadLetterScan(letters, effects)

        def treat(batch: list[ReceivedLetter]) -> None:
            ids = [json.loads(letter.body)["id"] for letter in batch]
            self._working.update(ids)
            self.at_once = max(self.at_once, *self._working.values())
            self.decisions += redriver.redrive(batch)
            self._working.subtract(ids)

        try:
            look.each(treat, WORKERS)
            look.close()
        except StoreError as error:
            world.note(f"ends by {error}")

    def run(self) -> None:
        """Let several processes redrive, some to another window; what they leave comes later."""
        self.world.weather = ROUGH
        for number, to in enumerate([None, hour(7), None][:PROCESSES]):
            name = f"redrive{number}"
            self.world.spawn(name, lambda to=to: self.redrive(to), Group(name))  # type: ignore[misc]
        self.world.run()
        self.world.end()

    def finish(self) -> None:
        """Redrive in calm weather whatever is left, and let a writer take all of it."""
        self.pipeline.effects.pass_by(dead_letter_scan.HIDDEN_SECONDS * SECOND)
        again = Operator(self.pipeline)
        again.redrive()
        drain(self.pipeline)
        again.redrive()
        drain(self.pipeline)


@pytest.mark.parametrize("seed", range(40))
def test_letters_of_one_event_meet_in_several_batches(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letter_scan, "BATCH_LETTERS", 5)
    scene = Scene(seed)
    scene.run()
    assert scene.at_once > 1, "letters of one event were worked on at once"
    claims = scene.pipeline.catalog.claims([(hour(6), "k", f"e{n}") for n in range(EVENTS)])
    for one in scene.decisions:
        if one.course is LetterOutcome.REDRIVEN:
            name = json.loads(one.letter.body)["id"]
            assert claims[hour(6), "k", name].target == one.target, "all go where the claim leads"
    drain(scene.pipeline)
    found = Counter(name for _, name in records(scene.pipeline))
    assert [name for name, times in found.items() if times > 1] == []
    scene.finish()
    assert scene.pipeline.queue.dead_letters == []
    assert sorted(name for _, name in records(scene.pipeline)) == sorted(
        f"e{number}" for number in range(EVENTS)
    )


def test_without_a_ledger_it_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scenes above can fail: where each redrive keeps to its own choice, claims are missed."""
    monkeypatch.setattr(dead_letter_scan, "BATCH_LETTERS", 5)
    missed = 0
    for seed in range(10):
        scene = Scene(seed)
        monkeypatch.setattr(scene.pipeline.catalog, "claim", lambda _, wanted: wanted)
        scene.run()
        targets: dict[str, set[str | None]] = {}
        for one in scene.decisions:
            if one.course is LetterOutcome.REDRIVEN:
                name = json.loads(one.letter.body)["id"]
                targets.setdefault(name, set()).add(one.target)
        missed += any(len(found) > 1 for found in targets.values())
    assert missed

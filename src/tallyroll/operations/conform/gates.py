"""The check of gates: no transaction is carried out after all gates have been shut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from threading import Event

from tallyroll.model.records import increments_of
from tallyroll.model.specs import Spec
from tallyroll.operations.conform.stage import Broken, Stage, Undecided, record
from tallyroll.ports.store import Verdict

KEY = "gates"
COMMITS_MAX = 200  # of one writer, at most, before the gates are shut
COMMITS_AFTER = 5
ACCEPTED_LEAST = 50  # before the gates are shut, if the endpoint is not too slow
POLL_MS = 5


def gates(stage: Stage) -> str:
    """Shut the gates while many write; the sum is then what was accepted, and stays so."""
    spec = stage.placed()
    race = _Race(stage, spec, stage.effects.now() + stage.scale.within_ms)
    jobs: list[Callable[[], None]] = [
        partial(race.write, number) for number in range(stage.scale.at_once)
    ]
    stage.together([*jobs, race.shut])
    if not race.accepted:
        raise Undecided(f"no transaction was carried out: {race.detail}")
    if race.late:
        raise Broken(f"{race.late:,} transactions were carried out after all gates had been shut")
    stage.at_last(partial(_look, stage, spec, race))
    for number in range(2 * spec.gates):
        if stage.commit(spec, record(spec, KEY, f"late-{number}")).verdict is Verdict.COMMITTED:
            raise Broken("a transaction was carried out after all gates had been shut")
    stage.at_last(partial(_look, stage, spec, race))
    return f"{race.sealed:,} events were accepted until the gates were shut, and none after it"


@dataclass
class _Race:
    """Writers, and the gates that are shut while they write. `accepted` are the ids that the
    endpoint said to have stored, `unsure` those of transactions without an answer. `sealed` is the
    sum right after all gates had been shut, while transactions may still be under way.
    """

    stage: Stage
    spec: Spec
    deadline: int
    accepted: list[str] = field(default_factory=list)
    unsure: set[str] = field(default_factory=set)
    sealed: int = 0
    late: int = 0
    detail: str = ""
    closed: Event = field(default_factory=Event)

    def write(self, writer: int) -> None:
        """Commit until the gates are shut, and a few times more."""
        after = 0
        for number in count():
            began_late = self.closed.is_set()
            after += began_late
            over = self.stage.effects.now() >= self.deadline
            if self.stage.stopping.is_set() or after > COMMITS_AFTER or (over and not began_late):
                return
            if number >= COMMITS_MAX and not began_late:
                return
            self._commit(f"{writer}-{number}", began_late=began_late)

    def _commit(self, name: str, *, began_late: bool) -> None:
        batch = [record(self.spec, KEY, f"{name}-{at}") for at in range(2)]
        outcome = self.stage.store.commit(self.spec, batch, increments_of(batch))
        names = [each.id for each in batch]
        if outcome.verdict is Verdict.COMMITTED:
            self.accepted += names
            self.late += began_late
            return
        self.detail = f"{outcome.verdict}: {outcome.detail}"
        if outcome.verdict is Verdict.UNKNOWN:
            self.unsure.update(names)

    def shut(self) -> None:
        """Shut the gates once enough was accepted."""
        try:
            while len(self.accepted) < ACCEPTED_LEAST and not self.stage.stopping.is_set():
                if self.stage.effects.now() >= self.deadline:
                    break
                self.stage.effects.sleep(POLL_MS)
            self.stage.store.shut_gates(self.spec)
            self.sealed = self.stage.tally(self.spec, KEY).n
        except BaseException:
            self.stage.stopping.set()
            raise
        self.closed.set()


def _look(stage: Stage, spec: Spec, race: _Race) -> str:
    stored = {name for _, name in stage.stored(spec, KEY)}
    counted = stage.tally(spec, KEY).n
    if counted != len(stored):
        return f"the sum at the seal is {counted:,}, and {len(stored):,} records are stored"
    if counted != race.sealed:
        return f"the sum was {race.sealed:,} when all gates had been shut, and became {counted:,}"
    accepted = set(race.accepted)
    if accepted <= stored <= accepted | race.unsure:
        return ""
    return f"{len(accepted):,} records were accepted, and {len(stored):,} are stored"

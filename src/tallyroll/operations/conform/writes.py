"""Checks of single writes and of transactions: conditions, all or nothing, reasons, numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from tallyroll.errors import StateConflict
from tallyroll.model.amounts import MICROS, format_amount
from tallyroll.model.records import Record, increments_of
from tallyroll.model.specs import Spec
from tallyroll.model.states import Window
from tallyroll.operations.conform.stage import Broken, Stage, Undecided, record
from tallyroll.ports.store import Answer, Verdict

BATCH = 8  # records of a transaction
STATES = 5
HALF_MS = 2
DIGITS = 38  # DynamoDB Developer Guide, "Supported data types and naming rules"
_LARGE: int = 10 ** (DIGITS - 1)  # in millionths: 32 digits before the point, 6 after it


def conditions(stage: Stage) -> str:
    """Conditions of single writes: the catalog's versions of states, and its latest times."""
    window, most = stage.spec.window, stage.scale.at_once
    for _ in range(STATES):
        stage.at_last(partial(_replaced_once, stage))
    ranks = range(1, most + 1)
    stage.together([partial(stage.catalog.note_straggler, window, rank) for rank in ranks])
    stage.catalog.note_straggler(window, 1)

    def latest() -> str:
        found = stage.catalog.stragglers([window]).get(window)
        return "" if found == most else f"of the times 1 to {most}, {found} was kept"

    stage.at_last(latest)
    return f"{STATES} versions and {most} times, by {most} writers at once"


def _replaced_once(stage: Stage) -> str:
    """Let many replace one version of the window's state; what is wrong with how many could."""
    read = stage.catalog.window(stage.spec.window)
    if read is None:
        return "the state of the window is not there"
    most = stage.scale.at_once
    states = [replace(read, events=rank) for rank in range(most)]
    won = stage.together([partial(_advanced, stage, state) for state in states]).count(True)
    if won > 1 or (won and _advanced(stage, read)):
        raise Broken(f"{won + 1 if won == 1 else won} writers replaced one version of an item")
    return "" if won else "nobody could replace the version of an item that was read"


def _advanced(stage: Stage, state: Window) -> bool:
    try:
        stage.catalog.advance(state)
    except StateConflict:
        return False
    return True


def transactions(stage: Stage) -> str:
    """All or nothing: first one transaction at a time, then many at once, each event twice."""
    _one_at_a_time(stage)
    spec, scale = stage.placed(), stage.scale
    events = [_event(spec, number) for number in range(scale.events)]
    crowd = _Crowd(stage, spec, stage.effects.now() + scale.within_ms)
    stage.together([partial(crowd.work, part) for part in _dealt(events, scale.at_once)])
    keys = sorted({event.key for event in events})

    def look() -> str:
        stored = {name: found.amount for (_, name), found in stage.stored(spec, *keys).items()}
        tally = stage.tally(spec, *keys)
        return _wrong(crowd, stored, tally.n, tally.amount)

    if not crowd.acknowledged:
        raise Undecided(f"no transaction was carried out: {crowd.detail}")
    stage.at_last(look)
    sent = len(crowd.begun)
    return f"{sent:,} events, each twice, by {scale.at_once} writers at once: counted once each"


def _one_at_a_time(stage: Stage) -> None:
    """Refused transactions leave nothing, wherever in them the failing action is."""
    spec, key = stage.placed(), "refused"
    there = record(spec, key, "there")
    stage.commit_new(spec, there)
    for place in range(3):
        fresh = [record(spec, key, f"new-{place}-{number}") for number in range(2)]
        fresh.insert(place, there)
        if stage.commit(spec, *fresh).verdict is Verdict.COMMITTED:
            raise Broken("a transaction was carried out, though one of its items was there already")

    def look() -> str:
        stored, tally = stage.stored(spec, key), stage.tally(spec, key)
        if (len(stored), tally.n, tally.amount) == (1, 1, MICROS):
            return ""
        return (
            f"cancelled transactions left {len(stored) - 1} records, and added {tally.n - 1} to a"
            " tally"
        )

    stage.at_last(look)


def _event(spec: Spec, number: int) -> Record:
    """An event with an amount of its own, of a hot key or, now and then, of another."""
    key = "other" if number % 10 == 9 else "hot"
    return record(spec, key, f"event-{number}", MICROS + number)


def _dealt(events: Sequence[Record], hands: int) -> list[list[tuple[Record, ...]]]:
    """Every event in two batches that are cut differently, dealt out so that different hands have
    the two at about the same time.
    """
    half = BATCH // 2
    first = [(at, events[at : at + BATCH]) for at in range(0, len(events), BATCH)]
    second = [(max(0, at), events[max(0, at) : at + BATCH]) for at in range(-half, len(events), 8)]
    batches = [tuple(batch) for _, batch in sorted((*first, *second), key=lambda each: each[0])]
    return [batches[hand::hands] for hand in range(hands)]


@dataclass
class _Crowd:
    """Writers at once. `acknowledged` are the ids that the endpoint said to have stored, `begun`
    those that were sent at all.
    """

    stage: Stage
    spec: Spec
    deadline: int
    begun: set[str] = field(default_factory=set)
    acknowledged: list[str] = field(default_factory=list)
    detail: str = ""

    def work(self, batches: Sequence[Sequence[Record]]) -> None:
        """Commit batch after batch until the time is up."""
        for batch in batches:
            if self._over():
                return
            self.begun.update(each.id for each in batch)
            self._commit(batch)

    def _commit(self, batch: Sequence[Record]) -> None:
        """Commit all that is new in a batch, by halves if it is refused: so what is new is found
        without the reasons, which another check looks at.
        """
        while not self._over():
            outcome = self.stage.store.commit(self.spec, batch, increments_of(batch))
            if outcome.verdict is Verdict.COMMITTED:
                self.acknowledged += [each.id for each in batch]
                return
            self.detail = f"{outcome.verdict}: {outcome.detail}"
            if outcome.verdict in (Verdict.UNKNOWN, Verdict.THROTTLED):
                self._wait()
            elif half := len(batch) // 2:
                self._commit(batch[:half])
                batch = batch[half:]
            elif self.stage.store.lookup(self.spec, [(batch[0].key, batch[0].id)]):
                return
            else:
                self._wait()

    def _wait(self) -> None:
        self.stage.effects.sleep(1 + self.stage.effects.chance.random() * HALF_MS)

    def _over(self) -> bool:
        return self.stage.stopping.is_set() or self.stage.effects.now() >= self.deadline


def _wrong(crowd: _Crowd, stored: dict[str, int], n: int, amount: int) -> str:
    """What is wrong with the records that are stored (their amounts by id) and with the tallies."""
    lost = set(crowd.acknowledged) - stored.keys()
    if lost:
        return f"{len(lost):,} of {len(stored) + len(lost):,} records are lost that were stored"
    if twice := sum(times > 1 for times in Counter(crowd.acknowledged).values()):
        return f"{twice:,} records were stored twice, each by another transaction"
    if (n, amount) != (len(stored), sum(stored.values())):
        return (
            f"{len(stored):,} records are stored, and the tallies count {n:,}; the sums are"
            f" {format_amount(sum(stored.values()))} and {format_amount(amount)}"
        )
    return ""


def reasons(stage: Stage) -> str:
    """A cancelled transaction names each action's reason, in order, with the item that is there."""
    spec = stage.placed()
    stored = [record(spec, "reasons", f"stored-{at}", digest=bytes([at]) * 16) for at in range(2)]
    stage.commit_new(spec, *stored)
    fresh = [record(spec, f"reasons-{at}", f"new-{at}") for at in range(3)]
    # Under the same names, with other contents.
    again = [replace(each, digest=b"?" * 16) for each in stored]
    sent = (fresh[0], again[0], fresh[1], fresh[2], again[1])
    outcome = stage.commit_settled(spec, *sent)
    if outcome.verdict is Verdict.COMMITTED:
        raise Undecided("no transaction is cancelled: see the check of transactions")
    if outcome.verdict is not Verdict.CANCELLED:
        raise Broken(f"a duplicate was answered as {outcome.verdict}: {outcome.detail}")
    wanted = {1: stored[0].digest, 4: stored[1].digest}
    for at, element in enumerate(outcome.records):
        answer = Answer.DUPLICATE if at in wanted else Answer.FINE
        if element.answer is not answer:
            detail = element.detail or element.answer
            raise Broken(f"put {at + 1} of {len(sent)} is {answer}, and the reason says {detail}")
        if element.digest != wanted.get(at):
            raise Broken(f"the reason of put {at + 1} of {len(sent)} does not have the stored item")
    if any(element.answer is not Answer.FINE for element in outcome.increments):
        raise Broken("the reason of a put stands at an update")
    return f"{len(wanted)} duplicates among {len(sent)} puts, and what is stored of them"


def numbers(stage: Stage) -> str:
    """Sums of 38 digits are exact, or refused: never rounded."""
    spec = stage.placed(shards=1, stripes=1)
    total = 0
    for step, amount in enumerate((_LARGE, 1, -_LARGE, 123_456, 7 * _LARGE + 7)):
        stage.commit_new(spec, record(spec, "numbers", f"step-{step}", amount))
        total += amount
        _expect(stage, spec, total)
    over = record(spec, "numbers", "over", 9 * _LARGE + 9)
    outcome = stage.commit_settled(spec, over)
    if outcome.verdict is Verdict.COMMITTED:
        _expect(stage, spec, total + over.amount)
        return f"sums of {DIGITS} digits and more are exact"
    _expect(stage, spec, total)
    return f"sums of {DIGITS} digits are exact, and longer ones refused"


def _expect(stage: Stage, spec: Spec, total: int) -> None:
    def look() -> str:
        try:
            found = stage.tally(spec, "numbers").amount
        except ValueError as error:
            return f"a sum is no number of six decimals: {error}"
        if found == total:
            return ""
        return f"the sum {format_amount(total)} became {format_amount(found)}"

    stage.at_last(look)

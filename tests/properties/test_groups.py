"""Laws of events of several keys: whatever a store answers, their records share one fate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from hypothesis import event, given, settings
from hypothesis import strategies as st

from tallyroll.adapters.dynamodb.throughput import METERING
from tallyroll.ingest.fates import Disposition
from tallyroll.ingest.transactions import Commit, after, plan, run
from tallyroll.limits import EVENT_KEYS_MAX
from tallyroll.model.items import sized
from tallyroll.model.records import Increment, Record, all_records, increments_of
from tallyroll.model.specs import Spec
from tallyroll.ports.effects import T
from tallyroll.ports.store import Answer, Element, Metering, Outcome, Verdict
from tests.harness.pipeline import NOW, record_with, spec_of
from tests.tiers import examples

SPEC = spec_of()
KEYS = [f"k{number:02}" for number in range(30)]
laws = settings(max_examples=examples(60))


@st.composite
def events(draw: st.DrawFn, most: int = 60) -> list[Record]:
    """Events of one to the most keys, each with an id of its own."""
    sizes = draw(st.lists(st.integers(1, EVENT_KEYS_MAX), min_size=1, max_size=most))
    groups = []
    for number, size in enumerate(sizes):
        keys = sorted(Random(draw(st.integers(0, 99))).sample(KEYS, size))
        data = b"x" * draw(st.sampled_from([0, 0, 1_000, 120_000]))
        first, *others = (
            record_with(f"e{number}", key, digest=b"%d" % number, data=data) for key in keys
        )
        groups.append(replace(first, others=tuple(others)))
    return groups


def divided(commits: Sequence[Commit], all_keys: dict[str, int]) -> list[str]:
    """The ids of events of which a commit puts some records and not all."""
    return [
        record_id
        for commit in commits
        for record_id, found in Counter(record.id for record in commit.puts).items()
        if found != all_keys[record_id]
    ]


@laws
@given(events(), st.integers(48, 99), st.integers(3_000_000, 3_800_000))
def test_a_plan_loses_nothing_divides_nothing_and_respects_the_limits(
    groups: list[Record], elements_max: int, bytes_max: int
) -> None:
    metering = replace(METERING, elements_max=elements_max, bytes_max=bytes_max)
    commits = plan(SPEC, groups, metering)
    assert Counter(r for commit in commits for r in commit.puts) == Counter(all_records(groups))
    assert not divided(commits, {group.id: len(group.group) for group in groups})
    for commit in commits:
        elements = len(commit.puts) + len(commit.increments)
        assert elements <= elements_max
        assert commit.increments == increments_of(commit.puts)
        size = sum(sized(record).size for record in commit.puts)
        assert size + elements * metering.element_bytes <= bytes_max


ANSWERS = [*[Answer.FINE] * 6, Answer.DUPLICATE, Answer.CONTENDED, Answer.THROTTLED, Answer.INVALID]
VERDICTS = [Verdict.UNKNOWN, Verdict.CANCELLED, Verdict.THROTTLED, Verdict.INVALID]


@laws
@given(events(12), st.data())
def test_no_answer_divides_an_event(groups: list[Record], data: st.DataObject) -> None:
    all_keys = {group.id: len(group.group) for group in groups}
    for commit in plan(SPEC, groups, METERING):
        elements = [
            Element(answer, b"other" if answer is Answer.DUPLICATE else None)
            for answer in data.draw(
                st.lists(
                    st.sampled_from(ANSWERS),
                    min_size=len(commit.puts) + len(commit.increments),
                    max_size=len(commit.puts) + len(commit.increments),
                )
            )
        ]
        records, increments = elements[: len(commit.puts)], elements[len(commit.puts) :]
        verdict = data.draw(st.sampled_from(VERDICTS))
        outcome = Outcome(verdict, tuple(records), tuple(increments))
        deadline = NOW + data.draw(st.sampled_from([1, 60_000]))
        step = after(commit, outcome, NOW, deadline, Random(1))
        assert not divided(step.commits, all_keys)
        fates = Counter(record.id for record, _ in step.settled)
        going_on = Counter(record.id for each in step.commits for record in each.records)
        assert fates + going_on == Counter(record.id for record in commit.records)


class Shaky:
    """A store that is all or nothing, loses replies, conflicts, throttles, and refuses what holds
    an invalid key.
    """

    def __init__(self, chance: Random, invalid: str | None) -> None:
        self.stored: dict[tuple[str, str], Record] = {}
        self.tallies: Counter[str] = Counter()
        self._chance = chance
        self._invalid = invalid

    def metering_of(self, _table: str) -> Metering:
        return METERING

    def commit(
        self, _spec: Spec, records: Sequence[Record], increments: Sequence[Increment]
    ) -> Outcome:
        draw = self._chance.random()
        if draw < 0.1:
            return Outcome(Verdict.UNKNOWN)
        if draw < 0.15:
            return Outcome(Verdict.THROTTLED)
        fine = tuple(Element(Answer.FINE) for _ in increments)
        found = [self.stored.get((record.key, record.id)) for record in records]
        answers = [
            Element(Answer.DUPLICATE, stored.digest) if stored else Element(Answer.FINE)
            for stored in found
        ]
        if draw < 0.3:
            at = int(self._chance.random() * len(answers))
            passing = self._chance.choice([Answer.CONTENDED, Answer.THROTTLED])
            answers[at] = Element(passing)
            return Outcome(Verdict.CANCELLED, tuple(answers), fine)
        if any(found):
            return Outcome(Verdict.CANCELLED, tuple(answers), fine)
        if any(record.key == self._invalid for record in records):
            return Outcome(Verdict.INVALID)
        assert len({(record.key, record.id) for record in records}) == len(records)
        self.stored |= {(record.key, record.id): record for record in records}
        self.tallies.update({each.key: each.n for each in increments})
        return Outcome(Verdict.UNKNOWN) if draw < 0.4 else Outcome(Verdict.COMMITTED)


class Patience:
    """Effects whose clock moves by sleeping alone."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self._now = float(NOW)

    def now(self) -> int:
        return int(self._now)

    def sleep(self, ms: float) -> None:
        self._now += ms

    def together(self, jobs: Sequence[Callable[[], T]], at_once: int) -> list[T]:
        return [job() for job in jobs]


@laws
@given(
    events(20),
    st.integers(0, 10**6),
    st.sampled_from([None, *KEYS]),
    st.sampled_from([200, 100_000]),
)
def test_the_counters_of_an_event_never_disagree(
    groups: list[Record], seed: int, invalid: str | None, time_ms: int
) -> None:
    """Every message is delivered three times, whatever became of it."""
    chance = Random(seed)
    store = Shaky(chance, invalid)
    for _ in range(3):
        effects = Patience(chance)
        commits = plan(SPEC, groups, METERING)
        done = run(store, commits, effects, NOW + time_ms, 2)  # type: ignore[arg-type]
        for group in groups:
            fate = done.fates[SPEC.window, group.key, group.id]
            stored = [(each.key, each.id) in store.stored for each in group.group]
            assert len(set(stored)) == 1, f"{group.id} is counted in part"
            match fate.kind:
                case Disposition.COUNTED | Disposition.DUPLICATE:
                    assert all(stored)
                case Disposition.REJECTED:
                    assert not any(stored)
                    assert invalid in [each.key for each in group.group]
            event(fate.kind)
        assert store.tallies == Counter(record.key for record in store.stored.values())

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tallyroll.adapters.dynamodb.items import record_item
from tallyroll.adapters.dynamodb.throughput import METERING
from tallyroll.ingest.fates import Disposition, Fate, beside_stored
from tallyroll.ingest.transactions import Commit, Continuation, after, plan
from tallyroll.limits import TRANSACTION_ACTIONS_MAX, TRANSACTION_BYTES_MAX
from tallyroll.model.items import sized
from tallyroll.model.records import Record
from tallyroll.ports.backoff import COMMIT_CONFLICT, COMMIT_THROTTLED
from tallyroll.ports.store import Answer, Element, Outcome, Verdict
from tallyroll.reasons import Reason
from tests.harness.item_sizes import item_bytes
from tests.harness.pipeline import NOW, record_with, spec_of

SPEC = spec_of()
DEADLINE = NOW + 60_000
FINE = Element(Answer.FINE)
THROTTLED = Element(Answer.THROTTLED)
CONTENDED = Element(Answer.CONTENDED)
INVALID = Element(Answer.INVALID, detail="no such number")
A, B, C = record_with("a", "k"), record_with("b", "k"), record_with("c", "l")


class Least:
    """Chance that always draws the least."""

    def random(self) -> float:
        return 0.0

    def getrandbits(self, k: int, /) -> int:
        return 0


class Latest:
    """Chance that always draws the most."""

    def random(self) -> float:
        return 0.999_999

    def getrandbits(self, k: int, /) -> int:
        return (1 << k) - 1


def follow(commit: Commit, outcome: Outcome, deadline: int = DEADLINE) -> Continuation:
    return after(commit, outcome, NOW, deadline, Latest())


def cancelled(records: list[Element], increments: list[Element]) -> Outcome:
    return Outcome(Verdict.CANCELLED, tuple(records), tuple(increments))


def duplicate(digest: bytes = b"digest") -> Element:
    return Element(Answer.DUPLICATE, digest)


def named(commits: list[Commit] | tuple[Commit, ...]) -> list[list[str]]:
    return [[record.id for record in commit.records] for commit in commits]


# --- plan


def test_one_key_fills_a_transaction_with_98_puts() -> None:
    commits = plan(SPEC, [record_with(f"{n:03}") for n in range(197)], METERING)
    assert [len(commit.records) for commit in commits] == [98, 98, 1]
    assert [len(commit.increments) for commit in commits] == [1, 1, 1]


def test_every_key_of_a_transaction_takes_an_action() -> None:
    commits = plan(SPEC, [record_with("e", f"k{n:03}") for n in range(100)], METERING)
    assert [len(commit.records) for commit in commits] == [49, 49, 2]
    for commit in commits:
        assert 1 + len(commit.records) + len(commit.increments) <= TRANSACTION_ACTIONS_MAX


def test_a_new_key_that_would_make_101_actions_goes_to_the_next() -> None:
    commits = plan(SPEC, [*(record_with(f"{n:03}") for n in range(97)), C], METERING)
    assert [len(commit.records) for commit in commits] == [97, 1]
    assert commits[1].records == (C,)


def test_a_transaction_stays_under_4_mb() -> None:
    large = [record_with(f"{n:03}", data=b"x" * 390_000) for n in range(30)]
    commits = plan(SPEC, large, METERING)
    sizes = [
        sum(item_bytes(record_item(record)) + 1_024 for record in commit.records)
        for commit in commits
    ]
    assert max(sizes) < TRANSACTION_BYTES_MAX
    assert [len(commit.records) for commit in commits] == [10, 10, 10]


def test_the_bytes_of_a_transaction_are_bounded_to_the_byte() -> None:
    records = [sized(record_with(name)) for name in "abcd"]
    size = sum(record.size for record in records[:2]) + 3 * METERING.element_bytes  # with a tally
    planned = plan(SPEC, records, replace(METERING, bytes_max=size))
    assert named(planned) == [["a", "b"], ["c", "d"]]
    assert all(commit.spec == SPEC for commit in planned)
    smaller = replace(METERING, bytes_max=size - 1)
    assert named(plan(SPEC, records, smaller)) == [["a"], ["b"], ["c"], ["d"]]


def test_records_are_sorted_by_key_and_shard() -> None:
    records = [
        record_with("a", "l", shard=1),
        record_with("b", "k", shard=2),
        record_with("c", "k", shard=1),
        record_with("a", "k", shard=2),
    ]
    assert named(plan(SPEC, records, METERING)) == [["c", "a", "b", "a"]]


def test_nothing_to_plan() -> None:
    assert plan(SPEC, [], METERING) == []


# --- after: the whole commit


def test_committed_records_are_counted() -> None:
    fate = Fate(Disposition.COUNTED, b"digest")
    assert follow(Commit(SPEC, (A, B)), Outcome(Verdict.COMMITTED)) == Continuation(
        ((A, fate), (B, fate))
    )


@pytest.mark.parametrize("verdict", [Verdict.GATE_SHUT, Verdict.GATE_MISSING])
def test_a_shut_gate_leaves_it_to_the_windows_state(verdict: Verdict) -> None:
    step = follow(Commit(SPEC, (A,)), Outcome(verdict))
    assert step == Continuation(((A, Fate(Disposition.SHUT_OUT, detail=verdict)),))


def test_an_unknown_outcome_is_tried_again_whole() -> None:
    step = follow(Commit(SPEC, (A, B, C), attempt=2), Outcome(Verdict.UNKNOWN))
    (again,) = step.commits
    assert (step.settled, again.records, again.attempt) == ((), (A, B, C), 3)
    assert NOW < again.not_before <= NOW + COMMIT_THROTTLED.base_ms * 4


def test_a_throttled_commit_is_split_by_key() -> None:
    step = follow(Commit(SPEC, (A, B, C)), Outcome(Verdict.THROTTLED))
    assert named(step.commits) == [["a", "b"], ["c"]]
    assert all(NOW < commit.not_before <= NOW + COMMIT_THROTTLED.base_ms for commit in step.commits)


def test_backing_off_has_a_bound() -> None:
    step = follow(Commit(SPEC, (A,), attempt=1_000), Outcome(Verdict.THROTTLED))
    assert step.commits[0].not_before <= NOW + COMMIT_THROTTLED.bound_ms_max


def test_backing_off_draws_from_zero_on() -> None:
    again = [
        after(Commit(SPEC, (A,), 4), Outcome(Verdict.THROTTLED), NOW, DEADLINE, Random(seed))
        for seed in range(200)
    ]
    waits = [step.commits[0].not_before - NOW for step in again]
    assert min(waits) < 50
    assert max(waits) > COMMIT_THROTTLED.base_ms * 16 * 0.9


def test_backing_off_is_a_millisecond_at_the_least() -> None:
    step = after(Commit(SPEC, (A,)), Outcome(Verdict.THROTTLED), NOW, DEADLINE, Least())
    assert step.commits[0].not_before == NOW + 1


def test_an_invalid_commit_is_cut_in_the_middle() -> None:
    commit = Commit(SPEC, tuple(record_with(f"{n}") for n in range(6)))
    step = follow(commit, Outcome(Verdict.INVALID))
    assert named(step.commits) == [["0", "1", "2"], ["3", "4", "5"]]


def test_an_invalid_commit_is_halved_until_one_record_fails_alone() -> None:
    records = tuple(record_with(f"{n}") for n in range(5))
    due, refused, runs = [Commit(SPEC, records)], [], 0
    while due:
        commit, runs = due.pop(), runs + 1
        bad = records[3] in commit.records
        verdict = Verdict.INVALID if bad else Verdict.COMMITTED
        step = follow(commit, Outcome(verdict, detail="why"))
        refused += [(record, fate) for record, fate in step.settled if bad]
        due += step.commits
    fate = Fate(Disposition.REJECTED, reason=Reason.REFUSED_BY_STORE, detail="why")
    assert refused == [(records[3], fate)]
    assert runs == 7


# --- after: element by element


def test_duplicates_are_taken_out_and_the_tally_lowered() -> None:
    commit = Commit(SPEC, (A, B, C))
    step = follow(commit, cancelled([duplicate(), FINE, FINE], [FINE, FINE]))
    assert step.settled == ((A, Fate(Disposition.DUPLICATE, b"digest")),)
    (rest,) = step.commits
    assert (rest.records, rest.not_before, rest.attempt) == ((B, C), 0, 0)
    assert [increment.n for increment in rest.increments] == [1, 1]


def test_only_duplicates_leave_nothing_to_do() -> None:
    step = follow(Commit(SPEC, (A, B)), cancelled([duplicate(), duplicate()], [FINE]))
    assert [fate.kind for _, fate in step.settled] == [Disposition.DUPLICATE, Disposition.DUPLICATE]
    assert step.commits == ()


def test_another_content_under_the_same_id_is_a_conflict() -> None:
    step = follow(Commit(SPEC, (A,)), cancelled([duplicate(b"other")], [FINE]))
    ((_, fate),) = step.settled
    assert (fate.kind, fate.reason, fate.digest) == (
        Disposition.REJECTED,
        Reason.ID_CONFLICT,
        b"other",
    )
    assert fate.detail.startswith("id 'a' of key 'k' ")
    assert fate == beside_stored(A, b"other")
    assert beside_stored(A, A.digest).kind is Disposition.DUPLICATE
    assert beside_stored(A, None) == Fate(Disposition.UNCOMPARED)


@pytest.mark.parametrize(
    ("records", "increments"),
    [([CONTENDED, FINE, FINE], [FINE, FINE]), ([FINE] * 3, [CONTENDED, FINE])],
)
def test_a_conflict_is_tried_again_soon(records: list[Element], increments: list[Element]) -> None:
    step = follow(Commit(SPEC, (A, B, C)), cancelled(records, increments))
    (again,) = step.commits
    assert (again.records, again.attempt) == ((A, B, C), 1)
    assert NOW < again.not_before <= NOW + COMMIT_CONFLICT.base_ms


def test_a_cancellation_that_blames_nobody_waits_too() -> None:
    """A gate's own conflict is not among the elements."""
    (again,) = follow(Commit(SPEC, (A,)), cancelled([FINE], [FINE])).commits
    assert again.not_before > NOW


def test_a_conflict_of_the_gate_beside_a_duplicate_waits_too() -> None:
    outcome = replace(cancelled([duplicate(), FINE], [FINE]), gate_contended=True)
    (again,) = follow(Commit(SPEC, (A, B)), outcome).commits
    assert (again.records, again.attempt) == ((B,), 1)


def test_a_conflict_beside_a_duplicate_still_waits() -> None:
    step = follow(Commit(SPEC, (A, B)), cancelled([duplicate(), CONTENDED], [FINE]))
    assert (len(step.settled), step.commits[0].attempt) == (1, 1)
    step = follow(Commit(SPEC, (A, B, C)), cancelled([duplicate(), CONTENDED, FINE], [FINE, FINE]))
    assert (len(step.settled), step.commits[0].attempt) == (1, 1), "the conflict was forgotten"


@pytest.mark.parametrize(
    ("records", "increments"),
    [([THROTTLED, FINE, FINE], [FINE, FINE]), ([FINE] * 3, [THROTTLED, FINE])],
)
def test_a_hot_key_does_not_hold_up_the_others(
    records: list[Element], increments: list[Element]
) -> None:
    step = follow(Commit(SPEC, (A, B, C)), cancelled(records, increments))
    slow, swift = step.commits
    assert (named([slow]), named([swift])) == ([["a", "b"]], [["c"]])
    assert (slow.attempt, swift.attempt, swift.not_before) == (1, 0, 0)


def test_an_invalid_record_is_rejected_and_the_rest_goes_on() -> None:
    step = follow(Commit(SPEC, (A, B)), cancelled([INVALID, FINE], [FINE]))
    fate = Fate(Disposition.REJECTED, reason=Reason.REFUSED_BY_STORE, detail="no such number")
    assert step.settled == ((A, fate),)
    assert named(step.commits) == [["b"]]


def test_a_tally_that_cannot_be_added_to_halves_the_commit() -> None:
    step = follow(Commit(SPEC, (A, B, C)), cancelled([FINE] * 3, [INVALID, FINE]))
    assert named(step.commits) == [["a"], ["b", "c"]]
    alone = follow(Commit(SPEC, (A,)), cancelled([FINE], [INVALID]))
    fate = Fate(Disposition.REJECTED, reason=Reason.REFUSED_BY_STORE, detail="no such number")
    assert alone == Continuation(((A, fate),))


def test_an_invalid_tally_beside_a_duplicate_goes_on_without_the_duplicate() -> None:
    step = follow(Commit(SPEC, (A, B, C)), cancelled([duplicate(), FINE, FINE], [INVALID, FINE]))
    assert [record.id for record, _ in step.settled] == ["a"]
    assert named(step.commits) == [["b", "c"]]


# --- after: no time left


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        (Outcome(Verdict.UNKNOWN, detail="no answer"), "no answer"),
        (Outcome(Verdict.THROTTLED, detail="slow down"), "slow down"),
        (cancelled([CONTENDED, FINE, FINE], [FINE, FINE]), "contended"),
        (cancelled([THROTTLED, FINE, THROTTLED], [FINE, FINE]), "throttled"),
    ],
)
def test_what_would_be_tried_after_the_deadline_is_handed_back(outcome: Outcome, why: str) -> None:
    step = follow(Commit(SPEC, (A, B, C)), outcome, deadline=NOW + 1)
    assert step.commits == ()
    kinds: list[tuple[Record, Disposition]] = [(record, fate.kind) for record, fate in step.settled]
    assert sorted(kinds, key=lambda pair: pair[0].id) == [
        (record, Disposition.HANDED_BACK) for record in (A, B, C)
    ]
    assert {fate.detail for _, fate in step.settled} == {why}


def test_what_is_settled_stays_settled_when_time_is_up() -> None:
    outcome = cancelled([duplicate(), CONTENDED], [FINE])
    step = follow(Commit(SPEC, (A, B)), outcome, deadline=NOW + 1)
    assert [fate.kind for _, fate in step.settled] == [
        Disposition.DUPLICATE,
        Disposition.HANDED_BACK,
    ]


def test_an_answer_must_be_about_every_element() -> None:
    for records, increments in (([FINE], [FINE]), ([FINE, FINE], [])):
        with pytest.raises(ValueError, match="zip"):
            follow(Commit(SPEC, (A, B)), cancelled(records, increments))

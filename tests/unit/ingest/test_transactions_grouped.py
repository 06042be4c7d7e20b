"""The records of one event are committed, retried, and given their fate together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.adapters.dynamodb.throughput import METERING
from tallyroll.ingest.fates import Disposition, Fate
from tallyroll.ingest.transactions import Commit, after, plan
from tallyroll.limits import (
    EVENT_BYTES_MAX,
    EVENT_KEYS_MAX,
    TRANSACTION_ACTIONS_MAX,
    TRANSACTION_BYTES_MAX,
)
from tallyroll.model.items import sized
from tallyroll.model.records import Record
from tallyroll.ports.store import Answer, Element, Outcome, Verdict
from tallyroll.reasons import Reason
from tests.harness.pipeline import NOW, record_with, spec_of
from tests.unit.ingest.test_transactions import (
    CONTENDED,
    DEADLINE,
    FINE,
    INVALID,
    THROTTLED,
    cancelled,
    duplicate,
    follow,
    named,
)

SPEC = spec_of()


def group_of(record_id: str, keys: str, **changes: object) -> Record:
    """The record of an event of one key per letter, with the others."""
    first, *others = (record_with(record_id, key, **changes) for key in keys)
    return replace(first, others=tuple(others))


AB, BC, D = group_of("1", "ab"), group_of("2", "bc"), record_with("3", "d")
ALL = Commit(SPEC, (AB, BC, D))


def puts(commit: Commit) -> list[str]:
    return [f"{record.key}{record.id}" for record in commit.puts]


def test_a_commit_puts_the_others_and_adds_to_their_tallies() -> None:
    assert puts(ALL) == ["a1", "b1", "b2", "c2", "d3"]
    assert [(each.key, each.n) for each in ALL.increments] == [
        ("a", 1),
        ("b", 2),
        ("c", 1),
        ("d", 1),
    ]


def test_a_plan_never_divides_a_group() -> None:
    keys = [chr(ord("a") + number) for number in range(EVENT_KEYS_MAX)]
    groups = [group_of(f"{number}", "".join(keys)) for number in range(4)]
    planned = plan(SPEC, groups, METERING)
    # 24 tallies, and 24 records each: with the gate, three events take 97 actions.
    assert [len(commit.puts) for commit in planned] == [3 * EVENT_KEYS_MAX, EVENT_KEYS_MAX]
    for commit in planned:
        assert 1 + len(commit.puts) + len(commit.increments) <= TRANSACTION_ACTIONS_MAX


def test_two_events_of_the_most_keys_fit_even_if_they_share_none() -> None:
    letters = [chr(0x4E00 + number) for number in range(2 * EVENT_KEYS_MAX)]
    apart = ("".join(letters[:EVENT_KEYS_MAX]), "".join(letters[EVENT_KEYS_MAX:]))
    (commit,) = plan(SPEC, [group_of("1", apart[0]), group_of("2", apart[1])], METERING)
    assert 1 + len(commit.puts) + len(commit.increments) == 97


def test_the_keys_of_others_count_as_known() -> None:
    """A record of the key `b` takes one element beside a group that has it."""
    small = replace(METERING, elements_max=5)
    assert named(plan(SPEC, [AB, record_with("2", "b")], small)) == [["1", "2"]]
    assert named(plan(SPEC, [AB, record_with("2", "c")], small)) == [["1"], ["2"]]
    assert named(plan(SPEC, [AB, group_of("2", "ab")], replace(METERING, elements_max=6))) == [
        ["1", "2"]
    ]
    assert named(plan(SPEC, [AB, group_of("2", "ab")], small)) == [["1"], ["2"]]


def test_the_bytes_of_a_plan_are_those_of_the_groups() -> None:
    first, second = (sized(group_of(name, "ab", data=b"x" * 500)) for name in "12")
    assert first.group_size == sum(each.size for each in first.group) > 1_000
    size = first.group_size + second.group_size + 6 * METERING.element_bytes
    exact = replace(METERING, bytes_max=size)
    assert named(plan(SPEC, [first, second], exact)) == [["1", "2"]]
    assert named(plan(SPEC, [first, second], replace(exact, bytes_max=size - 1))) == [["1"], ["2"]]


def test_the_largest_event_fits_into_a_transaction() -> None:
    elements = 2 * EVENT_KEYS_MAX
    assert elements <= METERING.elements_max
    assert EVENT_BYTES_MAX + elements * METERING.element_bytes <= METERING.bytes_max
    assert METERING.bytes_max < TRANSACTION_BYTES_MAX


# --- after


@pytest.mark.parametrize("digest", [b"digest", None])
@pytest.mark.parametrize("found", [(0,), (1,), (0, 1)])
def test_an_answer_for_one_record_settles_its_group(
    digest: bytes | None, found: tuple[int, ...]
) -> None:
    """A conflict in the same transaction may hide the answers for the others."""
    records = [CONTENDED, CONTENDED, FINE, FINE, FINE]
    for at in found:
        records[at] = Element(Answer.DUPLICATE, digest)
    step = follow(ALL, cancelled(records, [FINE] * 4))
    kind = Disposition.DUPLICATE if digest else Disposition.UNCOMPARED
    assert step.settled == ((AB, Fate(kind, digest)),)
    assert [puts(commit) for commit in step.commits] == [["b2", "c2", "d3"]]


def test_another_content_of_one_key_rejects_the_event_and_no_key_counts() -> None:
    records = [FINE, duplicate(b"other"), FINE, FINE, FINE]
    step = follow(ALL, cancelled(records, [FINE] * 4))
    ((record, fate),) = step.settled
    assert (record, fate.kind, fate.reason) == (AB, Disposition.REJECTED, Reason.ID_CONFLICT)
    assert [puts(commit) for commit in step.commits] == [["b2", "c2", "d3"]]


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ([duplicate(), duplicate(b"other")], Disposition.DUPLICATE),
        ([duplicate(b"other"), duplicate()], Disposition.DUPLICATE),
        ([Element(Answer.DUPLICATE), duplicate(b"other")], Disposition.REJECTED),
        ([INVALID, duplicate()], Disposition.DUPLICATE),
        ([FINE, INVALID], Disposition.REJECTED),
    ],
)
def test_the_surest_answer_decides(answers: list[Element], kind: Disposition) -> None:
    step = follow(Commit(SPEC, (AB,)), cancelled(answers, [FINE, FINE]))
    assert [(record, fate.kind) for record, fate in step.settled] == [(AB, kind)]
    assert step.commits == ()


def test_bisecting_halves_events_and_not_groups() -> None:
    step = follow(ALL, Outcome(Verdict.INVALID))
    assert [puts(commit) for commit in step.commits] == [["a1", "b1"], ["b2", "c2", "d3"]]
    alone = follow(Commit(SPEC, (AB,)), Outcome(Verdict.INVALID, detail="no"))
    fate = Fate(Disposition.REJECTED, reason=Reason.REFUSED_BY_STORE, detail="no")
    assert alone.settled == ((AB, fate),)


def test_a_tally_that_cannot_be_added_to_rejects_the_whole_event() -> None:
    alone = follow(Commit(SPEC, (AB,)), cancelled([FINE, FINE], [FINE, INVALID]))
    assert [(record, fate.reason) for record, fate in alone.settled] == [
        (AB, Reason.REFUSED_BY_STORE)
    ]


def test_a_throttled_key_of_another_record_slows_its_group_alone() -> None:
    records = [FINE, THROTTLED, THROTTLED, FINE, FINE]
    step = follow(ALL, cancelled(records, [FINE] * 4))
    assert [puts(commit) for commit in step.commits] == [["a1", "b1", "b2", "c2"], ["d3"]]
    assert step.commits[1].not_before < step.commits[0].not_before


def test_throttled_groups_are_retried_by_the_key_that_is_slow() -> None:
    """Their first keys, of which there may be many, are not slow."""
    groups = tuple(group_of(f"{n}", f"{n}z") for n in range(3))
    answers = [FINE, THROTTLED] * 3
    step = follow(Commit(SPEC, groups), cancelled(answers, [FINE] * 4))
    assert named(step.commits) == [["0", "1", "2"]]
    step = follow(Commit(SPEC, groups), Outcome(Verdict.THROTTLED))
    assert named(step.commits) == [["0"], ["1"], ["2"]]


def test_a_group_is_handed_back_as_one() -> None:
    outcome = cancelled([CONTENDED, FINE, FINE, FINE, FINE], [FINE] * 4)
    step = follow(ALL, outcome, deadline=NOW + 1)
    assert [(record, fate.kind) for record, fate in step.settled] == [
        (record, Disposition.HANDED_BACK) for record in (AB, BC, D)
    ]


def test_answers_that_are_not_for_all_records_are_refused() -> None:
    with pytest.raises(AssertionError):
        after(ALL, cancelled([FINE] * 3, [FINE] * 4), NOW, DEADLINE, None)  # type: ignore[arg-type]

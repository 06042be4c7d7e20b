"""Identities beyond the window: an id counts once for its key, or once at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Missing, UsageError
from tallyroll.model.ids import expires_of, identity_names
from tallyroll.model.sharding import calculated
from tallyroll.model.specs import IdentityScope, Spec, strategy
from tallyroll.model.states import Status
from tallyroll.ports.store import Answer, Element, Outcome, Verdict
from tallyroll.reasons import Reason
from tests.harness.pipeline import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    SMALL,
    TIME_LEFT,
    WINDOW,
    Pipeline,
    hour,
    opened,
    spec_of,
)

KEY, PIPELINE = IdentityScope.KEY, IdentityScope.PIPELINE
SCOPES = (KEY, PIPELINE)
NEXT = hour(9)
DAY_SECONDS = 86_400


def voting(scope: str) -> Pipeline:
    return opened(replace(SMALL, identity=scope))


def ballot(key: str = "Ada", **more: Any) -> dict[str, Any]:
    return {"v": 1, "key": key, "id": "ballot-7", **more}


def later(pipeline: Pipeline, ms: int = HOUR) -> None:
    """Let time pass, in which the roller opens the next windows."""
    pipeline.effects.pass_by(ms)
    for _ in range(3):
        pipeline.roller().run(TIME_LEFT)


def counted(pipeline: Pipeline, *keys: str) -> list[int]:
    """The keys' events over the windows of eight and nine o'clock."""
    windows = [name for name in (WINDOW, NEXT) if pipeline.catalog.specs([name])]
    return [sum(pipeline.tally(key, name)[0] for name in windows) for key in keys]


@pytest.mark.parametrize("scope", SCOPES)
def test_a_ballot_that_is_posted_again_in_the_next_hour_counts_once(scope: str) -> None:
    pipeline = voting(scope)
    assert pipeline.write(ballot()).single_events == 1
    later(pipeline)
    assert pipeline.write(ballot()).duplicates == 1
    assert counted(pipeline, "Ada") == [1]


def test_in_the_scope_of_the_window_it_counts_in_each() -> None:
    pipeline = voting(IdentityScope.WINDOW)
    pipeline.write(ballot())
    later(pipeline)
    pipeline.write(ballot())
    assert counted(pipeline, "Ada") == [2]
    assert pipeline.store.identity_items == {}


def test_of_one_ballot_for_two_candidates_the_first_counts() -> None:
    pipeline = voting(PIPELINE)
    pipeline.write(ballot("Ada"))
    pipeline.write(ballot("Grace"))
    assert counted(pipeline, "Ada", "Grace") == [1, 0]
    assert pipeline.reasons() == [Reason.ID_CONFLICT]
    assert WINDOW in pipeline.queue.dead_letters[0].detail


def test_in_the_scope_of_the_key_each_key_has_its_own_ids() -> None:
    pipeline = voting(KEY)
    pipeline.write(ballot("Ada"), ballot("Grace"))
    assert counted(pipeline, "Ada", "Grace") == [1, 1]


def test_another_content_in_another_hour_is_a_conflict() -> None:
    pipeline = voting(KEY)
    pipeline.write(ballot(value=1))
    later(pipeline)
    pipeline.write(ballot(value=2))
    assert counted(pipeline, "Ada") == [1]
    assert pipeline.reasons() == [Reason.ID_CONFLICT]


@pytest.mark.parametrize("scope", SCOPES)
def test_events_without_an_id_of_their_own_have_no_identity(scope: str) -> None:
    pipeline = voting(scope)
    pipeline.write({"v": 1, "key": "Ada"}, {"v": 1, "key": "Ada"})
    assert counted(pipeline, "Ada") == [2]
    assert pipeline.store.identity_items == {}


@pytest.mark.parametrize("scope", SCOPES)
def test_a_packet_has_one_identity_and_its_events_none(scope: str) -> None:
    pipeline = voting(scope)
    packet = {"v": 1, "key": "Ada", "id": "p1", "t0": NOW, "events": [[0], [SECOND]]}
    assert pipeline.write(packet).packed_events == 2
    assert len(pipeline.store.identity_items) == 1
    assert pipeline.write(packet).duplicates == 1


@pytest.mark.parametrize(("scope", "items"), [(KEY, 2), (PIPELINE, 1)])
def test_an_event_of_several_keys_has_an_identity_for_each_or_one(scope: str, items: int) -> None:
    settings = replace(SMALL, identity=scope, mapping={"keys": ["video:{v}", "all"], "id": "id"})
    pipeline = opened(settings)
    assert pipeline.write({"v": "x", "id": "e1"}).single_events == 1
    assert len(pipeline.store.identity_items) == items
    assert {item["k"]["S"] for item in pipeline.store.identity_items.values()} == {"all"}
    later(pipeline)
    assert pipeline.write({"v": "x", "id": "e1"}).duplicates == 1
    assert counted(pipeline, "video:x", "all") == [1, 1]


def test_in_one_batch_the_first_of_an_identity_counts_whatever_its_key() -> None:
    pipeline = voting(PIPELINE)
    pipeline.write(ballot("Ada"), ballot("Grace"), ballot("Ada"))
    assert counted(pipeline, "Ada", "Grace") == [1, 0]
    assert len(pipeline.store.commits) == 1, "one transaction with one action for the identity"


def test_in_one_batch_and_two_windows_the_stored_identity_decides() -> None:
    pipeline = voting(PIPELINE)
    at_seven, now = ballot(ts=NOW - HOUR), ballot(ts=NOW)
    report = pipeline.write(at_seven, now)
    assert (report.single_events, len(report.failures)) == (1, 1)
    assert pipeline.write(now).rejected == {Reason.ID_CONFLICT: 1}


@pytest.mark.parametrize(("verdict", "left"), [(Verdict.GATE_SHUT, 2), (Verdict.INVALID, 1)])
def test_a_copy_in_another_window_does_not_take_over_a_refusal(verdict: Verdict, left: int) -> None:
    """The first message meets a shut gate at seven, or is refused; its copy counts at eight."""
    pipeline = voting(PIPELINE)
    pipeline.move(Status.CLOSING, hour(7))
    pipeline.store.script += [Outcome(verdict)]
    hour_ago = pipeline.message(ballot(), sent=NOW - HOUR)
    now = pipeline.message(ballot())
    assert len(pipeline.writer().write([hour_ago, now], TIME_LEFT).failures) == left
    report = pipeline.writer().write([replace(now, receives=2)], TIME_LEFT)
    assert report.single_events == 1


def sealed(pipeline: Pipeline, window: str) -> None:
    pipeline.store.shut_gates(pipeline.spec(window))
    pipeline.move(Status.CLOSING, window)
    pipeline.move(Status.SEALED, window)


@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("scope", SCOPES)
def test_what_counted_in_another_window_is_no_dead_letter_of_a_sealed_one(
    scope: str, *, dropped: bool
) -> None:
    """Its first copy was undecided, its window shut, and a copy of it counted an hour later."""
    pipeline = voting(scope)
    pipeline.write(ballot())
    copy = pipeline.message(ballot(), sent=NOW - HOUR)
    sealed(pipeline, hour(7))
    if dropped:
        for status in (Status.EXPORTING, Status.PROVEN, Status.DROPPING, Status.DROPPED):
            pipeline.move(status, hour(7))
        pipeline.store.drop_table(pipeline.spec(hour(7)).table)
        pipeline.store.drop_table(pipeline.spec(hour(7)).table)
    report = pipeline.writer().write([copy], TIME_LEFT)
    assert report.duplicates == 1
    assert pipeline.reasons() == []


@pytest.mark.parametrize("scope", SCOPES)
def test_a_late_copy_is_a_duplicate_and_another_late_event_a_conflict(scope: str) -> None:
    pipeline = voting(scope)
    pipeline.write(ballot(ts=NOW - HOUR))
    later(pipeline, 2 * HOUR)
    assert pipeline.write(ballot(ts=NOW - HOUR)).duplicates == 1
    assert pipeline.write(ballot(ts=NOW - HOUR, value=2)).rejected == {Reason.ID_CONFLICT: 1}
    assert pipeline.write(ballot(id="other", ts=NOW - HOUR)).rejected == {Reason.TOO_LATE: 1}


def test_what_expires_in_the_queue_is_looked_up_by_its_identity_too() -> None:
    pipeline = voting(KEY)
    pipeline.write(ballot(ts=NOW))
    copy = pipeline.message(ballot(ts=NOW))
    old = replace(copy, sent=NOW, receives=2)
    pipeline.effects.pass_by(pipeline.settings.queue_retention_ms - MINUTE)
    pipeline.store.script += [Outcome(Verdict.UNKNOWN)] * 2
    assert pipeline.writer().write([old], 40).duplicates == 1


def test_while_the_identities_cannot_be_read_a_message_is_handed_back() -> None:
    pipeline = voting(KEY)
    later(pipeline, 2 * HOUR)
    late = pipeline.message(ballot(ts=NOW - HOUR))

    def missing(names: object) -> Any:
        raise Missing(f"no table for {names}", "ResourceNotFoundException")

    pipeline.store.identities = missing  # type: ignore[method-assign]
    assert pipeline.writer().write([late], TIME_LEFT).failures == [late.id]
    assert pipeline.reasons() == []


def test_but_not_until_the_queue_drops_it() -> None:
    pipeline = voting(KEY)
    late = pipeline.message(ballot(ts=NOW - HOUR))
    pipeline.effects.pass_by(pipeline.settings.queue_retention_ms - MINUTE)
    late = replace(late, sent=NOW, receives=9)

    def missing(names: object) -> Any:
        raise Missing(f"no table for {names}", "ResourceNotFoundException")

    pipeline.store.identities = missing  # type: ignore[method-assign]
    sealed(pipeline, hour(7))
    assert pipeline.writer().write([late], TIME_LEFT).rejected == {Reason.EXPIRING: 1}


@pytest.mark.parametrize("scope", SCOPES)
def test_once_the_table_is_given_up_what_is_late_is_rejected_at_once(scope: str) -> None:
    """The option was taken back without `keep_identities`: no look-up would ever be answered."""
    pipeline = voting(scope)
    late = pipeline.message(ballot(ts=NOW - HOUR))
    unplaced = pipeline.message({"v": 9, "id": "ballot-8"})
    sealed(pipeline, hour(7))
    pipeline.settings = replace(pipeline.settings, identity=IdentityScope.WINDOW)

    def missing(names: object) -> Any:
        raise Missing(f"no table for {names}", "ResourceNotFoundException")

    pipeline.store.identities = missing  # type: ignore[method-assign]
    assert pipeline.writer().write([late, unplaced], TIME_LEFT).failures == []
    gone = "the pipeline has given up its table of identities"
    assert {each.reason: gone in each.detail for each in pipeline.queue.dead_letters} == {
        Reason.WINDOW_SEALED: True,
        Reason.UNKNOWN_VERSION: False,
    }


def test_a_contended_identity_is_committed_apart() -> None:
    pipeline = voting(PIPELINE)
    fine, contended = Element(Answer.FINE), Element(Answer.CONTENDED)
    bodies = [ballot(id=f"b{number}") for number in range(3)]
    pipeline.store.script += [Outcome(Verdict.CANCELLED, (fine, contended, fine), (fine,))]
    assert pipeline.write(*bodies).single_events == 3
    assert sorted(len(records) for _, records, _ in pipeline.store.commits) == [1, 2, 3]


# --- what is stored


def test_a_window_under_the_rule_is_refused_by_the_release_before() -> None:
    spec = voting(KEY).spec()
    assert (spec.suffix, spec.identity, spec.identity_days) == ("calculated+s1+id1", KEY, 31)
    assert spec.genesis
    assert strategy(spec.suffix) is calculated
    with pytest.raises(UsageError):
        strategy("calculated+id2")
    with pytest.raises(UsageError):
        strategy("calculated+id1+s1")


def scoped(scope: IdentityScope, **changes: Any) -> Spec:
    return spec_of(identity=scope, identity_days=31, genesis=NOW, **changes)


def test_names_differ_by_all_that_is_unique() -> None:
    names = [
        *identity_names(scoped(KEY), ("a", "b"), "x"),
        *identity_names(scoped(PIPELINE), ("a", "b"), "x"),
        *identity_names(scoped(PIPELINE), ("a",), "y"),
        *identity_names(replace(scoped(PIPELINE), genesis=NOW + 1), ("a",), "x"),
        *identity_names(scoped(KEY), ("a\0b",), "c"),
        *identity_names(scoped(KEY), ("a",), "b\0c"),
        *identity_names(scoped(KEY), ("1:a",), "x"),
    ]
    assert len({*names}) == len(names) == 8
    assert {len(name) for name in names} == {64}
    assert identity_names(scoped(KEY), ("a",), "x") == identity_names(
        scoped(KEY, window=NEXT), ("a",), "x"
    )


def test_an_identity_outlasts_every_copy_of_its_message() -> None:
    """Its days, and 14 in the queue, 14 as a dead letter, 14 after the redrive, and one."""
    assert expires_of(scoped(KEY), NOW) == NOW // 1000 + (31 + 43) * DAY_SECONDS


def test_no_time_that_a_producer_sets_decides_when_an_identity_goes() -> None:
    pipeline = voting(KEY)
    pipeline.write(ballot(ts=NOW - HOUR))
    (item,) = pipeline.store.identity_items.values()
    assert item["expires"]["N"] == str(expires_of(pipeline.spec(), NOW))


def test_the_cost_of_an_event_is_two_units_more() -> None:
    for scope, most in ((IdentityScope.WINDOW, 2.1), (PIPELINE, 4.09)):
        pipeline = voting(scope)
        bodies = [ballot(id=f"b{number}") for number in range(490)]
        report = pipeline.write(*bodies)
        assert report.single_events == 490
        assert report.cost.total / 490 <= most
        assert report.cost.requests / 490 <= 0.022

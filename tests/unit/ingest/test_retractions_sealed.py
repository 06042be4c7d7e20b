"""What the writer takes back of sealed and of dropped windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Throttled
from tallyroll.model.ids import Identity
from tallyroll.model.retractions import Authorization
from tallyroll.model.states import Status
from tallyroll.model.totals import Correction, Total
from tallyroll.model.windows import window_start
from tallyroll.ports.catalog import Claim
from tallyroll.ports.store import Element, Outcome, Verdict
from tallyroll.reasons import Reason
from tests.harness.pipeline import MINUTE, NOW, SMALL, TIME_LEFT, WINDOW, Pipeline, hour, opened
from tests.harness.retracting import EVENT, QUEUE, again, retraction

FANNED = {"keys": ["{a}", "{b}"], "id": "name"}
TARGET = (WINDOW, "k", "e1", None)


@pytest.fixture
def pipeline() -> Pipeline:
    return opened(QUEUE)


def sealed(pipeline: Pipeline) -> None:
    pipeline.store.shut_gates(pipeline.spec())
    pipeline.move(Status.CLOSING)
    pipeline.move(Status.SEALED)


def dropped(pipeline: Pipeline, status: Status = Status.DROPPED) -> None:
    sealed(pipeline)
    pipeline.move(status)
    if status is Status.DROPPED:
        pipeline.store.drop_table(pipeline.spec().table)
        pipeline.store.drop_table(pipeline.spec().table)


def corrections(pipeline: Pipeline, key: str = "k", window: str = WINDOW) -> list[Correction]:
    return sorted(pipeline.totals.corrections(key, window), key=lambda each: each.id)


def claimed(pipeline: Pipeline, identity: Identity, target: str) -> None:
    pipeline.catalog.claim(identity, Claim(target, NOW))


# --- sealed


def test_what_is_sealed_is_corrected_once_however_often_that_is_asked(pipeline: Pipeline) -> None:
    pipeline.write(EVENT, {**EVENT, "id": "e2"})
    sealed(pipeline)
    pipeline.totals.put([Total("k", WINDOW, 2, 5_000_000)])
    record = pipeline.store.record(pipeline.spec(), "k", "e1")
    assert record
    report = pipeline.write(retraction(), retraction(by="bob"))
    assert (report.retracted, report.duplicates) == (1, 1)
    assert pipeline.write(retraction()).duplicates == 1
    [made] = corrections(pipeline)
    now = pipeline.effects.now()
    wanted = Correction(WINDOW, "e1", ("k",), 1, 2_500_000, record.digest, now, "ann", "a test")
    assert made == wanted
    assert pipeline.store.items(pipeline.spec().table)
    assert pipeline.tally("k") == (2, 5_000_000), "what is sealed does not change"
    [total] = pipeline.totals.of_key("k", WINDOW, hour(9))
    assert (total.n, total.retracted) == (2, (1, 2_500_000))


def test_what_was_retracted_before_the_seal_is_a_duplicate_after_it(pipeline: Pipeline) -> None:
    pipeline.write(EVENT)
    pipeline.write(retraction())
    sealed(pipeline)
    assert pipeline.write(retraction()).duplicates == 1
    assert corrections(pipeline) == []


def test_corrections_of_a_batch_are_added_together(pipeline: Pipeline) -> None:
    """One key and window take 2.11 units each, and one that is alone 12."""
    pipeline.write(*({**EVENT, "id": f"e{number}"} for number in range(120)))
    sealed(pipeline)
    pipeline.effects.pass_by(pipeline.spec().accept_until - NOW + 1)
    asked: list[int] = []
    correct = pipeline.totals.correct

    def heard(given: Sequence[Correction]) -> list[Element]:
        asked.append(len(given))
        return correct(given)

    pipeline.totals.correct = heard  # type: ignore[method-assign,assignment]
    report = pipeline.write(*(retraction(id=f"e{number}") for number in range(120)))
    assert (report.retracted, asked) == (120, [95, 25])
    assert report.cost.total == 2 * (95 + 5) + 2 * (25 + 5)
    assert pipeline.write(retraction(id="e7")).cost.total == 12


def test_of_several_keys_and_of_a_packet(pipeline: Pipeline) -> None:
    fanned = opened(replace(QUEUE, mapping=FANNED))
    fanned.write({"a": "y", "b": "x", "name": "e1"})
    sealed(fanned)
    assert fanned.write(retraction(key="y")).retracted == 1
    assert fanned.write(retraction(key="x")).duplicates == 1
    [made] = corrections(fanned, "x")
    assert (made.keys, made.n, made.amount) == (("x", "y"), 1, 1_000_000)

    packet = {"v": 1, "key": "k", "id": "p", "t0": NOW, "events": [[0, 1], [5, -3.5]]}
    pipeline.write(packet, {**EVENT, "id": "p#1"})
    sealed(pipeline)
    bodies = retraction(id="p", index=1), retraction(id="p#1")
    assert pipeline.write(*bodies).retracted == 2
    [entry, literal] = corrections(pipeline)
    assert (entry.id, entry.index, entry.amount) == ("p", 1, -3_500_000)
    assert (literal.id, literal.index, literal.amount) == ("p#1", None, 2_500_000)


def test_a_gate_that_shuts_before_the_transaction_leads_to_a_correction(pipeline: Pipeline) -> None:
    pipeline.write(EVENT)

    def retract(*_: Any) -> Outcome:
        sealed(pipeline)
        return Outcome(Verdict.GATE_SHUT)

    pipeline.store.retract = retract  # type: ignore[method-assign,assignment]
    report = pipeline.write(retraction(), retraction())
    assert (report.retracted, report.duplicates) == (1, 1)
    assert len(corrections(pipeline)) == 1


def test_totals_that_cannot_be_corrected_hand_it_back(pipeline: Pipeline) -> None:
    pipeline.write(EVENT, {**EVENT, "ts": NOW - 60 * MINUTE, "id": "e2"})
    sealed(pipeline)
    correct = pipeline.totals.correct

    def fail(given: Any) -> Any:
        correct(given)
        raise Throttled("no", "No")

    pipeline.totals.correct = fail  # type: ignore[method-assign,assignment]
    report = pipeline.write(retraction(), retraction(id="e2", ts=NOW - 60 * MINUTE))
    assert (len(report.failures), report.retracted) == (1, 1)
    pipeline.totals.correct = correct  # type: ignore[method-assign]
    assert pipeline.write(retraction()).duplicates == 1
    assert len(corrections(pipeline)) == 1


def test_a_writer_without_time_corrects_nothing(pipeline: Pipeline) -> None:
    pipeline.write(EVENT)
    sealed(pipeline)
    window = pipeline.catalog.window

    def slow(name: str) -> Any:
        pipeline.effects.pass_by(TIME_LEFT)
        return window(name)

    pipeline.catalog.window = slow  # type: ignore[method-assign,assignment]
    assert len(pipeline.write(retraction()).failures) == 1
    assert corrections(pipeline) == []


def test_a_closing_window_makes_it_wait_for_the_seal(pipeline: Pipeline) -> None:
    pipeline.write(EVENT)
    pipeline.store.shut_gates(pipeline.spec())
    for status in (Status.OPEN, Status.CLOSING):
        pipeline.move(status)
        report = again(pipeline, retraction(), 9)
        assert (len(report.failures), report.rejected) == (1, {})
    assert pipeline.tally("k")[0] == 1


def test_behind_a_seal_the_tombstone_is_read_before_the_record(pipeline: Pipeline) -> None:
    """Between the two the table is dropped, and a late roller makes an empty one again."""
    pipeline.write(EVENT)
    pipeline.write(retraction())
    sealed(pipeline)
    spec = pipeline.spec()
    reads: list[str] = []
    tombstones, record = pipeline.store.tombstones, pipeline.store.record

    def read(name: str, given: Any) -> Any:
        reads.append(name)
        if len(reads) == 2:  # the first look is at the record alone, as in an open window
            pipeline.store.items(spec.table).clear()
            pipeline.move(Status.DROPPED)
        return given

    pipeline.store.tombstones = lambda *of: read("tombstones", tombstones(*of))  # type: ignore[method-assign]
    pipeline.store.record = lambda *of: read("record", record(*of))  # type: ignore[method-assign]
    assert pipeline.write(retraction()).duplicates == 1
    assert reads == ["record", "tombstones", "record"]


def test_behind_a_seal_another_events_tombstone_says_nothing(pipeline: Pipeline) -> None:
    home, late = hour(6), window_start(hour(6)) + MINUTE
    claimed(pipeline, (home, "k", "e1"), WINDOW)
    pipeline.write(EVENT)
    pipeline.write(retraction())
    sealed(pipeline)
    assert pipeline.write(retraction(ts=late)).rejected == {Reason.NOTHING_TO_RETRACT: 1}


def test_a_window_that_is_dropped_meanwhile_does_not_lack_the_event(pipeline: Pipeline) -> None:
    pipeline.write(EVENT)
    sealed(pipeline)
    tombstones = pipeline.store.tombstones

    def dropped_first(*of: Any) -> Any:
        pipeline.store.items(pipeline.spec().table).clear()
        pipeline.move(Status.DROPPED)
        return tombstones(*of)

    pipeline.store.tombstones = dropped_first  # type: ignore[method-assign,assignment]
    report = again(pipeline, retraction(), 9)
    assert (len(report.failures), report.rejected) == (1, {})


# --- dropped


def authorized(pipeline: Pipeline, **fields: Any) -> None:
    given: dict[str, Any] = {"target": TARGET, "by": "op", "why": "on call", "at": NOW} | fields
    pipeline.catalog.authorize(Authorization(**given))


@pytest.mark.parametrize("status", [Status.DROPPING, Status.DROPPED])
@pytest.mark.parametrize("mode", ["operator", "queue"])
def test_of_a_dropped_window_what_is_proven_is_corrected(mode: str, status: Status) -> None:
    pipeline = opened(replace(SMALL, retraction=mode))
    pipeline.write(EVENT)
    dropped(pipeline, status)
    authorized(pipeline)
    assert pipeline.write(retraction()).rejected == {Reason.RETRACTION_UNPROVEN: 1}
    authorized(pipeline, proven=(1, 2_500_000, b"digest"))
    assert pipeline.write(retraction()).retracted == 1
    assert pipeline.write(retraction()).duplicates == 1
    now = pipeline.effects.now()
    wanted = Correction(WINDOW, "e1", ("k",), 1, 2_500_000, b"digest", now, "op", "on call")
    assert corrections(pipeline) == [wanted]


def test_of_a_dropped_window_everybody_may_where_it_is_proven_alone(pipeline: Pipeline) -> None:
    pipeline.write(EVENT)
    dropped(pipeline)
    assert pipeline.write(retraction()).rejected == {Reason.RETRACTION_UNPROVEN: 1}
    [letter] = pipeline.queue.dead_letters
    assert "tallyroll retract" in letter.detail
    assert corrections(pipeline) == []


def test_of_a_dropped_window_its_keys_are_those_that_were_proven(pipeline: Pipeline) -> None:
    target = (WINDOW, "y", "p", 3)
    dropped(pipeline)
    authorized(pipeline, target=target, keys=("x", "y"), proven=(1, 7, b"d"))
    assert pipeline.write(retraction(key="y", id="p", index=3)).retracted == 1
    [made] = corrections(pipeline, "x")
    assert (made.keys, made.index, made.amount) == (("x", "y"), 3, 7)


def test_a_claim_leads_to_a_dropped_window(pipeline: Pipeline) -> None:
    home = hour(6)
    claimed(pipeline, (home, "k", "e1"), WINDOW)
    dropped(pipeline)
    authorized(pipeline, target=(home, "k", "e1", None), proven=(1, 7, b"d"))
    assert pipeline.write(retraction(window=home)).retracted == 1
    assert corrections(pipeline, window=home) == []
    assert len(corrections(pipeline)) == 1


def test_a_claim_that_came_meanwhile_is_read_before_it_is_unproven(pipeline: Pipeline) -> None:
    dropped(pipeline)
    authorizations = pipeline.catalog.authorizations

    def claim_first(targets: Any) -> Any:
        claimed(pipeline, (WINDOW, "k", "e1"), hour(9))
        return authorizations(targets)

    pipeline.catalog.authorizations = claim_first  # type: ignore[method-assign]
    report = pipeline.write(retraction())
    assert (len(report.failures), report.rejected) == (1, {})


def test_a_proof_that_came_meanwhile_may_be_of_a_window_claimed_meanwhile(
    pipeline: Pipeline,
) -> None:
    """Else its event is corrected in two windows: here, and where the claim leads."""
    dropped(pipeline)
    authorizations = pipeline.catalog.authorizations

    def claim_and_prove_first(targets: Any) -> Any:
        claimed(pipeline, (WINDOW, "k", "e1"), hour(9))
        authorized(pipeline, proven=(1, 7, b"d"), at=NOW + 1)
        return authorizations(targets)

    pipeline.catalog.authorizations = claim_and_prove_first  # type: ignore[method-assign]
    report = pipeline.write(retraction())
    assert (len(report.failures), report.retracted) == (1, 0)
    assert corrections(pipeline) == []


def test_a_dropped_window_whose_spec_is_gone(pipeline: Pipeline) -> None:
    pipeline.write(EVENT)
    dropped(pipeline)
    pipeline.catalog.specs = lambda _: {}  # type: ignore[method-assign,assignment]
    assert pipeline.write(retraction()).rejected == {Reason.RETRACTION_UNPROVEN: 1}
    authorized(pipeline, proven=(1, 2_500_000, b"digest"))
    assert pipeline.write(retraction()).retracted == 1


def test_a_writer_that_stalled_over_the_drop_and_a_proof_make_one_correction(
    pipeline: Pipeline,
) -> None:
    """It read the record while the window was sealed; its correction comes after the proven one."""
    pipeline.write(EVENT)
    record = pipeline.store.record(pipeline.spec(), "k", "e1")
    assert record
    sealed(pipeline)
    authorized(pipeline, proven=(1, record.amount, record.digest))
    correct = pipeline.totals.correct

    def stall(given: Any) -> Any:
        pipeline.totals.correct = correct  # type: ignore[method-assign]
        pipeline.move(Status.DROPPED)
        assert pipeline.write(retraction()).retracted == 1
        return correct(given)

    pipeline.totals.correct = stall  # type: ignore[method-assign,assignment]
    assert pipeline.write(retraction()).duplicates == 1
    assert len(corrections(pipeline)) == 1


def test_a_proof_from_before_its_event_was_claimed_for_the_window_is_of_another(
    pipeline: Pipeline,
) -> None:
    home = hour(6)
    authorized(pipeline, target=(home, "k", "e1", None), proven=(1, 7, b"d"), at=NOW - 1)
    claimed(pipeline, (home, "k", "e1"), WINDOW)
    dropped(pipeline)
    assert pipeline.write(retraction(window=home)).rejected == {Reason.RETRACTION_UNPROVEN: 1}


def test_another_proof_than_that_of_a_correction_is_a_conflict(pipeline: Pipeline) -> None:
    dropped(pipeline)
    authorized(pipeline, proven=(1, 7, b"d"))
    assert pipeline.write(retraction()).retracted == 1
    authorized(pipeline, proven=(1, 7, b"another"))
    assert pipeline.write(retraction()).rejected == {Reason.ID_CONFLICT: 1}
    assert len(corrections(pipeline)) == 1

"""Redrive of events of several keys: one window for all of them, whatever shares their id."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Unknown
from tallyroll.model.ids import Identity
from tallyroll.model.states import Status
from tallyroll.operations.letter_events import LetterOutcome
from tallyroll.ports.catalog import Claim
from tallyroll.reasons import Reason
from tests.harness.pipeline import HOUR, NOW, SMALL, WINDOW, Pipeline, hour, opened, record_with
from tests.harness.redriving import LATE, Operator, drain, records, reject, seal

SETTINGS = replace(SMALL, mapping={"keys": ["{a}", "{b}"], "id": "id", "ts": "at"})


def late() -> tuple[Pipeline, Operator]:
    """A pipeline with one dead letter: an event of the keys a and b, sent too late."""
    pipeline = opened(SETTINGS)
    pipeline.queue.send(json.dumps({"a": "a", "b": "b", "id": "e1", "at": LATE}))
    drain(pipeline)
    assert pipeline.reasons() == ["too-late"]
    return pipeline, Operator(pipeline)


def identity(key: str) -> Identity:
    return hour(6), key, "e1"


def claims(pipeline: Pipeline) -> dict[str, str]:
    found = pipeline.catalog.claims([identity(key) for key in "abc"])
    return {key: claim.target for (_, key, _), claim in found.items()}


def test_all_keys_are_claimed_and_count_in_one_window() -> None:
    pipeline, operator = late()
    seal(pipeline, hour(6))
    assert operator.one().target == WINDOW
    assert claims(pipeline) == {"a": WINDOW, "b": WINDOW}
    drain(pipeline)
    assert [pipeline.tally(key)[0] for key in "ab"] == [1, 1]
    assert sorted(records(pipeline)) == [(WINDOW, "e1")] * 2
    assert pipeline.queue.dead_letters == []


def test_what_counts_already_is_only_deleted() -> None:
    pipeline, operator = late()
    copy = json.dumps({"a": "a", "b": "b", "id": "e1", "at": LATE})
    early = pipeline.message(copy, sent=LATE + 1)
    assert pipeline.writer().write([early], 60_000).events == 1
    seal(pipeline, hour(6))
    assert operator.one().course is LetterOutcome.COUNTED


def test_an_interrupted_redrive_is_continued_from_any_moment() -> None:
    for pulse in range(60):
        pipeline, operator = late()
        seal(pipeline, hour(6))
        if not operator.killed_at(pulse):
            break
        pipeline.effects.pass_by(HOUR)
        pipeline.roller().run(60_000)
        operator.redrive()
        drain(pipeline)
        found = records(pipeline)
        assert len(found) == 2, f"pulse {pulse}: {found}"
        assert len(set(found)) == 1, f"pulse {pulse}: {found}"
    else:
        pytest.fail("it was never finished")
    assert pulse > 10


def test_a_half_moved_claim_is_moved_on() -> None:
    pipeline, operator = late()
    for number in (6, 7):
        seal(pipeline, hour(number))
    pipeline.catalog.claim(identity("a"), Claim(WINDOW, NOW))
    pipeline.catalog.claim(identity("b"), Claim(hour(7), NOW - 1))
    assert operator.one().target == WINDOW
    assert claims(pipeline) == {"a": WINDOW, "b": WINDOW}
    drain(pipeline)
    assert records(pipeline) == [(WINDOW, "e1")] * 2


def test_a_writer_wants_the_claims_of_all_keys() -> None:
    pipeline, operator = late()
    seal(pipeline, hour(6))
    operator.one()
    read = pipeline.catalog.claims([identity("b")])[identity("b")]
    pipeline.catalog.move(identity("b"), read, Claim(hour(7), NOW))
    drain(pipeline)
    assert pipeline.reasons() == [Reason.NOT_CLAIMED]
    assert f"the ledger's claim is for {hour(7)}" in pipeline.queue.dead_letters[0].detail
    assert records(pipeline) == []


def test_two_events_that_share_an_id_and_a_key_count_in_no_two_windows() -> None:
    """Otherwise the shared key would count the id twice."""
    pipeline, operator = late()
    seal(pipeline, hour(6))
    operator.one(to=hour(7))
    reject(pipeline, json.dumps({"a": "b", "b": "c", "id": "e1", "at": LATE}), Reason.TOO_LATE)
    assert operator.one(to=WINDOW).target == hour(7)
    assert claims(pipeline) == dict.fromkeys("abc", hour(7))
    drain(pipeline)
    pipeline.effects.pass_by(HOUR)  # the second waited until the first was decided
    drain(pipeline)
    assert records(pipeline) == [(hour(7), "e1")] * 2
    assert pipeline.reasons() == [Reason.ID_CONFLICT]


def test_keys_that_are_claimed_for_two_open_windows_wait() -> None:
    pipeline, operator = late()
    seal(pipeline, hour(6))
    pipeline.catalog.claim(identity("a"), Claim(hour(7), NOW))
    pipeline.catalog.claim(identity("b"), Claim(WINDOW, NOW))
    left = operator.one()
    assert (left.course, left.why) == (LetterOutcome.LEFT, "claimed apart")
    assert f"for the windows {hour(7)} and {WINDOW}" in left.detail
    seal(pipeline, hour(7))
    assert operator.one().target == WINDOW


def test_what_counts_in_one_of_two_windows_need_not_wait_for_the_other() -> None:
    pipeline, operator = late()
    seal(pipeline, hour(6))
    [copy] = pipeline.queue.dead_letters
    assert operator.one().target == WINDOW
    drain(pipeline)
    claim = pipeline.catalog.claims([identity("a")])[identity("a")]
    pipeline.catalog.move(identity("a"), claim, Claim(hour(7), NOW))
    pipeline.move(Status.CLOSING, hour(7))
    pipeline.queue.dead_letters.append(copy)
    decision = operator.one()
    assert (decision.course, decision.target) == (LetterOutcome.COUNTED, WINDOW)


@pytest.mark.parametrize("overtaken", ["a", "b"])
def test_a_claim_that_another_redrive_puts_meanwhile(
    monkeypatch: pytest.MonkeyPatch, overtaken: str
) -> None:
    """The first claim leads all; another one keeps the letter."""
    pipeline, operator = late()
    seal(pipeline, hour(6))
    claim = pipeline.catalog.claim

    def other(name: Identity, wanted: Claim) -> Claim:
        return claim(name, Claim(hour(7), NOW) if name == identity(overtaken) else wanted)

    monkeypatch.setattr(pipeline.catalog, "claim", other)
    decision = operator.one(to=WINDOW)
    if overtaken == "b":
        assert decision.why == "claimed apart"
        assert len(pipeline.queue.dead_letters) == 1
        return
    assert decision.target == hour(7)
    assert claims(pipeline) == {"a": hour(7), "b": hour(7)}
    drain(pipeline)
    assert records(pipeline) == [(hour(7), "e1")] * 2


def test_a_claim_that_fails_leaves_the_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, operator = late()
    seal(pipeline, hour(6))

    def lost(*_: Any) -> Claim:
        raise Unknown("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(pipeline.catalog, "claim", lost)
        assert operator.one().why == "not claimed"
    assert operator.one().course is LetterOutcome.REDRIVEN


@pytest.mark.parametrize("key", ["a", "b"])
def test_another_content_of_any_key_in_its_own_window_is_a_conflict(key: str) -> None:
    """Otherwise that key would count the id in two windows."""
    pipeline, operator = late()
    spec = pipeline.spec(hour(6))
    stored = record_with("e1", key, shard=spec.shard(key, "e1"), ts=LATE)
    pipeline.store.commit(spec, [stored], [])
    seal(pipeline, hour(6))
    left = operator.one()
    assert (left.course, left.why) == (LetterOutcome.LEFT, Reason.ID_CONFLICT)

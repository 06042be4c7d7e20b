"""Laws of ids that count once: of each identity one event counts, however messages come."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tallyroll.adapters.memory import MemoryStore
from tallyroll.errors import Throttled
from tallyroll.model.ids import IdentityItem
from tallyroll.model.messages import Message
from tallyroll.model.records import Increment, Record
from tallyroll.model.specs import IdentityScope, Spec
from tallyroll.model.states import Status
from tallyroll.ports.store import Answer, Element, Outcome, Verdict
from tallyroll.reasons import Reason
from tests.harness.pipeline import HOUR, MINUTE, NOW, SMALL, TIME_LEFT, Pipeline, hour, opened
from tests.tiers import examples

WINDOWS = (hour(7), hour(8))
TIMES = (NOW - HOUR, NOW - 20 * MINUTE)  # one in each
KEYS = ("a", "b", "c")
MAPPING = {"keys": ["{k1}", "{k2}"], "id": "id", "ts": "at", "value": "n"}
TROUBLED = 30  # batches, after which all troubles end
laws = settings(max_examples=examples(300))
Name = tuple[str, ...]


@dataclass(frozen=True)
class Content:
    """What messages say; `value` tells contents apart, and is that of their records."""

    keys: tuple[str, ...]
    id: str | None
    ts: int | None
    value: int

    def message(self, number: int, sent: int) -> Message:
        if len(self.keys) > 1:
            fields: dict[str, Any] = dict(zip(("k1", "k2"), self.keys, strict=True))
            fields |= {"at": self.ts, "n": self.value}
        else:
            fields = {"v": 1, "key": self.keys[0], "ts": self.ts, "value": self.value}
        fields |= {"id": self.id}
        body = json.dumps({name: of for name, of in fields.items() if of is not None})
        return Message(f"m{number}", body, sent, 1, f"r{number}")


@dataclass(frozen=True)
class Sent:
    """A message with its content."""

    message: Message
    content: Content

    @property
    def window(self) -> str:
        return WINDOWS[TIMES.index(self.content.ts or self.message.sent)]

    @property
    def event(self) -> tuple[str, int, str]:
        """The record that it would have: its window, value and id."""
        return self.window, self.content.value, self.content.id or self.message.id

    def names(self, scope: str) -> set[Name]:
        """What only one event may have, by a reading of the rule that owes nothing to the code."""
        own = self.content.id
        if own is None:
            return {(self.message.id,)}
        if scope == IdentityScope.PIPELINE:
            return {(own,)}
        where = (self.window,) if scope == IdentityScope.WINDOW else ()
        return {(*where, key, own) for key in self.content.keys}


@st.composite
def messages(draw: st.DrawFn) -> list[Sent]:
    keys = st.one_of(
        st.tuples(st.sampled_from(KEYS)),
        st.sampled_from([("a", "b"), ("a", "c"), ("b", "c")]),
    )
    facts = st.tuples(keys, st.sampled_from(["x", "y", "z", None]), st.sampled_from([None, *TIMES]))
    contents = [
        # What a mapping names must be there.
        Content(of, own, ts, value + 1)
        if len(of) == 1
        else Content(of, own or "x", ts or TIMES[1], value + 1)
        for value, (of, own, ts) in enumerate(draw(st.lists(facts, min_size=1, max_size=6)))
    ]
    posted = st.tuples(st.sampled_from(contents), st.sampled_from(TIMES))
    found = draw(st.lists(posted, min_size=1, max_size=12))
    return [
        Sent(content.message(number, max(sent, content.ts or sent)), content)
        for number, (content, sent) in enumerate(found)
    ]


class Shaky:
    """Troubles of a store, by chance: replies that are lost, conflicts, reads that fail."""

    def __init__(self, pipeline: Pipeline, chance: Random, rate: float) -> None:
        self._store = pipeline.store
        self._commit, self._identities = self._store.commit, self._store.identities
        self._chance = chance
        self.rate = rate
        self._store.commit = self.commit  # type: ignore[method-assign]
        self._store.identities = self.identities  # type: ignore[method-assign]

    def commit(
        self, spec: Spec, records: Sequence[Record], increments: Sequence[Increment]
    ) -> Outcome:
        drawn = self._chance.random() / self.rate if self.rate else 1
        if drawn < 0.3:
            answers = [Element(Answer.FINE)] * len(records)
            answers[self._chance.randrange(len(answers))] = Element(Answer.CONTENDED)
            fine = (Element(Answer.FINE),) * len(increments)
            return Outcome(Verdict.CANCELLED, tuple(answers), fine)
        outcome = self._commit(spec, records, increments)
        return Outcome(Verdict.UNKNOWN) if drawn < 1 else outcome

    def identities(self, names: Sequence[str]) -> Mapping[str, IdentityItem]:
        if self._chance.random() < self.rate:
            raise Throttled("busy", "ThrottlingException")
        return self._identities(names)


def deliver(pipeline: Pipeline, batch: Sequence[Message]) -> list[Message]:
    """Have a new writer write a batch; what it hands back, received once more."""
    report = pipeline.writer().write(batch, TIME_LEFT)
    return [
        replace(each, receives=each.receives + 1) for each in batch if each.id in report.failures
    ]


def close(pipeline: Pipeline, window: str, status: Status) -> None:
    pipeline.store.shut_gates(pipeline.spec(window))
    pipeline.move(status, window)


def stored(pipeline: Pipeline) -> list[tuple[str, Record]]:
    """The records, with their windows."""
    return [
        (window, record)
        for window in WINDOWS
        for page in pipeline.store.scan(pipeline.spec(window).table, 0, 1)
        for record in map(pipeline.store.codec.parse, page)
        if isinstance(record, Record)
    ]


def taken_in(pipeline: Pipeline, sent: Sequence[Sent], scope: str) -> Counter[Name]:
    """How many counted events have each name."""
    there = {(window, each.amount // 10**6, each.id) for window, each in stored(pipeline)}
    counted = {each.event: each for each in sent if each.event in there}
    return Counter(name for each in counted.values() for name in each.names(scope))


def run_course(
    sent: Sequence[Sent], scope: str, seed: int, rate: float, *, closes: bool
) -> set[str]:
    """The reasons of letters, after a course of deliveries: every message one to three times, in
    any order and any batches, to any writer; meanwhile a window may close. Raises AssertionError
    for what must not be.
    """
    chance = Random(seed)
    pipeline = opened(replace(SMALL, identity=scope, mapping=MAPPING))
    shaky = Shaky(pipeline, chance, rate)
    left = [each.message for each in sent for _ in range(chance.randint(1, 3))]
    chance.shuffle(left)
    closing = chance.randrange(1, len(left) + 1) if closes else 0
    batches, sealing = 0, TROUBLED
    while left:
        if closing and len(left) <= closing:
            close(pipeline, WINDOWS[0], Status.CLOSING)
            closing, sealing = 0, batches + chance.randint(0, 2)
        if batches == sealing and closes:
            close(pipeline, WINDOWS[0], Status.SEALED)
        if batches == TROUBLED:
            shaky.rate = 0.0
        size = chance.randint(1, 6)
        batch = {each.id: each for each in left[:size]}  # none is in a batch twice
        taken, letters = taken_in(pipeline, sent, scope), len(pipeline.queue.dead_letters)
        left = left[size:] + deliver(pipeline, [*batch.values()])
        batches += 1
        assert batches < 3 * TROUBLED, "they are never finished"
        for letter in pipeline.queue.dead_letters[letters:]:
            if letter.reason == Reason.WINDOW_SEALED:
                (late,) = (each for each in sent if each.message.id == letter.message.id)
                assert late.window == WINDOWS[0]
                assert taken.keys().isdisjoint(late.names(scope)), "it was known to count elsewhere"
    check(pipeline, sent, scope, closes=closes)
    return {f"{scope}: {letter.reason}" for letter in pipeline.queue.dead_letters}


def check(pipeline: Pipeline, sent: Sequence[Sent], scope: str, *, closes: bool) -> None:
    records = stored(pipeline)
    there = {(window, record.amount // 10**6, record.id) for window, record in records}
    counted = {each.event: each for each in sent if each.event in there}
    taken = taken_in(pipeline, sent, scope)
    assert taken.total() == len(taken), f"two events of one identity count: {taken}"
    assert counted.keys() == there
    assert len(records) == sum(len(each.content.keys) for each in counted.values())
    assert sum(pipeline.tally(key, at)[0] for key in KEYS for at in WINDOWS) == len(records)
    own = [each for each in counted.values() if each.content.id and scope != IdentityScope.WINDOW]
    assert len(pipeline.store.identity_items) == sum(len(each.names(scope)) for each in own)

    letters = {letter.message.id: letter.reason for letter in pipeline.queue.dead_letters}
    allowed = {Reason.ID_CONFLICT, Reason.WINDOW_SEALED} if closes else {Reason.ID_CONFLICT}
    assert {*letters.values()} <= allowed
    for each in sent:
        reason = letters.get(each.message.id)
        # Copies count in the window in which the first of them came.
        same = [one for one in counted.values() if one.content == each.content]
        is_counted = any(one.names(scope) == each.names(scope) for one in same)
        assert is_counted == (reason is None) or reason == Reason.WINDOW_SEALED
        if reason != Reason.WINDOW_SEALED:
            assert each.names(scope) & taken.keys(), "nothing counts that it could conflict with"


@laws
@given(
    messages(),
    st.sampled_from(IdentityScope),
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.0, 0.3]),
    st.booleans(),
)
def test_of_each_identity_one_event_counts(
    sent: list[Sent], scope: IdentityScope, seed: int, rate: float, closes: bool
) -> None:
    for reason in run_course(sent, scope, seed, rate, closes=closes):
        event(reason)


@pytest.mark.parametrize("scope", [IdentityScope.KEY, IdentityScope.PIPELINE])
def test_a_store_that_forgets_identities_is_caught(
    monkeypatch: pytest.MonkeyPatch, scope: IdentityScope
) -> None:
    contents = [Content(("a",), "x", ts, value) for value, ts in enumerate(TIMES, 1)]
    sent = [Sent(each.message(each.value, TIMES[1]), each) for each in contents]
    run_course(sent, scope, 0, 0.0, closes=False)
    whole = MemoryStore._answer

    def forgetful(self: MemoryStore, record: Record, item: Any) -> Element:
        return whole(self, replace(record, identities=()), item)

    monkeypatch.setattr(MemoryStore, "_answer", forgetful)
    with pytest.raises(AssertionError, match="two events of one identity"):
        run_course(sent, scope, 0, 0.0, closes=False)

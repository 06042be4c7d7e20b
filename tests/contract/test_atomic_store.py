"""What a store with transactions promises: a commit is all or nothing, within DynamoDB's limits."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tallyroll.errors import Missing
from tallyroll.model.amounts import MICROS
from tallyroll.model.records import Record, increments_of
from tallyroll.model.specs import Spec
from tallyroll.model.states import Window
from tallyroll.model.tallies import Tally
from tallyroll.ports.store import Answer, Verdict
from tests.contract.engines import Engine, commit, counted, record, with_data


def test_a_stored_record_is_a_duplicate_and_nothing_of_its_commit_is_done(engine: Engine) -> None:
    spec = engine.opened()
    counted(engine.store, spec, record(spec, "a", "x", digest=b"first"))

    outcome = commit(
        engine.store,
        spec,
        record(spec, "a", "new"),
        record(spec, "a", "x", digest=b"second"),
        record(spec, "b", "other"),
    )

    assert outcome.verdict is Verdict.CANCELLED
    assert [element.answer for element in outcome.records] == [
        Answer.FINE,
        Answer.DUPLICATE,
        Answer.FINE,
    ]
    assert outcome.records[1].digest == b"first"
    assert [element.answer for element in outcome.increments] == [Answer.FINE, Answer.FINE]
    assert engine.store.tallies(spec, ["a", "b"]) == {
        "a": Tally("a", 1, MICROS, ((5, 1),), cost=2),
        "b": Tally("b", 0, 0),
    }
    assert engine.store.record(spec, "a", "new") is None


def test_each_record_names_the_stripe_that_counts_it(engine: Engine) -> None:
    spec = engine.opened()
    keys = ("a", "b")
    for number in range(12):
        counted(engine.store, spec, *(record(spec, key, str(number)) for key in keys))
    named: Counter[str] = Counter()
    for page in engine.store.scan(spec.table, 0, 1):
        for found in map(engine.store.codec.parse, page):
            if isinstance(found, Record):
                named[f"{found.key}.{found.stripe}"] += found.n
    listed = {
        stripe.place: stripe.tally.n
        for number in range(1, spec.buckets + 1)
        for page in engine.store.stripes(spec, number, "", 100)
        for stripe in page
    }
    assert named == listed
    assert len(listed) > len(keys)


def test_an_event_of_several_keys_names_them(engine: Engine) -> None:
    spec = engine.opened()
    least = replace(record(spec, "a", "x"), keys=("a", "b", "é.1"), slot=5)
    others = (replace(record(spec, key, "x"), keys=("a",)) for key in ("b", "é.1"))
    counted(engine.store, spec, least, *others)
    found = [engine.store.record(spec, key, "x") for key in ("a", "b", "é.1")]
    assert [each and each.keys for each in found] == [("a", "b", "é.1"), ("a",), ("a",)]
    assert [each and each.slot for each in found] == [5, None, None]


def test_the_largest_commit_of_a_key_is_98_records(engine: Engine) -> None:
    spec = engine.opened()
    counted(engine.store, spec, *(record(spec, "a", str(index)) for index in range(98)))
    assert engine.store.tallies(spec, ["a"])["a"].n == 98


def _refused_whole(engine: Engine, spec: Spec, *records: Record) -> None:
    assert commit(engine.store, spec, *records).verdict is Verdict.INVALID
    assert engine.store.tallies(spec, ["a"])["a"].n == 0
    assert engine.store.record(spec, "a", records[0].id) is None


def test_a_commit_of_over_100_actions_is_invalid(engine: Engine) -> None:
    spec = engine.opened()
    _refused_whole(engine, spec, *(record(spec, "a", str(index)) for index in range(99)))


def test_a_commit_of_over_4_mb_is_invalid(engine: Engine) -> None:
    spec = engine.opened()
    large = (with_data(record(spec, "a", str(index)), b"0" * 390 * 1024) for index in range(11))
    _refused_whole(engine, spec, *large)


def test_a_commit_that_names_a_record_twice_is_invalid(engine: Engine) -> None:
    spec = engine.opened()
    _refused_whole(engine, spec, record(spec, "a", "x"), record(spec, "a", "x"))


def test_a_record_over_400_kb_is_invalid(engine: Engine) -> None:
    spec = engine.opened()
    outcome = commit(engine.store, spec, with_data(record(spec, "a", "x"), b"0" * 400 * 1024))
    answers = {element.answer for element in outcome.records}
    assert outcome.verdict is Verdict.INVALID or answers == {Answer.INVALID}
    assert engine.store.tallies(spec, ["a"])["a"].n == 0


def test_a_tally_beyond_38_digits_is_invalid(engine: Engine) -> None:
    spec = engine.opened()
    one = record(spec, "a", "x")
    (increment,) = increments_of([one])
    huge = replace(increment, amount=10**38 - 1)
    only_stripe = replace(spec, stripes_min=1, shards=1)
    assert engine.store.commit(only_stripe, [one], [huge]).verdict is Verdict.COMMITTED

    another = record(spec, "a", "y")
    outcome = engine.store.commit(only_stripe, [another], increments_of([another]))

    assert outcome.verdict is Verdict.INVALID
    assert engine.store.record(only_stripe, "a", "y") is None


def test_gates_end_with_their_table(engine: Engine) -> None:
    spec = engine.spec()
    engine.catalog.create(Window(spec.window, spec.table, spec.start, spec.end))
    with pytest.raises(Missing):
        engine.store.shut_gates(spec)


def test_there_is_nothing_to_fold(engine: Engine) -> None:
    spec = engine.opened()
    counted(engine.store, spec, record(spec, "a", "x"))
    engine.store.shut_gates(spec)
    assert list(engine.store.fold(spec, "")) == []
    assert engine.store.tallies(spec, ["a"])["a"].n == 1

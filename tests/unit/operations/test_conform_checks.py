"""The checks of an endpoint on a store in memory, which keeps every rule but those that a test
breaks. What only threads break, tests/conform breaks in front of an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Unknown
from tallyroll.model.records import Record, RecordPage
from tallyroll.model.tallies import Tally
from tallyroll.operations.conform.gates import COMMITS_MAX, gates
from tallyroll.operations.conform.optional_rules import item_size, same_item_twice, transaction_size
from tallyroll.operations.conform.reads import batch_get, consistent_reads, distinct_keys, listings
from tallyroll.operations.conform.stage import Broken, Stage, Undecided, record
from tallyroll.operations.conform.writes import conditions, numbers, reasons, transactions
from tallyroll.ports.store import Answer, Element, Outcome, Verdict
from tests.unit.operations.staged import THROTTLED, UNANSWERED, Commit, always, made

Patch = pytest.MonkeyPatch


@pytest.mark.parametrize(
    "check",
    [
        *(conditions, transactions, reasons, gates, consistent_reads, batch_get, listings),
        *(distinct_keys, same_item_twice, item_size),
    ],
)
def test_a_store_that_keeps_the_rules_passes(stage: Stage, check: Callable[[Stage], str]) -> None:
    assert check(stage)


# --- gates


def test_without_any_transaction_gates_are_not_judged(stage: Stage, monkeypatch: Patch) -> None:
    monkeypatch.setattr(stage.store, "commit", always(THROTTLED))
    stage.scale = replace(stage.scale, within_ms=100)
    with pytest.raises(Undecided, match="no transaction was carried out: throttled: too much"):
        gates(stage)


def test_what_was_not_answered_may_be_stored_or_not(
    stage: Stage, commit: Commit, monkeypatch: Patch
) -> None:
    numbers = iter(range(10_000))

    def lossy(*of: Any) -> Outcome:
        number = next(numbers)
        if number % 3 == 1:
            return UNANSWERED
        outcome = commit(*of)
        return UNANSWERED if number % 3 == 2 and outcome.verdict is Verdict.COMMITTED else outcome

    monkeypatch.setattr(stage.store, "commit", lossy)
    monkeypatch.setattr(stage, "commit", lambda spec, one: commit(spec, [one], []))
    assert "events were accepted until the gates were shut" in gates(stage)


def test_what_was_accepted_and_is_not_stored_is_found(
    stage: Stage, commit: Commit, monkeypatch: Patch
) -> None:
    numbers = iter(range(10_000))

    def losing(*of: Any) -> Outcome:
        return Outcome(Verdict.COMMITTED) if next(numbers) == 7 else commit(*of)

    monkeypatch.setattr(stage.store, "commit", losing)
    sent = 2 * COMMITS_MAX * stage.scale.at_once
    with pytest.raises(Broken, match=f"^{sent:,} records were accepted, and {sent - 2:,} are stor"):
        gates(stage)


def test_a_transaction_after_all_gates_are_shut_is_found(
    stage: Stage, commit: Commit, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(stage.store, "shut_gates", always(None))
    with pytest.raises(Broken, match="was carried out after all gates had been shut"):
        gates(stage)


def test_gates_that_cannot_be_shut_stop_the_writers(stage: Stage, monkeypatch: Patch) -> None:
    def fail(_: object) -> None:
        raise Unknown("UpdateItem: no reply")

    monkeypatch.setattr(stage.store, "shut_gates", fail)
    with pytest.raises(Unknown, match="no reply"):
        gates(stage)
    assert stage.stopping.is_set()


# --- writes


def test_without_any_transaction_there_is_nothing_to_judge(
    stage: Stage, commit: Commit, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(stage, "commit", lambda spec, *of: commit(spec, of, []))
    monkeypatch.setattr(stage, "stored", always({("refused", "there"): 1}))
    monkeypatch.setattr(stage, "tally", always(Tally("refused", 1, 1_000_000)))
    monkeypatch.setattr(stage.store, "commit", always(THROTTLED))
    stage.scale = replace(stage.scale, within_ms=100)
    with pytest.raises(Undecided, match="no transaction was carried out: throttled: too much"):
        transactions(stage)


def test_a_record_that_two_transactions_store_is_found(
    stage: Stage, commit: Commit, monkeypatch: Patch
) -> None:
    """It is acknowledged twice, and stored and counted once."""

    def forgiving(spec: Any, records: Sequence[Record], more: Any) -> Outcome:
        outcome = commit(spec, records, more)
        own = outcome.verdict is Verdict.CANCELLED and len(records) == 1
        return Outcome(Verdict.COMMITTED) if own else outcome

    monkeypatch.setattr(stage.store, "commit", forgiving)
    with pytest.raises(Broken, match="48 records were stored twice, each by another transaction"):
        transactions(stage)


def test_a_writer_waits_for_another_ones_record(
    stage: Stage, commit: Commit, monkeypatch: Patch
) -> None:
    """A cancelled transaction of one record that is not there is sent again."""
    cancelled = iter([True] * 3)
    element = (Element(Answer.CONTENDED),)

    def contended(spec: Any, records: Sequence[Record], more: Any) -> Outcome:
        if len(records) == 1 and records[0].key == "hot" and next(cancelled, False):
            return Outcome(Verdict.CANCELLED, element, element)
        return commit(spec, records, more)

    monkeypatch.setattr(stage.store, "commit", contended)
    stage.scale = replace(stage.scale, events=1)
    assert "1 events, each twice" in transactions(stage)
    assert next(cancelled, None) is None


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"verdict": Verdict.INVALID, "detail": "no"}, "a duplicate was answered as invalid: no"),
        ({"increments": (Element(Answer.DUPLICATE),)}, "the reason of a put stands at an update"),
    ],
)
def test_a_duplicate_that_is_answered_otherwise_is_found(
    stage: Stage, commit: Commit, monkeypatch: Patch, changed: dict[str, Any], told: str
) -> None:
    def answering(*of: Any) -> Outcome:
        outcome = commit(*of)
        return outcome if outcome.verdict is Verdict.COMMITTED else replace(outcome, **changed)

    monkeypatch.setattr(stage.store, "commit", answering)
    with pytest.raises(Broken, match=told):
        reasons(stage)


def test_sums_of_more_digits_than_dynamodb_has_may_be_exact(
    stage: Stage, monkeypatch: Patch
) -> None:
    assert numbers(stage) == "sums of 38 digits are exact, and longer ones refused"
    longer = made()
    longer.make()
    monkeypatch.setattr("tallyroll.adapters.memory.store.AMOUNT_BOUND", 10**60)
    assert numbers(longer) == "sums of 38 digits and more are exact"


def test_a_sum_that_is_no_number_is_found(stage: Stage, monkeypatch: Patch) -> None:
    def unreadable(*_: object) -> Tally:
        raise ValueError("'1E+40'")

    monkeypatch.setattr(stage, "tally", unreadable)
    with pytest.raises(Broken, match=r"a sum is no number of six decimals: '1E\+40'"):
        numbers(stage)


# --- reads


def test_items_that_a_batch_makes_up_are_found(stage: Stage, monkeypatch: Patch) -> None:
    lookup = stage.other.lookup

    def inventing(spec: Any, names: Sequence[tuple[str, str]]) -> Any:
        made_up = {name: record(spec, *name) for name in names if name[1] == "absent-3"}
        return {**lookup(spec, names), **made_up}

    monkeypatch.setattr(stage.other, "lookup", inventing)
    with pytest.raises(Broken, match="1 items were read that are not stored"):
        batch_get(stage)


def test_tallies_that_a_batch_leaves_out_are_found(stage: Stage, monkeypatch: Patch) -> None:
    monkeypatch.setattr(stage.other, "tallies", always({"batched": Tally("batched", 7, 7)}))
    with pytest.raises(Broken, match="131 events are counted, and the tallies read say 7"):
        batch_get(stage)


def test_a_bucket_whose_pages_lack_tallies_is_found(stage: Stage, monkeypatch: Patch) -> None:
    stripes = stage.store.stripes

    def short(*of: Any) -> Iterator[Any]:
        yield next(stripes(*of))

    monkeypatch.setattr(stage.store, "stripes", short)
    with pytest.raises(Broken, match=r"tallies in short pages counts \d+ events of 48"):
        listings(stage)


def swapped(page: RecordPage) -> RecordPage:
    return RecordPage((*page.records[1::-1], *page.records[2:]), page.more)


def doubled(page: RecordPage) -> RecordPage:
    return page if page.more else RecordPage((*page.records, page.records[-1]), page.more)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (swapped, r"is not in the order of UTF-8 bytes: 'a\.a\.' comes too early"),
        (doubled, "a query in pages has 37 items of 36"),
    ],
)
def test_records_in_another_order_or_twice_are_found(
    stage: Stage, monkeypatch: Patch, changed: Callable[[RecordPage], RecordPage], told: str
) -> None:
    records = stage.store.records
    monkeypatch.setattr(stage.store, "records", lambda *of: changed(records(*of)))
    with pytest.raises(Broken, match=told):
        listings(stage)


def test_a_scan_that_has_an_item_twice_is_found(stage: Stage, monkeypatch: Patch) -> None:
    scan = stage.store.scan

    def twice(*of: Any) -> Iterator[Any]:
        for page in scan(*of):
            yield page
            yield page[:3]

    monkeypatch.setattr(stage.store, "scan", twice)
    with pytest.raises(Broken, match="a scan in 1 segments has an item twice"):
        listings(stage)


# --- limits


def test_an_item_over_the_limit_that_is_stored_is_found(stage: Stage, monkeypatch: Patch) -> None:
    monkeypatch.setattr("tallyroll.adapters.memory.store.ITEM_BYTES_MAX", 500_000)
    with pytest.raises(Broken, match="an item of over 409,600 bytes is stored"):
        item_size(stage)


def test_transactions_over_the_limits_that_are_carried_out_are_found(
    stage: Stage, monkeypatch: Patch
) -> None:
    monkeypatch.setattr("tallyroll.adapters.memory.store.TRANSACTION_BYTES_MAX", 10_000_000)
    monkeypatch.setattr("tallyroll.adapters.memory.store.TRANSACTION_ACTIONS_MAX", 200)
    with pytest.raises(Broken, match="a transaction of 101 actions is carried out"):
        transaction_size(stage)
    commit = stage.store.commit

    def of_hundred(spec: Any, records: Sequence[Record], more: Any) -> Outcome:
        refused = Outcome(Verdict.INVALID, detail="over 100 actions")
        return refused if len(records) > 98 else commit(spec, records, more)

    again = made()
    again.make()
    commit = again.store.commit
    monkeypatch.setattr(again.store, "commit", of_hundred)
    with pytest.raises(Broken, match="a transaction of over 4 MB is carried out"):
        transaction_size(again)

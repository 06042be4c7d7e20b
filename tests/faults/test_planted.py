"""Adapters broken on purpose are caught: each with a fault that a whole adapter withstands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.aws.sqs import SqsQueue
from tallyroll.adapters.dynamodb import outcomes, store
from tallyroll.errors import StoreError
from tallyroll.ingest.batch_messages import BatchMessage
from tallyroll.ingest.batch_notes import BatchNotes
from tallyroll.ports.store import Answer, Outcome, Verdict
from tests.faults.kinds import Kind
from tests.faults.results import Result
from tests.faults.scenarios import Scenarios
from tests.faults.sites import all_sites

pytestmark = pytest.mark.engine

Plant = Callable[[pytest.MonkeyPatch], None]
Life = Callable[[Scenarios], Result]


def site(file: str, operation: str, function: str = "") -> str:
    """The name of the first such call in the source."""
    return next(
        str(site)
        for site in all_sites()
        if (site.file, site.operation) == (file, operation) and function in site.function
    )


BATCH_GET = site("adapters/dynamodb/requests.py", "BatchGetItem")
QUERY = site("adapters/dynamodb/requests.py", "Query")
TRANSACT = site("adapters/dynamodb/requests.py", "TransactWriteItems")
COMMIT = site("adapters/dynamodb/store.py", "TransactWriteItems", "commit")
ADVANCE = site("adapters/dynamodb/catalog.py", "PutItem", "advance")
REJECT = site("adapters/aws/sqs.py", "SendMessageBatch")
SCAN = site("adapters/dynamodb/store.py", "Scan")


def bend(
    patch: pytest.MonkeyPatch,
    operation: str,
    ask: Callable[[Any], Any] = lambda params: params,
    answer: Callable[[Any], Any] = lambda reply: reply,
) -> None:
    """Have adapters ask otherwise, or read an answer otherwise."""
    whole = Caller.call

    def call(self: Caller, name: str, /, **params: Any) -> dict[str, Any]:
        if name != operation:
            return whole(self, name, **params)
        bent: dict[str, Any] = answer(whole(self, name, **ask(params)))
        return bent

    patch.setattr(Caller, "call", call)


def without(*names: str) -> Callable[[Any], Any]:
    return lambda params: {name: params[name] for name in params if name not in names}


def unprocessed_keys_dropped(patch: pytest.MonkeyPatch) -> None:
    bend(patch, "BatchGetItem", answer=without("UnprocessedKeys"))


def no_answer_taken_for_a_commit(patch: pytest.MonkeyPatch) -> None:
    whole = outcomes.outcome_of

    def outcome(error: StoreError, records: int, increments: int) -> Outcome:
        found = whole(error, records, increments)
        return Outcome(Verdict.COMMITTED) if found.verdict is Verdict.UNKNOWN else found

    patch.setattr(store, "outcome_of", outcome)


def conflict_of_a_tally_taken_for_a_commit(patch: pytest.MonkeyPatch) -> None:
    whole = outcomes.outcome_of

    def outcome(error: StoreError, records: int, increments: int) -> Outcome:
        found = whole(error, records, increments)
        fine = all(element.answer is Answer.FINE for element in found.records)
        return Outcome(Verdict.COMMITTED) if found.records and fine else found

    patch.setattr(store, "outcome_of", outcome)


def totals_not_idempotent(patch: pytest.MonkeyPatch) -> None:
    def ask(params: Any) -> Any:
        return {"TransactItems": [put_if_absent(action) for action in params["TransactItems"]]}

    def put_if_absent(action: Any) -> Any:
        if " OR " not in action.get("Put", {}).get("ConditionExpression", ""):
            return action
        put = without("ExpressionAttributeValues")(action["Put"])
        return {"Put": {**put, "ConditionExpression": "attribute_not_exists(pk)"}}

    bend(patch, "TransactWriteItems", ask=ask)


def first_page_only(patch: pytest.MonkeyPatch) -> None:
    bend(patch, "Query", answer=without("LastEvaluatedKey"))


def first_page_exported(patch: pytest.MonkeyPatch) -> None:
    bend(patch, "Scan", answer=without("LastEvaluatedKey"))


def state_written_blindly(patch: pytest.MonkeyPatch) -> None:
    values = ("ConditionExpression", "ExpressionAttributeNames", "ExpressionAttributeValues")
    bend(patch, "PutItem", ask=without(*values))


def gates_opened_blindly(patch: pytest.MonkeyPatch) -> None:
    def ask(params: Any) -> Any:
        actions = params["TransactItems"]
        if not any(action.get("Put", {}).get("Item", {}).get("open") for action in actions):
            return params
        puts = [{"Put": without("ConditionExpression")(action["Put"])} for action in actions[1:]]
        return {"TransactItems": puts}

    bend(patch, "TransactWriteItems", ask=ask)


def letters_lost(patch: pytest.MonkeyPatch) -> None:
    def reject(self: SqsQueue, rejections: Sequence[Any]) -> list[bool]:
        whole(self, rejections)
        return [True] * len(rejections)

    whole = SqsQueue.reject
    patch.setattr(SqsQueue, "reject", reject)


def note_cleared_before_the_batch_ends(patch: pytest.MonkeyPatch) -> None:
    whole = BatchNotes.begin

    def begin(self: BatchNotes, cases: Sequence[BatchMessage]) -> list[list[BatchMessage]]:
        groups = whole(self, cases)
        if self._reception:
            self.catalog.clear_received(self._reception)
        return groups

    patch.setattr(BatchNotes, "begin", begin)


def only(site: str, kind: Kind) -> Life:
    return lambda scenarios: scenarios.only(site, kind)


def asleep(site: str, until: str) -> Life:
    return lambda scenarios: scenarios.stall(site, until)


CASES: Mapping[Plant, Life] = {
    unprocessed_keys_dropped: only(BATCH_GET, Kind.UNPROCESSED),
    no_answer_taken_for_a_commit: only(COMMIT, Kind.NOT_ARRIVED),
    conflict_of_a_tally_taken_for_a_commit: only(COMMIT, Kind.ELEMENT_CONFLICT),
    totals_not_idempotent: only(TRANSACT, Kind.ERROR_APPLIED),
    first_page_only: only(QUERY, Kind.TRUNCATED),
    first_page_exported: only(SCAN, Kind.TRUNCATED),
    state_written_blindly: asleep(ADVANCE, "sealed"),
    gates_opened_blindly: asleep(TRANSACT, "sealed"),
    letters_lost: only(REJECT, Kind.NOT_ARRIVED),
    note_cleared_before_the_batch_ends: Scenarios.poisoned,
}


@pytest.mark.parametrize("plant", CASES, ids=lambda plant: plant.__name__)
def test_a_broken_adapter_is_caught(
    scenarios: Scenarios, monkeypatch: pytest.MonkeyPatch, plant: Plant
) -> None:
    live = CASES[plant]
    assert not live(scenarios).problems
    plant(monkeypatch)
    assert live(scenarios).problems

"""What a failed transaction on a window table means for what it would have written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tallyroll.adapters.aws.client import response_of
from tallyroll.adapters.dynamodb.items import window_of
from tallyroll.adapters.dynamodb.requests import (
    CANCELLED,
    CONFLICTS,
    REASON_CONDITION,
    REASON_CONFLICT,
    REASON_NONE,
    REASONS_INVALID,
    cancellation_reasons,
    limit_of,
    limit_of_code,
)
from tallyroll.adapters.dynamodb.throughput import Limit
from tallyroll.errors import Missing, StoreError, Throttled
from tallyroll.model.formats.payloads import Chunk
from tallyroll.model.formats.references import Mark
from tallyroll.model.ids import IdentityItem
from tallyroll.model.records import Record
from tallyroll.ports.store import Answer, Element, Outcome, Verdict

HTTP_TOO_LARGE = 413
# Refusals of a request's content, without a reason per action: a record can never be stored.
_INVALID = frozenset({"ValidationException", "SerializationException", "RequestEntityTooLarge"})


def by_record(
    outcome: Outcome, records: Sequence[Record], beside: Iterable[Chunk | Mark | IdentityItem]
) -> Outcome:
    """The outcome with the answers for what is beside records in those of the records."""
    if outcome.verdict is not Verdict.CANCELLED:
        return outcome
    answers = list(outcome.records[: len(records)])
    found = dict(map(_of_beside, beside, outcome.records[len(records) :]))
    for at, record in enumerate(records):
        for each in (*record.attachments, *record.identities):
            if answers[at].answer is Answer.FINE:
                answers[at] = found[each]
    return replace(outcome, records=tuple(answers))


def _of_beside(
    item: Chunk | Mark | IdentityItem, answer: Element
) -> tuple[Chunk | Mark | IdentityItem, Element]:
    """An item beside records with its answer. A throttled identity names its own table."""
    if answer.answer is Answer.THROTTLED and isinstance(item, IdentityItem):
        answer = replace(answer, limit=Limit.IDENTITIES)
    return item, answer


def outcome_of(error: StoreError, records: int, increments: int) -> Outcome:
    """The outcome of a commit whose TransactWriteItems failed."""
    if error.code == CANCELLED:
        return _cancelled(error, records, increments)
    if error.code in CONFLICTS:
        return _all_contended(records, increments, str(error))
    status = response_of(error).get("ResponseMetadata", {}).get("HTTPStatusCode")
    if error.code in _INVALID or status == HTTP_TOO_LARGE:
        verdict = Verdict.INVALID
    elif isinstance(error, Missing):
        verdict = Verdict.GATE_MISSING
    elif isinstance(error, Throttled):
        return Outcome(Verdict.THROTTLED, detail=str(error), limit=limit_of(error))
    else:
        # Also for refusals that no record causes (expired credentials, denied access): such
        # messages must be handed back, not rejected.
        verdict = Verdict.UNKNOWN
    return Outcome(verdict, detail=str(error))


def _cancelled(error: StoreError, records: int, increments: int) -> Outcome:
    reasons = cancellation_reasons(error)
    if len(reasons) != 1 + records + increments:
        return _all_contended(records, increments, str(error))
    gate, elements = reasons[0], [_element(reason) for reason in reasons[1:]]
    if gate.get("Code") == REASON_CONDITION:
        verdict = Verdict.GATE_SHUT if gate.get("Item") else Verdict.GATE_MISSING
        return Outcome(verdict, detail=str(error))
    answers = tuple(elements[:records]), tuple(elements[records:])
    held = _element(gate)
    return Outcome(
        Verdict.CANCELLED,
        *answers,
        detail=str(error),
        limit=held.limit if held.answer is Answer.THROTTLED else None,
        gate_contended=held.answer is Answer.CONTENDED,
    )


def _all_contended(records: int, increments: int, detail: str) -> Outcome:
    contended = Element(Answer.CONTENDED, detail=detail)
    return Outcome(
        Verdict.CANCELLED, (contended,) * records, (contended,) * increments, detail=detail
    )


def _element(reason: Mapping[str, Any]) -> Element:
    code = reason.get("Code") or REASON_NONE
    detail = f"{code}: {reason.get('Message', '')}"
    if code == REASON_NONE:
        return Element(Answer.FINE)
    if code == REASON_CONDITION:
        item = reason.get("Item", {})
        return Element(Answer.DUPLICATE, item.get("h", {}).get("B"), detail, window=window_of(item))
    if code == REASON_CONFLICT:
        return Element(Answer.CONTENDED, detail=detail)
    if code in REASONS_INVALID:
        return Element(Answer.INVALID, detail=detail)
    # Throttled, or another reason that may pass.
    return Element(Answer.THROTTLED, detail=detail, limit=limit_of_code(code))

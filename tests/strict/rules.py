"""The rules of the relay, each with the document that it enforces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.strict import items, keys, tables
from tests.strict.values import Account, Question, Reading, Request

Asks = Callable[[Request, Account, Reading], Iterator[Question]]


class UnknownRequestError(Exception):
    """A request that no rule knows."""


@dataclass(frozen=True)
class Rule:
    """Which questions a request asks, and where AWS says so. What `asks` does, its docstring says:
    the fact in our own words.
    """

    source: str
    asks: Asks


_DYNAMODB = "DynamoDB Developer Guide, "
_CONDITIONS = f'{_DYNAMODB}"Using IAM policy conditions for fine-grained access control"'
_ENCRYPTION = f'{_DYNAMODB}"DynamoDB encryption at rest usage notes"'
_REFERENCE = "Service Authorization Reference, "
RULES = (
    Rule(_CONDITIONS, items.single_items),
    Rule(f'{_DYNAMODB}"Using IAM with DynamoDB transactions"', items.transactions),
    Rule(_CONDITIONS, items.many_items),
    Rule(f'{_REFERENCE}"Actions, ... for Amazon DynamoDB"', tables.whole_tables),
    Rule(
        f'{_DYNAMODB}"Using attribute-based access control"; API Reference, CreateTable',
        tables.new_tables,
    ),
    Rule(f'{_DYNAMODB}"Enabling ABAC in DynamoDB"', tables.tagging),
    Rule(f'{_DYNAMODB}"Requesting a table export in DynamoDB"', tables.exported_objects),
    Rule(f'{_REFERENCE}"Actions, ... for Amazon SQS"', tables.messages),
    Rule(f'{_REFERENCE}"Actions, ... for Amazon S3"', tables.objects),
    Rule(f'{_REFERENCE}"Actions, ... for Amazon CloudWatch"', tables.metrics),
    Rule(f"{_ENCRYPTION}, on customer managed keys and on grants", keys.chosen_keys),
    Rule(f"{_ENCRYPTION}, on table key caching", keys.table_keys),
    Rule('Amazon SQS Developer Guide, "Key management"', keys.queue_keys),
    Rule(
        'Amazon S3 User Guide, "Using server-side encryption with AWS KMS keys"; "Uploading and'
        ' copying objects using multipart upload"; and for exports "Requesting a table export"',
        keys.object_keys,
    ),
)


def questions(request: Request, account: Account, reading: Reading) -> list[Question]:
    """All that a request asks. Raises UnknownRequestError if that is nothing."""
    found = [one for rule in RULES for one in rule.asks(request, account, reading)]
    if not found:
        raise UnknownRequestError(f"{request.service}: {request.operation}")
    return found

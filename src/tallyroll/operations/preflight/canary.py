"""Whether policies see tables' tags: tried on an empty table, which is dropped again.

Without attribute-based access control for DynamoDB, tag conditions are evaluated as if a table had
no tags, and no API tells whether an account has it. So a table is made whose policy denies its
deletion without a tag; once it has the tag, deleting it must work. Sources: DynamoDB Developer
Guide, "Enabling ABAC in DynamoDB" and "Using resource-based policies for DynamoDB".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tallyroll.errors import StoreError
from tallyroll.operations.doctor.checkup import Level, Sign, finding, fine
from tallyroll.ports.account import Canary
from tallyroll.ports.effects import Effects

TAG_TRIES, TAG_EVERY_MS = 12, 5_000  # policies see a new tag within seconds, at most some minutes
_SWITCH = (
    "Switch attribute-based access control on in this account and Region (console of DynamoDB,"
    " Settings), after reading DynamoDB Developer Guide, 'Enabling ABAC in DynamoDB'. Until then"
    " windows are archived, and the dropper can drop no table."
)


def tag_control(canary: Canary, effects: Effects) -> Iterator[Sign]:
    """Try a drop without the tag, and with it."""
    canary.make()
    if canary.drop():
        yield finding(
            "a table without the tag `proven` was deleted, although its policy denies that",
            "The endpoint evaluates no resource policies: tallyroll:deny_drops protects nothing"
            " there. Is it AWS (AWS_ENDPOINT_URL)?",
        )
        return
    canary.tag()
    for _ in range(TAG_TRIES):
        if canary.drop():
            yield fine("policies see tables' tags: a tagged table could be dropped, no other")
            return
        effects.sleep(TAG_EVERY_MS)
    canary.unguard()
    for _ in range(TAG_TRIES):
        if canary.drop():
            yield finding("policies do not see tables' tags: no table would be dropped", _SWITCH)
            return
        effects.sleep(TAG_EVERY_MS)
    yield Sign(
        Level.UNCHECKED,
        f"whether policies see tables' tags is not known: {canary.name} may not be deleted",
        "Let this identity delete tables of this name (dynamodb:DeleteTable), or give --no-canary.",
    )


@contextmanager
def removed(canary: Canary | None, effects: Effects, tell: Callable[[str], None]) -> Iterator[None]:
    """Remove the canary after the block, however it ends. If that fails, call `tell`."""
    try:
        yield
    finally:
        if canary is not None:
            try:
                _remove(canary, effects, tell)
            except KeyboardInterrupt:  # a second one
                _remove(canary, effects, tell)
                raise


def _remove(canary: Canary, effects: Effects, tell: Callable[[str], None]) -> None:
    try:
        if canary.drop():
            return
        canary.unguard()
        for _ in range(TAG_TRIES):
            if canary.drop():
                return
            effects.sleep(TAG_EVERY_MS)
        why = "it may not be deleted"
    except StoreError as error:
        why = str(error)
    arn = "ARN"
    with suppress(StoreError):
        arn = canary.arn or arn
    tell(
        f"table {canary.name} may still exist ({why}): delete it, by `aws dynamodb"
        f" delete-resource-policy --resource-arn {arn}`, then `aws dynamodb"
        f" delete-table --table-name {canary.name}`"
    )

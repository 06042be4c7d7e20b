"""What is missing is named: AWS says only that a resource was not found."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tallyroll.adapters.aws.client import Caller
from tallyroll.errors import Missing, Refused, StoreError
from tests.harness.pipeline import StillEffects


class Refusing:
    """A client whose operations fail with this code."""

    def __init__(self, code: str) -> None:
        self._code = code

    def __getattr__(self, method: str) -> Any:
        def fail(**_: object) -> None:
            raise ClientError({"Error": {"Code": self._code, "Message": "no"}}, "GetItem")

        return fail


@pytest.mark.parametrize(
    ("code", "kind", "told"),
    [
        (
            "ResourceNotFoundException",
            Missing,
            "GetItem of table votes-1: ResourceNotFoundException: no",
        ),
        ("ValidationException", Refused, "GetItem: ValidationException: no"),
    ],
)
def test_a_missing_table_is_named(code: str, kind: type[StoreError], told: str) -> None:
    caller = Caller(Refusing(code), StillEffects())
    with pytest.raises(kind) as raised:
        caller.call("GetItem", TableName="votes-1")
    assert str(raised.value) == told

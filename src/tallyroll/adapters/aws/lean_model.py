"""botocore's model of DynamoDB, changed by public means so that a transaction takes its client less
time. The bytes that it sends are the same.

- botocore searches all actions of a transaction for ARNs of tables, to choose an endpoint by their
  account. Tallyroll names tables by their names, so there are none.
- It goes through the shapes of all values, although these have the form of the request already,
  except for binaries.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from botocore.loaders import Loader
from botocore.session import Session, get_session

OPERATION = "TransactWriteItems"
MEMBER = "TransactItems"
_AS_GIVEN = "TransactItemsAsGiven"
_WITH_VALUES = ("Item", "Key", "ExpressionAttributeValues")  # of an action


class LeanLoader(Loader):
    """Loads botocore's models; that of DynamoDB is changed as said above."""

    def load_service_model(
        self, service_name: str, type_name: str, api_version: str | None = None
    ) -> Any:
        """The model of a service."""
        model = super().load_service_model(service_name, type_name, api_version)
        if (service_name, type_name) == ("dynamodb", "service-2"):
            _lighten(model)
        return model


def _lighten(model: dict[str, Any]) -> None:
    for operation in model["operations"].values():
        operation.pop("operationContextParams", None)
    shapes = model["shapes"]
    # Values of a document type are sent as they are given.
    shapes[_AS_GIVEN] = {"type": "structure", "members": {}, "document": True}
    given = model["operations"][OPERATION]["input"]["shape"]
    shapes[given]["members"][MEMBER] = {"shape": _AS_GIVEN}


def lean_session() -> Session:
    """A session of botocore's whose clients use the lean model; its clients need `prepare`."""
    session = get_session()
    paths = session.get_config_variable("data_path") or ""
    extra = [str(Path(path).expanduser()) for path in paths.split(os.pathsep) if path]
    session.register_component("data_loader", LeanLoader(extra_search_paths=extra))
    return session


def prepare(client: Any) -> None:
    """Let a DynamoDB client of a lean session take binaries in transactions as others do."""
    client.meta.events.register(f"provide-client-params.dynamodb.{OPERATION}", _with_texts)


def _with_texts(params: Mapping[str, Any], **_: Any) -> dict[str, Any]:
    """The parameters of a transaction with its binaries in base64."""
    return {**params, MEMBER: [_sent(action) for action in params[MEMBER]]}


def _sent(action: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    [(kind, given)] = action.items()
    values = {member: _all_sent(given[member]) for member in _WITH_VALUES if member in given}
    return {kind: {**given, **values}}


def _all_sent(values: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        name: value if "S" in value or "N" in value else _value(value)
        for name, value in values.items()
    }


def _value(value: Mapping[str, Any]) -> Mapping[str, Any]:
    [(kind, given)] = value.items()
    match kind:
        case "B":
            return {kind: _base64(given)}
        case "BS":
            return {kind: [_base64(each) for each in given]}
        case "M":
            return {kind: _all_sent(given)}
        case "L":
            return {kind: [_value(each) for each in given]}
        case _:
            return value


def _base64(binary: bytes | str) -> str:
    """As botocore encodes it: a text stands for its UTF-8 bytes."""
    return b64encode(binary.encode() if isinstance(binary, str) else binary).decode("ascii")

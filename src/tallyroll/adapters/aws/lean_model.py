"""botocore's model of DynamoDB, changed by public means so that transactions and reads of many
items take their client less time. The bytes that it sends are the same.

- botocore searches all actions of a transaction for ARNs of tables, to choose an endpoint by their
  account. Tallyroll names tables by their names, so there are none.
- It goes through the shapes of all values, although these have the form of the request already,
  except for binaries: `BatchGetItem` and `Query` give them in base64.
- It writes a transaction's JSON from new copies of all values.
"""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from binascii import b2a_base64
from collections.abc import Mapping
from json.encoder import encode_basestring_ascii as _quoted
from pathlib import Path
from typing import Any

from botocore.loaders import Loader
from botocore.session import Session, get_session

OPERATION = "TransactWriteItems"
MEMBER = "TransactItems"
_AS_GIVEN = "ValuesAsGiven"
_GIVEN = (  # operation, side, and member
    (OPERATION, "input", MEMBER),
    ("BatchGetItem", "input", "RequestItems"),
    ("BatchGetItem", "output", "Responses"),
    ("Query", "output", "Items"),
)
_WITH_VALUES = ("Item", "Key", "ExpressionAttributeValues")  # of an action
_BEFORE_ACTIONS = b'"TransactItems": '
_NO_ACTIONS = _BEFORE_ACTIONS + b"[]"


class Written(Mapping[str, Mapping[str, Any]]):
    """An action of a transaction that can write itself."""

    __slots__ = ()

    @abstractmethod
    def json(self) -> str:
        """It in JSON, as botocore writes it."""


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
    # Values of a document type are sent, and returned, as they are given.
    shapes[_AS_GIVEN] = {"type": "structure", "members": {}, "document": True}
    for operation, side, member in _GIVEN:
        shape = model["operations"][operation][side]["shape"]
        shapes[shape]["members"][member] = {"shape": _AS_GIVEN}


def lean_session() -> Session:
    """A session of botocore's whose clients use the lean model; its clients need `prepare`."""
    session = get_session()
    paths = session.get_config_variable("data_path") or ""
    extra = [str(Path(path).expanduser()) for path in paths.split(os.pathsep) if path]
    session.register_component("data_loader", LeanLoader(extra_search_paths=extra))
    return session


def prepare(client: Any) -> None:
    """Let a DynamoDB client of a lean session write the actions of transactions by itself."""
    events = client.meta.events
    events.register(f"provide-client-params.dynamodb.{OPERATION}", _keep_text)
    events.register(f"before-call.dynamodb.{OPERATION}", _put_text)


def _keep_text(params: Mapping[str, Any], context: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Keep the text of a transaction's actions; the parameters without them."""
    context[_AS_GIVEN] = f"[{', '.join(map(_action, params[MEMBER]))}]"
    return {**params, MEMBER: []}


def _put_text(params: dict[str, Any], context: Mapping[str, Any], **_: Any) -> None:
    """Put the kept text into the body of the request that botocore has prepared."""
    text = context[_AS_GIVEN].encode("ascii")
    params["body"] = params["body"].replace(_NO_ACTIONS, _BEFORE_ACTIONS + text, 1)


def _action(action: dict[str, Any] | Written) -> str:
    if not isinstance(action, dict):
        return action.json()
    [(kind, given)] = action.items()
    members = [
        f'"{member}": {_values(value) if member in _WITH_VALUES else json.dumps(value)}'
        for member, value in given.items()
    ]
    return f'{{"{kind}": {{{", ".join(members)}}}}}'


def _values(values: Mapping[str, Mapping[str, Any]]) -> str:
    return f"{{{', '.join([f'{_quoted(name)}: {_value(values[name])}' for name in values])}}}"


def _value(value: Mapping[str, Any]) -> str:
    """A value as botocore writes it: a binary in base64, where a text is for its UTF-8 bytes."""
    [(kind, given)] = value.items()
    match kind:
        case "S" | "N":
            text = _quoted(given)
        case "B":
            text = base64_text(given)
        case "BS":
            text = f"[{', '.join(map(base64_text, given))}]"
        case "M":
            text = _values(given)
        case "L":
            text = f"[{', '.join(map(_value, given))}]"
        case _:
            text = json.dumps(given)
    return f'{{"{kind}": {text}}}'


def base64_text(binary: bytes | str) -> str:
    """A binary value in JSON."""
    binary = binary.encode() if isinstance(binary, str) else binary
    return f'"{b2a_base64(binary, newline=False).decode("ascii")}"'

"""Makes the OpenAPI document of the HTTP API: of the tables that the aggregator itself uses, and of
the schemas of its answers.
"""

from __future__ import annotations

import json
from typing import Any

from tallyroll.reads.described.problems import MEDIA_TYPE, PROBLEMS, ProblemType
from tallyroll.reads.described.routes import ALWAYS, ROUTES, Parameter, Route
from tests.functions.openapi.answers import OF_ROUTES, SCHEMAS, of, problem

Json = dict[str, Any]

_ABOUT = (
    "Exact counts of events, and the events. Every route is a GET. A parameter without a value"
    " counts as left out, and an unknown one is refused. Members of answers that a client does not"
    " know are to be ignored: later releases may add some. An answer without a schema here comes"
    " from a later release."
)
_TEXT = {"type": "string"}
_HEADERS: dict[str, Json] = {
    "Cache-Control": {"description": "How long the answer may be kept", "required": True},
    "ETag": {"description": "The tag of a whole answer, for `If-None-Match`", "required": False},
    "Age": {"description": "How old the counts are, s", "required": False},
}
_IF_NONE_MATCH: Json = {
    "name": "If-None-Match",
    "in": "header",
    "description": "Tags of answers that the caller has",
    "schema": _TEXT,
}
# What API Gateway answers itself.
_OF_GATEWAY = {
    401: "the token is wrong",
    403: "the signature is wrong, or the caller has no permission",
    429: "over the requests a second that the API lets through",
    500: "the function could not be run",
    503: "the function took too long",
}

OF_PATHS = {*ALWAYS, *(kind for route in ROUTES.values() for kind in route.problems)}
"""The problems that some route has."""


def parameter(one: Parameter) -> Json:
    """A parameter of a query; several values are given as `key=a&key=b`."""
    schema: Json = dict(one.schema)
    if one.most > 1:
        schema = {
            "type": "array",
            "items": schema,
            "minItems": 1,
            "maxItems": one.most,
            "uniqueItems": True,
        }
    told: Json = {"name": one.name, "in": "query", "description": one.text}
    told["required"] = one.required
    if not one.required:
        told["allowEmptyValue"] = True
    return told | {"schema": schema}


def operation(path: str, route: Route) -> Json:
    """A route's GET."""
    name = path.removeprefix("/v1/").removesuffix(".json")
    return {
        "operationId": f"get_{name}",
        "summary": route.text,
        "parameters": [*map(parameter, route.parameters), _IF_NONE_MATCH],
        "responses": {str(status): answer for status, answer in sorted(_answers(path, route))},
    }


def _answers(path: str, route: Route) -> list[tuple[int, Json]]:
    known = [of(name) for name in OF_ROUTES[path]]
    schema = known[0] if len(known) == 1 else {"anyOf": known}
    content = {"application/json": {"schema": schema}}
    headers = {name: {"$ref": f"#/components/headers/{name}"} for name in _HEADERS}
    answers: dict[int, Json] = {
        200: {"description": "The answer", "headers": headers, "content": content},
        304: {"description": "The answer that the caller has", "headers": headers},
    }
    statuses = {*_OF_GATEWAY, *(kind.status for kind in (*ALWAYS, *route.problems))}
    return [
        *answers.items(),
        *((each, {"$ref": f"#/components/responses/{each}"}) for each in statuses),
    ]


def _refusals() -> Json:
    """The answers that are errors, by status."""
    found: dict[int, list[ProblemType]] = {status: [] for status in _OF_GATEWAY}
    for kind in PROBLEMS:
        if kind in OF_PATHS:
            found.setdefault(kind.status, []).append(kind)
    return {str(status): _refusal(status, found[status]) for status in sorted(found)}


def _refusal(status: int, kinds: list[ProblemType]) -> Json:
    told = [f"`{kind.name}`: {kind.cause}" for kind in kinds]
    content: Json = {}
    if kinds:
        content[MEDIA_TYPE] = {"schema": problem(kinds)}
    if status in _OF_GATEWAY:
        told.append(f"of API Gateway: {_OF_GATEWAY[status]}")
        content["application/json"] = {"schema": of("Refused")}
    return {"description": "; ".join(told), "content": content}


def document() -> Json:
    """The OpenAPI document."""
    address = {
        "default": "https://a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com",
        "description": "The stack's output `ApiUrl`",
    }
    signed = {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "A signature (SigV4) for the service `execute-api`",
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tallyroll", "version": "1", "description": _ABOUT},
        "servers": [{"url": "{address}", "variables": {"address": address}}],
        "security": [{"signature": []}, {"token": []}],
        "paths": {path: {"get": operation(path, route)} for path, route in ROUTES.items()},
        "components": {
            "schemas": SCHEMAS,
            "responses": _refusals(),
            "headers": {name: {**told, "schema": _TEXT} for name, told in _HEADERS.items()},
            "securitySchemes": {
                "signature": signed,
                "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            },
        },
    }


def text() -> str:
    """The document as its file has it."""
    return json.dumps(document(), indent=1) + "\n"

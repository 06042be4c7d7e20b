"""Compares answers with the OpenAPI document, member by member."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

from tests.functions.openapi.document import document

Json = dict[str, Any]


def closed(node: Any) -> Any:
    """A schema whose objects have no members but those that it lists."""
    if isinstance(node, list):
        return [closed(each) for each in node]
    if not isinstance(node, dict):
        return node
    made = {name: closed(each) for name, each in node.items()}
    if "properties" in node and "required" in node:
        made["additionalProperties"] = False
    return made


class Contract:
    """What a document allows, and which of the members that it lists were seen."""

    def __init__(self, described: Json | None = None) -> None:
        self.document = closed(described or document())
        self.seen: set[tuple[str, str]] = set()

    def check(self, path: str, status: int, kind: str, body: Any) -> None:
        """Raise AssertionError or ValidationError unless a route may answer so."""
        answers = self.document["paths"][path]["get"]["responses"]
        assert str(status) in answers, f"{path} does not say that it answers {status}"
        answer = self._resolved(answers[str(status)])
        if status == 304:
            assert (body, "content" in answer) == ("", False)
            return
        self.fits(answer["content"][kind]["schema"], body)

    def fits(self, schema: Json, body: Any) -> None:
        """Raise ValidationError unless a body fits, and note its members."""
        self._validator(schema).validate(body)
        self.seen.update(self._members(schema, body, ""))

    def listed(self) -> set[tuple[str, str]]:
        """All members that the document's schemas list, each with the name of its schema."""
        schemas = self.document["components"]["schemas"]
        return {found for name, each in schemas.items() for found in _listed(each, name)}

    def _validator(self, schema: Json) -> Draft202012Validator:
        whole = {**schema, "components": self.document["components"]}
        return Draft202012Validator(whole, format_checker=FormatChecker())

    def _resolved(self, node: Json) -> Json:
        while "$ref" in node:
            found: Any = self.document
            for name in node["$ref"].removeprefix("#/").split("/"):
                found = found[name]
            node = found
        return node

    def _members(self, node: Json, body: Any, name: str) -> Iterator[tuple[str, str]]:
        if "$ref" in node:
            name = node["$ref"].rpartition("/")[2]
            node = self._resolved(node)
        for choice in node.get("anyOf", ()):
            if self._validator(choice).is_valid(body):
                yield from self._members(choice, body, name)
        if isinstance(body, list):
            for each in body:
                yield from self._members(node.get("items", {}), each, name)
        if isinstance(body, dict):
            for member, inner in node.get("properties", {}).items():
                if member in body:
                    yield name, member
                    yield from self._members(inner, body[member], name)


def _listed(node: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, list):
        for each in node:
            yield from _listed(each, name)
    elif isinstance(node, dict):
        for word, each in node.items():
            if word == "properties":
                yield from ((name, member) for member in each)
                yield from _listed(list(each.values()), name)
            else:
                yield from _listed(each, name)

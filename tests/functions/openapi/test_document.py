"""The OpenAPI document is that of the code, and describes every route and parameter."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from functions.aggregator import handler
from release.bundle import SOURCES, sources_of
from tallyroll.errors import UsageError
from tallyroll.reads import http
from tallyroll.reads.described import routes
from tallyroll.reads.described.routes import DOCUMENT_FILE, ROUTES, Parameter
from tests.functions.openapi import document as made
from tests.functions.openapi.answers import OF_ROUTES, SCHEMAS


def test_the_committed_document_is_that_of_the_code() -> None:
    told = "run `python -m tests.docs.reference`"
    assert DOCUMENT_FILE.read_text(encoding="utf-8") == made.text(), told


def test_it_is_valid() -> None:
    OpenAPIV31SpecValidator(made.document()).validate()


def test_each_route_of_the_handler_is_described() -> None:
    """A new route: `ROUTES` of reads/described/routes.py, `OF_ROUTES` and `SCHEMAS` here."""
    resolver = handler.http_api
    handled = {str(each.path) for each in [*resolver._static_routes, *resolver._dynamic_routes]}
    assert handled == {*ROUTES} == {*OF_ROUTES} == {*made.document()["paths"]}
    assert {name for names in OF_ROUTES.values() for name in names} <= SCHEMAS.keys()


def test_each_schema_is_used() -> None:
    whole = made.text()
    assert [each for each in SCHEMAS if f'"#/components/schemas/{each}"' not in whole] == []


def test_each_parameter_is_of_some_route() -> None:
    used = {each.name for route in ROUTES.values() for each in route.parameters}
    every = {each.name for each in vars(routes).values() if isinstance(each, Parameter)}
    assert used == every


def test_what_a_route_reads_is_what_it_lists() -> None:
    """Each parameter that an answer takes out of a request is one that its route lists."""
    of_functions = {path: f"answer_{path.removeprefix('/v1/').split('.')[0]}" for path in ROUTES}
    for path, name in of_functions.items():
        tree = ast.parse(inspect.getsource(getattr(http, name)))
        listed = {each.name for each in ROUTES[path].parameters}
        read = {
            str(node.args[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and isinstance(node.args[0], ast.Constant)
        }
        chosen = {
            getattr(routes, node.id).name
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and isinstance(getattr(routes, node.id, None), Parameter)
        }
        keys = {"key"} if path == "/v1/counters" else set()  # parsed before
        assert read | chosen | keys == listed, path


@pytest.mark.parametrize("of", [routes.LIMIT, routes.N, routes.ORDER, routes.BY, routes.PACKED])
def test_a_default_is_what_the_code_takes(of: Parameter) -> None:
    take: Any = {"integer": http._number, "boolean": http._flag, "string": http._choice}
    taken = take[of.schema["type"]]
    assert taken({}, of) == taken({of.name: ""}, of) == of.default
    with pytest.raises(UsageError, match=f"^{of.name} 'x': must be"):
        taken({of.name: "x"}, of)


def test_the_function_has_the_document_with_it() -> None:
    found = {path for folder in SOURCES for path, _ in sources_of(folder)}
    assert DOCUMENT_FILE in found

from __future__ import annotations

import json
import sys
from pathlib import Path

from functions.aggregator import handler as aggregator
from tallyroll.reads.described.routes import OTHER_PATHS
from tests.harness.processes import ran
from tests.infra.conftest import Synthesize
from tests.infra.templates import Template, function, of_type, only

ROOT = Path(__file__).parents[2]


def routes_of(template: Template) -> set[str]:
    return {route["RouteKey"] for route in of_type(template, "AWS::ApiGatewayV2::Route").values()}


def test_the_api_has_the_routes_of_the_handler(template: Template) -> None:
    for resolver in (aggregator.http_api, aggregator.rest_api):
        paths = {
            (str(route.method), route.path)
            for route in [*resolver._static_routes, *resolver._dynamic_routes]
        }

        # Of the last one the handler knows nothing, and says so by a problem.
        others = {f"GET {OTHER_PATHS}"}
        assert routes_of(template) == {f"{method} {path}" for method, path in paths} | others
        assert ("GET", "/v1/counters") in paths


def test_reads_need_a_signature(template: Template) -> None:
    for route in of_type(template, "AWS::ApiGatewayV2::Route").values():
        assert route["AuthorizationType"] == "AWS_IAM"


def test_reads_need_a_token_where_that_is_chosen(chosen: Template) -> None:
    authorizer = only(chosen, "AWS::ApiGatewayV2::Authorizer")

    assert authorizer["AuthorizerType"] == "JWT"
    assert authorizer["JwtConfiguration"] == {
        "Issuer": "https://issuer.example",
        "Audience": ["polls", "results"],
    }
    [authorizer_id] = of_type(chosen, "AWS::ApiGatewayV2::Authorizer")
    for route in of_type(chosen, "AWS::ApiGatewayV2::Route").values():
        assert route["AuthorizationType"] == "JWT"
        assert route["AuthorizerId"] == {"Ref": authorizer_id}


def test_only_pages_of_chosen_origins_may_read(template: Template, chosen: Template) -> None:
    assert only(chosen, "AWS::ApiGatewayV2::Api")["CorsConfiguration"] == {
        "AllowOrigins": ["https://app.example", "http://localhost:8080"],
        "AllowMethods": ["GET"],
        "AllowHeaders": ["authorization", "if-none-match"],
        "ExposeHeaders": ["age", "etag"],
        "MaxAge": 3600,
    }
    # API Gateway answers preflights only where no route does.
    assert {route.partition(" ")[0] for route in routes_of(chosen)} == {"GET"}
    assert "CorsConfiguration" not in only(template, "AWS::ApiGatewayV2::Api")


def test_reads_are_throttled(template: Template, chosen: Template) -> None:
    def limits(made: Template) -> dict[str, int]:
        found: dict[str, int] = only(made, "AWS::ApiGatewayV2::Stage")["DefaultRouteSettings"]
        return found

    assert limits(template) == {"ThrottlingRateLimit": 100, "ThrottlingBurstLimit": 200}
    assert limits(chosen) == {"ThrottlingRateLimit": 7, "ThrottlingBurstLimit": 14}


def test_the_access_log_holds_no_key_no_query_and_nobodys_address(template: Template) -> None:
    settings = only(template, "AWS::ApiGatewayV2::Stage")["AccessLogSettings"]
    logged = json.loads(settings["Format"])

    assert logged["requestId"] == "$context.requestId"
    assert logged["route"] == "$context.routeKey"
    for secret in ("path", "query", "identity", "claims", "domainName"):
        assert secret not in settings["Format"].lower().replace("routekey", "")
    [log_id] = [
        id_
        for id_, log in of_type(template, "AWS::Logs::LogGroup").items()
        if log["LogGroupName"] == "/aws/vendedlogs/apigateway/tallyroll"
    ]
    assert settings["DestinationArn"] == {"Fn::GetAtt": [log_id, "Arn"]} or log_id in json.dumps(
        settings["DestinationArn"]
    )


def test_with_snap_start_the_api_calls_the_published_version(
    template: Template, synthesize: Synthesize
) -> None:
    made = synthesize(snap_start="true", runtime="python3.13")
    assert function(made, "aggregator")["SnapStart"] == {"ApplyOn": "PublishedVersions"}
    for other in ("writer", "roller", "cleanup"):
        assert "SnapStart" not in function(made, other)
    [version_id] = of_type(made, "AWS::Lambda::Version")
    alias = only(made, "AWS::Lambda::Alias")
    [alias_id] = of_type(made, "AWS::Lambda::Alias")
    assert alias["FunctionVersion"] == {"Fn::GetAtt": [version_id, "Version"]}
    called = only(made, "AWS::ApiGatewayV2::Integration")["IntegrationUri"]
    assert called == {"Ref": alias_id}
    asked = [
        grant["FunctionName"]
        for grant in of_type(made, "AWS::Lambda::Permission").values()
        if grant["Principal"] == "apigateway.amazonaws.com"
    ]
    assert asked
    assert all(name == {"Ref": alias_id} for name in asked)
    for kind in ("AWS::Lambda::Version", "AWS::Lambda::Alias"):
        assert not of_type(template, kind)
    assert "SnapStart" not in function(template, "aggregator")


def test_a_snapshot_holds_no_client_no_chance_and_no_setting() -> None:
    """All sandboxes begin with what an import has made: nothing that must be theirs alone."""
    source = (
        "import os; os.environ.clear()\n"
        "import sys, random; before = random.getstate()\n"
        "from functions.aggregator import handler\n"
        "assert handler.use_case.cache_info().currsize == 0\n"
        "assert random.getstate() == before"
    )
    found = f"import sys; sys.path[:] = {sys.path!r}\n"
    done = ran([sys.executable, "-c", found + source], cwd=ROOT)
    assert done.returncode == 0, done.stderr

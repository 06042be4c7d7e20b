from __future__ import annotations

import json

from functions.aggregator import handler as aggregator
from tests.infra.templates import Template, of_type, only


def routes_of(template: Template) -> set[str]:
    return {route["RouteKey"] for route in of_type(template, "AWS::ApiGatewayV2::Route").values()}


def test_the_api_has_the_routes_of_the_handler(template: Template) -> None:
    resolver = aggregator.app
    paths = {
        (str(route.method), route.path)
        for route in [*resolver._static_routes, *resolver._dynamic_routes]
    }

    assert routes_of(template) == {f"{method} {path}" for method, path in paths}
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
        if log["LogGroupName"] == "/aws/apigateway/tallyroll"
    ]
    assert settings["DestinationArn"] == {"Fn::GetAtt": [log_id, "Arn"]} or log_id in json.dumps(
        settings["DestinationArn"]
    )

"""The HTTP API and the aggregator behind it."""

from __future__ import annotations

import json

from aws_cdk import aws_apigatewayv2 as http
from aws_cdk import aws_iam as iam
from aws_cdk.aws_apigatewayv2_authorizers import HttpIamAuthorizer, HttpJwtAuthorizer
from aws_cdk.aws_apigatewayv2_integrations import HttpLambdaIntegration
from constructs import Construct

from tallyroll.cdk import permissions
from tallyroll.cdk.functions import FULL_CPU_MB, FunctionDefaults, PipelineFunction, log_group
from tallyroll.cdk.options import Options
from tallyroll.cdk.storage import Storage
from tallyroll.reads.http import ROUTES

AGGREGATOR_TIMEOUT_SECONDS = 29  # an HTTP API waits at most 30 s
BURST = 2  # times the requests per second

# No path, query, address or agent, since keys and ids may be personal data.
_LOGGED = {
    "requestId": "$context.requestId",
    "at": "$context.requestTimeEpoch",
    "route": "$context.routeKey",
    "status": "$context.status",
    "ms": "$context.responseLatency",
    "bytes": "$context.responseLength",
    "authorizerError": "$context.authorizer.error",
    "integrationError": "$context.integrationErrorMessage",
}


class Reads(Construct):
    """An HTTP API for callers with signed requests (IAM) or tokens (JWT), and the aggregator.

    An option leaves the API out: HTTP APIs have no private endpoints (API Gateway Developer Guide,
    "Choose between REST APIs and HTTP APIs"), and a function can be invoked from within a VPC.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        options: Options,
        defaults: FunctionDefaults,
        storage: Storage,
    ) -> None:
        super().__init__(scope, id_)
        self.aggregator = PipelineFunction(
            self,
            "Aggregator",
            defaults=defaults,
            package="aggregator",
            memory_mb=FULL_CPU_MB,
            timeout_seconds=AGGREGATOR_TIMEOUT_SECONDS,
            statements=permissions.of_aggregator(storage),
            snap_start=options.snap_start,
        )
        self.api: http.HttpApi | None = None
        self._routes: list[http.HttpRoute] = []
        if options.api == "http":
            self.api = self._open(options, defaults)

    def _open(self, options: Options, defaults: FunctionDefaults) -> http.HttpApi:
        """Make the API and its routes."""
        api = http.HttpApi(
            self,
            "Api",
            api_name=options.name,
            default_authorizer=_authorizer(options),
            create_default_stage=False,
        )
        integration = HttpLambdaIntegration("Aggregate", self.aggregator.invoked)
        self._routes = [
            route
            for path in ROUTES
            for route in api.add_routes(
                path=path, methods=[http.HttpMethod.GET], integration=integration
            )
        ]
        log = log_group(self, "Log", f"/aws/apigateway/{options.name}", options, defaults.key)
        stage = http.HttpStage(
            self,
            "Stage",
            http_api=api,
            stage_name="$default",
            auto_deploy=True,
            throttle=http.ThrottleSettings(
                rate_limit=options.reads_per_second, burst_limit=BURST * options.reads_per_second
            ),
        )
        resource = stage.node.default_child
        assert isinstance(resource, http.CfnStage)
        resource.access_log_settings = http.CfnStage.AccessLogSettingsProperty(
            destination_arn=log.log_group_arn, format=json.dumps(_LOGGED)
        )
        return api

    def grant(self, grantee: iam.IGrantable) -> None:
        """Allow `grantee` to call the API, if it uses IAM; without an API, the aggregator."""
        if self.api is None:
            self.aggregator.invoked.grant_invoke(grantee)
        for route in self._routes:
            route.grant_invoke(grantee)


def _authorizer(options: Options) -> http.IHttpRouteAuthorizer:
    if options.auth == "jwt":
        return HttpJwtAuthorizer("Jwt", options.jwt_issuer, jwt_audience=options.audiences)
    return HttpIamAuthorizer()

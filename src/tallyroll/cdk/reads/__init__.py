"""The aggregator, and the API in front of it: an HTTP API, a private REST API, or none."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Protocol

import aws_cdk as cdk
from aws_cdk import aws_apigatewayv2 as http
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk.aws_apigatewayv2_authorizers import HttpIamAuthorizer, HttpJwtAuthorizer
from aws_cdk.aws_apigatewayv2_integrations import HttpLambdaIntegration
from constructs import Construct

from tallyroll.cdk import permissions
from tallyroll.cdk.functions import FULL_CPU_MB, FunctionDefaults, PipelineFunction, log_group
from tallyroll.cdk.reads.private import BURST, PrivateApi, endpoint_id_of
from tallyroll.cdk.storage import Storage
from tallyroll.reads.described.routes import OTHER_PATHS, ROUTES
from tallyroll.settings import Settings
from tallyroll.settings.options import Options

# A second less than the API waits at most: 30 s for an HTTP API, 29 s for a REST API by default.
# Source: API Gateway Developer Guide, the quotas of both.
AGGREGATOR_TIMEOUT_SECONDS = {"http": 29, "private": 28, "none": 29}

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


def _with_cache(defaults: FunctionDefaults) -> FunctionDefaults:
    """The defaults with the address of the shared cache, which no other function knows."""
    if not defaults.options.cache_url:
        return defaults
    address = {Settings.named("cache_url"): defaults.options.cache_url}
    return replace(defaults, environment={**defaults.environment, **address})


class Api(Protocol):
    """The API in front of the aggregator."""

    @property
    def url(self) -> str:
        """Its address."""
        ...

    @property
    def graphed(self) -> list[cloudwatch.IMetric]:
        """What the dashboard shows of it."""
        ...

    def metric(self, name: str, statistic: str, period: cdk.Duration) -> cloudwatch.IMetric:
        """One of its metrics, by its name among those of HTTP APIs."""
        ...

    def grant(self, grantee: iam.IGrantable) -> None:
        """Allow `grantee` to call it, if it uses IAM."""
        ...


class Reads(Construct):
    """The aggregator, and by an option an HTTP API for callers with signed requests (IAM) or tokens
    (JWT), a private REST API for callers in a VPC, or none: a function can be invoked without one.

    HTTP APIs have no private endpoints. Source: API Gateway Developer Guide, "Choose between REST
    APIs and HTTP APIs".
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
        """Raises OptionsError for a private API without an endpoint, or a VPC to make one in."""
        super().__init__(scope, id_)
        self.aggregator = PipelineFunction(
            self,
            "Aggregator",
            defaults=_with_cache(defaults),
            package="aggregator",
            memory_mb=FULL_CPU_MB,
            timeout_seconds=AGGREGATOR_TIMEOUT_SECONDS[options.api],
            statements=permissions.of_aggregator(
                storage, options.name, archived=options.read_archives
            ),
            snap_start=options.snap_start,
        )
        self.api: Api | None = None
        if options.api == "none":
            return
        # One resource for both APIs: if each had its own of this name, a change of the option would
        # make the new one before the old one is deleted, and fail.
        # Log groups below /aws/vendedlogs need no place in the account's policy of log deliveries,
        # which is full in old accounts. Source: CloudWatch Logs User Guide, "Enable logging from
        # AWS services", at its size limit.
        log = log_group(
            self, "Log", f"/aws/vendedlogs/apigateway/{options.name}", options, defaults.key
        )
        if options.api == "http":
            self.api = _HttpApi(self, options, log, self.aggregator)
        if options.api == "private":
            self.api = PrivateApi(
                self,
                "Private",
                options=options,
                log=log,
                called=self.aggregator.invoked,
                endpoint_id=endpoint_id_of(self, options, defaults.network),
                key=defaults.key,
            )

    def grant(self, grantee: iam.IGrantable) -> None:
        """Allow `grantee` to call the API, if it uses IAM; without an API, the aggregator."""
        if self.api is None:
            self.aggregator.invoked.grant_invoke(grantee)
        else:
            self.api.grant(grantee)


class _HttpApi:
    """The HTTP API, whose parts are those of the construct `scope`."""

    def __init__(
        self, scope: Construct, options: Options, log: logs.ILogGroup, aggregator: PipelineFunction
    ) -> None:
        self._api = http.HttpApi(
            scope,
            "Api",
            api_name=options.name,
            default_authorizer=_authorizer(options),
            create_default_stage=False,
            cors_preflight=_cors(options),
        )
        integration = HttpLambdaIntegration("Aggregate", aggregator.invoked)
        self._routes = [
            route
            for path in (*ROUTES, OTHER_PATHS)
            for route in self._api.add_routes(
                path=path, methods=[http.HttpMethod.GET], integration=integration
            )
        ]
        stage = http.HttpStage(
            scope,
            "Stage",
            http_api=self._api,
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

    @property
    def url(self) -> str:
        return self._api.api_endpoint

    @property
    def graphed(self) -> list[cloudwatch.IMetric]:
        return []  # the aggregator's own metrics have all that reaches it

    def metric(self, name: str, statistic: str, period: cdk.Duration) -> cloudwatch.IMetric:
        return self._api.metric(name, statistic=statistic, period=period)

    def grant(self, grantee: iam.IGrantable) -> None:
        for route in self._routes:
            route.grant_invoke(grantee)


def _cors(options: Options) -> http.CorsPreflightOptions | None:
    """What API Gateway answers browsers. It answers preflights itself, as no route takes OPTIONS:
    that needs no route without authorization.

    Source: API Gateway Developer Guide, "Configure CORS for HTTP APIs in API Gateway".
    """
    if not options.origins:
        return None
    return http.CorsPreflightOptions(
        allow_origins=options.origins,
        allow_methods=[http.CorsHttpMethod.GET],
        allow_headers=["authorization", "if-none-match"],
        expose_headers=["age", "etag"],
        max_age=cdk.Duration.hours(1),
    )


def _authorizer(options: Options) -> http.IHttpRouteAuthorizer:
    if options.auth == "jwt":
        return HttpJwtAuthorizer("Jwt", options.jwt_issuer, jwt_audience=options.audiences)
    return HttpIamAuthorizer()

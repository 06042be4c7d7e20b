"""A private REST API: callers reach it through an interface endpoint in a VPC, and no other way."""

from __future__ import annotations

import json

import aws_cdk as cdk
from aws_cdk import aws_apigateway as rest
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from tallyroll.cdk.annotations import acknowledge
from tallyroll.cdk.metrics import MINUTE
from tallyroll.cdk.network import Network
from tallyroll.cdk.reads.log_role import log_role
from tallyroll.reads.described.routes import OTHER_PATHS, ROUTES
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import PREFIX, OptionsError

STAGE = "live"
BURST = 2  # times the requests per second
INVOKE = "execute-api:Invoke"

# The names of a REST API's metrics, by those of an HTTP API's. Sources: API Gateway Developer
# Guide, "Amazon API Gateway dimensions and metrics", "Monitor HTTP API metrics with CloudWatch".
_METRICS = {"4xx": "4XXError", "5xx": "5XXError"}

# As the HTTP API's: no path with its query, address or agent, since keys and ids may be personal
# data. Source: API Gateway Developer Guide, "Variables for access logging for API Gateway".
_LOGGED = {
    "requestId": "$context.requestId",
    "at": "$context.requestTimeEpoch",
    "route": "$context.httpMethod $context.resourcePath",
    "status": "$context.status",
    "ms": "$context.responseLatency",
    "bytes": "$context.responseLength",
    "authorizerError": "$context.authorize.error",
    "integrationError": "$context.integrationErrorMessage",
}


def endpoint_id_of(scope: Construct, options: Options, network: Network | None) -> str:
    """The id of the endpoint that callers use: the option's, or that of a new one in the VPC that
    is passed in, with one subnet in each Availability Zone: an endpoint takes no more.

    The new one has no private names: with them, all calls of public APIs from the VPC would go to
    the endpoint, which refuses them (API Gateway Developer Guide, "Private REST APIs in API
    Gateway"). Raises OptionsError if there is neither an endpoint nor a VPC.
    """
    if options.api_endpoint:
        return options.api_endpoint
    if network is None or network.vpc is None:
        raise OptionsError(
            f"{PREFIX}api 'private': give {PREFIX}api_endpoint vpce-..., the id of an interface"
            " endpoint for execute-api, or pass in the vpc in which one is made; the ids of"
            " subnets do not tell their VPC"
        )
    by_zone = {subnet.availability_zone: subnet for subnet in reversed(network.chosen)}
    return ec2.InterfaceVpcEndpoint(
        scope,
        "Endpoint",
        vpc=network.vpc,
        service=ec2.InterfaceVpcEndpointAwsService.APIGATEWAY,
        subnets=ec2.SubnetSelection(subnets=list(by_zone.values())),
        private_dns_enabled=False,
    ).vpc_endpoint_id


class PrivateApi(Construct):
    """The API's routes and its only stage, which logs to `log`; each call is signed (IAM). The key
    is that of logs, if there is one.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        options: Options,
        log: logs.ILogGroup,
        called: lambda_.IFunction,
        endpoint_id: str,
        key: kms.IKey | None,
    ) -> None:
        super().__init__(scope, id_)
        self._endpoint_id = endpoint_id
        endpoint = ec2.InterfaceVpcEndpoint.from_interface_vpc_endpoint_attributes(
            self, "Entrance", vpc_endpoint_id=endpoint_id, port=443
        )
        self._api = rest.RestApi(
            self,
            "Api",
            rest_api_name=options.name,
            endpoint_configuration=rest.EndpointConfiguration(
                types=[rest.EndpointType.PRIVATE], vpc_endpoints=[endpoint]
            ),
            policy=_only_through(endpoint_id, cdk.Stack.of(self).account),
            cloud_watch_role=False,
            deploy_options=rest.StageOptions(
                stage_name=STAGE,
                throttling_rate_limit=options.reads_per_second,
                throttling_burst_limit=BURST * options.reads_per_second,
                access_log_destination=rest.LogGroupLogDestination(log),
                access_log_format=rest.AccessLogFormat.custom(json.dumps(_LOGGED)),
                tracing_enabled=options.traces,
            ),
        )
        # An output with an address that nobody can call.
        self._api.node.try_remove_child("Endpoint")
        integration = rest.LambdaIntegration(called, allow_test_invoke=False)
        for path in (*ROUTES, OTHER_PATHS):
            self._api.root.resource_for_path(path).add_method(
                "GET", integration, authorization_type=rest.AuthorizationType.IAM
            )
        if options.api_log_role is not False:
            self._api.deployment_stage.node.add_dependency(log_role(self, self._api, options, key))
        _acknowledge(self._api, options)

    @property
    def url(self) -> str:
        """The address, which DNS resolves to the endpoint, also without private names. Source: API
        Gateway Developer Guide, "Invoke a private API".
        """
        here = cdk.Stack.of(self)
        host = f"{self._api.rest_api_id}-{self._endpoint_id}.execute-api.{here.region}"
        return f"https://{host}.{here.url_suffix}/{STAGE}"

    @property
    def graphed(self) -> list[cloudwatch.IMetric]:
        """What the dashboard shows of the API."""
        return [
            self.metric("Count", "Sum", MINUTE, "requests"),
            self.metric("4xx", "Sum", MINUTE, "refused"),
            self.metric("5xx", "Sum", MINUTE, "failed"),
            self.metric("Latency", "p99", MINUTE, "latency, p99, ms"),
        ]

    def metric(
        self, name: str, statistic: str, period: cdk.Duration, label: str | None = None
    ) -> cloudwatch.IMetric:
        """A metric of the stage."""
        return self._api.deployment_stage.metric(
            _METRICS.get(name, name), statistic=statistic, period=period, label=label
        )

    def grant(self, grantee: iam.IGrantable) -> None:
        """Allow `grantee` to call all routes, also that of other paths."""
        arn = self._api.arn_for_execute_api("GET", "/*", STAGE)
        iam.Grant.add_to_principal(grantee=grantee, actions=[INVOKE], resource_arns=[arn])


def _only_through(endpoint_id: str, account: str) -> iam.PolicyDocument:
    """The API's policy: it denies all calls that do not come through the endpoint.

    It allows the account, so each caller's own policies must allow the call, too. If it allowed
    everybody, these would not be asked (API Gateway Developer Guide, "How API Gateway resource
    policies affect authorization workflow", the table of IAM's outcomes).
    """
    key = "aws:SourceVpce"
    return iam.PolicyDocument(
        statements=[
            iam.PolicyStatement(
                actions=[INVOKE],
                principals=[iam.AccountPrincipal(account)],
                resources=["execute-api:/*"],
                conditions={"StringEquals": {key: endpoint_id}},
            ),
            iam.PolicyStatement(
                effect=iam.Effect.DENY,
                actions=[INVOKE],
                principals=[iam.AnyPrincipal()],
                resources=["execute-api:/*"],
                conditions={"StringNotEquals": {key: endpoint_id}},
            ),
        ]
    )


def _acknowledge(api: rest.RestApi, options: Options) -> None:
    stage = {
        "AwsSolutions-APIG3": "only signed requests through one endpoint of a VPC come in, and the"
        " stage throttles them",
        "AwsSolutions-APIG6": "execution logs have the query, and so keys and ids, which may be"
        " personal data; the access log has each request without them",
    }
    if not options.traces:
        off = "an option (tallyroll:tracing), off by default: it is billed by the trace"
        stage["Serverless-APIGWXrayEnabled"] = off
    acknowledge(api.deployment_stage, stage)
    acknowledge(
        api,
        {
            "AwsSolutions-APIG2": "the function checks each parameter, and says what is wrong with"
            " it; the gateway would not",
            "AwsSolutions-COG4": "callers are roles of the account, which sign requests (IAM)",
        },
    )

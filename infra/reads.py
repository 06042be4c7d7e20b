"""From the tables to people: the HTTP API and the aggregator behind it."""

from __future__ import annotations

from aws_cdk import aws_apigatewayv2 as http
from aws_cdk.aws_apigatewayv2_authorizers import HttpIamAuthorizer
from aws_cdk.aws_apigatewayv2_integrations import HttpLambdaIntegration
from constructs import Construct

from infra import permissions
from infra.functions import FULL_CPU_MB, FunctionDefaults, PipelineFunction
from infra.storage import Storage

AGGREGATOR_TIMEOUT_SECONDS = 29  # an HTTP API waits 30 s at the most
ROUTES = ("/v1/counters",)
"""What can be got; the aggregator's resolver has the same paths."""


class Reads(Construct):
    """An HTTP API for callers that sign their requests (IAM), answered by the aggregator."""

    def __init__(
        self, scope: Construct, id_: str, *, defaults: FunctionDefaults, storage: Storage
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
        )
        self.api = http.HttpApi(
            self,
            "Api",
            api_name=defaults.pipeline,
            default_authorizer=HttpIamAuthorizer(),
        )
        integration = HttpLambdaIntegration("Aggregate", self.aggregator.function)
        for path in ROUTES:
            self.api.add_routes(path=path, methods=[http.HttpMethod.GET], integration=integration)

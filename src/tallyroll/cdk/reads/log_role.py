"""The role by which API Gateway writes logs of REST APIs: a setting of the account and Region."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import aws_apigateway as rest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_

from tallyroll.cdk.annotations import acknowledge
from tallyroll.cdk.functions import NOT_LATEST, architecture_of, log_group, may_write, runtime_of
from tallyroll.resources import LOG_ROLE_WRITER, function_name
from tallyroll.settings.options import Options

if TYPE_CHECKING:
    from constructs import Construct

WRITER_TIMEOUT_SECONDS = 300
SERVICE = "apigateway.amazonaws.com"


def log_role(
    scope: Construct, api: rest.RestApi, options: Options, key: kms.IKey | None
) -> Construct:
    """Make a role for logs, and what sets it: without one no stage of a REST API with an access log
    can be made. The role and the setting stay, since other APIs may use them.

    With `auto` a function sets the role only where the account has none. CloudFormation's own
    resource would replace one that is there, and synthesis does not see the account.

    It is set after the API is made: an account that never had one has no such setting. Sources: API
    Gateway Developer Guide, "Set up CloudWatch logging for REST APIs in API Gateway";
    CloudFormation Template Reference, AWS::ApiGateway::Account.
    """
    role = iam.Role(
        scope,
        "LogRole",
        assumed_by=iam.ServicePrincipal(SERVICE),
        managed_policies=[
            iam.ManagedPolicy.from_aws_managed_policy_name(
                "service-role/AmazonAPIGatewayPushToCloudWatchLogs"
            )
        ],
    )
    role.apply_removal_policy(cdk.RemovalPolicy.RETAIN)
    acknowledge(
        role,
        {
            "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/"
            "AmazonAPIGatewayPushToCloudWatchLogs]": "all REST APIs of the account and Region write"
            " their logs by this role, so it has AWS's own policy for that"
        },
    )
    made = api.node.default_child
    assert isinstance(made, rest.CfnRestApi)
    if options.api_log_role == "auto":
        setting: Construct = _set_once(scope, role, options, key)
    else:
        setting = rest.CfnAccount(scope, "Account", cloud_watch_role_arn=role.role_arn)
        setting.apply_removal_policy(cdk.RemovalPolicy.RETAIN)
    setting.node.add_dependency(made)
    return setting


def _set_once(
    scope: Construct, role: iam.Role, options: Options, key: kms.IKey | None
) -> cdk.CustomResource:
    """A custom resource whose function sets the role if the account has none."""
    name = function_name(options.name, LOG_ROLE_WRITER)
    log = log_group(scope, "LogRoleWriterLog", f"/aws/lambda/{name}", options, key)
    function = lambda_.Function(
        scope,
        "LogRoleWriter",
        function_name=name,
        handler="index.handler",
        code=lambda_.Code.from_inline(Path(__file__).with_name("log_role_writer.py").read_text()),
        runtime=runtime_of(options),
        architecture=architecture_of(options),
        memory_size=256,
        timeout=cdk.Duration.seconds(WRITER_TIMEOUT_SECONDS),
        log_group=log,
        role=_role(scope, role, [may_write(log)]).without_policy_updates(),
    )
    acknowledge(
        function,
        {
            "AwsSolutions-L1": NOT_LATEST,
            "Serverless-LambdaLatestVersion": NOT_LATEST,
            "Serverless-LambdaTracing": "it runs once, and CloudFormation has its error",
            "Serverless-LambdaDLQ": "CloudFormation waits for its answer, and fails without one",
        },
    )
    return cdk.CustomResource(
        scope,
        "LogRoleSetting",
        resource_type="Custom::ApiGatewayLogRole",
        service_token=function.function_arn,
        # Lambda calls it three times at most.
        service_timeout=cdk.Duration.seconds(3 * WRITER_TIMEOUT_SECONDS + 300),
        properties={"RoleArn": role.role_arn},
    )


def _role(scope: Construct, passed: iam.Role, statements: list[iam.PolicyStatement]) -> iam.Role:
    """The function's role: it reads and changes API Gateway's account, and passes on one role.

    Source: Service Authorization Reference, "Actions, resources, and condition keys for Amazon API
    Gateway Management", and "... for AWS Identity and Access Management", at PassRole.
    """
    here = cdk.Stack.of(scope)
    account = f"arn:{here.partition}:apigateway:{here.region}::/account"
    own = iam.PolicyDocument(
        statements=[
            *statements,
            iam.PolicyStatement(
                actions=["apigateway:GET", "apigateway:PATCH"], resources=[account]
            ),
            iam.PolicyStatement(
                actions=["iam:PassRole"],
                resources=[passed.role_arn],
                conditions={"StringEquals": {"iam:PassedToService": SERVICE}},
            ),
        ]
    )
    return iam.Role(
        scope,
        "LogRoleWriterRole",
        assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
        inline_policies={"Own": own},
    )

"""What all Lambda functions have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from tallyroll.cdk.annotations import acknowledge
from tallyroll.cdk.network import Network, may_attach
from tallyroll.resources import ALIAS_LIVE, function_name
from tallyroll.settings.options import Options

# With this memory a function has one whole virtual CPU. Source: AWS Lambda Developer Guide,
# "Configure Lambda function memory".
FULL_CPU_MB = 1_769
NOT_LATEST = (
    "the runtime is an option (tallyroll:runtime), by default the one that the tests ran on, and"
    " for which the asset holds byte-code"
)
# Batches may still run on the version before. That of a deployment that failed goes: Lambda
# publishes no second one of the same code, so the next try would fail.
_KEPT = lambda_.VersionOptions(removal_policy=cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionDefaults:
    """What the functions of one pipeline share: options, code, environment, the key of the
    environment and of logs, if a team passed one in, the VPC's subnets that they run in, and the
    layer with the driver of Amazon Keyspaces, if there is a keyspace.
    """

    options: Options
    code: lambda_.Code
    environment: Mapping[str, str]
    key: kms.IKey | None = None
    network: Network | None = None
    driver: lambda_.ILayerVersion | None = None


class PipelineFunction(Construct):
    """A function with its own role, which allows `statements` and writing its log."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        defaults: FunctionDefaults,
        package: str,
        memory_mb: int,
        timeout_seconds: int,
        statements: Sequence[iam.PolicyStatement],
        reserved_concurrency: int | None = None,
        snap_start: bool = False,
        published: bool = False,
    ) -> None:
        """`package` is the handler's package in `functions`. With `published`, each deployment that
        changes the function publishes a version, which stays; callers call `invoked`, the alias of
        the current one. With `snap_start` too, and its sandboxes start from a snapshot.
        """
        super().__init__(scope, id_)
        options = defaults.options
        name = function_name(options.name, package)
        self.package = package
        self.log = log_group(self, "Log", f"/aws/lambda/{name}", options, defaults.key)
        statements = [
            *statements,
            may_write(self.log),
            *_may_trace(options),
            *may_attach(self, defaults.network, name, keyspaces=defaults.driver is not None),
        ]
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            inline_policies={"Own": iam.PolicyDocument(statements=statements)},
        )
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=name,
            handler=f"functions.{package}.handler.handler",
            code=defaults.code,
            runtime=runtime_of(options, snap_start=snap_start),
            architecture=architecture_of(options),
            memory_size=memory_mb,
            timeout=cdk.Duration.seconds(timeout_seconds),
            environment={**defaults.environment, **_of_layer(options, name)},
            environment_encryption=defaults.key,
            log_group=self.log,
            role=self.role.without_policy_updates(),  # it allows the statements above only
            # Lambda traces by itself, without a library.
            tracing=lambda_.Tracing.ACTIVE if options.traces else None,
            reserved_concurrent_executions=reserved_concurrency,
            snap_start=lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS if snap_start else None,
            current_version_options=_KEPT if published else None,
        )
        _attach(self, defaults.network)
        _add_layers(self, options, defaults.driver)
        self.invoked = _live(self) if snap_start or published else self.function
        acknowledge(
            self.function,
            {
                "AwsSolutions-L1": NOT_LATEST,
                "Serverless-LambdaLatestVersion": NOT_LATEST,
                "Serverless-LambdaDLQ": "no asynchronous invocation is worth keeping: the writer"
                " and the aggregator are called synchronously, and the next scheduled run does"
                " what an earlier one left",
            },
        )
        _acknowledge_tracing(self, options)


def runtime_of(options: Options, *, snap_start: bool = False) -> lambda_.Runtime:
    """The runtime, by its name: an older aws-cdk-lib has no constant for a newer one."""
    return lambda_.Runtime(
        options.runtime,
        lambda_.RuntimeFamily.PYTHON,
        supports_inline_code=True,
        supports_snap_start=snap_start,
    )


def architecture_of(options: Options) -> lambda_.Architecture:
    """The processor architecture."""
    arm = options.architecture == "arm64"
    return lambda_.Architecture.ARM_64 if arm else lambda_.Architecture.X86_64


def _add_layers(
    function: PipelineFunction, options: Options, driver: lambda_.ILayerVersion | None
) -> None:
    """Add the driver's layer and the one that traces calls of AWS, as far as there are."""
    if driver:
        function.function.add_layers(driver)
    if options.tracing_layer:
        layer = lambda_.LayerVersion.from_layer_version_arn(
            function, "Tracing", options.tracing_layer
        )
        function.function.add_layers(layer)


def _of_layer(options: Options, name: str) -> dict[str, str]:
    """The variables that switch AWS's layer for OpenTelemetry on, for traces alone.

    Source: AWS Distro for OpenTelemetry, "Lambda Support For Python".
    """
    if not options.tracing_layer:
        return {}
    return {
        "AWS_LAMBDA_EXEC_WRAPPER": "/opt/otel-instrument",
        "OTEL_AWS_APPLICATION_SIGNALS_ENABLED": "false",
        "OTEL_SERVICE_NAME": name,
    }


def _attach(function: PipelineFunction, network: Network | None) -> None:
    """Run a function in a network, and say why its role names no resource for that."""
    if network is None:
        return
    resource = function.function.node.default_child
    assert isinstance(resource, lambda_.CfnFunction)
    resource.vpc_config = lambda_.CfnFunction.VpcConfigProperty(
        subnet_ids=[*network.subnets], security_group_ids=[*network.security_groups]
    )
    anywhere = (
        "network interfaces that Lambda makes have no name before; the function's own code is"
        " denied the same actions"
    )
    acknowledge(
        function.role,
        {"AwsSolutions-IAM5[Resource::*]": anywhere, "Serverless-LambdaStarPermissions": anywhere},
    )


def _live(function: PipelineFunction) -> lambda_.IFunction:
    """An alias of the published version: only published versions have snapshots, and only an alias
    moves step by step. Sources: AWS Lambda Developer Guide, "Improving startup performance with
    Lambda SnapStart" and "Implement Lambda canary deployments using a weighted alias".
    """
    version = function.function.current_version
    return lambda_.Alias(function, "Live", alias_name=ALIAS_LIVE, version=version)


def log_group(
    scope: Construct, id_: str, name: str, options: Options, key: kms.IKey | None
) -> logs.LogGroup:
    """A log group with the options' retention, deleted with the stack."""
    group = logs.LogGroup(
        scope,
        id_,
        log_group_name=name,
        encryption_key=key,
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )
    if key:
        _may_use(key, group, name)
    resource = group.node.default_child
    assert isinstance(resource, logs.CfnLogGroup)
    resource.retention_in_days = options.log_days
    return group


def _may_use(key: kms.IKey, group: logs.LogGroup, name: str) -> None:
    """Let CloudWatch Logs use the key for a log group of this name, as far as this app makes the
    key's policy. Source: CloudWatch Logs User Guide, "Encrypt log data in CloudWatch Logs".
    """
    here = cdk.Stack.of(group)
    arn = here.format_arn(
        service="logs",
        resource="log-group",
        resource_name=name,
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
    )
    key.add_to_resource_policy(
        iam.PolicyStatement(
            actions=[
                "kms:Decrypt",
                "kms:DescribeKey",
                "kms:Encrypt",
                "kms:GenerateDataKey*",
                "kms:ReEncrypt*",
            ],
            principals=[iam.ServicePrincipal(f"logs.{here.region}.amazonaws.com")],
            resources=["*"],
            conditions={"ArnEquals": {"kms:EncryptionContext:aws:logs:arn": arn}},
        )
    )


def _may_trace(options: Options) -> list[iam.PolicyStatement]:
    if not options.traces:
        return []
    sent = ["xray:PutTelemetryRecords", "xray:PutTraceSegments"]
    return [iam.PolicyStatement(actions=sent, resources=["*"])]


def _acknowledge_tracing(function: PipelineFunction, options: Options) -> None:
    if options.traces:
        anywhere = "traces have no ARN: sending them is allowed on all or on none"
        acknowledge(
            function.role,
            {
                "AwsSolutions-IAM5[Resource::*]": anywhere,
                "Serverless-LambdaStarPermissions": anywhere,
            },
        )
    else:
        off = "an option (tallyroll:tracing), off by default: it is billed by the trace"
        acknowledge(function.function, {"Serverless-LambdaTracing": off})


def may_write(log: logs.LogGroup) -> iam.PolicyStatement:
    """Allow to write a log."""
    return iam.PolicyStatement(
        actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[log.log_group_arn]
    )

"""One place for what all Lambda functions have in common."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

# With this memory a function has one whole virtual CPU. Source: AWS Lambda Developer Guide,
# "Configure Lambda function memory".
FULL_CPU_MB = 1_769
LOG_RETENTION = logs.RetentionDays.ONE_MONTH
_RUNTIME_MINORS = range(11, 15)  # of Python 3. Source: the same guide, "Lambda runtimes"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionDefaults:
    """What the functions of one pipeline share: its name, the code, the environment."""

    pipeline: str
    code: lambda_.Code
    environment: Mapping[str, str]


class PipelineFunction(Construct):
    """A function with a role of its own, which may do what `statements` say and write its log."""

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
        retries: int | None = None,
    ) -> None:
        """`package` is the one in `functions` with the handler; `retries` those of an asynchronous
        invocation (None: as Lambda does, 2).
        """
        super().__init__(scope, id_)
        name = f"{defaults.pipeline}-{package}"
        self.log = logs.LogGroup(
            self,
            "Log",
            log_group_name=f"/aws/lambda/{name}",
            retention=LOG_RETENTION,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            inline_policies={
                "Own": iam.PolicyDocument(statements=[*statements, _may_write(self.log)])
            },
        )
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=name,
            handler=f"functions.{package}.handler.handler",
            code=defaults.code,
            runtime=runtime(),
            architecture=lambda_.Architecture.ARM_64,
            memory_size=memory_mb,
            timeout=cdk.Duration.seconds(timeout_seconds),
            environment=dict(defaults.environment),
            log_group=self.log,
            role=self.role,
            retry_attempts=retries,
        )


def runtime(minor: int = sys.version_info.minor) -> lambda_.Runtime:
    """Lambda's runtime of this interpreter's version, or the nearest that there is: what is
    deployed is what the tests ran on, and the bundle's byte-code is of use.
    """
    nearest = min(max(minor, _RUNTIME_MINORS[0]), _RUNTIME_MINORS[-1])
    found: lambda_.Runtime = getattr(lambda_.Runtime, f"PYTHON_3_{nearest}")
    return found


def _may_write(log: logs.LogGroup) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[log.log_group_arn]
    )

"""The calls that CloudFormation makes for a pipeline's stack: what its role must allow.

They are those of CloudFormation's own resource schemas (their handlers' permissions), as far as the
template uses them, and API Gateway's for an access log. A table whose deletion policy is `Retain`
is never deleted. `tests/infra/test_stack_calls.py` compares the resource types with synthesized
templates, and the actions with the schemas.

Sources: AWS CloudFormation CLI User Guide, "Resource type schema", at `handlers`; API Gateway
Developer Guide, "Configure logging for HTTP APIs in API Gateway", its permissions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tallyroll.operations.preflight.wish import API_LOG_ROLE, Wish
from tallyroll.ports.account import Identity
from tallyroll.ports.stack import ANY
from tallyroll.resources import declare, function_name

Calls = Mapping[str, Sequence[str]]
"""Actions by what they are for, a key of `places`."""


def _of(service: str, names: str) -> Sequence[str]:
    return tuple(f"{service}:{name}" for name in names.split())


_ID = "a1b2c3d4-0000-0000-0000-000000000000"
_PASS = ("iam:PassRole",)
_REST = _of("apigateway", "DELETE GET PATCH")
CALLS: Mapping[str, Calls] = {
    "AWS::ApiGateway::Account": {
        "api account": _of("apigateway", "GET PATCH"),
        "role": ("iam:GetRole", *_PASS),
    },
    "AWS::ApiGateway::Deployment": {
        "rest deployments": _of("apigateway", "DELETE GET PATCH POST"),
    },
    "AWS::ApiGateway::Method": {"rest methods": _of("apigateway", "DELETE GET PUT")},
    "AWS::ApiGateway::Resource": {"rest resources": _of("apigateway", "DELETE GET PATCH POST")},
    "AWS::ApiGateway::RestApi": {
        "rest apis": ("apigateway:POST",),
        "rest api": (*_REST, "apigateway:UpdateRestApiPolicy"),
    },
    "AWS::ApiGateway::Stage": {"rest stages": _of("apigateway", "DELETE GET PATCH POST")},
    "AWS::ApiGatewayV2::Api": {"http apis": ("apigateway:POST",), "http api": _REST},
    "AWS::ApiGatewayV2::Authorizer": {
        "http authorizers": _of("apigateway", "DELETE GET PATCH POST"),
    },
    "AWS::ApiGatewayV2::Integration": {
        "http integrations": _of("apigateway", "DELETE GET PATCH POST"),
    },
    "AWS::ApiGatewayV2::Route": {"http routes": _of("apigateway", "DELETE GET PATCH POST")},
    "AWS::ApiGatewayV2::Stage": {
        "http stages": _of("apigateway", "DELETE PATCH POST"),
        ANY: _of(
            "logs",
            "CreateLogDelivery DeleteLogDelivery DescribeResourcePolicies GetLogDelivery"
            " ListLogDeliveries PutResourcePolicy UpdateLogDelivery",
        ),
    },
    "AWS::Budgets::Budget": {"budget": _of("budgets", "ModifyBudget ViewBudget")},
    "AWS::CE::AnomalyMonitor": {
        ANY: ("ce:CreateAnomalyMonitor",),
        "monitor": _of("ce", "DeleteAnomalyMonitor UpdateAnomalyMonitor"),
    },
    "AWS::CE::AnomalySubscription": {
        ANY: ("ce:CreateAnomalySubscription",),
        "anomalies": _of("ce", "DeleteAnomalySubscription UpdateAnomalySubscription"),
    },
    "AWS::Cassandra::Keyspace": {"keyspace": _of("cassandra", "Alter Create TagResource")},
    "AWS::Cassandra::Table": {
        "keyspace table": _of("cassandra", "Alter Create Select TagResource"),
    },
    "AWS::CloudWatch::Alarm": {
        "alarm": _of("cloudwatch", "DeleteAlarms DescribeAlarms PutMetricAlarm TagResource"),
    },
    "AWS::CloudWatch::CompositeAlarm": {
        "alarm": _of("cloudwatch", "DeleteAlarms DescribeAlarms PutCompositeAlarm TagResource"),
    },
    "AWS::CloudWatch::Dashboard": {
        "dashboard": _of("cloudwatch", "DeleteDashboards GetDashboard PutDashboard TagResource"),
    },
    "AWS::CodeDeploy::Application": {
        "application": _of(
            "codedeploy", "CreateApplication DeleteApplication GetApplication TagResource"
        ),
    },
    "AWS::CodeDeploy::DeploymentGroup": {
        "deployment group": _of(
            "codedeploy",
            "CreateDeploymentGroup DeleteDeploymentGroup GetDeploymentGroup TagResource"
            " UpdateDeploymentGroup",
        ),
        "role": _PASS,
    },
    "AWS::DynamoDB::Table": {
        "table": _of(
            "dynamodb",
            "CreateTable DescribeContinuousBackups DescribeTable ListTagsOfResource TagResource"
            " UpdateContinuousBackups UpdateTable",
        ),
    },
    "AWS::Events::Rule": {
        "rule": _of(
            "events",
            "DeleteRule DescribeRule ListTargetsByRule PutRule PutTargets RemoveTargets"
            " TagResource",
        ),
    },
    "AWS::IAM::Role": {
        "role": _of(
            "iam",
            "CreateRole DeleteRole DeleteRolePolicy GetRole GetRolePolicy ListAttachedRolePolicies"
            " ListRolePolicies PutRolePolicy TagRole UpdateAssumeRolePolicy",
        ),
    },
    "AWS::Lambda::Alias": {
        "function": _of("lambda", "CreateAlias DeleteAlias GetAlias UpdateAlias"),
    },
    "AWS::Lambda::EventInvokeConfig": {
        "function": _of(
            "lambda",
            "DeleteFunctionEventInvokeConfig PutFunctionEventInvokeConfig"
            " UpdateFunctionEventInvokeConfig",
        ),
    },
    "AWS::Lambda::EventSourceMapping": {
        ANY: ("lambda:CreateEventSourceMapping",),
        "mapping": _of(
            "lambda",
            "DeleteEventSourceMapping GetEventSourceMapping TagResource UpdateEventSourceMapping",
        ),
    },
    "AWS::Lambda::Function": {
        "asset": ("s3:GetObject",),
        "function": _of(
            "lambda",
            "CreateFunction DeleteFunction GetFunction TagResource UpdateFunctionCode"
            " UpdateFunctionConfiguration",
        ),
        "role": _PASS,
    },
    "AWS::Lambda::LayerVersion": {
        "asset": ("s3:GetObject",),
        "layer": ("lambda:PublishLayerVersion",),
        "layer version": _of("lambda", "DeleteLayerVersion GetLayerVersion"),
    },
    "AWS::Lambda::Permission": {"function": _of("lambda", "AddPermission RemovePermission")},
    "AWS::Lambda::Version": {
        "function": _of("lambda", "DeleteFunction GetFunctionConfiguration PublishVersion"),
    },
    "AWS::Logs::LogGroup": {
        ANY: ("logs:DescribeLogGroups",),
        "log group": _of("logs", "CreateLogGroup DeleteLogGroup PutRetentionPolicy TagResource"),
    },
    "AWS::S3::Bucket": {
        "bucket": _of(
            "s3",
            "CreateBucket DeleteBucket PutBucketPublicAccessBlock PutBucketTagging"
            " PutBucketVersioning PutEncryptionConfiguration PutLifecycleConfiguration",
        ),
    },
    "AWS::S3::BucketPolicy": {
        "bucket": _of("s3", "DeleteBucketPolicy GetBucketPolicy PutBucketPolicy"),
    },
    "AWS::SNS::Subscription": {"topic": _of("sns", "Subscribe Unsubscribe")},
    "AWS::SNS::Topic": {
        "topic": _of(
            "sns", "CreateTopic DeleteTopic GetTopicAttributes SetTopicAttributes TagResource"
        ),
    },
    "AWS::SNS::TopicPolicy": {"topic": ("sns:SetTopicAttributes",)},
    "AWS::SQS::Queue": {
        "queue": _of(
            "sqs",
            "CreateQueue DeleteQueue GetQueueAttributes ListQueueTags SetQueueAttributes TagQueue",
        ),
    },
    "AWS::SQS::QueuePolicy": {"queue": ("sqs:SetQueueAttributes",)},
    "AWS::Scheduler::Schedule": {
        "role": _PASS,
        "schedule": _of("scheduler", "CreateSchedule DeleteSchedule GetSchedule UpdateSchedule"),
    },
    "Custom::ApiGatewayLogRole": {"function": ("lambda:InvokeFunction",)},
}
"""The calls by resource type of the template."""

# What some types need besides, by an option.
_KEYED: Mapping[str, Calls] = {
    "AWS::Cassandra::Table": {"key": _of("kms", "CreateGrant Decrypt DescribeKey Encrypt")},
    "AWS::DynamoDB::Table": {"key": _of("kms", "CreateGrant Decrypt DescribeKey Encrypt")},
    "AWS::Lambda::Function": {
        "key": _of("kms", "CreateGrant Decrypt DescribeKey Encrypt GenerateDataKey"),
    },
    "AWS::Logs::LogGroup": {"log group": ("logs:AssociateKmsKey",)},
}
_IN_VPC: Mapping[str, Calls] = {
    "AWS::Lambda::Function": {
        ANY: _of("ec2", "DescribeSecurityGroups DescribeSubnets DescribeVpcs"),
    },
}
_RESERVED: Mapping[str, Calls] = {
    "AWS::Lambda::Function": {"function": ("lambda:PutFunctionConcurrency",)},
}
_MANAGED: Mapping[str, Calls] = {
    "AWS::IAM::Role": {"role": _of("iam", "AttachRolePolicy DetachRolePolicy")},
}
_MOVED: Mapping[str, Calls] = {
    "AWS::Lambda::Alias": {
        "deployment group": _of("codedeploy", "CreateDeployment GetDeployment GetDeploymentGroup"),
    },
}


def _rest(wish: Wish) -> bool:
    return wish.option("api", "http") == "private"


def _http(wish: Wish) -> bool:
    return wish.option("api", "http") == "http"


def _log_role(wish: Wish) -> str:
    return wish.option("api_log_role", API_LOG_ROLE) if _rest(wish) else "false"


def sets_log_role(wish: Wish) -> bool:
    """Whether a function of the deployment sets API Gateway's role for logs, if there is none."""
    return _log_role(wish) == "auto"


def _canary(wish: Wish) -> bool:
    return wish.option("rollout") == "canary"


def _versions(wish: Wish) -> bool:
    return wish.option("snap_start") == "true" or wish.option("rollout", "none") != "none"


def _budget(wish: Wish) -> bool:
    return wish.option("budget", "0") not in ("", "0")


def _in_keyspaces(wish: Wish) -> bool:
    return bool(wish.settings.window_keyspace)


BESIDES: Sequence[tuple[Callable[[Wish], bool], Mapping[str, Calls]]] = (
    (lambda wish: bool(wish.settings.kms_key), _KEYED),
    (lambda wish: bool(wish.option("vpc_subnets")), _IN_VPC),
    (lambda wish: wish.reserved is not None, _RESERVED),
    (lambda wish: _log_role(wish) != "false" or _canary(wish), _MANAGED),
    (_canary, _MOVED),
)

# Types that only some options bring.
_ONLY_IF: Mapping[str, Callable[[Wish], bool]] = {
    **{name: _rest for name in CALLS if name.startswith("AWS::ApiGateway::")},
    "AWS::ApiGateway::Account": lambda wish: _log_role(wish) == "true",
    "Custom::ApiGatewayLogRole": sets_log_role,
    **{name: _http for name in CALLS if name.startswith("AWS::ApiGatewayV2::")},
    "AWS::ApiGatewayV2::Authorizer": lambda wish: _http(wish) and wish.option("auth") == "jwt",
    **{name: _budget for name in CALLS if name.startswith(("AWS::Budgets::", "AWS::CE::"))},
    **{name: _in_keyspaces for name in CALLS if name.startswith("AWS::Cassandra::")},
    **{name: _canary for name in CALLS if name.startswith("AWS::CodeDeploy::")},
    "AWS::Events::Rule": lambda wish: bool(wish.settings.kms_key),
    "AWS::Lambda::Alias": _versions,
    "AWS::Lambda::LayerVersion": _in_keyspaces,
    "AWS::Lambda::Permission": lambda wish: wish.option("api", "http") != "none",
    "AWS::Lambda::Version": _versions,
    "AWS::SNS::Subscription": lambda wish: bool(
        wish.option("alarm_email") or wish.option("ticket_email")
    ),
}


def calls_for(wish: Wish, who: Identity) -> Mapping[str, Mapping[str, Sequence[str]]]:
    """For each resource type of what is wished: the actions by ARN, or `ANY`."""
    arns = places(wish, who)
    found: dict[str, dict[str, list[str]]] = {}
    tables = [CALLS, *(more for wanted, more in BESIDES if wanted(wish))]
    for name in CALLS:
        if _ONLY_IF.get(name, bool)(wish):
            found[name] = {}
            for table in tables:
                for place, actions in table.get(name, {}).items():
                    found[name].setdefault(arns[place], []).extend(actions)
    return found


def places(wish: Wish, who: Identity) -> Mapping[str, str]:
    """An ARN for each kind of resource, as the stack's own are; generated ids are made up."""
    settings = wish.settings
    name, declared = settings.name, declare(settings)
    writer = function_name(name, "writer")
    here = f"{who.region}:{who.account}"

    def arn(service: str, rest: str) -> str:
        return f"arn:{who.partition}:{service}:{rest}"

    rest, http = (f"{who.region}::/{kind}/a1b2c3d4e5" for kind in ("restapis", "apis"))
    keyspace = f"{here}:/keyspace/{settings.window_keyspace}/"
    bucket = f"cdk-{wish.qualifier}-assets-{who.account}-{who.region}"
    return {
        ANY: ANY,
        "anomalies": arn("ce", f":{who.account}:anomalysubscription/{_ID}"),
        "application": arn("codedeploy", f"{here}:application:{writer}"),
        "budget": arn("budgets", f":{who.account}:budget/{name}"),
        "deployment group": arn("codedeploy", f"{here}:deploymentgroup:{writer}/{writer}"),
        "monitor": arn("ce", f":{who.account}:anomalymonitor/{_ID}"),
        "alarm": arn("cloudwatch", f"{here}:alarm:{name}-dead-letters"),
        "api account": arn("apigateway", f"{who.region}::/account"),
        "asset": arn("s3", f"::{bucket}/0123456789abcdef.zip"),
        "bucket": arn("s3", f"::{name}-pipelinestoragearchive-a1b2c3d4e5f6"),
        "dashboard": arn("cloudwatch", f":{who.account}:dashboard/{name}-{who.region}"),
        "function": arn("lambda", f"{here}:function:{writer}"),
        "http api": arn("apigateway", http),
        "http apis": arn("apigateway", f"{who.region}::/apis"),
        **{
            f"http {part}": arn("apigateway", f"{http}/{part}")
            for part in ("authorizers", "integrations", "routes", "stages")
        },
        "key": settings.kms_key,
        "keyspace": arn("cassandra", keyspace),
        "keyspace table": arn("cassandra", f"{keyspace}table/seals"),
        "layer": arn("lambda", f"{here}:layer:PipelineDriverA1B2C3D4"),
        "layer version": arn("lambda", f"{here}:layer:PipelineDriverA1B2C3D4:1"),
        "log group": arn("logs", f"{here}:log-group:/aws/lambda/{writer}"),
        "mapping": arn("lambda", f"{here}:event-source-mapping:{_ID}"),
        "queue": arn("sqs", f"{here}:{declared.queue.name}"),
        "rest api": arn("apigateway", rest),
        "rest apis": arn("apigateway", f"{who.region}::/restapis"),
        "rest methods": arn("apigateway", f"{rest}/resources/a1b2c3/methods/GET"),
        **{
            f"rest {part}": arn("apigateway", f"{rest}/{part}")
            for part in ("deployments", "resources", "stages")
        },
        "role": arn("iam", f":{who.account}:role/{name}-PipelineIngestWriterRole-A1B2C3D4E5F6"),
        "rule": arn("events", f"{here}:rule/{name}-PipelineObservabilityKeyState-A1B2C3D4E5F6"),
        "schedule": arn("scheduler", f"{here}:schedule/default/{function_name(name, 'roller')}"),
        "table": arn("dynamodb", f"{here}:table/{declared.catalog.name}"),
        "topic": arn("sns", f"{here}:{name}-PipelineObservabilityAlarms-A1B2C3D4E5F6"),
    }

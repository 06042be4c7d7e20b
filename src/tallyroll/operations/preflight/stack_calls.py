"""The calls that CloudFormation makes for a pipeline's stack: what its role must allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote

from tallyroll.operations.preflight.handlers import (
    CALLS,
    COPIED,
    EXPIRING,
    IN_VPC,
    KEYED,
    LAYERED,
    LOCKED,
    MANAGED,
    MOVED,
    RESERVED,
    Calls,
)
from tallyroll.operations.preflight.planned_deployment import PlannedDeployment
from tallyroll.ports.account import Identity
from tallyroll.ports.stack import ANY
from tallyroll.resources import declare, function_name
from tallyroll.settings.texts import text_of

_ID = "a1b2c3d4-0000-0000-0000-000000000000"
_CANARY = "CodeDeployDefault.LambdaCanary10Percent30Minutes"


def _rest(planned: PlannedDeployment) -> bool:
    return planned.options.api == "private"


def _http(planned: PlannedDeployment) -> bool:
    return planned.options.api == "http"


def _log_role(planned: PlannedDeployment) -> str:
    return text_of(planned.options.api_log_role) if _rest(planned) else "false"


def sets_log_role(planned: PlannedDeployment) -> bool:
    """Whether a function of the deployment sets API Gateway's role for logs, if there is none."""
    return _log_role(planned) == "auto"


def _canary(planned: PlannedDeployment) -> bool:
    return planned.options.rollout == "canary"


def _versions(planned: PlannedDeployment) -> bool:
    return planned.options.snap_start or planned.options.rollout != "none"


def has_budget(planned: PlannedDeployment) -> bool:
    """Whether a budget is asked for."""
    return planned.options.budget > 0


def _monitor(planned: PlannedDeployment) -> bool:
    return planned.options.budget_monitor


def _in_keyspaces(planned: PlannedDeployment) -> bool:
    return bool(planned.settings.window_keyspace)


def _layered(planned: PlannedDeployment) -> bool:
    return _in_keyspaces(planned) or planned.settings.compacts


def _copied(planned: PlannedDeployment) -> bool:
    return bool(planned.options.archive_replica)


BESIDES: Sequence[tuple[Callable[[PlannedDeployment], bool], Mapping[str, Calls]]] = (
    (lambda planned: bool(planned.settings.kms_key), KEYED),
    (lambda planned: bool(planned.options.vpc_subnets), IN_VPC),
    (lambda planned: planned.reserved is not None, RESERVED),
    (lambda planned: _log_role(planned) != "false" or _canary(planned), MANAGED),
    (_canary, MOVED),
    (_layered, LAYERED),
    (lambda planned: planned.settings.archive_lock_days > 0, LOCKED),
    (_copied, COPIED),
    (lambda planned: planned.settings.has_identities, EXPIRING),
)

# Types that only some options bring.
_ONLY_IF: Mapping[str, Callable[[PlannedDeployment], bool]] = {
    **{name: _rest for name in CALLS if name.startswith("AWS::ApiGateway::")},
    "AWS::ApiGateway::Account": lambda planned: _log_role(planned) == "true",
    "Custom::ApiGatewayLogRole": sets_log_role,
    **{name: _http for name in CALLS if name.startswith("AWS::ApiGatewayV2::")},
    "AWS::ApiGatewayV2::Authorizer": lambda planned: (
        _http(planned) and planned.options.auth == "jwt"
    ),
    "AWS::Budgets::Budget": has_budget,
    **{name: _monitor for name in CALLS if name.startswith("AWS::CE::")},
    **{name: _in_keyspaces for name in CALLS if name.startswith("AWS::Cassandra::")},
    **{name: _canary for name in CALLS if name.startswith("AWS::CodeDeploy::")},
    "AWS::Events::Rule": lambda planned: bool(planned.settings.kms_key),
    "AWS::Lambda::Alias": _versions,
    "AWS::IAM::Policy": _copied,
    "AWS::Lambda::LayerVersion": _layered,
    "AWS::Lambda::Permission": lambda planned: planned.options.api != "none",
    "AWS::Lambda::Version": _versions,
    "AWS::SNS::Subscription": lambda planned: bool(
        planned.options.alarm_email or planned.options.ticket_email
    ),
}


def calls_for(
    planned: PlannedDeployment, who: Identity
) -> Mapping[str, Mapping[str, Sequence[str]]]:
    """For each resource type of the deployment: the actions by ARN, or `ANY`."""
    arns = places(planned, who)
    found: dict[str, dict[str, list[str]]] = {}
    tables = [CALLS, *(more for wanted, more in BESIDES if wanted(planned))]
    for name in CALLS:
        if _ONLY_IF.get(name, bool)(planned):
            found[name] = {}
            for table in tables:
                for place, actions in table.get(name, {}).items():
                    found[name].setdefault(arns[place], []).extend(actions)
    return found


def places(planned: PlannedDeployment, who: Identity) -> Mapping[str, str]:
    """An ARN for each kind of resource, as the stack's own are; generated ids are made up."""
    settings = planned.settings
    name, declared = settings.name, declare(settings)
    writer = function_name(name, "writer")
    here = f"{who.region}:{who.account}"

    def arn(service: str, rest: str) -> str:
        return f"arn:{who.partition}:{service}:{rest}"

    rest, http = (f"{who.region}::/{kind}/a1b2c3d4e5" for kind in ("restapis", "apis"))
    tagged = quote(arn("apigateway", rest if _rest(planned) else http), safe="")
    keyspace = f"{here}:/keyspace/{settings.window_keyspace}/"
    bucket = f"cdk-{planned.qualifier}-assets-{who.account}-{who.region}"
    return {
        ANY: ANY,
        "anomalies": arn("ce", f":{who.account}:anomalysubscription/{_ID}"),
        "application": arn("codedeploy", f"{here}:application:{writer}"),
        "budget": arn("budgets", f":{who.account}:budget/{name}"),
        "deployment config": arn("codedeploy", f"{here}:deploymentconfig:{_CANARY}"),
        "deployment group": arn("codedeploy", f"{here}:deploymentgroup:{writer}/{writer}"),
        "monitor": arn("ce", f":{who.account}:anomalymonitor/{_ID}"),
        "alarm": arn("cloudwatch", f"{here}:alarm:{name}-dead-letters"),
        "api account": arn("apigateway", f"{who.region}::/account"),
        "api tags": arn("apigateway", f"{who.region}::/tags/{tagged}"),
        "asset": arn("s3", f"::{bucket}/0123456789abcdef.zip"),
        "bootstrap version": arn(
            "ssm", f"{here}:parameter/cdk-bootstrap/{planned.qualifier}/version"
        ),
        "bucket": arn("s3", f"::{name}-pipelinestoragearchive-a1b2c3d4e5f6"),
        "dashboard": arn("cloudwatch", f":{who.account}:dashboard/{name}-{who.region}"),
        "function": arn("lambda", f"{here}:function:{writer}"),
        "function version": arn("lambda", f"{here}:function:{writer}:1"),
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

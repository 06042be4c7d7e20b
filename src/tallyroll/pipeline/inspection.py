"""What the operator's checks examine: a deployed pipeline, and the endpoint of an emulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tallyroll.adapters.aws.account import AwsAccount
from tallyroll.adapters.aws.client import Caller, LateClient, Observe, region
from tallyroll.adapters.aws.metered import MeteredClient
from tallyroll.adapters.dynamodb.tools import trial
from tallyroll.adapters.dynamodb.tools.canary import CanaryTable
from tallyroll.adapters.system import SystemEffects
from tallyroll.operations.conform.stage import SETTINGS, Stage, spec_on
from tallyroll.operations.deployed import deployed
from tallyroll.operations.doctor.checkup import Checkup
from tallyroll.pipeline import Pipeline, queue_urls
from tallyroll.resources import declare
from tallyroll.settings import Settings

Tell = Callable[[str], None]


def checkup(
    settings: Settings,
    tell: Tell,
    *,
    named: bool,
    bucket: str | None = None,
    deep: bool = False,
    ports: Mapping[str, object] = {},
) -> Checkup:
    """The pipeline as it is deployed, for `doctor` and `teardown`. Raises StoreError.

    `bucket` takes the place of the deployment's, `deep` asks for reads of all tables; `ports` are
    the pipeline's.
    """
    found = deployed(settings, Pipeline(settings).deployment, tell)
    settings = replace(found.settings, bucket=bucket) if bucket else found.settings
    settings, queue, dead_letters = queue_urls.with_found_queues(settings, tell, named=named)
    made = Pipeline(settings, ports=ports)
    return Checkup(
        settings=settings,
        catalog=made.catalog,
        store=made.store,
        totals=made.totals,
        tables=made.tables,
        queue=made.queue if queue else None,
        dead_letters=made.dead_letters_queue if dead_letters else None,
        bucket=made.bucket if settings.bucket else None,
        effects=made.effects,
        handed_back=made.queue_metrics.handed_back,
        counted=made.queue_metrics.counted,
        deep=deep,
        deployed=found.there,
        stack=made.stack,
        rights=made.rights,
        configured=found.differ,
    )


def metered() -> tuple[Mapping[str, object], Callable[[], float]]:
    """A pipeline's way to DynamoDB, and what its reads took in the last minute."""
    effects = SystemEffects()
    client = MeteredClient(LateClient("dynamodb"), effects.now)
    return {"dynamodb": Caller(client, effects)}, client.units_a_minute


def account(settings: Settings, *, with_canary: bool) -> tuple[AwsAccount, CanaryTable | None]:
    """The account that the AWS environment leads to, and a canary table of a new name, not made."""
    pipeline = Pipeline(settings)
    effects, caller = pipeline.effects, pipeline.caller
    made = AwsAccount(
        sts_caller=caller("sts"),
        iam_caller=caller("iam"),
        lambda_caller=caller("lambda"),
        dynamodb_caller=caller("dynamodb"),
        ssm_caller=caller("ssm"),
        cloudformation_caller=caller("cloudformation"),
        sqs_caller=caller("sqs"),
        logs_caller=caller("logs"),
        s3_caller=caller("s3"),
        kms_caller=caller("kms"),
        apigateway_caller=caller("apigateway"),
        region=region(),
    )
    if not with_canary:
        return made, None
    name = f"{settings.name}-preflight-{effects.chance.getrandbits(40):010x}"
    declared = replace(declare(settings).windows, name=name)
    return made, CanaryTable(made.dynamodb_caller, effects, declared)


def stage(endpoint: str, region: str | None, tell: Tell, observe: Observe) -> Stage:
    """Where `conform` tries an endpoint, its table not made. Raises UsageError if it is no URL."""
    effects = SystemEffects()
    where = trial.client_parameters(endpoint, region, tell)
    settings = replace(SETTINGS, name=f"tallyroll-conform-{effects.chance.getrandbits(40):010x}")
    table = declare(settings).catalog.name
    callers = [trial.caller_at(where, effects, observe) for _ in range(2)]
    made, other = (Pipeline(settings, effects, ports={"dynamodb": caller}) for caller in callers)
    return Stage(
        store=made.store,
        other=other.store,
        catalog=made.catalog,
        effects=effects,
        spec=spec_on(table, settings, effects.now()),
        added_twice=lambda: trial.added_twice(made.dynamodb, effects, table),
        reach=lambda: trial.reach(made.dynamodb, table),
    )

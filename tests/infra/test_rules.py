"""Rule packs find nothing that does not stand there for a reason."""

# ruff: noqa: PLC0415  (importing the CDK starts Node.js, which has to be found first)

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cfnlint.api import lint  # type: ignore[import-untyped]

from tallyroll.settings.options import Options
from tests.infra.conftest import KEY, SKIP_BUNDLING, Synthesize
from tests.infra.templates import Template
from tests.infra.test_options import ENDPOINT, LAYER

MONITORED = {"budget": 50, "budget_monitor": "true", "alarm_email": "a@example.org"}
# The CDK says of every function that it depends on its role, which CloudFormation knows already.
SAID_TWICE = "W3005"


@dataclass(frozen=True)
class Findings:
    """What the packs say of one pipeline: open findings, acknowledged ones, acknowledgements."""

    open: list[str]
    acknowledged: dict[str, set[str]]
    given: set[str]


def findings(outdir: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Findings:
    """Run both packs over a pipeline."""
    import aws_cdk as cdk
    import cdk_nag

    from infra.stack import TallyrollStack

    given: set[str] = set()
    original = cdk.Acknowledgment

    def acknowledgment(*, id: str, reason: str) -> cdk.Acknowledgment:  # noqa: A002
        given.add(id)
        return original(id=id, reason=reason)

    monkeypatch.setattr(cdk, "Acknowledgment", acknowledgment)
    app = cdk.App(outdir=str(outdir), context=SKIP_BUNDLING, analytics_reporting=False)
    TallyrollStack(app, "tallyroll", options=Options(**options))
    packs = [cdk_nag.AwsSolutionsChecks(app), cdk_nag.ServerlessChecks(app)]
    cdk.Validations.of(app).add_plugins(*packs)
    try:
        app.synth()
    except RuntimeError as error:
        assert "ValidationFailed" in str(error)  # noqa: PT017  (the report says what was found)
    reports = json.loads((outdir / "validation-report.json").read_text())["pluginReports"]
    assert {"AwsSolutions", "Serverless"} <= {report["pluginName"] for report in reports}
    acknowledged: dict[str, set[str]] = {}
    for report in reports:
        for one in report.get("suppressedViolations", ()):
            acknowledged.setdefault(one["acknowledgedId"], set()).add(one["reason"])
    return Findings(
        [
            f"{one['ruleName']}: {place['constructPath']}"
            for report in reports
            for one in report["violations"]
            for place in one["violatingConstructs"]
        ],
        acknowledged,
        given,
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tracing": True, "auth": "jwt", "jwt_issuer": "https://a.example", "jwt_audience": "a"},
        {"tags": {"team": "elections"}, "kms_key": KEY},
        {"snap_start": True, "runtime": "python3.12", "pollers": {"min": 2, "max": 20}},
        {"vpc_subnets": "subnet-0a1b2c3d", "vpc_security_groups": "sg-0a1b2c3d", "api": "none"},
        {"api": "private", "api_endpoint": ENDPOINT},
        {"api": "private", "api_endpoint": ENDPOINT, "tracer": True, "api_log_role": False},
        {"store": "keyspaces", "tags": {"team": "elections"}, "kms_key": KEY},
        {"rollout": "canary", **MONITORED},
        {
            "archive": "parquet",
            "kms_key": KEY,
            "archive_lock_days": 365,
            "archive_expire_days": 365,
            "archive_replica": "arn:aws:s3:::copies",
            "archive_replica_key": KEY,
        },
    ],
    ids=[
        "by default",
        "with options",
        "with tags and a key",
        "with options of Lambda",
        "inside",
        "with a private API",
        "with a private API that is traced",
        "in Keyspaces",
        "with a canary and a budget",
        "with archives as Parquet",
    ],
)
def test_rule_packs_find_what_is_acknowledged_and_nothing_else(
    node: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    found = findings(tmp_path, monkeypatch, **options)

    assert found.open == []
    for id_, reasons in found.acknowledged.items():
        assert min(map(len, reasons)) > 40, id_
    assert found.given - found.acknowledged.keys() == set()
    assert len(found.acknowledged) >= 8


def complaints(template: Template) -> list[str]:
    """What cfn-lint finds, down to its warnings."""
    found = lint(json.dumps(template), config={"ignore_checks": ["I", SAID_TWICE]})
    return [f"{match.rule.id} {match.path}: {match.message}" for match in found]


@pytest.mark.proof
def test_cloudformation_would_take_the_template(
    template: Template, chosen: Template, governed: Template, synthesize: Synthesize
) -> None:
    assert complaints(template) == []
    assert complaints(chosen) == []
    assert complaints(governed) == []
    pollers = {"min": 2, "max": 20}
    assert complaints(synthesize(snap_start=True, runtime="python3.14", pollers=pollers)) == []
    private = {"api": "private", "api_endpoint": ENDPOINT}
    assert complaints(synthesize(**private, tracer=True, kms_key=KEY)) == []
    network = {"vpc_subnets": "subnet-0a1b2c3d", "vpc_security_groups": "sg-0a1b2c3d"}
    assert complaints(synthesize(store="keyspaces", kms_key=KEY, **network)) == []
    assert complaints(synthesize(rollout="canary", **MONITORED)) == []
    assert complaints(synthesize(api="none", tracing=True, tracing_layer=LAYER, **network)) == []


def test_the_linter_is_at_work(template: Template) -> None:
    broken = json.loads(json.dumps(template))
    [schedule, *_] = [
        one for one in broken["Resources"].values() if one["Type"] == "AWS::Scheduler::Schedule"
    ]
    schedule["Properties"]["FlexibleTimeWindow"]["Mode"] = "PERHAPS"

    assert len(complaints(broken)) == 1

"""A preflight and the doctor look at what the CDK's command has deployed, before another module
destroys it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tallyroll.adapters.aws import client as aws
from tests.cli.command_line import run
from tests.e2e.conftest import NAME
from tests.e2e.deployment import Deployment

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.proof]


@pytest.fixture
def looked_at(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    """The deployment, at which the command looks."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", deployment.endpoint)
    aws._session.cache_clear()
    yield deployment
    aws._session.cache_clear()


def test_what_is_deployed_is_as_the_checks_expect_it(
    looked_at: Deployment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--name", NAME, "--json")
    before = run(monkeypatch, capsys, *asked, "preflight", "--no-canary")
    checks = {each["check"]: each for each in before.json}
    for name in ("bootstrap", "names", "functions", "trigger", "schedules"):
        assert checks[name]["level"] == "ok", checks[name]
    assert f"{NAME} is deployed there" in checks["account"]["text"]
    assert checks["concurrency"]["level"] == "unchecked"  # moto does not know Lambda's limits

    after = run(monkeypatch, capsys, *asked, "doctor")
    found = {each["check"]: each for each in after.json}
    # moto's CloudFormation leaves point-in-time recovery out.
    assert found["permanent"]["level"] == "warning", found["permanent"]
    # Nobody subscribed: there is no tallyroll:alarm_email.
    assert [sign["text"].rpartition(":")[2] for sign in found["subscriptions"]["signs"]] == [
        *[" its alarms reach nobody"] * 2
    ]
    expected = ("functions", "trigger", "schedules", "policies", "roles", "bucket")
    for name in (*expected, "queue-rules", "throttles"):
        assert found[name]["level"] == "ok", found[name]

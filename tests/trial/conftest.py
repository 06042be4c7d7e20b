"""Accounts of a trial: moto in this process, without anything of this environment."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from moto import mock_aws

from trial.account import Account

ACCOUNT, REGION = "123456789012", "eu-west-1"  # moto's


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    """An empty account that the CDK has bootstrapped."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, REGION)
    with mock_aws():
        made = Account()
        made.client("ssm").put_parameter(
            Name="/cdk-bootstrap/hnb659fds/version", Value="21", Type="String"
        )
        yield made

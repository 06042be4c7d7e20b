"""Where a trial may run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.trial.conftest import ACCOUNT, REGION
from trial import account as module
from trial.account import Account, AccountError

STACK = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}


def stack(account: Account, name: str, description: str) -> None:
    body = json.dumps({**STACK, "Description": description})
    account.client("cloudformation").create_stack(StackName=name, TemplateBody=body)


def test_an_empty_account_needs_no_name(account: Account) -> None:
    account.check(None, "aws-test")
    account.check(ACCOUNT, "aws-test")

    assert account.where == f"account {ACCOUNT}, Region {REGION}"


def test_another_account_than_the_one_that_was_named_is_refused(account: Account) -> None:
    with pytest.raises(AccountError, match=r"ACCOUNT=210987654321 is not the caller's: .*12345"):
        account.check("210987654321", "aws-test")


@pytest.mark.parametrize("alias", ["acme-prod", "production", "live-acme", "prd-1"])
def test_an_account_whose_alias_speaks_of_production_must_be_named(
    account: Account, alias: str
) -> None:
    account.client("iam").create_account_alias(AccountAlias=alias)

    with pytest.raises(AccountError, match=f"alias is {alias}.*name it: ACCOUNT={ACCOUNT}"):
        account.check(None, "aws-test")
    account.check(ACCOUNT, "aws-test")


@pytest.mark.parametrize("alias", ["acme-sandbox", "products-dev", "delivery"])
def test_other_aliases_do_not_speak_of_production(account: Account, alias: str) -> None:
    account.client("iam").create_account_alias(AccountAlias=alias)

    account.check(None, "aws-test")


def test_an_account_with_another_pipeline_must_be_named(account: Account) -> None:
    stack(account, "unlike", "Something else")
    stack(account, "aws-test", "Tallyroll pipeline aws-test")
    account.check(None, "aws-test")
    stack(account, "votes", "Tallyroll pipeline votes")

    with pytest.raises(AccountError, match="it has pipelines: votes"):
        account.check(None, "aws-test")


def test_an_alias_that_may_not_be_read_counts_as_production(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied = ClientError({"Error": {"Code": "AccessDenied"}}, "ListAccountAliases")

    class Iam:
        def list_account_aliases(self) -> None:
            raise denied

    clients = {"iam": Iam(), "cloudformation": account.client("cloudformation")}
    monkeypatch.setattr(Account, "client", lambda _self, service: clients[service])
    assert account.signs_of_production("aws-test") == ["its alias cannot be read (AccessDenied)"]


def test_the_qualifier_of_the_bootstrap_is_that_of_the_trials_deployment(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cdk.json"
    file.write_text(json.dumps({"context": {"@aws-cdk/core:bootstrapQualifier": "ours"}}))
    monkeypatch.setattr(module, "CDK_FILE", file)
    with pytest.raises(AccountError, match="make deploy CDK=bootstrap"):
        account.check(None, "aws-test")
    account.client("ssm").put_parameter(
        Name="/cdk-bootstrap/ours/version", Value="21", Type="String"
    )
    account.check(None, "aws-test")


def test_an_account_that_is_not_bootstrapped_is_refused_with_the_command(account: Account) -> None:
    account.client("ssm").delete_parameter(Name="/cdk-bootstrap/hnb659fds/version")

    with pytest.raises(AccountError, match="make deploy CDK=bootstrap"):
        account.check(None, "aws-test")


def test_no_region_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))

    with pytest.raises(AccountError, match="no Region is set"):
        _ = Account().session

"""A first deployment that fails, and the second one, by the CDK's command on moto."""

from __future__ import annotations

from pathlib import Path

import pytest

from release.cdk_command import CommandError
from tests.e2e.conftest import check_tools
from tests.e2e.deployment import Deployment, MotoServer

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.proof]

NAME = "afresh"
LOG = f"/aws/lambda/{NAME}-writer"  # someone else's, in the way
ITEM = {"pk": {"S": "kept"}, "sk": {"S": "kept"}}


def test_a_first_deployment_that_fails_does_not_block_the_second(tmp_path: Path) -> None:
    check_tools()
    with MotoServer() as moto:
        made = Deployment(NAME, moto.endpoint, tmp_path, deploy=False)
        logs, dynamodb = made.client("logs"), made.client("dynamodb")
        logs.create_log_group(logGroupName=LOG)

        with pytest.raises(CommandError, match="ROLLBACK_COMPLETE"):
            made.deploy()

        tables = dynamodb.list_tables()["TableNames"]
        assert tables == [f"{NAME}-catalog", f"{NAME}-totals"]
        assert "QueueUrls" not in made.client("sqs").list_queues()
        buckets = made.client("s3").list_buckets()["Buckets"]
        assert [one["Name"].split("-")[0] for one in buckets] == ["cdk"]
        dynamodb.put_item(TableName=tables[0], Item=ITEM)

        logs.delete_log_group(logGroupName=LOG)
        made.deploy("--import-existing-resources")

        assert len(made.made) > 50
        assert dynamodb.scan(TableName=tables[0])["Items"] == [ITEM]
        queues = made.client("sqs").list_queues()["QueueUrls"]
        assert {url.rpartition("/")[2] for url in queues} == {
            f"{NAME}-events",
            f"{NAME}-dead-letters",
        }

from __future__ import annotations

from typing import Any

import pytest

from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.resources import TableDeclaration, declare
from tallyroll.settings.options import Options
from tests.infra.templates import Template, named, only, tags

DECLARED = declare(Options().settings())
# Another id makes CloudFormation replace the resource, by an empty one.
LOGICAL_IDS = {
    "PipelineQueuesDeadLetters1BCBE4C9": "AWS::SQS::Queue",
    "PipelineQueuesEvents3F6CC386": "AWS::SQS::Queue",
    "PipelineStorageArchiveC726FDB3": "AWS::S3::Bucket",
    "PipelineStorageCatalog10A438BB": "AWS::DynamoDB::Table",
    "PipelineStorageTotalsBB8B82D4": "AWS::DynamoDB::Table",
}


def stateful(template: Template) -> dict[str, dict[str, Any]]:
    """What keeps data, by logical id."""
    kinds = set(LOGICAL_IDS.values())
    return {id_: one for id_, one in template["Resources"].items() if one["Type"] in kinds}


@pytest.mark.parametrize("declared", [DECLARED.catalog, DECLARED.totals], ids=lambda d: d.name)
def test_tables_are_as_declared(template: Template, declared: TableDeclaration) -> None:
    id_ = named(template, "AWS::DynamoDB::Table", "TableName", declared.name)
    table = dict(template["Resources"][id_]["Properties"])

    recovery = table.pop("PointInTimeRecoverySpecification")
    assert recovery == {"PointInTimeRecoveryEnabled": declared.point_in_time_recovery}
    assert table == table_request(declared)


def test_the_bucket_is_private_versioned_and_grows_cold(template: Template) -> None:
    bucket = only(template, "AWS::S3::Bucket")

    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert all(bucket["PublicAccessBlockConfiguration"].values())
    assert len(bucket["PublicAccessBlockConfiguration"]) == 4
    assert tags(bucket) == DECLARED.bucket.tags
    [rule] = bucket["LifecycleConfiguration"]["Rules"]
    assert rule["Status"] == "Enabled"
    assert rule["Transitions"] == [
        {"StorageClass": "GLACIER_IR", "TransitionInDays": DECLARED.bucket.cold_after_days}
    ]
    assert rule["NoncurrentVersionExpiration"] == {
        "NoncurrentDays": DECLARED.bucket.noncurrent_days
    }
    assert not {"ExpirationInDays", "ExpirationDate", "Prefix"} & rule.keys()


def test_what_keeps_data_stays_when_the_stack_goes(template: Template) -> None:
    for found in stateful(template).values():
        assert found["UpdateReplacePolicy"] == "Retain"
        assert found["DeletionPolicy"] in ("Retain", "RetainExceptOnCreate")


def test_a_first_deployment_that_fails_leaves_nothing_that_blocks_the_next(
    template: Template,
) -> None:
    """A rollback removes queues and bucket. A table with deletion protection it cannot remove; with
    its name in the template it can be imported.
    """
    for found in stateful(template).values():
        is_table = found["Type"] == "AWS::DynamoDB::Table"
        wanted = "Retain" if is_table else "RetainExceptOnCreate"
        assert found["DeletionPolicy"] == wanted
        assert is_table == found["Properties"].get("DeletionProtectionEnabled", False)
        if is_table:
            assert isinstance(found["Properties"]["TableName"], str)


def test_logical_ids_of_what_keeps_data_do_not_change(template: Template, chosen: Template) -> None:
    for made in (template, chosen):
        assert {id_: one["Type"] for id_, one in stateful(made).items()} == LOGICAL_IDS

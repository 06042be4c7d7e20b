from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import Any

import pytest

from tallyroll.adapters.aws.create_requests import expiry_request, table_request
from tallyroll.adapters.dynamodb.items import identity_item
from tallyroll.archive.layout import data_dir, prefix_of, progress_dir, proof_key, summary_key
from tallyroll.model.ids import IdentityItem
from tallyroll.ports.bucket import TAG_PASSING
from tallyroll.resources import TableDeclaration, declare
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import OptionsError
from tests.infra.conftest import KEY, Synthesize
from tests.infra.templates import (
    FUNCTIONS,
    Template,
    actions,
    named,
    only,
    resource,
    statements,
    tags,
)

DECLARED = declare(Options().settings())
REMEMBERING = declare(Options(identity="pipeline").settings())
LOCKS = {"s3:PutObjectRetention", "s3:PutObjectLegalHold", "s3:BypassGovernanceRetention"}
THERE = "arn:aws:kms:eu-central-1:123456789012:key/mrk-1234"
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


@pytest.mark.parametrize("declared", REMEMBERING.permanent, ids=lambda d: d.name)
def test_tables_are_as_declared(remembering: Template, declared: TableDeclaration) -> None:
    id_ = named(remembering, "AWS::DynamoDB::Table", "TableName", declared.name)
    table = dict(remembering["Resources"][id_]["Properties"])

    recovery = table.pop("PointInTimeRecoverySpecification")
    assert recovery == {"PointInTimeRecoveryEnabled": declared.point_in_time_recovery}
    if declared.expires_by:
        expiry = {"TimeToLiveSpecification": table.pop("TimeToLiveSpecification")}
        assert expiry_request(declared) == {"TableName": declared.name, **expiry}
    assert table == table_request(declared)


def test_the_table_of_identities_has_one_key_and_its_items_expire(remembering: Template) -> None:
    id_ = named(remembering, "AWS::DynamoDB::Table", "TableName", "tallyroll-identities")
    table = remembering["Resources"][id_]["Properties"]

    item = identity_item(IdentityItem("name", "20261120T080000Z", "k", b"digest", 1_795_168_800))
    [key] = table["KeySchema"]
    assert key == {"AttributeName": "pk", "KeyType": "HASH"}
    assert item["pk"] == {"S": "name"}
    expiry = table["TimeToLiveSpecification"]
    assert expiry == {"AttributeName": "expires", "Enabled": True}
    assert item[expiry["AttributeName"]] == {"N": "1795168800"}
    assert table["DeletionProtectionEnabled"]


@pytest.mark.parametrize(
    "options",
    [
        {"identity": "key"},
        {"identity": "pipeline", "warm_units": 20_000},
        {"keep_identities": True},
    ],
    ids="-".join,
)
def test_nothing_else_is_made_for_identities(
    template: Template, synthesize: Synthesize, options: dict[str, Any]
) -> None:
    """Least of all a warm throughput, which no later template could make lower."""
    made = synthesize(**options)
    [added] = made["Resources"].keys() - template["Resources"].keys()
    assert template["Resources"].keys() < made["Resources"].keys()
    assert made["Resources"][added]["Properties"]["TableName"] == "tallyroll-identities"
    assert made["Outputs"].keys() - template["Outputs"].keys() == {"IdentitiesTable"}
    changed = {
        one["Type"] for id_, one in template["Resources"].items() if made["Resources"][id_] != one
    }
    # Environment, permissions, and a graph's line.
    assert changed == {"AWS::Lambda::Function", "AWS::IAM::Role", "AWS::CloudWatch::Dashboard"}
    assert "WarmThroughput" not in json.dumps(made)


def test_the_bucket_is_private_versioned_and_grows_cold(template: Template) -> None:
    bucket = only(template, "AWS::S3::Bucket")

    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert all(bucket["PublicAccessBlockConfiguration"].values())
    assert len(bucket["PublicAccessBlockConfiguration"]) == 4
    assert tags(bucket) == DECLARED.bucket.tags
    rule, _ = bucket["LifecycleConfiguration"]["Rules"]
    assert rule["Status"] == "Enabled"
    assert rule["Transitions"] == [{"StorageClass": "GLACIER_IR", "TransitionInDays": 30}]
    assert rule["NoncurrentVersionExpiration"] == {
        "NoncurrentDays": DECLARED.bucket.noncurrent_days
    }
    assert not {"ExpirationInDays", "ExpirationDate", "Prefix"} & rule.keys()


def test_notes_of_progress_alone_are_deleted(template: Template) -> None:
    """By their tag, which only cleanup may set, and on nothing else."""
    bucket = only(template, "AWS::S3::Bucket")
    _, rule = bucket["LifecycleConfiguration"]["Rules"]
    assert rule == {
        "Id": "passing",
        "Prefix": "archive/",
        "TagFilters": [{"Key": TAG_PASSING, "Value": "true"}],
        "ExpirationInDays": DECLARED.bucket.progress_days,
        "Status": "Enabled",
    }
    tagging = {
        name: [one for one in statements(template, name) if "s3:PutObjectTagging" in actions(one)]
        for name in FUNCTIONS
    }
    [by_cleanup] = tagging.pop("cleanup")
    assert not any(tagging.values())
    _, _, objects = resource(by_cleanup).partition("/")
    prefix = prefix_of("tallyroll", "20261120T080000Z", "a1")
    assert fnmatchcase(f"{progress_dir(prefix)}proof-00000.json", objects)
    for key in (proof_key(prefix), summary_key(prefix), f"{data_dir(prefix)}000-0000.json.gz"):
        assert not fnmatchcase(key, objects)


def test_archives_are_locked_and_expire_where_options_ask_for_it(
    template: Template, synthesize: Synthesize
) -> None:
    asked = {"archive_lock_days": 365, "archive_expire_days": 400, "archive": "parquet"}
    made = synthesize(**asked)
    before, bucket = only(template, "AWS::S3::Bucket"), only(made, "AWS::S3::Bucket")
    *rules, expiring = bucket["LifecycleConfiguration"].pop("Rules")
    assert rules == before["LifecycleConfiguration"]["Rules"]
    assert expiring == {
        "Id": "expiring",
        "Prefix": "archive/",
        "ExpirationInDays": 400,
        "Status": "Enabled",
    }
    assert bucket.pop("ObjectLockEnabled") is True
    # No default retention: it would also lock notes, tickets and payloads.
    assert bucket.pop("ObjectLockConfiguration") == {"ObjectLockEnabled": "Enabled"}
    assert bucket.keys() == before.keys()
    locking = {
        name: {resource(one) for one in statements(made, name) if LOCKS & {*actions(one)}}
        for name in (*FUNCTIONS, "compactor")
    }
    [archives], [parquet] = locking.pop("cleanup"), locking.pop("compactor")
    assert archives.endswith("/archive/tallyroll/*")
    assert parquet.endswith("/archive/tallyroll/*.parquet.*")
    assert not any(locking.values())
    assert "BypassGovernanceRetention" not in json.dumps(made)


@pytest.mark.parametrize("keys", [{}, {"kms_key": KEY, "archive_replica_key": THERE}])
def test_archives_and_payloads_are_copied_where_an_option_asks_for_it(
    synthesize: Synthesize, keys: dict[str, str]
) -> None:
    made = synthesize(archive_replica="arn:aws:s3:::copies", archive_lock_days=365, **keys)
    rules = only(made, "AWS::S3::Bucket")["ReplicationConfiguration"]["Rules"]
    assert [rule["Filter"] for rule in rules] == [{"Prefix": "archive/"}, {"Prefix": "payloads/"}]
    for rule in rules:
        assert rule["DeleteMarkerReplication"] == {"Status": "Disabled"}
        there = {"EncryptionConfiguration": {"ReplicaKmsKeyID": THERE}} if keys else {}
        assert rule["Destination"] == {"Bucket": "arn:aws:s3:::copies", **there}
        assert ("SourceSelectionCriteria" in rule) == bool(keys)
    policy = only(made, "AWS::IAM::Policy")["PolicyDocument"]["Statement"]
    granted = {action for one in policy for action in actions(one)}
    keyed = {"kms:Decrypt", "kms:Encrypt"} if keys else set()
    assert keyed == {action for action in granted if action.startswith("kms:")}
    assert {"s3:GetObjectRetention", "s3:ReplicateObject", "s3:ReplicateTags"} <= granted
    assert "s3:ReplicateDelete" not in granted


def test_a_copy_under_a_key_needs_one_there(synthesize: Synthesize) -> None:
    for keys in ({"kms_key": KEY}, {"archive_replica_key": THERE}):
        with pytest.raises(OptionsError, match=r"^tallyroll:archive_replica_key .*in the Region"):
            synthesize(archive_replica="arn:aws:s3:::copies", **keys)


def test_what_keeps_data_stays_when_the_stack_goes(remembering: Template) -> None:
    for found in stateful(remembering).values():
        assert found["UpdateReplacePolicy"] == "Retain"
        assert found["DeletionPolicy"] in ("Retain", "RetainExceptOnCreate")


def test_a_first_deployment_that_fails_leaves_nothing_that_blocks_the_next(
    remembering: Template,
) -> None:
    """A rollback removes queues and bucket. A table with deletion protection it cannot remove; with
    its name in the template it can be imported.
    """
    for found in stateful(remembering).values():
        is_table = found["Type"] == "AWS::DynamoDB::Table"
        wanted = "Retain" if is_table else "RetainExceptOnCreate"
        assert found["DeletionPolicy"] == wanted
        assert is_table == found["Properties"].get("DeletionProtectionEnabled", False)
        if is_table:
            assert isinstance(found["Properties"]["TableName"], str)


def test_logical_ids_of_what_keeps_data_do_not_change(
    template: Template, chosen: Template, remembering: Template
) -> None:
    beside = {"PipelineStorageIdentitiesF6834C5B": "AWS::DynamoDB::Table"}
    for made, more in ((template, {}), (chosen, {}), (remembering, beside)):
        wanted = {**LOGICAL_IDS, **more}
        assert {id_: one["Type"] for id_, one in stateful(made).items()} == wanted

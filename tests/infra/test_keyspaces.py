"""A pipeline with a keyspace: its tables, who may do what there, the driver, the way from a VPC."""

# ruff: noqa: PLC0415  (importing the CDK starts Node.js, which has to be found first)

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from release.package import package
from tallyroll.adapters.cassandra import cql
from tallyroll.adapters.cassandra.session import cql_name
from tallyroll.model.windows import KEYSPACES, table_name
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import OptionsError
from tests.harness.processes import ran
from tests.infra.conftest import KEY, TAGS, Built, Synthesize
from tests.infra.statements import needed, verbs_of
from tests.infra.templates import (
    FUNCTIONS,
    Template,
    actions,
    function,
    of_type,
    only,
    statements,
    text,
)
from tests.infra.test_options import LAYER
from tests.infra.test_snapshot import TYPES

if TYPE_CHECKING:
    import aws_cdk as cdk

WINDOW = "20261120T080000Z"
EXTRA = {"AWS::Cassandra::Keyspace": 1, "AWS::Cassandra::Table": 3, "AWS::Lambda::LayerVersion": 1}
READS = {(where, "cassandra:Select") for where in ("windows", "gates", "seals", "tables", "system")}


@pytest.fixture(scope="module")
def stored(synthesize: Synthesize) -> Template:
    """The template of a pipeline with windows in Keyspaces."""
    return synthesize(store="keyspaces", name="vote-night")


@pytest.fixture(scope="module")
def governed(synthesize: Synthesize) -> Template:
    """The same, with tags and a key, in a VPC, traced by a layer."""
    return synthesize(
        store="keyspaces",
        tags=json.dumps(TAGS),
        kms_key=KEY,
        vpc_subnets="subnet-0a1b2c3d",
        vpc_security_groups="sg-0a1b2c3d",
        tracing="true",
        tracing_layer=LAYER,
    )


def in_cassandra(template: Template, name: str, effect: str = "Allow") -> list[dict[str, Any]]:
    """What is said of Keyspaces in a function's role."""
    found = statements(template, name, effect)
    return [one for one in found if actions(one)[0].startswith("cassandra:")]


def labels(one: dict[str, Any], keyspace: str = "vote_night") -> list[str]:
    """What a statement's resources are: one of the words of `statements.needed`."""
    resources = one["Resource"] if isinstance(one["Resource"], list) else [one["Resource"]]
    paths = [text(each).partition("/keyspace/")[2] for each in resources]
    named = [path.removeprefix(f"{keyspace}/table/") for path in paths]
    return ["system" if n == "system*" else "windows" if n.endswith("Z") else n for n in named]


def granted(template: Template, name: str) -> set[tuple[str, str]]:
    """What a function may do in Keyspaces."""
    return {
        (where, action)
        for one in in_cassandra(template, name)
        for where in labels(one)
        for action in actions(one)
    }


def test_what_there_is_besides(stored: Template) -> None:
    assert Counter(one["Type"] for one in stored["Resources"].values()) == TYPES | EXTRA


def test_without_a_keyspace_there_is_nothing_of_it(template: Template) -> None:
    assert "assandra" not in json.dumps(template)


def test_all_else_stays_what_it_is(template: Template, synthesize: Synthesize) -> None:
    with_it = synthesize(store="keyspaces")["Resources"]
    assert template["Resources"].keys() < with_it.keys()
    for id_, resource in template["Resources"].items():
        of_the_quota = resource["Type"].endswith("Dashboard") or "WindowTables" in id_
        if resource["Type"] not in ("AWS::Lambda::Function", "AWS::IAM::Role") and not of_the_quota:
            assert with_it[id_] == resource


def test_a_keyspace_is_kept_after_a_change_back(synthesize: Synthesize) -> None:
    """New windows are in DynamoDB again, and those in Keyspaces still have their tables."""
    back = synthesize(store="dynamodb", keyspace="votes")
    assert only(back, "AWS::Cassandra::Keyspace")["KeyspaceName"] == "votes"
    environment = function(back, "writer")["Environment"]["Variables"]
    assert environment["TALLYROLL_KEYSPACE"] == "votes"
    assert "TALLYROLL_STORE" not in environment


def test_the_tables_are_those_of_the_adapter(stored: Template) -> None:
    """In CQL as the adapter makes them on a node: the columns, their types and their order."""
    made = {}
    for table in of_type(stored, "AWS::Cassandra::Table").values():
        types = [
            f"{each['ColumnName']} {each['ColumnType']}"
            for part in ("PartitionKeyColumns", "ClusteringKeyColumns", "RegularColumns")
            for each in (one.get("Column", one) for one in table.get(part, ()))
        ]
        partition = ", ".join(one["ColumnName"] for one in table["PartitionKeyColumns"])
        clustering = [one["Column"]["ColumnName"] for one in table.get("ClusteringKeyColumns", ())]
        key = ", ".join([f"({partition})", *clustering])
        made[table["TableName"]] = f"({', '.join(types)}, PRIMARY KEY ({key}))"
    texts = (cql.CREATE_GATES, cql.CREATE_SEALS, cql.CREATE_TABLES)
    wanted = {}
    for name, each in zip(cql.PERMANENT_NAMES, texts, strict=True):
        wanted[name] = each.removeprefix(f"CREATE TABLE IF NOT EXISTS {{keyspace}}.{name} ")
    assert made == wanted


def test_the_tables_outlive_the_stack(stored: Template) -> None:
    """Also the rollback of the deployment that makes them: window tables may be there by then."""
    for kind in ("AWS::Cassandra::Keyspace", "AWS::Cassandra::Table"):
        for id_ in of_type(stored, kind):
            resource = stored["Resources"][id_]
            assert resource["DeletionPolicy"] == "Retain"
            assert resource["UpdateReplacePolicy"] == "Retain"
            assert {"Key": "tallyroll", "Value": "vote-night"} in resource["Properties"]["Tags"]
    [keyspace] = of_type(stored, "AWS::Cassandra::Keyspace")
    for id_, table in of_type(stored, "AWS::Cassandra::Table").items():
        assert stored["Resources"][id_]["DependsOn"] == [keyspace]
        assert table["PointInTimeRecoveryEnabled"] is True
        assert table["EncryptionSpecification"]["EncryptionType"] == "AWS_OWNED_KMS_KEY"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nothing_is_granted_that_no_statement_needs_and_nothing_needed_is_missing(
    stored: Template, name: str
) -> None:
    verbs = verbs_of(name)
    assert verbs, "the trace lost its way"
    wanted = needed(verbs)
    # Nobody reads a window's rows to drop it; one rule for all readers is shorter.
    assert sorted(granted(stored, name) - wanted - READS) == []
    assert sorted(wanted - granted(stored, name)) == []


def test_who_may_what(stored: Template) -> None:
    may = {name: {action for _, action in granted(stored, name)} for name in FUNCTIONS}

    def who(action: str) -> set[str]:
        return {name for name in FUNCTIONS if f"cassandra:{action}" in may[name]}

    assert who("Create") == {"roller"}
    assert who("Drop") == {"dropper"}
    assert who("TagResource") == who("Alter") == {"roller", "cleanup"}
    assert who("UntagResource") == set()
    assert ("windows", "cassandra:Modify") in granted(stored, "writer")
    assert ("windows", "cassandra:Modify") not in granted(stored, "dropper")
    assert may["aggregator"] == {"cassandra:Select"}


def test_a_table_without_proof_cannot_be_dropped(stored: Template) -> None:
    [drop] = [one for one in in_cassandra(stored, "dropper") if "cassandra:Drop" in actions(one)]
    never, untagged = in_cassandra(stored, "dropper", "Deny")
    assert labels(drop) == labels(never) == labels(untagged) == ["windows"]
    assert drop["Condition"] == {"Null": {"aws:ResourceTag/proven": "false"}}
    assert never["Condition"] == {"Null": {"aws:ResourceTag/proven": "true"}}
    assert actions(never) == ["cassandra:Drop"]
    assert actions(untagged) == [
        "cassandra:Alter",
        "cassandra:TagResource",
        "cassandra:UntagResource",
    ]
    [denied] = in_cassandra(stored, "cleanup", "Deny")
    assert (actions(denied), labels(denied)) == (["cassandra:Drop"], ["windows"])


def test_only_cleanup_says_that_a_table_is_proven(stored: Template, governed: Template) -> None:
    def tags(template: Template, name: str) -> list[str]:
        [one] = [
            one for one in in_cassandra(template, name) if "cassandra:TagResource" in actions(one)
        ]
        assert one["Condition"]["Null"] == {"aws:TagKeys": "false"}
        found = one["Condition"]["ForAllValues:StringEquals"]["aws:TagKeys"]
        return [found] if isinstance(found, str) else list(found)

    assert tags(stored, "cleanup") == ["proven"]
    assert tags(stored, "roller") == ["tallyroll"]
    assert tags(governed, "roller") == ["tallyroll", *sorted(TAGS)]
    [altering] = [
        one for one in in_cassandra(stored, "cleanup") if "cassandra:Alter" in actions(one)
    ]
    assert "Condition" in altering


def test_the_pattern_matches_this_pipelines_window_tables_alone(stored: Template) -> None:
    [drop] = [one for one in in_cassandra(stored, "dropper") if "cassandra:Drop" in actions(one)]
    pattern = text(drop["Resource"]).rpartition("/")[2]
    assert fnmatchcase(cql_name(table_name("vote-night", WINDOW, KEYSPACES)), pattern)
    for other in ("vote", "vote-night-b", "votes-night"):
        assert not fnmatchcase(cql_name(table_name(other, WINDOW, KEYSPACES)), pattern)
    for table in cql.PERMANENT_NAMES:
        assert not fnmatchcase(table, pattern)
    assert ":cassandra:" in text(drop["Resource"])
    assert text(drop["Resource"]).endswith(f":/keyspace/vote_night/table/{pattern}")


def test_a_key_is_for_all_tables(governed: Template) -> None:
    for table in of_type(governed, "AWS::Cassandra::Table").values():
        assert table["EncryptionSpecification"] == {
            "EncryptionType": "CUSTOMER_MANAGED_KMS_KEY",
            "KmsKeyIdentifier": KEY,
        }
    using = [
        one
        for one in statements(governed, "roller")
        if "cassandra." in json.dumps(one.get("Condition", {}))
    ]
    assert len(using) == 1
    assert "kms:CreateGrant" in actions(using[0])
    assert using[0]["Resource"] == KEY


def test_the_driver_is_a_layer_of_all_functions(stored: Template, governed: Template) -> None:
    [driver] = of_type(stored, "AWS::Lambda::LayerVersion")
    [other] = of_type(governed, "AWS::Lambda::LayerVersion")
    for name in FUNCTIONS:
        assert function(stored, name)["Layers"] == [{"Ref": driver}]
        assert function(governed, name)["Layers"] == [{"Ref": other}, LAYER]


def test_a_package_without_the_cdk_has_the_driver_too(stored: Template, tmp_path: Path) -> None:
    (tmp_path / "vote-night.template.json").write_text(json.dumps(stored))
    [content] = [one["Content"] for one in of_type(stored, "AWS::Lambda::LayerVersion").values()]
    for key in (function(stored, "writer")["Code"]["S3Key"], content["S3Key"]):
        folder = tmp_path / f"asset.{key.removesuffix('.zip')}"
        folder.mkdir()
        (folder / "inside").write_text(key)
    code, plain, driver = package(tmp_path, tmp_path / "build")
    template = json.loads(plain.read_text())
    assert template["Parameters"]["DriverKey"]["Default"] == driver.name != code.name
    assert only(template, "AWS::Lambda::LayerVersion")["Content"] == {
        "S3Bucket": {"Ref": "CodeBucket"},
        "S3Key": {"Ref": "DriverKey"},
    }
    assert "cdk" not in json.dumps(template).lower()


@pytest.mark.parametrize(
    ("architecture", "runtime", "platforms"),
    [
        (
            "arm64",
            "python3.11",
            [f"manylinux{each}_aarch64" for each in ("2014", "_2_17", "_2_26")],
        ),
        (
            "x86_64",
            "python3.13",
            [f"manylinux{each}_x86_64" for each in ("2014", "_2_17", "_2_26", "_2_28", "_2_34")],
        ),
    ],
)
def test_wheels_are_for_the_runtime(
    node: None, tmp_path: Path, architecture: str, runtime: str, platforms: list[str]
) -> None:
    from tallyroll.cdk.code.layers import DRIVER, fetch

    asked: list[list[str]] = []

    def run(command: list[str]) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        for name in ("cassandra/query.so", "cassandra/query.c", "bin/geomet", "a/RECORD"):
            (tmp_path / "python" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "python" / name).touch()
        return subprocess.CompletedProcess(command, 0, "", "")

    fetch(tmp_path, DRIVER, architecture, runtime, run)
    [command] = asked
    given = [after for at, after in pairwise(command) if at == "--platform"]
    assert given == platforms
    assert command[command.index("--python-version") + 1] == runtime.removeprefix("python")
    assert command[-3:] == ["--require-hashes", "--requirement", str(DRIVER.file())]
    files = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert files == ["query.so"]


def test_what_pip_cannot_fetch_is_told(node: None, tmp_path: Path) -> None:
    from tallyroll.cdk.code import CodeMissingError
    from tallyroll.cdk.code.layers import DRIVER, fetch

    def run(command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "No module named pip")

    with pytest.raises(CodeMissingError, match=r"pass in driver=.*No module named pip"):
        fetch(tmp_path, DRIVER, "arm64", "python3.12", run)


@pytest.mark.slow
def test_the_layer_is_enough_to_load_the_driver(node: None, tmp_path: Path) -> None:
    """That of this machine's Python, on the architecture that the tests run on."""
    import platform

    from tallyroll.cdk.code.layers import DRIVER, fetch

    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("the layer's machine code is for another machine")
    fetch(tmp_path, DRIVER, "x86_64", f"python3.{sys.version_info.minor}")
    loaded = "import cassandra.cluster as c, cassandra.io.libevreactor; print(c.__file__)"
    done = ran(
        [sys.executable, "-S", "-c", loaded],
        env={"PYTHONPATH": str(tmp_path / "python")},
        check=True,
    )
    assert done.stdout.startswith(str(tmp_path / "python" / "cassandra" / "cluster.cpython"))
    size = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert size < 20 << 20  # of 250 MB that a function and its layers may have


def test_a_layer_that_is_passed_in_is_used(built: Built) -> None:
    from aws_cdk import aws_lambda as lambda_

    from tallyroll.cdk import Tallyroll

    def build(stack: cdk.Stack) -> None:
        own = lambda_.LayerVersion.from_layer_version_arn(stack, "Own", LAYER)
        Tallyroll(stack, "Counter", options=Options(store="keyspaces"), driver=own)

    template = built(build)
    assert not of_type(template, "AWS::Lambda::LayerVersion")
    assert function(template, "writer")["Layers"] == [LAYER]


def test_a_vpc_lets_out_to_keyspaces_and_may_have_its_endpoint(built: Built) -> None:
    from aws_cdk import aws_ec2 as ec2

    from tallyroll.cdk import Endpoints, Tallyroll

    def build(stack: cdk.Stack) -> None:
        vpc = ec2.Vpc(stack, "Vpc")
        Endpoints(stack, "Endpoints", vpc=vpc, services=["cassandra"])
        Tallyroll(stack, "Counter", options=Options(store="keyspaces"), vpc=vpc)

    template = built(build)
    groups = of_type(template, "AWS::EC2::SecurityGroup").values()
    out = {rule.get("ToPort") for one in groups for rule in one["SecurityGroupEgress"]}
    assert {443, 9142} <= out
    let_in = [rule for one in groups for rule in one.get("SecurityGroupIngress", ())]
    assert [rule["ToPort"] for rule in let_in] == [9142]
    endpoint = only(template, "AWS::EC2::VPCEndpoint")
    assert re.search(r"\.cassandra$", text(endpoint["ServiceName"]))


def test_functions_in_a_vpc_are_told_of_all_endpoints(governed: Template) -> None:
    looks = {"ec2:DescribeNetworkInterfaces", "ec2:DescribeVpcEndpoints"}
    for name in FUNCTIONS:
        allowed = {action for one in statements(governed, name) for action in actions(one)}
        denied = {action for one in statements(governed, name, "Deny") for action in actions(one)}
        assert looks <= allowed
        assert "ec2:CreateNetworkInterface" in denied
        assert not looks & denied


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "a" * 32}, "tallyroll:name 'a{32}': .* give a name of at most 31, or"),
        ({"mapping": {"keys": ["a", "b"]}}, "tallyroll:mapping .*: keys: .* give one `key`"),
        (
            {"mapping": {"keys": ["a", "b"]}, "store": "dynamodb", "keyspace": "votes"},
            "give one `key` as long as tallyroll:store is",
        ),
        ({"retention_seconds": 11 * 86_400}, r"the quota of 256 \(tallyroll:table_quota\)"),
        ({"keyspace": "Votes"}, "tallyroll:keyspace 'Votes': give 1 to 48 lower-case"),
        ({"store": "scylla"}, "tallyroll:store 'scylla': give one of dynamodb, keyspaces"),
    ],
)
def test_options_that_cannot_be_together(options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionsError, match=said):
        Options(**{"store": "keyspaces", **options})

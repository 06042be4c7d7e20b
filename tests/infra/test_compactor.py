"""A pipeline whose archives are made as Parquet, too: one more function, with DuckDB of its own."""

# ruff: noqa: PLC0415  (importing the CDK starts Node.js, which has to be found first)

from __future__ import annotations

import json
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from release.package import package
from tallyroll.archive.layout import ParquetFile, parquet_prefix, prefix_of
from tallyroll.operations.doctor.rights import COMPACTOR, OF_COMPACTOR
from tallyroll.ports.bucket import ticket_of
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import OptionsError
from tests.harness.processes import ran
from tests.infra.calls import Trace
from tests.infra.conftest import KEY, Synthesize
from tests.infra.grants import label, needed
from tests.infra.templates import (
    FUNCTIONS,
    Template,
    actions,
    function,
    of_type,
    resource,
    statements,
    watched_by,
)
from tests.infra.test_permissions import OF_LOGS, granted

SOURCE = prefix_of("tallyroll", "20261120T080000Z", "20261120T100000Z-0f0f0f0f0f0f")
MADE = parquet_prefix(SOURCE, [ParquetFile("events/0000.parquet", 1, "00")])
TAGGING = "s3:PutObjectTagging"


@pytest.fixture(scope="module")
def both(synthesize: Synthesize) -> Template:
    """The template of a pipeline whose archives stay in both layouts."""
    return synthesize(archive="both")


@pytest.fixture(scope="module")
def parquet(synthesize: Synthesize) -> Template:
    """The template of a pipeline whose archives stay as Parquet alone."""
    return synthesize(archive="parquet")


def test_by_default_nothing_of_it_is_there(
    template: Template, synthesize: Synthesize, both: Template
) -> None:
    assert synthesize(archive="dynamodb") == template
    assert "ompact" not in json.dumps(template)
    more = {
        id_: both["Resources"][id_]["Type"]
        for id_ in {*both["Resources"]} - {*template["Resources"]}
    }
    assert sorted(more.values()) == [
        "AWS::CloudWatch::Alarm",
        "AWS::IAM::Role",
        "AWS::Lambda::EventInvokeConfig",
        "AWS::Lambda::Function",
        "AWS::Lambda::LayerVersion",
        "AWS::Logs::LogGroup",
        "AWS::Scheduler::Schedule",
    ]
    changed = {id_ for id_, one in template["Resources"].items() if both["Resources"][id_] != one}
    assert {template["Resources"][id_]["Type"] for id_ in changed} <= {
        "AWS::CloudWatch::Dashboard",
        "AWS::IAM::Role",  # cleanup's and the scheduler's
        "AWS::Lambda::Function",  # their settings
    }


def test_an_alarm_tells_what_waits_and_silence(both: Template) -> None:
    found = of_type(both, "AWS::CloudWatch::Alarm").values()
    [alarm] = [one for one in found if one["AlarmName"] == "tallyroll-parquet-stuck"]
    [metric] = watched_by(alarm)
    assert (metric["MetricName"], alarm["Threshold"]) == ("StuckFor", 6 * 3_600)
    assert {"Name": "service", "Value": "compactor"} in metric["Dimensions"]
    assert alarm["TreatMissingData"] == "breaching"
    assert alarm["EvaluationPeriods"] == 3


def test_duckdb_is_in_a_layer_of_this_function_alone(both: Template) -> None:
    [layer] = of_type(both, "AWS::Lambda::LayerVersion")
    made = function(both, "compactor")
    assert made["Layers"] == [{"Ref": layer}]
    assert made["EphemeralStorage"] == {"Size": 10_240}
    for name in FUNCTIONS:
        assert "Layers" not in function(both, name)
        assert function(both, name)["Code"] == made["Code"]


@pytest.mark.parametrize("snap_start", [False, True])
def test_reads_of_archives_have_the_layer_too(synthesize: Synthesize, snap_start: bool) -> None:
    options = {"snap_start": True, "runtime": "python3.13"} if snap_start else {}
    template = synthesize(archive="parquet", read_archives=True, **options)
    [layer] = of_type(template, "AWS::Lambda::LayerVersion")
    assert function(template, "aggregator")["Layers"] == [{"Ref": layer}]
    assert [one for one in FUNCTIONS if "Layers" in function(template, one)] == ["aggregator"]
    without = synthesize(read_archives=True)
    assert of_type(without, "AWS::Lambda::LayerVersion") == {}


def test_it_runs_every_hour_and_never_twice_at_once(both: Template) -> None:
    made = of_type(both, "AWS::Scheduler::Schedule").values()
    [rate] = [one["ScheduleExpression"] for one in made if one["Name"].endswith("-compactor")]
    assert rate == "rate(60 minutes)"
    assert function(both, "compactor")["Timeout"] < 3_600


@pytest.mark.parametrize("layout", ["both", "parquet"])
def test_it_may_do_what_its_code_does(synthesize: Synthesize, layout: str) -> None:
    trace = Trace("compactor")
    wanted = set[tuple[str, str]]().union(*map(needed, trace.calls))
    template = synthesize(archive=layout)
    allowed = granted(template, "compactor") - OF_LOGS
    # A text's own are named like the codec's, which call nothing.
    assert {one.rpartition(".")[2] for one in trace.unclear} <= {"decode", "encode"}
    assert wanted - allowed == ({("objects", TAGGING)} if layout == "both" else set())
    assert allowed <= wanted


def allowing(template: Template, name: str, action: str, key: str, effect: str = "Allow") -> bool:
    """Whether a function may, or is denied to, make a call on an object of this key."""
    found = [one for one in statements(template, name, effect) if action in actions(one)]
    keys = [
        resource(one).partition("/")[2]
        for one in found
        if label(template, resource(one)) == "objects"
    ]
    return any(fnmatchcase(key, each) for each in keys)


def test_it_writes_and_tags_what_is_its_own(parquet: Template, both: Template) -> None:
    name = "compactor"
    for template in (parquet, both):
        assert allowing(template, name, "s3:GetObject", f"{SOURCE}/proof.json")
        assert allowing(template, name, "s3:PutObject", f"{MADE}/proof.json")
        assert not allowing(template, name, "s3:PutObject", f"{SOURCE}/proof.json")
        for key in (f"{SOURCE}/proof.json", f"{MADE}/proof.json"):
            assert not allowing(template, name, "s3:DeleteObject", key)
        for ticket in (ticket_of("tallyroll", f"{at}20261120T080000Z") for at in ("", "parked/")):
            assert allowing(template, name, "s3:DeleteObject", ticket)
            assert allowing(template, "cleanup", "s3:PutObject", ticket)
            assert not allowing(template, "cleanup", "s3:DeleteObject", ticket)
        assert not allowing(template, name, "s3:DeleteObject", ticket_of("other", "w"))
    assert not allowing(both, name, TAGGING, f"{SOURCE}/proof.json")
    assert allowing(parquet, name, TAGGING, f"{SOURCE}/proof.json")
    assert allowing(parquet, name, TAGGING, f"{MADE}/proof.json", "Deny")
    assert not allowing(parquet, name, TAGGING, f"{SOURCE}/proof.json", "Deny")
    [tagging] = [one for one in statements(parquet, name) if TAGGING in actions(one)]
    assert tagging["Condition"] == {
        "ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": ["tallyroll-passing"]},
        "StringEquals": {"s3:RequestObjectTag/tallyroll-passing": "true"},
    }
    verbs = {action for one in statements(parquet, name) for action in actions(one)}
    assert {verb for verb in verbs if verb.startswith("dynamodb:")} == {"dynamodb:GetItem"}


def test_the_doctor_asks_for_what_its_role_allows_without_a_condition(parquet: Template) -> None:
    allowed = {
        ("archives" if (what := label(parquet, resource(one))) == "objects" else what, action)
        for one in statements(parquet, COMPACTOR)
        if "Condition" not in one
        for action in actions(one)
    }
    assert {(what, call) for what, calls in OF_COMPACTOR.items() for call in calls} <= allowed


def test_a_key_is_used_as_far_as_it_encrypts_what_is_used(synthesize: Synthesize) -> None:
    keyed = synthesize(archive="parquet", kms_key=KEY)
    used = [one for one in statements(keyed, "compactor") if resource(one) == KEY]
    assert {action for one in used for action in actions(one)} >= {
        "kms:Decrypt",
        "kms:GenerateDataKey",
    }


def test_a_python_that_is_too_old_for_the_wheels_is_refused() -> None:
    with pytest.raises(OptionsError, match=r"archive both: needs tallyroll:runtime python3\.12"):
        Options(archive="both", architecture="x86_64")
    Options(archive="both", architecture="x86_64", runtime="python3.12")


def test_a_package_without_the_cdk_has_duckdb_too(both: Template, tmp_path: Path) -> None:
    (tmp_path / "tallyroll.template.json").write_text(json.dumps(both))
    [layer] = of_type(both, "AWS::Lambda::LayerVersion").values()
    for key in (function(both, "writer")["Code"]["S3Key"], layer["Content"]["S3Key"]):
        (tmp_path / f"asset.{key.removesuffix('.zip')}").mkdir()
    _, plain, duckdb = package(tmp_path, tmp_path / "build")
    assert json.loads(plain.read_text())["Parameters"]["DuckDBKey"]["Default"] == duckdb.name


@pytest.mark.slow
def test_the_layer_is_enough_to_make_parquet(node: None, tmp_path: Path) -> None:
    """That of this machine's Python, on the architecture that the tests run on."""
    import platform

    from tallyroll.cdk.code.layers import fetch
    from tallyroll.cdk.schedules.compactor import DUCKDB

    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("the layer's machine code is for another machine")
    here = max(12, sys.version_info.minor)  # the wheels' least for this architecture
    fetch(tmp_path, DUCKDB, "x86_64", f"python3.{here}")
    fetch(tmp_path / "arm", DUCKDB, "arm64", "python3.11")
    size = sum(path.stat().st_size for path in (tmp_path / "python").rglob("*") if path.is_file())
    assert size < 100 << 20  # of 250 MB that a function and its layers may have
    made = "import duckdb; duckdb.sql(\"COPY (SELECT 1) TO 'made' (FORMAT parquet)\")"
    paths = {"PYTHONPATH": str(tmp_path / "python")}
    if here == sys.version_info.minor:
        ran([sys.executable, "-S", "-c", made], cwd=tmp_path, env=paths, check=True)

"""An update from the release before, by both templates: nothing that holds data is replaced.

`tests/e2e/test_update.py` carries the same update out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from release.bundle import ROOT
from tests.harness.release import NAME, Release, write
from tests.harness.replacements import KEPT, harms, own_name
from tests.infra.conftest import Synthesize
from tests.infra.templates import Template, of_type

Change = Callable[[dict[str, Any]], Any]


@pytest.fixture(scope="module")
def before() -> Template:
    return Release().template


@pytest.fixture(scope="module")
def after(synthesize: Synthesize) -> Template:
    return synthesize(name=NAME)


def found(template: Template, kind: str) -> str:
    """The first logical id of a type."""
    return next(iter(of_type(template, kind)))


def moved(before: Template) -> list[str]:
    """The log of the API's calls, which holds no event, has another name since."""
    logs = of_type(before, "AWS::Logs::LogGroup")
    [log] = [id_ for id_, one in logs.items() if "apigateway" in str(one["LogGroupName"])]
    return [f"{log} would be replaced, for /properties/LogGroupName"]


def test_an_update_from_the_release_before_replaces_and_deletes_nothing_that_is_to_stay(
    before: Template, after: Template
) -> None:
    assert len([one for one in before["Resources"].values() if one["Type"] in KEPT]) > 10
    assert harms(before, after) == moved(before)


def test_an_update_can_be_taken_back_without_losing_what_the_release_before_had(
    before: Template, after: Template
) -> None:
    ids = before["Resources"].keys()
    shared = {id_: one for id_, one in after["Resources"].items() if id_ in ids}
    outputs = {name: one for name, one in after["Outputs"].items() if name in before["Outputs"]}

    back = {"Resources": shared, "Outputs": outputs}
    policies = [harm for harm in harms(before, before) if "Policy" in harm]
    assert [harm for harm in harms(back, before) if harm not in policies] == moved(before)


@pytest.mark.parametrize(
    ("kind", "change", "harm"),
    [
        ("AWS::DynamoDB::Table", lambda one: one["Properties"].update(TableName="x"), "replaced"),
        ("AWS::DynamoDB::Table", lambda one: one["Properties"]["KeySchema"].pop(), "replaced"),
        ("AWS::SQS::Queue", lambda one: one["Properties"].update(QueueName="x"), "replaced"),
        ("AWS::S3::Bucket", lambda one: one["Properties"].update(BucketName="x"), "replaced"),
        ("AWS::S3::Bucket", lambda one: one.pop("DeletionPolicy"), "DeletionPolicy None"),
        ("AWS::SQS::Queue", lambda one: one.update(UpdateReplacePolicy="Delete"), "Delete"),
        ("AWS::SNS::Topic", lambda one: one.update(Type="AWS::SQS::Queue"), "deleted"),
        (
            "AWS::Lambda::EventSourceMapping",
            lambda one: one["Properties"].update(EventSourceArn="x"),
            "replaced",
        ),
    ],
    ids=["name", "keys", "queue", "bucket", "policy", "replacement", "type", "mapping"],
)
def test_a_change_that_loses_something_is_named(
    after: Template, kind: str, change: Change, harm: str
) -> None:
    changed = copy.deepcopy(after)
    id_ = found(after, kind)
    change(changed["Resources"][id_])

    assert [one for one in harms(after, changed) if id_ in one and harm in one] != []


def test_a_table_under_another_logical_id_is_named_twice(after: Template) -> None:
    changed = copy.deepcopy(after)
    id_ = found(after, "AWS::DynamoDB::Table")
    changed["Resources"]["Moved"] = changed["Resources"].pop(id_)

    assert set(harms(after, changed)) >= {
        f"{id_} would be deleted",
        f"Moved cannot be made: {id_} has its name",
    }


def test_what_has_a_name_of_its_own_cannot_be_replaced(after: Template) -> None:
    changed = copy.deepcopy(after)
    id_ = found(after, "AWS::CloudWatch::Dashboard")
    before = copy.deepcopy(after)
    before["Resources"][id_] = {"Type": "AWS::IAM::Role", "Properties": {"RoleName": "a"}}
    changed["Resources"][id_] = {
        "Type": "AWS::IAM::Role",
        "Properties": {"RoleName": "a", "Path": "/b/"},
    }

    assert harms(before, changed) == [
        f"{id_} cannot be replaced under its name, for /properties/Path"
    ]
    assert own_name(after["Resources"][found(after, "AWS::IAM::Role")]) is None


def test_an_output_that_changes_is_named(after: Template) -> None:
    changed = copy.deepcopy(after)
    del changed["Outputs"]["QueueUrl"]

    assert harms(after, changed) == ["the output QueueUrl would change"]


def sources(template: Template) -> set[str]:
    """The files of an archive in which the handlers of a template are."""
    functions = of_type(template, "AWS::Lambda::Function").values()
    modules = {one["Handler"].rpartition(".")[0] for one in functions}
    return {f"code/{module.replace('.', '/')}.py" for module in modules}


def test_the_archive_holds_the_code_that_its_template_names(before: Template) -> None:
    release = Release()

    assert release.about.keys() == {"version", "commit", "date"}
    assert len(sources(before)) >= 4
    assert sources(before) < set(release.names)


def test_an_archive_of_this_clone_has_what_its_app_writes(
    after: Template, tmp_path: Path, node: None
) -> None:
    about = {"version": "1", "commit": "2", "date": "3"}
    write(ROOT, about, tmp_path / "one.tar.xz")

    release = Release(tmp_path / "one.tar.xz")
    assert (release.template, release.about) == (after, about)
    assert sources(after) | {"code/tallyroll/errors.py"} < set(release.names)
    assert not any(name.startswith("code/tallyroll/cli/") for name in release.names)

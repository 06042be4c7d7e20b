"""The projects in `examples`: their tests pass, and their stacks can be synthesized."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.processes import ran
from tests.testing.projects import passes, run_project

EXAMPLES = Path(__file__).parents[2] / "examples"
PROJECTS = sorted(path.parent.name for path in EXAMPLES.glob("*/app.py"))
SYNTH = """
import sys
import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from aws_cdk.assertions import Template
import app, json

[stack] = [made for made in vars(app).values() if getattr(made, "__module__", "") == "app"]
made = stack(cdk.App(), code=lambda_.Code.from_asset(sys.argv[1]))
print(json.dumps(Template.from_stack(made).to_json()))
"""


def test_each_project_is_listed() -> None:
    assert PROJECTS == ["forum", "page_views", "stock", "votes"]
    listed = (EXAMPLES / "README.md").read_text()
    assert all(f"[{name}]({name})" in listed for name in PROJECTS)


@pytest.mark.parametrize("project", PROJECTS)
def test_its_tests_pass_with_the_fixture_alone(tmp_path: Path, project: str) -> None:
    files = {path.name: path.read_text() for path in (EXAMPLES / project).glob("*.py")}
    tests = [text for name, text in files.items() if name.startswith("test_")]
    assert not any("import tallyroll" in text or "from tallyroll" in text for text in tests)
    passes(run_project(tmp_path, files), sum(text.count("def test_") for text in tests))


def template(project: str, code: Path) -> dict[str, Any]:
    code.mkdir()
    done = ran(
        [sys.executable, "-c", SYNTH, str(code)],
        cwd=EXAMPLES / project,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    resources: dict[str, Any] = json.loads(done.stdout)["Resources"]
    return resources


def of_type(resources: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [each["Properties"] for each in resources.values() if each["Type"] == kind]


def environments(resources: dict[str, Any]) -> list[dict[str, Any]]:
    functions = of_type(resources, "AWS::Lambda::Function")
    return [each.get("Environment", {}).get("Variables", {}) for each in functions]


def test_the_service_may_post_votes_to_a_pipeline_of_one_vote_a_voter(tmp_path: Path) -> None:
    resources = template("votes", tmp_path / "code")
    functions = of_type(resources, "AWS::Lambda::Function")
    [service] = [each for each in functions if each["Handler"] == "votes.handler"]
    queue = service["Environment"]["Variables"]["VOTES_QUEUE_URL"]["Ref"]
    assert queue.startswith("PipelineQueues")
    assert "pipeline" in [each.get("TALLYROLL_IDENTITY") for each in environments(resources)]
    tables = of_type(resources, "AWS::DynamoDB::Table")
    assert "votes-identities" in [each["TableName"] for each in tables]


def test_the_rule_feeds_a_pipeline_with_a_mapping(tmp_path: Path) -> None:
    resources = template("page_views", tmp_path / "code")
    rules = of_type(resources, "AWS::Events::Rule")
    assert [rule["EventPattern"]["detail-type"] for rule in rules] == [["PageViewed"]]
    assert {"key": "detail.country"} in [
        json.loads(each.get("TALLYROLL_MAPPING", "{}")) for each in environments(resources)
    ]


@pytest.mark.proof
@pytest.mark.parametrize(("project", "own"), [("forum", 1), ("stock", 2)])
def test_the_services_own_tables_are_beside_the_pipelines(
    tmp_path: Path, project: str, own: int
) -> None:
    tables = of_type(template(project, tmp_path / "code"), "AWS::DynamoDB::Table")
    assert len([each for each in tables if "TableName" not in each]) == own

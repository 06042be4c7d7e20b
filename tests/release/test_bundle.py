# ruff: noqa: PLC0415  (importing the CDK starts Node.js, which has to be found first)

from __future__ import annotations

import json
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from release import bundle as bundling
from release.bundle import ROOT, BundleError, assemble, packages
from tests.harness.processes import ran

FUNCTIONS = ("writer", "aggregator", "roller", "cleanup", "dropper", "compactor")
# boto3 and what it needs: in Lambda's runtime, not in the bundle.
RUNTIME = ("boto3", "botocore", "s3transfer", "urllib3", "dateutil", "six")

with_sdk = pytest.mark.skipif(find_spec("aws_xray_sdk") is None, reason="it is an extra")

LOCKED = (ROOT / "requirements" / "runtime.txt").read_text()

USE = """
import importlib, json, sys
sys.path[:0] = {paths!r}
for name in {functions!r}:
    module = importlib.import_module(f"functions.{{name}}.handler")
    assert callable(module.handler)
    module.use_case()
origins = {{name: module.__file__ for name, module in sys.modules.items()
           if name.partition(".")[0] in ("functions", "tallyroll", "aws_lambda_powertools")}}
print(json.dumps(origins))
"""


USE_TRACER = """
import json, sys
sys.path[:0] = {paths!r}
import wrapt, aws_xray_sdk.core
from wrapt.__wrapt__ import _using_c_extension
aws_xray_sdk.core.patch(["botocore"])
print(json.dumps([wrapt.__file__, aws_xray_sdk.__file__, _using_c_extension]))
"""


def runtime_in(folder: Path) -> Path:
    """A folder with what Lambda's runtime brings."""
    runtime = folder / "runtime"
    runtime.mkdir()
    for name in RUNTIME:
        spec = find_spec(name)
        assert spec
        assert spec.origin
        origin = Path(spec.origin)
        there = origin.parent if origin.name == "__init__.py" else origin
        (runtime / there.name).symlink_to(there)
    return runtime


def test_functions_start_from_the_bundle_alone(bundle: Path, tmp_path: Path) -> None:
    runtime = runtime_in(tmp_path)
    script = USE.format(paths=[str(bundle), str(runtime)], functions=FUNCTIONS)

    done = ran(
        [sys.executable, "-I", "-S", "-c", script],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name.startswith("AWS_")},
    )

    assert done.returncode == 0, done.stderr
    origins = json.loads(done.stdout)
    assert "tallyroll.ingest.writer" in origins
    assert all(Path(origin).is_relative_to(bundle) for origin in origins.values())


def test_packages_that_no_function_imports_are_left_out(bundle: Path) -> None:
    packages = {path.stem for path in (bundle / "tallyroll").iterdir()}
    assert {"ingest", "reads", "archive", "lifecycle", "adapters", "pipeline"} <= packages
    assert not packages & {"cdk", "cli", "console", "operations", "testing", "planning"}
    adapters = {path.stem for path in (bundle / "tallyroll" / "adapters").iterdir()}
    assert {"aws", "dynamodb"} <= adapters
    assert "memory" not in adapters


def test_it_holds_sources_licences_and_byte_code_and_neither_boto3_nor_installers_files(
    bundle: Path,
) -> None:
    files = {path.relative_to(bundle) for path in bundle.rglob("*") if path.is_file()}
    names = {path.name for path in files}
    tops = {path.parts[0] for path in files}

    assert {Path(f"functions/{name}/handler.py") for name in FUNCTIONS} <= files
    assert {"tallyroll", "functions", "aws_lambda_powertools", "jmespath"} <= tops
    assert not {"boto3", "botocore", "aws_cdk", "tests", "infra", "release", "bin", ".."} & tops
    assert not {"INSTALLER", "RECORD", "REQUESTED", "direct_url.json"} & names
    assert {"METADATA", "LICENSE"} <= names
    sources = {path for path in files if path.suffix == ".py"}
    tag = sys.implementation.cache_tag
    compiled = {path.parent / "__pycache__" / f"{path.stem}.{tag}.pyc" for path in sources}
    assert {path for path in files if path.suffix == ".pyc"} == compiled


def test_the_same_environment_gives_the_same_asset_wherever_and_whenever(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: None
) -> None:
    import aws_cdk as cdk

    again = tmp_path / "under" / "another" / "path"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assemble(again)
    for path in again.rglob("*"):
        os.utime(path, (0, 0))

    assert _contents(again) == _contents(bundle)
    first, second = (cdk.FileSystem.fingerprint(str(path)) for path in (bundle, again))
    assert first == second
    (again / "functions" / "__init__.py").write_text("changed = True\n")
    assert cdk.FileSystem.fingerprint(str(again)) != first


def test_it_is_small(bundle: Path) -> None:
    sizes = [path.stat().st_size for path in bundle.rglob("*") if path.is_file()]

    assert 1 << 20 < sum(sizes) < 10 << 20


@pytest.mark.slow
def test_boto3_comes_along_where_it_is_pinned(tmp_path: Path) -> None:
    assemble(tmp_path, with_boto3=True)

    tops = {path.name for path in tmp_path.iterdir()}
    assert {"boto3", "botocore", "s3transfer", "urllib3", "dateutil", "six.py"} <= tops
    assert (tmp_path / "botocore" / "data" / "dynamodb").is_dir()
    pinned = re.findall(r"^(boto3|botocore)==(\S+)", LOCKED, re.MULTILINE)
    assert len(pinned) == 2
    assert {f"{name}-{version}.dist-info" for name, version in pinned} <= tops


@with_sdk
def test_what_the_tracer_needs_comes_along_where_it_is_asked_for(
    bundle: Path, tmp_path: Path
) -> None:
    asset = tmp_path / "asset"
    assemble(asset, with_tracer=True)

    more = {path.name for path in asset.iterdir()} - {path.name for path in bundle.iterdir()}
    assert {"aws_xray_sdk", "wrapt"} <= more
    assert not {name for name in more if "xray" not in name and "wrapt" not in name}
    # Nothing is built for this machine's processor: wrapt runs without its part in C.
    assert not [path for path in asset.rglob("*") if path.suffix in (".so", ".pyd")]
    script = USE_TRACER.format(paths=[str(asset), str(runtime_in(tmp_path))])
    done = ran([sys.executable, "-I", "-S", "-c", script])
    assert done.returncode == 0, done.stderr
    *origins, compiled = json.loads(done.stdout)
    assert all(Path(origin).is_relative_to(asset) for origin in origins)
    assert compiled is False


def test_byte_code_holds_lambdas_paths_only(bundle: Path) -> None:
    code = b"".join(path.read_bytes() for path in bundle.rglob("functions/**/*.pyc"))

    assert b"/var/task/functions/writer/handler.py" in code
    assert str(bundle).encode() not in code


def test_packages_are_those_of_the_project_and_their_needs() -> None:
    names = {package.name.replace("_", "-") for package in packages()}

    assert names == {"aws-lambda-powertools", "jmespath", "typing-extensions", "tzdata"}
    pinned = {package.name for package in packages(with_boto3=True)}
    assert {"boto3", "botocore", "s3transfer", "urllib3"} < pinned


@with_sdk
def test_packages_of_the_tracer_are_its_sdk_and_what_that_needs() -> None:
    more = {package.name for package in packages(with_tracer=True)}
    assert more - {package.name for package in packages()} == {"aws-xray-sdk", "wrapt"}


@pytest.mark.parametrize(
    ("dependency", "said"),
    [
        ("no-such-package>=1", "no-such-package is not installed"),
        ("greenlet", "greenlet is not pure Python"),
    ],
)
def test_what_cannot_be_bundled_is_named(
    dependency: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[project]\ndependencies = ['{dependency}']\n")
    monkeypatch.setattr(bundling, "ROOT", tmp_path)

    with pytest.raises(BundleError, match=said):
        assemble(tmp_path / "bundle")


def _contents(directory: Path) -> dict[str, bytes]:
    paths = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}

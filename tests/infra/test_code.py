"""Whose code the functions run, where no asset is passed in."""

# ruff: noqa: PLC0415  (importing the CDK starts Node.js, which has to be found first)

from __future__ import annotations

import json
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from release import prebuilt
from release.bundle import RUNTIME, BundleError, packages
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import RUNTIMES
from tests.infra.conftest import Built
from tests.infra.templates import FUNCTIONS, of_type

if TYPE_CHECKING:
    import aws_cdk as cdk

_ZIPS = (prebuilt.CODE, prebuilt.TRACER, prebuilt.CACHE)
CACHED: dict[str, Any] = {
    "cache_url": "rediss://a:b@cache.example",
    "vpc_subnets": "subnet-0123456789abcdef0",
    "vpc_security_groups": "sg-0123456789abcdef0",
}
with_sdk = pytest.mark.skipif(find_spec("aws_xray_sdk") is None, reason="it is an extra")
[OTHER, *_] = [runtime for runtime in RUNTIMES if runtime != RUNTIME]


@pytest.fixture(scope="module")
def app(node: None, tmp_path_factory: pytest.TempPathFactory) -> cdk.App:
    """A user's app in the clone, with a pipeline for each of some sets of options."""
    import aws_cdk as cdk

    from tallyroll.cdk import Tallyroll

    outdir = tmp_path_factory.mktemp("cdk.out")
    app = cdk.App(outdir=str(outdir), analytics_reporting=False)
    chosen: dict[str, dict[str, Any]] = {
        "usual": {"runtime": RUNTIME},
        "colder": {"runtime": OTHER},
        "pinned": {"runtime": RUNTIME, "boto3": "pinned"},
        "cached": {"runtime": RUNTIME, **CACHED},
        **({"traced": {"runtime": RUNTIME, "tracer": True}} if find_spec("aws_xray_sdk") else {}),
    }
    for name, options in chosen.items():
        Tallyroll(cdk.Stack(app, name), "Counter", options=Options(name=name, **options))
    app.synth()
    return app


def code_of(app: cdk.App, stack: str) -> Path:
    """The zip of a stack's functions."""
    template = json.loads((Path(app.outdir) / f"{stack}.template.json").read_text())
    functions = of_type(template, "AWS::Lambda::Function").values()
    assert len(functions) == len(FUNCTIONS)
    [key] = {one["Code"]["S3Key"] for one in functions}
    return Path(app.outdir) / f"asset.{key}"


@pytest.mark.slow
def test_in_a_clone_the_code_is_that_of_its_own_sources(app: cdk.App, bundle: Path) -> None:
    with zipfile.ZipFile(code_of(app, "usual")) as code:
        names = code.namelist()
        for name in ("functions/writer/handler.py", "tallyroll/ingest/writer.py"):
            assert code.read(name) == (bundle / name).read_bytes()

    files = (path for path in bundle.rglob("*") if path.is_file())
    assert sorted(names) == sorted(path.relative_to(bundle).as_posix() for path in files)
    assert code_of(app, "colder").name == code_of(app, "usual").name


@pytest.mark.slow
def test_a_pinned_boto3_is_in_the_code(app: cdk.App) -> None:
    with zipfile.ZipFile(code_of(app, "pinned")) as code:
        assert "boto3/__init__.py" in code.namelist()


@pytest.mark.slow
def test_the_client_of_a_shared_cache_is_in_the_code_where_it_is_asked_for(app: cdk.App) -> None:
    with zipfile.ZipFile(code_of(app, "cached")) as code:
        assert "valkey/__init__.py" in code.namelist()
        assert sum(one.compress_size for one in code.infolist()) < 10 * 1024 * 1024
    with zipfile.ZipFile(code_of(app, "usual")) as code:
        assert not [name for name in code.namelist() if name.startswith("valkey")]


@with_sdk
@pytest.mark.slow
def test_what_the_tracer_needs_is_in_the_code_where_it_is_asked_for(app: cdk.App) -> None:
    with zipfile.ZipFile(code_of(app, "traced")) as code:
        assert "aws_xray_sdk/core/__init__.py" in code.namelist()
    with zipfile.ZipFile(code_of(app, "usual")) as code:
        assert not [name for name in code.namelist() if "xray" in name or "wrapt" in name]


@pytest.mark.slow
def test_a_runtime_that_the_asset_was_not_built_for_is_told(app: cdk.App) -> None:
    [stack] = [one for one in app.node.children if one.node.id == "colder"]
    told = {
        entry.data
        for one in app.node.find_all()
        for entry in one.node.metadata
        if entry.type == "aws:cdk:info"
    }

    said = (
        f"The functions' byte-code is for {RUNTIME}: with tallyroll:runtime {OTHER} they run as"
        " well, but each cold start compiles them anew."
    )
    assert told == {said}
    assert [entry.type for entry in stack.node.children[0].node.metadata] == ["aws:cdk:info"]


def test_a_failed_build_says_why(node: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from tallyroll.cdk import code

    monkeypatch.setattr(code, "_BUILD", "release.nothing")
    code._built.cache_clear()
    with pytest.raises(code.CodeMissingError, match=r"could not be built: .*No module named"):
        code._built(with_boto3=False, with_tracer=False, with_cache=False)


def test_the_names_of_the_assets_files_agree(node: None) -> None:
    from tallyroll.cdk import code

    assert (prebuilt.FOLDER, prebuilt.CODE, prebuilt.ABOUT) == (code.ASSET, code.CODE, code.ABOUT)
    assert (prebuilt.TRACER, prebuilt.CACHE) == (code.TRACER, code.CACHE)


@with_sdk
def test_the_package_joins_its_code_and_what_options_need(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tallyroll.cdk import Tallyroll, code

    prebuilt.build_for_package(tmp_path / "asset")
    about = json.loads((tmp_path / "asset" / prebuilt.ABOUT).read_text())
    assert {"aws-xray-sdk", "valkey", "wrapt"} < about["packages"].keys()
    assert "aws-xray-sdk" in (tmp_path / "asset" / prebuilt.LICENCES).read_text()
    monkeypatch.setattr(code, "ASSET", tmp_path / "asset")
    monkeypatch.setattr(code, "CLONE", tmp_path)

    def build(stack: cdk.Stack) -> None:
        Tallyroll(stack, "Votes", options=Options(runtime=RUNTIME, tracer=True, **CACHED))
        Tallyroll(stack, "Plain", options=Options(runtime=RUNTIME, name="plain"))

    template = built(build)

    functions = of_type(template, "AWS::Lambda::Function").values()
    keys = {one["FunctionName"]: one["Code"]["S3Key"] for one in functions}
    assert keys["tallyroll-writer"] != keys["plain-writer"]
    plain, traced, cached = (
        {*zipfile.ZipFile(tmp_path / "asset" / name).namelist()} for name in _ZIPS
    )
    with zipfile.ZipFile(code._joined(tmp_path / "asset", *_ZIPS[1:])) as whole:
        assert whole.testzip() is None
        assert sorted(whole.namelist()) == sorted(plain | traced | cached)
    assert {name.partition("/")[0] for name in traced} >= {"aws_xray_sdk", "wrapt"}
    assert "valkey/__init__.py" in cached
    assert not plain & traced | plain & cached | traced & cached


def test_the_command_does_not_write_over_the_packages_asset(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would leave out what the tracer needs."""
    built: list[Path] = []
    monkeypatch.setattr(prebuilt, "build", lambda folder, **_: built.append(folder))
    monkeypatch.setattr("sys.argv", ["prebuilt"])
    with pytest.raises(SystemExit):
        prebuilt.main()
    assert "required: folder" in capsys.readouterr().err
    assert not built


def test_only_locked_packages_are_prebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "runtime.txt").write_text("jmespath==1.1.0 \\\n")
    monkeypatch.setattr(prebuilt, "ROOT", tmp_path)

    said = r"^aws-lambda-powertools \S+ is installed in .+ locks none: install requirements/runtime"
    with pytest.raises(BundleError, match=said):
        prebuilt.build(tmp_path / "asset")

    assert not (tmp_path / "asset").exists()


def test_a_package_without_its_licence_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    [package] = [one for one in packages() if one.name == "jmespath"]
    assert "Permission is hereby granted" in prebuilt.licences([package])

    monkeypatch.setattr(type(package), "files", property(lambda _: []))
    with pytest.raises(BundleError, match=r"^jmespath \S+ comes without its licence's text$"):
        prebuilt.licences([package])

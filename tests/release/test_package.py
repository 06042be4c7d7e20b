from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from release.package import package
from tests.infra.templates import FUNCTIONS, Template, function, of_type


@pytest.fixture(scope="module")
def assembly(template: Template, bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `python app.py` writes, as far as it is read."""
    folder = tmp_path_factory.mktemp("cdk.out")
    (folder / "tallyroll.template.json").write_text(json.dumps(template))
    key: str = function(template, "writer")["Code"]["S3Key"]
    (folder / f"asset.{key.removesuffix('.zip')}").symlink_to(bundle)
    return folder


@pytest.fixture(scope="module")
def packed(assembly: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Template]:
    """The zip, and the template beside it."""
    code, plain, *_ = package(assembly, tmp_path_factory.mktemp("build") / "new")
    return code, json.loads(plain.read_text())


def test_the_template_asks_for_the_code_and_for_nothing_of_the_cdks(
    packed: tuple[Path, Template], template: Template
) -> None:
    code, plain = packed

    assert plain["Parameters"].keys() == {"CodeBucket", "CodeKey"}
    assert plain["Parameters"]["CodeKey"]["Default"] == code.name
    for name in FUNCTIONS:
        asked = {"S3Bucket": {"Ref": "CodeBucket"}, "S3Key": {"Ref": "CodeKey"}}
        assert function(plain, name)["Code"] == asked
    assert "cdk" not in json.dumps(plain).lower()


def test_all_else_is_as_synthesized(packed: tuple[Path, Template], template: Template) -> None:
    _, plain = packed

    assert plain["Outputs"] == template["Outputs"]
    assert plain["Resources"].keys() == template["Resources"].keys()
    for id_ in template["Resources"].keys() - of_type(template, "AWS::Lambda::Function").keys():
        assert plain["Resources"][id_] == template["Resources"][id_]


def test_the_zip_holds_the_asset_as_lambda_can_read_it(
    packed: tuple[Path, Template], bundle: Path
) -> None:
    code, _ = packed
    with zipfile.ZipFile(code) as archive:
        assert {entry.external_attr >> 16 for entry in archive.infolist()} == {0o100644}
        names = set(archive.namelist())
        assert archive.read("functions/writer/handler.py").startswith(b'"""')
    files = {path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file()}
    assert names == files
    assert code.stat().st_size < 10 << 20


def test_the_same_assembly_gives_the_same_bytes(
    packed: tuple[Path, Template], assembly: Path, tmp_path: Path
) -> None:
    again, *_ = package(assembly, tmp_path)

    assert again.name == packed[0].name
    digests = {hashlib.sha256(path.read_bytes()).digest() for path in (again, packed[0])}
    assert len(digests) == 1

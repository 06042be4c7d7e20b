"""A synthesized pipeline as a zip and a plain template, for who deploys without the CDK:
`make package`.

The template asks for the bucket that the zip was uploaded to; nothing of the CDK's bootstrapping is
left in it. The same assembly gives the same bytes.
"""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first that a zip knows
_MODE = 0o100644
_HASH_CHARACTERS = 12
_ARGUMENTS = 2

Json = dict[str, Any]


def package(assembly: Path, target: Path) -> tuple[Path, Path]:
    """Write what `assembly` holds, as `python app.py` left it, into the directory `target`; the
    paths of the zip, which is named after its content, and of the template.
    """
    [source] = assembly.glob("*.template.json")
    template = json.loads(source.read_text())
    asset = _asset(template)
    name = source.name.removesuffix(".template.json")
    target.mkdir(parents=True, exist_ok=True)
    code = target / f"{name}-{asset[:_HASH_CHARACTERS]}.zip"
    zip_folder(assembly / f"asset.{asset}", code)
    plain = target / source.name
    plain.write_text(json.dumps(plain_template(template, code.name), indent=1) + "\n")
    return code, plain


def plain_template(template: Json, key: str) -> Json:
    """The template with the functions' code under `key` in a bucket that it asks for."""
    resources = {id_: _with_code(found) for id_, found in template["Resources"].items()}
    parameters: Json = {
        "CodeBucket": {"Type": "String", "Description": "The bucket that holds the zip"},
        "CodeKey": {"Type": "String", "Default": key, "Description": "The key of the zip there"},
    }
    kept = {name: part for name, part in template.items() if name not in ("Rules", "Parameters")}
    return {**kept, "Parameters": parameters, "Resources": resources}


def _with_code(resource: Json) -> Json:
    if resource["Type"] != "AWS::Lambda::Function":
        return resource
    code = {"S3Bucket": {"Ref": "CodeBucket"}, "S3Key": {"Ref": "CodeKey"}}
    return {**resource, "Properties": {**resource["Properties"], "Code": code}}


def _asset(template: Json) -> str:
    """The hash of the one asset that all functions share."""
    [key] = {
        found["Properties"]["Code"]["S3Key"]
        for found in template["Resources"].values()
        if found["Type"] == "AWS::Lambda::Function"
    }
    return str(key).removesuffix(".zip")


def zip_folder(folder: Path, to: Path) -> None:
    """Put all files below a folder into a zip: the same files give the same bytes."""
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _EPOCH)
            entry.external_attr = _MODE << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())


if __name__ == "__main__":
    if len(sys.argv) != 1 + _ARGUMENTS:
        sys.exit("usage: python -m infra.build.package ASSEMBLY DIRECTORY")
    for written in package(*map(Path, sys.argv[1:])):
        sys.stdout.write(f"{written}\n")

"""A synthesized pipeline as a zip and a plain template, for who deploys without the CDK:
`make package`. For each layer, such as of a keyspace's driver or DuckDB, there is one more zip.

The template asks for the bucket that the zips were uploaded to; nothing of the CDK's bootstrapping
is left in it. The same assembly gives the same bytes.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first that a zip knows
_MODE = 0o100644
_HASH_CHARACTERS = 12
_ARGUMENTS = 2

Json = dict[str, Any]

# What has code, layers by the first word of their description: where, the parameter with its key,
# and what the key is of.
_CODE = {
    "AWS::Lambda::Function": ("Code", "CodeKey", "zip"),
    "Driver": ("Content", "DriverKey", "driver's zip"),
    "DuckDB": ("Content", "DuckDBKey", "zip with DuckDB"),
}


def package(assembly: Path, target: Path) -> tuple[Path, ...]:
    """Write what `assembly` holds, as `python app.py` left it, into the directory `target`; the
    paths of the functions' zip, which is named after its content, of the template, and of the
    layers' zips.
    """
    [source] = assembly.glob("*.template.json")
    template = json.loads(source.read_text())
    name = source.name.removesuffix(".template.json")
    target.mkdir(parents=True, exist_ok=True)
    zips = {}
    for kind, asset in _assets(template).items():
        zips[kind] = target / f"{name}-{asset[:_HASH_CHARACTERS]}.zip"
        zip_folder(assembly / f"asset.{asset}", zips[kind])
    plain = target / source.name
    keys = {kind: path.name for kind, path in zips.items()}
    plain.write_text(json.dumps(plain_template(template, keys), indent=1) + "\n")
    code, *layers = zips.values()
    return code, plain, *layers


def plain_template(template: Json, keys: Mapping[str, str]) -> Json:
    """The template with code under these keys, by what has it (`_CODE`), in a bucket that it asks
    for.
    """
    resources = {id_: _with_code(found) for id_, found in template["Resources"].items()}
    parameters: Json = {
        "CodeBucket": {"Type": "String", "Description": "The bucket that holds the zip"},
        **{
            _CODE[kind][1]: {
                "Type": "String",
                "Default": key,
                "Description": f"The key of the {_CODE[kind][2]} there",
            }
            for kind, key in keys.items()
        },
    }
    kept = {name: part for name, part in template.items() if name not in ("Rules", "Parameters")}
    return {**kept, "Parameters": parameters, "Resources": resources}


def _with_code(resource: Json) -> Json:
    kind = _kind(resource)
    if kind not in _CODE:
        return resource
    part, parameter, _ = _CODE[kind]
    code = {"S3Bucket": {"Ref": "CodeBucket"}, "S3Key": {"Ref": parameter}}
    return {**resource, "Properties": {**resource["Properties"], part: code}}


def _kind(resource: Json) -> str:
    layer = resource["Type"] == "AWS::Lambda::LayerVersion"
    return str(resource["Properties"]["Description"]).split()[0] if layer else resource["Type"]


def _assets(template: Json) -> dict[str, str]:
    """The hashes of the one asset that all functions share, and of the layers'; see `_CODE`."""
    found: dict[str, str] = {}
    for kind, (part, _, _) in _CODE.items():
        keys = {
            one["Properties"][part]["S3Key"]
            for one in template["Resources"].values()
            if _kind(one) == kind
        }
        for key in keys:
            assert kind not in found, f"several assets of {kind}"
            found[kind] = str(key).removesuffix(".zip")
    return found


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
        sys.exit("usage: python -m release.package ASSEMBLY DIRECTORY")
    for written in package(*map(Path, sys.argv[1:])):
        sys.stdout.write(f"{written}\n")

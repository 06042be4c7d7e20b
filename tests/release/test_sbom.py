"""The bill of materials lists what the asset holds."""

from __future__ import annotations

import pytest

from release.bundle import packages
from release.sbom import bill_of_materials


@pytest.mark.parametrize(
    ("options", "holds"),
    [
        ({}, set()),
        ({"with_boto3": True}, {"boto3"}),
        ({"with_tracer": True}, {"aws-xray-sdk"}),
        ({"with_cache": True}, {"valkey"}),
    ],
    ids=["by default", "with boto3", "with the tracer", "with a shared cache"],
)
def test_each_package_of_the_asset_is_listed(options: dict[str, bool], holds: set[str]) -> None:
    bom = bill_of_materials(**options)
    listed = {(each["name"], each["version"]) for each in bom["components"]}
    assert listed == {(package.name, package.version) for package in packages(**options)}
    assert {name for name, _ in listed} & {"boto3", "aws-xray-sdk", "valkey"} == holds
    for component in bom["components"]:
        assert component["purl"].startswith("pkg:pypi/")
        assert component["licenses"], component["name"]
    [whole] = [each for each in bom["dependencies"] if each["ref"] == "tallyroll"]
    assert sorted(whole["dependsOn"]) == sorted(each["purl"] for each in bom["components"])


def test_two_bills_are_equal() -> None:
    assert bill_of_materials() == bill_of_materials()

"""The bill of materials lists what the asset holds."""

from __future__ import annotations

import pytest

from infra.build.bundle import packages
from infra.build.sbom import bill_of_materials


@pytest.mark.parametrize("with_boto3", [False, True])
def test_each_package_of_the_asset_is_listed(with_boto3: bool) -> None:
    bom = bill_of_materials(with_boto3=with_boto3)
    listed = {(each["name"], each["version"]) for each in bom["components"]}
    assert listed == {
        (package.name, package.version) for package in packages(with_boto3=with_boto3)
    }
    assert ("boto3" in {name for name, _ in listed}) is with_boto3
    for component in bom["components"]:
        assert component["purl"].startswith("pkg:pypi/")
        assert component["licenses"], component["name"]
    [whole] = [each for each in bom["dependencies"] if each["ref"] == "tallyroll"]
    assert sorted(whole["dependsOn"]) == sorted(each["purl"] for each in bom["components"])


def test_two_bills_are_equal() -> None:
    assert bill_of_materials() == bill_of_materials()

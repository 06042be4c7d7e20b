"""The software bill of materials of the functions' asset: CycloneDX 1.6, the same on two builds.

python -m release.sbom [--boto3] [--tracer] [--cache] > build/sbom.json
"""

from __future__ import annotations

import argparse
import json
from importlib.metadata import Distribution, version
from typing import Any

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from release.bundle import packages

_NOT_REPRODUCIBLE = ("serialNumber", "timestamp")


def bill_of_materials(
    *, with_boto3: bool = False, with_tracer: bool = False, with_cache: bool = False
) -> dict[str, Any]:
    """The packages in the asset with versions and licences, as CycloneDX JSON.

    Raises BundleError for a package that is not installed.
    """
    bom = Bom()
    bom.metadata.component = Component(
        name="tallyroll",
        version=version("tallyroll"),
        type=ComponentType.APPLICATION,
        bom_ref="tallyroll",
    )
    found = packages(with_boto3=with_boto3, with_tracer=with_tracer, with_cache=with_cache)
    components = [_component(package) for package in found]
    bom.components.update(components)
    bom.register_dependency(bom.metadata.component, components)
    made: dict[str, Any] = json.loads(JsonV1Dot6(bom).output_as_string())
    for part in (made, made["metadata"]):
        for name in _NOT_REPRODUCIBLE:
            part.pop(name, None)
    return made


def _component(package: Distribution) -> Component:
    about = package.metadata.json
    report = about.get("license_expression") or about.get("license")
    purl = PackageURL("pypi", name=package.name.lower().replace("_", "-"), version=package.version)
    return Component(
        name=package.name,
        version=package.version,
        type=ComponentType.LIBRARY,
        purl=purl,
        bom_ref=str(purl),
        licenses=[LicenseFactory().make_from_string(str(report))] if report else [],
    )


def main() -> None:
    """Print it."""
    parser = argparse.ArgumentParser(prog="python -m release.sbom", description=__doc__)
    parser.add_argument("--boto3", action="store_true", help="the asset carries its own boto3")
    parser.add_argument("--tracer", action="store_true", help="with what the tracer needs")
    parser.add_argument("--cache", action="store_true", help="with the shared cache's client")
    options = parser.parse_args()
    bom = bill_of_materials(
        with_boto3=options.boto3, with_tracer=options.tracer, with_cache=options.cache
    )
    print(json.dumps(bom, indent=2))  # noqa: T201  (its output)


if __name__ == "__main__":
    main()

"""The one asset that all functions share, in the CDK's terms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aws_cdk as cdk
import jsii
from aws_cdk import aws_lambda as lambda_

from release.bundle import ROOT, assemble


@jsii.implements(cdk.ILocalBundling)
class _LocalBundling:
    """Assembles in this process; an error ends the synthesis, so that Docker is never asked."""

    def __init__(self, *, with_boto3: bool, with_tracer: bool, with_cache: bool) -> None:
        self._with_boto3, self._with_tracer, self._with_cache = with_boto3, with_tracer, with_cache

    def try_bundle(self, output_dir: str, *_whole: Any, **_named: Any) -> bool:
        # The options, of which none is needed: typed as keywords, but passed in one piece.
        assemble(
            Path(output_dir),
            with_boto3=self._with_boto3,
            with_tracer=self._with_tracer,
            with_cache=self._with_cache,
        )
        return True


def function_code(
    *, with_boto3: bool = False, with_tracer: bool = False, with_cache: bool = False
) -> lambda_.Code:
    """The code of every function; call it once, or the same asset is made several times."""
    bundling = cdk.BundlingOptions(
        image=cdk.DockerImage.from_registry("unused"),  # required, though nothing starts it
        local=_LocalBundling(with_boto3=with_boto3, with_tracer=with_tracer, with_cache=with_cache),
    )
    return lambda_.Code.from_asset(
        str(ROOT / "functions"), bundling=bundling, asset_hash_type=cdk.AssetHashType.OUTPUT
    )

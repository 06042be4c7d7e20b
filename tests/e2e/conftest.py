"""The deployed pipeline: made once, since it takes half a minute, for all of these tests."""

from __future__ import annotations

import io
import logging
import os
import time
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec

import pytest

from infra.build.cdk_command import CommandError, CommandMissingError, script
from local.runtime.packages import lay_out_runtime
from tests.e2e.deployment import Deployment, MotoServer
from tests.e2e.pipeline import DeployedPipeline

NAME = "deployed"  # DynamoDB Local is shared with other tests, which use other names
log = logging.getLogger(__name__)


@pytest.fixture(scope="session")
def pipeline(
    dynamodb_endpoint: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DeployedPipeline]:
    """A pipeline of the default options, deployed to moto by the CDK's own command."""
    _check_tools()
    folder = tmp_path_factory.mktemp("deployed")
    with ExitStack() as stack:
        began = time.monotonic()
        moto = stack.enter_context(MotoServer())
        log.info("moto server: %.1f s", time.monotonic() - began)
        try:
            deployment = Deployment(NAME, moto.endpoint, folder)
        except CommandError as failed:
            failed.add_note(moto.complaints())
            raise
        for verb, seconds in deployment.seconds.items():
            log.info("cdk %s: %.1f s", verb, seconds)
        code = deployment.zip_of(deployment.function_arn("writer"))
        log.info("zip: %d bytes", len(code))
        zipfile.ZipFile(io.BytesIO(code)).extractall(folder / "task")
        lay_out_runtime(folder / "runtime")
        addresses = {
            "AWS_ENDPOINT_URL": moto.endpoint,
            "AWS_ENDPOINT_URL_DYNAMODB": dynamodb_endpoint,
        }
        made = DeployedPipeline(deployment, folder, addresses)
        stack.callback(made.close)
        made.make_tables()
        yield made
        for function in made.functions.values():
            log.info(
                "%s: initialization %.2f s, first invocation %.2f s",
                function.name,
                function.init_s,
                function.first_s,
            )


def _check_tools() -> None:
    try:
        script()
        if find_spec("awslambdaric") is None:
            raise CommandMissingError("awslambdaric, which runs on Linux, is missing")
    except CommandMissingError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))

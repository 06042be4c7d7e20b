"""The deployed pipeline: made once, since it takes half a minute, for all of these tests."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec

import pytest

from release.cdk_command import CommandError, CommandMissingError, script
from tests.e2e.deployment import Deployment, MotoServer
from tests.e2e.pipeline import DeployedPipeline, started
from tests.strict.gate import Gate
from tests.strict.relay import OTHERS, relayed
from tests.strict.roles import arns_of, roles_of

# DynamoDB Local is shared with other tests, which use other names.
NAME, BRIEF = "deployed", "brief"
log = logging.getLogger(__name__)


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A stack of the default options, deployed to moto by the CDK's own command."""
    check_tools()
    began = time.monotonic()
    with MotoServer() as moto:
        log.info("moto server: %.1f s", time.monotonic() - began)
        try:
            made = Deployment(NAME, moto.endpoint, tmp_path_factory.mktemp("deployed"))
        except CommandError as failed:
            failed.add_note(moto.complaints())
            raise
        for verb, seconds in made.seconds.items():
            log.info("cdk %s: %.1f s", verb, seconds)
        log.info("zip: %d bytes", len(made.zip_of(made.function_arn("writer"))))
        yield made


def guarded(deployment: Deployment, name: str) -> Gate:
    """The gate of the deployed roles, as if the pipeline's tables and archives had this name."""

    def renamed(arn: str) -> str:
        return re.sub(rf"(:table/|/archive/|/payloads/){NAME}\b", rf"\g<1>{name}", arn)

    arns = arns_of(deployment.template, deployment.outputs["BucketName"])
    return Gate(roles_of(deployment.template, arns, renamed))


@pytest.fixture(scope="session")
def gate(deployment: Deployment) -> Gate:
    """What judges the requests of the deployed functions."""
    return guarded(deployment, NAME)


@pytest.fixture(scope="session")
def brief_gate(deployment: Deployment) -> Gate:
    """The same for a pipeline of windows that live for seconds, on tables of its own."""
    return guarded(deployment, BRIEF)


@pytest.fixture(scope="session")
def pipeline(
    deployment: Deployment,
    gate: Gate,
    dynamodb_endpoint: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[DeployedPipeline]:
    """The deployed pipeline, running, its functions' requests through a strict relay."""
    folder = tmp_path_factory.mktemp("running")
    engines = {"dynamodb": dynamodb_endpoint, OTHERS: deployment.endpoint}
    with (
        relayed(gate, engines) as relay,
        closing(started(deployment, folder, relay, relay)) as made,
    ):
        yield made
        for function in made.functions.values():
            log.info(
                "%s: initialization %.2f s, first invocation %.2f s",
                function.name,
                function.init_s,
                function.first_s,
            )


def check_tools() -> None:
    """Skip the test where the tools are missing that it runs; in CI they must be there."""
    try:
        script()
        if find_spec("awslambdaric") is None:
            raise CommandMissingError("awslambdaric, which runs on Linux, is missing")
    except CommandMissingError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))

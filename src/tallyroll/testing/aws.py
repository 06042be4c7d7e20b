"""moto in the test's process: its mock, the environment, and clients that the test made before."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import boto3
from botocore import UNSIGNED
from botocore.client import BaseClient
from botocore.config import Config
from botocore.session import Session

_MOTO_CAME_LAST = "moto.core" not in sys.modules

from moto import mock_aws, settings  # noqa: E402  (see above)
from moto.core.models import botocore_stubber, patch_client  # noqa: E402

from tallyroll.testing.errors import TestingError  # noqa: E402
from tallyroll.testing.lean_dynamodb import lean_tables  # noqa: E402
from tallyroll.testing.lean_sqs import lean_queues  # noqa: E402

REGION = "us-east-1"  # if the environment names none


@contextmanager
def emulated_aws(prefix: str, region: str = "") -> Iterator[None]:
    """The `mock_aws` of moto, with queues and tables that are fit for a pipeline if their names
    begin with `prefix`. It may stand inside or around one of the test's own. Clients that name no
    Region are in `region`, by default that of the environment.

    Raises TestingError if moto is set to use a server.
    """
    if not settings.TEST_DECORATOR_MODE:
        raise TestingError(
            "the fixture tallyroll runs moto in this process: unset TEST_SERVER_MODE and"
            " TEST_PROXY_MODE"
        )
    with ExitStack() as stack:
        stack.enter_context(_environment(region))
        stack.enter_context(mock_aws())
        _adopt()
        stack.enter_context(lean_queues(prefix))
        stack.enter_context(lean_tables(prefix))
        yield


@cache
def client(service: str, region: str, endpoint: str = "") -> Any:
    """A boto3 client for the pipeline itself; the environment has no influence on it."""
    session: Any = boto3.session.Session(
        aws_access_key_id="testing",
        aws_secret_access_key="testing",  # noqa: S106  (moto asks for none)
        region_name=region,
    )
    return session.client(
        service,
        endpoint_url=endpoint or None,
        config=Config(
            parameter_validation=False,
            retries={"total_max_attempts": 1, "mode": "standard"},
            connect_timeout=1,
            read_timeout=5,
        ),
    )


@contextmanager
def _environment(region: str) -> Iterator[None]:
    """An environment in which any boto3 client can be made, and none is led past moto."""
    with patch.dict(os.environ):
        # A profile may not exist here, or ask for a role; an address would be a real one.
        for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
            os.environ.pop(name, None)
        os.environ["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "true"
        os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
        if region:
            os.environ |= {"AWS_REGION": region, "AWS_DEFAULT_REGION": region}
        found = os.environ.get("AWS_REGION") or boto3.session.Session().region_name or REGION
        os.environ.setdefault("AWS_DEFAULT_REGION", found)
        yield


@cache
def _adopt() -> None:
    """Let moto answer for the clients and sessions that were made before moto was imported.

    moto registers itself with those that are made after its import. A service usually makes its
    client where it is imported, so this fixture would come too late.
    """
    for each in gc.get_objects():
        if issubclass(type(each), BaseClient):
            patch_client(each)
            each.meta.events.register("choose-signer", _unsigned)
        elif _MOTO_CAME_LAST and issubclass(type(each), Session):
            each.register("before-send", botocore_stubber)
            each.register("choose-signer", _unsigned)


def _unsigned(**_: object) -> object:
    """Let a client without credentials send, while moto answers."""
    return UNSIGNED if botocore_stubber.enabled else None

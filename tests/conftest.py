"""What every test gets: made-up AWS credentials, and DynamoDB Local on request."""

from __future__ import annotations

import gc
import os
import signal
from typing import TYPE_CHECKING

import pytest

from local.aws import dynamodb_local
from local.cassandra import node
from local.cassandra.jars import NoAnswerError
from tests.durations import Durations, part_of
from tests.faults import consistency
from tests.faults import summary as faults_struck
from tests.simulation import summary as seeds_simulated
from tests.tiers import (
    LEFT_OUT,
    QUICK_PARTS,
    SEEN_BY_TEST,
    TIER,
    TRIED_MORE,
    Tier,
    load_profile,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

# DynamoDB Local takes letters and digits only.
MADE_UP_AWS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}

# A shell's background ignores Ctrl-C, and so would all that tests start and stop by it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# In CI `make test` traces what it runs, and `make proof` runs only what that leaves out.
IN_CI = bool(os.environ.get("CI"))

# They run the whole, which the other tests cover part by part; traced they take two to three times
# as long.
NOT_TRACED = {*SEEN_BY_TEST, *TRIED_MORE}
LONG = ("slow", "proof")
BEGUN_WITH = ("e2e", "concurrency", "docs", "demo")


def pytest_configure(config: pytest.Config) -> None:
    """Have all summed up where the tests of all processes come together."""
    load_profile()
    if not hasattr(config, "workerinput"):
        for summary in (Durations(), seeds_simulated, faults_struck):
            config.pluginmanager.register(summary)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Trace once in each process.

    In those of xdist, pytest-cov 7 begins once when its options are read and once more with the
    session; only the second is paused for what is not to be traced, and only the second is kept.
    """
    plugin = session.config.pluginmanager.getplugin("_cov")
    controller = getattr(plugin, "cov_controller", None)
    if controller and hasattr(session.config, "workerinput"):
        controller.cov.stop()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what another tier runs, keep some parts from being traced, and begin with the one
    that deploys, and with others of long tests.

    Processes that are through with their own tests take over others' last ones: the first ones stay
    together, so that one process deploys, once; and no long test is left when the others are done.
    """
    others = [item for item in items if is_left_out(item)]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if not is_left_out(item)]
    items.sort(key=lambda item: _place(part_of(item.nodeid)))
    for item in items:
        long = any(item.get_closest_marker(name) for name in LONG)
        if long or part_of(item.nodeid) in NOT_TRACED:
            item.add_marker(pytest.mark.no_cover)


def _place(part: str) -> int:
    return BEGUN_WITH.index(part) if part in BEGUN_WITH else len(BEGUN_WITH)


def is_left_out(item: pytest.Item) -> bool:
    """Whether this tier leaves a test to another one."""
    part = part_of(item.nodeid)
    if TIER is Tier.QUICK and part not in QUICK_PARTS:
        return True
    if TIER is Tier.PROOF and part not in TRIED_MORE and (IN_CI or part in SEEN_BY_TEST):
        return not any(item.get_closest_marker(name) for name in LEFT_OUT[Tier.TEST])
    return any(item.get_closest_marker(name) for name in LEFT_OUT[TIER])


def pytest_unconfigure() -> None:
    """Let the process clear away everything when it ends."""
    gc.unfreeze()


@pytest.fixture(scope="module", autouse=True)
def a_small_heap_to_look_through() -> None:
    """Take what earlier modules left behind out of the garbage collector's sight.

    Models of AWS's services, engines and templates add up to half a gigabyte; looked through again
    and again, they made the simulation take three times as long.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def made_up_aws() -> Iterator[None]:
    """Replace everything AWS in the environment, so that no test can reach a real account."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in MADE_UP_AWS.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def eventual_reads() -> Iterator[list[str]]:
    """The reads of DynamoDB that the core made without asking for consistency."""
    found: list[str] = []
    with consistency.watched(found):
        yield found


@pytest.fixture(autouse=True)
def every_read_is_consistent(eventual_reads: list[str]) -> Iterator[None]:
    """Fail a test in which the core read what may be out of date."""
    yield
    told = [*eventual_reads]
    eventual_reads.clear()
    assert not told


@pytest.fixture(scope="session")
def dynamodb_endpoint(made_up_aws: None) -> Iterator[str]:
    """The address of a DynamoDB Local that lives as long as this test process.

    Each xdist worker has one. All tests of the process share its tables, so use names of your own;
    mark the test with `engine`.
    """
    try:
        engine = dynamodb_local.start()
    except dynamodb_local.EngineMissingError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    with engine:
        yield engine.endpoint


@pytest.fixture(scope="session")
def cassandra() -> Iterator[node.Node]:
    """A node of Cassandra that lives as long as this test process.

    All tests of the process share it, so use keyspaces of your own; mark the test with `cassandra`.
    Without an answer of Maven's repository such tests are skipped, also in CI.
    """
    try:
        running = node.start()
    except NoAnswerError as error:
        pytest.skip(str(error))
    with running:
        yield running

"""The pytest plugin as a user's project has it: other processes, no configuration."""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.testing.projects import PLUGIN, Outcomes, passes, run_here, run_project

ROOT = Path(__file__).parents[2]
SERVICE = """
import json
import boto3

sqs = boto3.client("sqs", region_name="us-east-1")  # before moto is imported, without credentials

def vote(url, name):
    sqs.send_message(QueueUrl=url, MessageBody=json.dumps({"key": name}))
"""
VOTES = """
import my_service

def test_votes_are_counted(tallyroll):
    my_service.vote(tallyroll.queue_url, "alice")
    tallyroll.drain()
    assert tallyroll.count("alice") == 1
"""

RunTests = Callable[..., "subprocess.CompletedProcess[str]"]
RunHere = Callable[..., Outcomes]


@pytest.fixture
def run_tests(tmp_path: Path) -> RunTests:
    """Runs pytest on a project of these files, with these options."""

    def run(*options: str, **files: str) -> subprocess.CompletedProcess[str]:
        return run_project(tmp_path, _named(files), *options)

    return run


@pytest.fixture
def run_tests_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunHere:
    """Runs pytest in this process on a project of these files, with these options."""

    def run(*options: str, **files: str) -> Outcomes:
        return run_here(tmp_path, _named(files), monkeypatch, *options)

    return run


def _named(files: dict[str, str]) -> dict[str, str]:
    return {
        name.replace("_ini", ".ini") if name.endswith("_ini") else f"{name}.py": text
        for name, text in files.items()
    }


def test_the_package_declares_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"tallyroll": PLUGIN}
    wanted = project["optional-dependencies"]["testing"]
    assert [need.partition(">=")[0] for need in wanted] == [
        "moto[s3,sqs]",
        "pytest",
        "time-machine",
    ]


def test_a_service_with_a_client_of_its_own_needs_nothing_else(run_tests: RunTests) -> None:
    passes(run_tests(my_service=SERVICE, test_votes=VOTES), 1)


def test_nothing_is_imported_until_the_fixture_is_used(run_tests: RunTests) -> None:
    checked = """
import sys

def test_nothing_is_imported():
    loaded = {name.partition(".")[0] for name in sys.modules}
    # time-machine has a plugin of its own, which imports it.
    assert not loaded & {"boto3", "botocore", "moto", "aws_lambda_powertools"}
    ours = {name for name in sys.modules if name.startswith("tallyroll")}
    assert ours == {"tallyroll", "tallyroll.testing", "tallyroll.testing.plugin"}
"""
    passes(run_tests(test_imports=checked), 1)


def test_the_help_names_the_options(run_tests: RunTests) -> None:
    said = run_tests("--help").stdout
    assert "--tallyroll-engine" in said
    assert "tallyroll_dynamodb_endpoint" in said
    assert "@pytest.mark.tallyroll(engine=..., region=..., **settings)" in (
        run_tests("--markers").stdout
    )


ENGINES = """
import pytest
from tallyroll.adapters.memory import MemoryStore

def is_memory(tallyroll):
    return isinstance(tallyroll._ports.store, MemoryStore)

def test_chosen(tallyroll):
    assert is_memory(tallyroll)

@pytest.mark.tallyroll(engine="moto", window_seconds=60)
class TestMarked:
    def test_marked(self, tallyroll):
        assert not is_memory(tallyroll)
        assert tallyroll.settings.window_seconds == 60

    @pytest.mark.tallyroll(window_seconds=120)
    def test_the_closest_counts(self, tallyroll):
        assert not is_memory(tallyroll)
        assert tallyroll.settings.window_seconds == 120
"""


def test_the_engine_comes_from_option_ini_and_marker(run_tests_here: RunHere) -> None:
    asked = ("--tallyroll-engine=memory", "--strict-markers")
    done = run_tests_here(*asked, test_engines=ENGINES)
    assert (len(done.passed), done.failed) == (3, {})
    ini = "[pytest]\ntallyroll_engine = memory\n"
    done = run_tests_here("--strict-config", test_engines=ENGINES, pytest_ini=ini)
    assert (len(done.passed), done.failed) == (3, {})


def test_moto_is_the_engine_unless_another_is_asked_for(run_tests_here: RunHere) -> None:
    done = run_tests_here("-k", "chosen", test_engines=ENGINES)
    (failed,) = done.failed.values()
    assert "assert is_memory(tallyroll)" in failed


def test_a_marker_without_a_name_is_refused(run_tests_here: RunHere) -> None:
    marked = "@pytest.mark.tallyroll('memory')\ndef test_it(tallyroll):\n    pass\n"
    done = run_tests_here(test_it=f"import pytest\n\n{marked}")
    (failed,) = done.failed.values()
    assert "@pytest.mark.tallyroll('memory'): give names, such as engine='memory'" in failed


def test_a_wrong_engine_is_named(run_tests_here: RunHere) -> None:
    done = run_tests_here("--tallyroll-engine=postgres", test_engines=ENGINES)
    assert [name.rpartition("::")[2] for name in done.failed] == ["test_chosen"]
    (failed,) = done.failed.values()
    assert "engine 'postgres': must be one of memory, moto, dynamodb-local" in failed


def test_settings_can_be_overridden_for_a_folder(run_tests_here: RunHere) -> None:
    conftest = """
import pytest
from tallyroll import Settings

@pytest.fixture
def tallyroll_settings():
    return Settings(name="votes", window_seconds=60)
"""
    test = "def test_it(tallyroll):\n    assert 'votes-events' in tallyroll.queue_url\n"
    done = run_tests_here(conftest=conftest, test_it=test)
    assert (done.passed, done.failed) == (["test_it"], {})


def test_it_works_under_xdist(run_tests: RunTests) -> None:
    parts = {
        f"test_votes_{number}": VOTES.replace("are_counted", f"are_counted_{number}")
        for number in range(2)
    }
    passes(run_tests("-n", "2", my_service=SERVICE, **parts), 2)


POWERTOOLS = """
import json
import pytest
from aws_lambda_powertools import Logger, Metrics
import my_service

def test_metrics_and_logs_of_the_test_are_its_own(tallyroll, capsys):
    metrics = Metrics(namespace="Votes", service="votes")
    logger = Logger(service="writer")
    metrics.add_metric(name="Votes", unit="Count", value=1)
    my_service.vote(tallyroll.queue_url, "alice")
    tallyroll.drain()
    logger.info("mine")
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["message"] == "mine"
    (told,) = metrics.serialize_metric_set()["_aws"]["CloudWatchMetrics"]
    assert [each["Name"] for each in told["Metrics"]] == ["Votes"]
    metrics.clear_metrics()

def test_what_is_rejected_is_logged(tallyroll, caplog):
    my_service.sqs.send_message(QueueUrl=tallyroll.queue_url, MessageBody="no JSON")
    tallyroll.drain()
    assert "messages rejected" in caplog.text
"""


def test_powertools_of_the_test_stays_apart(run_tests: RunTests) -> None:
    passes(run_tests(my_service=SERVICE, test_powertools=POWERTOOLS), 2)


FROZEN = """
import datetime
import my_service
from freezegun import freeze_time
from moto import mock_aws

@freeze_time("2024-02-29T12:59:59Z")
def test_frozen(tallyroll):
    my_service.vote(tallyroll.queue_url, "alice")
    tallyroll.drain()
    assert tallyroll.count("alice") == 1
    tallyroll.advance(hours=2)
    assert datetime.datetime.now() == datetime.datetime(2024, 2, 29, 14, 59, 59)

def test_travelling(time_machine, tallyroll):
    time_machine.move_to("2024-02-29T12:59:59Z", tick=False)
    my_service.vote(tallyroll.queue_url, "alice")
    tallyroll.advance(hours=2)
    assert tallyroll.count("alice") == 1

@mock_aws
def test_mocked(tallyroll):
    my_service.vote(tallyroll.queue_url, "alice")
    tallyroll.drain()
    assert tallyroll.count("alice") == 1

def test_the_clock_runs_again():
    assert datetime.datetime.now().year > 2024
"""


def test_clocks_and_mocks_of_the_test_are_followed(run_tests: RunTests) -> None:
    passes(run_tests(my_service=SERVICE, test_frozen=FROZEN), 4)

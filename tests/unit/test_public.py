"""The names that users import from the package, and that importing it imports nothing else."""

from __future__ import annotations

import inspect
import sys
from unittest.mock import Mock

import pytest

import tallyroll
from tallyroll import pipeline
from tallyroll.errors import UsageError
from tallyroll.settings import Settings
from tests.harness.processes import ran

NAMES = ["Event", "Pipeline", "Producer", "Reader", "Settings", "VersionedTable", "errors"]


def test_the_names_are_these() -> None:
    assert tallyroll.__all__ == NAMES
    assert set(NAMES) <= set(dir(tallyroll))


@pytest.mark.parametrize("name", NAMES)
def test_each_is_there_documented_and_named_in_the_packages_docstring(name: str) -> None:
    assert inspect.getdoc(getattr(tallyroll, name))
    assert f"\n    {name} " in str(tallyroll.__doc__)


def test_another_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="'tallyroll' has no attribute 'Writer'"):
        _ = tallyroll.Writer


def test_the_package_imports_none_of_them_before_they_are_used() -> None:
    code = (
        "import sys, tallyroll; ours = [n for n in sys.modules if n.startswith('tallyroll.')];"
        "assert not ours, ours; assert 'boto3' not in sys.modules;"
        "from tallyroll import Event; assert 'boto3' not in sys.modules;"
        "assert Event.__module__ == 'tallyroll.model.events'"
    )
    done = ran([sys.executable, "-c", code])
    assert (done.returncode, done.stderr) == (0, "")


def test_an_events_amount_has_its_unit_in_its_first_line() -> None:
    assert "millionths" in str(inspect.getdoc(tallyroll.Event)).splitlines()[0]


def test_a_teardown_is_in_the_pipelines_region(monkeypatch: pytest.MonkeyPatch) -> None:
    regions: list[str | None] = []

    def client(_: str, region: str | None) -> Mock:
        regions.append(region)
        return Mock()

    monkeypatch.setattr(pipeline, "LateClient", client)
    pipeline.Pipeline(Settings(bucket="b"), region="eu-west-1").teardown()
    assert {*regions} == {"eu-west-1"}


def test_a_port_of_an_unknown_name_is_refused() -> None:
    for name in ("stores", "settings", "payload"):
        with pytest.raises(UsageError, match=f"ports '{name}': Pipeline makes no port"):
            pipeline.Pipeline(Settings(bucket="b"), ports={name: Mock()})

"""A writer of a pipeline in which nobody may take events back loads nothing of that, an aggregator
nothing of archives.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tallyroll.settings import Settings
from tests.harness.processes import ran

ROOT = Path(__file__).parents[2]
COLD = """
import importlib, json, sys
importlib.import_module(f"functions.{sys.argv[1]}.handler").use_case()
print(json.dumps(sorted(sys.modules)))
"""
OF_RETRACTION = {
    "tallyroll.ingest.correcting",
    "tallyroll.ingest.locating",
    "tallyroll.ingest.retracting",
    "tallyroll.ingest.tombstone_runs",
    "tallyroll.ingest.tombstones",
    "tallyroll.adapters.dynamodb.corrections",
    "tallyroll.adapters.dynamodb.totals_table",
    "tallyroll.ports.totals",
    "tallyroll.model.totals",
}


@pytest.mark.parametrize("mode", ["off", "operator", "queue"])
def test_a_cold_start_loads_only_what_is_switched_on(mode: str) -> None:
    loaded = loaded_by("writer", retraction=mode)
    assert loaded & OF_RETRACTION == (set() if mode == "off" else OF_RETRACTION)


def test_an_aggregator_loads_nothing_of_archives_before_a_page_of_them() -> None:
    loaded = loaded_by("aggregator", read_archives=True)
    assert "tallyroll.reads.ranges.events" in loaded
    assert [name for name in loaded if name.startswith("tallyroll.") and "archive" in name] == []


def loaded_by(function: str, **chosen: Any) -> set[str]:
    """The modules that a function's cold start loads."""
    settings = Settings(**chosen, queue_url="https://sqs.us-east-1.amazonaws.com/1/q", bucket="b")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TALLYROLL_")},
        **settings.to_env(),
        "AWS_DEFAULT_REGION": "us-east-1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "POWERTOOLS_TRACE_DISABLED": "1",
    }
    done = ran([sys.executable, "-c", COLD, function], cwd=ROOT, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr
    return {*json.loads(done.stdout.splitlines()[-1])}

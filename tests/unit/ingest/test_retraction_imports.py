"""A writer of a pipeline in which nobody may take events back loads nothing of it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tallyroll.settings import Settings
from tests.harness.processes import ran

ROOT = Path(__file__).parents[3]
COLD = """
import importlib, json, sys
importlib.import_module("functions.writer.handler").use_case()
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
    settings = Settings(
        retraction=mode, queue_url="https://sqs.us-east-1.amazonaws.com/1/q", bucket="b"
    )
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TALLYROLL_")},
        **settings.to_env(),
        "AWS_DEFAULT_REGION": "us-east-1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "POWERTOOLS_TRACE_DISABLED": "1",
    }
    done = ran([sys.executable, "-c", COLD], cwd=ROOT, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    loaded = {*json.loads(done.stdout.splitlines()[-1])}
    assert loaded & OF_RETRACTION == (set() if mode == "off" else OF_RETRACTION)

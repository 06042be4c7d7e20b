"""What the release before makes of ids beyond the window and of retractions, as docs/deploy.md says
it: its own code is asked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from tallyroll.adapters.dynamodb.items import tombstone_item
from tallyroll.model.retractions import Retraction
from tallyroll.model.specs import IdentityScope
from tests.harness.pipeline import NOW, SMALL, opened
from tests.harness.release import Release
from tests.harness.retracting import EVENT, QUEUE, retraction, stone

ASKED = """
import json, sys
from tallyroll.adapters.dynamodb.items import parse_item
from tallyroll.errors import Rejected, UsageError
from tallyroll.model.events import decode
from tallyroll.model.sharding import strategy

asked, answers = json.load(sys.stdin), {}
for name, call, given, refusal in (
    ("suffix", strategy, asked["suffix"], UsageError),
    ("suffix of before", strategy, asked["suffix of before"], UsageError),
    ("body", decode, asked["body"], Rejected),
    ("tombstone", parse_item, asked["tombstone"], ValueError),
):
    try:
        call(given)
        answers[name] = "taken"
    except refusal as error:
        answers[name] = getattr(error, "reason", str(error))
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the code of the release before says of this release's things."""
    code = Release().unpack(tmp_path_factory.mktemp("before") / "code")
    scoped = opened(replace(SMALL, identity=IdentityScope.KEY)).spec()
    pipeline = opened(QUEUE)
    pipeline.write(EVENT)
    pipeline.write(retraction())
    asked = {
        "suffix": scoped.suffix,
        "suffix of before": "calculated",
        "body": Retraction("k", "e1", ts=NOW).body,
        "tombstone": tombstone_item(stone(pipeline)),
    }
    done = subprocess.run(
        [sys.executable, "-c", ASKED],
        input=json.dumps(asked, default=lambda value: value.decode("latin-1")),
        env={**os.environ, "PYTHONPATH": str(code)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_its_writer_cannot_place_messages_of_a_window_under_another_rule(
    answers: dict[str, str],
) -> None:
    assert answers["suffix of before"] == "taken"
    assert "suffix strategy 'calculated+" in answers["suffix"]
    assert "+id1'" in answers["suffix"]


def test_its_writer_rejects_a_retraction(answers: dict[str, str]) -> None:
    assert answers["body"] == "not-an-object"


def test_its_proof_does_not_know_tombstones(answers: dict[str, str]) -> None:
    assert "neither a record, a tally nor a gate" in answers["tombstone"]

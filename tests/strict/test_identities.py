"""Some hours of a pipeline in which an id counts once at all, with the roles of its template and
under every reading of AWS's documents.
"""

from __future__ import annotations

import pytest

from tests.faults.lives import NOW_WINDOW, event, queue_empty, turns
from tests.faults.world import BEGIN
from tests.infra.templates import Template
from tests.strict.roles import Statement
from tests.strict.stage import staged
from tests.strict.test_matrix import (
    CALLED,
    Change,
    Lived,
    counted,
    of_life,
    refused_by,
    without,
    written,
)
from tests.strict.values import READINGS

pytestmark = pytest.mark.engine

IDENTITIES = "-identities"
ASKED = {
    ("writer", "dynamodb:PutItem"),
    ("aggregator", "dynamodb:BatchGetItem"),
}


@pytest.fixture(scope="module")
def lived(dynamodb_endpoint: str, remembering: Template) -> Lived:
    with staged(dynamodb_endpoint, remembering, identity="pipeline") as stage:
        written(stage)
        stage.send(event("b", "1", BEGIN), event("a", "1", BEGIN))
        turns(stage, lambda: queue_empty(stage), stage.poll)
        assert counted(stage) == CALLED
        status, found = stage.ask("/v1/event", key="a", id="1")
        assert (status, found["window"]) == (200, NOW_WINDOW)
        return of_life(stage.gate)


def test_no_request_for_an_identity_is_refused(lived: Lived) -> None:
    assert lived.refused == []
    asked = {
        (function, one.action)
        for function, _, one in lived.asked
        if one.resource.endswith(IDENTITIES)
    }
    assert asked >= ASKED


@pytest.mark.parametrize(("function", "action"), sorted(ASKED))
def test_a_role_that_lost_it_is_caught(lived: Lived, function: str, action: str) -> None:
    def changed(one: Statement) -> Statement:
        return change(one) if one["Resource"][0].endswith(IDENTITIES) else one

    change: Change = without(action)
    actions, readings = refused_by(lived, function, changed)
    assert actions == {action}
    assert readings == set(READINGS)

"""What every catalog promises of the lines on which writers share a write rate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from moto import mock_aws

from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.adapters.dynamodb.catalog import DynamoCatalog
from tallyroll.errors import Refused, Throttled, Unknown
from tallyroll.ports.backoff import RATE_LINE
from tallyroll.ports.rate import RateLine, Turn
from tallyroll.resources import declare
from tallyroll.settings import Settings
from tests.contract.engines import Engine
from tests.contract.faults import Faults, error_reply, timeout

NOW = 1_795_161_600_000_000
AT_ONCE = 10**18  # asked in the future: no time passes until the line's end is read
TURN = Turn(
    RateLine.WRITES, 300, asked=AT_ONCE, earliest=NOW, latest=NOW + 1_000, believed=NOW + 9_000
)
CATALOG = declare(Settings()).catalog
FAILED = error_reply("ConditionalCheckFailedException")


def later(us: int) -> Turn:
    return replace(TURN, earliest=NOW + us, latest=NOW + us + 1_000, believed=NOW + us + 9_000)


def test_spans_follow_one_another_until_they_would_start_too_late(engine: Engine) -> None:
    starts = [engine.catalog.take_turn(TURN) for _ in range(6)]
    assert starts == [NOW, NOW + 300, NOW + 600, NOW + 900, NOW + 1_200, NOW + 1_200]


def test_a_line_whose_end_has_passed_begins_anew(engine: Engine) -> None:
    assert engine.catalog.take_turn(TURN) == NOW
    assert engine.catalog.take_turn(later(299)) == NOW + 300
    assert engine.catalog.take_turn(later(601)) == NOW + 601
    assert engine.catalog.take_turn(later(601)) == NOW + 901


def test_a_clock_that_is_late_waits_and_one_that_is_far_ahead_is_not_believed(
    engine: Engine,
) -> None:
    assert engine.catalog.take_turn(later(8_000)) == NOW + 8_000
    assert engine.catalog.take_turn(TURN) == NOW + 8_300, "too late, so nothing is appended"
    assert engine.catalog.take_turn(later(8_000)) == NOW + 8_300
    assert engine.catalog.take_turn(later(90_000)) == NOW + 90_000
    assert engine.catalog.take_turn(TURN) == NOW
    assert engine.catalog.take_turn(TURN) == NOW + 300


def test_the_lines_are_apart(engine: Engine) -> None:
    assert engine.catalog.take_turn(TURN) == NOW
    assert engine.catalog.take_turn(replace(TURN, line=RateLine.RETURNS)) == NOW
    assert engine.catalog.take_turn(TURN) == NOW + 300


@pytest.fixture
def faults() -> Iterator[Faults]:
    with mock_aws():
        faults = Faults()
        faults.client.create_table(**table_request(CATALOG))
        yield faults


@pytest.fixture
def catalog(faults: Faults) -> DynamoCatalog:
    return DynamoCatalog(faults.caller, faults.effects, CATALOG.name)


def test_a_span_is_one_request(faults: Faults, catalog: DynamoCatalog) -> None:
    catalog.take_turn(TURN)
    faults.seen.clear()
    assert catalog.take_turn(TURN) == NOW + 300
    assert faults.seen == [("UpdateItem", None)]


def test_a_lost_reply_may_take_a_span_twice_but_never_gives_one_twice(
    faults: Faults, catalog: DynamoCatalog
) -> None:
    faults.put(None, Faults.LOST)  # the line is new: the second request begins it
    assert catalog.take_turn(TURN) == NOW + 300
    faults.put(Faults.LOST)
    assert catalog.take_turn(TURN) == NOW + 900, "the span at 600 is nobody's"


def test_a_line_that_another_began_meanwhile_is_appended_to(
    faults: Faults, catalog: DynamoCatalog
) -> None:
    catalog.take_turn(TURN)
    faults.put(FAILED, FAILED)
    assert catalog.take_turn(TURN) == NOW + 300


def test_an_end_that_others_reached_while_a_call_took_long_is_believed(
    faults: Faults, catalog: DynamoCatalog
) -> None:
    now = faults.effects.now() * 1_000
    asked = now - 30_000_000
    slow = replace(
        TURN, asked=asked, earliest=asked, latest=asked + 5_000_000, believed=asked + 10_000_000
    )
    assert catalog.take_turn(replace(TURN, earliest=now, latest=now, believed=now)) == now
    assert catalog.take_turn(slow) == now + 300, "too late, so nothing is appended"
    assert catalog.take_turn(replace(slow, asked=AT_ONCE)) == asked, "the others' clock was ahead"


def test_it_is_given_up_if_others_are_always_faster(faults: Faults, catalog: DynamoCatalog) -> None:
    faults.put(*[FAILED] * (2 * RATE_LINE.tries))
    with pytest.raises(Throttled):
        catalog.take_turn(TURN)


def test_errors_are_told(faults: Faults, catalog: DynamoCatalog) -> None:
    faults.put(*[timeout()] * 4)
    with pytest.raises(Unknown):
        catalog.take_turn(TURN)
    faults.put(*[error_reply("ThrottlingException")] * 4)
    with pytest.raises(Throttled):
        catalog.take_turn(TURN)
    faults.put(error_reply("AccessDeniedException"))
    with pytest.raises(Refused):
        catalog.take_turn(TURN)

"""Ranges are read by all routes, and what is wrong with an answer is seen."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import pytest

from tallyroll.reads.http import HttpAnswer
from tests.simulation.pipeline import System, simulate
from tests.simulation.plans import plan_of
from tests.simulation.range_readers import Asked, RangeReader
from tests.simulation.truth import Truth, mixed, unlike
from tests.simulation.world import Violation

SEED = 5  # one of those with readers of ranges
WINDOW = "20261201T000000Z"
ASKED = Asked(1_796_083_200_000, 1_796_083_260_000, 1_796_083_190_000)  # that window


def test_a_seed_reads_ranges_by_all_routes() -> None:
    met = simulate(SEED).marks
    routes = [name for name in met if name.startswith("ranged-")]
    assert len(routes) >= 6
    assert not plan_of(6).ranges


class Told(RangeReader):
    """A reader that is told this by every route."""

    def __init__(self, body: dict[str, Any], status: int = HTTPStatus.OK) -> None:
        system = System(SEED)
        super().__init__(system)
        self.body, self.status = body, status
        system.oracle.truth.on_counted(system.world.now, WINDOW, "hot", 3, 2_500_000)
        system.oracle.truth.on_counted(system.world.now, WINDOW, "warm.2", 1, 0)

    def _ask(self, *_: Any) -> HttpAnswer:
        return HttpAnswer(self.status, self.body)


SUMS = {"events": 3, "sum": "2.5"}
TOTAL = {"events": 4, "sum": "2.5", "complete": True}
TOP = [{"key": "hot", **SUMS}, {"key": "warm.2", "events": 1, "sum": "0"}]


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("total", TOTAL | {"events": 5}),
        ("total", TOTAL | {"events": 3}),
        ("total", TOTAL | {"sum": "2"}),
        ("total", TOTAL | {"retracted": {"events": 1, "sum": "1"}}),
        ("top", TOTAL | {"keys": 2, "top": [TOP[0]]}),
        ("top", TOTAL | {"keys": 3, "top": TOP}),
        ("top", TOTAL | {"keys": 3, "top": [*TOP, {"key": "none", "events": 0, "sum": "0"}]}),
        ("keys", {"keys": TOP[1:], "complete": True}),
        ("keys", {"keys": [*TOP, TOP[1]], "complete": True}),
        ("events", {"events": [{"window": WINDOW, "id": "e1"}], "complete": True}),
        (
            "series",
            {
                "events": 0,
                "points": [{"start": "2026-12-01T00:00:30Z", "events": 0, "sum": "0"}],
                "until": "2026-12-01T00:01:00Z",
            },
        ),
    ],
)
def test_a_wrong_answer_is_a_violation(route: str, body: dict[str, Any]) -> None:
    reader = Told(body)
    with pytest.raises(Violation):
        reader._routes[route](ASKED)


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("total", TOTAL),
        ("total", TOTAL | {"events": 1, "sum": "1", "complete": False}),
        ("top", TOTAL | {"keys": 2, "top": TOP}),
        ("keys", {"keys": TOP, "complete": True}),
        ("events", {"events": [], "complete": True}),
    ],
)
def test_a_right_answer_is_none(route: str, body: dict[str, Any]) -> None:
    Told(body)._routes[route](ASKED)


@pytest.mark.parametrize(
    ("told", "may_be"),
    [
        ((3, 5, 0, 0), True),  # at the beginning
        ((4, 5, 0, 0), True),  # with the first commit
        ((4, 6, 0, 0), True),  # with the second one alone
        ((6, 8, 1, 1), True),  # with all
        ((5, 6, 1, 1), True),
        ((4, 7, 0, 0), True),  # with the last one alone
        ((4, 8, 0, 0), False),  # the number of one, the sum of two
        ((2, 5, 0, 0), False),
        ((7, 8, 1, 1), False),
        ((3, 5, 2, 2), False),
    ],
)
def test_what_a_read_beside_several_commits_may_tell(
    told: tuple[int, int, int, int], may_be: bool
) -> None:
    moments = [(3, 5, 0, 0), (4, 5, 0, 0), (5, 6, 0, 0), (5, 6, 1, 1), (6, 8, 1, 1)]
    assert mixed(told, moments) is may_be


def test_sums_between_two_moments() -> None:
    truth = Truth()
    truth.on_counted(10, WINDOW, "hot", 2, 5)
    truth.on_counted(20, WINDOW, "hot", 1, 1)
    least, most = truth.within("hot", WINDOW, "2027", 15, 25)
    assert (least, most) == ((2, 5, 0, 0), (3, 6, 0, 0))
    assert not unlike((2, 5, 0, 0), least, most)
    assert unlike((1, 5, 0, 0), least, most)
    assert unlike((4, 5, 0, 0), least, most)
    assert unlike((2, 4, 0, 0), least, least)
    assert truth.within("hot", "2027", "2028", 0, 99) == ((0, 0, 0, 0), (0, 0, 0, 0))

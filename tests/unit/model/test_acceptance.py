from __future__ import annotations

import pytest

from tallyroll.errors import Rejected
from tallyroll.limits import TS_MS_MAX
from tallyroll.model.acceptance import check_accepts, check_comes, span_of
from tallyroll.model.states import Calendar
from tallyroll.model.windows import Grid
from tallyroll.reasons import Reason
from tests.harness.pipeline import HOUR, MINUTE, NOW, START, spec_of

SKEW = 5 * MINUTE
CALENDAR = Calendar(Grid.of(3600), START - 2 * HOUR)
SPEC = spec_of()
SPAN = SPEC.span


def reason(
    spec: bool, ts: int, sent: int, *, announced: bool = False, **changes: int
) -> Reason | None:
    """Why an event is not admitted, or None if it goes to its window or waits for it."""
    span = CALENDAR.grid.at(ts)
    try:
        if spec:
            check_accepts(spec_of(span.id, **changes), ts, sent)
        else:
            check_comes(span, ts, sent, CALENDAR, SKEW, announced=announced)
    except Rejected as rejected:
        return rejected.reason
    return None


@pytest.mark.parametrize(
    ("ts", "sent", "expected"),
    [
        (NOW, NOW, None),
        (START, SPEC.accept_until, None),
        (START, SPEC.accept_until + 1, Reason.TOO_LATE),
        (NOW + SKEW, NOW, None),
        (NOW + SKEW + 1, NOW, Reason.TOO_FAR_AHEAD),
        (START + HOUR + 1, START + HOUR - 1, None),
    ],
)
def test_a_window_takes_what_was_sent_while_it_accepts(
    ts: int, sent: int, expected: Reason | None
) -> None:
    assert reason(True, ts, sent) is expected


def test_a_past_window_takes_what_was_sent_since_it_was_opened() -> None:
    long_ago = START - 1000 * HOUR

    def sent(at: int) -> Reason | None:
        return reason(True, long_ago, at, accept_from=NOW, accept_until=NOW + HOUR)

    assert sent(NOW) is None
    assert sent(NOW - 1) is Reason.NOT_OPEN_WHEN_SENT
    assert sent(NOW + HOUR + 1) is Reason.TOO_LATE


def test_a_window_that_should_exist_is_awaited() -> None:
    assert reason(False, CALENDAR.genesis, NOW) is None
    assert reason(False, CALENDAR.genesis - 1, NOW) is Reason.TOO_LATE
    assert reason(False, NOW + SKEW, NOW) is None
    assert reason(False, NOW + SKEW + 1, NOW) is Reason.TOO_FAR_AHEAD


def test_a_past_window_that_was_announced_is_awaited() -> None:
    assert reason(False, CALENDAR.genesis - 1, NOW, announced=True) is None


def test_the_specs_skew_holds_once_it_stands() -> None:
    assert reason(True, NOW + MINUTE + 1, NOW, skew=MINUTE) is Reason.TOO_FAR_AHEAD
    assert reason(True, NOW + 2 * SKEW, NOW, skew=2 * SKEW) is None


def test_the_span_of_an_instant() -> None:
    assert span_of(NOW, NOW, CALENDAR, SKEW) == SPAN
    last = span_of(TS_MS_MAX, NOW, CALENDAR, SKEW)
    assert last.start <= TS_MS_MAX < last.end
    with pytest.raises(Rejected) as rejected:
        span_of(TS_MS_MAX + 1, NOW, CALENDAR, SKEW)
    assert rejected.value.reason is Reason.TOO_FAR_AHEAD


@pytest.mark.parametrize(
    ("ts", "sent", "detail"),
    [
        (
            NOW + SKEW + 1,
            NOW,
            "ts lies more than 300 s ahead of when it was sent, 2026-11-20T08:30:00.000Z",
        ),
        (
            START,
            SPEC.accept_until + 1,
            (
                "sent 2026-11-20T10:00:00.001Z;"
                " window 20261120T080000Z accepted until 2026-11-20T10:00:00.000Z"
            ),
        ),
        (
            START,
            START + 9,
            (
                "sent 2026-11-20T08:00:00.009Z;"
                " window 20261120T080000Z was opened at 2026-11-20T08:00:00.010Z"
            ),
        ),
    ],
)
def test_a_dead_letter_says_by_how_much(ts: int, sent: int, detail: str) -> None:
    with pytest.raises(Rejected) as rejected:
        check_accepts(spec_of(accept_from=START + 10), ts, sent)
    assert rejected.value.detail == detail

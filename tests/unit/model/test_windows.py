from __future__ import annotations

import pytest

from tallyroll.errors import UsageError
from tallyroll.limits import TS_MS_MAX
from tallyroll.model.ids import uuid7_time
from tallyroll.model.windows import (
    Grid,
    Span,
    check_length,
    iso,
    parse_instant,
    table_name,
    window_id,
    window_start,
)
from tests.harness.pipeline import HOUR, MINUTE, NOW, START, WINDOW

HOURLY = Grid.of(3600)
CHANGED = Grid(((0, HOUR), (START, 15 * MINUTE)))


def test_a_window_is_a_floor_from_the_epoch() -> None:
    assert HOURLY.at(NOW) == Span(START, START + HOUR)
    assert HOURLY.at(0) == Span(0, HOUR)
    assert HOURLY.at(START - 1).end == START
    assert HOURLY.at(START).id == WINDOW


def test_spans_are_half_open() -> None:
    span = HOURLY.at(NOW)
    assert START in span
    assert START + HOUR - 1 in span
    assert START + HOUR not in span


def test_a_change_of_length_starts_at_its_boundary() -> None:
    assert CHANGED.at(START - 1) == Span(START - HOUR, START)
    assert CHANGED.at(START) == Span(START, START + 15 * MINUTE)
    assert [span.id for span in CHANGED.over(START - HOUR, START + HOUR)] == [
        "20261120T070000Z",
        "20261120T080000Z",
        "20261120T081500Z",
        "20261120T083000Z",
        "20261120T084500Z",
    ]


def test_the_first_length_holds_for_all_the_past() -> None:
    assert Grid(((START, HOUR),)).at(0) == Span(0, HOUR)


def test_over_takes_windows_that_start_in_the_range() -> None:
    assert [span.start for span in HOURLY.over(START + 1, START + 2 * HOUR)] == [START + HOUR]
    assert list(HOURLY.over(START + 1, START + HOUR)) == []


def test_a_range_lies_on_bounds() -> None:
    HOURLY.check_range(START, START + HOUR)
    HOURLY.check_range(None, None)
    with pytest.raises(UsageError, match=r"the nearest bound is 2026-11-20T08:00:00\.000Z"):
        HOURLY.check_range(START + 1, None)
    with pytest.raises(UsageError, match=r"the nearest bound is 9999-12-31T23:00:00\.000Z"):
        HOURLY.check_range(None, TS_MS_MAX)
    with pytest.raises(UsageError, match="is not before until"):
        HOURLY.check_range(START, START)


@pytest.mark.parametrize("seconds", [1, 7, 60, 3600, 86_400, 366 * 86_400])
def test_lengths_that_a_window_may_have(seconds: int) -> None:
    check_length(seconds)
    assert Grid.of(seconds).at(NOW).end - Grid.of(seconds).at(NOW).start == seconds * 1000


@pytest.mark.parametrize("seconds", [0, -1, 61, 3601, 366 * 86_400 + 60])
def test_lengths_that_a_window_may_not_have(seconds: int) -> None:
    with pytest.raises(UsageError, match=str(seconds)):
        Grid.of(seconds)


def test_ids_name_starts() -> None:
    assert window_id(START) == WINDOW
    assert window_start(WINDOW) == START
    assert window_id(TS_MS_MAX) == "99991231T235959Z"
    assert table_name("tallyroll", WINDOW) == "tallyroll-20261120T080000Z"


ARABIC = WINDOW.replace("0", "\N{ARABIC-INDIC DIGIT ZERO}")


@pytest.mark.parametrize(
    "text",
    ["", "20261120T080000", "20261320T080000Z", "2026-11-20T08:00:00Z", WINDOW + "\n", ARABIC],
)
def test_malformed_ids(text: str) -> None:
    with pytest.raises(UsageError, match="an id looks like"):
        window_start(text)


@pytest.mark.parametrize(
    "text",
    [
        WINDOW,
        "2026-11-20T08:00:00Z",
        "2026-11-20T08:00",
        "2026-11-20T09:00:00+01:00",
        "20261120T080000+0000",
        str(START),
    ],
)
def test_instants_as_people_write_them(text: str) -> None:
    assert parse_instant(text) == START


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "-1",
        "1.5",
        "²",
        "1969-12-31T23:59:59Z",
        "0001-01-01T00:00:00+14:00",
        str(TS_MS_MAX + 1),
        pytest.param("9" * 5_000, id="5000-digits"),
        "20261320T080000Z",
    ],
)
def test_what_is_no_instant(text: str) -> None:
    with pytest.raises(UsageError):
        parse_instant(text)


def test_instants_for_people() -> None:
    assert iso(START + 7) == "2026-11-20T08:00:00.007Z"
    assert parse_instant(iso(START + 7)) == START + 7


@pytest.mark.parametrize(
    ("record_id", "time"),
    [
        ("017F22E2-79B0-7CC3-98C4-DC0C0C07398F", 0x017F22E279B0),  # RFC 9562, appendix A.6
        ("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", 0x017F22E279B0),
        ("ffffffff-ffff-7000-8000-000000000000", 2**48 - 1),
        ("017f22e2-79b0-4cc3-98c4-dc0c0c07398f", None),
        ("017f22e2-79b0-7cc3-c8c4-dc0c0c07398f", None),
        ("017f22e279b07cc398c4dc0c0c07398f", None),
        ("{017f22e2-79b0-7cc3-98c4-dc0c0c07398f}", None),
        ("017f22e2-79b0-7cc3-98c4-dc0c0c07398f:3", None),
        ("017f22e2-79b0-7cc3-98c4-dc0c0c07398f\n", None),
    ],
)
def test_the_time_inside_a_uuid7(record_id: str, time: int | None) -> None:
    assert uuid7_time(record_id) == time

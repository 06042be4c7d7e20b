"""The form of a retraction: what is read back, and what is refused with its reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tallyroll.errors import Rejected
from tallyroll.limits import EXPANDED_BYTES_MAX, WHY_BYTES_MAX
from tallyroll.model.events import decode
from tallyroll.model.retractions import MARK, Retraction, is_retraction, parse_retraction
from tallyroll.reasons import Reason

WINDOW = "20261120T080000Z"
FIELDS: dict[str, Any] = {"key": "Ada", "id": "ballot-7", "window": WINDOW}


@pytest.mark.parametrize(
    "retraction",
    [
        Retraction("Ada", "ballot-7", window=WINDOW),
        Retraction("Ada", "p1", index=0, ts=1_795_163_400_000, by="ops", why="counted by mistake"),
        Retraction("a", "x", ("b", "c"), window=WINDOW),
    ],
)
def test_what_is_sent_is_read(retraction: Retraction) -> None:
    body = json.loads(retraction.body)
    assert is_retraction(body)
    assert parse_retraction(body) == retraction


@pytest.mark.parametrize(
    ("changes", "reason", "detail"),
    [
        ({"key": None}, Reason.BAD_KEY, "missing"),
        ({"id": None}, Reason.BAD_RETRACTION, "needs an id"),
        ({"id": 7}, Reason.BAD_ID, "7"),
        ({"window": None}, Reason.BAD_RETRACTION, "either"),
        ({"ts": 1_795_163_400_000}, Reason.BAD_RETRACTION, "either"),
        ({"window": "today"}, Reason.BAD_RETRACTION, "looks like"),
        ({"window": 7}, Reason.BAD_RETRACTION, "looks like"),
        ({"window": None, "ts": 1_795_163_400}, Reason.TS_IN_SECONDS, "seconds"),
        ({"index": -1}, Reason.BAD_RETRACTION, "-1"),
        ({"index": True}, Reason.BAD_RETRACTION, "true"),
        ({"index": EXPANDED_BYTES_MAX + 1}, Reason.BAD_RETRACTION, "0 to"),
        ({"keys": ["Grace"]}, Reason.BAD_RETRACTION, "not one of its keys"),
        ({"keys": []}, Reason.BAD_RETRACTION, "array"),
        ({"why": "x" * (WHY_BYTES_MAX + 1)}, Reason.BAD_RETRACTION, "at most"),
        ({"by": 7}, Reason.BAD_RETRACTION, "text"),
        ({"by": "\ud800"}, Reason.BAD_RETRACTION, "surrogate"),
        ({"reason": "x"}, Reason.BAD_RETRACTION, "no field"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], reason: Reason, detail: str) -> None:
    fields = {name: of for name, of in (FIELDS | changes).items() if of is not None}
    with pytest.raises(Rejected, match=detail) as refused:
        parse_retraction([MARK, 1, fields])
    assert refused.value.reason is reason


@pytest.mark.parametrize("body", [[MARK], [MARK, 2, FIELDS], [MARK, True, FIELDS], [MARK, 1, 7]])
def test_another_version_is_refused(body: Any) -> None:
    with pytest.raises(Rejected) as refused:
        parse_retraction(body)
    assert refused.value.reason is Reason.BAD_RETRACTION


def test_it_is_no_event() -> None:
    """A release that knows no retractions rejects it, and a redrive brings it back."""
    with pytest.raises(Rejected) as refused:
        decode(Retraction("Ada", "x", window=WINDOW).body)
    assert refused.value.reason is Reason.NOT_AN_OBJECT
    assert not is_retraction({"key": "tallyroll-retract"})
    assert not is_retraction([])

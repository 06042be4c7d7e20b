"""An event by its id alone, where ids count once beyond their windows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Absent, Archived, UsageError
from tallyroll.model.ids import identity_names
from tallyroll.model.specs import IdentityScope
from tallyroll.model.states import Attempt, Status
from tallyroll.model.stored import StoredPacket
from tallyroll.reads.found import FoundEvent
from tallyroll.reads.http import answer_error, answer_event
from tests.harness.pipeline import HOUR, NOW, SMALL, START, WINDOW, Pipeline, hour, opened

KEY, PIPELINE = IdentityScope.KEY, IdentityScope.PIPELINE


def remembering(scope: str = PIPELINE, **more: Any) -> Pipeline:
    return opened(replace(SMALL, identity=scope, **more))


def find(pipeline: Pipeline, event_id: str, key: str = "k") -> FoundEvent:
    return pipeline.reader().event(key, event_id, None, None)


@pytest.mark.parametrize("scope", [KEY, PIPELINE])
def test_the_identity_tells_the_window(scope: str) -> None:
    pipeline = remembering(scope)
    pipeline.write({"id": "a", "key": "k", "ts": NOW - HOUR}, {"id": "b", "key": "k", "ts": NOW})
    assert [find(pipeline, each).window for each in "ab"] == [hour(7), WINDOW]
    assert find(pipeline, "a").what.id == "a"


def test_a_packet_and_its_events() -> None:
    pipeline = remembering()
    packet = {"v": 1, "id": "p", "key": "k", "t0": START - HOUR, "events": [[0], [10]]}
    pipeline.write(packet, {"id": "p:1", "key": "l", "ts": NOW})
    assert find(pipeline, "p:0").window == hour(7)
    assert isinstance(find(pipeline, "p").what, StoredPacket)
    assert find(pipeline, "p:1", "l").window == WINDOW
    # The literal id is taken under another key; the packet has an event of this id, too.
    assert find(pipeline, "p:1").window == hour(7)
    with pytest.raises(Absent, match=f"no event 'p:2' of key 'k' in {hour(7)}$"):
        find(pipeline, "p:2")


def test_an_id_that_is_taken_under_another_key() -> None:
    pipeline = remembering()
    pipeline.write({"id": "a", "key": "k", "ts": NOW - HOUR})
    with pytest.raises(Absent, match=f"in {hour(7)}: there its id is taken under key 'k'"):
        find(pipeline, "a", "l")


def test_an_event_under_several_keys_is_found_under_each() -> None:
    pipeline = remembering(mapping={"keys": ["{kind}", "{who}"], "id": "id"})
    pipeline.write({"kind": "k", "who": "a", "id": "e"})
    found = {key: find(pipeline, "e", key) for key in ("k", "a")}
    assert {key: (each.key, each.window) for key, each in found.items()} == {
        "k": ("k", WINDOW),
        "a": ("a", WINDOW),
    }


def test_an_event_whose_window_is_dropped() -> None:
    pipeline = remembering()
    pipeline.write({"id": "a", "key": "k", "ts": NOW - HOUR}, {"id": "p", "key": "k", "ts": NOW})
    pipeline.move(Status.DROPPED, hour(7), attempt=Attempt(archive="archive/w/1"))
    with pytest.raises(Archived, match=f"{hour(7)} was dropped: .* under archive/w/1/"):
        find(pipeline, "a")
    answer = answer_error(Archived(hour(7), "archive/w/1"))
    assert (answer.status, answer.body["archive"]) == (410, "archive/w/1")
    # What would be an event of it is none, as its window tells.
    with pytest.raises(Absent):
        find(pipeline, "p:0")


@pytest.mark.parametrize(
    ("mapping", "key", "archived"),
    [
        ({}, "k", True),
        ({}, "l", False),
        ({"keys": ["{kind}", "{who}"], "id": "id"}, "l", True),  # of which its archive can tell
        ({"keys": ["{kind}", "{who}"], "id": "id"}, "a", False),  # less than its least key
    ],
)
def test_in_a_dropped_window_an_id_is_unknown_under_keys_that_its_event_cannot_have(
    mapping: dict[str, Any], key: str, *, archived: bool
) -> None:
    pipeline = remembering(mapping=mapping)
    pipeline.write({"v": 1, "id": "a", "key": "k", "ts": NOW - HOUR})
    pipeline.move(Status.DROPPED, hour(7))
    with pytest.raises(Archived if archived else Absent) as caught:
        find(pipeline, "a", key)
    if not archived:
        assert "there its id is taken under key 'k'" in str(caught.value)


def test_in_the_scope_of_the_key_each_key_of_an_event_is_archived() -> None:
    pipeline = remembering(KEY, mapping={"keys": ["{kind}", "{who}"], "id": "id"})
    pipeline.write({"kind": "k", "who": "a", "id": "e"})
    pipeline.move(Status.DROPPED, WINDOW)
    for key in "ak":
        with pytest.raises(Archived):
            find(pipeline, "e", key)


def test_an_id_that_is_not_taken() -> None:
    pipeline = remembering()
    pipeline.write({"id": "a", "key": "k", "ts": NOW})
    with pytest.raises(Absent, match="id 'b' of key 'k' is not taken"):
        find(pipeline, "b")
    pipeline.store.identity_items.clear()  # forgotten
    with pytest.raises(Absent, match="id 'a' of key 'k' is not taken"):
        find(pipeline, "a")
    assert pipeline.reader().event("k", "a", WINDOW, None).what.id == "a"
    with pytest.raises(UsageError, match="give the event's date, ts or window"):
        find(Pipeline(pipeline.settings), "a")  # whose roller has not run yet


def test_the_time_in_an_id_comes_after_the_identity() -> None:
    pipeline = remembering()
    ms = f"{NOW:012x}"
    event_id = f"{ms[:8]}-{ms[8:]}-7000-8000-000000000000"
    pipeline.write({"id": event_id, "key": "k", "ts": NOW - HOUR})
    assert find(pipeline, event_id).window == hour(7)
    pipeline.store.identity_items.clear()
    with pytest.raises(Absent, match=f"in {WINDOW}, that of the time in its id"):
        find(pipeline, event_id)


def test_in_the_scope_of_the_window_nothing_is_asked() -> None:
    pipeline = opened(replace(SMALL, keep_identities=True))
    pipeline.write({"id": "a", "key": "k", "ts": NOW})
    pipeline.settings = replace(SMALL, identity=PIPELINE)  # from the next window on
    with pytest.raises(UsageError, match="give the event's date, ts or window"):
        find(pipeline, "a")


def test_an_identity_of_a_former_pipeline_of_this_name_is_no_answer() -> None:
    pipeline = remembering()
    pipeline.write({"id": "a", "key": "k", "ts": NOW})
    spec = pipeline.spec()
    (name,) = identity_names(spec, ("k",), "a")
    (former,) = identity_names(replace(spec, genesis=spec.genesis - HOUR), ("k",), "a")
    pipeline.store.identity_items = {former: pipeline.store.identity_items[name]}
    with pytest.raises(Absent, match="is not taken"):
        find(pipeline, "a")


def test_the_route_needs_no_window() -> None:
    pipeline = remembering(KEY)
    pipeline.write({"id": "a", "key": "k", "ts": NOW - HOUR})
    answer = answer_event(pipeline.reader(), {"key": "k", "id": "a"})
    assert (answer.status, answer.body["window"]) == (200, hour(7))


def test_the_rule_is_that_of_the_newest_window_that_has_begun() -> None:
    """Whatever the reader's own settings are; and the roller may be late by a window."""
    pipeline = remembering(KEY)
    pipeline.write({"id": "a", "key": "k", "ts": NOW - HOUR})
    pipeline.settings = SMALL
    assert find(pipeline, "a").window == hour(7)
    pipeline.effects.pass_by(HOUR)
    assert hour(9) not in pipeline.catalog.specs([hour(9)])
    assert find(pipeline, "a").window == hour(7)
    pipeline.effects.pass_by(HOUR)
    with pytest.raises(UsageError, match="give the event's date, ts or window"):
        find(pipeline, "a")

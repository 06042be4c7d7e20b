"""What the fixture does when something is wrong: the pipeline, the store, or the time it takes."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import time_machine

from tallyroll.errors import Refused, Throttled, Unknown
from tallyroll.limits import QUEUE_MESSAGE_BYTES_MAX
from tallyroll.testing import Tallyroll, TestingError, queues
from tallyroll.testing import fixture as fixture_module
from tallyroll.testing.clock import Clock, OneThread
from tests.testing.posting import post, post_bodies


def test_a_pipeline_with_problems_says_them_and_goes_on_when_they_are_over(
    memory: Tallyroll, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise Refused("PutObject: AccessDenied: no", "AccessDenied")

    post(memory.queue_url, "alice")
    memory.drain()
    first = next(iter(memory.windows()))
    with monkeypatch.context() as patch:
        for name in ("put", "put_once", "begin_upload"):
            patch.setattr(memory._ports.bucket, name, refuse, raising=False)
        with pytest.raises(TestingError, match=r"the pipeline has problems: .*AccessDenied: no"):
            memory.advance(hours=5)
    assert memory.windows()[first] == "exporting"
    memory.advance(hours=2)
    assert memory.windows()[first] == "dropped"
    assert memory.count("alice") == 1


def test_an_archive_that_is_damaged_is_made_anew(
    memory: Tallyroll, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its window waits until the next attempt, and is not dropped before."""
    bucket = memory._ports.bucket
    put = bucket.put

    def damaging(key: str, body: bytes) -> None:
        put(key, body[:-1] if "/data/" in key else body)

    post(memory.queue_url, "alice")
    memory.drain()
    first = next(iter(memory.windows()))
    with monkeypatch.context() as patch:
        patch.setattr(bucket, "put", damaging)
        with pytest.raises(TestingError, match="the pipeline has problems: "):
            memory.advance(hours=5)
    assert memory.windows()[first] == "exporting"
    memory.advance(hours=2)
    assert memory.windows()[first] == "dropped"
    assert memory.count("alice") == 1


def test_what_the_writer_hands_back_is_delivered_again(
    memory: Tallyroll, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, troubles = memory._ports.store.commit, [Unknown("no reply")]

    def troubled(*arguments: Any) -> object:
        if troubles:
            raise troubles.pop()
        return commit(*arguments)

    monkeypatch.setattr(memory._ports.store, "commit", troubled)
    before = time.time()
    post(memory.queue_url, "alice")
    memory.drain()
    assert troubles == []
    assert memory.count("alice") == 1
    assert time.time() - before > 1  # it was hidden for a while


def test_a_queue_that_is_never_empty_is_named(
    memory: Tallyroll, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fixture_module, "_INVOCATIONS_MAX", 2)
    for _ in range(2):
        memory.crash_next_writer()
    post(memory.queue_url, "alice")
    with pytest.raises(TestingError, match="is not empty after 2 invocations of the writer"):
        memory.drain()


def test_an_invocation_takes_no_more_than_so_many_messages(
    memory: Tallyroll, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "BATCH_MESSAGES", 15)
    post(memory.queue_url, *["alice"] * 20)
    memory._course.catch_up()
    assert memory._work()
    assert memory.count("alice") == 15
    memory.drain()
    assert memory.count("alice") == 20


def test_a_body_too_large_for_a_letter_is_listed_whole(memory: Tallyroll) -> None:
    """Its letter names an object in the bucket."""
    body = "no JSON".ljust(QUEUE_MESSAGE_BYTES_MAX - 10, ".")
    post_bodies(memory.queue_url, [body])
    memory.drain()
    (message,) = memory.rejected()
    assert (message.reason, message.body) == ("not-json", body)


def test_a_count_that_takes_too_long_is_no_count(
    memory: Tallyroll, monkeypatch: pytest.MonkeyPatch
) -> None:
    post(memory.queue_url, "alice")
    memory.drain()
    window = next(iter(memory.windows()))
    monkeypatch.setattr(fixture_module, "_READ_MS", -1)
    with pytest.raises(TestingError, match=f"'alice' cannot be counted: windows .*{window}"):
        memory.count("alice")


def test_effects_without_threads() -> None:
    did: list[str] = []

    def fail() -> str:
        did.append("fail")
        raise Throttled("too much")

    def work() -> str:
        did.append("work")
        return "done"

    with time_machine.travel("2026-11-20", tick=False):
        effects = OneThread(Clock())
        before = effects.now()
        effects.sleep(1_500)
        assert effects.now() == before + 1_500
        assert effects.together([work, work], 2) == ["done", "done"]
        with pytest.raises(Throttled, match="too much"):
            effects.together([fail, work], 2)
    assert did == ["work", "work", "fail", "work"]


def test_a_message_of_another_shape_is_founded_by_its_sending(memory: Tallyroll) -> None:
    """The first window is that of the earliest message, whatever is in it."""
    post_bodies(memory.queue_url, ["no JSON", json.dumps({"key": "alice"})])
    memory.drain()
    assert memory.count("alice") == 1
    assert [message.reason for message in memory.rejected()] == ["not-json"]

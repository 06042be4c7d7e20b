"""`send --wait` ends when what was sent is counted, and tells what was rejected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tallyroll.errors import Refused, StoreError, Unknown
from tallyroll.model.ids import uuid7
from tallyroll.model.messages import Rejection
from tallyroll.reasons import Reason
from tests.cli.command_line import CommandLine, lines
from tests.harness.pipeline import HOUR, MINUTE, NOW, TIME_LEFT, hour
from tests.harness.redriving import drain, seal

DATED: list[dict[str, Any]] = [{"key": "k", "id": f"e{n}", "ts": NOW} for n in range(5)]


@pytest.fixture
def working(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A command line whose writer works on ten messages whenever the command sleeps."""
    work_while_asleep(cli, monkeypatch, lambda: write_some(cli))
    return cli


def write_some(cli: CommandLine) -> None:
    messages = cli.pipeline.queue.receive()
    report = cli.pipeline.writer().write(messages, TIME_LEFT)
    for message in messages:
        if message.id not in report.failures:
            cli.pipeline.queue.delete(message.receipt)


def work_while_asleep(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]
) -> None:
    asleep = cli.pipeline.effects.sleep

    def sleep(ms: float) -> None:
        asleep(ms)
        work()

    monkeypatch.setattr(cli.pipeline.effects, "sleep", sleep)


def test_when_it_ends_a_count_is_complete(working: CommandLine) -> None:
    stdin = lines(*DATED, *[{"key": "l"}] * 40, {"key": "l", "id": uuid7(NOW, Random(99))})
    answer = working.run("--json", "send", "--wait", stdin=stdin)
    assert (answer.status, answer.err) == (0, "")
    assert answer.json[0]["counted"] == 46
    assert answer.json[0]["pending"] == {"events": 0, "messages": 0}
    counted = working.run("--json", "count", "k", "l").json
    assert [count["events"] for count in counted] == [5, 41]


def test_one_event_is_waited_for(working: CommandLine) -> None:
    answer = working.run("send", "--key", "k", "--wait")
    assert answer.status == 0
    assert answer.row("events", "counted", "1")
    assert working.run("--json", "count", "k").json[0]["events"] == 1


def test_many_more_messages_than_are_looked_up_at_once(
    working: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallyroll.operations.arrivals.BATCH_GET_KEYS_MAX", 3)
    events = [{"key": "k", "id": f"e{n}", "ts": NOW - n * 100_000} for n in range(60)]
    answer = working.run("--json", "send", "--wait", "--anyway", stdin=lines(*events))
    assert answer.json[0]["counted"] == working.run("--json", "count", "k").json[0]["events"]


def test_what_was_counted_before_is_counted(working: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes(lines(*[{"key": "k", "ts": NOW}] * 9))
    for _ in range(2):
        answer = working.run("--json", "send", "--wait", str(file))
        assert (answer.status, answer.json[0]["counted"]) == (0, 9)
    assert working.run("--json", "count", "k").json[0]["events"] == 9


def test_an_event_without_a_time_is_found_on_either_side_of_a_bound(working: CommandLine) -> None:
    working.pipeline.effects.pass_by(30 * MINUTE - 50)  # 50 ms before nine o'clock
    answer = working.run("send", "--wait", stdin=lines({"key": "k", "id": "undated"}))
    assert answer.status == 0
    assert answer.row("events", "counted", "1")


def test_a_rejection_is_told_with_its_remedy(working: CommandLine) -> None:
    late = [{"key": "k", "id": f"late{n}", "ts": NOW - 2 * HOUR} for n in range(3)]
    answer = working.run("--json", "send", "--wait", "--anyway", stdin=lines(*DATED, *late))
    assert answer.status == 1
    assert answer.json[0]["counted"] == 5
    assert answer.json[0]["rejected_later"] == {"too-late": 3}
    assert "3 events were rejected after sending, too-late: sent 2026-11-20T08:30" in answer.err
    assert "`tallyroll dlq redrive --reason too-late` has them counted" in answer.err
    assert working.dead_letters.count().visible == 3  # the letters were given back
    assert working.pipeline.effects.now() - NOW < MINUTE


def test_another_event_under_the_same_id_is_a_conflict(working: CommandLine) -> None:
    assert working.run("send", "--wait", stdin=lines(DATED[0])).status == 0
    answer = working.run("--json", "send", "--wait", stdin=lines({**DATED[0], "value": 7}))
    assert answer.status == 1
    assert answer.json[0]["rejected_later"] == {"id-conflict": 1}
    assert "if both events are real, send these under ids of their own" in answer.err


def test_a_letter_of_an_earlier_run_is_not_taken_for_this_ones(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = lines({"key": "k", "id": "e", "ts": hour_ms(5)})
    cli.run("send", "--anyway", stdin=early)
    drain(cli.pipeline)
    assert cli.pipeline.reasons() == ["too-late"]
    cli.run("windows", "open", "--since", hour(5), "--until", hour(6))
    cli.pipeline.effects.pass_by(MINUTE)

    def work() -> None:  # the writer is so slow that the dead letters are searched before
        if cli.pipeline.effects.now() > NOW + 2 * MINUTE:
            cli.pipeline.roller().run(TIME_LEFT)
            drain(cli.pipeline)

    work_while_asleep(cli, monkeypatch, work)
    answer = cli.run("--json", "send", "--wait", stdin=early)
    assert (answer.status, answer.json[0]["counted"]) == (0, 1)
    assert len(cli.pipeline.reasons()) == 1


def hour_ms(number: int) -> int:
    return NOW - 30 * MINUTE + (number - 8) * HOUR


def test_a_letter_with_another_clock_is_believed_once_the_queue_is_empty(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> None:
        drain(cli.pipeline)
        for letter in cli.pipeline.queue.dead_letters:  # SQS's clock is an hour behind
            object.__setattr__(letter.message, "sent", NOW - HOUR)

    work_while_asleep(cli, monkeypatch, work)
    answer = cli.run("--json", "send", "--wait", "--anyway", "--key", "k", "--ts", hour(6))
    assert answer.json[0]["rejected_later"] == {"too-late": 1}


def test_the_time_runs_out(cli: CommandLine) -> None:
    answer = cli.run("--json", "send", "--wait", "--timeout", "90s", stdin=lines(*DATED))
    assert answer.status == 1
    assert answer.json[0]["pending"] == {"events": 5, "messages": 5}
    assert (
        "5 events are not counted yet, nor found among the dead letters; the queue has about 5"
        " messages; `tallyroll doctor` looks for the cause"
    ) in answer.err
    assert 90_000 <= cli.pipeline.effects.now() - NOW < 91_000


def test_it_waits_through_trouble_and_ends_at_a_refusal(
    working: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    troubles: list[StoreError] = [Unknown("BatchGetItem: no reply")] * 3
    lookup = working.pipeline.store.lookup

    def troubled(*arguments: Any) -> Any:
        if troubles:
            raise troubles.pop()
        return lookup(*arguments)

    monkeypatch.setattr(working.pipeline.store, "lookup", troubled)
    assert working.run("send", "--wait", stdin=lines(*DATED)).status == 0
    troubles.append(Refused("BatchGetItem: AccessDeniedException", "AccessDeniedException"))
    answer = working.run("send", "--wait", stdin=lines(*DATED))
    assert answer.status == 3
    assert "AccessDenied" in answer.err


def test_it_waits_through_trouble_with_everything_that_it_reads(
    working: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog after the first look at it, and the dead letters all the time."""
    calendar, calls = working.pipeline.catalog.calendar, iter(range(99))

    def troubled() -> Any:
        if 0 < next(calls) < 9:
            raise Unknown("GetItem: no reply")
        return calendar()

    def refuse(*_: object) -> None:
        raise Refused("GetQueueAttributes: AccessDenied: no", "AccessDenied")

    monkeypatch.setattr(working.pipeline.catalog, "calendar", troubled)
    monkeypatch.setattr(working.dead_letters, "count", refuse)
    answer = working.run("--json", "send", "--wait", stdin=lines(*DATED))
    assert (answer.status, answer.json[0]["counted"]) == (0, 5)


def test_without_access_to_the_queue_its_messages_are_not_told(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise Refused("GetQueueAttributes: AccessDenied: no", "AccessDenied")

    monkeypatch.setattr(cli.pipeline.queue, "counts", refuse)
    answer = cli.run("send", "--wait", "--timeout", "5s", stdin=lines(*DATED))
    assert answer.status == 1
    assert (
        "5 events are not counted yet, nor found among the dead letters; `tallyroll doctor` looks"
    ) in answer.err


def test_what_is_counted_though_a_copy_is_among_the_dead_letters(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy was received too often; the writer counts the other one just before the search."""
    (event,) = DATED[:1]

    def work() -> None:
        if cli.pipeline.queue.dead_letters or not (held := cli.pipeline.queue.held()):
            return
        held[0].receives = 1_000
        assert cli.pipeline.queue.deliver(held[0]) is None
        scan = cli.dead_letters.count

        def count() -> Any:
            cli.pipeline.write(event)
            return scan()

        monkeypatch.setattr(cli.dead_letters, "count", count)

    work_while_asleep(cli, monkeypatch, work)
    answer = cli.run("--json", "send", "--wait", stdin=lines(event))
    assert (answer.status, answer.json[0]["counted"]) == (0, 1)
    assert answer.json[0]["rejected_later"] == {}


def test_a_rejection_that_a_redrive_does_not_mend_is_to_be_corrected(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> None:
        for message in cli.pipeline.queue.receive():
            cli.pipeline.queue.reject([Rejection(message, Reason.BAD_VALUE, "a mapping's")])
            cli.pipeline.queue.delete(message.receipt)

    work_while_asleep(cli, monkeypatch, work)
    answer = cli.run("send", "--wait", stdin=lines(*DATED[:1]))
    assert answer.status == 1
    assert (
        "1 event was rejected after sending, bad-value: a mapping's; correct them and send them"
        " anew: `tallyroll dlq show --reason bad-value`"
    ) in answer.err


def test_an_interrupt_while_it_waits(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        raise KeyboardInterrupt

    work_while_asleep(cli, monkeypatch, work)
    answer = cli.run("send", "--wait", stdin=lines(*DATED))
    assert answer.status == 130
    assert "interrupted: sent so far: 5 events, 5 messages" in answer.err
    assert "5 events are not counted yet" in answer.err


def test_the_sender_does_not_run_ahead_of_the_count(
    working: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallyroll.cli.send.PENDING_MAX", 20)
    monkeypatch.setattr("tallyroll.cli.send.CHUNK_LINES", 15)
    most = 0

    def refuses(body: str) -> None:
        nonlocal most
        most = max(most, len(working.pipeline.queue))

    working.producer.refuses = refuses
    events = [{"key": "k", "id": f"e{n}", "ts": NOW} for n in range(100)]
    answer = working.run("--json", "send", "--wait", stdin=lines(*events))
    assert answer.json[0]["counted"] == 100
    assert most <= 35


def test_it_stops_sending_if_nothing_is_counted(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallyroll.cli.send.PENDING_MAX", 20)
    monkeypatch.setattr("tallyroll.cli.send.CHUNK_LINES", 15)
    events = [{"key": "k", "id": f"e{n}", "ts": NOW} for n in range(100)]
    answer = cli.run("send", "--wait", "--timeout", "30s", stdin=lines(*events))
    assert answer.status == 1
    assert "nothing more is sent: what was sent is not counted in time" in answer.err
    assert "no line after 30 was read" in answer.err
    assert len(cli.producer.bodies) == 30
    assert cli.pipeline.effects.now() - NOW < MINUTE


def test_a_window_that_was_sealed_meanwhile(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> None:
        if cli.pipeline.state(hour(8)).status == "open":
            seal(cli.pipeline, hour(8))
        drain(cli.pipeline)

    work_while_asleep(cli, monkeypatch, work)
    answer = cli.run("--json", "send", "--wait", stdin=lines(*DATED))
    assert answer.status == 1
    assert answer.json[0]["rejected_later"] == {"window-sealed": 5}


def test_an_event_that_is_sent_twice_is_awaited_as_both(working: CommandLine) -> None:
    answer = working.run("--json", "send", "--wait", stdin=lines(DATED[0], DATED[0], DATED[1]))
    assert answer.json[0]["events"] == answer.json[0]["counted"] == 3
    assert working.run("--json", "count", "k").json[0]["events"] == 2


def test_a_time_after_the_last_window_is_rejected_and_found(working: CommandLine) -> None:
    far = "ffffffff-ffff-7000-8000-000000000000"  # a UUIDv7 of the year 10889
    answer = working.run("--json", "send", "--key", "k", "--id", far, "--wait", "--anyway")
    assert answer.json[0]["rejected_later"] == {"too-far-ahead": 1}
    assert "it will be rejected as too-far-ahead; correct the times" in answer.err


def test_what_was_not_taken_is_kept_when_the_wait_fails(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise Refused("GetItem: AccessDenied: no", "AccessDeniedException")

    cli.producer.refuses = lambda body: "no" if "e3" in body else None
    calendar, calls = cli.pipeline.catalog.calendar, iter(range(9))
    monkeypatch.setattr(
        cli.pipeline.catalog, "calendar", lambda: calendar() if next(calls) < 1 else refuse()
    )
    unsent = tmp_path / "unsent.jsonl"
    answer = cli.run("send", "--wait", "--unsent", str(unsent), stdin=lines(*DATED))
    assert answer.status == 3
    [kept] = unsent.read_text().splitlines()
    assert '"e3"' in kept

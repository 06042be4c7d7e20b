from __future__ import annotations

import gzip
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tallyroll.adapters.system import SystemEffects
from tallyroll.model.ids import uuid7, uuid7_time
from tallyroll.settings import Settings
from tests.cli.command_line import QUEUE_URL, CommandLine, lines
from tests.harness.pipeline import HOUR, MINUTE, NOW, opened


def test_events_with_ids_go_singly_and_the_others_packed(cli: CommandLine) -> None:
    own: list[dict[str, Any]] = [
        {"key": "k", "id": f"e{n}", "ts": NOW, "value": 2} for n in range(12)
    ]
    loose: list[dict[str, Any]] = [
        {"key": "k", "value": 0.5},
        {"key": "l"},
        {"key": "k", "ts": NOW - MINUTE},
    ]

    answer = cli.run("send", stdin=lines(*own, *loose))

    assert (answer.status, answer.err) == (0, "")
    assert answer.row("lines", "15")
    assert answer.row("events", "sent", "15")
    assert answer.row("messages", "14")  # 12 and a packet per key and window
    bodies = [json.loads(body) for body in cli.producer.bodies]
    singles = [body["id"] for body in bodies if "events" not in body]
    assert singles == [event["id"] for event in own]
    assert "l" in {body["key"] for body in bodies[:2]}  # keys in turn
    cli.drain()
    counted = cli.run("--json", "count", "k", "l").json
    assert [(count["events"], count["sum"]) for count in counted] == [(14, "25.5"), (1, "1")]


def test_hundreds_of_events_make_one_message(cli: CommandLine) -> None:
    answer = cli.run("--json", "send", "-", stdin=lines(*[{"key": "k"}] * 700))
    assert answer.json == [
        {
            "lines": 700,
            "events": 700,
            "messages": 1,
            "rejected": {},
            "unsent": {"events": 0, "messages": 0},
            "refused": {"events": 0, "messages": 0},
            "packed": {
                "events": 700,
                "messages": 1,
                "units_each": pytest.approx(0.01, abs=0.01),
                "units_each_alone": pytest.approx(2.04, abs=0.01),
            },
        }
    ]


def test_without_packing_every_event_has_an_id_made_here(cli: CommandLine) -> None:
    answer = cli.run("send", "--no-pack", stdin=lines({"key": "k"}, {"key": "k"}))
    assert answer.status == 0
    events = [json.loads(body) for body in cli.producer.bodies]
    assert [uuid7_time(event["id"]) for event in events] == [NOW, NOW]
    assert events[0]["id"] != events[1]["id"]
    assert [event["ts"] for event in events] == [NOW, NOW]


def test_ids_made_here_are_uuids_of_version_7() -> None:
    assert uuid7_time(uuid7(NOW, SystemEffects().chance)) == NOW


def test_bad_lines_are_listed_and_good_ones_go(cli: CommandLine) -> None:
    bad = (
        lines(
            {"key": "k", "id": "good"},
            {"key": "k", "ts": 1_795_163_400},
            "",
            '{"key": "~gate"}',
            "nonsense",
            "[1]",
        )
        + b'{"key": "\xff"}\n'
    )
    answer = cli.run("send", stdin=bad)

    assert answer.status == 1
    assert [json.loads(body)["id"] for body in cli.producer.bodies] == ["good"]
    told = answer.err.splitlines()
    assert [line.split(":")[:2] for line in told] == [
        ["tallyroll", f" line {number}"] for number in (2, 4, 5, 6, 7)
    ]
    assert "ts-in-seconds: ts 1795163400 looks like seconds" in told[0]
    assert '{"key": "k", "ts": 1795163400}' in told[0]
    assert "not UTF-8" in told[4]
    assert answer.row("lines", "6")
    assert answer.row("rejected:", "not-json", "2")
    assert answer.row("rejected:", "bad-key", "1")


def test_only_the_first_bad_lines_are_listed(cli: CommandLine) -> None:
    answer = cli.run("--json", "send", stdin=b"?\n" * 50)
    assert answer.status == 1
    assert len(answer.err.splitlines()) == 21
    assert answer.err.endswith("... and 30 more bad lines\n")
    assert answer.json[0]["rejected"] == {"not-json": 50}


def test_a_line_too_long_is_left_out_whole(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallyroll.client.jsonlines.LINE_BYTES_MAX", 100)
    stdin = lines({"key": "k" * 90}, {"key": "k" * 350}, {"key": "last"})
    answer = cli.run("send", stdin=stdin)
    assert answer.err.splitlines() == [
        "tallyroll: line 1: item-too-large: the line is over 4 MiB",
        "tallyroll: line 2: item-too-large: the line is over 4 MiB",
    ]
    assert [json.loads(body)["key"] for body in cli.producer.bodies] == ["last"]


def test_what_no_record_can_hold_is_not_sent(cli: CommandLine) -> None:
    answer = cli.run("--json", "send", stdin=lines({"key": "k", "payload": "x" * 1_048_500}))
    assert answer.json[0]["rejected"] == {"item-too-large": 1}
    assert cli.producer.bodies == []


@pytest.mark.parametrize("piped", [True, False])
def test_gzip_is_recognized(cli: CommandLine, tmp_path: Path, piped: bool) -> None:
    data = gzip.compress(lines({"key": "k"})) + gzip.compress(lines({"key": "k"}))
    file = tmp_path / "events"
    file.write_bytes(data)
    answer = cli.run("send", stdin=data) if piped else cli.run("send", str(file))
    assert answer.status == 0
    assert answer.row("events", "sent", "2")


def test_what_stands_before_a_break_is_sent(cli: CommandLine) -> None:
    whole = gzip.compress(lines(*({"key": "k", "id": f"{n * 7919:x}"} for n in range(5_000))))
    answer = cli.run("--json", "send", stdin=whole[: len(whole) // 2])
    assert answer.status == 1
    assert "the input is broken: stdin, after line" in answer.err
    assert answer.json[0]["lines"] == len(cli.producer.bodies) > 1_000


def test_garbage_after_gzip_is_named(cli: CommandLine) -> None:
    data = gzip.compress(lines({"key": "k"})) + gzip.compress(lines({"key": "k"})) + b"junk"
    answer = cli.run("--json", "send", stdin=data)
    assert answer.status == 1
    assert (
        "stdin, after line 2: after part 2 of the gzip data comes other data: b'junk'" in answer.err
    )
    assert answer.json[0]["lines"] == 2


def test_packets_are_lines_too(cli: CommandLine) -> None:
    packet = {"v": 1, "id": "p", "key": "k", "t0": NOW, "events": [[0], [5, 3]]}
    answer = cli.run("send", stdin=lines(packet, {**packet, "events": []}))
    assert answer.status == 1
    assert answer.row("events", "sent", "2")
    assert answer.row("rejected:", "packet-empty", "1")
    cli.drain()
    assert cli.run("--json", "count", "k").json[0]["sum"] == "4"


def test_packets_are_compressed_by_choice_and_are_the_same(
    cli: CommandLine, tmp_path: Path
) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes(lines(*[{"key": "k", "ts": NOW, "payload": "again" * 9}] * 500))
    assert cli.run("send", str(file)).status == 0
    assert cli.run("send", str(file), "--compress").status == 0
    plain, shrunk = cli.producer.bodies
    assert [json.loads(body)["v"] for body in (plain, shrunk)] == [1, 2]
    assert len(shrunk) < len(plain) / 20
    cli.drain()
    assert cli.run("--json", "count", "k").json[0]["sum"] == "500"


def test_characters_that_sqs_does_not_take_are_escaped(cli: CommandLine) -> None:
    cli.run("send", stdin=lines({"key": "k", "id": "a\uffff"}, {"key": "k\ufffe"}))
    assert not any(char in body for body in cli.producer.bodies for char in "\ufffe\uffff")
    assert {json.loads(body)["key"] for body in cli.producer.bodies} == {"k", "k\ufffe"}


def test_one_event_by_options(cli: CommandLine) -> None:
    options = ("--id", "e", "--ts", "2026-11-20T08:15Z", "--value", "1.5", "--payload", '{"a": 1}')
    answer = cli.run("send", "--key", "k", *options)
    assert answer.status == 0
    assert [json.loads(body) for body in cli.producer.bodies] == [
        {"v": 1, "id": "e", "key": "k", "ts": NOW - 15 * MINUTE, "value": 1.5, "payload": {"a": 1}}
    ]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--key", "~k"), "reserved"),
        (("--key", "k", "--value", "many"), "--value 'many': not a number"),
        (("--key", "k", "--value", "1e40"), "--value: value 1e40"),
        (("--key", "k", "--payload", "{bad"), "--payload '{bad': not JSON"),
        (("--key", "k", "--id", ""), "--id"),
        (("--key", "k", "--ts", "tomorrow"), "--ts: time 'tomorrow'"),
        (("--value", "2"), "--key"),
        (("--key", "k", "events.jsonl"), "leave out the file"),
        (("no/such/file",), "No such file"),
        (("--unsent", "no/such/folder/file"), "--unsent"),
        (("--limit-rate", "0"), "events a second"),
    ],
)
def test_wrong_use(cli: CommandLine, argv: tuple[str, ...], said: str) -> None:
    answer = cli.run("send", *argv)
    assert (answer.status, answer.out) == (2, "")
    assert said in answer.err
    assert cli.producer.tried == []


def test_what_is_sent_cannot_be_overwritten_by_what_is_not(
    cli: CommandLine, tmp_path: Path
) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes(lines({"key": "k"}))
    assert cli.run("send", str(file), "--unsent", str(file)).status == 2
    assert file.read_bytes() == lines({"key": "k"})


def test_failed_entries_are_sent_again_under_the_same_ids(cli: CommandLine) -> None:
    fails = iter([True, True, False])
    cli.producer.refuses = lambda body: "busy" if "e1" in body and next(fails) else None
    answer = cli.run("send", stdin=lines(*({"key": "k", "id": f"e{n}", "ts": NOW} for n in (0, 1))))
    assert (answer.status, answer.err) == (0, "")
    assert len(cli.producer.tried) == 4
    assert len(set(cli.producer.tried)) == 2
    assert len(cli.pipeline.effects.slept) >= 2


def test_what_stays_unsent_is_listed_kept_and_counts_once(cli: CommandLine, tmp_path: Path) -> None:
    unsent = tmp_path / "unsent.jsonl"
    # Its reply was lost: the queue has it all the same.
    cli.producer.refuses = lambda body: (
        (cli.pipeline.queue.send(body), "no reply")[1] if '"k"' in body else None
    )
    stdin = lines({"key": "k"}, {"key": "k"}, {"key": "l", "id": "e"})
    answer = cli.run("send", "--unsent", str(unsent), stdin=stdin)
    assert answer.status == 1
    assert "not sent: 2 packed events of key 'k': no reply" in answer.err
    assert answer.row("events", "not", "sent", "2")

    cli.producer.refuses = lambda body: None
    assert cli.run("send", str(unsent)).status == 0
    cli.drain()
    assert cli.run("--json", "count", "k").json[0]["events"] == 2


def test_an_event_whose_window_may_pass_is_not_sent_again(cli: CommandLine) -> None:
    cli.producer.refuses = lambda body: "no reply" if "undated" in body else None
    answer = cli.run("send", stdin=lines({"key": "k", "id": "undated"}, {"key": "k", "id": "e"}))
    assert answer.status == 1
    assert "not sent: line 1: no reply (it may have been taken)" in answer.err
    assert len(cli.producer.tried) == 2


def test_a_queue_that_takes_nothing_ends_the_run(cli: CommandLine) -> None:
    cli.producer.refuses = lambda body: "SendMessageBatch: AccessDenied: no"
    events = [{"key": "k", "id": f"e{n}", "ts": NOW} for n in range(500)]
    answer = cli.run("send", stdin=lines(*events))
    assert answer.status == 3
    assert "nothing was sent: SendMessageBatch: AccessDenied" in answer.err
    assert len(set(cli.producer.tried)) == 80
    assert answer.row("events", "not", "sent", "500")


@pytest.mark.parametrize(
    ("stop", "ignored"), [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGTERM, True)]
)
def test_an_interrupt_says_what_was_sent(
    cli: CommandLine, tmp_path: Path, stop: signal.Signals, ignored: bool
) -> None:
    unsent, before = tmp_path / "unsent.jsonl", signal.getsignal(signal.SIGINT)

    def refuses(body: str) -> None:
        if "e85" in body:
            if ignored:
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a shell's background
            signal.raise_signal(stop)

    cli.producer.refuses = refuses
    events = [{"key": "k", "id": f"e{n}", "ts": NOW} for n in range(100)]
    try:
        answer = cli.run("send", "--unsent", str(unsent), stdin=lines(*events))
    finally:
        signal.signal(signal.SIGINT, before)
    assert answer.status == 130
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert "interrupted: sent so far: 80 events, 80 messages" in answer.err
    assert "no line after 100 was read" in answer.err
    assert len(unsent.read_bytes().splitlines()) == 20


def test_a_rate_is_kept(cli: CommandLine) -> None:
    events = [{"key": "k", "id": f"e{n}", "ts": NOW} for n in range(100)]
    assert cli.run("send", "--limit-rate", "20", stdin=lines(*events)).status == 0
    assert 4_000 <= cli.pipeline.effects.now() - NOW <= 5_000


def test_packets_of_a_file_fit_windows_that_no_minute_fits(
    cli: CommandLine, tmp_path: Path
) -> None:
    cli.pipeline = opened(Settings(window_seconds=45))
    cli.producer.pipeline = cli.pipeline
    file = tmp_path / "events.jsonl"
    file.write_bytes(lines(*[{"key": "k", "ts": NOW + at * 1_000} for at in range(60)]))
    assert cli.run("send", str(file)).status == 0
    assert len(cli.producer.bodies) == 4  # of 15 s each


def test_a_producer_need_not_read_the_catalog(cli: CommandLine) -> None:
    cli.cut_off()
    answer = cli.run("send", stdin=lines({"key": "k"}))
    assert answer.status == 0
    assert answer.err == (
        "tallyroll: packing by 60 s: the catalog could not be read (AccessDeniedException)\n"
    )


def test_a_producer_of_single_events_need_not_even_hear_of_it(cli: CommandLine) -> None:
    cli.cut_off()
    answer = cli.run("send", stdin=lines({"key": "k", "id": "e", "ts": NOW - 999 * HOUR}))
    assert (answer.status, answer.err) == (0, "")


def test_a_name_and_the_queue_of_another_are_wrong_use(cli: CommandLine) -> None:
    answer = cli.run("--name", "votes", "send", stdin=lines({"key": "k"}))
    assert (answer.status, answer.out) == (2, "")
    assert "--name 'votes' has the queue votes-events" in answer.err
    assert QUEUE_URL in answer.err
    assert "unset the variable or leave out --name" in answer.err
    assert cli.producer.tried == []
    assert cli.run("--name", "tallyroll", "send", "--key", "k").status == 0


def test_a_queue_of_another_name_is_mentioned(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALLYROLL_NAME", "votes")
    answer = cli.run("send", stdin=lines({"key": "k"}))
    assert answer.status == 0
    assert "not to votes-events" in answer.err
    assert cli.settings
    assert cli.settings.name == "votes"


def test_progress_is_shown_to_who_watches(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    file = tmp_path / "events.jsonl"
    file.write_bytes(lines({"key": "k"}, "nonsense"))
    answer = cli.run("send", "--json", str(file))
    assert "1 event" in answer.err
    assert "line 2: not-json" in answer.err
    assert answer.json[0]["events"] == 1


def test_the_digest_of_a_large_file_is_shown_as_it_goes_on(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tallyroll.cli.send.LARGE_BYTES", 1)
    monkeypatch.setattr("tallyroll.cli.screen.FIRST_LINE_S", 0)
    file = tmp_path / "events.jsonl"
    file.write_bytes(lines({"key": "k"}))
    answer = cli.run("send", str(file))
    assert answer.status == 0
    assert "tallyroll: reading: 13 B of 13 B\n" in answer.err


@pytest.mark.parametrize("rate", ["0", "-5", "fast"])
def test_a_rate_that_is_none(cli: CommandLine, rate: str) -> None:
    answer = cli.run("send", "--key", "k", "--limit-rate", rate)
    assert (answer.status, answer.out) == (2, "")
    assert f"'{rate}': give a number of events a second, over 0" in answer.err
    assert cli.producer.tried == []


def test_a_live_pipe_is_not_waited_for(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallyroll.cli.send.CHUNK_SECONDS", 0)
    assert cli.run("send", stdin=lines(*[{"key": "k"}] * 3)).status == 0
    assert len(cli.producer.bodies) == 3

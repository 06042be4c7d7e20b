"""`tallyroll send`: events from JSON Lines or options to the event queue."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from tallyroll import pipeline
from tallyroll.cli.screen import Screen
from tallyroll.client.jsonlines import Source, UnreadableInput, check_size, envelope_of
from tallyroll.client.producer import Producer, Sent
from tallyroll.errors import Refused, Rejected, UsageError
from tallyroll.model.amounts import shown
from tallyroll.model.events import Event, parse
from tallyroll.model.json_texts import load_json
from tallyroll.model.windows import parse_instant
from tallyroll.settings import Settings

CHUNK_LINES = 20_000
CHUNK_BYTES = 16 * 1024 * 1024
CHUNK_SECONDS = 2  # a live pipe's events wait no longer, once another line comes
LISTED_MAX = 20


def run(arguments: Namespace, settings: Settings, screen: Screen) -> int:
    """The command. Gives the exit status; raises UsageError and StoreError."""
    single = _single(arguments)
    if single:
        return _run(arguments, settings, screen, single)
    with closing(Source(arguments.file)) as source:
        return _run(arguments, settings, screen, source)


def _run(arguments: Namespace, settings: Settings, screen: Screen, given: Event | Source) -> int:
    _check_unsent(arguments.unsent, arguments.file)
    made = pipeline.Pipeline(
        pipeline.with_queue(settings, screen.tell, named=arguments.name is not None)
    )
    producer = made.producer(
        screen.tell, packed=arguments.pack is not False, rate=arguments.limit_rate
    )
    sent = producer.sent
    try:
        if isinstance(given, Source):
            _send_lines(given, producer, screen)
        else:
            sent.lines = 1
            producer.add(given, "the event")
            producer.flush()
    except KeyboardInterrupt:
        producer.interrupt()
    _report(sent, arguments.unsent, screen, producer.warning())
    if sent.stopped and not sent.messages:
        raise Refused(f"nothing was sent: {sent.lost[0][1]}")
    return sent.status


def _single(arguments: Namespace) -> Event | None:
    """The event that the options describe, if any does."""
    names = ("value", "id", "ts", "payload")
    values = {name: getattr(arguments, name) for name in names}
    given = {name: value for name, value in values.items() if value is not None}
    if arguments.key is None:
        if given:
            raise UsageError(f"--{next(iter(given))} describes one event: give it a --key, too")
        return None
    if arguments.file is not None:
        raise UsageError(f"--key describes one event: leave out the file {arguments.file!r}")
    fields: dict[str, Any] = {"key": arguments.key, "id": given.get("id")}
    try:
        if "ts" in given:
            fields["ts"] = parse_instant(given["ts"])
    except UsageError as error:
        raise UsageError(f"--ts: {error}") from None
    for name, otherwise in (("value", "not a number"), ("payload", "not JSON")):
        try:
            if name in given:
                fields[name] = load_json(given[name])
        except Rejected:
            raise UsageError(f"--{name} {shown(given[name])}: {otherwise}") from None
    try:
        event = parse(fields)
        assert isinstance(event, Event)
        check_size(event)
    except Rejected as rejected:
        option = next((f"--{name}" for name in fields if rejected.detail.startswith(name)), "event")
        raise UsageError(f"{option}: {rejected.detail}") from None
    return event


def _send_lines(source: Source, producer: Producer, screen: Screen) -> None:
    sent = producer.sent
    with screen.progress() as bar:
        task = bar.add_task("sending", total=source.size, done="")

        def told() -> None:
            bar.update(task, completed=source.position, done=f"{sent.events:,} events")

        for _ in _read_chunks(source, producer, screen):
            producer.flush(told)
            if sent.stopped:
                return


def _read_chunks(source: Source, producer: Producer, screen: Screen) -> Iterator[None]:
    """Hand lines to the producer, and yield whenever it should send."""
    sent = producer.sent
    lines, size, began = 0, 0, time.monotonic()
    try:
        for number, line in source.lines():
            sent.lines, sent.read_to = sent.lines + 1, number
            _take_in(number, line, producer, screen)
            lines, size = lines + 1, size + len(line or b"")
            old = time.monotonic() - began >= CHUNK_SECONDS
            if old or lines >= CHUNK_LINES or size >= CHUNK_BYTES:
                yield
                lines, size, began = 0, 0, time.monotonic()
    except UnreadableInput as error:
        sent.broken = True
        screen.tell(f"the input is broken: {error}")
    yield


def _take_in(number: int, line: bytes | None, producer: Producer, screen: Screen) -> None:
    sent = producer.sent
    try:
        envelope, text = envelope_of(line)
    except Rejected as rejected:
        sent.rejected[rejected.reason] += 1
        if sent.rejected.total() <= LISTED_MAX:
            held = f", in {shown(line.decode(errors='replace').strip())}" if line else ""
            screen.tell(f"line {number}: {rejected}{held}")
        return
    if isinstance(envelope, Event):
        producer.add(envelope, f"line {number}")
    else:
        producer.add_packet(text, envelope, f"line {number}")


def _check_unsent(unsent: str | None, file: str | None) -> None:
    if not unsent:
        return
    try:
        if file not in (None, "-") and Path(unsent).resolve() == Path(str(file)).resolve():
            raise UsageError(f"--unsent {unsent!r} is the file that is being sent")
        with Path(unsent).open("a"):
            pass
    except OSError as error:
        raise UsageError(f"--unsent {unsent!r}: {error.strerror}") from None


def _report(sent: Sent, unsent_file: str | None, screen: Screen, warning: str | None) -> None:
    unsent = sent.unsent
    if unsent_file:
        with Path(unsent_file).open("w", encoding="utf-8") as file:
            file.writelines(f"{message.body}\n" for message in unsent)
    if (more := sent.rejected.total() - LISTED_MAX) > 0:
        screen.tell(f"... and {more} more bad lines")
    for message, why in sent.lost[:LISTED_MAX]:
        screen.tell(f"not sent: {message.origin}: {why}")
    if (more := len(sent.lost) - LISTED_MAX) > 0:
        screen.tell(f"... and {more} more messages not sent")
    if sent.interrupted:
        screen.tell(f"interrupted: sent so far: {sent.events:,} events, {sent.messages:,} messages")
    if (sent.interrupted or sent.stopped) and sent.read_to:
        screen.tell(f"no line after {sent.read_to} was read")
    if unsent and unsent_file:
        screen.tell(f"`tallyroll send {unsent_file}` sends again what may not have been taken")
    if warning:
        screen.tell(warning)
    lost_events = sum(message.events for message in unsent)
    if screen.json:
        screen.emit(
            {
                "lines": sent.lines,
                "events": sent.events,
                "messages": sent.messages,
                "rejected": dict(sent.rejected),
                "unsent": {"events": lost_events, "messages": len(unsent)},
            }
        )
        return
    rows = [("lines", sent.lines), ("events sent", sent.events), ("messages", sent.messages)]
    rows += [(f"rejected: {reason}", count) for reason, count in sorted(sent.rejected.items())]
    if unsent:
        rows += [("events not sent", lost_events), ("messages not sent", len(unsent))]
    screen.table(("", "count"), [(name, f"{count:,}") for name, count in rows])

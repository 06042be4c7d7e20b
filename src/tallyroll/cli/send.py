"""`tallyroll send`: events from JSON Lines or options to the event queue."""

from __future__ import annotations

import time
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tallyroll.cli.arguments import HAPPENED, Run, read_by
from tallyroll.cli.screen import Screen, known
from tallyroll.client.jsonlines import Source, UnreadableInput, check_size, envelope_of
from tallyroll.client.producer import Producer, Sent
from tallyroll.errors import Refused, Rejected, UsageError
from tallyroll.model.amounts import shown
from tallyroll.model.events import Event, parse
from tallyroll.model.json_texts import load_json

CHUNK_LINES = 20_000
CHUNK_BYTES = 16 * 1024 * 1024
CHUNK_SECONDS = 2  # a live pipe's events wait no longer, once another line comes
LISTED_MAX = 20


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0
    if not 0 < rate < 1e9:
        raise UsageError(f"{text!r}: give a number of events a second, over 0")
    return rate


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class OneEvent:
    """The options that describe one event.

    :param key: the key of one event
    :param value: its value, a number; 1 if left out
    :param id: its id: it counts once however often it is sent
    :param payload: what else to keep of it
    """

    key: Annotated[str | None, Parameter(metavar="KEY")] = None
    value: Annotated[str | None, Parameter(metavar="V")] = None
    id: Annotated[str | None, Parameter(metavar="ID")] = None
    ts: Annotated[int | None, HAPPENED] = None
    payload: Annotated[str | None, Parameter(metavar="JSON")] = None

    def event(self, file: str | None) -> Event | None:
        """The event, if the options describe one; `file` must not be given with it."""
        fields = known(**vars(self))
        if self.key is None:
            if fields:
                raise UsageError(
                    f"--{next(iter(fields))} describes one event: give it a --key, too"
                )
            return None
        if file is not None:
            raise UsageError(f"--key describes one event: leave out the file {file!r}")
        for name, otherwise in (("value", "not a number"), ("payload", "not JSON")):
            try:
                if name in fields:
                    fields[name] = load_json(fields[name])
            except Rejected:
                raise UsageError(f"--{name} {shown(fields[name])}: {otherwise}") from None
        try:
            event = parse(fields)
            assert isinstance(event, Event)
            check_size(event)
        except Rejected as rejected:
            option = next(
                (f"--{name}" for name in fields if rejected.detail.startswith(name)), "event"
            )
            raise UsageError(f"{option}: {rejected.detail}") from None
        return event


NO_EVENT = OneEvent()


def send(
    file: str | None = None,
    /,
    *,
    stdin: Annotated[bool, Parameter("-")] = False,
    one: OneEvent = NO_EVENT,
    pack: Annotated[bool, Parameter(negative="--no-pack")] = True,
    limit_rate: Annotated[float | None, Parameter(metavar="N", converter=read_by(_rate))] = None,
    unsent: Annotated[str | None, Parameter(metavar="OUT")] = None,
    run: Run,
) -> int:
    """Send events to the queue.

    They are JSON Lines from a file or stdin (gzip is recognized), or one event
    given by options. Each line is {"key": ..., "id": ..., "ts": ms, "value": ...,
    "payload": ...}; only `key` is required. Lines that could never count are
    listed and left out.

    An event with an id of its own goes singly, and counts once however often it is
    sent. Events without ids are packed, hundreds to a message: cheaper by far, but
    a second run counts them again. What the queue did not certainly take is kept
    by --unsent, under the ids it was sent with.

    For example:
      tallyroll send votes.jsonl.gz --unsent unsent.jsonl
      tallyroll send --key candidate-7 --id ballot-123 --ts 2026-11-20T08:15:00Z

    :param file: JSON Lines
    :param stdin: stdin, as without FILE
    :param pack: pack events without ids (the default), or send them singly, under ids made here
    :param limit_rate: send at most N events a second on average
    :param unsent: write the messages that were not certainly taken to this file, to be sent again
    """
    file = "-" if stdin else file
    single = one.event(file)
    with closing(Source(file)) if single is None else nullcontext(single) as given:
        _check_unsent(unsent, file)
        screen = run.screen
        producer = run.pipeline(run.with_queue()).producer(
            screen.tell, packed=pack, rate=limit_rate
        )
        try:
            if isinstance(given, Source):
                _send_lines(given, producer, screen)
            else:
                producer.sent.lines = 1
                producer.add(given, "the event")
                producer.flush()
        except KeyboardInterrupt:
            producer.interrupt()
        sent = producer.sent
        _report(sent, unsent, screen, producer.warning())
    if sent.stopped and not sent.messages:
        raise Refused(f"nothing was sent: {sent.lost[0][1]}")
    return sent.status


def _send_lines(source: Source, producer: Producer, screen: Screen) -> None:
    """Send lines in chunks, as long as the queue takes any."""
    sent = producer.sent
    lines, size, began = 0, 0, time.monotonic()
    with screen.progress("sending", source.size) as bar:

        def told() -> None:
            bar(completed=source.position, done=f"{sent.events:,} events")

        try:
            for number, line in source.lines():
                sent.lines, sent.read_to = sent.lines + 1, number
                _take_in(number, line, producer, screen)
                lines, size = lines + 1, size + len(line or b"")
                old = time.monotonic() - began >= CHUNK_SECONDS
                if old or lines >= CHUNK_LINES or size >= CHUNK_BYTES:
                    producer.flush(told)
                    if sent.stopped:
                        return
                    lines, size, began = 0, 0, time.monotonic()
        except UnreadableInput as error:
            sent.broken = True
            screen.tell(f"the input is broken: {error}")
        producer.flush(told)


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
    screen.table(("", "count"), rows)

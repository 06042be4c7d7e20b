"""`tallyroll send`: events from JSON Lines or options to the event queue."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TextIO

from cyclopts import Parameter

from tallyroll.cli.arguments import DURATION, HAPPENED, Run, read_by
from tallyroll.cli.screen import Screen, known, number_of, size_text
from tallyroll.cli.send.report import LISTED_MAX, SendReport
from tallyroll.client.bulk import BulkSender
from tallyroll.client.jsonlines import LineSource, UnreadableInput, check_size, envelope_of
from tallyroll.errors import Refused, Rejected, UsageError
from tallyroll.model.amounts import shown
from tallyroll.model.events import Event, parse
from tallyroll.model.formats.json_texts import load_json
from tallyroll.operations.arrivals import PENDING_MAX, Arrivals

CHUNK_LINES = 20_000
CHUNK_BYTES = 16 * 1024 * 1024
LARGE_BYTES = 256 * 1024 * 1024  # of a file whose digest takes a while
CHUNK_SECONDS = 2  # a live pipe's events wait no longer, once another line comes


def rate_of(text: str) -> float:
    """The events per second in a text such as 500 or 500/s. Raises UsageError."""
    try:
        rate = float(text.removesuffix("/s"))
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
    :param id: its id: with --ts, it counts once however often sent
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
    compress: bool = False,
    limit_rate: Annotated[float | None, Parameter(metavar="N", converter=read_by(rate_of))] = None,
    unsent: Annotated[str | None, Parameter(metavar="OUT")] = None,
    anyway: bool = False,
    wait: bool = False,
    timeout: Annotated[int, DURATION] = 15 * 60_000,
    run: Run,
) -> int:
    """Send events to the queue.

    They are JSON Lines from a file or stdin (also gzip or Zstandard), or one event
    given by options. Each line is {"key": ..., "id": ..., "ts": ms, "value": ...,
    "payload": ...}; only `key` is required. Lines that could never count are
    listed and left out. So are events that no window takes: it says which windows
    to open.

    An event with an id goes singly, and with its time counts once however often it
    is sent. Without a time it may count again in another window. Events without ids
    are packed, up to 1,000 to a message, which is cheaper. Those of a FILE count
    once if the same bytes are sent again with the same options; after a change to
    the FILE they count again. So do events without an id from stdin, and those that
    have no time either. What the queue did not certainly take is kept by --unsent,
    under the ids it was sent with.

    For example:
      tallyroll send votes.jsonl.gz --wait
      tallyroll send --key candidate-7 --id ballot-123 --ts 2026-11-20T08:15:00Z

    :param file: JSON Lines
    :param stdin: stdin, as without FILE
    :param pack: pack events without ids (the default), or send them singly, under ids made here
    :param compress: compress packets where that saves requests; older writers reject such packets
    :param limit_rate: send at most N events a second on average
    :param unsent: write the messages that were not certainly taken to this file, to be sent again
    :param anyway: send also what no window takes: it ends in the dead letters
    :param wait: wait until all that was sent is counted or rejected
    :param timeout: wait no longer than that after the last was sent (15m by default)
    """
    file, screen = "-" if stdin else file, run.screen
    with ExitStack() as stack:
        given = one.event(file) or stack.enter_context(closing(LineSource(file)))
        source = given if isinstance(given, LineSource) else None
        _check_unsent(unsent, file)
        made = run.pipeline(run.with_queues() if wait else run.with_queue())
        if source and file in (None, "-"):
            screen.await_stdin("events as JSON Lines")
        producer = made.bulk_sender(
            screen.tell,
            packed=pack,
            compress=compress,
            rate=limit_rate,
            name=_digest(source, screen) if source else None,
            anyway=anyway,
            refused=lambda message: kept and kept.write(f"{message.body}\n"),
        )
        kept = stack.enter_context(Path(unsent).open("w", encoding="utf-8")) if unsent else None
        sending = Sending(producer, screen, made.arrivals() if wait else None, timeout)
        if kept:
            stack.callback(_keep, kept, producer)  # also when the wait fails
        sending.send(given)
        SendReport(producer, sending.arrivals, source, unsent, screen).show()
    sending.refuse_nothing()
    return sending.status


def _keep(file: TextIO, producer: BulkSender) -> None:
    """Write the messages that were not certainly taken."""
    file.writelines(f"{each.body}\n" for each in producer.sent.unsent)


def _digest(source: LineSource, screen: Screen) -> str | None:
    size = source.size or 0
    if size < LARGE_BYTES:
        return source.digest()
    with screen.progress("reading", size) as bar:
        return source.digest(lambda read: bar(read, f"{size_text(read)} of {size_text(size)}"))


@dataclass(slots=True)
class Awaiting:
    """A producer and, if the run waits, what is expected to arrive. `late`: what was sent was not
    counted in time.
    """

    producer: BulkSender
    screen: Screen
    arrivals: Arrivals | None
    timeout_ms: int
    late: bool = False

    def __post_init__(self) -> None:
        if self.arrivals:
            self.producer.sent.taken = []

    @property
    def status(self) -> int:
        """The command's exit status."""
        arrivals = self.arrivals
        uncounted = arrivals and (arrivals.rejected or arrivals.messages)
        return self.producer.sent.status or int(bool(uncounted))

    def refuse_nothing(self) -> None:
        """Raise Refused if the queue took nothing, and why."""
        sent = self.producer.sent
        if sent.stopped and sent.lost and not sent.messages:
            raise Refused(f"nothing was sent: {sent.lost[0][1]}")

    def expect(self) -> None:
        """Expect what the queue has taken since the last call."""
        taken = self.producer.sent.taken
        if self.arrivals and taken:
            self.arrivals.expect(taken)
            taken.clear()

    def keep_up(self) -> bool:
        """Wait while too many messages are expected; False if none is counted in time."""
        self.expect()
        if not self.arrivals or self.arrivals.messages <= PENDING_MAX:
            return True
        kept_up = self._wait(PENDING_MAX // 2)
        if not kept_up:
            self.screen.tell("nothing more is sent: what was sent is not counted in time")
            self.producer.sent.stopped = self.late = True
        return kept_up

    def finish(self) -> None:
        """Wait until everything is counted, if that was asked for."""
        self.expect()
        if self.arrivals and self.arrivals.messages and not self.late:
            self._wait(0)

    def _wait(self, most: int) -> bool:
        arrivals, sent = self.arrivals, self.producer.sent
        assert arrivals
        with self.screen.progress("waiting", sent.events) as bar:

            def on_progress() -> None:
                settled = arrivals.counted + arrivals.rejected.total()
                done = f"{arrivals.counted:,} of {number_of(sent.events, 'event')} counted"
                bar(completed=settled, done=done)

            return arrivals.wait(self.timeout_ms, on_progress, most)


@dataclass(slots=True)
class Sending(Awaiting):
    """One run of `tallyroll send`."""

    def send(self, given: LineSource | Event) -> None:
        """Send lines, or one event; then wait, if that was asked for. An interrupt ends it."""
        try:
            self._send(given)
        except KeyboardInterrupt:
            self.producer.interrupt()
        self.expect()

    def _send(self, given: LineSource | Event) -> None:
        producer = self.producer
        if isinstance(given, LineSource):
            self._send_lines(given)
        else:
            producer.sent.lines = 1
            producer.add(given, "the event")
            producer.flush()
        self.finish()

    def _send_lines(self, source: LineSource) -> None:
        """Send lines in chunks, as long as the queue takes any."""
        producer, sent = self.producer, self.producer.sent
        lines, size, began = 0, 0, time.monotonic()
        with self.screen.progress("sending", source.size, typed=source.typed) as bar:

            def on_progress() -> None:
                bar(completed=source.position, done=number_of(sent.events, "event"))

            try:
                for number, line in source.lines():
                    sent.lines, sent.read_to = sent.lines + 1, number
                    _take_in(number, line, producer, self.screen)
                    lines, size = lines + 1, size + len(line or b"")
                    old = time.monotonic() - began >= CHUNK_SECONDS
                    if old or lines >= CHUNK_LINES or size >= CHUNK_BYTES:
                        producer.flush(on_progress, end=False)
                        if sent.stopped or not self.keep_up():
                            return
                        lines, size, began = 0, 0, time.monotonic()
            except UnreadableInput as error:
                sent.broken = True
                self.screen.tell(f"the input is broken: {error}")
                # What could not be read now may be read later: a packet that ends here would have
                # the id of the one that has all its events.
                sent.stopped = isinstance(error.__cause__, OSError) and producer.packing
            producer.flush(on_progress, end=not sent.stopped)


def _take_in(number: int, line: bytes | None, producer: BulkSender, screen: Screen) -> None:
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

"""`tallyroll.Producer`: the client that services hold, on AWS."""

from __future__ import annotations

import asyncio
import atexit
import functools
import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, overload
from weakref import WeakMethod

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.aws.sqs import SqsPoster
from tallyroll.adapters.system import SystemEffects
from tallyroll.client.intake import Uploads
from tallyroll.client.interleaving import interleaved
from tallyroll.client.packing import ENTRIES_BYTES_MAX, MINUTE_MS, PACKET_EVENTS_MAX
from tallyroll.client.producer import PortProducer
from tallyroll.client.receipts import Delivery, Receipt
from tallyroll.client.rules import Limits, ProducerRules
from tallyroll.client.spool import Spool
from tallyroll.errors import BufferFull, NotSent, UsageError
from tallyroll.model.events import Event, parse
from tallyroll.model.formats.references import is_name
from tallyroll.pipeline import Pipeline
from tallyroll.settings import Settings

_log = logging.getLogger(__name__)

MIB = 1024 * 1024
DELIVERY_TIMEOUT_MS = 120_000
SPREAD_EVENTS = 20_000  # events of a bulk of which one of each key is sent in turn
QUEUE_SUFFIX = "-events"  # of the name of a pipeline's own queue
EXIT_S = 10.0  # for what is left when the interpreter ends, or a `with` of a spooled producer
RESERVE_S = 0.5  # of an invocation's time, for its answer
_REGION = re.compile(r"https?://(?:sqs\.([a-z0-9-]+)|([a-z0-9-]+)\.queue)\.amazonaws\.com")

Handler = TypeVar("Handler", bound=Callable[..., Any])


class Producer(PortProducer):
    """Packs events and sends them to a queue, from threads of its own. Thread-safe.

    Make one for a process and keep it:

        with Producer(queue_url) as producer:
            producer.send("video-42")

    `client` is a boto3 SQS client; by default one is made, for the Region in `queue_url`. Times are
    in ms.

    `linger_ms`             how long an event waits for others
    `packet_events`,
    `packet_bytes`          the most of a packet
    `compress`              packets are compressed where that saves something, and `packet_bytes`
                            counts compressed bytes. Upgrade the pipeline first: an older writer
                            rejects them
    `packet_span_ms`        a packet's events lie in one span of this length; it must divide the
                            pipeline's windows
    `buffer_bytes`          what is held at most, roughly
    `when_full`             "block": `send` waits for room, up to `block_ms` (None: for ever);
                            "raise": it raises BufferFull
    `delivery_timeout_ms`   when a message is given up. By default after two minutes, and never with
                            a spool; `math.inf` is never
    `connections`           requests at once
    `group_by_key`          each message has the hash of its key as its message group, so that on a
                            standard queue a flood of one key does not delay the others
    `bucket`                the pipeline's bucket: payloads that are too large for a message are
                            uploaded there by `send` itself, and the message refers to them
    `pipeline`              the pipeline's name, for these uploads; by default the name in the
                            queue's, `NAME-events`
    `spool`                 a file: after a crash, the next start sends what was not confirmed
    `on_delivery`           called with the Delivery of each message, on a thread of the producer

    Raises UsageError for a wrong argument.
    """

    def __init__(
        self,
        queue_url: str,
        *,
        client: Any = None,
        linger_ms: float = 200,
        packet_events: int = PACKET_EVENTS_MAX,
        packet_bytes: int = ENTRIES_BYTES_MAX,
        compress: bool = False,
        packet_span_ms: int = MINUTE_MS,
        buffer_bytes: int = 16 * MIB,
        when_full: Literal["block", "raise"] = "block",
        block_ms: float | None = None,
        delivery_timeout_ms: float | None = None,
        connections: int = 4,
        group_by_key: bool = False,
        bucket: str | None = None,
        pipeline: str | None = None,
        spool: str | Path | None = None,
        on_delivery: Callable[[Delivery], object] | None = None,
    ) -> None:
        if "://" not in str(queue_url):
            raise UsageError(f"queue_url {queue_url!r}: give the queue's URL, https://sqs...")
        if when_full not in ("block", "raise"):
            raise UsageError(f"when_full {when_full!r}: give 'block' or 'raise'")
        _check("linger_ms", linger_ms, 0, math.inf)
        _check("packet_events", packet_events, 1, 100_000)
        _check("packet_bytes", packet_bytes, 1, ENTRIES_BYTES_MAX)
        _check("packet_span_ms", packet_span_ms, 1, math.inf)
        _check("buffer_bytes", buffer_bytes, 1, math.inf)
        _check("connections", connections, 1, 64)
        _check("block_ms", 0 if block_ms is None else block_ms, 0, math.inf)
        if delivery_timeout_ms is None:
            delivery_timeout_ms = DELIVERY_TIMEOUT_MS if spool is None else math.inf
        _check("delivery_timeout_ms", delivery_timeout_ms, 0, math.inf)
        self._queue_url = queue_url
        self._client = client
        uploads = self._make_uploads(bucket, pipeline) if bucket else None
        super().__init__(
            self._make_poster(),
            SystemEffects(),
            ProducerRules(
                linger_ms=linger_ms,
                span_ms=packet_span_ms,
                packet_events=packet_events,
                packet_bytes=packet_bytes,
                give_up_ms=None if delivery_timeout_ms == math.inf else delivery_timeout_ms,
                grouped=group_by_key,
                compressed=compress,
            ),
            Limits(
                buffer_bytes=buffer_bytes,
                blocks=when_full == "block",
                block_ms=block_ms,
                workers=connections,
            ),
            spool=_open_spool(Path(spool)) if spool is not None else None,
            uploads=uploads,
            on_delivery=on_delivery,
        )
        atexit.register(_close_at_exit, WeakMethod(self.close))

    @property
    def _region(self) -> str | None:
        """The Region in the queue's URL."""
        region = _REGION.match(self._queue_url)
        return region and (region[1] or region[2])

    def _make_poster(self) -> SqsPoster:
        given = {"sqs": Caller(self._client, SystemEffects())} if self._client else {}
        settings = Settings(queue_url=self._queue_url)
        return Pipeline(settings, region=self._region, ports=given).poster

    def _make_uploads(self, bucket: str, pipeline: str | None) -> Uploads:
        self._bucket, self._pipeline = bucket, pipeline
        queue = self._queue_url.rpartition("/")[2]
        name = pipeline or queue.removesuffix(QUEUE_SUFFIX)
        if not pipeline and not queue.endswith(QUEUE_SUFFIX):
            raise UsageError(f"bucket {bucket!r}: give the pipeline's name, too: pipeline=...")
        if not is_name(name):
            raise UsageError(
                f"pipeline {name!r}: a pipeline's name has lower-case letters, digits and hyphens"
            )
        made = Pipeline(Settings(bucket=bucket), region=self._region)
        return Uploads(made.bucket, name, made.effects)

    def after_fork(self) -> None:
        """Begin anew in a child. A client of the user's own is the parent's: two processes on one
        connection read each other's answers.
        """
        self._poster = self._make_poster()
        if self._uploads:
            self._uploads = self._make_uploads(self._bucket, self._pipeline)
        super().after_fork()
        if self._client is not None and not self._closed:
            self._closed = "was made before a fork with a client of its own: make one after it"

    def send_all(self, events: Iterable[Event | Mapping[str, Any]]) -> int:
        """Send many events, one of each key in turn, so that no partition of a table gets one key's
        events in a row; return how many. Mappings have the fields of `send`.

        20,000 events at a time are read and put into turns. Raises like `send`; then the events
        before the bad one, in the order of the turns, are accepted.
        """
        sent = 0
        for event in interleaved(map(_event_of, events), lambda event: event.key, SPREAD_EVENTS):
            self._send(event, blocks=self._limits.blocks)
            sent += 1
        return sent

    async def asend(
        self,
        key: str,
        value: Any = 1,
        payload: Any = None,
        id: str | None = None,  # noqa: A002  (the field's name)
        ts: int | None = None,
    ) -> Receipt:
        """`send` for asyncio: waits for room without blocking the loop."""
        event = Event.of(key, value=value, payload=payload, id=id, ts=ts)
        if self._uploads and self._uploads.takes(event):
            event = await asyncio.to_thread(self._uploads.referred, event)
        try:
            return self._send(event, blocks=False)
        except BufferFull:
            if not self._limits.blocks:
                raise
        return await asyncio.to_thread(self._send, event, blocks=True)

    async def aflush(self, timeout: float | None = None) -> None:
        """`flush` for asyncio."""
        await asyncio.to_thread(self.flush, timeout)

    async def aclose(self, timeout: float | None = None) -> None:
        """`close` for asyncio."""
        await asyncio.to_thread(self.close, timeout)

    @overload
    def flush_after(self, handler: Handler) -> Handler: ...

    @overload
    def flush_after(self, *, reserve: float = RESERVE_S) -> Callable[[Handler], Handler]: ...

    def flush_after(
        self, handler: Handler | None = None, *, reserve: float = RESERVE_S
    ) -> Handler | Callable[[Handler], Handler]:
        """Decorate a Lambda handler: flush before it returns, since its sandbox freezes then.

        The flush has the invocation's remaining time but for `reserve` seconds. If events are not
        confirmed by then, the invocation fails with what `flush` raises. If the handler itself
        raises, its error stays.
        """
        if handler is None:
            return functools.partial(self.flush_after, reserve=reserve)
        decorated = handler

        @functools.wraps(decorated)
        def flushing(*arguments: Any, **named: Any) -> Any:
            try:
                answer = decorated(*arguments, **named)
            except BaseException as error:
                self._flush_noting(error, _seconds_left(arguments, reserve))
                raise
            self.flush(_seconds_left(arguments, reserve))
            return answer

        return flushing

    def _flush_noting(self, error: BaseException, timeout: float | None) -> None:
        try:
            self.flush(timeout)
        except (NotSent, TimeoutError) as lost:
            error.add_note(f"and of its events: {lost}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close(EXIT_S if self._spooled else None)  # the spool keeps what is left
        except NotSent as lost:
            if error is None:
                raise
            error.add_note(f"and of the producer's events: {lost}")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)


def _event_of(given: Event | Mapping[str, Any]) -> Event:
    if isinstance(given, Event):
        return given
    event = parse(dict(given))
    if not isinstance(event, Event):
        raise UsageError(f"{event.id!r} is a packet: send its events")
    return event


def _open_spool(path: Path) -> Spool:
    from tallyroll.adapters.journal import FileJournal  # noqa: PLC0415 - it needs a POSIX system

    return Spool(FileJournal(path))


def _check(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        bounds = f"{least:,} or more" if most == math.inf else f"{least:,} to {most:,}"
        raise UsageError(f"{name} {value!r}: give a number, {bounds}")


def _seconds_left(arguments: tuple[Any, ...], reserve: float) -> float | None:
    """The time of an invocation but for the reserve, if its context is among the arguments."""
    for argument in arguments:
        if hasattr(argument, "get_remaining_time_in_millis"):
            left_ms: float = argument.get_remaining_time_in_millis()
            return max(0.0, left_ms / 1000 - reserve)
    return None


def _close_at_exit(close: WeakMethod[Callable[[float], None]]) -> None:
    """Send what is left when the interpreter ends, and log what is lost."""
    method = close()
    if method:
        try:
            method(EXIT_S)
        except NotSent as lost:
            _log.error("at exit, %s", lost)

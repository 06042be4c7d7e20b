"""Which window an event counts in: the one in which it happened, if that window accepted events
when it was sent.

All inputs are fixed for a message (its own time, the queue's SentTimestamp, the window's spec), so
every redelivery chooses the same window, however late it is processed.

Next on the reading path: `model/sharding.py`.
"""

from __future__ import annotations

from tallyroll import limits
from tallyroll.errors import Rejected
from tallyroll.limits import TS_MS_MAX
from tallyroll.model.events import Envelope, Event
from tallyroll.model.formats.payloads import LAYOUT, PayloadLayout
from tallyroll.model.ids import Identity, uuid7_time
from tallyroll.model.items import sized
from tallyroll.model.messages import Message
from tallyroll.model.records import Record, record_of
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar
from tallyroll.model.windows import Span, iso
from tallyroll.reasons import Reason


def span_of(ts: int, sent: int, calendar: Calendar, skew: int) -> Span:
    """The window of the instant `ts`. Raises Rejected (too-far-ahead) if it can have no id."""
    if ts > TS_MS_MAX:
        raise too_far_ahead(sent, skew)
    return calendar.grid.at(ts)


def check_comes(
    span: Span, ts: int, sent: int, calendar: Calendar, skew: int, *, announced: bool
) -> None:
    """Raise Rejected unless a window that has no spec yet will be created, so that waiting helps.

    All regular windows since genesis are created, so `ts` need only lie within the allowed skew
    (ms) after `sent`. An earlier window must be `announced`: an operator opened it, and it has a
    state.
    """
    if ts > sent + skew:
        raise too_far_ahead(sent, skew)
    if span.start < calendar.genesis and not announced:
        raise Rejected(
            Reason.TOO_LATE,
            f"ts {iso(ts)} lies before the pipeline's first window {iso(calendar.genesis)};"
            " open the past window on purpose to load history",
        )


def check_accepts(spec: Spec, ts: int, sent: int) -> None:
    """Raise Rejected unless a window accepts an event of its time `ts` that was sent at `sent`."""
    if ts > sent + spec.skew:
        raise too_far_ahead(sent, spec.skew)
    check_takes(spec, sent)


def check_takes(spec: Spec, sent: int) -> None:
    """Raise Rejected unless a window accepts messages sent at `sent` (ms)."""
    if sent < spec.accept_from:
        raise Rejected(
            Reason.NOT_OPEN_WHEN_SENT,
            f"sent {iso(sent)}; window {spec.window} was opened at {iso(spec.accept_from)}",
        )
    if sent > spec.accept_until:
        raise Rejected(
            Reason.TOO_LATE,
            f"sent {iso(sent)}; window {spec.window} accepted until {iso(spec.accept_until)}",
        )


def too_far_ahead(sent: int, skew: int) -> Rejected:
    """Why a message is rejected whose event's time is after its sending."""
    return Rejected(
        Reason.TOO_FAR_AHEAD,
        f"ts lies more than {skew / 1000:g} s ahead of when it was sent, {iso(sent)}",
    )


def identities_of(envelope: Envelope, message: Message, home: Span) -> tuple[Identity, ...]:
    """The original identities of a message's event or packet, one per key, in the window `home` of
    its time.
    """
    record_id = envelope.id or message.first_id
    others = envelope.other_keys if isinstance(envelope, Event) else ()
    return tuple((home.id, key, record_id) for key in (envelope.key, *others))


def acceptable_record(
    envelope: Envelope,
    message: Message,
    spec: Spec,
    home: Span | None = None,
    layout: PayloadLayout = LAYOUT,
) -> Record:
    """The record of an envelope in a window, with its size. For a redriven message, `home` is the
    window of its time.

    Raises Rejected for what the window cannot hold, whenever it was sent.
    """
    if spec.require_ts and is_undated(envelope):
        raise Rejected(Reason.TS_REQUIRED, "the event has an id of its own but no ts")
    record = sized(record_of(envelope, message, spec, home, layout))
    items = len(record.group) + len(record.attachments) + len(record.identities)
    if items > 1 and record.group_size > limits.EVENT_BYTES_MAX:
        raise Rejected(
            Reason.ITEM_TOO_LARGE,
            f"the {items} items of event {record.id!r} take {record.group_size} bytes"
            f" together, over {limits.EVENT_BYTES_MAX} in one transaction: send a smaller payload",
        )
    return record


def is_undated(envelope: Envelope) -> bool:
    """Whether an event has an id of its own but no time: a resend may fall into another window."""
    return (
        isinstance(envelope, Event)
        and envelope.id is not None
        and envelope.ts is None
        and uuid7_time(envelope.id) is None
    )

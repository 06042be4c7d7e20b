"""Dead letters: what a rejected or undeliverable message carries, and the port of their queue.

A rejected message keeps its body verbatim. A body that does not fit into the queue, or that SQS
would not take, goes to the bucket, and a small JSON pointer {"bucket", "key", "bytes"} stands in
its place. Attributes of a dead letter:

tallyroll-reason, tallyroll-detail    why it can never count, for machines and for people
tallyroll-message-id, tallyroll-sent  the message's first id and SentTimestamp (ms)
tallyroll-window                      the window in which it happened, if it was known
tallyroll-target                      the window that it was redriven to, if it was
tallyroll-body                        "s3" if the body is a pointer

A redriven message on its way to the writer has the target, the id and the sent time. Producers may
set these attributes too, to anything. They count only if all three have their form: a window id, 1
to 100 visible ASCII characters, and ms up to the year 9999. Otherwise the message is as if it had
none of them. So a dead letter repeats no more than 131 bytes of a producer's attributes, and always
fits into the queue, at least as a pointer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tallyroll.limits import TS_MS_MAX
from tallyroll.model.messages import Redrive
from tallyroll.model.windows import WindowId, is_window_id

ATTRIBUTE_REASON = "tallyroll-reason"
ATTRIBUTE_DETAIL = "tallyroll-detail"
ATTRIBUTE_MESSAGE_ID = "tallyroll-message-id"
ATTRIBUTE_SENT = "tallyroll-sent"
ATTRIBUTE_WINDOW = "tallyroll-window"
ATTRIBUTE_TARGET = "tallyroll-target"
ATTRIBUTE_BODY = "tallyroll-body"
BODY_IN_BUCKET = "s3"
REJECTED_PREFIX = "rejected"  # under which a body lies in the bucket
UNDELIVERED = "undelivered"

_MESSAGE_ID = re.compile(r"[!-~]{1,100}")
_MS = re.compile(r"[0-9]{1,15}")


@dataclass(frozen=True, slots=True)
class Pointer:
    """Where a body is that the queue did not take."""

    bucket: str
    key: str


@dataclass(frozen=True, slots=True)
class ReceivedLetter:
    """A dead letter as it was received.

    `id` is its own in the dead-letter queue, where it has been since `arrived` (ms) and was looked
    at `receives` times; `first_id` and `first_sent` (ms) are those of the message when it was new.
    `reason` is None if the queue's own fuse moved it. `target` names the window that it had been
    redriven to.
    """

    id: str
    receipt: str
    receives: int
    arrived: int
    body: str
    reason: str | None
    detail: str
    window: WindowId | None
    first_id: str
    first_sent: int
    target: WindowId | None = None
    pointer: Pointer | None = None

    @property
    def why(self) -> str:
        """The reason in one word; `undelivered` for what the fuse moved."""
        return self.reason or UNDELIVERED

    @property
    def untold(self) -> ReceivedLetter:
        """The letter of a message whose redrive nobody vouches for: as if it had had none."""
        return replace(self, first_id=self.id, first_sent=self.arrived, target=None)


def redrive_of(attributes: Mapping[str, str]) -> Redrive | None:
    """What a message's attributes say of its redrive, if they say all of it in due form.

    Anybody may set them: only the ledger's claim makes them count.
    """
    target, first = attributes.get(ATTRIBUTE_TARGET, ""), _first_of(attributes)
    return Redrive(target, *first) if first and is_window_id(target) else None


def _first_of(attributes: Mapping[str, str]) -> tuple[str, int] | None:
    """The id and the sent time (ms) that a message had when it was new; None unless both have their
    form.
    """
    first_id, sent = attributes.get(ATTRIBUTE_MESSAGE_ID, ""), attributes.get(ATTRIBUTE_SENT, "")
    if not _MESSAGE_ID.fullmatch(first_id) or not _MS.fullmatch(sent):
        return None
    return (first_id, int(sent)) if int(sent) <= TS_MS_MAX else None


def attributes_of(redrive: Redrive) -> dict[str, str]:
    """The attributes by which a redriven message is known."""
    return {
        ATTRIBUTE_TARGET: redrive.target,
        ATTRIBUTE_MESSAGE_ID: redrive.id,
        ATTRIBUTE_SENT: str(redrive.sent),
    }


def letter_of(
    *, id_: str, receipt: str, receives: int, arrived: int, body: str, attributes: Mapping[str, str]
) -> ReceivedLetter:
    """A dead letter from its parts.

    A letter without a reason was moved by the fuse: its other attributes are the producer's, or
    those of a redrive. A target that is no window id is the producer's too: then id and sent time
    are not believed either.
    """
    reason = attributes.get(ATTRIBUTE_REASON)
    redrive = redrive_of(attributes)
    told = redrive is not None or (reason is not None and ATTRIBUTE_TARGET not in attributes)
    first = _first_of(attributes) if told else None
    window = attributes.get(ATTRIBUTE_WINDOW, "")
    in_bucket = reason is not None and attributes.get(ATTRIBUTE_BODY) == BODY_IN_BUCKET
    return ReceivedLetter(
        id=id_,
        receipt=receipt,
        receives=receives,
        arrived=arrived,
        body=body,
        reason=reason,
        detail=attributes.get(ATTRIBUTE_DETAIL, "") if reason else "",
        window=window if reason and is_window_id(window) else None,
        first_id=first[0] if first else id_,
        first_sent=first[1] if first else arrived,
        target=redrive.target if redrive else None,
        pointer=_pointer(body) if in_bucket else None,
    )


def _pointer(body: str) -> Pointer | None:
    try:
        fields: Any = json.loads(body)
        return Pointer(str(fields["bucket"]), str(fields["key"]))
    except (ValueError, KeyError, TypeError):
        return None

"""Dead letters: the messages in the dead-letter queue, rejected by the writer or moved by SQS.

A rejected message keeps its body verbatim. A body that is too large for the queue, or that SQS does
not accept, goes to the bucket, and the message holds a JSON pointer {"bucket", "key", "bytes"}
instead. Attributes of a dead letter:

tallyroll-reason, tallyroll-detail    why it can never count, for machines and for people
tallyroll-message-id, tallyroll-sent  the message's first id and SentTimestamp (ms)
tallyroll-window                      the window in which it happened, if known
tallyroll-target                      the window to which it was redriven, if it was
tallyroll-body                        "s3" if the body is a pointer

A redriven message on its way to the writer has the target, the id and the sent time. Producers can
also set these attributes, to anything. They count only if all three are well-formed: a window id, 1
to 100 visible ASCII characters, and ms up to the year 9999. Otherwise all three are ignored. So a
dead letter repeats at most 131 bytes of a producer's attributes, and always fits into the queue, at
least as a pointer.

SQS marks what it moves itself (`DeadLetterQueueSourceArn`). Such a message has the attributes of
its producer, or of a redrive: it has no reason, its body is its body, and its first id and time are
its own unless a claim in the ledger confirms its redrive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tallyroll.limits import TS_MS_MAX
from tallyroll.model.messages import RedriveMark
from tallyroll.model.retractions import retraction_in
from tallyroll.model.windows import WindowId, is_window_id

ATTRIBUTE_REASON = "tallyroll-reason"
ATTRIBUTE_DETAIL = "tallyroll-detail"
ATTRIBUTE_MESSAGE_ID = "tallyroll-message-id"
ATTRIBUTE_SENT = "tallyroll-sent"
ATTRIBUTE_WINDOW = "tallyroll-window"
ATTRIBUTE_TARGET = "tallyroll-target"
ATTRIBUTE_BODY = "tallyroll-body"
BODY_IN_BUCKET = "s3"
REJECTED_PREFIX = "rejected"  # of the bodies in the bucket: rejected/DAY/MESSAGE-ID
UNDELIVERED = "undelivered"

_MESSAGE_ID = re.compile(r"[!-~]{1,100}")
_MS = re.compile(r"[0-9]{1,15}")
_REJECTED_KEY = re.compile(REJECTED_PREFIX + r"/[0-9]{4}-[0-9]{2}-[0-9]{2}/(?P<id>[!-.0-~]{1,100})")


@dataclass(frozen=True, slots=True)
class Pointer:
    """Where the bucket holds a body that the queue did not take."""

    bucket: str
    key: str

    def is_of(self, letter: ReceivedLetter, bucket: str) -> bool:
        """Whether a writer of the pipeline with this bucket can have put it there for this letter.

        The key ends with the id of the rejected message. Of a redriven one the letter tells only
        the first id, so there every id may stand.
        """
        found = _REJECTED_KEY.fullmatch(self.key)
        if found is None or self.bucket != bucket:
            return False
        return letter.target is not None or found["id"] == letter.first_id


@dataclass(frozen=True, slots=True)
class ReceivedLetter:
    """A dead letter as it was received.

    `id`, `arrived` (ms) and `receives` are those of the letter in the dead-letter queue; `first_id`
    and `first_sent` (ms) are those of the original message. `reason` is None if SQS moved the
    message (maxReceiveCount). `target` is the window to which it had been redriven.
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
        """The reason in one word; `undelivered` if SQS moved the message."""
        return self.reason or UNDELIVERED

    @property
    def retracts(self) -> bool:
        """Whether it is a retraction, perhaps a malformed one."""
        return self.pointer is None and retraction_in(self.body) is not None

    @property
    def untold(self) -> ReceivedLetter:
        """The letter without its redrive, for one that no claim in the ledger confirms."""
        return replace(self, first_id=self.id, first_sent=self.arrived, target=None)


def redrive_of(attributes: Mapping[str, str]) -> RedriveMark | None:
    """The redrive in a message's attributes; None unless all three are well-formed.

    Anybody can set them: they count only with a claim in the ledger.
    """
    target, first = attributes.get(ATTRIBUTE_TARGET, ""), _first_of(attributes)
    return RedriveMark(target, *first) if first and is_window_id(target) else None


def _first_of(attributes: Mapping[str, str]) -> tuple[str, int] | None:
    """The first id and sent time (ms) of a message; None unless both are well-formed."""
    first_id, sent = attributes.get(ATTRIBUTE_MESSAGE_ID, ""), attributes.get(ATTRIBUTE_SENT, "")
    if not _MESSAGE_ID.fullmatch(first_id) or not _MS.fullmatch(sent):
        return None
    return (first_id, int(sent)) if int(sent) <= TS_MS_MAX else None


def attributes_of(redrive: RedriveMark) -> dict[str, str]:
    """The attributes of a redriven message."""
    return {
        ATTRIBUTE_TARGET: redrive.target,
        ATTRIBUTE_MESSAGE_ID: redrive.id,
        ATTRIBUTE_SENT: str(redrive.sent),
    }


def letter_of(
    *,
    id_: str,
    receipt: str,
    receives: int,
    arrived: int,
    body: str,
    attributes: Mapping[str, str],
    moved: bool,
) -> ReceivedLetter:
    """A dead letter from its parts; `moved` is whether SQS moved it.

    The attributes of a letter that SQS moved, or that has no reason, come from the producer or from
    a redrive: only a redrive counts, and only with a claim. A target that is no window id also
    comes from the producer: then the id and the sent time are ignored too.
    """
    reason = None if moved else attributes.get(ATTRIBUTE_REASON)
    redrive = redrive_of(attributes)
    known = redrive is not None or (reason is not None and ATTRIBUTE_TARGET not in attributes)
    first = _first_of(attributes) if known else None
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

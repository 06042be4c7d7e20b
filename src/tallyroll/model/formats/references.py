"""References to payloads that are larger than a message: objects that a producer has uploaded.

Their keys are `payloads/{pipeline}/{day of the upload}/{sha256}-{random}`. A reference is good for
30 days from its upload on. A record that has one marks the object in its own transaction, so what
has no mark once no more references to it are taken is referenced by nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import date
from typing import Any

from tallyroll.errors import Refused, Rejected
from tallyroll.limits import REFERENCE_MS_MAX
from tallyroll.model.amounts import shown
from tallyroll.model.formats.json_texts import canonical
from tallyroll.model.formats.payloads import DAMAGED
from tallyroll.model.windows import iso
from tallyroll.reasons import Reason

FORMAT_REFERENCE = "s3ref1"
PAYLOADS_PREFIX = "payloads"  # of the objects in the bucket
DAY_MS = 86_400_000

_NO_TEXT = b"\xff"  # as of a manifest of chunks
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[a-z0-9-]+")
_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_KEY = re.compile(rf"payloads/({_NAME.pattern})/({_DAY})/[0-9a-z-]{{1,128}}")


@dataclass(frozen=True, slots=True)
class Reference:
    """Where a payload's canonical JSON is: `size` bytes of this SHA-256, in hex."""

    bucket: str
    key: str
    size: int
    sha256: str

    @property
    def content(self) -> list[Any]:
        """What identifies the payload: its digest and its size, and not its place."""
        return [self.sha256, self.size]

    @property
    def fields(self) -> dict[str, Any]:
        """The reference in a message and in the answers of reads."""
        return {"bucket": self.bucket, "key": self.key, "bytes": self.size, "sha256": self.sha256}

    def encode(self) -> bytes:
        """The reference as the data of a record."""
        return _NO_TEXT + canonical(self.fields).encode()


@dataclass(frozen=True, slots=True)
class Mark:
    """The mark of an uploaded object that a record references, by the object's key."""

    key: str

    @property
    def size(self) -> int:
        """The bytes of its item."""
        return len("pksk~payloads.2026-11-20") + len(self.key)


def is_name(pipeline: str) -> bool:
    """Whether references to uploads of a pipeline of this name are taken."""
    return _NAME.fullmatch(pipeline) is not None


def object_key(pipeline: str, now: int, sha256: str, random: str) -> str:
    """The key of an object that is uploaded now (ms)."""
    return f"{PAYLOADS_PREFIX}/{pipeline}/{day_of(now)}/{sha256}-{random}"


def day_of(at: int) -> str:
    """The day (UTC) of an instant, ms."""
    return iso(at)[:10]


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def parse_reference(given: Any) -> Reference:
    """The reference in a message. Raises Rejected (bad-reference)."""
    if isinstance(given, dict):
        bucket, key = given.get("bucket"), given.get("key")
        size, sha256 = given.get("bytes"), given.get("sha256")
        if (
            isinstance(bucket, str)
            and isinstance(key, str)
            and type(size) is int
            and size >= 0
            and isinstance(sha256, str)
            and _SHA256.fullmatch(sha256)
        ):
            return Reference(bucket, key, size, sha256)
    raise Rejected(
        Reason.BAD_REFERENCE,
        f"payload_ref {shown(given)}: must have a bucket, a key, bytes, and a sha256 in hex",
    )


def reference_in(data: bytes | None) -> Reference:
    """The reference in a record's data. Raises ValueError."""
    try:
        return parse_reference(json.loads((data or b"").removeprefix(_NO_TEXT)))
    except (Rejected, ValueError) as error:
        raise ValueError(f"its reference is damaged: {error}") from None


def verified(reference: Reference, body: bytes) -> str:
    """The payload in an object. Raises Refused if it is not the one that the reference names."""
    found = hashlib.sha256(body).hexdigest()
    if (len(body), found) != (reference.size, reference.sha256):
        raise Refused(
            f"s3://{reference.bucket}/{reference.key} has {len(body)} bytes with the SHA-256"
            f" {found}; {reference.size} with {reference.sha256} were uploaded",
            DAMAGED,
        )
    return body.decode()


def check_reference(reference: Reference, bucket: str, pipeline: str, sent: int) -> None:
    """Raise Rejected (bad-reference) unless the object lies in the pipeline's own bucket under its
    own prefix, and was uploaded at most 30 days before its message was sent (ms), and not after the
    day that follows.
    """
    own = f"{PAYLOADS_PREFIX}/{pipeline}/"
    found = _KEY.fullmatch(reference.key)
    if not bucket or reference.bucket != bucket or not found or found[1] != pipeline:
        raise Rejected(
            Reason.BAD_REFERENCE,
            f"payload_ref {shown(reference.key)} in {shown(reference.bucket)}: only objects under"
            f" {own} in {bucket!r} are taken",
        )
    if not _is_day(found[2]) or found[2] > day_of(sent + DAY_MS):
        raise Rejected(
            Reason.BAD_REFERENCE,
            f"payload_ref {shown(reference.key)}: {found[2]} is no day on which it can have been"
            " uploaded: upload the payload again",
        )
    if found[2] < day_of(sent - REFERENCE_MS_MAX):
        raise Rejected(
            Reason.BAD_REFERENCE,
            f"payload_ref {shown(reference.key)}: it was uploaded over"
            f" {REFERENCE_MS_MAX // DAY_MS} days before the message was sent, and may be gone:"
            " upload the payload again",
        )

"""The bucket port on S3."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tallyroll.adapters.aws.client import Caller, retried, translated
from tallyroll.errors import Missing, Refused
from tallyroll.ports.backoff import REQUEST
from tallyroll.ports.bucket import TAG_PASSING, is_archived, is_passing
from tallyroll.ports.effects import Effects

CHUNK_BYTES = 256 * 1024
CHECKSUM = "CRC32"  # of every part; S3 checks it when the upload is completed
# Source: Amazon S3 User Guide, "How to prevent object overwrites with conditional writes".
_EXISTS = "PreconditionFailed"
_CONFLICT = "ConditionalRequestConflict"
_DENIED = "AccessDenied"
_PAST_THE_END = "InvalidRange"  # of an object that ends before the range begins


@dataclass
class S3Bucket:
    """One S3 bucket. With `lock_days` each object of an archive is locked for so long in the mode
    `lock`, which the bucket must allow (Object Lock).
    """

    caller: Caller
    effects: Effects
    name: str
    lock_days: int = 0
    lock: str = ""

    def put(self, key: str, body: bytes) -> None:
        given = {"Bucket": self.name, "Key": key, "Body": body, **self._locked(key)}
        self._tagged(key, lambda tags: self.caller.read("PutObject", **given, **tags))

    def put_once(self, key: str, body: bytes) -> bytes:
        once = {"IfNoneMatch": "*", **self._locked(key)}
        given = {"Bucket": self.name, "Key": key, "Body": body, **once}

        def put() -> bytes:
            try:
                self._tagged(key, lambda tags: self.caller.call("PutObject", **given, **tags))
            except Refused as error:
                if error.code != _EXISTS:
                    raise
                return self.get(key)
            return body

        return retried(self.effects, REQUEST, put, lambda error: error.code == _CONFLICT)

    def _tagged(self, key: str, put: Callable[[Mapping[str, str]], object]) -> None:
        """Put an object with the tags of its key; without them, if these are denied, as by the
        policy of a bucket of another account: then no rule deletes the object.
        """
        tags = _tags(key)
        try:
            put(tags)
        except Refused as error:
            if not tags or error.code != _DENIED:
                raise
            put({})

    def _locked(self, key: str) -> dict[str, Any]:
        """How a new object is locked, as a part of its request, which needs a checksum then. Not by
        a default of the bucket, which would lock notes and tickets, too. Source: S3 User Guide,
        "Object Lock considerations".
        """
        if not self.lock_days or not is_archived(key):
            return {}
        until = datetime.fromtimestamp(self.effects.now() / 1000, UTC) + timedelta(self.lock_days)
        return {
            "ObjectLockMode": self.lock.upper(),
            "ObjectLockRetainUntilDate": until,
            "ChecksumAlgorithm": CHECKSUM,
        }

    def start_upload(self, key: str) -> str:
        given = {"ChecksumAlgorithm": CHECKSUM, **self._locked(key)}
        reply = self.caller.read("CreateMultipartUpload", Bucket=self.name, Key=key, **given)
        return str(reply["UploadId"])

    def put_part(self, key: str, upload: str, number: int, body: bytes) -> str:
        """The receipt is the part's ETag and checksum."""
        reply = self.caller.read(
            "UploadPart",
            Bucket=self.name,
            Key=key,
            UploadId=upload,
            PartNumber=number,
            Body=body,
            ChecksumAlgorithm=CHECKSUM,
        )
        return f"{reply['ETag']} {reply['ChecksumCRC32']}"

    def complete_upload(self, key: str, upload: str, receipts: Sequence[str]) -> None:
        named = [receipt.split(" ") for receipt in receipts]
        parts = [
            {"PartNumber": number, "ETag": etag, "ChecksumCRC32": checksum}
            for number, (etag, checksum) in enumerate(named, 1)
        ]
        self.caller.read(
            "CompleteMultipartUpload",
            Bucket=self.name,
            Key=key,
            UploadId=upload,
            MultipartUpload={"Parts": parts},
        )

    def abort_upload(self, key: str, upload: str) -> None:
        with suppress(Missing):
            self.caller.read("AbortMultipartUpload", Bucket=self.name, Key=key, UploadId=upload)

    def get(self, key: str) -> bytes:
        return self._got(key)

    def get_range(self, key: str, first: int, size: int) -> bytes:
        try:
            return self._got(key, Range=f"bytes={first}-{first + size - 1}")
        except Refused as error:
            if error.code == _PAST_THE_END:
                return b""
            raise

    def _got(self, key: str, **part: str) -> bytes:
        """Read again if the body breaks off."""

        def get() -> bytes:
            reply = self.caller.call("GetObject", Bucket=self.name, Key=key, **part)
            return b"".join(self._chunks(reply))

        return retried(self.effects, REQUEST, get)

    def stream(self, key: str) -> Iterator[bytes]:
        """GetObject in chunks of 256 KB. Raises Missing, and Unknown if the body breaks off."""
        reply = self.caller.read("GetObject", Bucket=self.name, Key=key)
        return self._chunks(reply)

    def _chunks(self, reply: dict[str, Any]) -> Iterator[bytes]:
        with translated("GetObject"), closing(reply["Body"]) as body:
            yield from body.iter_chunks(CHUNK_BYTES)

    def delete(self, key: str) -> None:
        self.caller.read("DeleteObject", Bucket=self.name, Key=key)

    def let_pass(self, key: str) -> None:
        tags = {"TagSet": [{"Key": TAG_PASSING, "Value": "true"}]}
        with suppress(Missing):
            self.caller.read("PutObjectTagging", Bucket=self.name, Key=key, Tagging=tags)

    def list(self, prefix: str, after: str = "") -> Iterator[str]:
        more = {"StartAfter": after} if after else {}
        return (entry["Key"] for entry in self._entries(prefix, **more))

    def sizes(self, prefix: str) -> Iterator[tuple[str, int]]:
        return ((entry["Key"], entry["Size"]) for entry in self._entries(prefix))

    def stamps(self, prefix: str) -> Iterator[tuple[str, str]]:
        return ((entry["Key"], entry["ETag"]) for entry in self._entries(prefix))

    def _entries(self, prefix: str, **more: str) -> Iterator[dict[str, Any]]:
        while True:
            reply = self.caller.read("ListObjectsV2", Bucket=self.name, Prefix=prefix, **more)
            yield from reply.get("Contents", ())
            if not reply.get("IsTruncated"):
                return
            more = {"ContinuationToken": reply["NextContinuationToken"]}


def _tags(key: str) -> dict[str, str]:
    """The tags of a new object, as a part of its request."""
    return {"Tagging": f"{TAG_PASSING}=true"} if is_passing(key) else {}

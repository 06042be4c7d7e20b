"""The bucket port on S3."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from tallyroll.aws import READ_TRIES, Caller, attempts, translated
from tallyroll.errors import StoreError, Throttled, Unknown
from tallyroll.ports import Effects

CHUNK_BYTES = 256 * 1024


class S3Bucket:
    """One S3 bucket."""

    def __init__(self, caller: Caller, effects: Effects, name: str) -> None:
        self._caller = caller
        self._effects = effects
        self.name = name

    def put(self, key: str, body: bytes) -> None:
        """Write an object whole; a repetition writes the same."""
        self._caller.read("PutObject", Bucket=self.name, Key=key, Body=body)

    def get(self, key: str) -> bytes:
        """An object whole. Raises Missing."""
        last: StoreError | None = None
        for _ in attempts(self._effects, READ_TRIES):
            try:
                return b"".join(
                    self._chunks(self._caller.call("GetObject", Bucket=self.name, Key=key))
                )
            except (Throttled, Unknown) as error:
                last = error
        raise last or Unknown(f"GetObject: {key} was never asked for")

    def stream(self, key: str) -> Iterator[bytes]:
        """An object in chunks of 256 KB. Raises Missing, and Unknown if the stream breaks off."""
        reply = self._caller.read("GetObject", Bucket=self.name, Key=key)
        return self._chunks(reply)

    def _chunks(self, reply: dict[str, Any]) -> Iterator[bytes]:
        with translated("GetObject"), closing(reply["Body"]) as body:
            yield from body.iter_chunks(CHUNK_BYTES)

    def list(self, prefix: str) -> Iterator[str]:
        """The keys under a prefix, ascending, by pages of 1,000."""
        more: dict[str, str] = {}
        while True:
            reply = self._caller.read("ListObjectsV2", Bucket=self.name, Prefix=prefix, **more)
            yield from (entry["Key"] for entry in reply.get("Contents", ()))
            if not reply.get("IsTruncated"):
                return
            more = {"ContinuationToken": reply["NextContinuationToken"]}

"""What moto's queues and buckets hold, kept in a file of SQLite over a restart of the server.

Each change is in the file before its request is answered. So nothing that was acknowledged is lost
when the process is killed. The file is not synced: if the machine itself fails, the last changes
may be lost.

A queue or a bucket that is made again under its name holds what it held when the server ended.
Messages can then be received at once, whether or not they were in flight. Of an object the latest
version is kept. How often messages were received since they came into their queue is not kept.
"""

from __future__ import annotations

import sqlite3
from ast import literal_eval
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from moto.s3.models import FakeDeleteMarker, S3Backend
from moto.sqs import models

from tallyroll.testing.queue_index import Messages

_TABLES = """
CREATE TABLE IF NOT EXISTS messages (queue TEXT, place INTEGER PRIMARY KEY, id TEXT, content TEXT);
CREATE INDEX IF NOT EXISTS messages_by_id ON messages (queue, id);
CREATE TABLE IF NOT EXISTS objects (bucket TEXT, key TEXT, body BLOB, content TEXT,
    PRIMARY KEY (bucket, key));
"""
_NOT_KEPT = {"receipt_handle", "_old_receipt_handles", "visible_at", "received_at"}
_OF_AN_OBJECT = (
    *("_etag", "_storage_class", "encryption", "kms_key_id", "bucket_key_enabled"),
    *("checksum_algorithm", "checksum_value", "checksum_type", "checksum_parts"),
)


class Kept:
    """The file. `commit` writes what a request has changed; call all under the server's lock."""

    def __init__(self, file: Path) -> None:
        self._file = sqlite3.connect(file, check_same_thread=False)
        self._file.executescript(f"PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; {_TABLES}")
        self._touched: dict[tuple[str, str], Any] = {}
        self._queues = self._names("queue", "messages")
        self._buckets = self._names("bucket", "objects")

    def _names(self, column: str, table: str) -> set[str]:
        return {name for (name,) in self._file.execute(f"SELECT DISTINCT {column} FROM {table}")}  # noqa: S608

    def commit(self) -> None:
        """Write what was changed since the last commit."""
        for (bucket, key), keys in self._touched.items():
            self._write(bucket, key, keys.get(key))
        self._touched.clear()
        self._file.commit()

    def messages(self, queue: str) -> Iterator[models.Message]:
        """The messages that a queue of this name held when the server ended; once."""
        if queue in self._queues:
            self._queues.remove(queue)
            rows = self._file.execute(
                "SELECT content FROM messages WHERE queue = ? ORDER BY place", (queue,)
            )
            for (content,) in rows.fetchall():
                members = literal_eval(content)
                message = models.Message(members["id"], members["body"])
                vars(message).update(members)
                yield message
        self.clear(queue)

    def put(self, queue: str, message: models.Message) -> None:
        """Keep a message."""
        members = {name: v for name, v in vars(message).items() if name not in _NOT_KEPT}
        self._file.execute(
            "INSERT INTO messages (queue, id, content) VALUES (?, ?, ?)",
            (queue, message.id, repr(members)),
        )

    def remove(self, queue: str, message: models.Message) -> None:
        """Keep a message no longer."""
        self._file.execute("DELETE FROM messages WHERE queue = ? AND id = ?", (queue, message.id))

    def clear(self, queue: str) -> None:
        """Keep no message of a queue."""
        self._file.execute("DELETE FROM messages WHERE queue = ?", (queue,))

    def touch(self, bucket: Any, key: str) -> None:
        """Let the next commit write an object as it is then."""
        self._touched[bucket.name, key] = bucket.keys

    def _write(self, bucket: str, key: str, found: Any) -> None:
        if found is None or isinstance(found, FakeDeleteMarker):
            self._file.execute("DELETE FROM objects WHERE bucket = ? AND key = ?", (bucket, key))
            return
        members = {name: getattr(found, name, None) for name in _OF_AN_OBJECT}
        members["_metadata"] = dict(found.metadata)
        members["last_modified"] = found.last_modified.isoformat()
        self._file.execute(
            "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)",
            (bucket, key, found.value, repr(members)),
        )

    def restore(self, backend: S3Backend, bucket: str) -> None:
        """Put the objects into a new bucket that one of this name held when the server ended."""
        if bucket not in self._buckets:
            self._file.execute("DELETE FROM objects WHERE bucket = ?", (bucket,))
            return
        self._buckets.remove(bucket)
        for key, body, content in self._file.execute(
            "SELECT key, body, content FROM objects WHERE bucket = ?", (bucket,)
        ):
            made: Any = backend.put_object(bucket, key, body, disable_notification=True)
            members = literal_eval(content)
            made.set_metadata(members.pop("_metadata"))
            made.last_modified = datetime.fromisoformat(members.pop("last_modified"))
            vars(made).update(members)
        self._touched.clear()


class _KeptMessages(Messages):
    """The index of a queue's messages; what is added and removed is also in the file."""

    def __init__(self, kept: Kept, queue: str) -> None:
        self._kept, self._queue = kept, queue
        super().__init__()

    def append(self, message: models.Message) -> None:
        super().append(message)
        self._kept.put(self._queue, message)

    def remove(self, message: models.Message) -> None:
        super().remove(message)
        self._kept.remove(self._queue, message)


def install(kept: Kept) -> None:
    """Let moto's queues and buckets be kept from now on, in this process; call it after
    `tallyroll.testing.lean_sqs.install`.
    """
    lean: Any = models.Queue

    class KeptQueue(lean):  # type: ignore[misc]
        """A lean queue whose messages are kept."""

        @property
        def _messages(self) -> Any:
            return self._indexed

        @_messages.setter
        def _messages(self, messages: list[models.Message]) -> None:
            """Moto gives an empty list: to a new queue, and to one that is purged."""
            first = not hasattr(self, "_indexed")
            found = list(kept.messages(self.name)) if first else messages
            if not first:
                kept.clear(self.name)
            self._indexed = _KeptMessages(kept, self.name)
            for message in found:
                self._indexed.append(message)

    models.Queue = KeptQueue  # type: ignore[misc]
    _keep_buckets(kept)


def _keep_buckets(kept: Kept) -> None:
    backend: Any = S3Backend
    make, put, delete = backend.create_bucket, backend.put_object, backend.delete_object

    def create_bucket(self: S3Backend, bucket_name: str, *args: Any, **options: Any) -> Any:
        made = make(self, bucket_name, *args, **options)
        kept.restore(self, bucket_name)
        return made

    def put_object(
        self: S3Backend, bucket_name: str, key_name: str, *args: Any, **options: Any
    ) -> Any:
        made = put(self, bucket_name, key_name, *args, **options)
        kept.touch(self.get_bucket(bucket_name), key_name)
        return made

    def delete_object(
        self: S3Backend, bucket_name: str, key_name: str, *args: Any, **options: Any
    ) -> Any:
        done = delete(self, bucket_name, key_name, *args, **options)
        kept.touch(self.get_bucket(bucket_name), key_name)
        return done

    backend.create_bucket = create_bucket
    backend.put_object = put_object
    backend.delete_object = delete_object

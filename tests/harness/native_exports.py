"""DynamoDB's own exports in memory, by its documented rules.

Source: DynamoDB Developer Guide, "Requesting a table export in DynamoDB" and "DynamoDB table export
output format"; DynamoDB API Reference, ExportTableToPointInTime.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from tallyroll.adapters.dynamodb.items import CODEC, stored_item
from tallyroll.adapters.memory.bucket import MemoryBucket
from tallyroll.adapters.memory.store import MemoryStore
from tallyroll.archive.indexed.members import DataFileWriter
from tallyroll.archive.layout import DataFile
from tallyroll.errors import Missing, Refused
from tallyroll.model.items import StoredItem
from tallyroll.model.sharding import stable_hash
from tallyroll.model.windows import iso
from tallyroll.ports.effects import Effects
from tallyroll.ports.exports import ExportState, ExportStatus

LATEST_BEHIND_MS = 300_000
RECOVERY_MS = 35 * 86_400_000  # how far back a table can be restored and exported
FILES = 4  # DynamoDB chooses; some may be empty


@dataclass(slots=True)
class Export:
    """One export; what it found in the table is written when it ends at `ends_at` (ms)."""

    arn: str
    asked: tuple[str, str, str, int]
    ends_at: int
    items: list[StoredItem]
    state: ExportState = field(default_factory=lambda: ExportState(ExportStatus.RUNNING))


class MemoryExports:
    """The port of exports, over a memory store and bucket; each export takes `taking_ms`.

    `protected_since` says of which tables point-in-time recovery is on since when, ms; all others
    have had it since they were made if `always`.
    """

    def __init__(
        self,
        effects: Effects,
        store: MemoryStore,
        bucket: MemoryBucket,
        *,
        taking_ms: int = 0,
        always: bool = True,
    ) -> None:
        self._effects = effects
        self._store = store
        self._bucket = bucket
        self._taking_ms = taking_ms
        self._always = always
        self.protected_since: dict[str, int] = {}
        self.fails: Mapping[str, str] = {}
        self.exports: dict[str, Export] = {}

    def restorable(self, table: str) -> tuple[int, int] | None:
        """The earliest and latest time that can be exported. Raises Missing."""
        self._store.items(table)
        since = self.protected_since.get(table, 0 if self._always else None)
        now = self._effects.now()
        return None if since is None else (max(since, now - RECOVERY_MS), now - LATEST_BEHIND_MS)

    def start(self, table: str, bucket: str, prefix: str, at: int, token: str) -> str:
        """Begin an export, or find the one of that token."""
        asked = (table, bucket, prefix, at)
        if token in self.exports:
            if self.exports[token].asked != asked:
                raise Refused(f"token {token} was used otherwise", "ExportConflictException")
            return self.exports[token].arn
        range_ms = self.restorable(table)
        if range_ms is None:
            code = "PointInTimeRecoveryUnavailableException"
            raise Refused(f"{table} has no point-in-time recovery", code)
        if not range_ms[0] <= at <= range_ms[1] or at % 1000:
            raise Refused(f"{at} cannot be exported: {range_ms}", "InvalidExportTimeException")
        export_id = f"{at:017d}-{stable_hash(token) % 16**8:08x}"
        arn = f"arn:aws:dynamodb:us-east-1:123456789012:table/{table}/export/{export_id}"
        items = [stored_item(item) for item in self._store.items(table).values()]
        ends_at = self._effects.now() + self._taking_ms
        self.exports[token] = Export(arn, asked, ends_at, items)
        return arn

    def state(self, arn: str) -> ExportState:
        """How far it is; what it exports is written when it ends."""
        found = [export for export in self.exports.values() if export.arn == arn]
        if not found:
            raise Missing(f"there is no export {arn}", "ExportNotFoundException")
        [export] = found
        over = self._effects.now() >= export.ends_at
        if over and export.state.status is ExportStatus.RUNNING:
            code = self.fails.get(export.asked[0], "")
            if not code:
                self._write(export)
            status = ExportStatus.FAILED if code else ExportStatus.COMPLETED
            export.state = ExportState(status, code)
        return export.state

    def _write(self, export: Export) -> None:
        _, bucket, prefix, at = export.asked
        export_id = export.arn.rpartition("/")[2]
        files = []
        for number in range(FILES):
            writer = DataFileWriter()
            for item in export.items:
                if stable_hash(item.pk) % FILES == number:
                    writer.add(CODEC.encode(item))
            key = f"{prefix}/AWSDynamoDB/{export_id}/data/{stable_hash(export_id + str(number)):x}"
            self._bucket.put(f"{key}.json.gz", writer.part(last=True))
            files.append(DataFile(f"{key}.json.gz", writer.items, writer.md5))
        self._bucket.put(f"{prefix}/AWSDynamoDB/{export_id}/_started", b"")
        files_key = f"{prefix}/AWSDynamoDB/{export_id}/manifest-files.json"
        listed = [
            {"itemCount": file.items, "md5Checksum": file.md5, "dataFileS3Key": file.key}
            for file in files
        ]
        self._put_with_md5(files_key, "\n".join(map(json.dumps, listed)))
        summary = {
            "version": "2020-06-30",
            "exportArn": export.arn,
            "startTime": iso(export.ends_at - self._taking_ms),
            "endTime": iso(export.ends_at),
            "tableArn": export.arn.partition("/export/")[0],
            "exportTime": iso(at),
            "s3Bucket": bucket,
            "s3Prefix": prefix,
            "s3SseAlgorithm": "AES256",
            "s3SseKmsKeyId": None,
            "manifestFilesS3Key": files_key,
            "billedSizeBytes": 0,
            "itemCount": sum(file.items for file in files),
            "outputFormat": "DYNAMODB_JSON",
        }
        self._put_with_md5(files_key.replace("-files", "-summary"), json.dumps(summary))

    def _put_with_md5(self, key: str, text: str) -> None:
        digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
        self._bucket.put(key.replace(".json", ".md5"), digest.encode())
        self._bucket.put(key, text.encode())

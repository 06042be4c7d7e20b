"""DynamoDB's own exports, which no engine has: the calls, and the files that AWS leaves in S3.

Source: DynamoDB API Reference, ExportTableToPointInTime, DescribeExport, DescribeContinuousBackups;
DynamoDB Developer Guide, "DynamoDB table export output format".
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from tests.faults import wire

Put = Callable[[str, str, bytes, Mapping[str, str]], object]
"""Puts an object: bucket, key, body, and how it is encrypted."""


@dataclass
class NativeExports:
    """Exports of tables whose name ends with `restorable`, the only ones with recovery on."""

    restorable: str = ""
    put: Put = lambda bucket, key, body, encryption: None
    now: Callable[[], int] = lambda: 0
    _begun: dict[str, str] = field(default_factory=dict)
    _left: dict[str, Callable[[], None]] = field(default_factory=dict)

    def backups(self, request: AWSPreparedRequest, table: str) -> AWSResponse | None:
        """DescribeContinuousBackups; None for a table that is the engine's to answer for."""
        if not self.restorable or not table.endswith(self.restorable):
            return None
        recovery = {
            "PointInTimeRecoveryStatus": "ENABLED",
            "EarliestRestorableDateTime": 0,
            "LatestRestorableDateTime": self.now() // 1000,
        }
        said = {"ContinuousBackupsStatus": "ENABLED", "PointInTimeRecoveryDescription": recovery}
        return wire.json_reply(request, {"ContinuousBackupsDescription": said})

    def start(
        self,
        request: AWSPreparedRequest,
        params: wire.Params,
        send: Callable[[AWSPreparedRequest], AWSResponse],
    ) -> AWSResponse:
        """ExportTableToPointInTime: one export per token."""
        token = params["ClientToken"]
        if token not in self._begun:
            export_id = hashlib.sha256(token.encode()).hexdigest()[:16]
            asked = {"TableName": params["TableArn"].rpartition("/")[2], "ConsistentRead": True}
            answer = send(wire.as_operation(request, "Scan", asked))
            if answer.status_code >= wire.REFUSED:
                return answer
            arn = f"{params['TableArn']}/export/{export_id}"
            items = json.loads(answer.content)["Items"]
            self._left[arn] = partial(self._leave, params, export_id, items)
            self._begun[token] = arn
        return self._described(request, self._begun[token], "IN_PROGRESS")

    def describe(self, request: AWSPreparedRequest, arn: str) -> AWSResponse:
        """DescribeExport: it is over when it is first asked for, and its files are there."""
        self._left[arn]()
        return self._described(request, arn, "COMPLETED")

    def _described(self, request: AWSPreparedRequest, arn: str, status: str) -> AWSResponse:
        said = {"ExportArn": arn, "ExportStatus": status}
        return wire.json_reply(request, {"ExportDescription": said})

    def _leave(self, params: wire.Params, export_id: str, items: list[wire.Params]) -> None:
        bucket, prefix = params["S3Bucket"], f"{params['S3Prefix']}/AWSDynamoDB/{export_id}"
        body = gzip.compress("".join(json.dumps({"Item": item}) + "\n" for item in items).encode())
        md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
        data, files = f"{prefix}/data/aaaa.json.gz", f"{prefix}/manifest-files.json"
        line = {"itemCount": len(items), "md5Checksum": md5, "etag": "", "dataFileS3Key": data}
        summary = {
            "version": "2020-06-30",
            "tableArn": params["TableArn"],
            "exportTime": "2026-11-20T10:00:00.000Z",
            "s3Bucket": bucket,
            "s3Prefix": params["S3Prefix"],
            "manifestFilesS3Key": files,
            "itemCount": len(items),
            "outputFormat": "DYNAMODB_JSON",
            "exportType": "FULL_EXPORT",
        }
        put = partial(self._put, params)
        put(data, body)
        put(files, (json.dumps(line) + "\n").encode())
        put(f"{prefix}/manifest-summary.json", json.dumps(summary).encode())

    def _put(self, params: wire.Params, key: str, body: bytes) -> None:
        """Put an object under SSE-S3, whatever the bucket's default is, unless told otherwise."""
        encryption = {"ServerSideEncryption": "AES256"}
        if params.get("S3SseAlgorithm") == "KMS":
            encryption = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": params["S3SseKmsKeyId"]}
        self.put(params["S3Bucket"], key, body, encryption)

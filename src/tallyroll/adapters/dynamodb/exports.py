"""The port of native exports, on DynamoDB.

Source: DynamoDB API Reference, ExportTableToPointInTime, DescribeExport, DescribeContinuousBackups.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.dynamodb.requests import RECOVERY_ON, recovery_of
from tallyroll.errors import Throttled
from tallyroll.model.windows import DYNAMODB, store_of
from tallyroll.ports.exports import ExportState, ExportStatus

_STATES = {
    "IN_PROGRESS": ExportStatus.RUNNING,
    "COMPLETED": ExportStatus.COMPLETED,
    "FAILED": ExportStatus.FAILED,
}


@dataclass(frozen=True)
class DynamoExports:
    """The port of exports on one account's DynamoDB, which encrypts archives under `kms_key` (an
    ARN), or under S3's own key.
    """

    caller: Caller
    kms_key: str = ""

    def restorable(self, table: str) -> tuple[int, int] | None:
        if store_of(table) != DYNAMODB:
            return None
        found = recovery_of(self.caller, table)
        if not found or found.get("PointInTimeRecoveryStatus") != RECOVERY_ON:
            return None
        if "LatestRestorableDateTime" not in found:  # just switched on
            raise Throttled(f"{table} has no restorable time yet", "NoRestorableTime")
        earliest, latest = found["EarliestRestorableDateTime"], found["LatestRestorableDateTime"]
        return _ms(earliest), _ms(latest)

    def start(self, table: str, bucket: str, prefix: str, at: int, token: str) -> str:
        """Raises Refused if the time cannot be restored or the bucket is not writable."""
        arn = self.caller.read("DescribeTable", TableName=table)["Table"]["TableArn"]
        reply = self.caller.read(
            "ExportTableToPointInTime",
            TableArn=arn,
            ClientToken=token,
            ExportFormat="DYNAMODB_JSON",
            ExportTime=datetime.fromtimestamp(at // 1000, UTC),
            S3Bucket=bucket,
            S3Prefix=prefix,
            **self._encryption(),
        )
        return str(reply["ExportDescription"]["ExportArn"])

    def _encryption(self) -> dict[str, str]:
        """Said always: what is left out is SSE-S3, whatever the bucket's default is, and a bucket
        policy that asks for the key would refuse it.
        """
        if not self.kms_key:
            return {"S3SseAlgorithm": "AES256"}
        return {"S3SseAlgorithm": "KMS", "S3SseKmsKeyId": self.kms_key}

    def state(self, arn: str) -> ExportState:
        reply = self.caller.read("DescribeExport", ExportArn=arn)
        found: dict[str, Any] = reply["ExportDescription"]
        status = _STATES[found["ExportStatus"]]
        problem = ": ".join(filter(None, (found.get("FailureCode"), found.get("FailureMessage"))))
        return ExportState(status, problem)


def _ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)

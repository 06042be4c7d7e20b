"""DynamoDB's own exports: the port on the service.

Source: DynamoDB API Reference, ExportTableToPointInTime, DescribeExport, DescribeContinuousBackups.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tallyroll.adapters.aws.client import Caller
from tallyroll.errors import Refused, Throttled
from tallyroll.ports.exports import ExportState, ExportStatus

_STATES = {
    "IN_PROGRESS": ExportStatus.RUNNING,
    "COMPLETED": ExportStatus.COMPLETED,
    "FAILED": ExportStatus.FAILED,
}
_ON = "ENABLED"
_UNKNOWN_OPERATION = "UnknownOperationException"  # DynamoDB Local has no backups


class DynamoExports:
    """The port of exports on one account's DynamoDB."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def restorable(self, table: str) -> tuple[int, int] | None:
        """By DescribeContinuousBackups, ms; None where point-in-time recovery is off, or unknown to
        the engine. Raises Missing.
        """
        try:
            reply = self._caller.read("DescribeContinuousBackups", TableName=table)
        except Refused as error:
            if error.code == _UNKNOWN_OPERATION:
                return None
            raise
        said = reply["ContinuousBackupsDescription"].get("PointInTimeRecoveryDescription", {})
        if said.get("PointInTimeRecoveryStatus") != _ON:
            return None
        if "LatestRestorableDateTime" not in said:  # just switched on
            raise Throttled(f"{table} has no restorable time yet", "NoRestorableTime")
        earliest, latest = said["EarliestRestorableDateTime"], said["LatestRestorableDateTime"]
        return _ms(earliest), _ms(latest)

    def start(self, table: str, bucket: str, prefix: str, at: int, token: str) -> str:
        """ExportTableToPointInTime; the export's ARN. Raises Missing, and Refused if recovery is
        off, the time cannot be restored or the bucket may not be written.
        """
        arn = self._caller.read("DescribeTable", TableName=table)["Table"]["TableArn"]
        reply = self._caller.read(
            "ExportTableToPointInTime",
            TableArn=arn,
            ClientToken=token,
            ExportFormat="DYNAMODB_JSON",
            ExportTime=datetime.fromtimestamp(at // 1000, UTC),
            S3Bucket=bucket,
            S3Prefix=prefix,
        )
        return str(reply["ExportDescription"]["ExportArn"])

    def state(self, arn: str) -> ExportState:
        """By DescribeExport. Raises Missing if the export is not known."""
        reply = self._caller.read("DescribeExport", ExportArn=arn)
        said: dict[str, Any] = reply["ExportDescription"]
        status = _STATES[said["ExportStatus"]]
        problem = ": ".join(filter(None, (said.get("FailureCode"), said.get("FailureMessage"))))
        return ExportState(status, problem)


def _ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)

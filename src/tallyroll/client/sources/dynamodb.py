"""DynamoDB's exports to S3: their manifests, and items in DynamoDB JSON.

Sources: Amazon DynamoDB Developer Guide, "DynamoDB table export output format" and "Data type
descriptors".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from tallyroll.client.jsonlines import LINE_TOO_LONG
from tallyroll.client.sources.records import BadRecord, Change, Changed
from tallyroll.errors import Missing, Rejected, UsageError
from tallyroll.model.amounts import JsonFloat, shown
from tallyroll.model.formats.json_texts import load_json
from tallyroll.ports.bucket import Bucket
from tallyroll.reasons import Reason

SUMMARY = "manifest-summary.json"
FILES = "manifest-files.json"
JSON_FORMAT = "DYNAMODB_JSON"
BAD_ITEM = "bad-item"


@dataclass(frozen=True, slots=True)
class ExportFile:
    """A data file of an export: its key, and the MD5 that its manifest gives (base64)."""

    key: str
    md5: str


def export_files(bucket: Bucket, summary: str) -> Iterator[ExportFile]:
    """The data files of the export with this summary, in the manifest's order. Their keys are those
    beside the summary, so an export may have been copied to anywhere.

    Raises UsageError for what is no manifest, and for an export in another format.
    """
    folder = PurePosixPath(summary).parent
    try:
        said = json.loads(bucket.get(summary))
        lines = bucket.get(str(folder / FILES)).decode().splitlines()
        files = [json.loads(line) for line in lines if line.strip()]
        kind = said.get("outputFormat", JSON_FORMAT)
        keys = [(str(file["dataFileS3Key"]), str(file["md5Checksum"])) for file in files]
    except Missing as error:
        raise UsageError(f"{summary}: the export is not complete: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{summary}: no manifest of a DynamoDB export: {error!r}") from None
    if kind != JSON_FORMAT:
        raise UsageError(f"{summary}: the export is in {kind}: export it as {JSON_FORMAT}")
    for key, md5 in keys:
        yield ExportFile(str(folder / "data" / PurePosixPath(key).name), md5)


def image_of(line: bytes | None) -> dict[str, Any] | BadRecord:
    """The item of a line of an export, as Python values; or why it has none."""
    if line is None:
        return BadRecord(Reason.ITEM_TOO_LARGE, LINE_TOO_LONG)
    try:
        fields = load_json(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return BadRecord(Reason.NOT_JSON, "not UTF-8")
    except Rejected as rejected:
        return BadRecord(rejected.reason, rejected.detail)
    if not isinstance(fields, dict):
        return BadRecord(Reason.NOT_AN_OBJECT, f"{shown(fields)} is not a JSON object")
    if "Item" not in fields and "Keys" in fields:
        if "NewImage" not in fields:
            return Changed(Change.DELETE)
        if "OldImage" in fields:
            return Changed(Change.UPDATE)
    image = fields.get("Item", fields.get("NewImage"))
    if not isinstance(image, dict):
        return BadRecord(BAD_ITEM, "has neither Item nor NewImage: is it DynamoDB JSON?")
    try:
        return {name: _value(each) for name, each in image.items()}
    except (ValueError, TypeError, AttributeError):
        return BadRecord(BAD_ITEM, f"{shown(image)} is not DynamoDB JSON")


def _value(given: dict[str, Any]) -> Any:
    """The value of an attribute such as {"N": "1.5"}; binary ones stay base64. Raises ValueError
    and TypeError.
    """
    ((kind, value),) = given.items()
    match kind:
        case "S" | "B" | "BOOL" | "SS" | "BS":
            return value
        case "N":
            return _number(value)
        case "NS":
            return [_number(each) for each in value]
        case "NULL":
            return None
        case "L":
            return [_value(each) for each in value]
        case "M":
            return {name: _value(each) for name, each in value.items()}
    raise ValueError(kind)


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdecimal() else JsonFloat(text)

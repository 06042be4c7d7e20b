"""Shifts all times in an event by one amount."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

NEAR_MS = 400 * 86_400_000  # other numbers of 13 digits are no times of a sample
SAMPLES_NOW = 1_795_163_400_000  # 2026-11-20T08:30:00Z, the time of all samples
_MS = re.compile(r"(?<![\w.])\d{13}(?![\w.])")
_TS = re.compile(r'"t(?:s|0)"\s*:\s*(\d{13})(?!\d)')
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d)(:|%3A)(\d\d)\2(\d\d)(\.\d{3})?Z")
_WINDOW = re.compile(r"(?<!\w)\d{8}T\d{6}Z(?!\w)")
_CLF = re.compile(r"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d \+0000")  # API Gateway's own form
_UUID7 = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})(-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})")
_CLF_FORM, _WINDOW_FORM = "%d/%b/%Y:%H:%M:%S +0000", "%Y%m%dT%H%M%SZ"


def shifted(value: Any, ms: int) -> Any:
    """An event, or a part of it, with all its times shifted by these ms."""
    if isinstance(value, dict):
        moved = {name: shifted(each, ms) for name, each in value.items()}
        if "md5OfBody" in moved and isinstance(moved.get("body"), str):
            body = moved["body"].encode(errors="surrogatepass")
            moved["md5OfBody"] = hashlib.md5(body, usedforsecurity=False).hexdigest()
        return moved
    if isinstance(value, list):
        return [shifted(each, ms) for each in value]
    if isinstance(value, str):
        return _text(value, ms)
    if isinstance(value, int) and not isinstance(value, bool) and _near(value):
        return value + ms
    return value


def wrapped(text: str) -> dict[str, Any]:
    """The lines of a text as messages of one batch, sent when the newest event in them happened,
    or at the time of all samples if no line has a time.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    happened = [int(found) for line in lines for found in _TS.findall(line)]
    sent = str(max(filter(_near, happened), default=SAMPLES_NOW - 1))
    return {"Records": [_message(number, line, sent) for number, line in enumerate(lines, 1)]}


def _message(number: int, body: str, sent: str) -> dict[str, Any]:
    return {
        "messageId": f"{number:08x}-0000-4000-8000-000000000000",
        "receiptHandle": f"line-{number}",
        "body": body,
        "attributes": {
            "ApproximateReceiveCount": "1",
            "SentTimestamp": sent,
            "SenderId": "line",
            "ApproximateFirstReceiveTimestamp": sent,
        },
        "messageAttributes": {},
        "md5OfBody": "",
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:tallyroll-events",
        "awsRegion": "us-east-1",
    }


def _near(ms: int) -> bool:
    return abs(ms - SAMPLES_NOW) < NEAR_MS


def _text(text: str, ms: int) -> str:
    def number(found: re.Match[str]) -> str:
        return str(int(found[0]) + ms) if _near(int(found[0])) else found[0]

    def iso(found: re.Match[str]) -> str:
        at = datetime.fromisoformat(f"{found[1]}:{found[3]}:{found[4]}{found[5] or ''}+00:00")
        moved = at + timedelta(milliseconds=ms)
        exact = found[5] or moved.microsecond
        form = moved.isoformat(timespec="milliseconds" if exact else "seconds")
        return form.removesuffix("+00:00").replace(":", found[2]) + "Z"

    def uuid7(found: re.Match[str]) -> str:
        at = int(found[1] + found[2], 16)
        moved = f"{at + ms:012x}" if _near(at) else found[1] + found[2]
        return f"{moved[:8]}-{moved[8:]}{found[3]}"

    text = _UUID7.sub(uuid7, _ISO.sub(iso, _MS.sub(number, text)))
    return _CLF.sub(_form(_CLF_FORM, ms), _WINDOW.sub(_form(_WINDOW_FORM, ms), text))


def _form(form: str, ms: int) -> Callable[[re.Match[str]], str]:
    def moved(found: re.Match[str]) -> str:
        at = datetime.strptime(found[0], form).replace(tzinfo=UTC)
        return (at + timedelta(milliseconds=ms)).strftime(form)

    return moved

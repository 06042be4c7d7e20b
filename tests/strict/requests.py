"""Reads requests off the wire, as botocore sends them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.strict.values import HERE, Request

LOCAL = "ddblocal:000000000000"  # Region and account in the ARNs of DynamoDB Local

# S3's operations by method, whether a key is named, and the part of the query that decides.
_OF_S3 = {
    ("GET", True, ""): "GetObject",
    ("HEAD", True, ""): "HeadObject",
    ("PUT", True, ""): "PutObject",
    ("PUT", True, "tagging"): "PutObjectTagging",
    ("DELETE", True, ""): "DeleteObject",
    ("POST", True, "uploads"): "CreateMultipartUpload",
    ("PUT", True, "uploadId"): "UploadPart",
    ("POST", True, "uploadId"): "CompleteMultipartUpload",
    ("DELETE", True, "uploadId"): "AbortMultipartUpload",
    ("GET", False, "list-type"): "ListObjectsV2",
}
_DECIDE = ("uploads", "uploadId", "list-type", "tagging")
_TAG = re.compile(rb"<Key>([^<]*)</Key>\s*<Value>([^<]*)</Value>")


def request_of(
    service: str,
    method: str,
    url: str,
    target: str | bytes | None,
    body: bytes | str | None,
    tagging: str | bytes | None = None,
    lock: str | bytes | None = None,
) -> Request:
    """The request of an HTTP message; `target` is its header X-Amz-Target, which all but S3 have,
    `tagging` its header X-Amz-Tagging, `lock` its header X-Amz-Object-Lock-Mode.

    Raises KeyError for an operation of S3 that is not known here.
    """
    if target is None:
        found = _of_s3(method, url, tagging, body)
        return replace(found, params={**found.params, "ObjectLockMode": lock}) if lock else found
    named = target.decode() if isinstance(target, bytes) else target
    text = body.decode() if isinstance(body, bytes) else body or "{}"
    return Request(service, named.rpartition(".")[2], json.loads(text.replace(LOCAL, HERE)))


def _of_s3(method: str, url: str, tagging: str | bytes | None, body: bytes | str | None) -> Request:
    parts = urlsplit(url)
    path = unquote(parts.path).lstrip("/")
    bucket, dot, _ = (parts.hostname or "").partition(".s3.")
    if dot:
        key = path
    else:
        bucket, _, key = path.partition("/")
    query = parse_qs(parts.query, keep_blank_values=True)
    decides = next((name for name in _DECIDE if name in query), "")
    operation = _OF_S3[method, bool(key), decides]
    tags = {"Tagging": tagging.decode() if isinstance(tagging, bytes) else tagging}
    params: dict[str, Any] = {"Bucket": bucket, "Key": key} | (tags if tagging else {})
    if operation == "PutObjectTagging":
        text = body.encode() if isinstance(body, str) else body or b""
        named = ((name.decode(), value.decode()) for name, value in _TAG.findall(text))
        params["Tags"] = [{"Key": name, "Value": value} for name, value in named]
    return Request("s3", operation, params)

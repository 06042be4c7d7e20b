"""Requests and replies as they are on the wire: errors in each service's words, edited batches."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

from botocore.awsrequest import AWSPreparedRequest, AWSResponse, HeadersDict
from urllib3.exceptions import ProtocolError

Params = dict[str, Any]
# S3 begins to answer before it is done, so an error may come with 200 (Amazon S3 API Reference,
# CompleteMultipartUpload).
ERRORS_BY_200 = frozenset({"CompleteMultipartUpload"})
REFUSED = 300  # HTTP statuses from here on say that a request was not carried out

SERVER_ERRORS: Mapping[str, Sequence[tuple[int, str]]] = {
    "dynamodb": ((500, "InternalServerError"), (503, "ServiceUnavailable")),
    "sqs": ((500, "InternalFailure"), (503, "ServiceUnavailable")),
    "s3": ((500, "InternalError"), (503, "ServiceUnavailable")),
    "cloudwatch": ((500, "InternalServiceError"), (503, "ServiceUnavailable")),
    "lambda": ((500, "ServiceException"), (503, "ServiceUnavailable")),
    "service-quotas": ((500, "ServiceException"), (503, "ServiceUnavailable")),
}
THROTTLES: Mapping[str, Sequence[tuple[int, str, Params]]] = {
    "dynamodb": (
        (
            400,
            "ThrottlingException",
            {"throttlingReasons": [{"reason": "TableWriteKeyRangeThroughputExceeded"}]},
        ),
        (
            400,
            "ProvisionedThroughputExceededException",
            {"ThrottlingReasons": [{"reason": "TableReadMaxOnDemandThroughputExceeded"}]},
        ),
        (400, "RequestLimitExceeded", {}),
    ),
    "sqs": ((400, "RequestThrottled", {}), (403, "ThrottlingException", {})),
    "s3": ((503, "SlowDown", {}),),
    "cloudwatch": ((400, "Throttling", {}), (400, "ThrottlingException", {})),
    "lambda": ((429, "TooManyRequestsException", {}),),
    "service-quotas": ((400, "TooManyRequestsException", {}), (400, "ThrottlingException", {})),
}
CONTROL_PLANE = frozenset(
    {
        "CreateTable",
        "DeleteTable",
        "DescribeContinuousBackups",
        "DescribeExport",
        "DescribeImport",
        "DescribeTable",
        "DescribeTimeToLive",
        "ExportTableToPointInTime",
        "ImportTable",
        "ListTables",
        "ListTagsOfResource",
        "TagResource",
        "UpdateContinuousBackups",
        "UpdateContributorInsights",
        "UpdateTable",
    }
)
CONTROL_THROTTLES: Sequence[tuple[int, str, Params]] = (
    (400, "LimitExceededException", {}),
    (400, "ThrottlingException", {}),
)


class Raw(BytesIO):
    """A reply's body as urllib3 would give it."""

    def stream(self, **_: Any) -> Any:
        """The body in chunks."""
        while chunk := self.read(65_536):
            yield chunk


class BreakingRaw(Raw):
    """A body whose connection breaks after its first half, or that ends there without a word."""

    def __init__(self, body: bytes, *, silently: bool) -> None:
        super().__init__(body[: len(body) // 2])
        self._silently = silently

    def read(self, size: int | None = -1, /) -> bytes:
        """The next bytes. Raises ProtocolError in the middle."""
        chunk = super().read(size)
        if not chunk and not self._silently:
            raise ProtocolError("Connection broken")
        return chunk


def params_of(request: AWSPreparedRequest) -> Params:
    """A JSON request's parameters; empty for S3."""
    body: Any = request.body
    if not body or _service_of(request) == "s3":
        return {}
    params: Params = json.loads(body)
    return params


def _service_of(request: AWSPreparedRequest) -> str:
    target = request.headers.get("X-Amz-Target")
    return "s3" if target is None else "json"


def with_params(request: AWSPreparedRequest, params: Params) -> AWSPreparedRequest:
    """The same JSON request with other parameters; engines check no signatures."""
    body = json.dumps(params).encode()
    headers: Any = HeadersDict(request.headers.items())
    headers["Content-Length"] = str(len(body))
    return AWSPreparedRequest(request.method, request.url, headers, body, request.stream_output)


def as_operation(request: AWSPreparedRequest, operation: str, params: Params) -> AWSPreparedRequest:
    """Another DynamoDB request in the same envelope."""
    other = with_params(request, params)
    other.headers["X-Amz-Target"] = f"DynamoDB_20120810.{operation}"
    return other


def query_of(request: AWSPreparedRequest, name: str) -> str | None:
    """A parameter in a request's URL."""
    values = parse_qs(urlsplit(request.url).query).get(name)
    return values[0] if values else None


def without_query(request: AWSPreparedRequest, name: str) -> AWSPreparedRequest:
    """The same request without that parameter in its URL."""
    parts = urlsplit(request.url)
    query = parse_qs(parts.query, keep_blank_values=True)
    query.pop(name, None)
    url = urlunsplit(parts._replace(query=urlencode(query, doseq=True)))
    return AWSPreparedRequest(
        request.method, url, request.headers, request.body, request.stream_output
    )


def reply(request: AWSPreparedRequest, status: int, body: bytes) -> AWSResponse:
    """A reply of these bytes."""
    headers: Any = HeadersDict({"Content-Length": str(len(body))})
    raw: Any = Raw(body)
    return AWSResponse(request.url, status, headers, raw)


def json_reply(request: AWSPreparedRequest, params: Params, status: int = 200) -> AWSResponse:
    """A reply in JSON."""
    return reply(request, status, json.dumps(params).encode())


def error(
    request: AWSPreparedRequest, service: str, status: int, code: str, more: Params | None = None
) -> AWSResponse:
    """An error as that service words it on the wire."""
    if service == "s3":
        xml = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>why</Message></Error>"
        return reply(request, status, xml.encode())
    params = {"__type": f"com.amazonaws.{service}#{code}", "message": "why", **(more or {})}
    return json_reply(request, params, status)


def broken(whole: AWSResponse, *, silently: bool) -> AWSResponse:
    """The reply with only half of its body."""
    raw: Any = BreakingRaw(whole.raw.read(), silently=silently)
    headers: Any = whole.headers
    return AWSResponse(whole.url, whole.status_code, headers, raw)


def empty_page(request: AWSPreparedRequest, token: str) -> AWSResponse:
    """A page of a bucket's listing that names nothing and says that there is more."""
    xml = (
        "<?xml version='1.0'?><ListBucketResult><KeyCount>0</KeyCount>"
        f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"
        "</ListBucketResult>"
    )
    return reply(request, 200, xml.encode())

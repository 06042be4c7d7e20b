"""The production's own boto3 session with the injector in it, before real engines.

DynamoDB is DynamoDB Local over HTTP; SQS, S3 and CloudWatch are moto in this process.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.httpsession import URLLib3Session
from moto.core.models import botocore_stubber

from tallyroll.adapters.aws import client
from tallyroll.resources import TAG_PROVEN
from tests.faults import wire
from tests.faults.native import NativeExports

if TYPE_CHECKING:
    import pytest

WINDOW_TABLE = re.compile(r".+-[0-9]{8}T[0-9]{6}Z")
RECEIVE = ("AmazonSQS.ReceiveMessage", b"AmazonSQS.ReceiveMessage")
OnSend = Callable[..., AWSResponse]


def _http_session() -> URLLib3Session:
    # As botocore's own clients have it; without, every request waits for a late TCP answer.
    options: Any = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
    return URLLib3Session(socket_options=options)


@dataclass
class Engines:
    """Carries requests out, and plays the parts of DynamoDB that DynamoDB Local lacks: tags, the
    policy that lets tagged tables only be deleted, imports (`items_in`: bucket and prefix of data
    files to the number of their items).
    """

    tags: dict[str, dict[str, str]] = field(default_factory=dict)
    imports: dict[str, wire.Params] = field(default_factory=dict)
    items_in: Callable[[str, str], int] = lambda bucket, prefix: 0
    exports: NativeExports = field(default_factory=NativeExports)
    _http: URLLib3Session = field(default_factory=_http_session)

    def send(self, service: str, request: AWSPreparedRequest) -> AWSResponse:
        """The engine's reply."""
        if service == "dynamodb":
            return self._dynamodb(request)
        if request.headers.get("X-Amz-Target") in RECEIVE:  # moto would wait in vain: time stands
            request = wire.with_params(request, {**wire.params_of(request), "WaitTimeSeconds": 0})
        answer: Any = botocore_stubber(f"before-send.{service}", request)
        assert answer is not None, f"moto does not know {request.url}"
        return answer  # type: ignore[no-any-return]

    def _dynamodb(self, request: AWSPreparedRequest) -> AWSResponse:
        target: Any = request.headers["X-Amz-Target"]
        operation = (target.decode() if isinstance(target, bytes) else target).rpartition(".")[2]
        params = wire.params_of(request)
        match operation:
            case "CreateTable":
                return self._create(request, params)
            case "TagResource":
                return self._tag(request, params)
            case "ListTagsOfResource":
                return self._tags_of(request, params)
            case "UpdateContinuousBackups":
                return wire.json_reply(request, {"ContinuousBackupsDescription": {}})
            case "UpdateContributorInsights":
                return wire.json_reply(request, {"ContributorInsightsStatus": "ENABLING"})
            case "ImportTable":
                return self._import(request, params)
            case "DescribeImport":
                return wire.json_reply(request, self.imports[params["ImportArn"]])
            case "DescribeContinuousBackups":
                known = self.exports.backups(request, params["TableName"])
                return known or self._send(request)
            case "ExportTableToPointInTime":
                return self.exports.start(request, params, self._send)
            case "DescribeExport":
                return self.exports.describe(request, params["ExportArn"])
            case "DeleteTable":
                return self._delete(request, params["TableName"])
        return self._send(request)

    def _send(self, request: AWSPreparedRequest) -> AWSResponse:
        answer: Any = self._http.send(request)
        answer.content  # noqa: B018  (gives the connection back)
        return answer  # type: ignore[no-any-return]

    def _create(self, request: AWSPreparedRequest, params: wire.Params) -> AWSResponse:
        answer = self._send(request)
        if answer.status_code < wire.REFUSED:
            tags = {tag["Key"]: tag["Value"] for tag in params.get("Tags", ())}
            self.tags[params["TableName"]] = tags
        return answer

    def _tags_of(self, request: AWSPreparedRequest, params: wire.Params) -> AWSResponse:
        tags = self.tags.get(params["ResourceArn"].rpartition("/")[2], {})
        listed = [{"Key": key, "Value": value} for key, value in tags.items()]
        return wire.json_reply(request, {"Tags": listed})

    def _tag(self, request: AWSPreparedRequest, params: wire.Params) -> AWSResponse:
        table = params["ResourceArn"].rpartition("/")[2]
        wanted = {tag["Key"]: tag["Value"] for tag in params["Tags"]}
        self.tags.setdefault(table, {}).update(wanted)
        return wire.json_reply(request, {})

    def _delete(self, request: AWSPreparedRequest, table: str) -> AWSResponse:
        # What the pipeline's IAM policy says: no window's table without the tag.
        if WINDOW_TABLE.fullmatch(table) and TAG_PROVEN not in self.tags.get(table, {}):
            return wire.error(request, "dynamodb", 400, "AccessDeniedException")
        answer = self._send(request)
        if answer.status_code < wire.REFUSED:
            self.tags.pop(table, None)
        return answer

    def _import(self, request: AWSPreparedRequest, params: wire.Params) -> AWSResponse:
        """One import per client token, over when it is next asked for; its table stays empty."""
        arn = f"arn:aws:dynamodb:us-east-1:1:table/import/{params['ClientToken']}"
        if arn not in self.imports:
            wanted = params["TableCreationParameters"]
            made = self._send(wire.as_operation(request, "CreateTable", wanted))
            if made.status_code >= wire.REFUSED:
                return made
            source = params["S3BucketSource"]
            items = self.items_in(source["S3Bucket"], source["S3KeyPrefix"])
            over = {"ImportArn": arn, "ImportStatus": "COMPLETED", "ImportedItemCount": items}
            self.imports[arn] = {"ImportTableDescription": over}
        begun = {"ImportArn": arn, "ImportStatus": "IN_PROGRESS"}
        return wire.json_reply(request, {"ImportTableDescription": begun})


class Switchboard:
    """Where the session's requests go: to the engines, until a life puts its injector between."""

    def __init__(self, engines: Engines) -> None:
        self.engines = engines
        self.on_send: OnSend | None = None

    def __call__(self, event_name: str, request: AWSPreparedRequest, **more: Any) -> AWSResponse:
        if self.on_send:
            return self.on_send(event_name, request, **more)
        return self.engines.send(event_name.split(".")[1], request)


_production = client._session.__wrapped__  # what it makes before it is replaced


@cache
def switchboard() -> Switchboard:
    """The switchboard of this process."""
    return Switchboard(Engines())


@cache
def _session() -> Any:
    """A session as production makes it, all of whose requests pass the switchboard.

    One for all lives: a session reads megabytes of service models.
    """
    session = _production()
    session.events.unregister("before-send", botocore_stubber)  # the engines call it, or do not
    session.events.register_first("before-send", switchboard())
    return session


def wire_up(patch: pytest.MonkeyPatch) -> Switchboard:
    """Make all of production's clients from now on pass the switchboard, and give it."""
    patch.setattr(client, "_session", _session)
    return switchboard()

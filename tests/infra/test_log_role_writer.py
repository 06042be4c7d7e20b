"""The inline function that sets API Gateway's role for logs, and answers CloudFormation."""

from __future__ import annotations

import http.server
import importlib.util
import json
import threading
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from release.bundle import ROOT

SOURCE = ROOT / "src/tallyroll/cdk/reads/log_role_writer.py"
OURS = "arn:aws:iam::123456789012:role/ours"
THEIRS = "arn:aws:iam::123456789012:role/theirs"
Told = dict[str, Any]


@pytest.fixture(scope="module")
def writer() -> Any:
    """The module as Lambda loads it: its package would import the CDK."""
    spec = importlib.util.spec_from_file_location("index", SOURCE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Gateway:
    """API Gateway's account, which refuses the first changes with these codes."""

    def __init__(self, role: str = "", refusals: tuple[str, ...] = ()) -> None:
        self.role = role
        self.refusals = list(refusals)
        self.changes = 0

    def get_account(self) -> dict[str, str]:
        # Without a role the answer has no such member.
        return {"cloudwatchRoleArn": self.role} if self.role else {}

    def update_account(self, patchOperations: list[dict[str, str]]) -> None:  # noqa: N803
        self.changes += 1
        if self.refusals:
            code = self.refusals.pop(0)
            raise ClientError({"Error": {"Code": code, "Message": "no"}}, "UpdateAccount")
        [change] = patchOperations
        assert (change["op"], change["path"]) == ("replace", "/cloudwatchRoleArn")
        self.role = change["value"]


class Time:
    """The function's time, which only sleeping takes."""

    def __init__(self) -> None:
        self.left = 300_000

    def left_ms(self) -> int:
        return self.left

    def sleep(self, seconds: float) -> None:
        self.left -= round(1_000 * seconds)


def test_it_sets_the_role_where_there_is_none(writer: Any) -> None:
    gateway, time = Gateway(), Time()
    assert writer.set_once(gateway, OURS, time.left_ms, time.sleep) is True
    assert gateway.role == OURS


def test_it_replaces_no_role(writer: Any) -> None:
    gateway, time = Gateway(THEIRS), Time()
    assert writer.set_once(gateway, OURS, time.left_ms, time.sleep) is False
    assert (gateway.role, gateway.changes) == (THEIRS, 0)


@pytest.mark.parametrize(
    "code",
    [
        "AccessDeniedException",
        "BadRequestException",
        "ConflictException",
        "TooManyRequestsException",
    ],
)
def test_it_tries_again_while_iam_spreads_the_role(writer: Any, code: str) -> None:
    gateway, time = Gateway(refusals=(code,) * 4), Time()
    assert writer.set_once(gateway, OURS, time.left_ms, time.sleep) is True
    assert (gateway.role, gateway.changes) == (OURS, 5)


def test_it_gives_up_in_time_for_an_answer(writer: Any) -> None:
    gateway, time = Gateway(refusals=("BadRequestException",) * 1_000), Time()
    with pytest.raises(ClientError, match="BadRequestException"):
        writer.set_once(gateway, OURS, time.left_ms, time.sleep)
    tries = writer.ANSWER_TRIES
    assert time.left >= 1_000 * (15 * tries + writer.PAUSE_SECONDS * (tries - 1))
    assert time.left < 80_000


def test_what_cannot_get_better_is_not_tried_again(writer: Any) -> None:
    gateway, time = Gateway(refusals=("ValidationException",)), Time()
    with pytest.raises(ClientError, match="ValidationException"):
        writer.set_once(gateway, OURS, time.left_ms, time.sleep)
    assert gateway.changes == 1


def test_a_role_that_somebody_sets_meanwhile_stays(writer: Any) -> None:
    gateway, time = Gateway(refusals=("ConflictException",)), Time()

    def others_set_it(_seconds: float) -> None:
        gateway.role = THEIRS

    assert writer.set_once(gateway, OURS, time.left_ms, others_set_it) is False
    assert gateway.role == THEIRS


# --- the answer


class Bucket(http.server.BaseHTTPRequestHandler):
    """CloudFormation's address in S3: it refuses as many answers as `refuse` says."""

    told: list[tuple[Told, str | None]]
    refuse: int

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        refused = self.refuse > 0
        if refused:
            type(self).refuse -= 1
        else:
            self.told.append((json.loads(body), self.headers["Content-Type"]))
        self.send_response(503 if refused else 200)  # last: the test goes on with it
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def bucket() -> Iterator[tuple[type[Bucket], str]]:
    """The class of the bucket that is served, and its address."""
    kind = type("OneBucket", (Bucket,), {"told": [], "refuse": 0})
    with http.server.HTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield kind, f"http://127.0.0.1:{server.server_port}/answer?signed=1"
        server.shutdown()
        thread.join()


def asked(url: str, kind: str = "Create", **more: Any) -> dict[str, Any]:
    """A request of CloudFormation's."""
    return {
        "RequestType": kind,
        "ResponseURL": url,
        "StackId": "arn:aws:cloudformation:eu-west-1:123456789012:stack/votes/1",
        "RequestId": "request",
        "ResourceType": "Custom::ApiGatewayLogRole",
        "LogicalResourceId": "Setting",
        "ResourceProperties": {"ServiceToken": "arn", "RoleArn": OURS},
        **more,
    }


class Context:
    """What Lambda passes in."""

    def get_remaining_time_in_millis(self) -> int:
        return 0


def answered(bucket: tuple[type[Bucket], str], told: Told) -> None:
    """One answer was sent, with what each has and with this, and without a content type."""
    each = {
        "StackId": "arn:aws:cloudformation:eu-west-1:123456789012:stack/votes/1",
        "RequestId": "request",
        "LogicalResourceId": "Setting",
    }
    assert bucket[0].told == [({**each, **told}, "")]


@mock_aws
def test_it_sets_the_role_by_the_sdk_and_says_so(
    writer: Any, bucket: tuple[type[Bucket], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    writer.handler(asked(bucket[1]), Context())

    gateway = boto3.client("apigateway", region_name="eu-west-1")
    assert gateway.get_account()["cloudwatchRoleArn"] == OURS
    id_ = "api-gateway-log-role"
    answered(bucket, {"Status": "SUCCESS", "Reason": "done", "PhysicalResourceId": id_})


def test_a_failure_is_told_with_its_reason_and_the_id_that_there_is(
    writer: Any, bucket: tuple[type[Bucket], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(_service: str) -> Gateway:
        return Gateway(refusals=("AccessDeniedException",))

    monkeypatch.setattr(writer.boto3, "client", refuses)
    writer.handler(asked(bucket[1], "Update", PhysicalResourceId="before"), Context())

    reason = (
        "ClientError: An error occurred (AccessDeniedException) when calling the UpdateAccount"
        " operation: no"
    )
    answered(bucket, {"Status": "FAILED", "Reason": reason, "PhysicalResourceId": "before"})


def test_a_long_reason_is_cut(
    writer: Any, bucket: tuple[type[Bucket], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(_service: str) -> Gateway:
        raise RuntimeError("x" * 5_000)

    monkeypatch.setattr(writer.boto3, "client", breaks)
    writer.handler(asked(bucket[1]), Context())

    [(told, _)] = bucket[0].told
    assert told["Status"] == "FAILED"
    assert len(json.dumps(told)) < 4_096


def test_a_deletion_changes_nothing_and_succeeds(
    writer: Any, bucket: tuple[type[Bucket], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer.boto3, "client", None)
    writer.handler(asked(bucket[1], "Delete", PhysicalResourceId="before"), Context())
    answered(bucket, {"Status": "SUCCESS", "Reason": "done", "PhysicalResourceId": "before"})


def test_an_answer_that_is_not_taken_is_sent_again(
    writer: Any, bucket: tuple[type[Bucket], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer.time, "sleep", lambda _: None)
    bucket[0].refuse = 2
    writer.handler(asked(bucket[1], "Delete"), Context())
    assert len(bucket[0].told) == 1

    bucket[0].refuse = 3
    with pytest.raises(OSError, match="503"):  # Lambda calls it again then
        writer.handler(asked(bucket[1], "Delete"), Context())

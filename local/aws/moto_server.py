"""moto as a server of its own process: SQS, S3, CloudWatch and the rest of AWS on a loopback port.

    python -m local.aws.moto_server [--port 5000] [--keep FILE]

prints its port as one line and serves until it is killed. It differs from `moto_server` in three
ways:

- it is fast enough to be loaded: a server that keeps connections open, lean queues
  (`tallyroll.testing.lean_sqs`), no search for the backend in every request;
- one request at a time, because moto is not safe under threads (a delete may lose a message that is
  being sent);
- once a second it plays AWS's metric service, which publishes the age of each queue's oldest
  message, and forgets what moto would keep for ever.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import create_server

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

THREADS = 32  # a long poll holds one while it waits
TICK_S = 1.0
UNSIGNED = (
    "The request is not signed. Sign it as on AWS, with any key: --aws-sigv4 aws:amz:us-east-1:sqs"
    " --user local:local in curl; docs/messages.md has the whole command."
)
_MOTOS_OWN = "/moto-api"
DATAPOINTS_KEPT = timedelta(hours=1)
# Services that live in one application of moto, so that the credential scope names it for certain.
_ONE_APPLICATION = frozenset({"sqs", "s3", "monitoring"})


class OneAtATime:
    """moto's applications behind one lock, found by the service that a request is signed for."""

    def __init__(
        self, turn: threading.Condition, commit: Callable[[], object] | None = None
    ) -> None:
        """`commit` is called after each request, before its answer is sent."""
        from moto.moto_server.werkzeug_app import (  # noqa: PLC0415  (importing has effects)
            DomainDispatcherApplication,
            create_backend_app,
        )

        self._turn = turn
        self._commit = commit or (lambda: None)
        self._dispatcher = DomainDispatcherApplication(create_backend_app)
        self._found: dict[str, WSGIApplication] = {}

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request when its turn has come. A long poll gives the lock up while it waits.

        Refuses one that is not signed: moto takes it for a request of S3.
        """
        if not _is_signed(environ):
            return _refuse(environ, start_response)
        with self._turn:
            try:
                return self._application(environ)(environ, start_response)
            finally:
                self._commit()

    def _application(self, environ: WSGIEnvironment) -> WSGIApplication:
        service = _signed_for(environ.get("HTTP_AUTHORIZATION", ""))
        if service in self._found:
            return self._found[service]
        application: WSGIApplication = self._dispatcher.get_application(environ)
        if service in _ONE_APPLICATION:
            self._found[service] = application
        return application


def _signed_for(authorization: str) -> str:
    """The service in `AWS4-HMAC-SHA256 Credential=id/20261120/us-east-1/sqs/aws4_request, ...`."""
    scope = authorization.partition(",")[0].split("/")
    return scope[3] if len(scope) == 5 else ""


def _is_signed(environ: WSGIEnvironment) -> bool:
    """Whether a request has a signature, in a header or in the query, or needs none."""
    return (
        bool(_signed_for(environ.get("HTTP_AUTHORIZATION", "")))
        or "Signature=" in environ.get("QUERY_STRING", "")
        or environ.get("PATH_INFO", "").startswith(_MOTOS_OWN)
    )


def _refuse(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """What AWS answers to a request without a signature, and how to sign one here.

    Source: Amazon SQS API Reference, "Common Errors".
    """
    code, text = "MissingAuthenticationToken", UNSIGNED
    if "HTTP_X_AMZ_TARGET" in environ:
        kind = "application/x-amz-json-1.0"
        body = json.dumps({"__type": code, "message": text})
    else:
        kind = "text/xml"
        error = f"<Type>Sender</Type><Code>{code}</Code><Message>{text}</Message>"
        body = f"<ErrorResponse><Error>{error}</Error></ErrorResponse>"
    start_response("403 Forbidden", [("Content-Type", kind), ("Content-Length", str(len(body)))])
    return [body.encode()]


class _Parser(HTTPRequestParser):
    """Does not wait for the body of a request that says `Expect: 100-continue` and has none.

    waitress 3.0 does, for ever; boto3 says so with every PutObject, also of an empty object.
    """

    def parse_header(self, header_plus: bytes) -> None:
        super().parse_header(header_plus)
        if self.content_length == 0 and not self.chunked:
            self.expect_continue = False


class _Channel(HTTPChannel):
    parser_class = _Parser


def publish_ages(now: datetime) -> None:
    """Put the age in seconds of every non-empty queue's oldest message, as AWS does by the minute.

    `now` is UTC without a time zone: moto compares it with the times of requests, which it keeps
    so.
    """
    from moto.cloudwatch.models import cloudwatch_backends  # noqa: PLC0415
    from moto.sqs.models import sqs_backends  # noqa: PLC0415

    now_ms = int(now.replace(tzinfo=UTC).timestamp() * 1000)
    for account, regions in list(sqs_backends.items()):
        for region, backend in list(regions.items()):
            queues: list[Any] = list(backend.queues.values())
            for queue in queues:
                if (sent := queue.oldest_sent()) is not None:
                    datum = {
                        "MetricName": "ApproximateAgeOfOldestMessage",
                        "Dimensions": [{"Name": "QueueName", "Value": queue.name}],
                        "Timestamp": now.replace(microsecond=0),
                        "Value": max(0, now_ms - sent) / 1000,
                        "Unit": "Seconds",
                    }
                    cloudwatch_backends[account][region].put_metric_data("AWS/SQS", [datum])


def forget(now: datetime) -> None:
    """Drop what moto never drops: its list of every object made, and datapoints after an hour."""
    from moto.cloudwatch.models import cloudwatch_backends  # noqa: PLC0415
    from moto.core.model_instances import reset_model_data  # noqa: PLC0415

    # Each message sent, and each copy received, stands in a list that only moto's dashboard reads.
    reset_model_data()
    oldest = now - DATAPOINTS_KEPT
    for regions in list(cloudwatch_backends.values()):
        for backend in list(regions.values()):
            backend.metric_data = [
                datum for datum in backend.metric_data if datum.timestamp >= oldest
            ]


def _tick(turn: threading.Condition) -> None:
    from moto.core.utils import utcnow  # noqa: PLC0415

    while True:
        time.sleep(TICK_S)
        with turn:
            now = utcnow()
            publish_ages(now)
            forget(now)


def serve(port: int, announce: Callable[[int], None], keep: Path | None = None) -> None:
    """Serve on 127.0.0.1 (port 0: a free one) until killed; `announce` is told the port, and the
    file `keep` keeps queues and buckets (`local.aws.kept`).
    """
    os.environ.setdefault("MOTO_DISABLE_GLOBAL_CORS", "true")
    from local.aws import simulations  # noqa: PLC0415
    from tallyroll.testing.lean_sqs import LeanQueue, install  # noqa: PLC0415

    turn = threading.Condition(threading.RLock())
    install(turn)
    commit: Callable[[], object] | None = None
    if keep:
        from local.aws import kept  # noqa: PLC0415

        file = kept.Kept(keep)
        kept.install(file)
        commit = file.commit
    simulations.install()
    simulations.silence_mappings(LeanQueue)
    server: Any = create_server(
        OneAtATime(turn, commit), host="127.0.0.1", port=port, threads=THREADS
    )
    server.channel_class = _Channel
    threading.Thread(target=_tick, args=(turn,), daemon=True).start()
    announce(server.effective_port)
    server.run()


def main() -> None:
    """Serve, and print the port."""
    parser = argparse.ArgumentParser(
        prog="python -m local.aws.moto_server", description=main.__doc__
    )
    parser.add_argument("--port", type=int, default=0, help="the port to listen on (0: a free one)")
    parser.add_argument("--keep", type=Path, help="the file that keeps queues and buckets")
    options = parser.parse_args()
    serve(options.port, lambda port: print(port, flush=True), options.keep)


if __name__ == "__main__":
    main()

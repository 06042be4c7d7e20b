"""The stack of the vote service: a pipeline in which an id counts once at all, and a function that
may post to it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_

from tallyroll.cdk import Options, Tallyroll


class Votes(cdk.Stack):
    """A pipeline named `votes`, and the service."""

    def __init__(self, scope: cdk.App, code: Any = None) -> None:
        super().__init__(scope, "Votes")
        pipeline = Tallyroll(
            self, "Pipeline", options=Options(name="votes", identity="pipeline"), code=code
        )
        service = lambda_.Function(
            self,
            "Service",
            runtime=lambda_.Runtime.PYTHON_3_13,
            handler="votes.handler",
            code=lambda_.Code.from_asset(str(Path(__file__).parent), exclude=["*", "!votes.py"]),
            environment={"VOTES_QUEUE_URL": pipeline.queue.queue_url},
        )
        pipeline.grant_send(service)


if __name__ == "__main__":
    app = cdk.App()
    Votes(app)
    app.synth()

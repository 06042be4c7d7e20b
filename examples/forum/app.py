"""A pipeline, and the tables of the service beside it."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb

from tallyroll.cdk import Options, Tallyroll


class Forum(cdk.Stack):
    """A pipeline named `forum`, and the tables. Replies are listed for ten years."""

    def __init__(self, scope: cdk.App, code: Any = None) -> None:
        super().__init__(scope, "Forum")
        options = Options(name="forum", window="year", retention_seconds=10 * 365 * 86_400)
        pipeline = Tallyroll(self, "Pipeline", options=options, code=code)
        threads = dynamodb.Table(
            self,
            "Threads",
            partition_key=dynamodb.Attribute(name="thread", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
        )
        cdk.CfnOutput(self, "ThreadsTable", value=threads.table_name)
        cdk.CfnOutput(self, "QueueUrl", value=pipeline.queue.queue_url)


if __name__ == "__main__":
    app = cdk.App()
    Forum(app)
    app.synth()

"""A pipeline, and the tables of the service beside it."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb

from tallyroll.cdk import Options, Tallyroll


class Stock(cdk.Stack):
    """A pipeline named `stock`, and the tables."""

    def __init__(self, scope: cdk.App, code: Any = None) -> None:
        super().__init__(scope, "Stock")
        pipeline = Tallyroll(self, "Pipeline", options=Options(name="stock"), code=code)
        ticker = dynamodb.Attribute(name="ticker", type=dynamodb.AttributeType.STRING)
        for name in ("Companies", "Prices"):
            table = dynamodb.Table(
                self,
                name,
                partition_key=ticker,
                billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            )
            cdk.CfnOutput(self, f"{name}Table", value=table.table_name)
        cdk.CfnOutput(self, "QueueUrl", value=pipeline.queue.queue_url)


if __name__ == "__main__":
    app = cdk.App()
    Stock(app)
    app.synth()

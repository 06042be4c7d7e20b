"""One pipeline, whole: the stack wires constructs and decides nothing itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aws_cdk as cdk

from infra.asset import function_code
from infra.functions import FunctionDefaults
from infra.ingest import Ingest, Queues
from infra.options import Options
from infra.reads import Reads
from infra.schedules import Schedules
from infra.storage import Storage
from infra.tags import tag
from tallyroll.resources import TAG_PIPELINE, declare

if TYPE_CHECKING:
    from constructs import Construct


class TallyrollStack(cdk.Stack):
    """A pipeline, of the options' name, in the account and Region of the deployment."""

    def __init__(self, scope: Construct, id_: str, *, options: Options) -> None:
        super().__init__(scope, id_, description=f"Tallyroll pipeline {options.name}")
        resources = declare(options.settings())
        self.storage = Storage(self, "Storage", resources=resources)
        self.queues = Queues(self, "Queues", resources=resources)
        settings = options.settings(
            queue_url=self.queues.events.queue_url,
            dead_letters_url=self.queues.dead_letters.queue_url,
            bucket=self.storage.bucket.bucket_name,
        )
        defaults = FunctionDefaults(
            pipeline=options.name, code=function_code(), environment=settings.to_env()
        )
        self.ingest = Ingest(
            self,
            "Ingest",
            options=options,
            defaults=defaults,
            storage=self.storage,
            queues=self.queues,
        )
        self.reads = Reads(self, "Reads", defaults=defaults, storage=self.storage)
        self.schedules = Schedules(
            self,
            "Schedules",
            settings=settings,
            defaults=defaults,
            storage=self.storage,
            queues=self.queues,
        )
        tag(self, {TAG_PIPELINE: options.name})
        cdk.CfnOutput(self, "QueueUrl", value=settings.queue_url)
        cdk.CfnOutput(self, "DeadLettersUrl", value=settings.dead_letters_url)
        cdk.CfnOutput(self, "BucketName", value=settings.bucket)
        cdk.CfnOutput(self, "ApiUrl", value=self.reads.api.api_endpoint)

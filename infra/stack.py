"""One pipeline as a stack, which decides nothing itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aws_cdk as cdk

from release.asset import function_code
from release.bundle import RUNTIME
from tallyroll.cdk.code import tell_colder_starts
from tallyroll.cdk.pipeline import Tallyroll
from tallyroll.settings.options import Options

if TYPE_CHECKING:
    from constructs import Construct


class TallyrollStack(cdk.Stack):
    """A pipeline, of the options' name, in the account and Region of the deployment."""

    def __init__(self, scope: Construct, id_: str, *, options: Options) -> None:
        super().__init__(scope, id_, description=f"Tallyroll pipeline {options.name}")
        code = function_code(
            with_boto3=options.boto3 == "pinned",
            with_tracer=options.tracer,
            with_cache=bool(options.cache_url),
        )
        tell_colder_starts(self, options, RUNTIME)
        self.pipeline = Tallyroll(self, "Pipeline", options=options, code=code)
        identities = self.pipeline.identities
        for output, value in {
            "QueueUrl": self.pipeline.queue.queue_url,
            "DeadLettersUrl": self.pipeline.dead_letter_queue.queue_url,
            "BucketName": self.pipeline.bucket.bucket_name,
            "CatalogTable": self.pipeline.catalog.table_name,
            "TotalsTable": self.pipeline.totals.table_name,
            **({"IdentitiesTable": identities.table_name} if identities else {}),
            **({"ApiUrl": self.pipeline.api_url} if options.api != "none" else {}),
            "AlarmTopic": self.pipeline.alarm_topic_arn,
            "TicketTopic": self.pipeline.ticket_topic_arn,
        }.items():
            cdk.CfnOutput(self, output, value=value)

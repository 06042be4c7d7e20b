"""The whole template in little: what there is, and how many. Change it here on purpose only."""

from __future__ import annotations

import json
import re
from collections import Counter

from release.bundle import ROOT
from tallyroll.cdk.alarm_rules import ALARMS
from tallyroll.cdk.pages import PAGES
from tallyroll.reads.described.routes import ROUTES
from tests.infra.templates import FUNCTIONS, Template, text

TYPES = {
    "AWS::ApiGatewayV2::Api": 1,
    "AWS::ApiGatewayV2::Integration": 1,
    "AWS::ApiGatewayV2::Route": len(ROUTES) + 1,
    "AWS::ApiGatewayV2::Stage": 1,
    "AWS::CloudWatch::Alarm": len(ALARMS),
    "AWS::CloudWatch::CompositeAlarm": len(PAGES),
    "AWS::CloudWatch::Dashboard": 1,
    "AWS::DynamoDB::Table": 2,
    "AWS::IAM::Role": len(FUNCTIONS) + 1,
    "AWS::Lambda::EventInvokeConfig": 3,
    "AWS::Lambda::EventSourceMapping": 1,
    "AWS::Lambda::Function": len(FUNCTIONS),
    "AWS::Lambda::Permission": len(ROUTES) + 1,
    "AWS::Logs::LogGroup": len(FUNCTIONS) + 1,
    "AWS::S3::Bucket": 1,
    "AWS::S3::BucketPolicy": 1,
    "AWS::SNS::Topic": 2,
    "AWS::SNS::TopicPolicy": 2,
    "AWS::SQS::Queue": 2,
    "AWS::SQS::QueuePolicy": 2,
    "AWS::Scheduler::Schedule": 3,
}
OUTPUTS = {
    "AlarmTopic": "PipelineObservabilityAlarms",
    "ApiUrl": "PipelineReadsApi",
    "BucketName": "PipelineStorageArchive",
    "CatalogTable": "PipelineStorageCatalog",
    "DeadLettersUrl": "PipelineQueuesDeadLetters",
    "QueueUrl": "PipelineQueuesEvents",
    "TicketTopic": "PipelineObservabilityTickets",
    "TotalsTable": "PipelineStorageTotals",
}


def test_what_there_is(template: Template) -> None:
    assert Counter(one["Type"] for one in template["Resources"].values()) == TYPES


def test_what_the_stack_says_of_itself(template: Template) -> None:
    values = {name: text(one["Value"]) for name, one in template["Outputs"].items()}

    shortened = {name: re.sub(r"[0-9A-F]{8}\b", "", value) for name, value in values.items()}
    assert shortened == OUTPUTS


def test_what_the_stack_says_of_identities_if_there_are_any(remembering: Template) -> None:
    assert remembering["Outputs"].keys() == {*OUTPUTS, "IdentitiesTable"}


def test_options_that_are_off_leave_no_trace(template: Template) -> None:
    whole = json.dumps(template).lower()

    assert "insight" not in whole
    assert "tallyroll_suffix" not in whole


def test_the_template_fits_and_names_no_account_region_or_secret(template: Template) -> None:
    whole = json.dumps(template)

    assert len(whole) < 500_000  # of 1 MB that CloudFormation takes
    assert not re.search(r"\b\d{12}\b", whole)
    assert not re.search(r"\b(us|eu|ap)-[a-z]+-\d\b", whole.replace("us-east-1, on demand", ""))
    assert str(ROOT) not in whole

"""What CloudWatch Contributor Insights for throttled keys need, where an option asks for them.

Source: DynamoDB Developer Guide, "Using IAM with CloudWatch contributor insights for DynamoDB".
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam

from tallyroll.cdk.storage import Storage
from tallyroll.resources import THROTTLED_KEYS_RULE
from tallyroll.settings import Settings

SERVICE = "contributorinsights.dynamodb.amazonaws.com"
_ROLE = f"aws-service-role/{SERVICE}/AWSServiceRoleForDynamoDBCloudWatchContributorInsights"


def of_roller(storage: Storage, settings: Settings) -> list[iam.PolicyStatement]:
    """Switch them on for a new table. The first of an account has DynamoDB make its role."""
    if not settings.contributor_insights:
        return []
    role = cdk.Stack.of(storage).format_arn(
        service="iam", region="", resource="role", resource_name=_ROLE
    )
    return [
        _allow(storage.window_tables_arn, "dynamodb:UpdateContributorInsights"),
        _allow(role, "iam:CreateServiceLinkedRole", {"iam:AWSServiceName": SERVICE}),
    ]


def of_operator(storage: Storage, settings: Settings) -> list[iam.PolicyStatement]:
    """Read them."""
    if not settings.contributor_insights:
        return []
    rules = cdk.Stack.of(storage).format_arn(
        service="cloudwatch",
        resource="insight-rule",
        resource_name=f"{THROTTLED_KEYS_RULE}{settings.name}-*",
    )
    return [
        _allow(storage.window_tables_arn, "dynamodb:DescribeContributorInsights"),
        _allow(rules, "cloudwatch:GetInsightRuleReport"),
    ]


def widget(settings: Settings) -> list[list[cloudwatch.IWidget]]:
    """A row of the dashboard. Each window's table has rules of its own, whose names end with the
    time at which they were made, so no graph can name them.
    """
    if not settings.contributor_insights:
        return []
    text = (
        f"**Which keys are throttled:** `tallyroll --name {settings.name} doctor` names them. Their"
        f" graphs are in CloudWatch's *Contributor Insights*, rules `{THROTTLED_KEYS_RULE}"
        f"{settings.name}-...`, two for each window's table."
    )
    return [[cloudwatch.TextWidget(markdown=text, width=24, height=2)]]


def _allow(arn: str, action: str, conditions: dict[str, str] | None = None) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        actions=[action],
        resources=[arn],
        conditions={"StringEquals": conditions} if conditions else None,
    )

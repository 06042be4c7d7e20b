"""Who is told that a pipeline costs more than it should."""

from __future__ import annotations

import json

from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_ce as ce
from constructs import Construct

from tallyroll.resources import TAG_PIPELINE
from tallyroll.settings.options import Options

NOTIFIED = (("ACTUAL", 80), ("FORECASTED", 100))  # per cent of the budget
ANOMALY_SHARE = 10  # of the budget, that an anomaly costs at least to be told


class Budget(Construct):
    """A budget of each month, of what has the pipeline's tag. The address of pages is told when the
    budget is nearly used, and when it will not do.

    The tag must be activated as a cost allocation tag by the account that pays. Sources: AWS
    Budgets API Reference, Budget, at CostFilters, and Notification.
    """

    def __init__(self, scope: Construct, id_: str, *, options: Options) -> None:
        super().__init__(scope, id_)
        email, limit = options.alarm_email, options.budget
        subscriber = budgets.CfnBudget.SubscriberProperty(subscription_type="EMAIL", address=email)
        # It has no name of ours: another address replaces it, and the name would be taken. Source:
        # CloudFormation's schema of the type.
        budgets.CfnBudget(
            self,
            "Month",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=limit, unit="USD"),
                cost_filters={"TagKeyValue": [f"user:{TAG_PIPELINE}${options.name}"]},
            ),
            notifications_with_subscribers=[
                budgets.CfnBudget.NotificationWithSubscribersProperty(
                    notification=budgets.CfnBudget.NotificationProperty(
                        notification_type=kind,
                        comparison_operator="GREATER_THAN",
                        threshold=share,
                        threshold_type="PERCENTAGE",
                    ),
                    subscribers=[subscriber],
                )
                for kind, share in NOTIFIED
            ],
        )
        if options.budget_monitor:
            self._add_monitor(options)

    def _add_monitor(self, options: Options) -> None:
        """A monitor of anomalies of the same costs, which are told once a day.

        In an organization only the management account can make one of a tag. It is a custom one: an
        account has only one of the services. Sources: AWS Cost Management User Guide, "Getting
        started with AWS Cost Anomaly Detection" and "Quotas and restrictions"; AWS Cost Management
        API Reference, AnomalyMonitor and AnomalySubscription.
        """
        email, limit = options.alarm_email, options.budget
        monitor = ce.CfnAnomalyMonitor(
            self,
            "Anomalies",
            monitor_name=options.name,
            monitor_type="CUSTOM",
            monitor_specification=json.dumps(
                {"Tags": {"Key": TAG_PIPELINE, "Values": [options.name]}}
            ),
        )
        ce.CfnAnomalySubscription(
            self,
            "Told",
            subscription_name=options.name,
            frequency="DAILY",  # e-mail is sent once a day or a week
            monitor_arn_list=[monitor.attr_monitor_arn],
            subscribers=[ce.CfnAnomalySubscription.SubscriberProperty(type="EMAIL", address=email)],
            threshold_expression=json.dumps(
                {
                    "Dimensions": {
                        "Key": "ANOMALY_TOTAL_IMPACT_ABSOLUTE",
                        "MatchOptions": ["GREATER_THAN_OR_EQUAL"],
                        "Values": [f"{limit * ANOMALY_SHARE / 100:.2f}"],
                    }
                }
            ),
        )

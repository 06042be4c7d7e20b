"""How a new writer takes over: a tenth of the batches first, and back by itself on an alarm."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from tallyroll.cdk.annotations import acknowledge
from tallyroll.cdk.functions import PipelineFunction
from tallyroll.resources import function_name
from tallyroll.settings.options import Options

# Alarms that stop a rollout: the writer's pages, and `rejections`, since a writer that errs on a
# tenth of the batches rejects no half of them. No composite alarms: CodeDeploy's guide names alarms
# on a metric only. A share of 10 % is over that of `writer-errors`.
STOPPED_BY = ("writer-errors", "writer-silent", "mostly-rejected", "rejections")


class Rollout(Construct):
    """CodeDeploy moves the writer's alias to a new version: for 30 minutes it takes 10 % of the
    batches, then all. If an alarm of `STOPPED_BY` is on, the alias goes back, and the deployment
    fails.

    The alarm on errors needs two periods of five minutes, and CloudWatch some more for metrics that
    are late, so a quarter of an hour would not do. Sources: CodeDeploy User Guide, "Working with
    deployment configurations in CodeDeploy" and "Monitoring deployments with CloudWatch alarms in
    CodeDeploy"; CloudFormation User Guide, "UpdatePolicy attribute".
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        options: Options,
        writer: PipelineFunction,
        alarms: Mapping[str, cloudwatch.Alarm],
    ) -> None:
        super().__init__(scope, id_)
        alias = writer.invoked
        assert isinstance(alias, lambda_.Alias)
        name = function_name(options.name, writer.package)  # the guide names both
        application = codedeploy.LambdaApplication(self, "Application", application_name=name)
        group = codedeploy.LambdaDeploymentGroup(
            self,
            "Group",
            application=application,
            deployment_group_name=name,
            alias=alias,
            deployment_config=codedeploy.LambdaDeploymentConfig.CANARY_10_PERCENT_30_MINUTES,
            alarms=[alarms[id_] for id_ in STOPPED_BY],
            auto_rollback=codedeploy.AutoRollbackConfig(
                failed_deployment=True, stopped_deployment=True, deployment_in_alarm=True
            ),
        )
        acknowledge(
            group,
            {
                "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/"
                "AWSCodeDeployRoleForLambdaLimited]": "AWS's own policy has what CodeDeploy needs"
                " to move an alias and to read alarms; no document lists it otherwise"
            },
        )

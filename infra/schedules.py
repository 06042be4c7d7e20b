"""What runs by the clock: the roller and cleanup."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct

from infra import permissions
from infra.functions import FULL_CPU_MB, FunctionDefaults, PipelineFunction
from infra.ingest import Queues
from infra.storage import Storage
from tallyroll.settings import Settings

# Room to seal a window of many keys; yet a roller that takes this long has at most four others
# beside it, and leaves writers a place among the ten functions that a new account may run.
ROLLER_TIMEOUT_SECONDS = 300
CLEANUP_TIMEOUT_SECONDS = 900  # the longest there is; below the lease of an export
CLEANUP_EVERY_MINUTES = 5


class Schedules(Construct):
    """The roller, as often as the settings say, and cleanup every five minutes.

    Nothing is tried again: the next run takes up what this one left.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        settings: Settings,
        defaults: FunctionDefaults,
        storage: Storage,
        queues: Queues,
    ) -> None:
        super().__init__(scope, id_)
        self.roller = PipelineFunction(
            self,
            "Roller",
            defaults=defaults,
            package="roller",
            memory_mb=FULL_CPU_MB,
            timeout_seconds=ROLLER_TIMEOUT_SECONDS,
            statements=permissions.of_roller(storage, queues.events),
            retries=0,
        )
        self.cleanup = PipelineFunction(
            self,
            "Cleanup",
            defaults=defaults,
            package="cleanup",
            memory_mb=FULL_CPU_MB,
            timeout_seconds=CLEANUP_TIMEOUT_SECONDS,
            statements=permissions.of_cleanup(storage, settings.name),
            retries=0,
        )
        minutes = settings.roller_period_ms // 60_000
        _every(self, "RollerSchedule", self.roller, minutes)
        _every(self, "CleanupSchedule", self.cleanup, CLEANUP_EVERY_MINUTES)


def _every(scope: Construct, id_: str, target: PipelineFunction, minutes: int) -> None:
    scheduler.Schedule(
        scope,
        id_,
        schedule=scheduler.ScheduleExpression.rate(cdk.Duration.minutes(minutes)),
        target=targets.LambdaInvoke(
            target.function, retry_attempts=0, max_event_age=cdk.Duration.minutes(1)
        ),
    )

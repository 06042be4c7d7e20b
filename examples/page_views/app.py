"""The stack: a pipeline with a mapping, and the rule that feeds it from the default event bus."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from page_views import DETAIL_TYPE, MAPPING, SOURCE

from tallyroll.cdk import Options, Tallyroll


class PageViews(cdk.Stack):
    """A pipeline named `page-views`, and the rule."""

    def __init__(self, scope: cdk.App, code: Any = None) -> None:
        super().__init__(scope, "PageViews")
        options = Options(name="page-views", mapping=MAPPING)
        pipeline = Tallyroll(self, "Pipeline", options=options, code=code)
        events.Rule(
            self,
            "Viewed",
            event_pattern=events.EventPattern(source=[SOURCE], detail_type=[DETAIL_TYPE]),
            targets=[targets.SqsQueue(pipeline.queue)],
        )


if __name__ == "__main__":
    app = cdk.App()
    PageViews(app)
    app.synth()

"""The doctor's check of alarms: whether somebody is told by them."""

from __future__ import annotations

from collections.abc import Iterator

from tallyroll.errors import Refused
from tallyroll.operations.doctor.checkup import Checkup, Sign, denied, fine, warning
from tallyroll.operations.doctor.deployment_checks import made_again, of_stack
from tallyroll.ports.stack import Stack, Subscription

ASKED = ("dead-letters", "page-wrong-counts")
"""A ticket and a page: all others notify the topics of these."""


@of_stack
def subscriptions(case: Checkup, stack: Stack) -> Iterator[Sign]:
    """Each topic of alarms has a subscription that is confirmed."""
    names = [f"{case.settings.name}-{id_}" for id_ in ASKED]
    alarms = {alarm.name: alarm for alarm in stack.alarms(names)}
    for name in names:
        if name not in alarms:
            yield warning(f"there is no alarm {name}", made_again(case))
        elif not alarms[name].enabled:
            yield warning(
                f"the actions of the alarm {name} are switched off: nobody is told",
                f"`aws cloudwatch enable-alarm-actions --alarm-names {name}`; look at the others,"
                " too.",
            )
        elif not alarms[name].topics:
            yield warning(f"the alarm {name} notifies no topic", made_again(case))
    topics = dict.fromkeys(topic for alarm in alarms.values() for topic in alarm.topics)
    foreign = []
    for topic in topics:
        try:
            found = [*stack.subscriptions(topic)]
        except Refused as error:
            if not (denied(error) and _elsewhere(case, topic)):
                raise
            foreign.append(topic)
            continue
        yield from _of_topic(topic, found)
    unread = f"; not to be read, in another account: {', '.join(foreign)}" if foreign else ""
    heard = len(topics) - len(foreign)
    yield fine(f"topics of alarms with a confirmed subscription: {heard}{unread}")


def _elsewhere(case: Checkup, topic: str) -> bool:
    """Whether the topic is another account's, who has to see that somebody is told."""
    writer = case.function("writer")
    return writer is not None and topic.split(":")[4] not in writer.role.split(":")


def _of_topic(topic: str, found: list[Subscription]) -> Iterator[Sign]:
    for one in found:
        if not one.confirmed:
            yield warning(
                f"{topic}: {one.endpoint} has not confirmed its subscription, and is told nothing",
                "Follow the link in the message of SNS. Another one is sent by `aws sns subscribe"
                f" --topic-arn {topic} --protocol {one.protocol}"
                f" --notification-endpoint {one.endpoint}`.",
            )
    if not any(one.confirmed for one in found):
        yield warning(
            f"{topic} has no confirmed subscription: its alarms reach nobody",
            f"`aws sns subscribe --topic-arn {topic} --protocol email --notification-endpoint"
            " ADDRESS`, or deploy with tallyroll:alarm_email; then confirm it by the link that"
            " comes.",
        )

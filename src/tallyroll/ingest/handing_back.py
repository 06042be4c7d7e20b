"""When a message that was handed back comes again, and when it is no longer handed back.

Two limits of SQS meet here. A message is received at most 1,000 times, so its waits must fill the
queue's retention. And a queue delivers nothing while some 120,000 messages are in flight, which
those that wait are: the more there are, the shorter they wait.
"""

from __future__ import annotations

from tallyroll import limits
from tallyroll.model.messages import Message

HAND_BACK_SECONDS = 5
FILL_CALM, FILL_FULL = 0.5, 0.9  # of the in-flight limit: waits shrink from here, to 5 s here
RECEIVES_SPARED = 20  # before a message would be given up


def delay_seconds(
    message: Message, now: int, *, waits: bool, in_flight: int, retention_ms: int
) -> int:
    """How long a message is hidden that is handed back at `now` (ms).

    `waits` says that its window is awaited, `in_flight` how many messages are in flight. The wait
    doubles from 5 s to 300 s; it is 20 s while a window has been awaited for under ten minutes.
    The fuller the flight is, the shorter it is, but 5 s at the least.
    From the 500th receive on it divides what is left of the retention among the receives left.
    """
    if message.receives >= limits.RECEIVES_PATIENT:
        left_ms = max(0, message.sent + retention_ms - now)
        receives = limits.RECEIVES_GIVEN_UP - RECEIVES_SPARED - message.receives
        patience = -(-left_ms // (1000 * max(1, receives)))
        most = limits.PATIENT_VISIBILITY_SECONDS_MAX
        return max(limits.VISIBILITY_SECONDS_MAX, min(most, patience))
    seconds = HAND_BACK_SECONDS << min(message.receives - 1, 10)
    seconds = min(limits.VISIBILITY_SECONDS_MAX, seconds)
    if waits and now - message.sent < limits.WAITING_SOON_MS:
        seconds = limits.WAITING_VISIBILITY_SECONDS
    # Never 0: the queue would deliver it again at once, and its receives would be used up.
    return max(HAND_BACK_SECONDS, int(seconds * _share(in_flight)))


def _share(in_flight: int) -> float:
    """How much of a wait is left, by how full the queue's flight is."""
    fill = in_flight / limits.IN_FLIGHT_MAX
    return min(1.0, max(0.0, (FILL_FULL - fill) / (FILL_FULL - FILL_CALM)))


def is_expiring(message: Message, now: int, retention_ms: int) -> bool:
    """Whether the queue would soon drop a message that nobody could finish."""
    return now - message.sent >= retention_ms * (1 - limits.EXPIRY_SHARE)

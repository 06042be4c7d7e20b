"""How long handed-back messages wait, and when they are rejected instead.

Two limits of SQS matter. A message is received at most 1,000 times, so its waits must add up to the
queue's retention. And a queue with some 120,000 messages in flight delivers none, and waiting
messages are in flight: the more there are, the shorter they wait.
"""

from __future__ import annotations

from tallyroll import limits
from tallyroll.model.messages import Message

HAND_BACK_SECONDS = 5
FILL_CALM, FILL_FULL = 0.5, 0.9  # shares of the in-flight limit between which waits shrink to 5 s
RECEIVES_SPARED = 20  # receives that should remain when the retention ends


def delay_seconds(
    message: Message,
    now: int,
    *,
    waits: bool,
    in_flight: int,
    retention_ms: int,
    due: int | None = None,
) -> int:
    """How many seconds a message is hidden that is handed back at `now` (ms).

    `waits` is whether the message waits for its window, `in_flight` the number of messages in
    flight. The wait doubles from 5 s to 300 s. It is 20 s while the message has waited for its
    window for less than ten minutes. Many messages in flight shorten it, to 5 s at the least. From
    the 500th receive on, it is the rest of the retention divided by the remaining receives.
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
    if due is not None:
        seconds = min(limits.VISIBILITY_SECONDS_MAX, -(-(due - now) // 1000))
    share = (FILL_FULL - in_flight / limits.IN_FLIGHT_MAX) / (FILL_FULL - FILL_CALM)
    # Never 0: the queue would deliver the message again at once and use up its receives.
    return max(HAND_BACK_SECONDS, int(seconds * min(1.0, max(0.0, share))))


def is_expiring(message: Message, now: int, retention_ms: int) -> bool:
    """Whether the queue will soon drop a message because of its retention."""
    return now - message.sent >= retention_ms * (1 - limits.EXPIRY_SHARE)

"""What healthy means: each bound once, for the alarms, the doctor and `overdue`.

`cdk/alarm_rules.py`, `operations/doctor` and `lifecycle/overdue.py` read the bounds as
`health.NAME`. How long a metric must be over its bound, and how far back it is read, stands there.
Times are in ms, unless a name says otherwise.
"""

from __future__ import annotations

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

# Queues
BEHIND_MS = 40 * MINUTE_MS  # over twice the visibility timeout: a crashed writer's messages return
EXPIRING_SHARE = 0.5  # of a queue's retention: an older message will be deleted uncounted
SILENT_MS = 15 * MINUTE_MS  # without a message that a writer finishes, while the queue holds some
HANDED_BACK_MS = 30 * MINUTE_MS  # the age of a message that writers hand back again
IN_FLIGHT_SHARE, IN_FLIGHT_FULL = 0.8, 0.98  # of the limit, which is approximate
REJECTIONS_MAX = 10  # in five minutes
REJECTED_SHARE = 0.5  # of the messages that writers finish

# Windows: the time that a step may take after it is due
OPEN_LATE_MS = 30 * MINUTE_MS  # two visibility timeouts more, for which a note keeps a window open
CLOSING_LATE_MS = 30 * MINUTE_MS  # a slice of a sealing takes less than one run of the roller
COLD_LATE_MS = HOUR_MS  # after its retention; cleanup and dropper run every few minutes
EXPORT_LATE_MS = 2 * HOUR_MS  # a few attempts, each of which ends with its lease
DROP_LATE_MS = HOUR_MS
PARQUET_LATE_MS = 6 * HOUR_MS  # after the drop; the compactor runs every hour
PAST_LATE_MS = 15 * MINUTE_MS  # for a past window that an operator opened

# Tables, functions and reads
TABLES_SHARE = 0.8  # of the quota of tables per account and Region
THROTTLED_MINUTES = 3  # of fifteen, in which catalog or totals are throttled: not a short peak
FAILURES_FLOOR = 2  # in five minutes; so few call nobody, whatever share they are
FAILURES_SHARE = 0.05
READS_SLOW_MS = 5_000  # a read over hours takes some tens of milliseconds
WRITER_SLOW_SHARE = 0.7  # of its timeout; from three quarters on it hands back what is left

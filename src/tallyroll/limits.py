"""Every limit in one place, with its unit in its name, its reason and its source.

Sources: [ddb] Amazon DynamoDB Developer Guide, "Quotas"; [txn] the same, "Amazon DynamoDB
Transactions: How it works"; [sqs] Amazon SQS Developer Guide, "Message quotas"; [lambda] AWS Lambda
Developer Guide, "Using Lambda with Amazon SQS".
"""

from __future__ import annotations

# DynamoDB
TRANSACTION_ACTIONS_MAX = 100  # [txn]
TRANSACTION_BYTES_MAX = 4 * 1024 * 1024  # [txn]
TRANSACTION_BYTES_PLANNED = TRANSACTION_BYTES_MAX - 256 * 1024  # room for expressions and encoding
ITEM_BYTES_MAX = 400 * 1024  # [ddb], attribute names included
BATCH_GET_KEYS_MAX = 100  # [ddb]
TABLE_QUOTA = 2_500  # tables of an account in one region [ddb], adjustable
WARM_WRITE_UNITS_MIN, WARM_READ_UNITS_MIN = 4_000, 12_000  # of a table on demand [ddb]
WARM_UNITS_MAX = 10_000_000
PARTITION_WRITE_UNITS = 1_000  # a second, of one partition [ddb]
UNIT_BYTES = 1024  # one write unit writes up to 1 KB [ddb]; a transactional write takes two

# Events
KEY_BYTES_MAX = 512
ID_BYTES_MAX = 512
KEY_RESERVED_PREFIX = "~"  # our own items: tallies and gates
VALUE_DECIMALS_MAX = 6
VALUE_DIGITS_MAX = 18
# |value| must be below: 38 digits [ddb] then hold 10^14 of the largest values.
VALUE_BOUND: int = 10**VALUE_DIGITS_MAX
PACKET_BYTES_MAX = 256 * 1024
NESTING_MAX = 100  # Python versions differ in how deep they can read
INTEGER_DIGITS_MAX = 4_300  # Python's own default limit: beyond it, int() takes quadratic time
TS_MS_MIN = 10**11  # 1973 in ms; anything below is taken for seconds
TS_MS_MAX = 253_402_300_799_999  # the year 9999, the last that a window id can name

# Windows
WINDOW_SECONDS_MIN = 1
WINDOW_SECONDS_MAX = 366 * 86_400
SKEW_MS_MAX = 86_400_000  # the most that a pipeline may allow events to lie ahead
SERIES_SLOTS = 60  # a tally keeps its count per sixtieth of the window
LISTING_BUCKETS = 16  # partition keys of a sealed window's listing: 8,000 keys a second [ddb]
SHARDS_MAX = 10_000
GATES_MAX = 4_096  # of a window: each is put and shut once; benchmarks/conflicts.py has the model
HOT_KEYS_MAX = 200  # with N of their own in one window's spec, which readers and writers keep
HOT_LIST_BYTES_MAX = 100 * 1024  # all of their names: the spec is one item
HOT_NOTES_MAX = 500  # keys noted in one window: they are one item too

# Queue
QUEUE_MESSAGE_BYTES_MAX = 1024 * 1024  # attributes included [sqs]
QUEUE_BATCH_MAX = 10  # entries of one send, receive, delete or visibility call [sqs]
IN_FLIGHT_MAX = 120_000  # messages, about; then a standard queue delivers none [sqs]
RECEIVES_ALONE = 900  # from here a message runs alone: it may be what crashes the writer
RECEIVES_GIVEN_UP = 950  # from here it is rejected unread: reading it may be what crashes
RECEIVES_FUSE = 1_000  # the queue's own maxReceiveCount, a fuse for crashes only; the most [sqs]
# The visibility timeout. At least 864 s: then 1,000 receives take longer than the retention of ten
# days, and a backlog whose writers always die is not given up before it expires.
VISIBILITY_MS = 900_000
VISIBILITY_SECONDS_MAX = 300  # the longest that a handed-back message waits at first
RECEIVES_PATIENT = 500  # from this receive on, waits divide the rest of the retention
PATIENT_VISIBILITY_SECONDS_MAX = 21_600  # at most 12 h [sqs]; by half of that it is looked at
WAITING_VISIBILITY_SECONDS = 20  # while its window has been awaited for under ten minutes
WAITING_SOON_MS = 10 * 60 * 1000
EXPIRY_SHARE = 0.05  # the last part of the retention: a message is rejected in it

# Writers' notes
MESSAGES_NOTED_MAX = 1_000  # of a batch: 4 KB
HEARTBEAT_EVERY_MS = 10_000
RECEPTIONS_KEPT = 8  # visibility timeouts for which the note of a batch whose writer died is kept
RECEPTIONS_SEEN_MAX = 250  # by a writer, the newest: 1 MB, one page of a query [ddb]
RECEPTIONS_READ_MAX = 2_500  # by the roller; where there are more, ages close no window
LONE_DEATHS_MAX = 5  # so many writers died on a message alone: it is rejected unread
# Of the writer's invocations in a metric period. Where fewer fail without a note, 5 % to the power
# of three is the share of messages that three receives hide from the age metric unnoted.
FAILED_SHARE_MAX = 0.05

# Bucket
PART_BYTES_MIN = 5 * 1024 * 1024  # of an upload, but for its last; S3 User Guide, "Upload limits"

# Caches
SPECS_CACHED_MAX = 1_000
SPEC_ABSENT_CACHED_MS = 5_000
WINDOWS_PER_BATCH_MAX = 100  # one BatchGetItem of specs; the rest of the batch is handed back
STRAGGLER_NOTE_EVERY_MS = 10_000
SHARD_UNITS_AIMED = PARTITION_WRITE_UNITS // 2
"""Write units a second that a shard is to take at its key's peak: half of what a partition can, for
a peak within the peak, for shards that share a partition, and for growth until the next window.
"""

"""All limits, each with its unit in its name, its reason and its source; and what DynamoDB's writes
take, by which the writer meters, and plans and producers estimate.

Sources: [ddb] Amazon DynamoDB Developer Guide, "Quotas"; [txn] the same, "Amazon DynamoDB
Transactions: How it works"; [part] the same, "Best practices for designing and using partition keys
effectively"; [sqs] Amazon SQS Developer Guide, "Message quotas"; [lambda] AWS Lambda
Developer Guide, "Using Lambda with Amazon SQS"; [env] the same, "Lambda quotas"; [tags] Tagging AWS
Resources User Guide, "Tag naming limits and requirements"; [ks] Amazon Keyspaces Developer Guide,
"Quotas".
"""

from __future__ import annotations

from typing import TypeVar

N = TypeVar("N", int, float)

# DynamoDB
TRANSACTION_ACTIONS_MAX = 100  # [txn]
TRANSACTION_BYTES_MAX = 4 * 1024 * 1024  # [txn]
TRANSACTION_BYTES_PLANNED = TRANSACTION_BYTES_MAX - 256 * 1024  # room for expressions and encoding
ITEM_BYTES_MAX = 400 * 1024  # [ddb], attribute names included
BATCH_GET_KEYS_MAX = 100  # [ddb]
TABLE_QUOTA = 2_500  # tables of an account in one region [ddb], adjustable
KEYSPACES_TABLE_QUOTA = 256  # the same in Amazon Keyspaces [ks], adjustable
KEYSPACES_TABLES_PERMANENT = 3  # of a keyspace, beside those of windows
KEYSPACES_NAME_MAX = 48  # characters of a keyspace's or a table's name [ks]
WARM_WRITE_UNITS_MIN, WARM_READ_UNITS_MIN = 4_000, 12_000  # of a new on-demand table [ddb]
WARM_UNITS_MAX = 10_000_000
PARTITION_WRITE_UNITS = 1_000  # a second, of one partition [ddb]
PARTITION_READ_UNITS = 3_000  # the same
PARTITION_BYTES = 10 * 10**9  # a fuller partition is split [part]
BURST_SECONDS = 300  # of unused capacity are kept for bursts [part]
TABLE_UNITS_QUOTA = 40_000  # write or read units a second of one table [ddb], adjustable
UNIT_BYTES = 1024  # one write unit writes up to 1 KB [ddb]
READ_UNIT_BYTES = 4 * 1024  # one read unit reads up to 4 KB, strongly consistent [ddb]
ACTION_UNITS = 2  # for each KB that an action of a transaction writes [ddb]

# Events
KEY_BYTES_MAX = 512
ID_BYTES_MAX = 512
KEY_RESERVED_PREFIX = "~"  # begins the keys of Tallyroll's own items: tallies and gates
VALUE_DECIMALS_MAX = 6
VALUE_DIGITS_MAX = 18
# |value| must be below this bound: a sum of 38 digits [ddb] then holds 10^14 of the largest values.
VALUE_BOUND: int = 10**VALUE_DIGITS_MAX
PACKET_BYTES_MAX = 256 * 1024  # of its message's body, compressed or not
EXPANDED_BYTES_MAX = 1024 * 1024  # of a compressed packet: as much as a message can hold
# Of all compressed packets that a writer reads at once: Lambda hands it 6 MB, which could become
# 6 GB. In memory a packet takes up to 18 times its text, so these are 0.6 GB of the function's 1.7.
EXPANDED_BATCH_BYTES_MAX = 32 * 1024 * 1024
NESTING_MAX = 100  # the depth that Python's parser can read differs between versions
ENVELOPES_MAX = 2  # SNS notifications within each other, of which one message may consist
INTEGER_DIGITS_MAX = 4_300  # Python's own default limit, since int() takes quadratic time
TS_MS_MIN = 10**11  # 1973 in ms; a smaller number is probably in seconds
TS_MS_MAX = 253_402_300_799_999  # the end of 9999, the last year that a window id can name

# Logs: see docs/sharding.md
LOG_PREFIX = "~log."  # begins the ids of leaves of logs
LOG_POSITIONS = 96  # of a slot: more than writers that share one, twice over
LOG_ENTRIES_MAX = 1_000  # of a leaf
LOG_LEAF_BYTES_MAX = 64 * 1024
LOG_ENTRY_BYTES_MAX = 512  # a larger event gains little
LOG_KEYS_MAX = 20
LOG_SETTING_BYTES_MAX = 1_024  # a function's settings have 4 KB together [lambda]
LOG_RATE_MAX = 100_000  # events a second
LOG_SLOT_EVENTS = 1_000  # at the rate that a key is named with: some 22 KB
LOG_GROUP_SLOTS = 2  # a group's partition takes the key's whole load while its time lasts

# Payloads
SAVED_BYTES_MIN = UNIT_BYTES  # by compression: a write unit
CHUNK_BYTES_MIN = 12 * 1024  # smaller items would take more of a transaction's actions
CHUNK_BYTES_MAX = 128 * 1024
INLINE_BYTES_MAX = 384 * 1024  # so that a record with the longest key and id is one item
# Copies of a payload in the records of one event; a larger one is stored once, in chunks.
COPIES_BYTES_MAX = 1024 * 1024

# References to uploaded payloads. A reference is good for 30 days: a message may spend 28 in both
# queues. The last message that has it leaves the queue after its retention, at most 14 days more.
REFERENCE_MS_MAX = 30 * 86_400_000
SWEPT_AFTER_MS = REFERENCE_MS_MAX + 16 * 86_400_000

# Mappings
MAPPING_BYTES_MAX = 2_048  # so that the list of them fits into the calendar's item
MAPPINGS_MAX = 100  # of a pipeline, in all its time
# Counters of one event. Each takes a record and a tally, so a transaction holds two such events,
# even if they share no key.
EVENT_KEYS_MAX = 24
# All records of one event; beside them a transaction has room for their tallies and conditions.
EVENT_BYTES_MAX = 3 * 1024 * 1024
WHY_BYTES_MAX = 256  # of who retracts, and why: so that a tombstone takes 1 KB with most ids
# How much longer than its days an identity is remembered. A copy of the message that brought it may
# still come after 14 days in the queue, 14 more as a dead letter, 14 after its redrive, and one.
IDENTITY_COPIES_DAYS = 43
IDENTITY_DAYS_MAX = 366
MAPPED_AHEAD_MS = 60_000  # writers settle that far ahead, so a new mapping holds that much later

ARCHIVE_DAYS_MAX = 36_500  # S3 User Guide, "Object Lock": a hundred years
ARCHIVE_DAYS_MIN = 31  # notes, and layouts that are replaced, live for 30 days

# Windows
WINDOW_SECONDS_MIN = 1
WINDOW_SECONDS_MAX = 366 * 86_400
SKEW_MS_MAX = 86_400_000  # upper bound of the setting `skew_ms`
SERIES_SLOTS = 60  # a tally counts events per sixtieth of its window
LISTING_BUCKETS = 16  # partition keys of a sealed window's listing: 8,000 keys a second [ddb]
SHARDS_MAX = 10_000
SHARDS_DEFAULT = 256  # of a key; with so many, a table's growth helps a key in its first minutes
SHARDS_FEW = 16  # of a key whose counts, or lists, read all of its shards
BLOCKS_MAX = 64  # of shards that a tally names: a set of so many numbers takes 200 bytes
# With fewer, concurrent commits conflict on a stripe or gate too often: see the model in
# benchmarks/conflicts.py. Every count of a key reads all its stripes; gates cost less.
STRIPES_PER_COMMIT = 4
GATES_PER_COMMIT = 8
GATES_MAX = 4_096  # per window; each is put and shut once; benchmarks/conflicts.py has the model
HOT_KEYS_MAX = 200  # keys with their own N in a window's spec, which readers and writers cache
HOT_LIST_BYTES_MAX = 100 * 1024  # total bytes of these keys: the spec is one item
HOT_NOTES_MAX = 500  # keys noted as hot in one window: the notes are one item too

# Queue
QUEUE_MESSAGE_BYTES_MAX = 1024 * 1024  # attributes included [sqs]
QUEUE_RETENTION_MS_MAX = 14 * 86_400_000  # [sqs]
QUEUE_CHARGED_BYTES = 64 * 1024  # each 64 KB of a request are charged as one [sqs]
QUEUE_BATCH_MAX = 10  # entries of one send, receive, delete or visibility call [sqs]
IN_FLIGHT_MAX = 120_000  # approximate; a standard queue with more in flight delivers none [sqs]
RECEIVES_ALONE = 900  # from this receive on, a message runs alone: it may crash the writer
RECEIVES_GIVEN_UP = 950  # from this receive on, it is rejected unread: reading it may crash
RECEIVES_FUSE = (
    1_000  # the queue's maxReceiveCount, for messages that crash writers; the most [sqs]
)
# The visibility timeout. From 864 s on, 1,000 receives take longer than the retention of ten days,
# so a backlog whose writers always die is not moved to the dead-letter queue before it expires.
VISIBILITY_MS = 900_000
VISIBILITY_SECONDS_MAX = 300  # longest wait of a handed-back message, up to RECEIVES_PATIENT
RECEIVES_PATIENT = 500  # from this receive on, the waits share the rest of the retention
PATIENT_VISIBILITY_SECONDS_MAX = 21_600  # longest wait after that: half of the most, 12 h [sqs]
WAITING_VISIBILITY_SECONDS = 20  # while a message has waited for its window for less than...
WAITING_SOON_MS = 10 * 60 * 1000  # ...this
EXPIRY_SHARE = 0.05  # an unfinished message is rejected in this last part of the retention

# Body of an event's message: the rest is for the attributes of its redrive.
EVENT_MESSAGE_BYTES_MAX = QUEUE_MESSAGE_BYTES_MAX - 1024

# Writers' notes
MESSAGES_NOTED_MAX = 1_000  # per batch: 4 KB of digests
HEARTBEAT_EVERY_MS = 10_000
STRAGGLER_NOTE_EVERY_MS = 10_000
RECEPTIONS_KEPT = 8  # visibility timeouts for which the note of a batch whose writer died is kept
RECEPTIONS_SEEN_MAX = 250  # newest notes that a writer reads: 1 MB, one page of a query [ddb]
RECEPTIONS_READ_MAX = 2_500  # notes that the roller reads; if there are more, ages close no window
LONE_DEATHS_MAX = 5  # after so many deaths of writers on it alone, a message is rejected unread
# Share of the writer's invocations in a metric period that may fail. If fewer fail without a note,
# at most 5 % to the power of three of the messages are received three times, and so hidden from the
# age metric, without a note.
FAILED_SHARE_MAX = 0.05

# Bucket
PART_BYTES_MIN = 5 * 1024 * 1024  # of all parts but the last; S3 User Guide, "Upload limits"

# Tags, the same for all services [tags]
TAGS_MAX = 47  # of a deployment; with the pipeline's own three, a table has no more than AWS's 50
TAG_KEY_CHARACTERS_MAX = 128
TAG_VALUE_CHARACTERS_MAX = 256
TAGS_BYTES_MAX = 2_048  # as JSON: half of the 4 KB of a function's environment [env]

# Caches
SPECS_CACHED_MAX = 1_000
SPEC_ABSENT_CACHED_MS = 5_000
WINDOWS_PER_BATCH_MAX = 100  # one BatchGetItem of specs; the rest of the batch is handed back

# Write units [txn]
ELEMENTS_MAX = TRANSACTION_ACTIONS_MAX - 1  # records and tallies, beside the check of a gate
ELEMENT_BYTES_MAX = KEY_BYTES_MAX + 512  # of a tally's update, or of a put's keys and condition
IDENTITY_UNITS = ACTION_UNITS
"""The write units of an id that stays taken beyond its window, in the table of identities: its item
has less than a KB, however long key and id are.
"""


def write_units(size: float) -> int:
    """The write units of an item of `size` bytes; in a transaction it takes twice as many."""
    return int(-(-size // UNIT_BYTES)) or 1


def record_units(size: float) -> int:
    """The write units of a record of `size` bytes in a transaction."""
    return ACTION_UNITS * write_units(size)


def shared_units(tallies: N, transactions: N) -> N:
    """The write units of these transactions beside their records: of all additions to tallies, and
    of one check of a gate each.
    """
    return ACTION_UNITS * (tallies + transactions)

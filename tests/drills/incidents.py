"""Ten incidents: what happens in each minute, who must be told, and by when.

Minutes are counted from an incident's beginning. `since` is that, `clock` counts from the beginning
of a day, whose hours are the windows'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from tallyroll.ingest.batch_messages import BatchMessage
from tallyroll.ingest.batch_notes import BatchNotes
from tallyroll.lifecycle.health import TABLES_SHARE
from tallyroll.limits import VISIBILITY_MS
from tallyroll.model.messages import Message
from tallyroll.settings import Settings
from tests.drills.minutes import DAY, HOUR, Minute, Queued, Read, Rolling, Writing, healthy
from tests.harness.pipeline import Pipeline, StillEffects

KEYSPACES = Settings(store="keyspaces")
QUARTER = VISIBILITY_MS // 60_000  # after which a killed batch is delivered again
# Lambda ends sandboxes every few hours, also those that are always busy: AWS Lambda Developer
# Guide, "Understanding the Lambda execution environment lifecycle".
SANDBOX = 2 * HOUR
BATCH = 100


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Incident:
    """What happens, and who must be told.

    `alarms` are all that are raised, in this order, each with the latest minute. `told` says by
    which channel, and why it survives. `like` names an outage of `tests/simulation/outages.py`, in
    which the code itself publishes what raises the first alarm.
    """

    name: str
    what: str
    told: str
    lasts: int
    at: Callable[[int, int, Minute], Minute]
    """What happens, by `since` and `clock`, in the place of a minute in health."""
    alarms: Mapping[str, int]
    settings: Settings = field(default_factory=Settings)
    like: str = ""

    @property
    def first(self) -> str:
        """The first alarm."""
        return next(iter(self.alarms))


def _hot_key(since: int, clock: int, well: Minute) -> Minute:
    """A key gets twenty events a second more than its shards take: these are handed back.

    Waiting messages are in flight. With ever more of them some are unlucky from the beginning on.
    A batch with throttled messages tries until its time is over, 45 s.
    """
    del clock
    held = 1_200 * (since + 1)
    writing = Writing(
        batches=600,
        finished=60_000,
        back=max(1_200, held // 5),
        oldest_back=since,
        throttles=5_000,
        takes_ms=45_000,
    )
    return replace(well, writer=writing, queued=Queued(sent=61_200, in_flight=held))


@cache
def lives_of_poison() -> int:
    """How often a message is received that kills every writer: the last time it is rejected unread.

    By the code of writers' notes, with a batch of a hundred messages that came together.
    """
    pipeline = Pipeline(Settings(), StillEffects())
    sent, left = pipeline.effects.now(), [f"m{number}" for number in range(BATCH)]
    for receives in range(1, 1_000):
        cases = [BatchMessage(Message(id_, "", sent, receives, id_)) for id_ in left]
        batch_notes = BatchNotes(
            pipeline.settings, pipeline.catalog, pipeline.queue, pipeline.effects
        )
        groups = batch_notes.begin(cases)
        if any(case.fate for group in groups for case in group if case.message.id == "m0"):
            return receives
        for number, group in enumerate(groups):
            if number:
                batch_notes.narrow(group)
            if any(case.message.id == "m0" for case in group):
                break
            left = [id_ for id_ in left if id_ not in {case.message.id for case in group}]
        pipeline.effects.pass_by(VISIBILITY_MS)
    raise AssertionError("it is never rejected")


def _poison(since: int, clock: int, well: Minute) -> Minute:
    """One message kills each writer that works on it; the others of its batches count later."""
    del clock
    rejected_at = (lives_of_poison() - 1) * QUARTER
    if since >= rejected_at:
        writing = Writing(rejected=int(since == rejected_at))
        letters = Queued(letters=1, letters_age=since - rejected_at)
        return replace(well, writer=writing, queued=letters)
    writing = Writing(deaths=int(since % QUARTER == 0))
    queued = Queued(in_flight=40 + BATCH, age=min(since, 2 * QUARTER))
    return replace(well, writer=writing, queued=queued)


def _key(since: int, clock: int, well: Minute) -> Minute:
    """Nobody may send, receive, start or read: no function runs, and requests find none."""
    del since, clock
    return Minute(
        writer=None,
        roller=None,
        cleanup=None,
        dropper=None,
        queued=Queued(sent=0, in_flight=0, polled=False),
        read=Read(unseen=Read().requests),
        tables=well.tables,
    )


def _more_tables(well: Minute, more: int) -> Rolling:
    assert well.roller
    return replace(well.roller, tables=well.roller.tables + more)


def _cleanup(since: int, clock: int, well: Minute) -> Minute:
    """Each run raises before it does anything, and a window's table is added every hour."""
    del clock
    return replace(well, cleanup=False, roller=_more_tables(well, since // HOUR))


def _letters(since: int, clock: int, well: Minute) -> Minute:
    """A producer sends one bad message every ten minutes, and nobody looks at the letters."""
    del clock
    writing = Writing(rejected=int(since % 10 == 0))
    queued = Queued(letters=since // 10 + 1, letters_age=since)
    return replace(well, writer=writing, queued=queued)


def _rejected(since: int, clock: int, well: Minute) -> Minute:
    del clock
    every = Writing().finished
    queued = Queued(letters=every * (since + 1), letters_age=since)
    return replace(well, writer=Writing(rejected=every), queued=queued)


def _roller(since: int, clock: int, well: Minute) -> Minute:
    """Nobody opens the next window. From its beginning on nine messages of ten wait for it, a third
    of a minute at first, and five minutes after the first ten.
    """
    begun = clock - since
    waited = clock - (begun // HOUR + 1) * HOUR
    if waited < 0:
        return replace(well, roller=None)
    wait = 540
    back = wait * (3 * min(waited + 1, 10) + max(0, waited - 9) // 5)
    writing = Writing(finished=60, back=back, waiting=back, oldest_back=waited)
    return replace(
        well, roller=None, writer=writing, queued=Queued(in_flight=wait * (waited + 1), age=1)
    )


def _crash_loop(since: int, clock: int, well: Minute) -> Minute:
    """Every writer dies at its start. Five messages a minute come, so the queue never has too many
    in flight; after three receives SQS leaves them out of its age.

    A roller remembers since when the queue has held messages only as long as its sandbox lives. No
    window that is over closes, so each hour leaves one open.
    """
    silent = since if since < SANDBOX else clock % SANDBOX
    left = since // HOUR
    roller = _more_tables(well, left)
    return replace(
        well,
        writer=Writing(batches=0, deaths=3),
        roller=replace(roller, open=roller.open + left, silent=silent),
        queued=Queued(sent=5, in_flight=5 * (since + 1), age=min(since, 2 * QUARTER)),
    )


def _table_deleted(since: int, clock: int, well: Minute) -> Minute:
    """The current window's messages wait for it, and reads lack it. Those of later windows count.

    A writer takes a table that is not there for one that is not made yet.
    """
    left = HOUR - (clock - since) % HOUR
    wait = 540 * min(since + 1, left)
    back = max(540, wait // 5)
    writing = Writing(
        finished=60 if since < left else 600, back=back, waiting=back, oldest_back=since
    )
    queued = Queued(in_flight=40 + wait, age=1)
    return replace(well, writer=writing, queued=queued, read=Read(incomplete=Read().requests))


def _quota(since: int, clock: int, well: Minute) -> Minute:
    """Others make a hundred tables an hour, from 1,900 on: after six hours there are 2,500."""
    tables = 1_900 + since * 100 // HOUR
    made = clock - since + 6 * HOUR
    return replace(_no_table(clock, made, well), tables=min(tables, 2_500))


def _no_table(clock: int, full: int, well: Minute) -> Minute:
    """No table is made from `full` (on the clock) on: each run of the roller tries the window that
    is due, two ahead, and events wait once the last that was made is over.
    """
    if clock // HOUR <= full // HOUR:
        return well
    ends = (full // HOUR + 3) * HOUR  # of the second window after the current one
    waited = clock - ends
    assert well.roller
    if waited < 0:
        return replace(well, roller=replace(well.roller, problems=1))
    back = 540 * (3 * min(waited + 1, 10) + max(0, waited - 9) // 5)
    return replace(
        well,
        roller=replace(well.roller, problems=1, next_missing=True),
        writer=Writing(finished=60, back=back, waiting=back, oldest_back=waited),
        queued=Queued(in_flight=540 * (waited + 1), age=1),
    )


def _keyspaces_quota(since: int, clock: int, well: Minute) -> Minute:
    """Others have filled the quota; no metric of theirs is documented."""
    return _no_table(clock, clock - since, well)


def _days_to_quota(settings: Settings, share: float = 1.0) -> int:
    """In how many days as many tables stand as the quota, or a share of it, if none is dropped."""
    roller = healthy(0, settings).roller
    assert roller
    return int((share * settings.quota - roller.tables) * settings.window_seconds // 86_400)


def _days_to_page(settings: Settings) -> int:
    return _days_to_quota(settings, TABLES_SHARE)


INCIDENTS = (
    Incident(
        name="throttled hot key",
        what="one key gets twenty events a second more than its shards take",
        told="The writers publish throttles while they count the other keys.",
        lasts=3 * HOUR,
        at=_hot_key,
        alarms={
            "store-throttles": 12,
            "key-throttles": 12,
            "writer-slow": 14,
            "handed-back": 44,
            "in-flight": 85,
        },
        like="commits throttled",
    ),
    Incident(
        name="poison message",
        what="one message kills each writer that works on it",
        told="Writers reject it in the end, and SQS counts the letter.",
        lasts=5 * HOUR,
        at=_poison,
        alarms={"dead-letters": 166},
    ),
    Incident(
        name="key disabled",
        what="the key of `tallyroll:kms_key` is disabled",
        told="The topics have no key. With a trail, EventBridge tells `NAME-key-state` in minutes."
        " The roller's silence is an alarm; API Gateway and SQS publish without the key.",
        lasts=3 * HOUR,
        at=_key,
        alarms={
            "next-window-missing": 7,
            "api-errors": 9,
            "mapping-disabled": 19,
            "cleanup-silent": 44,
        },
    ),
    Incident(
        name="cleanup fails for days",
        what="each run of cleanup raises",
        told="Lambda counts the errors, and the roller the tables. At one table an hour DynamoDB's"
        f" quota is {_days_to_quota(Settings())} days away, and"
        f" [window-tables](operations.md#window-tables) pages after {_days_to_page(Settings())}.",
        lasts=2 * DAY,
        at=_cleanup,
        alarms={"cleanup-errors": 14, "cleanup-silent": 44},
        like="cleanup dies",
    ),
    Incident(
        name="cleanup fails for days, Amazon Keyspaces",
        what=f"the quota is {KEYSPACES.quota} tables",
        told="The same. The quota is reached"
        f" {_days_to_quota(KEYSPACES) - _days_to_page(KEYSPACES)} days after the page.",
        lasts=6 * DAY,
        at=_cleanup,
        alarms={"cleanup-errors": 14, "cleanup-silent": 44, "window-tables": 7_744},
        settings=KEYSPACES,
        like="cleanup dies",
    ),
    Incident(
        name="dead letters fill up",
        what="a producer sends a bad message every ten minutes, and nobody looks",
        told="SQS counts the letters and their age.",
        lasts=7 * DAY + HOUR,
        at=_letters,
        alarms={"dead-letters": 1, "dead-letters-expire": 10_084},
    ),
    Incident(
        name="everything is rejected",
        what="a producer's deployment sends only bad messages",
        told="SQS counts the letters, and writers what they reject.",
        lasts=2 * HOUR,
        at=_rejected,
        alarms={"dead-letters": 1, "rejections": 4, "mostly-rejected": 37},
    ),
    Incident(
        name="roller dead for 3 h",
        what="its schedule is disabled",
        told="The roller's silence is an alarm.",
        lasts=3 * HOUR,
        at=_roller,
        alarms={"next-window-missing": 7, "events-await-window": 64, "handed-back": 104},
        like="roller away",
    ),
    Incident(
        name="writers crash for ten days",
        what="each invocation of the writer dies at its start, five messages a minute arrive",
        told="Lambda counts the errors, and the roller tells of the silence. Each new sandbox of it"
        " has forgotten that; the alarms bridge it.",
        lasts=5 * DAY + 2 * HOUR,  # until nothing new is told
        at=_crash_loop,
        alarms={
            "writer-errors": 9,
            "writer-silent": 18,
            "close-stuck": 234,
            "writer-silent-expire": 7_079,
        },
        like="writer dies",
    ),
    Incident(
        name="window table deleted by hand",
        what="the current window's",
        told="The writers count the messages that wait for it.",
        lasts=4 * HOUR,
        at=_table_deleted,
        alarms={"events-await-window": 5, "reads-incomplete": 14, "handed-back": 44},
    ),
    Incident(
        name="table quota reached by others",
        what="other applications of the account make a hundred tables an hour, from 1,900 on",
        told="DynamoDB counts the account's tables, also while the roller makes none.",
        lasts=10 * HOUR,
        at=_quota,
        alarms={
            "window-tables": 69,
            "steps-failing": 434,
            "events-await-window": 544,
            "next-window-missing": 544,
            "handed-back": 584,
        },
    ),
    Incident(
        name="table quota reached by others, Amazon Keyspaces",
        what="no metric of others' tables is documented: the quota is reached at the beginning",
        told="The roller tells that it can make no table, two windows ahead.",
        lasts=5 * HOUR,
        at=_keyspaces_quota,
        alarms={
            "steps-failing": 74,
            "events-await-window": 184,
            "next-window-missing": 184,
            "handed-back": 224,
        },
        settings=KEYSPACES,
    ),
)

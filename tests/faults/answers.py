"""What the core does about each kind at each operation, for docs/faults.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.faults.kinds import MEANING, RULES, Kind

_NO_ANSWER = (Kind.NOT_ARRIVED, Kind.REPLY_LOST, Kind.RESET, Kind.ERROR, Kind.ERROR_APPLIED)
_AGAIN = (*_NO_ANSWER, Kind.THROTTLED)
_PATIENT = ((Kind.SLOW,), "waited for: 5 s, which is less than any function's reserve of time")
_READ = (_AGAIN, "tried 4 times with full jitter, then raised as Throttled or Unknown")
_REPEATED = (_AGAIN, "tried 4 times with full jitter: a repetition changes nothing")

Answers = Sequence[tuple[Sequence[Kind], str]]

ANSWERS: Mapping[str, Answers] = {
    "AbortMultipartUpload": (
        (_AGAIN, "tried 4 times; then the bucket's lifecycle rule ends the upload"),
        _PATIENT,
    ),
    "BatchGetItem": (
        _READ,
        _PATIENT,
        ((Kind.UNPROCESSED,), "asked for again, 8 times; then Throttled, never a smaller answer"),
    ),
    "BatchWriteItem": (
        (_AGAIN, "tried 40 times: a restored item put twice is the same item"),
        _PATIENT,
        ((Kind.UNPROCESSED,), "put again, as one of the 40 tries"),
    ),
    "ChangeMessageVisibilityBatch": (
        (_AGAIN, "not tried again: the message comes again after the queue's own timeout"),
        _PATIENT,
        ((Kind.UNPROCESSED,), "the same"),
    ),
    "CompleteMultipartUpload": (
        (_AGAIN, "tried 4 times; an upload that is over then has left its object, or is missing"),
        _PATIENT,
    ),
    "CreateMultipartUpload": (
        (_AGAIN, "tried 4 times: an upload that is never completed leaves no object"),
        _PATIENT,
    ),
    "CreateTable": (
        _REPEATED,
        _PATIENT,
        (
            (Kind.IN_USE,),
            "a window's table is there then, as wanted; a restore reports it and stops",
        ),
    ),
    "DeleteItem": (
        _REPEATED,
        _PATIENT,
        (
            (Kind.CONFLICT,),
            (
                "a restore reports it, and goes on from its mark when it is run again; a writer's"
                " note stays, and holds windows open for two visibility timeouts"
            ),
        ),
    ),
    "DeleteMessageBatch": (
        (
            _AGAIN,
            (
                "a letter's is tried 4 times; one that may still be there is reported, and"
                " redriven again. A writer's is not tried again: the message comes again, and is"
                " found to be a duplicate"
            ),
        ),
        _PATIENT,
        (
            (Kind.UNPROCESSED,),
            "the same: the event counts once however often it is redriven or delivered",
        ),
    ),
    "DeleteObject": (_REPEATED, _PATIENT),
    "DeleteTable": (
        _REPEATED,
        _PATIENT,
        ((Kind.IN_USE,), "Throttled: cleanup's next run tries again"),
    ),
    "DescribeContinuousBackups": (_READ, _PATIENT),
    "DescribeExport": (_READ, _PATIENT),
    "DescribeImport": (_READ, _PATIENT),
    "DescribeTable": (
        _READ,
        _PATIENT,
        ((Kind.CHANGING,), "the step waits for a later run"),
        (
            (Kind.NOT_SEEN_YET,),
            "made again, which changes nothing; a restore reports it and can be run again",
        ),
    ),
    "ExportTableToPointInTime": (
        (_AGAIN, "tried 4 times under the attempt's token, so no export is begun twice"),
        _PATIENT,
    ),
    "DescribeTimeToLive": (_READ, _PATIENT),
    "GetFunctionConfiguration": (
        (
            _AGAIN,
            "tried 4 times; then the environment's settings are used, and the command says so",
        ),
        _PATIENT,
    ),
    "GetItem": (_READ, _PATIENT),
    "GetMetricStatistics": (
        (_AGAIN, "tried 4 times; then nothing is known, and no window counts as drained"),
        _PATIENT,
    ),
    "GetObject": (
        (_AGAIN, "tried 4 times with full jitter; then the proof waits for a later run"),
        _PATIENT,
        (
            (Kind.BROKEN_BODY,),
            "Unknown: a small object is fetched again, a data file with the whole proof",
        ),
    ),
    "GetQueueAttributes": (
        (
            _AGAIN,
            (
                "tried 4 times; then nothing is known: no window counts as drained, and no wait of"
                " a message is shortened"
            ),
        ),
        _PATIENT,
    ),
    "GetQueueUrl": (_READ, _PATIENT),
    "GetServiceQuota": (
        (_AGAIN, "tried 4 times; then a measured plan says that the quota is not known"),
        _PATIENT,
    ),
    "ImportTable": (
        (_AGAIN, "tried 4 times under one token, so no import is begun twice"),
        _PATIENT,
        ((Kind.IN_USE,), "reported: the table's name is taken"),
    ),
    "ListEventSourceMappings": (
        (_AGAIN, "tried 4 times; then a measured plan says that the trigger is not known"),
        _PATIENT,
    ),
    "ListObjectsV2": (
        _READ,
        _PATIENT,
        ((Kind.TRUNCATED,), "the next page is asked for, also after an empty one"),
    ),
    "ListTables": (_READ, _PATIENT, ((Kind.TRUNCATED,), "the next page is asked for")),
    "ListTagsOfResource": (_READ, _PATIENT),
    "PutItem": (
        (_AGAIN, "tried again; what is stored then says whether the first try was carried out"),
        _PATIENT,
        (
            (Kind.CONFLICT,),
            (
                "a state is tried 10 times, other items by the next run; a writer's note is not,"
                " and its batch gives no heartbeat"
            ),
        ),
    ),
    "PutObject": (_REPEATED, _PATIENT),
    "PutObjectTagging": (_REPEATED, _PATIENT),
    "Query": (
        _READ,
        _PATIENT,
        ((Kind.TRUNCATED,), "the next page is asked for, also after an empty one"),
    ),
    "ReceiveMessage": (
        (_AGAIN, "tried 4 times; letters of a lost reply are seen again after five minutes"),
        _PATIENT,
    ),
    "Scan": (
        _READ,
        _PATIENT,
        ((Kind.TRUNCATED,), "the next page is asked for, also after an empty one"),
    ),
    "SendMessageBatch": (
        (
            _NO_ANSWER,
            (
                "a rejected message is handed back and rejected again; the command sends events"
                " that have ids again"
            ),
        ),
        (
            (Kind.THROTTLED,),
            "a producer tries 6 times, then as above; a rejected message is handed back",
        ),
        _PATIENT,
        (
            (Kind.UNPROCESSED,),
            "only what the queue took counts as sent; a body it refuses goes to the bucket",
        ),
    ),
    "TagResource": (
        _REPEATED,
        _PATIENT,
        ((Kind.IN_USE,), "Throttled: cleanup's next run tries again"),
    ),
    "TransactWriteItems": (
        (
            _NO_ANSWER,
            (
                "tried again: what was carried out is found as a duplicate, a shut gate or a"
                " state that stands"
            ),
        ),
        (
            (Kind.THROTTLED,),
            "tried again later, for a commit each key on its own, while there is time",
        ),
        _PATIENT,
        ((Kind.ELEMENT_CONFLICT,), "tried again with another gate and other stripes"),
        ((Kind.ELEMENT_THROTTLED,), "that key waits on its own, the others go on at once"),
    ),
    "UpdateContinuousBackups": (
        (_AGAIN, "tried 4 times with full jitter, then by the next run: it delays no window"),
        _PATIENT,
    ),
    "UpdateContributorInsights": (
        (_AGAIN, "tried 4 times with full jitter, then given up: the window is made all the same"),
        _PATIENT,
    ),
    "UpdateItem": (
        (
            _AGAIN,
            (
                "tried 4 times with full jitter: a repetition changes nothing, but for a lease of"
                " the write rate, of which it may lose one"
            ),
        ),
        _PATIENT,
        (
            (Kind.CONFLICT,),
            (
                "a gate is tried 100 times; a note or pointer waits for the next run; without a"
                " lease of the write rate, messages are handed back"
            ),
        ),
    ),
    "UpdateTable": (
        _REPEATED,
        _PATIENT,
        ((Kind.IN_USE,), "Throttled: cleanup's next run tries again"),
    ),
    "UploadPart": (_REPEATED, _PATIENT),
}


def faults_table() -> str:
    """Every operation with what can happen there and what is done about it. Operations with equal
    answers share a row; what is equal everywhere stands above the table.
    """
    assert all(_PATIENT in answers for answers in ANSWERS.values())
    alike: dict[tuple[tuple[Sequence[Kind], str], ...], list[str]] = {}
    for operation in RULES:
        answers = tuple(one for one in ANSWERS[operation] if one is not _PATIENT)
        alike.setdefault(answers, []).append(f"`{operation}`")
    lines = [
        f"*Fails* is any of {', '.join(_AGAIN)}.",
        "",
        f"At every operation a *slow* reply is {_PATIENT[1]}.",
        "",
        "| operation | what happens | what is done |",
        "|---|---|---|",
    ]
    for answers, operations in alike.items():
        for number, (kinds, answer) in enumerate(answers):
            shown = "" if number else ", ".join(operations)
            lines.append(f"| {shown} | {_named(kinds)} | {answer} |")
    return "\n".join(lines)


def _named(kinds: Sequence[Kind]) -> str:
    """The kinds, in one word where they are those of *fails*."""
    if kinds is _AGAIN:
        return "fails"
    return "fails, but for throttled" if kinds is _NO_ANSWER else ", ".join(kinds)


def kinds_table() -> str:
    """Every kind and its meaning."""
    rows = [f"| {kind} | {meaning} |" for kind, meaning in MEANING.items()]
    return "\n".join(["| kind | what it is |", "|---|---|", *rows])

"""The corrections of a sealed window: their copy beside its archive, and their sums.

    {prefix}/corrections/03.jsonl            a line a correction, of the keys in bucket 3 of the
                                             listing
    {prefix}/corrections/03-0000012.jsonl    those that came after 12 of that bucket were copied
    {prefix}/corrections/03-{digest}.jsonl   those that came after the drop, or late

Cleanup writes the copy before it lets the table be dropped; without corrections there is none. What
comes later it adds once a day. The compactor copies the files beside Parquet. What it lacks of one
that it copied before goes into one more. Of two processes each may add the same lines.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain, groupby

from tallyroll.archive.layout import alone_key, archive_of, is_parquet, proof_key
from tallyroll.errors import ProofMismatch
from tallyroll.limits import LISTING_BUCKETS
from tallyroll.model.amounts import format_amount, read_amount
from tallyroll.model.formats.json_texts import canonical
from tallyroll.model.periods import PeriodName, month_of
from tallyroll.model.states import Window
from tallyroll.model.totals import Correction, Corrections
from tallyroll.model.windows import WindowId, window_id, window_start
from tallyroll.ports.bucket import ArchiveBucket, Bucket
from tallyroll.ports.effects import Effects
from tallyroll.ports.totals import Totals

ROWS_PER_PAGE = 1_000
BUCKETS_AT_ONCE = 8
NUMBER_LETTERS = 2  # in the names of files, of the bucket's number


def copy_corrections(window: Window, totals: Totals, bucket: ArchiveBucket) -> None:
    """Put a copy of a window's corrections beside its archive. What an earlier run has put stays as
    it is, and what was corrected since goes into a file of its own. Holds those of one bucket of
    the listing in memory.
    """
    if not totals.revision(revised(window.id)):
        return
    directory = corrections_dir(window.attempt.archive)
    files = sorted(bucket.list(directory))
    for number in range(1, LISTING_BUCKETS + 1):
        name = f"{directory}{number:0{NUMBER_LETTERS}d}"
        earlier = (bucket.get(file) for file in files if file.startswith(name))
        there = {line for body in earlier for line in body.splitlines(keepends=True)}
        made = map(correction_line, corrections_in(totals, window.id, number))
        if lines := b"".join(line for line in made if line not in there):
            bucket.put_once(f"{name}-{len(there):07d}.jsonl" if there else f"{name}.jsonl", lines)


def copy_later_ones(
    window: Window, totals: Totals, bucket: ArchiveBucket, effects: Effects
) -> None:
    """Add the corrections of a dropped window that the copies lack, beside each archive of it that
    stays: also beside Parquet that is made meanwhile. Holds those of a window in memory.
    """
    jobs = [partial(_lines, totals, window.id, number) for number in range(1, LISTING_BUCKETS + 1)]
    lines = effects.together(jobs, BUCKETS_AT_ONCE)
    done: set[str] = set()
    while any(lines) and (places := _staying(bucket, window.attempt.archive) - done):
        for directory in map(corrections_dir, sorted(places)):
            for number, of_bucket in enumerate(lines, 1):
                _add_lines(bucket, f"{directory}{number:0{NUMBER_LETTERS}d}", of_bucket)
        done |= places


def _lines(totals: Totals, window: WindowId, number: int) -> list[bytes]:
    return [*map(correction_line, corrections_in(totals, window, number))]


def _add_lines(bucket: ArchiveBucket, name: str, lines: list[bytes]) -> None:
    earlier = (bucket.get(file) for file in bucket.list(name)) if lines else ()
    there = {line for body in earlier for line in body.splitlines(keepends=True)}
    if body := b"".join(line for line in lines if line not in there):
        bucket.put_once(f"{name}-{digest_of(body)}.jsonl", body)


def _staying(bucket: Bucket, source: str) -> set[str]:
    """The prefixes of a window's archives: that of its proven one, unless it expires, and those of
    Parquet, of which the files are there before corrections are copied and it is proven.
    """
    keys = {*bucket.list(source)}
    parquet = {prefix for key in keys if is_parquet(prefix := archive_of(key))}
    if proof_key(source) in keys and not any(alone_key(prefix) in keys for prefix in parquet):
        return {source, *parquet}
    return parquet


def digest_of(lines: bytes) -> str:
    """What tells a file of these lines from others in its name."""
    return hashlib.sha256(lines).hexdigest()[:16]


def corrections_in(totals: Totals, window: WindowId, number: int) -> Iterator[Correction]:
    """The corrections of a window whose least key is in one bucket of the listing."""
    for page in totals.corrected(window, number, "", ROWS_PER_PAGE):
        for row in page:
            if row.corrections.n:
                yield from totals.corrections(row.key, window)


def corrections_copied(bucket: Bucket, prefix: str, window: WindowId) -> Iterator[Correction]:
    """The corrections in the copy beside an archive, each once. Raises ProofMismatch if it is
    malformed.
    """
    name_ends = len(corrections_dir(prefix)) + NUMBER_LETTERS
    for _, of_bucket in groupby(bucket.list(corrections_dir(prefix)), lambda key: key[:name_ends]):
        lines: dict[bytes, str] = {}
        for key in of_bucket:
            for number, line in enumerate(bucket.get(key).splitlines(), 1):
                lines.setdefault(line, f"{key} line {number}")
        for line, place in lines.items():
            try:
                yield _correction(json.loads(line), window)
            except (KeyError, TypeError, ValueError, ArithmeticError) as error:
                raise ProofMismatch([f"{place}: no correction: {error!r}"]) from None


def corrections_dir(prefix: str) -> str:
    """The prefix of the copy of corrections beside an archive."""
    return f"{prefix}/corrections/"


def revised(window: WindowId) -> PeriodName:
    """The month whose revision tells whether a window may have corrections."""
    return month_of(window_start(window)).name


def correction_line(correction: Correction) -> bytes:
    """A correction as its line in the copy: `at` in ms, and the digest in base64."""
    fields = {
        "keys": list(correction.keys),
        "id": correction.id,
        "index": correction.index,
        "events": correction.n,
        "amount": format_amount(correction.amount),
        "digest": base64.b64encode(correction.digest).decode(),
        "at": correction.at,
        "by": correction.by,
        "why": correction.why,
    }
    return canonical(fields).encode() + b"\n"


def _correction(fields: Mapping[str, object], window: WindowId) -> Correction:
    match fields:
        case {
            "keys": [str(), *_] as keys,
            "id": str(record_id),
            "index": int() | None as index,
            "events": int(events),
            "amount": str(amount),
            "digest": str(digest),
            "at": int(at),
            "by": str(by),
            "why": str(why),
        }:
            content = base64.b64decode(digest, validate=True)
            counted = (events, read_amount(amount), content, at, by, why)
            return Correction(window, record_id, tuple(map(str, keys)), *counted, index)
    raise ValueError("a field is missing or of another type")


def listed_corrections(totals: Totals, window: WindowId) -> dict[str, Corrections]:
    """The sums of corrections of all keys of a window, as its listing has them."""
    pages = chain.from_iterable(
        totals.corrected(window, bucket, "", ROWS_PER_PAGE)
        for bucket in range(1, LISTING_BUCKETS + 1)
    )
    return {row.key: row.corrections for row in chain.from_iterable(pages)}


def sums_unlike_corrections(
    totals: Totals, window: WindowId, listed: Mapping[str, Corrections]
) -> Iterator[str]:
    """One finding per key whose sums, by key or `listed`, are not those of its corrections. Holds
    the sums of all keys in memory.
    """
    events, amounts = Counter[str](), Counter[str]()
    for key in listed:
        for each in totals.corrections(key, window):
            for its in each.keys:
                events[its] += each.n
                amounts[its] += each.amount
    after = window_id(window_start(window) + 1_000)
    for key in sorted({*listed, *events}):
        found = totals.of_key(key, window, after)
        by_key = found[0].corrections if found else None
        row = listed.get(key)
        made = events[key], amounts[key]
        if by_key != row or row is None or row[:2] != made:
            yield f"key {key!r}: corrected by {made}; by its sums {by_key}, as listed {row}"


def note_retracted(
    totals: Totals, window: WindowId, retracted: Mapping[str, tuple[int, int]]
) -> None:
    """Note what was retracted, by key, where it is missing, since a roller of an earlier release
    sealed the window. Else nothing is written: where nobody may retract any more, cleanup may not.
    """
    noted = totals.of_window(window, list(retracted), corrected=True)
    missing = {
        key: gone
        for key, gone in retracted.items()
        if key not in noted or noted[key].corrections.before != gone
    }
    if missing:
        totals.put_retracted(window, missing)

"""Windows of events, archived in DynamoDB's layout, for `benchmarks.columnar`."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, islice
from uuid import UUID

from benchmarks.processes import cpu_seconds
from tallyroll.adapters.directory import DirectoryBucket
from tallyroll.adapters.dynamodb.items import CODEC, stored_item
from tallyroll.archive.indexed.members import DataFileWriter
from tallyroll.archive.layout import (
    DataFile,
    data_dir,
    manifests,
    prefix_of,
    proof_key,
)
from tallyroll.model.amounts import MICROS, format_amount
from tallyroll.model.formats.json_texts import canonical
from tallyroll.model.formats.payloads import FORMAT_JSON, FORMAT_PACKET
from tallyroll.model.items import StoredItem
from tallyroll.model.records import Record
from tallyroll.model.windows import iso, table_name, window_start

PIPELINE, WINDOW = "columns", "20261120T080000Z"
START = window_start(WINDOW)
MINUTE_MS, MINUTES, SHARDS = 60_000, 60, 16
LINES_AT_ONCE = 1_000
LARGE_BYTES = 4_096
PREFIX = prefix_of(PIPELINE, WINDOW, "a1")
Records = Callable[[int, int], Iterator[Record]]


def singles(events: int, keys: int, large_every: int = 0) -> Iterator[Record]:
    """Events with ids of their own, UUIDs, at any time of the hour, each with a small payload, or
    one in `large_every` with one of 4 KB.
    """
    chance = random.Random(events)
    for number in range(events):
        drawn = chance.randbytes(32)
        ts = START + chance.randrange(MINUTES * MINUTE_MS)
        payload = _payload(number)
        if large_every and number % large_every == 0:
            payload = f'{{"text":"{chance.randbytes(LARGE_BYTES // 2).hex()}"}}'
        yield Record(
            key=f"key-{number % keys}",
            id=str(UUID(bytes=drawn[:16])),
            shard=chance.randrange(SHARDS),
            ts=ts,
            n=1,
            amount=_amount(number),
            digest=drawn[16:],
            data=payload.encode(),
            format=FORMAT_JSON,
            slot=(ts - START) // MINUTE_MS,
            stripe=chance.randrange(SHARDS),
        )


@dataclass(frozen=True, slots=True)
class Packed:
    """Packets of so many events of a key in one minute: at times drawn at random or at `regular`
    ones, with small payloads or as `bare` ones of the value 1.
    """

    size: int
    bare: bool = False
    regular: bool = False

    def __call__(self, events: int, keys: int) -> Iterator[Record]:
        """So many events of so many keys."""
        chance = random.Random(events)
        numbers = count()
        for packet in range(events // self.size):
            drawn, minute = chance.randbytes(32), chance.randrange(MINUTES)
            t0 = START + minute * MINUTE_MS
            times = (
                range(0, MINUTE_MS, MINUTE_MS // self.size)[: self.size]
                if self.regular
                else sorted(chance.randrange(MINUTE_MS) for _ in range(self.size))
            )
            own = [next(numbers) for _ in times]
            amounts = [MICROS if self.bare else _amount(number) for number in own]
            payloads = [None if self.bare else _payload(number) for number in own]
            texts = map(format_amount, amounts)
            entries = [list(each) for each in zip(times, texts, payloads, strict=True)]
            yield Record(
                key=f"key-{packet % keys}",
                id=str(UUID(bytes=drawn[:16])),
                shard=chance.randrange(SHARDS),
                ts=t0 + times[0],
                n=self.size,
                amount=sum(amounts),
                digest=drawn[16:],
                data=zlib.compress(canonical([t0, entries]).encode()),
                format=FORMAT_PACKET,
                slot=minute,
                stripe=chance.randrange(SHARDS),
            )


def mixed(events: int, keys: int) -> Iterator[Record]:
    """Half of the events single, with a large payload in 50, half in packets of 100, 10 and 1,000,
    with and without payloads.
    """
    yield from singles(events // 2, keys, large_every=50)
    for packed, share in ((Packed(100), 4), (Packed(10), 8), (Packed(1_000, bare=True), 8)):
        yield from packed(events // share, keys)


SHAPES: dict[str, Records] = {
    "single": singles,
    "packets of 100": Packed(100),
    "packets of 1,000": Packed(1_000),
    "packets of 10": Packed(10),
    "bare, of 100": Packed(100, bare=True),
    "bare and regular, of 100": Packed(100, bare=True, regular=True),
    "mixed": mixed,
}


def _amount(number: int) -> int:
    return number % 7 * MICROS + MICROS // 4


def _payload(number: int) -> str:
    return f'{{"from":"a benchmark","number":{number}}}'


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export took: bytes of its data, items, and seconds of a core, reading apart."""

    bytes: int
    items: int
    seconds: float


def exported(bucket: DirectoryBucket, records: Iterator[Record]) -> Exported:
    """Write the archive of a window with these records, in one file, and its proof. Each key has
    one tally, and there is one gate, which is shut.
    """
    sums: dict[str, tuple[int, int]] = {}

    def items() -> Iterator[StoredItem]:
        for record in records:
            n, amount = sums.get(record.key, (0, 0))
            sums[record.key] = (n + record.n, amount + record.amount)
            yield CODEC.item_of(record)
        for key, (n, amount) in sums.items():
            name = {"pk": {"S": "~t.1"}, "sk": {"S": f"t#{key}.1"}}
            yield stored_item({**name, "n": {"N": str(n)}, "v": {"N": format_amount(amount)}})
        yield stored_item({"pk": {"S": "~g.1"}, "sk": {"S": "g#"}, "open": {"BOOL": False}})

    writer, seconds, key = DataFileWriter(), 0.0, f"{data_dir(PREFIX)}0000-0000.json.gz"

    def parts() -> Iterator[bytes]:
        nonlocal seconds
        source = items()
        while some := list(islice(source, LINES_AT_ONCE)):
            began = cpu_seconds()
            for item in some:
                writer.add(CODEC.encode(item))
            part = writer.part()
            seconds += cpu_seconds() - began
            yield part
        yield writer.part(last=True)

    bucket.fill(key, parts())
    file = DataFile(key, writer.items, writer.md5)
    table = table_name(PIPELINE, WINDOW)
    for name, body in manifests("bucket", PREFIX, table, [file], START):
        bucket.put(name, body)
    proof = {
        "window": WINDOW,
        "table": table,
        "attempt": "a1",
        "keys": len(sums),
        "events": sum(n for n, _ in sums.values()),
        "amountMillionths": str(sum(amount for _, amount in sums.values())),
        "provenAt": iso(START),
        "items": writer.items,
    }
    bucket.put(proof_key(PREFIX), json.dumps(proof).encode())
    return Exported(dict(bucket.sizes(key))[key], writer.items, seconds)

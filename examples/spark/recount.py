"""Sum the proven archives of a pipeline by key, with Spark, as AWS Glue and EMR run it.

    spark-submit recount.py s3://BUCKET/archive/votes s3://BUCKET/sums

writes Parquet with `key`, `events` and `sum`: records less tombstones, as the totals were when the
windows were sealed. The functions above `main` need no Spark.
"""

import json
import sys
import zlib
from decimal import Decimal

SIGNS = {"e#": 1, "r#": -1, "p#": -1}  # by the sort key: records, and tombstones
PROOFS = "date=*/hour=*/*/*/proof.json"
DATA = "AWSDynamoDB/*/data/*.json.gz"


def lines_of(data):
    """The lines of a data file: gzip members, and maybe zero bytes after the last one."""
    text = bytearray()
    while data.strip(b"\0"):
        member = zlib.decompressobj(wbits=31)
        text += member.decompress(data)
        if not member.eof:
            raise ValueError("a data file ends within a gzip member")
        data = member.unused_data
    return text.decode().splitlines()


def counted(line):
    """(key, (events, sum)) of a line; None if it is neither a record nor a tombstone."""
    item = json.loads(line)["Item"]
    sign = SIGNS.get(item["sk"]["S"][:2])
    if sign is None:
        return None
    key = item["pk"]["S"].rpartition(".")[0]
    return key, (sign * int(item["n"]["N"]), sign * Decimal(item["v"]["N"]))


def added(one, other):
    """The sums of both."""
    return one[0] + other[0], one[1] + other[1]


def pairs_of(data):
    """What the lines of a data file count."""
    return [pair for pair in map(counted, lines_of(data)) if pair]


def data_of(proofs):
    """The data files of the attempts that these proofs are of, as Hadoop takes several patterns."""
    return ",".join(proof.removesuffix("proof.json") + DATA for proof in sorted(proofs))


def main(source, target):
    """Sum up, and write the sums."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only where Spark is

    spark = SparkSession.builder.appName("recount").getOrCreate()
    files = spark.sparkContext.binaryFiles
    proofs = files(f"{source}/{PROOFS}").keys().collect()
    sums = files(data_of(proofs)).values().flatMap(pairs_of).reduceByKey(added)
    rows = sums.map(lambda pair: (pair[0], *pair[1]))
    spark.createDataFrame(rows, "key string, events bigint, sum decimal(38, 6)").write.parquet(
        target
    )


if __name__ == "__main__":
    main(*sys.argv[1:3])

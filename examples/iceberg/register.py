"""Register the proven Parquet of a pipeline in an Iceberg catalog, with PyIceberg.

    python register.py s3://BUCKET/archive/votes lake.votes_events

adds the files of windows that the table does not have yet, and makes the table if need be. The
files stay where they are. Run it once a day, or as often as you like: a window is added once. The
catalog is PyIceberg's default one, of .pyiceberg.yaml or `PYICEBERG_CATALOG__DEFAULT__URI`.
"""

import re
import sys

from pyarrow.fs import FileSelector, FileSystem
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import TruncateTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
)

COLUMNS = {
    "key": StringType(),
    "id": StringType(),
    "ts": LongType(),
    "window": StringType(),
    "value": DecimalType(38, 6),
    "payload": StringType(),
    "n": IntegerType(),
    "packet": StringType(),
    "shard": IntegerType(),
    "digest": BinaryType(),
    "retracted": BooleanType(),
    "payload_ref": StringType(),
}
SCHEMA = Schema(
    *(
        NestedField(number, name, kind, required=False)
        for number, (name, kind) in enumerate(COLUMNS.items(), 1)
    )
)
# A window's id begins with its day, 20261120T080000Z, and a file has one window.
BY_DAY = PartitionSpec(
    PartitionField(SCHEMA.find_field("window").field_id, 1000, TruncateTransform(8), "day")
)
MADE = re.compile(
    r"(.*/date=[^/]+/hour=[^/]+/([^/]+)/[^/]+\.parquet\.[^/]+)/(proof\.json|events/.+)"
)


def proven_files(root):
    """The files of events below a prefix, by window: of each the last archive as Parquet that has a
    proof.
    """
    files, path = FileSystem.from_uri(root)
    scheme = root.partition("://")[0]
    archives, proven = {}, {}
    for found in files.get_file_info(FileSelector(path, recursive=True)):
        made = MADE.fullmatch(found.path)
        if made is None:
            continue
        prefix, window, name = made.groups()
        if name == "proof.json":
            proven[window] = max(prefix, proven.get(window, ""))
        else:
            archives.setdefault(prefix, []).append(f"{scheme}://{found.path}")
    return {window: sorted(archives.get(prefix, [])) for window, prefix in proven.items()}


def register(catalog, root, name):
    """Add the windows below a prefix that a table does not have; how many they were."""
    catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
    table = catalog.create_table_if_not_exists(name, SCHEMA, partition_spec=BY_DAY)
    paths = table.inspect.files()["file_path"].to_pylist()
    there = {MADE.fullmatch(path)[2] for path in paths}
    new = {window: of for window, of in proven_files(root).items() if of and window not in there}
    if new:
        table.add_files([path for window in sorted(new) for path in new[window]])
    return len(new)


if __name__ == "__main__":
    sys.stdout.write(f"{register(load_catalog(), *sys.argv[1:])} windows added\n")

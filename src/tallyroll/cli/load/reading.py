"""The options of `tallyroll load` that say how a source is read."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from tallyroll.cli.arguments import read_by
from tallyroll.client.loading import SourceLayout
from tallyroll.client.sources.places import Format
from tallyroll.client.sources.shapes import ByColumns, ByMapping, Fitting, OwnForm, RecordShape
from tallyroll.errors import Rejected, UsageError
from tallyroll.limits import VALUE_DECIMALS_MAX
from tallyroll.model.amounts import shown
from tallyroll.model.foreign.mapping import check_mapping, mapper_of
from tallyroll.model.formats.fields import check_ts
from tallyroll.model.formats.json_texts import canonical
from tallyroll.model.windows import parse_instant

COLUMN = Parameter(metavar="COLUMN")
NAMES = Parameter(metavar="NAMES", converter=read_by(lambda text: text.split(",")))

NO_DELIMITERS = '"\r\n\0'


def _decimals(text: str) -> int:
    if len(text) != 1 or text not in "0123456789" or int(text) > VALUE_DECIMALS_MAX:
        raise UsageError(f"{text!r}: give the number of decimals, 0 to {VALUE_DECIMALS_MAX}")
    return int(text)


def _constant_time(text: str) -> int:
    """A time that is the same in each run: one relative to now would make other ids."""
    at = parse_instant(text)
    try:
        check_ts(at, "ts")
    except Rejected as rejected:
        raise UsageError(f"{text!r}: {rejected.detail}") from None
    return at


TIME = Parameter(metavar="T", converter=read_by(_constant_time))
DECIMALS = Parameter("--round", metavar="N", converter=read_by(_decimals))


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """The options that say how a source is read, and where the parts of an event are.

    :param form: jsonl, csv, parquet or dynamodb, where the name does not say it
    :param columns: the names of the columns, as a,b,c, of CSV without a header
    :param delimiter: what separates the columns of CSV; `,` if left out
    :param key: the column that is the key (`key`, if left out)
    :param ts: the column that says when it happened (`ts`)
    :param value: the column that is its value (`value`)
    :param id: the column that is its id (`id`)
    :param payload: the columns that are kept with it, as a,b,c (`payload`, as JSON)
    :param ts_unit: what a time that is a number counts, since 1970: s, ms (the default), us, ns
    :param ts_value: when all of it happened, instead of a column: 2026-11-20T08:00Z
    :param decimals: round values to N decimals, 0 to 6: one with more than 6 is a bad line
    :param mapping: JMESPath expressions instead, as JSON or in a file: {"key": "a.b", ...}
    :param changes: what to do with updated and deleted rows: refuse (as bad lines), or skip
    """

    form: Annotated[Format | None, Parameter("--format", show_choices=False)] = None
    columns: Annotated[list[str] | None, NAMES] = None
    delimiter: Annotated[str, Parameter(metavar="C")] = ","
    key: Annotated[str | None, COLUMN] = None
    ts: Annotated[str | None, COLUMN] = None
    value: Annotated[str | None, COLUMN] = None
    id: Annotated[str | None, COLUMN] = None
    payload: Annotated[list[str] | None, NAMES] = None
    ts_unit: Annotated[Literal["s", "ms", "us", "ns"] | None, Parameter(show_choices=False)] = None
    ts_value: Annotated[int | None, TIME] = None
    decimals: Annotated[int | None, DECIMALS] = None
    mapping: Annotated[str | None, Parameter(metavar="JSON")] = None
    changes: Annotated[Literal["refuse", "skip"], Parameter(show_choices=False)] = "refuse"

    @property
    def named(self) -> dict[str, str]:
        """The columns that were named."""
        every = {"key": self.key, "ts": self.ts, "value": self.value, "id": self.id}
        return {name: column for name, column in every.items() if column is not None}

    def layout(self) -> SourceLayout:
        """How sources are to be read. Raises UsageError."""
        if len(self.delimiter) != 1 or self.delimiter in NO_DELIMITERS:
            raise UsageError(
                f"--delimiter {self.delimiter!r}: give one character, no quote and no line end"
            )
        if self.ts_value is not None and (self.ts or self.ts_unit):
            raise UsageError("--ts-value is the time of all events: leave out --ts and --ts-unit")
        columns = [name for name in self.columns or () if name]
        if twice := [name for name in columns if columns.count(name) > 1]:
            raise UsageError(f"--columns has {twice[0]!r} twice")
        mapping = self.mapping_text()
        shapes = {form: self._shape(form, mapping) for form in Format}
        return SourceLayout(shapes, self.columns, self.delimiter)

    def _shape(self, form: Format, mapping: str | None) -> RecordShape:
        later = self.decimals == VALUE_DECIMALS_MAX  # rounds only what else is a bad line
        own = mapping is None and form is Format.JSONL
        own = own and not (self.named or self.payload or self.ts_unit)
        fitting = Fitting(self.ts_unit or "ms", self.ts_value, None if later else self.decimals)
        rounding = replace(fitting, decimals=self.decimals)  # with the same notes
        if own:
            second = OwnForm(rounding, fits=True)
            return second if fitting.decimals is not None else OwnForm(fitting, second=second)
        if mapping is not None:
            mapper = mapper_of(mapping)
            return ByMapping(mapper, fitting, ByMapping(mapper, rounding) if later else None)
        columns = ByColumns(self.named, self.payload, rounding) if later else None
        return ByColumns(self.named, self.payload, fitting, columns)

    def text(self) -> str:
        """What decides which events a source has, for the checkpoint and the ids."""
        chosen = {
            **self.named,
            "payload": self.payload,
            "ts_unit": self.ts_unit,
            "ts_value": self.ts_value,
            "round": None if self.decimals == VALUE_DECIMALS_MAX else self.decimals,
            "mapping": self.mapping_text(),
            "columns": self.columns,
            "delimiter": None if self.delimiter == "," else self.delimiter,
        }
        return canonical({name: value for name, value in chosen.items() if value is not None})

    def facts(self) -> dict[str, str | None]:
        """What a checkpoint keeps of it."""
        form = self.form and self.form.value
        rounds = None if self.decimals is None else str(self.decimals)
        return {"shape": self.text(), "changes": self.changes, "format": form, "round": rounds}

    def mapping_text(self) -> str | None:
        """The mapping, if there is one, as canonical JSON. Raises UsageError."""
        if self.mapping is None:
            return None
        if self.named or self.payload or self.ts_unit or self.ts_value is not None:
            raise UsageError(
                "--mapping says where everything is: leave out --key and the others, and"
                ' give "ts_unit": "s" in it, or one time as "ts": "`1795163400000`"'
            )
        text = self.mapping
        try:
            if not text.lstrip().startswith("{"):
                text = Path(text).read_text(encoding="utf-8")
            mapping = json.loads(text)
        except OSError as error:
            raise UsageError(f"--mapping {self.mapping!r}: {error.strerror}") from None
        except ValueError as error:
            raise UsageError(f"--mapping is no JSON: {error}") from None
        if isinstance(mapping, dict) and "keys" in mapping:
            raise UsageError(
                "--mapping has `keys`, but what is loaded counts under one key: give `key`, or send"
                " the messages themselves to the queue"
            )
        texts = isinstance(mapping, dict) and all(isinstance(v, str) for v in mapping.values())
        if not texts:
            raise UsageError(f"--mapping {shown(mapping)}: give an object of expressions")
        try:
            check_mapping(mapping)
        except UsageError as error:
            raise UsageError(f"--mapping: {error}") from None
        return canonical(mapping)

"""Corrections of sealed windows, in the table of totals.

correction    pk {least key}            sk ~r#{window}#r#{id}, ~r#{window}#p#{packet}#{index}
                                        n, v, h, at, by, why, and g: all keys, if they are several
of a window   pk {key}                  sk 20261120T080000Z#r                n, v, rn, rv
its listing   pk ~c.{window}.{bucket}   sk {key}                             n, v, rn, rv
of a period   pk {key}                  sk day#20261120#r, month#202611#r    n, v, rn, rv, e, w, d
revision      pk ~revisions             sk month#202611                      n

`h` is the digest of the event's record. In sums, `n` and `v` are negative, so an earlier release
that takes such a row for one of a total adds it up correctly; for that, periods have `e`, `w` and
`d`, which mean nothing here. It shows the row as a window of its own, and rolled-up days and months
without their corrections. `rn` and `rv` are what was retracted before windows were sealed. A row
of a window has them once they are added, to its day, month and listing in the same transaction.

What a count queries holds the rows: `{window}#r` sorts between two windows, and `day#20261120#r`
before `day#20261120$`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tallyroll.adapters.dynamodb.actions import put_if_absent
from tallyroll.adapters.dynamodb.items import Item, Key, binary_of
from tallyroll.adapters.dynamodb.requests import REASON_CONDITION, Action, DynamoTable
from tallyroll.errors import ProofMismatch, StateConflict, Throttled
from tallyroll.limits import LISTING_BUCKETS, TRANSACTION_ACTIONS_MAX
from tallyroll.model.amounts import format_amount, read_amount
from tallyroll.model.periods import PeriodName, month_of, periods_at
from tallyroll.model.sharding import calculated
from tallyroll.model.totals import NO_CORRECTIONS, Correction, Corrections, Listed
from tallyroll.model.windows import WindowId, window_start
from tallyroll.ports.backoff import SUMS_MET
from tallyroll.ports.store import Answer, Element

_OF = "#r"
_REVISIONS = "~revisions"
_ROWS_OF_KEY = 4  # window, day, month, listing
_SUMS = ("n", "v", "rn", "rv")
KEYS_AT_ONCE = (TRANSACTION_ACTIONS_MAX - 1) // _ROWS_OF_KEY  # beside the revision


class _Place(NamedTuple):
    """The place of a row of sums; those of periods have what earlier releases read of a period."""

    pk: str
    sk: str
    of_period: bool = False


def revision_key(month: PeriodName) -> Key:
    """The key of a month's revision."""
    return {"pk": {"S": _REVISIONS}, "sk": {"S": month}}


def behind(last: PeriodName) -> str:
    """The end of a query that finds the rows of periods up to the last, and their corrections."""
    return f"{last}$"


def sums_of(name: WindowId | PeriodName) -> str:
    """The sort key of the row that sums up a key's corrections in a window or period."""
    return name + _OF


def with_corrections(items: Iterable[Item]) -> Iterator[tuple[Item, Corrections]]:
    """Of rows in the order of keys, each total with its corrections.

    Corrections without a total are left out: the total was put after its place was read, and is not
    in the answer either.
    """
    total: Item | None = None
    for item in items:
        if item["sk"]["S"].endswith(_OF):
            if total and (item["pk"], item["sk"]["S"]) == (total["pk"], sums_of(total["sk"]["S"])):
                yield total, _parse(item)
                total = None
            continue
        if total:
            yield total, NO_CORRECTIONS
        total = item
    if total:
        yield total, NO_CORRECTIONS


class DynamoCorrections:
    """The corrections in the port of totals."""

    _table: DynamoTable

    @property
    def table(self) -> DynamoTable:
        """The table of totals."""
        return self._table

    def correct(self, corrections: Sequence[Correction]) -> list[Element]:
        first: dict[tuple[str, str], Correction] = {}
        for each in corrections:
            first.setdefault(_name(each), each)
        answers = dict.fromkeys(first, Element(Answer.FINE))
        for batch in _transactions(list(first.values())):
            for each, stored in self._table.decide(batch, self._put_entry, self._additions):
                answers[_name(each)] = Element(Answer.DUPLICATE, binary_of(stored["h"]["B"]))
        found = []
        for each in corrections:
            found.append(answers[_name(each)])
            if found[-1].answer is Answer.FINE:
                answers[_name(each)] = Element(Answer.DUPLICATE, each.digest)
        return found

    def _put_entry(self, correction: Correction) -> list[Action]:
        return [put_if_absent(self._table.name, _entry(correction))]

    def _additions(self, corrections: Sequence[Correction]) -> list[Action]:
        """What these corrections add to sums and revisions."""
        events, amounts, months = Counter[_Place](), Counter[_Place](), Counter[PeriodName]()
        for each in corrections:
            months[month_of(window_start(each.window)).name] += 1
            for place in _places_of(each):
                events[place] += each.n
                amounts[place] += each.amount
        return [
            *(self._add(place, -n, -amounts[place]) for place, n in events.items()),
            *(self._revise(month, by) for month, by in months.items()),
        ]

    def put_retracted(self, window: WindowId, retracted: Mapping[str, tuple[int, int]]) -> None:
        rows, wrong = list(retracted.items()), list[str]()
        # One after the other, since all of them add to the revision.
        for at in range(0, len(rows), KEYS_AT_ONCE):
            wrong += self._note(window, dict(rows[at : at + KEYS_AT_ONCE]))
        if wrong:
            raise ProofMismatch(wrong)

    def _note(self, window: WindowId, left: dict[str, tuple[int, int]]) -> list[str]:
        """Note what was retracted of these keys; findings for those of which other is noted.

        By puts alone, each over the row that the last try has met: a roller may update nothing
        here, so a pipeline in which nobody may retract any more needs no right for it.
        """
        findings: list[str] = []
        met: dict[_Place, Item] = {}
        revision = _Place(_REVISIONS, month_of(window_start(window)).name)
        for _ in SUMS_MET.attempts(self._table.effects):
            rows = {
                place: _retracted_before(place, met.get(place), before)
                for key, before in left.items()
                for place in _places(key, window)
            }
            last = met.get(revision)
            rows[revision] = _revised(revision, int(last["n"]["N"]) if last else 0)
            puts = [self._put_over(row, met.get(place)) for place, row in rows.items()]
            reasons = self._table.transact(puts)
            if reasons is None:
                return findings
            for place, reason in zip(rows, reasons, strict=True):
                if reason.get("Code") == REASON_CONDITION:
                    met |= {place: item} if (item := reason.get("Item")) else {}
            for key, before in list(left.items()):
                row = met.get(_Place(key, window + _OF), {})
                if "rn" not in row:
                    continue
                del left[key]
                if (noted := _parse(row).before) != before:
                    findings.append(
                        f"key {key!r} window {window}: (events, amount) {noted} are stored as"
                        f" retracted before it was sealed, not {before}"
                    )
            if not left:
                return findings
        raise Throttled(f"sums of corrections in {self._table.name} change all the time", "Changed")

    def sums(self, key: str, window: WindowId) -> tuple[Corrections, ...]:
        places = _places(key, window)
        found = self._table.get_all([_key(place) for place in places])
        rows = {(item["pk"]["S"], item["sk"]["S"]): _parse(item) for item in found}
        return tuple(rows.get((place.pk, place.sk), NO_CORRECTIONS) for place in places)

    def put_sums(
        self, key: str, window: WindowId, sums: Sequence[Corrections], revision: int
    ) -> None:
        rows = map(_sums, _places(key, window), sums)
        puts: list[Action] = [{"Put": {"TableName": self._table.name, "Item": row}} for row in rows]
        place = _Place(_REVISIONS, month_of(window_start(window)).name)
        before = _revised(place, revision - 1) if revision else None
        puts.append(self._put_over(_revised(place, revision), before))
        if self._table.transact(puts) is not None:
            raise StateConflict(f"{key!r} in {window}: sums of corrections changed meanwhile")

    def _put_over(self, row: Item, before: Item | None) -> Action:
        """The put of a row of sums, if it is still as it was before."""
        if before is None:
            return put_if_absent(self._table.name, row)
        compared = [name for name in _SUMS if name in before]
        conditions = [f"{name} = :{name}" for name in compared]
        conditions += [f"attribute_not_exists({name})" for name in _SUMS if name not in before]
        return {
            "Put": {
                "TableName": self._table.name,
                "Item": row,
                "ConditionExpression": " AND ".join(conditions),
                "ExpressionAttributeValues": {f":{name}": before[name] for name in compared},
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
        }

    def _add(self, place: _Place, n: int, amount: int) -> Action:
        values = {":n": {"N": str(n)}, ":v": {"N": format_amount(amount)}}
        update = "ADD n :n, v :v"
        if place.of_period:
            values |= {":none": {"N": "0"}, ":text": {"S": "-"}}
            update += " SET e = :none, w = :none, d = :text"
        return {
            "Update": {
                "TableName": self._table.name,
                "Key": {"pk": {"S": place.pk}, "sk": {"S": place.sk}},
                "UpdateExpression": update,
                "ExpressionAttributeValues": values,
            }
        }

    def _revise(self, month: PeriodName, by: int) -> Action:
        return {
            "Update": {
                "TableName": self._table.name,
                "Key": revision_key(month),
                "UpdateExpression": "ADD n :n",
                "ExpressionAttributeValues": {":n": {"N": str(by)}},
            }
        }

    def revision(self, month: PeriodName) -> int:
        found = self._table.get_all([revision_key(month)])
        return int(found[0]["n"]["N"]) if found else 0

    def revisions(self) -> Mapping[PeriodName, int]:
        pages = self._table.query("pk = :pk", {":pk": {"S": _REVISIONS}})
        return {item["sk"]["S"]: int(item["n"]["N"]) for page in pages for item in page}

    def corrected(
        self, window: WindowId, bucket: int, after: str, limit: int
    ) -> Iterator[list[Listed]]:
        for page in self._table.after(_listing(window, bucket), after, limit):
            yield [Listed(item["sk"]["S"], 0, 0, corrections=_parse(item)) for item in page]

    def corrections(self, key: str, window: WindowId) -> list[Correction]:
        return [
            _correction(item) for item in self._table.between(key, f"~r#{window}#", f"~r#{window}$")
        ]


def _retracted_before(place: _Place, row: Item | None, before: tuple[int, int]) -> Item:
    """A row of sums with more that was retracted before a window was sealed."""
    if row is None:
        zero, text = {"N": "0"}, {"S": "-"}
        row = {"pk": {"S": place.pk}, "sk": {"S": place.sk}, "n": zero, "v": zero}
        row |= {"e": zero, "w": zero, "d": text} if place.of_period else {}
    n, amount = _parse(row).before
    more = {"rn": {"N": str(n + before[0])}, "rv": {"N": format_amount(amount + before[1])}}
    return {**row, **more}


def _sums(place: _Place, sums: Corrections) -> Item:
    """A row of sums; with what was retracted before the seal only if that is any, since the proof
    notes it where it is absent.
    """
    n, amount, before = sums
    row: Item = {**_key(place), "n": {"N": str(-n)}, "v": {"N": format_amount(-amount)}}
    if place.of_period:
        row |= {"e": {"N": "0"}, "w": {"N": "0"}, "d": {"S": "-"}}
    if before != (0, 0):
        row |= {"rn": {"N": str(before[0])}, "rv": {"N": format_amount(before[1])}}
    return row


def _key(place: _Place) -> Key:
    return {"pk": {"S": place.pk}, "sk": {"S": place.sk}}


def _revised(place: _Place, revision: int) -> Item:
    """A revision's row after one more change."""
    return {**_key(place), "n": {"N": str(revision + 1)}}


def _listing(window: WindowId, bucket: int) -> str:
    return f"~c.{window}.{bucket}"


def _places(key: str, window: WindowId) -> list[_Place]:
    """The rows that sum up the corrections of a key in a window, that of the window first."""
    periods = periods_at(window_start(window))
    return [
        _Place(key, sums_of(window)),
        *(_Place(key, sums_of(period.name), of_period=True) for period in periods),
        _Place(_listing(window, calculated(key, LISTING_BUCKETS)), key),
    ]


def _places_of(correction: Correction) -> Iterator[_Place]:
    for key in correction.keys:
        yield from _places(key, correction.window)


def _transactions(corrections: Sequence[Correction]) -> Iterator[list[Correction]]:
    """Corrections that one transaction can hold: an item for each, and for each row and revision
    that they add to.
    """
    batch: list[Correction] = []
    touched: set[_Place | PeriodName] = set()
    for each in corrections:
        touches: set[_Place | PeriodName] = {*_places_of(each)}
        touches.add(month_of(window_start(each.window)).name)
        if batch and len(batch) + 1 + len(touched | touches) > TRANSACTION_ACTIONS_MAX:
            yield batch
            batch, touched = [], set()
        batch.append(each)
        touched |= touches
    if batch:
        yield batch


def _name(correction: Correction) -> tuple[str, str]:
    """The primary key of a correction's own item."""
    kind, id_ = "r", correction.id
    if correction.index is not None:
        kind, id_ = "p", f"{correction.id}#{correction.index}"
    return correction.keys[0], f"~r#{correction.window}#{kind}#{id_}"


def _entry(correction: Correction) -> Item:
    pk, sk = _name(correction)
    item: Item = {
        "pk": {"S": pk},
        "sk": {"S": sk},
        "n": {"N": str(correction.n)},
        "v": {"N": format_amount(correction.amount)},
        "h": {"B": correction.digest},
        "at": {"N": str(correction.at)},
        "by": {"S": correction.by},
        "why": {"S": correction.why},
    }
    if len(correction.keys) > 1:
        item["g"] = {"SS": list(correction.keys)}
    return item


def _correction(item: Item) -> Correction:
    key = item["pk"]["S"]
    _, window, kind, id_ = item["sk"]["S"].split("#", 3)
    index = None
    if kind == "p":
        id_, _, number = id_.rpartition("#")
        index = int(number)
    return Correction(
        window,
        id_,
        tuple(sorted(item["g"]["SS"])) if "g" in item else (key,),
        n=int(item["n"]["N"]),
        amount=read_amount(item["v"]["N"]),
        digest=binary_of(item["h"]["B"]),
        at=int(item["at"]["N"]),
        by=item["by"]["S"],
        why=item["why"]["S"],
        index=index,
    )


def _parse(item: Item) -> Corrections:
    return Corrections(
        n=-int(item["n"]["N"]),
        amount=-read_amount(item["v"]["N"]),
        before=(
            int(item["rn"]["N"]) if "rn" in item else 0,
            read_amount(item["rv"]["N"]) if "rv" in item else 0,
        ),
    )

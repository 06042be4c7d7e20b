from __future__ import annotations

import json
from decimal import Decimal

import pytest

from tallyroll.errors import Rejected
from tallyroll.model.amounts import JsonFloat, format_amount, parse_amount, read_amount, shown
from tallyroll.reasons import Reason


def from_json(text: str) -> object:
    return json.loads(text, parse_float=JsonFloat)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", 0),
        ("-0.0", 0),
        ("1", 1_000_000),
        ("-1", -1_000_000),
        ("0.000001", 1),
        ("-2.5", -2_500_000),
        ("1e3", 1_000_000_000),
        ("2.5E-6", None),
        ("1.50000000000", 1_500_000),
        ("0e-400", 0),
        ("2500000e-7", 250_000),
        ("-2500000E-13", None),
        ("0e1000000000000000000", None),
        pytest.param("-1." + "0" * 500 + "e3", -1_000_000_000, id="500-zeros"),
        pytest.param("12" + "0" * 500 + "e-500", 12_000_000, id="502-digits"),
        pytest.param("0." + "0" * 500 + "e5", 0, id="501-zeros"),
        ("999999999999999999", 999_999_999_999_999_999_000_000),
        ("-999999999999999999.999999", -999_999_999_999_999_999_999_999),
    ],
)
def test_a_json_number_is_taken_exactly_or_not_at_all(text: str, amount: int | None) -> None:
    if amount is None:
        with pytest.raises(Rejected, match=r"more than 6 decimals|has too large an exponent"):
            parse_amount(from_json(text))
    else:
        assert parse_amount(from_json(text)) == amount


@pytest.mark.parametrize(
    "text",
    [
        "1000000000000000000",
        "-1000000000000000000",
        "1e18",
        "1e400",
        "-1e400",
        "1e99999999999999999999",
        pytest.param("1" + "0" * 4_000, id="4001-digits"),
        "0.0000001",
        "1e-400",
        "1e999999999999999999",
        "1e1000000000000000000",
        "1e-1999999999999999997",
        "1e-1999999999999999998",
        "0e-1999999999999999998",
        "1e-99999999999999999999",
        pytest.param("1." + "1" * 5_000, id="5000-decimals"),
        "true",
        "false",
        '"1"',
        "[]",
        "{}",
    ],
)
def test_what_a_sum_could_not_hold_is_refused(text: str) -> None:
    with pytest.raises(Rejected) as refused:
        parse_amount(from_json(text))
    assert refused.value.reason is Reason.BAD_VALUE
    assert len(refused.value.detail) < 200


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Decimal("NaN"), "NaN is not a finite number"),
        (Decimal("sNaN12"), "sNaN12 is not a finite number"),
        (Decimal("-Infinity"), "-Infinity is not a finite number"),
        (float("nan"), "nan is not a finite number"),
        (float("-inf"), "-inf is not a finite number"),
        (True, "true is a boolean, not a number"),
        (None, "null is not a number"),
        ("1", "'1' is not a number"),
        (0.1 + 0.2, "0.30000000000000004 has more than 6 decimals"),
        (Decimal("0.1000000000000000055"), "has more than 6 decimals"),
        (1e18, "1e+18: must be below"),
        (Decimal("1E+999999"), "must be below"),
    ],
)
def test_what_is_no_amount_is_refused_in_words(value: object, said: str) -> None:
    with pytest.raises(Rejected) as refused:
        parse_amount(value)
    assert refused.value.reason is Reason.BAD_VALUE
    assert said in refused.value.detail


class Peculiar(float):
    """A float whose repr is not its number, as NumPy's have it."""

    def __repr__(self) -> str:
        return f"Peculiar({float(self)})"


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        (1.5, 1_500_000),
        (0.1, 100_000),
        (-0.0, 0),
        (1e-06, 1),
        (1e17, 10**23),
        (Peculiar(2.5), 2_500_000),
        (Decimal("0.1"), 100_000),
        (Decimal("1E+3"), 1_000_000_000),
        (7, 7_000_000),
    ],
)
def test_numbers_of_python_are_amounts(value: object, amount: int) -> None:
    assert parse_amount(value) == amount


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0"), (12_000_000, "12"), (-500_000, "-0.5"), (3_000_001, "3.000001"), (-1, "-0.000001")],
)
def test_the_shortest_text(amount: int, text: str) -> None:
    assert format_amount(amount) == text
    assert read_amount(text) == amount


@pytest.mark.parametrize(("text", "amount"), [("1E+3", 1_000_000_000), ("1.0E-6", 1), ("-0", 0)])
def test_numbers_as_stores_return_them(text: str, amount: int) -> None:
    assert read_amount(text) == amount


def test_the_largest_sum_of_a_store_is_read_exactly() -> None:
    digits = "9" * 32 + "." + "9" * 6
    assert read_amount(digits) == 10**38 - 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a" * 100, "'" + "a" * 56 + "..."),
        (JsonFloat("1.10"), "1.10"),
        pytest.param(10**4_999, "an integer of about 4982 digits", id="huge"),
        (True, "true"),
        ([None, {"a": False}], '[null, {"a": false}]'),
        (["it's", 'a "b"', "\n\x85\ud800é"], r"""["it's", "a \"b\"", "\n\u0085\ud800é"]"""),
    ],
)
def test_values_in_messages_are_short(value: object, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize("zero", ["0e999999999999999999", "-0.0E-1999999999999999996"])
def test_a_zero_may_have_any_exponent_that_a_decimal_has(zero: str) -> None:
    assert Decimal(zero) == 0
    assert parse_amount(from_json(zero)) == 0

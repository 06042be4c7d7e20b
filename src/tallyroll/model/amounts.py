"""Exact values and sums: an amount is a whole number of millionths, so adding never rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import ROUND_HALF_EVEN, Context, Decimal, Inexact, InvalidOperation
from functools import lru_cache
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, Self

from tallyroll.errors import Rejected
from tallyroll.limits import VALUE_BOUND, VALUE_DECIMALS_MAX, VALUE_DIGITS_MAX
from tallyroll.reasons import Reason

MICROS: int = 10**VALUE_DECIMALS_MAX
SHOWN_MAX = 60  # characters of a value in an error message
_NOT_ZERO = "123456789"
_DIGITS_FEW = 400  # characters; converting more of them takes too long
_AMOUNT_BOUND: int = VALUE_BOUND * MICROS
_POWERS: list[int] = [10**power for power in range(_DIGITS_FEW)]
_POWER_DIGITS_MAX = 19
_EXPONENT_SURE = 9 * 10**17  # every smaller exponent is legal in a Decimal
_EXACT = Context(prec=60, traps=[Inexact, InvalidOperation])  # a sum in a store has 38 digits


class JsonFloat(float):
    """A float from JSON that keeps its text, since a value may have 24 digits."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Self:
        """The float in `text`."""
        number = super().__new__(cls, text)
        number.text = text
        return number


def parse_amount(value: object) -> int:
    """The amount, in millionths, of a number: an int, a Decimal, or a float. A JsonFloat counts as
    it was written, any other float as its shortest decimal form: 0.1 is one tenth.

    Raises Rejected (bad-value) for anything else, for |value| of 10^18 or more, and for more than 6
    decimals.
    """
    if isinstance(value, bool):
        raise Rejected(Reason.BAD_VALUE, f"value {str(value).lower()} is a boolean, not a number")
    if not isinstance(value, int | float | Decimal):
        raise Rejected(Reason.BAD_VALUE, f"value {shown(value)} is not a number")
    if isinstance(value, int):
        if abs(value) >= VALUE_BOUND:
            raise _too_large(shown(value))
        return value * MICROS
    if isinstance(value, JsonFloat):
        text = value.text
    else:  # a subclass of float, such as NumPy's, may have a repr of its own
        text = float.__repr__(value) if isinstance(value, float) else str(value)
    if not text[-1:].isdecimal() or (isinstance(value, Decimal) and not value.is_finite()):
        raise Rejected(Reason.BAD_VALUE, f"value {_cut(text)} is not a finite number")
    return parse_decimal(text)


class Summed:
    """What has a sum of values as an `amount`."""

    __slots__ = ()

    amount: int

    @property
    def value(self) -> Decimal:
        """The sum of the events' values; `amount` is the same in millionths."""
        return Decimal(self.amount) / MICROS


def rounded(value: object, decimals: int) -> object:
    """A number with decimals rounded to so many of them, a half to the even digit: sums of many
    such numbers are not shifted. Anything else, and what no amount can be, stays as it is.
    """
    if not isinstance(value, float | Decimal):
        return value
    text = value.text if isinstance(value, JsonFloat) else repr(float(value))
    try:
        number = value if isinstance(value, Decimal) else Decimal(text)
        if number.is_finite() and abs(number) < VALUE_BOUND:
            return number.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_EVEN)
    except InvalidOperation:  # its exponent is longer than a Decimal's may be
        pass
    return value


def parse_decimal(text: str) -> int:
    """The amount, in millionths, of a JSON number's text.

    Takes linear time: a Decimal of a million digits would take ten times as long as the text's
    reading. Raises Rejected (bad-value) like `parse_amount`.
    """
    number, letter, power = text.partition("e" if "e" in text else "E")
    whole, _, decimals = number.partition(".")
    if not letter and len(whole) <= VALUE_DIGITS_MAX:
        if len(decimals) > VALUE_DECIMALS_MAX and _are_zeros(decimals[VALUE_DECIMALS_MAX:]):
            decimals = decimals[:VALUE_DECIMALS_MAX]
        if len(decimals) <= VALUE_DECIMALS_MAX:
            return int(whole + decimals.ljust(VALUE_DECIMALS_MAX, "0"))
    if len(text) <= _DIGITS_FEW:
        amount = _scaled(
            int(whole + decimals), int(power or 0) + VALUE_DECIMALS_MAX - len(decimals)
        )
        if amount is not None:
            return amount
    return _parse_long(text, whole, decimals, power)


def _scaled(digits: int, shift: int) -> int | None:
    """`digits * 10**shift`; None if it is not whole, too large for an amount, or its shift huge."""
    if not digits:
        return 0 if abs(shift) < _EXPONENT_SURE else None
    if 0 <= shift < len(_POWERS):
        amount = digits * _POWERS[shift]
    elif -len(_POWERS) < shift < 0 and not digits % _POWERS[-shift]:
        amount = digits // _POWERS[-shift]
    else:
        return None
    return amount if -_AMOUNT_BOUND < amount < _AMOUNT_BOUND else None


def _parse_long(text: str, whole: str, decimals: str, power: str) -> int:
    significant, zeros = _trimmed(whole.lstrip("+-") + decimals)
    exponent = _power(text, power) - len(decimals) + zeros  # that of the last significant digit
    if abs(exponent) >= _EXPONENT_SURE:
        _check_exponent(text, significant, exponent)
    if not significant:
        return 0
    if exponent + len(significant) > VALUE_DIGITS_MAX:
        raise _too_large(_cut(text))
    if exponent < -VALUE_DECIMALS_MAX:
        raise Rejected(Reason.BAD_VALUE, f"value {_cut(text)} has more than 6 decimals")
    size = int(significant) * _POWERS[exponent + VALUE_DECIMALS_MAX]
    return -size if text.startswith("-") else size


def _are_zeros(digits: str) -> bool:
    return digits == "0" * len(digits)


def _power(text: str, power: str) -> int:
    """The exponent of `text`, whose digits `power` may begin with a million zeros."""
    significant, zeros = _trimmed(power.lstrip("+-"))
    if len(significant) + zeros > _POWER_DIGITS_MAX:
        raise _exponent_too_large(text)
    size = int(significant + "0" * zeros or "0")
    return -size if power.startswith("-") else size


def _trimmed(digits: str) -> tuple[str, int]:
    """The digits without leading and trailing zeros, and the number of trailing zeros.

    For zeros alone: no digits, and 0. Uses `find`, which takes a hundredth of the ten nanoseconds
    that `strip` takes for each zero.
    """
    if _are_zeros(digits):
        return "", 0
    first, end = 0, len(digits)
    if digits[0] == "0":
        first = min(place for place in map(digits.find, _NOT_ZERO) if place >= 0)
    if digits[-1] == "0":
        end = max(map(digits.rfind, _NOT_ZERO)) + 1
    return digits[first:end], len(digits) - end


def _check_exponent(text: str, significant: str, exponent: int) -> None:
    """Raise Rejected if a Decimal cannot have this exponent of its last digit."""
    left_out = significant[VALUE_DIGITS_MAX:]
    digits = significant[:VALUE_DIGITS_MAX] or "0"
    try:
        Decimal(f"{digits}e{exponent + len(left_out)}")
    except InvalidOperation:
        raise _exponent_too_large(text) from None


def _exponent_too_large(text: str) -> Rejected:
    return Rejected(Reason.BAD_VALUE, f"value {_cut(text)} has too large an exponent")


def _too_large(value: str) -> Rejected:
    return Rejected(Reason.BAD_VALUE, f"value {value}: must be below 10^18 in size")


@lru_cache(1_024)  # most are a few numbers
def format_amount(amount: int) -> str:
    """The shortest decimal text of an amount: '12', '-0.5', '3.000001'."""
    whole, rest = divmod(abs(amount), MICROS)
    text = f"{whole}.{rest:06d}".rstrip("0") if rest else str(whole)
    return "-" + text if amount < 0 else text


def read_amount(text: str) -> int:
    """The amount of a number that a store returned ('12', '0.5', '1E+3')."""
    if text.isdecimal():  # most are whole
        return int(text) * MICROS
    whole, _, decimals = text.partition(".")
    if len(decimals) <= VALUE_DECIMALS_MAX and whole.isdecimal() and decimals.isdecimal():
        return int(whole + decimals.ljust(VALUE_DECIMALS_MAX, "0"))
    return int(_EXACT.to_integral_exact(_EXACT.scaleb(Decimal(text), VALUE_DECIMALS_MAX)))


def shown(value: object, most: int = SHOWN_MAX) -> str:
    """`value` for an error message, cut to `most` characters: a text in single quotes, or JSON (a
    float as it was written).

    The part that is cut off is not converted.
    """
    return _cut(value.text if isinstance(value, JsonFloat) else _repr(value, most + 1), most)


def _cut(text: str, most: int = SHOWN_MAX) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def _repr(value: object, most: int) -> str:
    """The text of `shown`, or at least its first `most` characters."""
    kind = type(value)
    if value is None or kind is bool:
        return {None: "null", True: "true", False: "false"}[value]  # type: ignore[index]
    if isinstance(value, int) and kind is not bool and abs(value) >= 10**SHOWN_MAX:
        return f"an integer of about {value.bit_length() * 3 // 10} digits"
    if isinstance(value, str) and len(value) > most:
        # The appended quotes make repr choose and escape quotes as it would for the complete text.
        return repr(value[:most] + "'" * ("'" in value) + '"' * ('"' in value))
    if kind is list and isinstance(value, list):
        return _joined("[", value, _part, "]", most)
    if kind is dict and isinstance(value, dict):
        return _joined("{", value.items(), _pair, "}", most)
    return repr(value)


def _pair(item: tuple[object, object], most: int) -> str:
    name = _part(item[0], most) + ": "
    return name + _part(item[1], most - len(name)) if len(name) < most else name


def _part(value: object, most: int) -> str:
    """What an array or an object holds: a text in JSON's quotes, anything else as `_repr` does."""
    if not isinstance(value, str):
        return _repr(value, most)
    text = encode_basestring(value[:most])
    return "".join(
        char if char.isprintable() else encode_basestring_ascii(char)[1:-1] for char in text
    )


def _joined(
    opening: str, items: Iterable[Any], text_of: Callable[[Any, int], str], closing: str, most: int
) -> str:
    text = opening
    for item in items:
        if len(text) >= most:
            return text
        text += ", " * (text != opening) + text_of(item, most - len(text))
    return text + closing

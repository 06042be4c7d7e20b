"""Values and sums, exact: an amount is a whole number of millionths (an `int`), so adding never
rounds.
"""

from __future__ import annotations

from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Self

from tallyroll.errors import Reason, Rejected
from tallyroll.limits import VALUE_BOUND, VALUE_DECIMALS_MAX, VALUE_DIGITS_MAX

MICROS: int = 10**VALUE_DECIMALS_MAX
_EXACT = Context(prec=60, traps=[Inexact, InvalidOperation])  # a sum in a store has 38 digits


class JsonFloat(float):
    """A float from JSON that remembers how it was written, since a value may carry 24 digits."""

    text: str

    def __new__(cls, text: str) -> Self:
        """The float that `text` says."""
        number = super().__new__(cls, text)
        number.text = text
        return number


def parse_amount(value: object) -> int:
    """The amount, in millionths, of a JSON number (int, JsonFloat or Decimal).

    Raises Rejected (bad-value) for anything else, for |value| of 10^18 or more, and for more than 6
    decimals.
    """
    if isinstance(value, bool) or not isinstance(value, int | JsonFloat | Decimal):
        raise Rejected(Reason.BAD_VALUE, f"value {shown(value)} is not a JSON number")
    if isinstance(value, int):
        if abs(value) >= VALUE_BOUND:
            raise Rejected(Reason.BAD_VALUE, f"value {shown(value)}: must be below 10^18 in size")
        return value * MICROS
    try:
        exact = Decimal(value.text if isinstance(value, JsonFloat) else value)
    except InvalidOperation:
        raise Rejected(
            Reason.BAD_VALUE, f"value {shown(value)} has too large an exponent"
        ) from None
    if not exact.is_finite():
        raise Rejected(Reason.BAD_VALUE, f"value {exact} is not finite")
    if exact and exact.adjusted() >= VALUE_DIGITS_MAX:
        raise Rejected(Reason.BAD_VALUE, f"value {shown(value)}: must be below 10^18 in size")
    try:
        return int(_EXACT.to_integral_exact(_EXACT.scaleb(exact, VALUE_DECIMALS_MAX)))
    except Inexact:
        raise Rejected(Reason.BAD_VALUE, f"value {shown(value)} has more than 6 decimals") from None


def format_amount(amount: int) -> str:
    """The shortest decimal text of an amount: '12', '-0.5', '3.000001'."""
    whole, rest = divmod(abs(amount), MICROS)
    text = str(whole)
    if rest:
        text += "." + f"{rest:0{VALUE_DECIMALS_MAX}d}".rstrip("0")
    return "-" + text if amount < 0 else text


def read_amount(text: str) -> int:
    """The amount behind a number that a store returned ('12', '0.5', '1E+3')."""
    return int(_EXACT.to_integral_exact(_EXACT.scaleb(Decimal(text), VALUE_DECIMALS_MAX)))


def shown(value: object, most: int = 60) -> str:
    """`value` as it may stand in a message: its repr (a float as it was written), cut to `most`
    characters.
    """
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**most:
        return f"an integer of about {value.bit_length() * 3 // 10} digits"
    try:
        text = value.text if isinstance(value, JsonFloat) else repr(value)
    except RecursionError:
        text = f"a {type(value).__name__} nested too deeply to show"
    return text if len(text) <= most else text[: most - 3] + "..."

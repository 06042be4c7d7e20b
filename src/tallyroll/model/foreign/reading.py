"""Reads a message's body: an event of Tallyroll's own form, by itself or in an envelope, or another
message by the pipeline's mapping.

What only envelopes and mappings need is imported when the first of them comes.
"""

from __future__ import annotations

from typing import Any

from tallyroll.model.events import Envelope, load_body, no_collections, parse_body
from tallyroll.model.foreign.mappings import NO_MAPPINGS, Mappings
from tallyroll.model.formats.compression import is_compressed

LARGE = 10_000  # characters: a smaller body has too few values to start a garbage collection


def read(body: str, mappings: Mappings = NO_MAPPINGS, sent: int = 0) -> Envelope:
    """The event or packet in the body of a message that was sent at `sent` (ms).

    Nothing else decides it, as long as the mappings settle `sent`: once it is an event, no later
    mapping changes it. Raises Rejected with the reason.
    """
    if len(body) < LARGE:
        return _read(body, mappings, sent)
    with no_collections():
        return _read(body, mappings, sent)


def _read(body: str, mappings: Mappings, sent: int) -> Envelope:
    fields = load_body(body)
    if not isinstance(fields, dict) or is_compressed(fields):
        return parse_body(body, fields)
    if mappings.entries:
        return _mapped(body, fields, mappings, sent)
    return parse_body(body, fields) if "key" in fields else _keyless(body, fields)


def _keyless(body: str, fields: dict[str, Any]) -> Envelope:
    from tallyroll.model.foreign.envelopes import is_enveloped, own_event, unwrapped_exactly

    return own_event(unwrapped_exactly(body)) if is_enveloped(fields) else parse_body(body, fields)


def _mapped(body: str, fields: dict[str, Any], mappings: Mappings, sent: int) -> Envelope:
    if "key" in fields and mappings.keep(fields):
        return parse_body(body, fields)
    from tallyroll.model.foreign.mapping import read_mapped

    def unmapped() -> Envelope:
        return parse_body(body, fields) if "key" in fields else _keyless(body, fields)

    return read_mapped(body, fields, mappings, sent, unmapped)

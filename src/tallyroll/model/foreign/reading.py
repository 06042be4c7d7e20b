"""Reads a message's body: an event of Tallyroll's own form, by itself or in an envelope."""

from __future__ import annotations

from tallyroll.model.amounts import JsonFloat
from tallyroll.model.events import Envelope, load_body, no_collections, parse_body
from tallyroll.model.foreign.envelopes import is_enveloped, own_event, unwrap
from tallyroll.model.formats.json_texts import load_json


def read(body: str) -> Envelope:
    """The event or packet in a message's body. Raises Rejected with the reason."""
    with no_collections():
        fields = load_body(body)
        if isinstance(fields, dict) and "key" not in fields and is_enveloped(fields):
            return own_event(unwrap(load_json(body), JsonFloat))
        return parse_body(body, fields)

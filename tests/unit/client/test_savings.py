"""What packing saves is estimated as `make costs` computes it, from the writer's own plans."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks.costs import HOUR_MS, START_MS, packets, scattered, store_cost
from tallyroll.client.savings import Savings
from tallyroll.lifecycle.state_machine import freeze
from tallyroll.model.events import Event, Packet, decode, event_body
from tallyroll.model.states import Window
from tallyroll.settings import Settings

EVENTS = 1_960
SPEC = freeze(Window("20261120T080000Z", "", START_MS, START_MS + HOUR_MS), Settings())


def events(keys: int) -> list[Event]:
    found = scattered("", EVENTS, START_MS, HOUR_MS)
    return [
        Event(f"k{number % keys}", None, event.ts, event.amount, None)
        for number, event in enumerate(found)
    ]


def computed(bodies: Sequence[str]) -> float:
    return store_cost(SPEC, bodies).total / EVENTS


@pytest.mark.parametrize("keys", [1, 20, 700, EVENTS])
@pytest.mark.parametrize("span_ms", [60_000, HOUR_MS])
def test_the_estimate_is_near_to_what_the_writer_would_plan(keys: int, span_ms: int) -> None:
    savings = Savings()
    alone = []
    for number, event in enumerate(events(keys)):
        savings.alone.add(START_MS, event.key, 0)
        alone.append(event_body(Event(event.key, f"id-{number}", event.ts, event.amount, None)))
    bodies = packets(events(keys), span_ms=span_ms)
    for body in bodies:
        packet = decode(body)
        assert isinstance(packet, Packet)
        savings.add_packet(START_MS, packet.key, body, len(packet.entries))
    assert savings.packed.events == EVENTS
    assert savings.alone.each == pytest.approx(computed(alone), rel=0.05)
    assert savings.packed.each == pytest.approx(computed(bodies), rel=0.15)


@pytest.mark.parametrize("keys", [1, 20, EVENTS])
def test_ids_that_stay_taken_are_written_too(keys: int) -> None:
    spec = freeze(
        Window("20261120T080000Z", "", START_MS, START_MS + HOUR_MS), Settings(identity="key")
    )
    savings = Savings.estimated(with_ids=True)
    alone = []
    for number, event in enumerate(events(keys)):
        savings.alone.add(START_MS, event.key, 0)
        alone.append(event_body(Event(event.key, f"id-{number}", event.ts, event.amount, None)))
    bodies = packets(events(keys))
    for body in bodies:
        packet = decode(body)
        assert isinstance(packet, Packet)
        savings.add_packet(START_MS, packet.key, body, len(packet.entries))
    assert savings.alone.each == pytest.approx(store_cost(spec, alone).total / EVENTS, rel=0.05)
    assert savings.packed.each == pytest.approx(store_cost(spec, bodies).total / EVENTS, rel=0.15)
    assert savings.alone.each > 4


def test_nothing_costs_nothing() -> None:
    assert Savings().packed.each == 0

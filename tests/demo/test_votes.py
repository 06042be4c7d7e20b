from __future__ import annotations

import json
from collections import Counter

from local.demo.votes import CANDIDATES, VoteNight
from tallyroll.errors import Rejected
from tallyroll.model.events import Event, Packet, decode

NOW = 1_795_161_600_000
WINDOW_MS = 5_000


def night(seed: int = 1) -> tuple[VoteNight, list[str]]:
    votes = VoteNight(seed, 24_000, 4_000, WINDOW_MS)
    bodies: list[str] = []
    at = NOW
    while not votes.over:
        bodies += votes.cast(300, at, at + 250)
        at += 250
    return votes, bodies


def test_the_truth_is_what_the_messages_say() -> None:
    votes, bodies = night()
    counted: Counter[str] = Counter()
    singles = 0
    for body in bodies:
        envelope = decode(body)
        counted[envelope.key] += len(envelope.entries) if isinstance(envelope, Packet) else 1
        singles += isinstance(envelope, Event)
    assert counted == votes.truth.votes
    assert counted.total() == 24_000
    assert singles == votes.truth.singles
    assert len(bodies) == votes.truth.messages


def test_the_night_is_as_large_and_as_skewed_as_promised() -> None:
    votes, _ = night()
    assert len(votes.truth.votes) == len(CANDIDATES) == 12
    assert votes.truth.votes[CANDIDATES[0]] > 12_000
    assert votes.truth.singles >= 3_000


def test_single_votes_have_ids_of_their_own() -> None:
    _, bodies = night()
    ids = [envelope.id for body in bodies if isinstance(envelope := decode(body), Event)]
    assert None not in ids
    assert len(ids) == len(set(ids))


def test_packets_stay_within_their_window() -> None:
    _, bodies = night()
    for body in bodies:
        if isinstance(packet := decode(body), Packet):
            assert {(packet.t0 + dt) // WINDOW_MS for dt, _, _ in packet.entries} == {
                packet.t0 // WINDOW_MS
            }


def test_the_same_seed_casts_the_same_votes() -> None:
    assert night(7)[1] == night(7)[1] != night(8)[1]


def test_mishaps_count_one_vote_and_expect_the_other_messages_back() -> None:
    votes = VoteNight(1, 10, 5, WINDOW_MS)
    bodies = list(votes.mishaps(NOW))
    assert votes.truth.votes == {"Ada": 1}
    assert votes.truth.rejections.total() == len(bodies) - 1
    syntax = set()
    for body in bodies:
        try:
            decode(body)
        except Rejected as rejected:
            syntax.add(rejected.reason)
    assert syntax < set(votes.truth.rejections)
    assert json.loads(bodies[0])["id"] == json.loads(bodies[1])["id"]

from __future__ import annotations

from typing import Any

import pytest

from functions.writer import handler as writer
from tallyroll import pipeline
from tallyroll.adapters.dynamodb.throughput import Limit
from tallyroll.ports.store import Outcome, Verdict
from tallyroll.settings import Settings
from tests.functions.invocation import Invocations, load

NOTHING_AGAIN: dict[str, Any] = {"batchItemFailures": []}


def test_a_counted_batch_is_acknowledged_whole(functions: Invocations) -> None:
    assert functions.write(load("writer-mixed-keys-and-windows.json")) == NOTHING_AGAIN
    assert functions.pipeline.tally("video:aurora-over-tromso")[0] == 1
    assert functions.pipeline.tally("video:glacier-walk")[0] == 1


def test_only_what_must_come_again_is_named(functions: Invocations) -> None:
    event = load("writer-awaits-window.json")
    waiting = event["Records"][1]["messageId"]
    assert functions.write(event) == {"batchItemFailures": [{"itemIdentifier": waiting}]}
    receipts = [receipt for receipt, _ in functions.pipeline.queue.delays]
    assert receipts == [event["Records"][1]["receiptHandle"]]


def test_a_rejected_message_is_acknowledged_once_it_is_a_dead_letter(
    functions: Invocations,
) -> None:
    event = load("writer-not-json.json")
    poison = event["Records"][0]["messageId"]
    functions.pipeline.queue.refuses = lambda rejection: True
    assert functions.write(event) == {"batchItemFailures": [{"itemIdentifier": poison}]}
    functions.pipeline.queue.refuses = None
    assert functions.write(event) == NOTHING_AGAIN
    assert [letter.message.id for letter in functions.pipeline.queue.dead_letters] == [poison]


def test_an_empty_event(functions: Invocations) -> None:
    assert functions.write({}) == NOTHING_AGAIN
    assert functions.write({"Records": []}) == NOTHING_AGAIN


def test_the_remaining_time_is_the_deadline(functions: Invocations) -> None:
    functions.pipeline.store.script = [Outcome(Verdict.THROTTLED)] * 1_000
    began = functions.pipeline.effects.now()
    answer = functions.write(load("writer-duplicate.json"), time_left_ms=7_000)
    assert len(answer["batchItemFailures"]) == 2
    assert functions.pipeline.effects.now() - began <= 5_000


@pytest.mark.filterwarnings("ignore:No application metrics")
def test_an_error_that_nobody_expects_fails_the_batch(functions: Invocations) -> None:
    functions.pipeline.store.script = ["no outcome"]  # type: ignore[list-item]
    with pytest.raises(AttributeError):
        functions.write(load("writer-own-id.json"))


def test_the_metrics_have_units_and_no_unbounded_dimension(functions: Invocations) -> None:
    functions.write(load("writer-not-json.json"))
    (directive,) = functions.metrics["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "Tallyroll"
    assert directive["Dimensions"] == [["pipeline", "service"]]
    assert functions.metrics["service"] == "writer"
    assert functions.metrics["pipeline"] == "tallyroll"
    units = functions.units()
    assert units.pop("BatchLatency") == "Milliseconds"
    assert units.pop("ItemSize") == "Bytes"
    assert set(units.values()) == {"Count"}
    values = functions.values()
    assert 40 < values.pop("ItemSize") < 200
    assert values.pop("BatchLatency") >= 0
    assert {name: value for name, value in values.items() if value} == {
        "Messages": 2,
        "Finished": 2,
        "EventsCounted": 1,
        "SingleEventsCounted": 1,
        "WriteUnitsSingle": 6,
        "StoreRequestsSingle": 1,
        "Rejected": 1,
        "Rejected-not-json": 1,
    }


def test_throttles_are_told_by_what_they_were_too_much_for(functions: Invocations) -> None:
    limits = (Limit.KEY_RANGE, Limit.KEY_RANGE, Limit.ACCOUNT)
    functions.pipeline.store.script = [Outcome(Verdict.THROTTLED, limit=one) for one in limits]
    functions.write(load("writer-own-id.json"))
    throttles = {name: n for name, n in functions.values().items() if name.startswith("Throttles")}
    assert throttles == {"Throttles": 3, "Throttles-key-range": 2, "Throttles-account": 1}


def test_the_metrics_of_pipelines_side_by_side_are_told_apart(
    functions: Invocations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALLYROLL_NAME", "votes-eu")
    functions.write(load("writer-own-id.json"))
    assert functions.metrics["pipeline"] == "votes-eu"


def test_packets_have_costs_of_their_own(functions: Invocations) -> None:
    functions.write(load("writer-packet.json"))
    values = functions.values()
    assert (values["EventsCounted"], values["PackedEventsCounted"]) == (3, 3)
    assert (values["WriteUnitsPacked"], values["WriteUnitsSingle"]) == (6, 0)


def test_metrics_fit_the_embedded_format(functions: Invocations) -> None:
    """At most 100 metrics a blob, even if every reason comes up at once."""
    functions.write(load("writer-empty.json"))
    assert len(functions.units()) + 30 < 100


def test_the_use_case_is_made_once_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Settings] = []

    class Pipeline:
        writer = None

        def __init__(self, settings: Settings) -> None:
            made.append(settings)

    monkeypatch.setenv("TALLYROLL_SHARDS", "77")
    monkeypatch.setattr(pipeline, "Pipeline", Pipeline)
    writer.use_case.cache_clear()
    writer.use_case()
    writer.use_case()
    writer.use_case.cache_clear()
    assert [settings.shards for settings in made] == [77]

"""Events by a mapping, and which mapping holds."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tallyroll.errors import Rejected, SettingsError, UsageError
from tallyroll.limits import MAPPINGS_MAX
from tallyroll.model.events import Event, Packet
from tallyroll.model.foreign.mapping import mapper_of
from tallyroll.model.foreign.mappings import NO_MAPPINGS, UNMAPPED, Mappings, founded_with
from tallyroll.model.foreign.reading import read
from tallyroll.reasons import Reason
from tallyroll.settings import Settings
from tests.harness.pipeline import NOW
from tests.unit.model.test_foreign import cloud_event, event_bridge, in_base64, s3_record, sns

KEY = {"key": "detail.videoId"}
VIEW = event_bridge({"videoId": "v1", "seconds": 2.5, "at": NOW + 7, "viewId": "view-1"})


def mapped(fields: object, **mapping: str) -> Event:
    """What a mapping makes of a message, in a pipeline that always had one."""
    return mapped_by(founded_with(Settings(mapping=mapping or KEY).mapping_text), fields)


def mapped_late(fields: object, **mapping: str) -> Event:
    """The same in a pipeline that had none at first."""
    return mapped_by(NO_MAPPINGS.with_latest(Settings(mapping=mapping).mapping_text), fields)


def mapped_by(mappings: Mappings, fields: object) -> Event:
    event = read(fields if isinstance(fields, str) else json.dumps(fields), mappings, NOW)
    assert isinstance(event, Event)
    return event


def test_a_key_in_an_eventbridge_event() -> None:
    assert mapped(VIEW) == Event("v1", "17793124", NOW, 1_000_000, None)


def test_all_fields() -> None:
    event = mapped(
        VIEW,
        key="join('/', [source, detail.videoId])",
        id="detail.viewId",
        ts="detail.at",
        value="detail.seconds",
        payload="detail.{seconds: seconds}",
    )
    assert event == Event("site.player/v1", "view-1", NOW + 7, 2_500_000, '{"seconds":2.5}')


@pytest.mark.parametrize(
    ("fields", "key", "expected"),
    [
        (sns(VIEW), "detail.videoId", ("v1", "17793124", NOW)),
        (sns({"video": "v1"}), "video", ("v1", "165545c9-2a5c-472c-8df2-7ff2be2b3b1b", NOW + 250)),
        ({"video": "v1"}, "video", ("v1", None, None)),
        (cloud_event({"video": "v1"}), "data.video", ("v1", "/player/A234", NOW + 250)),
        (cloud_event(subject="v1"), "subject", ("v1", "/player/A234", NOW + 250)),
        (
            cloud_event(data_base64=in_base64('{"video": "v1"}')),
            "data.video",
            ("v1", "/player/A234", NOW + 250),
        ),
    ],
)
def test_what_a_mapping_reads(fields: Any, key: str, expected: tuple[Any, ...]) -> None:
    event = mapped(fields, key=key)
    assert (event.key, event.id, event.ts) == expected


def test_two_deliveries_of_an_s3_event_have_one_id_and_two_events_have_two() -> None:
    def id_of(**changes: Any) -> str | None:
        return mapped({"Records": [s3_record(**changes)]}, key="s3.object.key").id

    assert id_of() == id_of(size=8)
    assert mapped({"Records": [s3_record()]}, key="s3.object.key").key == "a+b.mp4"
    ids = [id_of(), id_of(sequencer="1"), id_of(key="c"), id_of(versionId="2")]
    assert len(set(ids)) == 4


def test_an_s3_event_without_a_sequencer_has_the_id_of_its_message() -> None:
    record = s3_record()
    del record["s3"]["object"]["sequencer"]
    assert mapped({"Records": [record]}, key="s3.object.key").id is None


NOT_MAPPED: dict[str, tuple[object, dict[str, str], Reason, str]] = {
    "a path that ends early": (
        event_bridge({}),
        KEY,
        Reason.MAPPING_FAILED,
        "the mapping of key, 'detail.videoId', finds nothing: there is no 'detail.videoId'",
    ),
    "a path that begins nowhere": ({"a": 1}, KEY, Reason.MAPPING_FAILED, "there is no 'detail'"),
    "a path through a text": (
        event_bridge("text"),
        KEY,
        Reason.MAPPING_FAILED,
        "there is no 'detail.videoId'",
    ),
    "null": (event_bridge({"videoId": None}), KEY, Reason.MAPPING_FAILED, "no 'detail.videoId'"),
    "a list": (
        event_bridge({"videoId": ["v1"]}),
        KEY,
        Reason.MAPPING_FAILED,
        'finds ["v1"], which is no text',
    ),
    "a number": (
        event_bridge({"videoId": 7}),
        KEY,
        Reason.MAPPING_FAILED,
        "finds 7, which is no text",
    ),
    "true": (event_bridge({"videoId": True}), KEY, Reason.MAPPING_FAILED, "finds true"),
    "an object": (event_bridge({"videoId": {}}), KEY, Reason.MAPPING_FAILED, "finds {}"),
    "an empty text": (event_bridge({"videoId": ""}), KEY, Reason.BAD_KEY, "''"),
    "a reserved key": (event_bridge({"videoId": "~t.1"}), KEY, Reason.BAD_KEY, "reserved"),
    "no id": (VIEW, {**KEY, "id": "detail.x"}, Reason.MAPPING_FAILED, "of id, 'detail.x', finds"),
    "a number as id": (VIEW, {**KEY, "id": "detail.at"}, Reason.MAPPING_FAILED, "is no text"),
    "no value": (VIEW, {**KEY, "value": "x"}, Reason.MAPPING_FAILED, "of value, 'x', finds"),
    "a text as value": (VIEW, {**KEY, "value": "detail.videoId"}, Reason.BAD_VALUE, "'v1'"),
    "a list as value": (VIEW, {**KEY, "value": "[detail.at]"}, Reason.BAD_VALUE, "["),
    "no time": (VIEW, {**KEY, "ts": "x"}, Reason.MAPPING_FAILED, "of ts, 'x', finds nothing"),
    "a text that is no time": (VIEW, {**KEY, "ts": "detail.videoId"}, Reason.BAD_TS, "'v1'"),
    "a fraction as time": (VIEW, {**KEY, "ts": "detail.seconds"}, Reason.BAD_TS, "2.5"),
    "ms where seconds are said": (
        VIEW,
        {**KEY, "ts": "detail.at", "ts_unit": "s"},
        Reason.BAD_TS,
        "after the year 9999",
    ),
    "a function of another type": (
        VIEW,
        {"key": "length(detail.at)"},
        Reason.MAPPING_FAILED,
        "the mapping of key, 'length(detail.at)', fails: ",
    ),
    "nothing by an expression": (
        VIEW,
        {"key": "detail.a || detail.b"},
        Reason.MAPPING_FAILED,
        "give a default by `||`",
    ),
    "no envelope": (sns("hello"), KEY, Reason.BAD_ENVELOPE, "is not JSON"),
    "an object for none": ([VIEW], KEY, Reason.NOT_AN_OBJECT, "is not a JSON object"),
    "a value beyond doubles": (
        '{"a": "k", "n": 1e400}',
        {"key": "a", "payload": "@"},
        Reason.BAD_PAYLOAD,
        "too large",
    ),
}


@pytest.mark.parametrize(
    ("fields", "mapping", "reason", "detail"), NOT_MAPPED.values(), ids=NOT_MAPPED.keys()
)
def test_what_cannot_be_mapped_is_rejected_with_the_path(
    fields: object, mapping: dict[str, str], reason: Reason, detail: str
) -> None:
    with pytest.raises(Rejected) as rejected:
        mapped(fields, **mapping)
    assert rejected.value.reason is reason
    assert detail in rejected.value.detail


def test_a_payload_may_be_absent() -> None:
    assert mapped(VIEW, **KEY, payload="detail.x").payload is None


@pytest.mark.parametrize(
    ("text", "unit", "ts"),
    [
        ('"2026-11-20T08:30:00.5Z"', "ms", NOW + 500),
        (str(NOW + 5), "ms", NOW + 5),
        (str(NOW // 1000), "s", NOW),
        (f"{NOW // 1000}.123", "s", NOW + 123),
        ('"2026-11-20T08:30:00Z"', "s", NOW),
    ],
)
def test_times(text: str, unit: str, ts: int) -> None:
    body = f'{{"video": "v", "at": {text}}}'
    assert mapped(body, key="video", ts="at", ts_unit=unit).ts == ts


@pytest.mark.parametrize("expression", ["n", "x.n", "n || `1`", "[n][0]", "max([n, `0`])"])
def test_values_are_exact_if_the_message_has_them(expression: str) -> None:
    number = "123456789012345678.123456"
    body = f'{{"video": "v", "n": {number}, "x": {{"n": {number}}}}}'
    if expression.startswith("max"):
        number = "0.1"
        body = '{"video": "v", "n": 0.1}'
    amount = int(number.replace(".", "").ljust(len(number.split(".")[0]) + 6, "0"))
    assert mapped(body, key="video", value=expression).amount == amount


# --- what is Tallyroll's own


@pytest.mark.parametrize("founded", [True, False])
def test_events_with_their_version_and_packets_are_never_mapped(founded: bool) -> None:
    mappings = founded_with('{"key":"key"}') if founded else Mappings(((0, '{"key":"id"}'),))
    single = read('{"v": 1, "key": "own", "id": "i"}', mappings, NOW)
    packet = {"v": 1, "id": "p", "key": "own", "t0": NOW, "events": [[0]]}
    for body in (packet, sns(packet), event_bridge(packet)):
        assert isinstance(read(json.dumps(body), mappings, NOW), Packet)
    assert single == Event("own", "i", None, 1_000_000, None)


def test_a_field_key_is_mapped_only_where_there_was_always_a_mapping() -> None:
    """What an earlier version counted by its field `key` counts so for ever."""
    fields = {"key": "own", "video": "v1"}
    assert mapped(fields, key="video").key == "v1"
    assert mapped_late(fields, key="video").key == "own"
    assert mapped(event_bridge(fields), key="detail.video").key == "v1"
    assert mapped_late(event_bridge(fields), key="detail.video").key == "own"


# --- which mapping holds

A, B, BROKEN = '{"key":"a"}', '{"key":"b"}', '{"key":"x.y"}'
BOTH = '{"a": "by a", "b": "by b"}'


def key_by(mappings: Mappings, sent: int, body: str = BOTH) -> str:
    return read(body, mappings, sent).key


def test_the_mapping_of_the_sending_holds_whenever_it_is_read() -> None:
    older = Mappings(((0, A),), until=100, marked=True)
    newer = older.with_latest(B)
    assert newer.entries == ((0, A), (100, B))
    assert [key_by(newer, sent) for sent in (0, 99, 100, 500)] == ["by a", "by a", "by b", "by b"]
    assert all(key_by(older, sent) == key_by(newer, sent) for sent in range(0, 100, 9))
    assert [older.settles(sent) for sent in (99, 100)] == [True, False]


def test_of_two_mappings_from_one_moment_on_the_later_holds() -> None:
    assert key_by(Mappings(((0, A), (100, BROKEN), (100, B))), 100) == "by b"


def test_what_no_mapping_could_read_is_read_by_the_first_later_one_that_can() -> None:
    first = Mappings(((0, BROKEN),), until=100)
    with pytest.raises(Rejected, match=r"there is no 'x'"):
        key_by(first, 50)
    second = first.with_latest(A)
    third = Mappings(second.entries, until=200).with_latest(B)
    assert [key_by(second, 50), key_by(third, 50), key_by(third, 250)] == ["by a", "by a", "by b"]


def test_where_all_fail_the_reason_is_that_of_the_mapping_that_holds() -> None:
    with pytest.raises(Rejected, match=r"'x\.y', finds nothing"):
        key_by(Mappings(((0, BROKEN), (10, A))), 5, "{}")


def test_an_own_event_with_an_uploaded_payload_is_not_mapped() -> None:
    place = {"bucket": "b", "key": "payloads/votes/1", "bytes": 2_000_000, "sha256": "0" * 64}
    own = {"key": "k", "id": "e", "ts": NOW, "payload_ref": place}
    for version in (1, 2):
        event = mapped({"v": version, **own})
        assert (event.key, event.reference and event.reference.bucket) == ("k", "b")
    assert mapped({"v": 1, **own, "payload_ref": None}).key == "k"
    with pytest.raises(Rejected) as refused:
        mapped({"v": 2, "key": "k"})
    assert refused.value.reason is Reason.MAPPING_FAILED


def test_a_mapping_that_was_taken_out_leaves_own_events() -> None:
    mappings = Mappings(((0, A), (100, UNMAPPED)), marked=True)
    assert key_by(mappings, 100, '{"key": "own", "a": "by a"}') == "own"
    assert key_by(mappings, 99, '{"key": "own", "a": "by a"}') == "by a"
    assert key_by(mappings, 100, json.dumps(sns({"key": "own"}))) == "own"
    with pytest.raises(Rejected, match="key is missing"):
        key_by(mappings, 100)


def test_a_field_of_a_later_version_is_no_reason_to_reject() -> None:
    """The message comes again until that version reads it."""
    with pytest.raises(UsageError, match="later: the fields are"):
        key_by(Mappings(((0, '{"later":"a"}'),)), 0)


def test_the_list_has_an_end() -> None:
    mappings = Mappings(tuple((at, A) for at in range(MAPPINGS_MAX)))
    with pytest.raises(UsageError, match="100 times"):
        mappings.with_latest(B)


# --- settings


@pytest.mark.parametrize(
    ("mapping", "told"),
    [
        ({"id": "a"}, "key: give the expression"),
        ({"key": ""}, "key: give the expression"),
        (
            {"key": "a", "name": "b"},
            "name: the fields are key, keys, id, ts, value, payload and ts_unit",
        ),
        ({"key": "a."}, r"key 'a\.': "),
        ({"key": "a", "id": "b["}, r"id 'b\['"),
        ({"key": "nothing(a)", "id": ""}, "id ''"),
        ({"key": "a", "ts_unit": "us"}, "ts_unit 'us': must be ms or s"),
        ({"key": "a" * 2_100}, "2110 bytes, over 2048"),
    ],
)
def test_a_wrong_mapping_is_refused_by_the_settings(mapping: dict[str, str], told: str) -> None:
    with pytest.raises(SettingsError, match=f"^TALLYROLL_MAPPING .*: .*{told}"):
        Settings(mapping=mapping)


def test_a_mapping_is_compiled_once() -> None:
    assert mapper_of(A) is mapper_of(A)


def test_without_a_mapping_the_library_is_not_imported() -> None:
    code = (
        "import sys\n"
        "from tallyroll.settings import Settings\n"
        "from tallyroll.model.foreign.reading import read\n"
        'Settings.from_env({}); read(\'{"key": "k"}\')\n'
        "assert 'jmespath' not in sys.modules\n"
        "assert 'tallyroll.model.foreign.envelopes' not in sys.modules\n"
        "Settings.from_env({'TALLYROLL_MAPPING': '{\"key\": \"a\"}'})\n"
        "assert 'jmespath' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

"""Templates of keys: one event to several counters."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyroll.errors import Rejected, SettingsError
from tallyroll.limits import EVENT_KEYS_MAX, TS_MS_MAX
from tallyroll.model.events import Event, digest
from tallyroll.model.foreign.mappings import founded_with
from tallyroll.model.foreign.reading import read
from tallyroll.model.foreign.templates import TIME_PARTS, template_of
from tallyroll.reasons import Reason
from tallyroll.settings import Settings
from tests.harness.pipeline import NOW
from tests.unit.model.test_foreign import event_bridge, sns

VOTE = event_bridge({"candidate": "ann", "state": "ca", "at": NOW})
KEYS = ["candidate:{detail.candidate}", "state:{detail.state}", "hour:{%H}"]


def fanned(fields: object, *keys: str, **mapping: str) -> Event:
    """What a mapping with templates makes of a message."""
    settings = Settings(mapping={"keys": list(keys) or KEYS, **mapping})
    event = read(json.dumps(fields), founded_with(settings.mapping_text), NOW)
    assert isinstance(event, Event)
    return event


def keys_of(fields: object, *keys: str, **more: Any) -> list[str]:
    event = fanned(fields, *keys, **more)
    return [event.key, *event.other_keys]


def test_an_event_counts_under_each_template_in_the_order_of_the_keys() -> None:
    event = fanned(VOTE)
    assert (event.key, event.other_keys) == ("candidate:ann", ("hour:08", "state:ca"))
    assert (event.id, event.ts) == ("17793124", NOW)
    assert keys_of(VOTE, *reversed(KEYS)) == keys_of(VOTE)


@pytest.mark.parametrize(
    ("template", "key"),
    [
        ("{detail.candidate}", "ann"),
        ("{detail.candidate}/{detail.state}", "ann/ca"),
        ("all", "all"),
        ("{{{detail.state}}}", "{ca}"),
        ("{%Y-%m-%dT%H:%M}", "2026-11-20T08:30"),
        ("day {%j} of {%Y}, weekday {%u}", "day 324 of 2026, weekday 5"),
        ("{join('}', [detail.candidate, detail.state])}", "ann}ca"),
        ("{detail.{a: state}.a}!", "ca!"),
        ("{to_string(detail.at)}", str(NOW)),
        ("{detail.nothing || 'none'}", "none"),
        ("ü{detail.state}", "üca"),
    ],
)
def test_what_a_template_makes(template: str, key: str) -> None:
    assert keys_of(VOTE, template) == [key]


def test_two_templates_of_one_key_count_it_once() -> None:
    transfer = {"from": "a", "to": "a"}
    assert keys_of(transfer, "account:{from}", "account:{to}", "all") == ["account:a", "all"]


def test_a_template_alone_makes_the_event_that_a_key_makes() -> None:
    plain = Settings(mapping={"key": "detail.state"})
    expected = read(json.dumps(VOTE), founded_with(plain.mapping_text), NOW)
    assert fanned(VOTE, "{detail.state}") == expected
    assert digest(fanned(VOTE, "{detail.state}")) == digest(expected)


def test_all_keys_are_the_events_content() -> None:
    assert digest(fanned(VOTE)) == digest(fanned(VOTE, *reversed(KEYS)))
    assert len({digest(fanned(VOTE, *KEYS[:number])) for number in (1, 2, 3)}) == 3


@pytest.mark.parametrize(
    ("fields", "mapping", "hour"),
    [
        (VOTE, {}, "08"),  # of the envelope
        (VOTE, {"ts": "to_number('1795159800000')"}, "07"),
        ({"at": "2026-11-20T05:59:59+02:00"}, {"ts": "at"}, "03"),
        (sns({}), {}, "08"),
        ({"view": "019abc00-0000-7000-8000-000000000000"}, {"id": "view"}, "17"),
        ({}, {}, "08"),  # of the sending
    ],
)
def test_the_hour_is_that_of_the_events_time(
    fields: Any, mapping: dict[str, str], hour: str
) -> None:
    assert keys_of(fields, "hour:{%H}", **mapping) == [f"hour:{hour}"]


@given(st.integers(0, TS_MS_MAX))
def test_the_parts_of_a_time_are_those_of_strftime(ts: int) -> None:
    text = "|".join(TIME_PARTS)
    at = datetime.fromtimestamp(ts // 1000, UTC)
    year, rest = template_of("keys[0]", f"{{{text}}}").key({}, ts).split("|", 1)
    assert int(year) == at.year
    assert rest == at.strftime(text.removeprefix("%Y|"))


REJECTED: dict[str, tuple[object, str, Reason, str]] = {
    "a missing path": (
        event_bridge({}),
        "state:{detail.state}",
        Reason.MAPPING_FAILED,
        "the mapping of keys[1], 'state:{detail.state}', finds nothing: there is no 'detail.state'",
    ),
    "null": ({"a": None}, "{a}", Reason.MAPPING_FAILED, "there is no 'a'"),
    "a list": ({"a": [7]}, "{a}", Reason.MAPPING_FAILED, "finds [7], which is no text"),
    "an object": ({"a": {}}, "{a}", Reason.MAPPING_FAILED, "finds {}, which is no text"),
    "true": ({"a": True}, "{a}", Reason.MAPPING_FAILED, "finds true, which is no text"),
    "a number": ({"a": 7}, "x{a}", Reason.MAPPING_FAILED, "'x{a}', finds 7, which is no text"),
    "an empty text": ({"a": ""}, "x{a}", Reason.MAPPING_FAILED, "finds an empty text in 'a'"),
    "a function that fails": ({"a": 7}, "{upper(a)}", Reason.MAPPING_FAILED, "fails: "),
    "too long": ({"a": "x" * 500}, "{a}{a}", Reason.BAD_KEY, "has 1000 bytes, over 512"),
    "reserved": ({"a": "x"}, "~{a}", Reason.BAD_KEY, "reserved"),
    "after 9999": (
        {"id": "ffffffff-ffff-7000-8000-000000000000"},
        "{%H}",
        Reason.TOO_FAR_AHEAD,
        "after the year 9999",
    ),
}


@pytest.mark.parametrize("name", REJECTED)
def test_what_no_template_makes_is_rejected_with_its_place(name: str) -> None:
    fields, template, reason, told = REJECTED[name]
    more = {"id": "id"} if name == "after 9999" else {}
    with pytest.raises(Rejected) as raised:
        fanned(fields, "all", template, **more)
    assert raised.value.reason is reason
    assert told in raised.value.detail


# --- settings


@pytest.mark.parametrize(
    ("mapping", "told"),
    [
        ({"keys": []}, "keys: give a list of templates"),
        ({"keys": ["a", ""]}, "keys: give a list of templates"),
        ({"keys": ["a"], "key": "a"}, "key, keys: give one of them"),
        (
            {"keys": [f"{n}" for n in range(EVENT_KEYS_MAX + 1)]},
            f"keys: {EVENT_KEYS_MAX + 1} counters of one event, over {EVENT_KEYS_MAX}",
        ),
        ({"keys": ["a", "b{c"]}, r"keys\[1\] 'b\{c': '\{' is not closed; as a text it is '\{\{'"),
        ({"keys": ["a}"]}, r"keys\[0\] 'a\}': '\}' closes nothing; as a text it is '\}\}'"),
        ({"keys": ["x{a.}"]}, r"keys\[0\] 'x\{a\.\}': "),
        ({"keys": ["x{}"]}, r"keys\[0\] 'x\{\}': "),
        ({"keys": ["{%Q}"]}, r"keys\[0\] '\{%Q\}': '%Q' is no part of a time: give %Y, %m,"),
        ({"keys": ["{%}"]}, "'%' is no part of a time"),
    ],
)
def test_wrong_templates_are_refused_by_the_settings(mapping: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsError, match=f"^TALLYROLL_MAPPING .*: {told}"):
        Settings(mapping=mapping)


def test_as_many_counters_as_are_allowed() -> None:
    keys = [f"{number:02}" for number in range(EVENT_KEYS_MAX)]
    assert keys_of({}, *keys) == keys


@pytest.mark.parametrize("text", ['{"keys": [1]}', '{"keys": "a"}', '{"id": ["a"]}', "[]"])
def test_an_environment_of_other_types_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r'give an object \{"key"'):
        Settings.from_env({"TALLYROLL_MAPPING": text})


def test_templates_go_through_the_environment() -> None:
    settings = Settings(mapping={"keys": KEYS, "id": "a"})
    assert Settings.from_env(settings.to_env()) == settings
    assert Settings(mapping={"keys": tuple(KEYS), "id": "a"}).mapping_text == settings.mapping_text

"""What tables on Amazon Keyspaces are made and changed with, and where it is. No node has that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import botocore.session
import pytest

from tallyroll.adapters.aws.client import region
from tallyroll.adapters.cassandra import cql, opened
from tallyroll.adapters.cassandra.amazon import endpoint_in
from tallyroll.adapters.cassandra.options import TableOptions, literal
from tallyroll.adapters.cassandra.session import Connection, Endpoint
from tallyroll.adapters.cassandra.tables import CassandraTables
from tallyroll.errors import Refused, Throttled
from tallyroll.settings import Settings
from tests.harness.cassandra import within_subset
from tests.harness.pipeline import StillEffects
from tests.unit.adapters.test_cassandra import Future

KEY = "arn:aws:kms:eu-west-1:123456789012:key/1"
UNITS = {"write": 900, "read": 90, "cold_write": 5, "cold_read": 50}
ON_DEMAND = "CUSTOM_PROPERTIES = {'capacity_mode': {'throughput_mode': 'PAY_PER_REQUEST'}, "
BACKUPS = "'point_in_time_recovery': {'status': 'enabled'}}"
PROVISIONED = (
    "CUSTOM_PROPERTIES = {'capacity_mode': {'throughput_mode': 'PROVISIONED',"
    " 'read_capacity_units': 90, 'write_capacity_units': 900}"
)
SECRET = f"{{'encryption_type': 'CUSTOMER_MANAGED_KMS_KEY', 'kms_key_identifier': '{KEY}'}}"
OWN_TAGS = " AND TAGS = {'team': 'it''s ours', 'tallyroll': 'tallyroll'}"
TAGS = " AND TAGS = {'tallyroll': 'tallyroll'}"


@pytest.mark.parametrize(
    ("settings", "peak", "options"),
    [
        (Settings(), 100_000, ON_DEMAND + BACKUPS + TAGS),
        (
            Settings(warm_units=5_000, warm_units_max=9_000, point_in_time_recovery=False),
            4_000,
            ON_DEMAND
            + "'warm_throughput': {'read_units_per_second': 12000, 'write_units_per_second': 6000},"
            " 'point_in_time_recovery': {'status': 'disabled'}}" + TAGS,
        ),
        (
            Settings(provisioned=UNITS, kms_key=KEY, tags={"team": "it's ours"}),
            100_000,
            f"{PROVISIONED}, 'encryption_specification': {SECRET}, {BACKUPS}{OWN_TAGS}",
        ),
    ],
    ids=["default", "warm", "provisioned"],
)
def test_options_of_a_new_table(settings: Settings, peak: int, options: str) -> None:
    found = TableOptions(settings).new({"tallyroll": "tallyroll"}, peak)
    assert found == options
    assert within_subset(cql.CREATE_WINDOW_WITH.format(table="k.t", options=found))


def test_capacity_is_lowered_once() -> None:
    options = TableOptions(Settings(provisioned=UNITS))
    hot = {"capacity_mode": {"read_capacity_units": "90", "write_capacity_units": "900"}}
    cold = {"capacity_mode": {"read_capacity_units": "50", "write_capacity_units": "5"}}
    lowered = (
        "CUSTOM_PROPERTIES = {'capacity_mode': {'throughput_mode': 'PROVISIONED',"
        " 'read_capacity_units': 50, 'write_capacity_units': 5}}"
    )
    assert options.cold(hot) == options.cold({}) == lowered
    assert within_subset(cql.ALTER_WINDOW.format(table="k.t", options=lowered))
    assert options.cold(cold) == ""
    assert TableOptions(Settings()).cold(hot) == ""


def test_texts_cannot_end_a_literal() -> None:
    assert literal({"a'} AND": "b"}) == "{'a''} AND': 'b'}"


class Keyspaces:
    """A session that answers which status and properties a table has, and keeps what is changed."""

    def __init__(self, status: str, properties: dict[str, Any] | None = None) -> None:
        self.status, self.properties = status, properties
        self.changed: list[str] = []
        self.put: list[Any] = []

    def prepare(self, text: str) -> Any:
        def bind(values: Any) -> Any:
            return SimpleNamespace(text=text, values=values, fetch_size=None)

        return SimpleNamespace(bind=bind)

    def execute_async(self, bound: Any, paging_state: bytes | None = None) -> Future:
        rows: list[tuple[Any, ...]] = [("t",)]
        if "custom_properties" in bound.text:
            rows = [(self.properties,)]
        elif " status " in bound.text:
            rows = [(self.status,)] if self.status else []
        elif bound.text.startswith("INSERT"):
            self.put.append(bound.values)
        return Future(SimpleNamespace(column_names=["a"], current_rows=rows, paging_state=None))

    def execute(self, text: str, timeout: float) -> None:
        assert within_subset(text)
        self.changed.append(text)


def tables(session: Keyspaces, settings: Settings) -> CassandraTables:
    endpoint = Endpoint(("h",), "k", status_keyspace="mcs", options=TableOptions(settings))
    cluster = SimpleNamespace(shutdown=lambda: None)
    return CassandraTables(Connection(cluster, session, endpoint, StillEffects()))


def test_a_table_is_made_with_options_and_tags() -> None:
    session = Keyspaces(status="")
    tables(session, Settings(tags={"team": "x"})).make_table("t-1", {"tallyroll": "n"})
    [made] = session.changed
    assert made.startswith('CREATE TABLE IF NOT EXISTS k."t_1" (key text')
    assert made.endswith("'enabled'}} AND TAGS = {'team': 'x', 'tallyroll': 'n'}")


def test_tags_are_the_tables_own_before_they_are_rows() -> None:
    session = Keyspaces("ACTIVE")
    tables(session, Settings()).tag_table("t-1", {"proven": "x"})
    assert session.changed == ["ALTER TABLE k.\"t_1\" ADD TAGS {'proven': 'x'}"]
    assert session.put == [("t-1", "tag.proven", "x")]


@pytest.mark.parametrize("status", ["CREATING", "UPDATING"])
def test_a_table_that_is_changing_is_not_changed(status: str) -> None:
    session = Keyspaces(status)
    with pytest.raises(Throttled):
        tables(session, Settings()).tag_table("t-1", {"proven": "x"})
    assert session.changed == session.put == []


@pytest.mark.parametrize(("given", "times"), [(UNITS, 1), ({}, 0)])
def test_a_sealed_table_is_cooled(given: dict[str, int], times: int) -> None:
    session = Keyspaces("ACTIVE", None)
    tables(session, Settings(provisioned=given)).reduce_capacity("t-1")
    assert len(session.changed) == times
    assert all("'write_capacity_units': 5}" in text for text in session.changed)


@pytest.mark.parametrize(
    ("region", "fips", "host"),
    [
        ("eu-west-1", "", "cassandra.eu-west-1.amazonaws.com"),
        ("us-east-1", "true", "cassandra-fips.us-east-1.amazonaws.com"),
        ("cn-north-1", "", "cassandra.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_where_it_is(region: str, fips: str, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", fips)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:5000")
    settings = Settings(provisioned=UNITS)
    found = endpoint_in(botocore.session.Session(), region, "votes", settings)
    assert (found.hosts, found.port, found.datacenter) == ((host,), 9142, region)
    assert found.status_keyspace == "system_schema_mcs"
    assert found.keyspace == "votes"
    assert found.options == TableOptions(settings)


def test_a_pipeline_without_a_node_connects_to_its_region(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Stop(Exception):
        pass

    def connect(*given: Any, **named: Any) -> None:
        asked.append((*given, named))
        raise Stop

    monkeypatch.setattr(opened, "connect", connect)
    settings = Settings(name="vote-night", store="keyspaces")
    with pytest.raises(Stop):
        opened.open_rows(settings, StillEffects())
    [(endpoint, _, secured)] = asked
    assert endpoint.keyspace == "vote_night"
    assert endpoint.hosts == (f"cassandra.{region()}.amazonaws.com",)
    assert secured["auth_provider"].new_authenticator("h").initial_response() == b"SigV4\0\0"
    assert secured["ssl_context"].check_hostname


def test_without_a_region_there_is_nowhere() -> None:
    with pytest.raises(Refused) as refused:
        endpoint_in(botocore.session.Session(), "", "votes", Settings())
    assert refused.value.code == "NoRegion"

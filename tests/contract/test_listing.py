"""What every listing of tables promises, and what DynamoDB's pages and refusals come to."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from typing import cast

import pytest
from moto import mock_aws

from tallyroll.adapters.aws.client import Caller, make_client
from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.adapters.aws.deployment import LambdaDeployment
from tallyroll.adapters.dynamodb.tools.listing import DynamoListing
from tallyroll.adapters.memory import MemoryListing, MemoryStore
from tallyroll.errors import Missing, Refused, Throttled
from tallyroll.ports.table_listing import TableCard, TableListing
from tallyroll.resources import TableDeclaration
from tests.contract.engines import Engine, SteadyEffects, counted, record


@pytest.fixture
def listing(engine: Engine) -> TableListing:
    if isinstance(engine.store, MemoryStore):
        return MemoryListing(engine.store)
    return DynamoListing(Caller(make_client("dynamodb"), SteadyEffects()))


def test_tables_are_listed_and_described(engine: Engine, listing: TableListing) -> None:
    spec = engine.opened()
    counted(engine.store, spec, record(spec, "a", "x"))
    assert [name for name in listing.names() if name == spec.table] == [spec.table]
    card = listing.card(spec.table)
    assert card
    assert (card.name, card.status, card.protected) == (spec.table, "ACTIVE", True)
    assert card.keys == ("pk S HASH", "sk S RANGE")
    assert card.items >= 0
    assert listing.tags(card) in (None, {"tallyroll": engine.prefix})
    assert listing.recovery(card) in (None, False)
    assert listing.expires_by(card) in (None, "")


def test_items_that_expire(engine: Engine, listing: TableListing) -> None:
    spec = engine.made()
    card = listing.card(spec.table)
    assert card
    if isinstance(engine.store, MemoryStore):
        declared = TableDeclaration(name="identities", tags={}, sort_key="", expires_by="expires")
        listing = MemoryListing(engine.store, (declared,))
        card = listing.card("identities")
        assert card
        assert card.keys == ("pk S HASH",)
    elif listing.expires_by(card) is None:
        pytest.skip("the engine knows no expiry")
    else:
        make_client("dynamodb").update_time_to_live(
            TableName=spec.table,
            TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires"},
        )
    assert listing.expires_by(card) == "expires"


def test_protection_is_put_back(engine: Engine, listing: TableListing) -> None:
    spec = engine.made()
    if isinstance(engine.store, MemoryStore):
        engine.store.table(spec.table).protected = False
    else:
        engine.store.drop_table(spec.table)
    bare = listing.card(spec.table)
    assert bare
    assert not bare.protected
    listing.protect(spec.table)
    card = listing.card(spec.table)
    assert card
    assert card.protected


def test_a_table_that_is_not_there(engine: Engine, listing: TableListing) -> None:
    name = f"{engine.prefix}-none"
    assert listing.card(name) is None
    assert name not in list(listing.names())
    with pytest.raises(Missing):
        listing.protect(name)


def _made(name: str, tags: Mapping[str, str]) -> TableCard:
    client = make_client("dynamodb")
    client.create_table(**table_request(TableDeclaration(name=name, tags=tags)))
    card = DynamoListing(Caller(client, SteadyEffects())).card(name)
    assert card
    return card


def test_pages_of_names_and_tags() -> None:
    with mock_aws():
        tags = {f"tag-{number:02}": str(number) for number in range(25)}
        card = _made("votes-000", tags)
        names = [f"votes-{number:03}" for number in range(105)]
        for name in names[1:]:
            _made(name, {})
        listing = DynamoListing(Caller(make_client("dynamodb"), SteadyEffects()))
        assert sorted(listing.names()) == names
        assert listing.tags(card) == tags


def test_recovery_that_is_on() -> None:
    with mock_aws():
        client = make_client("dynamodb")
        card = _made("votes-000", {})
        listing = DynamoListing(Caller(client, SteadyEffects()))
        assert listing.recovery(card) is False
        client.update_continuous_backups(
            TableName="votes-000",
            PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True},
        )
        assert listing.recovery(card) is True


def test_a_table_that_is_being_changed_is_protected_later() -> None:
    with mock_aws():
        client = make_client("dynamodb")

        def in_use(**_: object) -> None:
            error = {"Error": {"Code": "ResourceInUseException", "Message": "it changes"}}
            raise client.exceptions.ResourceInUseException(error, "UpdateTable")

        client.update_table = in_use
        with pytest.raises(Throttled):
            DynamoListing(Caller(client, SteadyEffects())).protect("votes-000")


def test_the_settings_of_a_deployment() -> None:
    with mock_aws():
        deployment = LambdaDeployment(Caller(make_client("lambda"), SteadyEffects()))
        assert deployment.environment("votes") is None
        code = io.BytesIO()
        with zipfile.ZipFile(code, "w") as archive:
            archive.writestr("handler.py", "")
        role = make_client("iam").create_role(
            RoleName="votes", AssumeRolePolicyDocument=json.dumps({"Statement": []})
        )
        environment = {"TALLYROLL_NAME": "votes", "TALLYROLL_SHARDS": "8", "LOG_LEVEL": "INFO"}
        make_client("lambda").create_function(
            FunctionName="votes-roller",
            Runtime="python3.13",
            Role=role["Role"]["Arn"],
            Handler="handler.handler",
            Code={"ZipFile": code.getvalue()},
            Environment={"Variables": environment},
        )
        found = deployment.environment("votes")
        assert found == {"TALLYROLL_NAME": "votes", "TALLYROLL_SHARDS": "8"}
        assert deployment.environment("vote") is None


def test_settings_that_the_caller_may_not_decrypt_are_no_defaults() -> None:
    """Lambda answers with an error in the place of the variables if the key may not be used."""

    class Denied:
        @staticmethod
        def read(operation: str, **_: object) -> dict[str, object]:
            error = {
                "ErrorCode": "AccessDeniedException",
                "Message": "Lambda was unable to decrypt",
            }
            return {"Environment": {"Error": error}}

    with pytest.raises(Refused, match=r"environment of votes-roller: Access.* unable to decrypt"):
        LambdaDeployment(cast("Caller", Denied())).environment("votes")

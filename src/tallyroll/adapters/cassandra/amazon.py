"""Amazon Keyspaces: where it is in a Region.

Sources: Amazon Keyspaces Developer Guide, "Service endpoints", "Using a Cassandra Python client
driver to access Amazon Keyspaces programmatically" (a data center has its Region's name) and
"Functional differences" (tables are made and dropped asynchronously).
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from botocore.config import Config

from tallyroll.adapters.cassandra.options import TableOptions
from tallyroll.adapters.cassandra.session import Endpoint
from tallyroll.errors import Refused
from tallyroll.settings import Settings

if TYPE_CHECKING:
    from botocore.session import Session

PORT = 9142
STATUS_KEYSPACE = "system_schema_mcs"


def endpoint_in(session: Session, region: str, keyspace: str, settings: Settings) -> Endpoint:
    """Amazon Keyspaces in a Region, for a keyspace of a pipeline; a FIPS endpoint if the AWS
    environment asks for these. Raises Refused without a Region.
    """
    if not region:
        raise Refused("the AWS environment has no Region: set AWS_REGION", "NoRegion")
    # Variables such as AWS_ENDPOINT_URL are about HTTP.
    config = Config(ignore_configured_endpoint_urls=True)  # type: ignore[call-arg] # the stubs' lack
    client = session.create_client("keyspaces", region_name=region, config=config)
    host = urlsplit(client.meta.endpoint_url).hostname
    assert host
    return Endpoint(
        (host,),
        keyspace,
        port=PORT,
        datacenter=region,
        status_keyspace=STATUS_KEYSPACE,
        options=TableOptions(settings),
    )

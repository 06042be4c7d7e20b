"""How a connection to Amazon Keyspaces is signed and encrypted.

The server sends a nonce. The client signs it with Signature Version 4, as if it were the body of
`PUT /authenticate` of the host `cassandra`. A signature is valid for 15 minutes, long enough for
the connection to be made; the connection itself stays as long as it is used.

Sources: Amazon Keyspaces Developer Guide, "Create and configure AWS credentials for Amazon
Keyspaces", which names AWS's plugins for the drivers; AWS Identity and Access Management User
Guide, "Create a signed AWS API request". The tests sign what those of AWS's plugin sign.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from botocore.httpsession import get_cert_path
from cassandra import AuthenticationFailed
from cassandra.auth import Authenticator, AuthProvider

from tallyroll.errors import Refused
from tallyroll.ports.effects import Effects

if TYPE_CHECKING:
    from botocore.credentials import Credentials
    from botocore.session import Session

FIRST_RESPONSE = b"SigV4\0\0"
SERVICE = "cassandra"
_ALGORITHM = "AWS4-HMAC-SHA256"
_VALID_S = 900
_NONCE = re.compile(rb"nonce=([^\s,]{32})")


def auth_provider(session: Session, region: str, effects: Effects) -> Any:
    """What the driver signs connections with: a botocore session's credentials, refreshed before
    they expire. Raises Refused if the session has none.
    """
    credentials = session.get_credentials()
    if credentials is None:
        raise Refused(
            "there are no AWS credentials to sign connections to Amazon Keyspaces with: give a"
            " profile (AWS_PROFILE) or a role",
            "NoCredentials",
        )
    return _SignedConnections(credentials, region, effects)


def tls_context(session: Session) -> ssl.SSLContext:
    """TLS by the certificates that botocore trusts, Amazon's roots among them, or by the bundle of
    AWS_CA_BUNDLE. The server's name is checked.
    """
    bundle = session.get_config_variable("ca_bundle") or get_cert_path(verify=True)
    return ssl.create_default_context(cafile=bundle)


class _SignedConnections(AuthProvider):  # type: ignore[misc] # the driver has no types
    def __init__(self, credentials: Credentials, region: str, effects: Effects) -> None:
        self._credentials = credentials
        self._region = region
        self._effects = effects

    def new_authenticator(self, host: object) -> _SignedConnection:  # noqa: ARG002 - of any host
        """One for each connection."""
        return _SignedConnection(self._credentials, self._region, self._effects)


class _SignedConnection(Authenticator):  # type: ignore[misc] # the driver has no types
    def __init__(self, credentials: Credentials, region: str, effects: Effects) -> None:
        self._credentials = credentials
        self._region = region
        self._effects = effects

    def initial_response(self) -> bytes:
        """The name of the method."""
        return FIRST_RESPONSE

    def evaluate_challenge(self, challenge: bytes) -> bytes:
        """The nonce's signature. Raises AuthenticationFailed if the challenge has no nonce."""
        found = _NONCE.search(challenge)
        if found is None:
            raise AuthenticationFailed("the server's challenge has no nonce to sign")
        # Of one moment, so that key, secret and token belong together.
        frozen = self._credentials.get_frozen_credentials()
        at = datetime.fromtimestamp(self._effects.now() / 1000, UTC)
        access_key, secret = str(frozen.access_key), str(frozen.secret_key)
        signed = signature(found[1], at, self._region, access_key, secret)
        parts = [f"signature={signed}", f"access_key={access_key}", f"amzdate={_stamp(at)}"]
        if frozen.token:
            parts.append(f"session_token={frozen.token}")
        return ",".join(parts).encode()


def signature(nonce: bytes, at: datetime, region: str, access_key: str, secret: str) -> str:
    """The signature of a nonce, in hexadecimal digits."""
    day = f"{at:%Y%m%d}"
    scope = f"{day}/{region}/{SERVICE}/aws4_request"
    query = "&".join(
        f"X-Amz-{name}={quote(value, safe='')}"
        for name, value in (
            ("Algorithm", _ALGORITHM),
            ("Credential", f"{access_key}/{scope}"),
            ("Date", _stamp(at)),
            ("Expires", str(_VALID_S)),
        )
    )
    hashed = hashlib.sha256(nonce).hexdigest()
    request = f"PUT\n/authenticate\n{query}\nhost:{SERVICE}\n\nhost\n{hashed}"
    text = "\n".join((_ALGORITHM, _stamp(at), scope, hashlib.sha256(request.encode()).hexdigest()))
    key = f"AWS4{secret}".encode()
    for part in (day, region, SERVICE, "aws4_request", text):
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


def _stamp(at: datetime) -> str:
    """A time as the signature has it, with milliseconds; not the form of HTTP requests."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""Signatures as the tests of AWS's plugin for the driver expect them, and trust.

The nonce, time, credentials and signature are those of `tests/test_auth.py` in
github.com/aws/aws-sigv4-auth-cassandra-python-driver-plugin (6d8b77b).
"""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import botocore.session
import pytest
from cassandra import AuthenticationFailed

from tallyroll.adapters.cassandra.signing import auth_provider, signature, tls_context
from tallyroll.errors import Refused
from tests.harness.pipeline import StillEffects

NONCE = b"91703fdc2ef562e19fbdab0f58e42fe5"
AT = datetime(2020, 6, 9, 22, 41, 51, tzinfo=UTC)
EXPECTED = "7f3691c18a81b8ce7457699effbfae5b09b4e0714ab38c1292dbdf082c9ddd87"


class At(StillEffects):
    def now(self) -> int:
        return round(AT.timestamp() * 1000)


def session(**credentials: str) -> Any:
    made = botocore.session.Session()
    made.set_credentials(access_key="UserID-1", secret_key="UserSecretKey-1", **credentials)
    return made


def test_the_signature_of_a_known_nonce() -> None:
    assert signature(NONCE, AT, "us-west-2", "UserID-1", "UserSecretKey-1") == EXPECTED


def test_a_handshake() -> None:
    one = auth_provider(session(), "us-west-2", At()).new_authenticator("host")
    assert one.initial_response() == b"SigV4\0\0"
    assert (
        one.evaluate_challenge(b"garbage nonce=" + NONCE + b" garbage")
        == (f"signature={EXPECTED},access_key=UserID-1,amzdate=2020-06-09T22:41:51.000Z").encode()
    )


def test_a_session_token_is_sent_along() -> None:
    one = auth_provider(session(token="a/b="), "us-west-2", At()).new_authenticator("host")
    assert one.evaluate_challenge(b"nonce=" + NONCE).endswith(b"000Z,session_token=a/b=")


def test_milliseconds_are_never_a_thousand() -> None:
    class Late(StillEffects):
        def now(self) -> int:
            return round(AT.timestamp() * 1000) + 999

    one = auth_provider(session(), "us-west-2", Late()).new_authenticator("host")
    assert b"amzdate=2020-06-09T22:41:51.999Z" in one.evaluate_challenge(b"nonce=" + NONCE)


def test_each_connection_is_signed_with_what_is_valid_then() -> None:
    keys = iter(["old", "new"])
    credentials = SimpleNamespace(
        get_frozen_credentials=lambda: SimpleNamespace(
            access_key=next(keys), secret_key="s", token=None
        )
    )
    given: Any = SimpleNamespace(get_credentials=lambda: credentials)
    provider = auth_provider(given, "us-west-2", At())
    said = [provider.new_authenticator("h").evaluate_challenge(b"nonce=" + NONCE) for _ in range(2)]
    assert [b"access_key=old" in said[0], b"access_key=new" in said[1]] == [True, True]


@pytest.mark.parametrize("challenge", [b"", b"nonce=short", b"other=" + NONCE])
def test_a_challenge_without_a_nonce(challenge: bytes) -> None:
    one = auth_provider(session(), "us-west-2", At()).new_authenticator("host")
    with pytest.raises(AuthenticationFailed):
        one.evaluate_challenge(challenge)


def test_without_credentials_nothing_is_connected_to() -> None:
    given: Any = SimpleNamespace(get_credentials=lambda: None)
    with pytest.raises(Refused, match="AWS_PROFILE") as refused:
        auth_provider(given, "us-west-2", At())
    assert refused.value.code == "NoCredentials"


def test_amazons_roots_are_trusted_and_names_are_checked() -> None:
    context = tls_context(botocore.session.Session())
    roots = [str(root["subject"]) for root in context.get_ca_certs()]
    trusted = [f"'Amazon Root CA {number}'" for number in (1, 2, 3, 4)]
    trusted.append("'Starfield Services Root Certificate Authority - G2'")
    assert [name for name in trusted if not any(name in root for root in roots)] == []
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_a_bundle_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "absent.pem"))
    with pytest.raises(FileNotFoundError):
        tls_context(botocore.session.Session())

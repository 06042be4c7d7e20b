"""A node of Cassandra behind TLS and signatures, as Amazon Keyspaces is."""

from __future__ import annotations

import socket
import ssl
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from local.cassandra.node import LOCALHOST
from tallyroll.adapters.cassandra.signing import FIRST_RESPONSE, signature

NONCE = b"0123456789abcdef0123456789abcdef"
# The native protocol, version 4: a header, and codes of messages.
_HEADER = struct.Struct(">BBhBi")
_ERROR, _STARTUP, _AUTHENTICATE, _CHALLENGE, _RESPONSE, _SUCCESS = 0, 1, 3, 14, 15, 16
_BAD_CREDENTIALS = 0x0100


@dataclass(frozen=True)
class Certificate:
    """A self-signed certificate for a host, in a file, and its key's file."""

    path: Path
    key: Path


def certificate(folder: Path, host: str) -> Certificate:
    """Make one that is valid for an hour."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    found = Certificate(folder / f"{host}.pem", folder / f"{host}.key")
    found.path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    found.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return found


@dataclass
class Front:
    """Listens with TLS, lets in who signs with this secret in this Region, and passes everything
    else on to a node. `let_in` and `refused` have the access keys.
    """

    node_port: int
    certificate: Certificate
    region: str
    secret: str
    let_in: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate.path, self.certificate.key)
        self._listening = socket.create_server((LOCALHOST, 0))
        self.port = int(self._listening.getsockname()[1])
        self._open: list[socket.socket] = []
        Thread(target=self._accept, args=(context,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listening, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self, context: ssl.SSLContext) -> None:
        with suppress(OSError):
            while True:
                plain, _ = self._listening.accept()
                Thread(target=self._serve, args=(context, plain), daemon=True).start()

    def _serve(self, context: ssl.SSLContext, plain: socket.socket) -> None:
        with suppress(OSError, EOFError):  # of who does not trust us, or hangs up
            client = context.wrap_socket(plain, server_side=True)
            node = socket.create_connection((LOCALHOST, self.node_port))
            self._open += [client, node]
            if self._signed(client, node):
                Thread(target=pump, args=(node, client), daemon=True).start()
                pump(client, node)

    def _signed(self, client: socket.socket, node: socket.socket) -> bool:
        """Pass messages on until the client has signed the nonce, or failed to."""
        while True:
            version, stream, kind, frame = _read(client)
            body = frame[_HEADER.size :]

            def answer(code: int, body: bytes, to: tuple[int, int] = (version, stream)) -> None:
                head = _HEADER.pack(to[0] | 0x80, 0, to[1], code, len(body))
                client.sendall(head + body)

            if kind != _RESPONSE:
                node.sendall(frame)
                reply = _read(node)[3]
                if kind == _STARTUP:
                    answer(_AUTHENTICATE, _text(b"of.the.Region"))
                else:
                    client.sendall(reply)
            elif body[4:] == FIRST_RESPONSE:
                challenge = b"nonce=" + NONCE
                answer(_CHALLENGE, struct.pack(">i", len(challenge)) + challenge)
            elif self._lets_in(body[4:].decode()):
                answer(_SUCCESS, struct.pack(">i", -1))
                return True
            else:
                answer(_ERROR, struct.pack(">i", _BAD_CREDENTIALS) + _text(b"wrong signature"))

    def _lets_in(self, response: str) -> bool:
        said = dict(part.split("=", 1) for part in response.split(","))
        at, key = datetime.fromisoformat(said["amzdate"]), said["access_key"]
        right = said["signature"] == signature(NONCE, at, self.region, key, self.secret)
        (self.let_in if right else self.refused).append(key)
        return right


def _read(source: socket.socket) -> tuple[int, int, int, bytes]:
    """A message: version, stream, kind, and all its bytes."""
    head = _exactly(source, _HEADER.size)
    version, _, stream, kind, length = _HEADER.unpack(head)
    return version & 0x7F, stream, kind, head + _exactly(source, length)


def _exactly(source: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        some = source.recv(size - len(found))
        if not some:
            raise EOFError
        found += some
    return found


def _text(text: bytes) -> bytes:
    return struct.pack(">h", len(text)) + text


def pump(source: socket.socket, to: socket.socket) -> None:
    """Pass on what comes, until one of them hangs up."""
    with suppress(OSError):
        while some := source.recv(65_536):
            to.sendall(some)
        to.shutdown(socket.SHUT_RDWR)

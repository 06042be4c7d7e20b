"""A shared cache in Valkey or Redis: one node, or a service that looks like one.

Each command names one entry, and none follows a redirection. So it works with a serverless cache of
ElastiCache, too, which has a single address for all its slots.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import valkey

from tallyroll.errors import Unknown
from tallyroll.ports.counting.shared_cache import ENTRY_BYTES_MAX

WAIT_MS = 200


class ValkeyCache:
    """The cache at an address `rediss://USER:PASSWORD@HOST:PORT`, whose certificate one of the
    system's authorities (or of the file that `SSL_CERT_FILE` names) vouches for. `redis://` is
    without TLS.
    """

    def __init__(self, url: str, wait_ms: int = WAIT_MS) -> None:
        self._url, self._wait_ms = url, wait_ms

    @cached_property
    def _client(self) -> Any:
        """Made by the first call: an address that is none fails that call, and no read."""
        wait_ms = self._wait_ms
        of_tls = {"ssl_check_hostname": True} if self._url.startswith("rediss:") else {}
        options: dict[str, Any] = {
            "socket_timeout": wait_ms / 1000,
            "socket_connect_timeout": wait_ms / 1000,
            "lib_name": None,  # else each connection begins with two more commands
            "lib_version": None,
            **of_tls,
        }
        pools: Any = valkey.ConnectionPool  # its types have gaps, and so have those of the client
        return valkey.Valkey(connection_pool=pools.from_url(self._url, **options))

    @property
    def wait_ms(self) -> int:
        return self._wait_ms

    def get(self, names: Sequence[str]) -> list[bytes | None]:
        with self._asking(), self._client.pipeline(transaction=False) as asked:
            for name in names:
                asked.getrange(name, 0, ENTRY_BYTES_MAX - 1)
            found = asked.execute()
        return [each if isinstance(each, bytes) and each else None for each in found]

    def put(self, entries: Mapping[str, bytes], kept_ms: int) -> None:
        with self._asking(), self._client.pipeline(transaction=False) as asked:
            for name, entry in entries.items():
                asked.set(name, entry, px=kept_ms)
            asked.execute()

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Drop all connections after a failure: what is left in them answers nobody's question.
        Another thread may be reading from one of them, and fail in any way.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001 (whatever it is, the read goes on without)
            if "_client" in vars(self):
                self._client.connection_pool.disconnect()
            raise Unknown(f"the shared cache: {type(error).__name__}", "SharedCache") from None

"""The shared cache on a server of Valkey, through TLS."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from tallyroll.adapters.valkey_cache import ValkeyCache
from tallyroll.errors import StoreError, Unknown
from tallyroll.ports.counting.shared_cache import ENTRY_BYTES_MAX
from tallyroll.reads.reader import PortReader
from tests.harness.keyspaces import certificate
from tests.harness.valkey import HOST, server, url_of, with_tls
from tests.unit.reads.test_reader import counted

WAIT_MS = 60_000  # no test waits for it
KEPT_MS = 600_000


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int, Path]]:
    """The port with TLS, the one without, and the certificate's file."""
    made = certificate(tmp_path_factory.mktemp("tls"), HOST)
    with ExitStack() as stack:
        plain = stack.enter_context(server())
        yield stack.enter_context(with_tls(plain, made)), plain, made.path


@pytest.fixture
def cache(ports: tuple[int, int, Path], monkeypatch: pytest.MonkeyPatch) -> ValkeyCache:
    monkeypatch.setenv("SSL_CERT_FILE", str(ports[2]))
    return ValkeyCache(url_of(ports[0]), WAIT_MS)


def test_entries_come_back_in_the_order_of_the_names(cache: ValkeyCache) -> None:
    cache.put({"a": b"1\r\n\0", "b": b"2"}, KEPT_MS)
    assert cache.get(["b", "none", "a"]) == [b"2", None, b"1\r\n\0"]


def test_readers_share_their_counts(cache: ValkeyCache) -> None:
    """The clock of the readers stands still, and that of the server has a minute."""
    pipeline = counted()
    ports = (pipeline.store, pipeline.catalog, pipeline.totals, pipeline.effects)
    settings = replace(pipeline.settings, cache_live_ms=60_000)
    first, second = (PortReader(settings, *ports, cache=cache) for _ in range(2))
    left_ms = 100 * WAIT_MS  # enough to ask the cache
    counts = first.counts(["k", "l"], time_left_ms=left_ms)
    found = second.counts(["k", "l"], time_left_ms=left_ms)
    assert [count.source for count in (*counts, *found)] == ["read", "read", "shared", "shared"]
    assert found == [replace(count, gathering=None) for count in counts]


def test_entries_go_by_themselves(cache: ValkeyCache) -> None:
    cache.put({"gone": b"1"}, 1)
    while cache.get(["gone"]) != [None]:
        pass
    cache.put({"stays": b"1"}, KEPT_MS)
    left = cache._client.pttl("stays")
    assert 0 < int(left) <= KEPT_MS


def test_of_a_long_entry_of_others_only_the_beginning_is_read(cache: ValkeyCache) -> None:
    cache.put({"long": b"x" * (ENTRY_BYTES_MAX + 1)}, KEPT_MS)
    assert cache.get(["long"]) == [b"x" * ENTRY_BYTES_MAX]


def test_what_is_no_text_under_the_name_is_no_entry(cache: ValkeyCache) -> None:
    cache._client.rpush("list", "x")
    with pytest.raises(Unknown):
        cache.get(["list"])
    cache.put({"after": b"1"}, KEPT_MS)
    assert cache.get(["after"]) == [b"1"]


@pytest.mark.parametrize("wrong", ["authority", "host", "password", "port", "plain"])
def test_who_is_not_who_it_should_be_is_told_nothing(
    ports: tuple[int, int, Path], wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls, plain, path = ports
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere" if wrong == "authority" else str(path))
    with socket.create_server(("127.0.0.1", 0)) as closed:
        unused = int(closed.getsockname()[1])
    url = {
        "authority": url_of(tls),
        "host": url_of(tls).replace(HOST, "127.0.0.1"),
        "password": url_of(tls).replace("p%2Fw", "other"),
        "port": url_of(unused),
        "plain": f"redis://127.0.0.1:{plain}",
    }[wrong]
    one, said = ValkeyCache(url, WAIT_MS), r"^the shared cache: \w+$"
    with pytest.raises(StoreError, match=said):
        one.get(["a"])
    with pytest.raises(StoreError, match=said):
        one.put({"a": b"forged"}, KEPT_MS)


@pytest.mark.parametrize("reply", [b"$x\r\n", b"?\r\n", b"*-7\r\n$3\r\n", b":1\r\n", b""])
def test_a_reply_that_is_none_is_an_error_or_no_entry(reply: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with listening.accept()[0] as one:
                one.recv(65_536)
                one.sendall(reply)

        thread = Thread(target=answer)
        thread.start()
        cache = ValkeyCache(f"redis://127.0.0.1:{listening.getsockname()[1]}", WAIT_MS)
        with suppress(StoreError):
            assert cache.get(["a"]) == [None]
        thread.join()


def test_nobody_waits_for_a_server_that_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cache = ValkeyCache(f"redis://127.0.0.1:{silent.getsockname()[1]}", 10)
        with pytest.raises(Unknown, match="Timeout"):
            cache.get(["a"])


def test_an_address_that_is_none_fails_a_call_and_not_the_making() -> None:
    cache = ValkeyCache("rediss://u:a#b@host:6379/0")
    with pytest.raises(Unknown, match="shared cache"):
        cache.get(["n"])


def test_a_connection_that_another_thread_closes_is_a_failure_like_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = ValkeyCache("redis://127.0.0.1:1")

    def closed(*_: object, **__: object) -> None:
        raise AttributeError("'NoneType' object has no attribute 'read'")

    monkeypatch.setattr(cache._client, "pipeline", closed)
    with pytest.raises(Unknown, match="AttributeError"):
        cache.get(["n"])

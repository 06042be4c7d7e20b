"""An AWS on this machine: moto, DynamoDB Local, and the resources of one pipeline in them.

Everything it starts ends with it, however it ends. Nothing is kept, if not in a `KeptDir`.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Self

import boto3
from botocore.config import Config

from local.aws import dynamodb_local
from local.aws.guard import spawn_guarded
from local.aws.kept_dir import KeptDir
from tallyroll.model.windows import KEYSPACES
from tallyroll.settings import Settings
from tallyroll.testing.emulated import create_bucket, create_queues, create_tables

CASSANDRA = "cassandra"
ENGINES = ("dynamodb-local", "moto", CASSANDRA)
START_TIMEOUT_S = 30.0
REGION = "us-east-1"
_ROOT = Path(__file__).parents[2]
# DynamoDB Local takes letters and digits only.
_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "local",
    "AWS_SECRET_ACCESS_KEY": "local",
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}


class Embedded:
    """The emulators and a pipeline's queues, permanent tables and bucket, inside the `with` block.

    Args:
        settings: The pipeline's; queue addresses and bucket are filled in, and archives are read.
        engine: What keeps the tables: `dynamodb-local`; `moto` (for small tables only, but starts
            at once); or `cassandra`: a node of Cassandra keeps those of windows, and DynamoDB Local
            the others.
        dynamodb_endpoint: The address of a DynamoDB Local that runs already, to be used instead and
            left running.
        port, dynamodb_port: The loopback ports to take (0: free ones).
        optimized: Whether Java optimizes a DynamoDB Local that is started here as far as it can:
            for loads of minutes.
        keep: What keeps tables, queues and buckets, with the engine `dynamodb-local`.

    Attributes:
        settings: The settings with queue addresses and bucket, once entered.
        environment: What a process needs to use the pipeline: AWS's variables and the settings'.
        pids: The process ids by name: `moto` and, if they were started here, `dynamodb-local` and
            `cassandra`.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        engine: str = ENGINES[0],
        dynamodb_endpoint: str | None = None,
        port: int = 0,
        dynamodb_port: int = 0,
        optimized: bool = False,
        keep: KeptDir | None = None,
    ) -> None:
        if engine not in ENGINES:
            raise ValueError(f"engine {engine!r}: must be one of {', '.join(ENGINES)}")
        self.settings = settings
        self.environment: dict[str, str] = {}
        self.pids: dict[str, int] = {}
        self._engine = engine
        self._dynamodb_endpoint = dynamodb_endpoint
        self._port, self._dynamodb_port, self._optimized = port, dynamodb_port, optimized
        self._keep = keep
        self._stack = ExitStack()
        self._moto: _Moto | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            keep = self._keep
            moto = stack.enter_context(_Moto(self._port, keep))
            dynamodb = self._dynamodb_endpoint
            if dynamodb is None and self._engine != "moto":
                started = dynamodb_local.start(
                    self._dynamodb_port or None,
                    optimized=self._optimized,
                    keep=keep.tables if keep else None,
                    held=[keep.lock] if keep else [],
                )
                local = stack.enter_context(started)
                dynamodb = local.endpoint
                self.pids["dynamodb-local"] = local.pid
            endpoint = moto.await_endpoint()
            self._moto = moto
            self.pids["moto"] = moto.pid
            self.environment = {
                **_CREDENTIALS,
                "AWS_ENDPOINT_URL": endpoint,
                "AWS_ENDPOINT_URL_DYNAMODB": dynamodb or endpoint,
            }
            settings = create_queues(self.settings, self.client("sqs"))
            settings = create_bucket(settings, self.client("s3"))
            self.settings = replace(settings, read_archives=True)
            create_tables(self.settings, self.client("dynamodb"))
            if self._engine == CASSANDRA:
                self._keep_windows_on(stack)
            self.environment |= self.settings.to_env()
            self._stack = stack.pop_all()
        return self

    def _keep_windows_on(self, stack: ExitStack) -> None:
        from local.cassandra import keyspace, node  # noqa: PLC0415  (they load the driver)

        started = stack.enter_context(node.start())
        self.pids["cassandra"] = started.pid
        address = f"{node.LOCALHOST}:{started.port}"
        self.settings = replace(self.settings, store=KEYSPACES, cassandra=address)
        keyspace.make_keyspace(started.port, self.settings.window_keyspace)

    def __exit__(self, *_: object) -> None:
        self._moto = None
        self._stack.close()

    def client(self, service: str) -> Any:
        """A boto3 client of a service of this AWS, such as `sqs`; threads may share it."""
        own = f"AWS_ENDPOINT_URL_{service.upper()}"
        session: Any = boto3.session.Session(
            aws_access_key_id=_CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=_CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
            region_name=REGION,
        )
        return session.client(
            service,
            endpoint_url=self.environment.get(own, self.environment["AWS_ENDPOINT_URL"]),
            config=Config(
                parameter_validation=False,
                retries={"mode": "standard", "total_max_attempts": 2},
                max_pool_connections=32,
            ),
        )

    def memory(self) -> dict[str, int | None]:
        """The resident memory of each process in bytes; None where the system does not tell."""
        return {name: resident_bytes(pid) for name, pid in self.pids.items()}

    def complaints(self) -> str:
        """What moto wrote to stderr so far: the tracebacks of requests that it could not answer."""
        return self._moto.complaints() if self._moto else ""


class _Moto:
    """The process of `local.aws.moto_server`."""

    def __init__(self, port: int, keep: KeptDir | None) -> None:
        self._port = port
        file = ["--keep", str(keep.queues_and_bucket)] if keep else []
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed in __exit__)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
        self._process = spawn_guarded(
            [sys.executable, "-m", "local.aws.moto_server", "--port", str(port), *file],
            held=[keep.lock] if keep else [],
            cwd=_ROOT,
            env=environment | _CREDENTIALS,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self.pid = self._process.child_pid

    def await_endpoint(self) -> str:
        """Its address, once it listens. Raises RuntimeError with its output if it does not."""
        assert self._process.stdout
        ready, _, _ = select.select([self._process.stdout], [], [], START_TIMEOUT_S)
        port = self._process.stdout.readline().strip() if ready else b""
        if not port.isdigit():
            status = self._process.stop()
            said = self.complaints()
            if "Address already in use" in said:
                raise RuntimeError(f"port {self._port} is not free: Address already in use")
            raise RuntimeError(f"the moto server did not start (status {status}):\n{said}")
        return f"http://127.0.0.1:{int(port)}"

    def complaints(self) -> str:
        """What it wrote to stderr so far."""
        # Not by seeking: the process writes where the shared position stands.
        size = os.fstat(self._errors.fileno()).st_size
        return os.pread(self._errors.fileno(), size, 0).decode(errors="replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop()
        if self._process.stdout:
            self._process.stdout.close()
        self._errors.close()


def resident_bytes(pid: int) -> int | None:
    """A process's resident memory; None on systems without /proc, or if the process is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def scaled_settings(name: str, window_seconds: int) -> Settings:
    """The default settings in their proportions to the hour, for windows of another length.

    What has a least sensible length on a laptop, such as the roller's period, is not made shorter
    than that.
    """
    hour = Settings(name=name)
    part = window_seconds / hour.window_seconds

    def scaled(ms: int, least: int) -> int:
        return max(least, min(ms, int(ms * part)))

    return replace(
        hour,
        window_seconds=window_seconds,
        accept_for_ms=int(hour.accept_for_ms * part),
        retention_ms=int(hour.retention_ms * part),
        skew_ms=scaled(hour.skew_ms, 1_000),
        roller_period_ms=scaled(hour.roller_period_ms, 1_000),
        drain_period_ms=scaled(hour.drain_period_ms, 1_000),
        drain_margin_ms=scaled(hour.drain_margin_ms, 1_000),
        settle_ms=scaled(hour.settle_ms, 500),
        visibility_ms=scaled(hour.visibility_ms, 30_000),
    )

"""`tallyroll.Producer` in processes that fork, end and are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Event as Signal
from typing import Any

import pytest

from tallyroll import Producer
from tallyroll.adapters.journal import FileJournal
from tallyroll.client.receipts import Outgoing
from tallyroll.client.spool import Spool
from tests.harness.processes import ran

URL = "https://sqs.eu-west-1.amazonaws.com/123456789012/votes"


class Taking:
    """A client that takes everything."""

    def __init__(self) -> None:
        self.bodies: list[str] = []

    def send_message_batch(self, **request: Any) -> dict[str, Any]:
        self.bodies += [entry["MessageBody"] for entry in request["Entries"]]
        return {"Successful": [{"Id": entry["Id"]} for entry in request["Entries"]]}


def events_in(bodies: Sequence[str]) -> int:
    return sum(len(json.loads(body).get("events", [None])) for body in bodies)


def test_a_child_process_begins_anew() -> None:
    done = _python(FORKS)
    assert done.stdout.split() == ["child", "1", "parent", "1"], done.stderr


def test_a_child_leaves_the_spool_to_its_parent(tmp_path: Path) -> None:
    done = _python(LEAVES_SPOOL, str(tmp_path / "spool"))
    assert done.stdout.splitlines() == [
        "parent: another producer has it open",
        "child: was made before a fork",
        "after close: opened",
        "after a crash: opened",
    ], done.stderr


def test_a_child_does_not_wait_for_a_thread_of_its_parent() -> None:
    """A thread of the parent holds the lock of callbacks while the process is forked."""
    done = _python(LOCKED)
    assert done.stdout == "child sent 1\n", done.stderr


def test_a_child_does_not_wait_for_a_client_that_its_parent_was_making() -> None:
    done = _python(MAKING)
    assert done.stdout == "child made one of eu-west-1\n", done.stderr


def test_a_child_does_not_share_a_client_with_its_parent() -> None:
    """Each would read the other's answers."""
    done = _python(SHARED)
    assert done.stdout == (
        "the producer was made before a fork with a client of its own: make one after it\n"
    ), done.stderr


def test_what_is_left_is_sent_when_the_interpreter_ends() -> None:
    assert _python(LEAVES).stdout == "sent 1\n"


@pytest.mark.parametrize("kill_at", [1, 40, 333])
def test_after_a_kill_the_next_start_sends_the_rest_under_the_same_ids(
    tmp_path: Path, kill_at: int
) -> None:
    sent, spool = tmp_path / "sent", tmp_path / "spool"
    killed = _python(DIES, str(spool), str(sent), str(kill_at))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    accepted = int(killed.stdout.split()[-1])
    before = sent.read_text().splitlines() if sent.exists() else []

    client = Taking()
    with Producer(URL, client=client, spool=spool) as producer:
        assert producer.stats.recovered <= accepted
    bodies = {*before, *client.bodies}
    ids = [json.loads(body)["id"] for body in bodies]
    assert len(ids) == len(set(ids)), "one id has two contents"
    assert events_in(list(bodies)) == accepted
    assert spool.read_bytes() == b""


def test_what_a_spool_holds_is_sent_without_being_asked_for(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path / "spool")
    Spool(journal).open(Outgoing(0, "packet-1", "k", 0.0, 1_795_163_400_000), "[1]")
    journal.close()
    client, delivered = Taking(), Signal()
    path = tmp_path / "spool"
    with Producer(URL, client=client, spool=path, on_delivery=lambda _: delivered.set()):
        assert delivered.wait(60)
    (body,) = client.bodies
    assert json.loads(body)["id"] == "packet-1"


def _python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return ran(
        [sys.executable, "-W", "ignore", "-c", STAND_IN + code, *arguments],
        timeout=300,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


STAND_IN = f"""
import os, signal, sys
from tallyroll import Producer
URL = {URL!r}
class Client:
    taken = 0
    def send_message_batch(self, QueueUrl, Entries):
        self.take([entry["MessageBody"] for entry in Entries])
        return {{"Successful": [{{"Id": entry["Id"]}} for entry in Entries]}}
    def take(self, bodies):
        self.taken += len(bodies)
"""
MADE = """
import tallyroll.pipeline as wiring
client = Client()
wiring.LateClient = lambda *_: client
"""
FORKS = f"""
{MADE}
producer = Producer(URL, linger_ms=3_600_000)
producer.send("held by the parent")
child = os.fork()
if child == 0:
    producer.send("of the child")
    producer.flush()
    print("child", client.taken, flush=True)
    os._exit(0)
os.waitpid(child, 0)
producer.close()
print("parent", client.taken)
"""
LEAVES_SPOOL = """
import subprocess
from pathlib import Path
from tallyroll.adapters.journal import FileJournal
from tallyroll.errors import UsageError
def opened():
    try:
        FileJournal(Path(sys.argv[1])).close()
        return "opened"
    except UsageError as error:
        return str(error).split(": ")[1].split(";")[0]
producer = Producer(URL, client=Client(), spool=sys.argv[1])
told, tell = os.pipe()
child = os.fork()
if child == 0:
    try:
        producer.send("k")
    except UsageError as error:
        text = str(error).removeprefix("the producer ").split(",")[0]
    os.write(tell, b"child: " + text.encode() + bytes([10]))
    signal.pause()
said = os.read(told, 1000).decode()
print("parent:", opened())
print(said, end="")
producer.close()
print("after close:", opened())
crashing = os.fork()
if crashing == 0:
    mine = FileJournal(Path(sys.argv[1]))
    if os.fork() == 0:
        os.write(tell, b"there")
        signal.pause()
    os.read(told, 1000)
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(crashing, 0)
print("after a crash:", opened(), flush=True)
os.kill(child, signal.SIGKILL)
os.killpg(os.getpgid(0), signal.SIGKILL)
"""
MAKING = """
from tallyroll.adapters.aws import client
late = client.LateClient("sqs", "eu-west-1")
client._making.acquire()
child = os.fork()
if child == 0:
    print("child made one of", late.meta.region_name, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
SHARED = """
from tallyroll.errors import UsageError
producer = Producer(URL, client=Client())
child = os.fork()
if child == 0:
    try:
        producer.send("k")
    except UsageError as error:
        print(error, flush=True)
    producer.close()
    os._exit(0)
os.waitpid(child, 0)
producer.close()
"""
LOCKED = f"""
from tallyroll.client import receipts
{MADE}
producer = Producer(URL)
receipts._turn.acquire()
child = os.fork()
if child == 0:
    signal.alarm(120)  # ends a child that hangs
    producer.send("k")
    producer.flush(60)
    print("child sent", client.taken, flush=True)
    os._exit(0)
receipts._turn.release()
os.waitpid(child, 0)
"""
LEAVES = """
class Told(Client):
    def take(self, bodies):
        print("sent", len(bodies))
producer = Producer(URL, client=Told(), linger_ms=3_600_000)
producer.send("k")
"""
DIES = """
spool, sent, kill_at = sys.argv[1], sys.argv[2], int(sys.argv[3])
class Noting(Client):
    def take(self, bodies):
        with open(sent, "a") as file:
            file.writelines(body + chr(10) for body in bodies)
producer = Producer(URL, client=Noting(), spool=spool, linger_ms=1, packet_events=20)
for number in range(1, 1000):
    producer.send("key-%d" % (number % 3), payload={"n": number})
    os.write(1, b"%d\\n" % number)
    if number == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)
"""

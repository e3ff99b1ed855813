"""Killed while verdicts are posted: whatever was acknowledged is there afterwards."""

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from lengths import length
from made import stored
from membra.store.verdicts import SAYS, Verdicts

KILLS = length(20, 100, 100)

# A server is slow to start, so one process serves and is killed again and again: it forks a child that does the work.
FORKING = """
import os, signal, socket, sys
from pathlib import Path
import uvicorn
from membra.show.web.app import create_app
from membra.show.web.safety import Guard

path, cache, token = sys.argv[1:]
listening = socket.socket()
listening.bind(("127.0.0.1", 0))
listening.listen(64)
print(listening.getsockname()[1], flush=True)
while True:
    child = os.fork()
    if child == 0:
        app = create_app(Path(path), guard=Guard(token=token), cache=Path(cache))
        print(os.getpid(), flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listening])
        os._exit(0)
    os.waitpid(child, 0)
"""


def post(port: int, number: int) -> bool:
    """Post one verdict; whether it was acknowledged."""
    sent = {
        "a": "0000.jpg",
        "b": f"{1 + number % 19:04d}.jpg",
        "says": SAYS[number % 4],
        "by": "x",
        "note": str(number),
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/verdicts",
        json.dumps(sent).encode(),
        {"content-type": "application/json", "x-membra-token": "fixed"},
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return bool(answer.status == 200 and json.loads(answer.read())["note"] == str(number))
    except (OSError, http.client.HTTPException, ValueError):  # cut off in the midst of an answer
        return False


@pytest.mark.slow
@pytest.mark.row(
    2,
    tried="three people post verdicts over HTTP without pause while the server is killed, at a random "
    "moment after it has acknowledged something: 100 kills, of which `make test` has 20",
    times=100,
    without="the answer given before the verdict is on the disk (written 10 ms later by a thread): dozens of "
    "acknowledged ones were lost",
)
@pytest.mark.long
def test_r02_no_kill_loses_an_acknowledged_verdict(tmp_path: Path) -> None:
    path = stored(tmp_path / "shelf", range(20)).path
    command = [sys.executable, "-c", FORKING, str(path), str(tmp_path / "cache"), "fixed"]
    own = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own, start_new_session=True)
    assert process.stdout
    port = int(process.stdout.readline())
    acknowledged: list[int] = []
    ended = threading.Event()

    def posting(first: int) -> None:
        number = first
        while not ended.is_set():
            if post(port, number):
                acknowledged.append(number)
            number += 3

    people = [threading.Thread(target=posting, args=(first,)) for first in range(3)]
    for person in people:
        person.start()
    draw = random.Random(0)
    kills = 0
    try:
        for _ in range(KILLS):
            child = int(process.stdout.readline())
            waited = len(acknowledged)
            # Until it has done something, so that the kill comes in the midst of work, and then a random moment more.
            limit = time.monotonic() + 20
            while len(acknowledged) == waited and time.monotonic() < limit:
                time.sleep(0.002)
            time.sleep(draw.uniform(0, 0.03))
            os.kill(child, signal.SIGKILL)
            kills += 1
        ended.set()
        process.stdout.readline()  # a last one that answers whoever still waits
        for person in people:
            person.join()
    finally:  # whatever came between, neither the people nor the servers stay
        ended.set()
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    notes = [verdict.note for verdict in Verdicts.open(path).history()]
    assert kills == KILLS
    assert len(acknowledged) >= KILLS
    assert {str(number) for number in acknowledged} - set(notes) == set()
    assert len(notes) == len(set(notes)), "none was written twice"

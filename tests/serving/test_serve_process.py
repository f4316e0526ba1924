"""A server as a process: how it starts and ends, and what it says of that."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import requests
from command import keras_mt
from conftest import ROOT
from served import MODEL, serving

pytestmark = pytest.mark.long


def children(process):
    """The numbers of the processes that a process has started, and their command lines."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[1]) == process.pid:
                command = (path.parent / "cmdline").read_text().replace("\0", " ")
                found[int(path.parent.name)] = command
        except OSError:
            continue  # It has ended.
    return found


def workers(process):
    return [pid for pid, command in children(process).items() if "spawn_main" in command]


def is_running(pid):
    """Whether there is such a process, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def refused(*arguments):
    """The exit status and the messages of a server that does not start."""
    command = [sys.executable, "-m", "keras_mt_command", "serve", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stderr


def test_it_ends_with_0_and_nothing_left(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with serving() as served:
        assert requests.get(f"{served.url}/ready").json() == {"ready": True, "waits_for": []}
        book = {"file": ("a.txt", "A dog runs.\n" * 5000)}
        requests.post(f"{served.url}/v2/document", {"target_lang": "de"}, files=book)
        assert [*tmp_path.glob("**/file.txt")]
        started = children(served.process)
        assert len(workers(served.process)) >= 1
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(60) == 0
        until(lambda: not any(map(is_running, started)))
    assert not [*tmp_path.iterdir()]
    assert not re.search("leaked|Traceback|semaphore", "".join(served.log))


def test_what_runs_is_answered_when_it_ends_and_what_is_new_is_not():
    with serving("--workers=1") as served:
        texts = ["A man in a blue shirt is standing on a ladder.", "Two dogs run."] * 15
        answers = []

        def ask():
            fields = {"text": texts, "target_lang": "de"}
            answers.append(requests.post(f"{served.url}/v2/translate", json=fields))

        caller = threading.Thread(target=ask)
        caller.start()
        until(lambda: "keras_mt_queue_texts" in requests.get(f"{served.url}/metrics").text)
        until(lambda: waiting(served) > 0)
        served.process.send_signal(signal.SIGINT)
        late = 503
        while caller.is_alive():
            try:
                late = requests.get(f"{served.url}/v2/languages").status_code
            except requests.ConnectionError:
                break
            assert late in (200, 503)
        assert late == 503
        caller.join()
        assert answers[0].status_code == 200
        assert len(answers[0].json()["translations"]) == len(texts)
        assert served.process.wait(30) == 0


def waiting(served):
    metrics = requests.get(f"{served.url}/metrics").text
    return float(re.search(r"^keras_mt_queue_texts\S* (\S+)$", metrics, re.M)[1])


def test_a_killed_worker_is_replaced_and_ends_with_the_server():
    with serving("--workers=1") as served:
        [pid] = workers(served.process)
        os.kill(pid, signal.SIGKILL)
        until(lambda: requests.get(f"{served.url}/ready").status_code == 503)
        fields = {"text": "A man sleeps.", "target_lang": "de"}
        answer = requests.post(f"{served.url}/v2/translate", json=fields)
        assert answer.json()["translations"][0]["text"] == "Ein Mann schläft."
        [other] = workers(served.process)
        assert other != pid
        for process in (served.process.pid, other):  # Neither has imported TensorFlow.
            libraries = Path(f"/proc/{process}/maps").read_text()
            assert "libtensorflow" not in libraries and "_pywrap_tensorflow" not in libraries
            assert ("litert" in libraries) == (process == other)
        assert "keras_mt_worker_deaths" in requests.get(f"{served.url}/metrics").text
        records = [*map(json.loads, served.log)]
        served.process.kill()
        until(lambda: not is_running(other))
    assert [r["model"] for r in records if r["event"] == "a worker died and is replaced"] == [
        MODEL.name
    ]
    assert not any("color_message" in record for record in records)


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, -signal.SIGINT)]
)
def test_it_ends_while_its_model_loads(tmp_path, number, status):
    command = [sys.executable, "-m", "keras_mt_command", "serve", "--port=0", str(MODEL)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: workers(process))
        started = children(process)
        process.send_signal(number)
        messages = process.communicate(timeout=30)[1]
    assert process.returncode == status
    assert messages == ("" if status == 0 else "Error: interrupted.\n")
    until(lambda: not any(map(is_running, started)))
    assert not [*tmp_path.iterdir()]


def test_a_port_that_is_in_use_is_said_before_models_load():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert refused(MODEL, "--port", port) == (
            1, f"Error: cannot listen on 127.0.0.1, port {port}: Address already in use\n",
        )  # fmt: skip


def test_what_is_no_model_is_one_line(tmp_path):
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for file in MODEL.iterdir():
        (damaged / file.name).write_bytes(file.read_bytes()[:1000])
    status, messages = refused("--port=0", MODEL, damaged)
    assert status == 1 and messages.startswith("Error: ") and messages.count("\n") == 1, messages
    assert str(damaged) in messages, messages


def test_other_addresses_than_loopback_need_keys():
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        messages = keras_mt("serve", MODEL, "--host", host, exit_code=1).stderr
        assert "--api-keys FILE, or --no-api-keys" in messages, host
    with serving("--host=::", "--no-api-keys", "--workers=1") as served:
        assert requests.get(served.url.replace("[::]", "[::1]") + "/health").ok

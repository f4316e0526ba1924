"""How `keras-mt serve` answers many callers, one, and those that come at a rate of their own.

usage: python benchmarks/serve_load.py --models EXPORT --text FILE [--workloads NAME,...]

Workloads:
    callers  Texts per second of --callers callers that each ask again when they are answered, in
             turn with those of `keras-mt translate` with the same export.
    alone    Milliseconds of a text for one caller, in turn with the export alone in Python.
    rates    Callers that come at random at each of --rates, whatever the answers take. Latency is
             counted from the moment at which a caller was to come.
    kills    --requests requests by --callers callers, while a worker is killed twice; each answer
             is compared with the one that the text gets alone.

FILE has a text a line. The server and the callers have a process each, on 127.0.0.1. Prints a
table, and a JSON line for each workload.
"""

import argparse
import asyncio
import contextlib
import datetime
import functools
import itertools
import json
import multiprocessing
import os
import random
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ProcessPoolExecutor
from importlib import metadata
from pathlib import Path

import harness

WORKLOADS = ("callers", "alone", "rates", "kills")
MOST = 5000  # The callers of `rates` that wait at once; others are counted as lost.


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--callers", type=int, default=64)
    parser.add_argument("--rates", default="20,50,100,200", help="Callers per second.")
    parser.add_argument("--seconds", type=float, default=20, help="Duration of each measurement.")
    parser.add_argument("--requests", type=int, default=100_000, help="Those of `kills`.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=harness.CORES)
    parser.add_argument("--output", type=Path, help="File to append the JSON lines to.")
    arguments = parser.parse_args()
    workloads = harness.names(arguments.workloads, WORKLOADS, "workload")
    texts = [line for line in arguments.text.read_text(encoding="utf-8").split("\n") if line]
    for workload in workloads:
        with serving(arguments.models, arguments.workers) as server, a_process() as callers:
            result = globals()[workload](arguments, texts, server, callers)
            result["resident memory, MB"] = round(server.memory())
        for name, value in result.items():
            print(f"{workload:8} {name:32} {value}")
        line = {
            "benchmark": "serve_load",
            "workload": workload,
            "model": str(arguments.models[0]),
            "date": datetime.date.today().isoformat(),
            "machine": harness.machine(),
            "versions": {name: metadata.version(name) for name in ("starlette", "uvicorn")},
            **result,
        }
        harness.write_line(line, arguments.output)


def callers(arguments, texts, server, process):
    rates = {"server": [], "translate": []}
    server.ask(process, closed, texts, arguments.callers, seconds=2)  # Its caches are warm.
    for _ in range(arguments.rounds):
        rates["translate"].append(translate_rate(arguments.models[0], texts))
        cpu = server.cpu_seconds()
        found = server.ask(process, closed, texts, arguments.callers, seconds=arguments.seconds)
        rates["server"].append(len(found) / found[-1].end)
        assert all(each.status == 200 for each in found)
        cpu = server.cpu_seconds() - cpu
    ratios = [a / b for a, b in zip(*rates.values(), strict=True)]
    return {
        "callers": arguments.callers,
        **{f"{name}, texts/s": rounded(values, 1) for name, values in rates.items()},
        "ratios": rounded(ratios, 3),
        "median ratio": round(statistics.median(ratios), 3),
        "CPU without workers, ms": round(1000 * cpu / len(found), 2),
        **latencies(found),
    }


def translate_rate(model, texts):
    """Texts per second of `keras-mt translate`, without its start."""
    seconds = []
    for part in (texts[:1], texts):
        start = time.perf_counter()
        command = [sys.executable, "-m", "keras_mt_command", "translate", str(model)]
        lines = "".join(f"{text}\n" for text in part)
        subprocess.run(
            command, input=lines, env=harness.ENVIRONMENT, check=True, text=True,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        seconds.append(time.perf_counter() - start)
    return (len(texts) - 1) / (seconds[1] - seconds[0])


def alone(arguments, texts, server, process):
    own, seconds = texts[:200], {"server": [], "Python": []}
    with a_process() as python:
        for _ in range(1 + arguments.rounds):
            in_python = python.submit(export_alone, arguments.models[0], own).result()
            found = server.ask(process, closed, own, 1, requests=len(own))
            seconds["Python"].append(statistics.median(in_python))
            seconds["server"].append(statistics.median(each.seconds for each in found))
    ms = {name: [1000 * x for x in values[1:]] for name, values in seconds.items()}
    more = [a - b for a, b in zip(*ms.values(), strict=True)]
    return {
        **{f"median of {name}, ms": rounded(values, 2) for name, values in ms.items()},
        "median difference, ms": round(statistics.median(more), 2),
        **latencies(found),
    }


@functools.cache
def loaded(model):
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")  # As `keras-mt` has it.
    from keras_mt.translation.exported import ExportedTranslator

    return ExportedTranslator(model)


def export_alone(model, texts):
    """The seconds of each text."""
    translator, seconds = loaded(model), []
    for text in texts:
        start = time.perf_counter()
        translator([text])
        seconds.append(time.perf_counter() - start)
    return seconds


def rates(arguments, texts, server, process):
    result = {}
    for rate in map(float, arguments.rates.split(",")):
        found = server.ask(process, opened, texts, rate, arguments.seconds)
        answered = [each for each in found if each.status == 200]
        result |= {
            f"at {rate:g}/s: requests": len(found),
            f"at {rate:g}/s: not answered": len(found) - len(answered),
            **{f"at {rate:g}/s: {n}": x for n, x in latencies(answered).items()},
        }
    return result


def kills(arguments, texts, server, process):
    texts = list(dict.fromkeys(texts))
    alone = server.ask(process, closed, texts, 1, requests=len(texts))
    expected, begun = {each.text: each.answer for each in alone}, server.answered()
    start = time.perf_counter()
    asked = process.submit(
        asked_of, closed, server.address, texts, arguments.callers, requests=arguments.requests
    )
    for part in (1 / 3, 2 / 3):
        while not asked.done() and server.answered() - begun < part * arguments.requests:
            time.sleep(0.05)
        os.kill(server.workers()[0], signal.SIGKILL)
    found = asked.result()
    others = [each for each in found if each.status == 200 and each.answer != expected[each.text]]
    for other in others[:3]:
        print("another answer:", other.text, expected[other.text], other.answer, sep="\n  ")
    return {
        "requests": len(found),
        "workers killed": server.metric("worker_deaths"),
        "not answered": sum(each.status != 200 for each in found),
        "other answers than alone": len(others),
        "answers of another text": sum(each.answer in {*expected.values()} for each in others),
        "minutes": round((time.perf_counter() - start) / 60, 1),
        **latencies(found),
    }


def latencies(found):
    if len(found) < 2:
        return {}
    ranks = statistics.quantiles([each.seconds for each in found], n=100)
    return {f"p{rank}, ms": round(1000 * ranks[rank - 1], 1) for rank in (50, 95, 99)}


def rounded(values, digits):
    return [round(value, digits) for value in values]


class Server:
    """A server that runs: its process, address, memory and metrics."""

    def __init__(self, process, port):
        self.process, self.address = process, ("127.0.0.1", port)

    def ask(self, process, loop, *arguments, **options):
        """What the callers of a loop find, in a process of their own."""
        return process.submit(asked_of, loop, self.address, *arguments, **options).result()

    def workers(self):
        """The numbers of the processes of its workers."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        commands = {child: Path(f"/proc/{child}/cmdline").read_text() for child in children}
        return [int(child) for child, command in commands.items() if "spawn_main" in command]

    def memory(self):
        """The resident memory of its processes, in MB."""
        pages = [
            int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            for pid in (self.process.pid, *self.workers())
        ]
        return sum(pages) * resource.getpagesize() / 2**20

    def cpu_seconds(self):
        """The time of cores that its own process has taken, without the workers."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    def metric(self, name):
        """The sum of a metric over its labels."""
        with urllib.request.urlopen("http://{}:{}/metrics".format(*self.address)) as answer:
            lines = answer.read().decode()
        values = re.findall(rf"^keras_mt_{name}{{.*}} (\S+)$", lines, re.MULTILINE)
        return int(sum(map(float, values)))

    def answered(self):
        return self.metric("texts_total")


@contextlib.contextmanager
def serving(models, workers):
    """A server on 127.0.0.1 within a `with` block."""
    command = [sys.executable, "-m", "keras_mt_command", "serve", "--port=0"]
    command += [f"--workers={workers}", *map(str, models)]
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(command, stderr=log, env=harness.ENVIRONMENT) as process,
    ):
        try:
            while not (found := re.search(r"running on http://\S+:(\d+)", log.read())):
                if process.poll() is not None:
                    log.seek(0)
                    sys.exit(log.read())
                time.sleep(0.05)
                log.seek(0)
            server = Server(process, int(found[1]))
            while len(server.workers()) < workers:
                time.sleep(0.05)
            yield server
        finally:
            process.terminate()


def a_process():
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))


class Found:
    """A request: when it was to begin and ended, its text, its status and its answer."""

    def __init__(self, begin, end, text, status, answer):
        self.begin, self.end, self.text, self.status, self.answer = begin, end, text, status, answer

    @property
    def seconds(self):
        return self.end - self.begin


def asked_of(loop, address, *arguments, **options):
    """What a loop finds, in order of the answers; times are seconds since its first request."""
    found = sorted(asyncio.run(loop(address, *arguments, **options)), key=lambda x: x.end)
    first = min((each.begin for each in found), default=0)
    for each in found:
        each.begin, each.end = each.begin - first, each.end - first
    return found


async def closed(address, texts, callers, seconds=600, requests=10**9):
    """Callers that each ask again when they are answered."""
    order = random.Random(1).sample(texts, len(texts))
    following, found = itertools.islice(itertools.cycle(order), requests), []
    ends = time.perf_counter() + seconds

    async def caller():
        connection = Connection(address)
        for text in following:
            begin = time.perf_counter()
            if begin > ends:
                break
            found.append(await connection.ask(text, begin))
        connection.close()

    await asyncio.gather(*(caller() for _ in range(callers)))
    return found


async def opened(address, texts, rate, seconds):
    """Callers that come at a rate, by a Poisson process."""
    choose, idle, tasks, lost = random.Random(1), [], set(), []
    start = time.perf_counter()

    async def caller(text, planned):
        connection = idle.pop() if idle else Connection(address)
        found = await connection.ask(text, planned)
        idle.append(connection)
        return found

    every, planned = [], start
    while (planned := planned + choose.expovariate(rate)) < start + seconds:
        await asyncio.sleep(max(0, planned - time.perf_counter()))
        text = choose.choice(texts)
        if len(tasks) >= MOST:
            lost.append(Found(planned, planned, text, 0, ""))
            continue
        task = asyncio.create_task(caller(text, planned))
        every.append(task)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    found = await asyncio.gather(*every)
    for connection in idle:
        connection.close()
    return [*found, *lost]


class Connection:
    """A connection to a server that is kept."""

    def __init__(self, address):
        self._address, self._streams = address, None

    async def ask(self, text, begin):
        """The translation of a text, in a `Found`, whose status is 0 if there is no answer."""
        body = json.dumps({"text": [text], "target_lang": await target(self._address)}).encode()
        head = f"POST /v2/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        head += "Content-Type: application/json\r\n\r\n"
        try:
            self._streams = self._streams or await asyncio.open_connection(*self._address)
            reader, writer = self._streams
            writer.write(head.encode() + body)
            head = await reader.readuntil(b"\r\n\r\n")
            status, length = int(head.split()[1]), re.search(rb"(?i)content-length: *(\d+)", head)
            answer = json.loads(await reader.readexactly(int(length[1])))
        except (OSError, EOFError, ValueError):
            self.close()
            return Found(begin, time.perf_counter(), text, 0, "")
        answer = answer["translations"][0]["text"] if status == 200 else ""
        return Found(begin, time.perf_counter(), text, status, answer)

    def close(self):
        if self._streams:
            self._streams[1].close()
            self._streams = None


_targets = {}


async def target(address):
    """The first target language of a server."""
    if address not in _targets:
        url = "http://{}:{}/v2/languages?type=target".format(*address)
        with urllib.request.urlopen(url) as answer:
            _targets[address] = json.load(answer)[0]["language"]
    return _targets[address]


if __name__ == "__main__":
    main()

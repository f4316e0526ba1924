"""A server of `keras-mt serve`, as a user starts it, and others without processes."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading

import uvicorn
from conftest import ROOT
from starlette.exceptions import HTTPException

from keras_mt.serving.app import Service, Settings, create_app
from keras_mt.serving.catalogue import Catalogue
from keras_mt.serving.glossaries import Glossaries
from keras_mt.serving.worker import Answer, Facts
from keras_mt.text.fragment import Fragment
from keras_mt.translation.results import Hypothesis

MODEL = ROOT / "saved_models" / "multi30k_en_de_litert"
KEY = "a-key"
FULL = HTTPException(429, "too many texts are waiting: try again in 7 s", {"Retry-After": "7"})


class Served:
    """A server that runs: its address, its process, and what it has logged."""

    def __init__(self, *arguments):
        command = [sys.executable, "-m", "keras_mt", "serve", "--port", "0", *arguments]
        self.process = subprocess.Popen(
            [str(argument) for argument in command],
            stderr=subprocess.PIPE, encoding="utf-8", env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        self.log, self.url = [], None
        for line in self.process.stderr:
            self.log.append(line)
            if found := re.search(r"running on (http:[^\s\"]+)", line):
                self.url = found[1]
                break
        assert self.url, "".join(self.log)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        self.log.extend(self.process.stderr)

    def end(self):
        """Ends it as a service manager does; gives its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextlib.contextmanager
def serving(*arguments):
    """A server of a committed export, or of others that are given, within a `with` block."""
    served = Served(*arguments, *([] if any(os.path.isdir(x) for x in arguments) else [MODEL]))
    try:
        yield served
    finally:
        served.process.kill()
        served.process.wait()


class Capitals:
    """A model without a process, whose translations are in capitals; it refuses "refuse this".

    It answers when it is not `held`.
    """

    deaths, is_ready, queue = 0, True, ()

    def __init__(self, source="en", target="de", held=False):
        self.name, self.held, self.error = f"{source}-{target}", held, None
        self.facts = Facts(0, [(source, target)], [], True, True, True, 8)
        self.running, self.calls = 0, []

    async def translate(self, jobs, waits=False):
        if self.error:
            raise self.error
        self.calls.append(jobs)
        self.running += 1
        try:
            while self.held:
                await asyncio.sleep(0.01)
            return [*map(self._answer, jobs)]
        finally:
            self.running -= 1

    def _answer(self, job):
        if job.text == "refuse this":
            return Answer(refusal="it is refused")
        text = Fragment(job.text.upper(), getattr(job.text, "elements", ()))
        return Answer([Hypothesis(text, 0.0)])


@contextlib.contextmanager
def serving_here(folder, *pools, glossaries=None, **settings):
    """A server in a thread, of models without processes, within a `with` block."""
    settings = Settings(folder, {KEY: "tester"}, **settings)
    service = Service(Catalogue(pools), settings, glossaries or Glossaries())
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(create_app(service), log_config=None))
        server.url, server.service = f"http://127.0.0.1:{listening.getsockname()[1]}", service
        thread = threading.Thread(target=server.run, args=[[listening]])
        thread.start()
        try:
            yield server
        finally:
            server.should_exit = True
            thread.join()

"""A server of `keras-mt serve`, as a user starts it, and others without processes."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading

from conftest import ROOT

MODEL = ROOT / "saved_models" / "multi30k_en_de_litert"
KEY = "a-key"


class Served:
    """A server that runs: its address, its process, and what it has logged."""

    def __init__(self, *arguments):
        command = [sys.executable, "-m", "keras_mt_command", "serve", "--port", "0", *arguments]
        self.process = subprocess.Popen(
            [str(argument) for argument in command],
            stderr=subprocess.PIPE, encoding="utf-8", env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        self.log, self.url = [], None
        for line in self.process.stderr:
            self.log.append(line)
            if found := re.search(r"running on (http://\S+)", line):
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

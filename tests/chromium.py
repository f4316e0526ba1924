"""A Chromium without a window, for tests of pages."""

import fcntl
import json
import os
import shutil
import subprocess
import time

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


class Browser:
    """A headless Chromium: its protocol is JSON, each message with a NUL, on files 3 and 4."""

    def __init__(self, folder):
        (first, ours), (theirs, second) = os.pipe(), os.pipe()
        # Out of the way of what they become.
        read, write = (fcntl.fcntl(each, fcntl.F_DUPFD, 20) for each in (first, second))
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        command = [BROWSER, *flags, f"--user-data-dir={folder}", "about:blank"]
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{read} 4>&{write}', "bash", *command],
            pass_fds=(read, write),
            stderr=subprocess.DEVNULL,
        )
        for each in (first, second, read, write):  # Else its end would not be noticed.
            os.close(each)
        self._out, self._in = ours, theirs
        self._count, self._session, self._context = 0, {}, None
        self.open()

    def open(self):
        """Opens a page that knows nothing of the one before, in the place of that."""
        before, self._session = self._context, {}
        self._context = self("Target.createBrowserContext")
        target = self("Target.createTarget", url="about:blank", **self._context)
        attached = self("Target.attachToTarget", **target, flatten=True)
        if before:
            self("Target.disposeBrowserContext", **before)
        self._session = {"sessionId": attached["sessionId"]}

    def __call__(self, method, **params):
        self._count += 1
        message = {"id": self._count, "method": method, "params": params, **self._session}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = json.loads(b"".join(iter(self._byte, b"\0")))
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                return answer["result"]

    def _byte(self):
        byte = os.read(self._in, 1)
        assert byte, "the browser has ended"
        return byte

    def value(self, expression):
        return self("Runtime.evaluate", expression=expression)["result"].get("value")

    def wait_for(self, expression, seconds=120):
        end = time.monotonic() + seconds
        while not self.value(expression):
            assert time.monotonic() < end, self.value("document.body.innerText")
            time.sleep(0.02)

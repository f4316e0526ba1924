"""examples/browser: a student exported for Marian, in a page with the engine of Firefox."""

import contextlib
import fcntl
import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from keras_mt.convert import from_marian

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples/browser"
sys.path.append(str(ROOT / "tests/convert"))
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
SENTENCES = {
    "Em Dezembro, Lucas irá viajar ao Rio.": "Lucas is travelling to Rio in December.",
    "Onde está meu jornal velho?": "Where is my old newspaper?",
    "Faz sol em Paris em Dezembro?": "Is it sunny in Paris in December?",
}


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
        self._count, self._session = 0, {}
        (page,) = (t for t in self("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self("Target.attachToTarget", targetId=page["targetId"], flatten=True)
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
            time.sleep(0.1)


@pytest.fixture
def browser(tmp_path):
    browser = Browser(tmp_path / "profile")
    yield browser
    browser.process.kill()
    browser.process.wait()


@contextlib.contextmanager
def served(folder):
    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/index.html"
        server.shutdown()


@pytest.mark.long
@pytest.mark.usefixtures("eager")
def test_the_model_of_the_page_is_one_that_is_read():
    translator = from_marian(EXAMPLE / "model")
    assert translator(list(SENTENCES)) == list(SENTENCES.values())


@pytest.mark.long
@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("npm") is None, reason="the engine comes from npm")
@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")
def test_the_page_translates_in_a_browser(browser, tmp_path):
    import marian_models

    folder = shutil.copytree(EXAMPLE, tmp_path / "browser")
    try:
        marian_models.install_engine(folder)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"npm has no {marian_models.ENGINE}: {error.stderr[-200:]}")
    with served(folder) as url:
        browser("Page.navigate", url=url)
        browser.wait_for("document.body?.dataset.state == 'ready'")
        for source, target in SENTENCES.items():
            browser.value(
                f"document.getElementById('source').value = {json.dumps(source)};"
                "document.getElementById('source').dispatchEvent(new Event('input'))"
            )
            found = "document.getElementById('target').textContent.trim()"
            browser.wait_for(f"{found} == {json.dumps(target)}", seconds=60)

"""examples/browser: a student that was exported for Marian, in a page with the engine of Firefox."""

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
    """A headless Chromium: its protocol is JSON, each message with a NUL, on descriptors 3 and 4."""

    def __init__(self, folder):
        (read, ours), (theirs, write) = os.pipe(), os.pipe()
        # Out of the way of what they become.
        read, write = (fcntl.fcntl(each, fcntl.F_DUPFD, 20) for each in (read, write))
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        self.process = subprocess.Popen(
            [BROWSER, *flags, f"--user-data-dir={folder}", "about:blank"],
            preexec_fn=lambda: (os.dup2(read, 3), os.dup2(write, 4)),
            pass_fds=(3, 4),
            stderr=subprocess.DEVNULL,
        )
        self._out, self._in = open(ours, "wb"), open(theirs, "rb")
        self._count, self._session = 0, {}
        (page,) = (t for t in self("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = {"sessionId": attached["sessionId"]}

    def __call__(self, method, **params):
        self._count += 1
        message = {"id": self._count, "method": method, "params": params, **self._session}
        self._out.write(json.dumps(message).encode() + b"\0")
        self._out.flush()
        while True:
            answer = b"".join(iter(functools.partial(self._in.read, 1), b"\0"))
            answer = json.loads(answer)
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                return answer["result"]

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

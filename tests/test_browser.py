"""examples/browser: a student exported for Marian, in a page with the engine of Firefox."""

import contextlib
import functools
import http.server
import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from chromium import BROWSER

from keras_mt.convert import from_marian

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples/browser"
sys.path.append(str(ROOT / "tests/convert"))
SENTENCES = {
    "Em Dezembro, Lucas irá viajar ao Rio.": "Lucas is travelling to Rio in December.",
    "Onde está meu jornal velho?": "Where is my old newspaper?",
    "Faz sol em Paris em Dezembro?": "Is it sunny in Paris in December?",
}


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

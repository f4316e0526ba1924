"""Asks a server of the installed `keras-mt` by the clients of its interfaces.

usage: python clients.py MODEL SOURCE TARGET TEXT
"""

import re
import subprocess
import sys
from pathlib import Path

import deepl
from libretranslatepy import LibreTranslateAPI


def main(model, source, target, text):
    command = [Path(sys.executable).with_name("keras-mt"), "serve", model, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8") as server:
        try:
            lines = iter(server.stderr)
            url = next(
                found[1] for found in (re.search(r"(http://[\d.:]+)", x) for x in lines) if found
            )
            ask = deepl.Translator("any", server_url=url).translate_text
            variant = {"en": "EN-US", "pt": "PT-PT"}.get(
                target, target
            )  # DeepL's client wants one.
            found = ask(text, source_lang=source, target_lang=variant).text
            print(found)
            assert LibreTranslateAPI(url).translate(text, source, target) == found
        finally:
            server.terminate()
    assert server.returncode == 0, server.returncode


if __name__ == "__main__":
    main(*sys.argv[1:])

"""`keras-mt serve`."""

import asyncio
import hashlib
import ipaddress
import logging
import signal
import sys
import tempfile
from pathlib import Path

import click

from keras_mt.cli.command import Command
from keras_mt.cli.options import FILE, FOLDER, MODEL, count_option, option
from keras_mt.errors import InputError
from keras_mt.extras import needed


@click.command(cls=Command, is_light=True)
@click.argument("models", nargs=-1, required=True, type=MODEL, metavar="MODEL...")
@option("--host", metavar="ADDRESS", default="127.0.0.1", help="Listen on this address.")
@option("--port", type=click.IntRange(0, 65535), default=8000, help="Listen on this port.")
@option("--api-keys", type=FILE, help="Ask clients for one of these keys: lines KEY or KEY NAME.")
@option("--no-api-keys", is_flag=True, help="Serve everyone who reaches the address.")
@option(
    "--glossary",
    "glossaries",
    multiple=True,
    metavar="NAME=FILE",
    help="Offer clients these terms.",
)
@option(
    "--glossary-folder",
    type=FOLDER,
    help="Keep glossaries of clients in this folder.  [default: they end with the server]",
)
@option("--cors", multiple=True, metavar="ORIGIN", help="Answer pages of this site.")
@count_option("--workers", help="Run this many processes for each model.  [default: one per core]")
@count_option("--max-body", default=1 << 20, help="Refuse requests of more bytes, without a file.")
@count_option("--max-file", default=20 << 20, help="Refuse requests of more bytes, with a file.")
@count_option("--max-texts", default=128, help="Refuse requests of more texts.")
@count_option("--max-characters", default=100_000, help="Refuse requests of more characters.")
@count_option("--max-glossaries", default=1000, help="Refuse to keep more glossaries of a client.")
@count_option("--max-waiting", default=10_000, help="Answer 429 while this many sentences wait.")
@count_option("--timeout", default=60, help="Answer 504 after this many seconds.")
def serve(
    models, host, port, api_keys, no_api_keys, glossaries, glossary_folder, workers, **limits
):
    """Serve models over HTTP, as DeepL and LibreTranslate do.

    Applications reach it by DeepL's interface (v2) or LibreTranslate's; people have a page at /.
    SIGTERM and Ctrl-C end the server when it has answered what it was asked.

    \b
    keras-mt serve saved_models/multi30k_en_de_litert
    curl localhost:8000/translate -d q="A man sleeps." -d source=en -d target=de
    """
    with needed("keras-mt serve", "'keras_mt[serve]'"):
        from keras_mt.serving.app import Settings
        from keras_mt.serving.glossaries import Glossaries
        from keras_mt.serving.server import JsonFormatter, serve
        from keras_mt.translation.batches import usable_cores
    keys = _keys(api_keys) if api_keys else {}
    if not (keys or no_api_keys or _is_loopback(host)):
        raise InputError(f"{host} is open to others: give --api-keys FILE, or --no-api-keys.")
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    files = dict(each.partition("=")[::2] for each in glossaries)
    waiting, kept = limits.pop("max_waiting"), limits.pop("max_glossaries")
    stored = Glossaries(files, glossary_folder and Path(glossary_folder), kept)
    workers = workers or usable_cores()
    with tempfile.TemporaryDirectory(prefix="keras_mt_") as private:
        settings = Settings(Path(private), keys, **limits)
        pools = {"workers": workers, "max_waiting": waiting, "patience": 2 * settings.timeout}
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # While models load.
        asyncio.run(serve(models, stored, settings, host, port, settings.timeout + 1, **pools))


def _is_loopback(host):
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _keys(path):
    """The names of users by their keys."""
    lines = map(str.strip, Path(path).read_text("utf-8-sig").splitlines())
    rows = [line.partition(" ")[::2] for line in lines if line and not line.startswith("#")]
    # A key without a name has one of its own, wherever it stands in the file.
    keys = {key: name.strip() or hashlib.sha256(key.encode()).hexdigest()[:8] for key, name in rows}
    if not keys:
        raise InputError(f"{path} has no key: write one in each line.")
    return keys

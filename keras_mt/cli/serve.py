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
from keras_mt.cli.options import Model
from keras_mt.errors import InputError
from keras_mt.extras import needed


def _limit(flag, default, text):
    kind = click.IntRange(min=1)
    return click.option(flag, type=kind, default=default, show_default=True, help=text)


@click.command(cls=Command, is_light=True)
@click.argument("models", nargs=-1, required=True, type=Model(), metavar="MODEL...")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="The port."
)
@click.option(
    "--api-keys",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="The keys that clients may have: lines KEY or KEY NAME.  [default: none are needed]",
)
@click.option(
    "--no-api-keys", is_flag=True, help="Listen on other addresses than loopback without keys."
)
@click.option(
    "--glossary",
    "glossaries",
    multiple=True,
    metavar="NAME=FILE",
    help="A glossary that clients may name; may be repeated.",
)
@click.option(
    "--folder",
    type=click.Path(file_okay=False),
    help="A folder for the glossaries that clients make.  [default: they end with the server]",
)
@click.option(
    "--cors", multiple=True, metavar="ORIGIN", help="A site whose pages may ask; may be repeated."
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    help="The processes of each model, which each have it in memory.  [default: one for each core]",
)
@_limit("--max-body", 1 << 20, "The maximum bytes of a request without a file.")
@_limit("--max-file", 20 << 20, "The maximum bytes of a request with a file.")
@_limit("--max-texts", 128, "The maximum texts of a request.")
@_limit("--max-characters", 100_000, "The maximum characters of a request.")
@_limit("--max-glossaries", 1000, "The maximum number of glossaries that a client makes.")
@_limit("--max-waiting", 10_000, "The number of waiting sentences from which on answers are 429.")
@_limit("--timeout", 60, "The seconds that a request may take.")
def serve(models, host, port, api_keys, no_api_keys, glossaries, folder, workers, **limits):
    """Serve MODELs to applications, by the interfaces of DeepL (v2) and LibreTranslate.

    A MODEL is a run or an export. There is a page at / to translate by hand. SIGTERM and Ctrl-C end
    the server when it has answered what it was asked.

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
        raise InputError(
            f"{host} can be reached by others: give --api-keys FILE, or --no-api-keys to serve "
            "everyone."
        )
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    files = dict(each.partition("=")[::2] for each in glossaries)
    waiting, kept = limits.pop("max_waiting"), limits.pop("max_glossaries")
    stored = Glossaries(files, folder and Path(folder), kept)
    workers = workers or usable_cores()
    with tempfile.TemporaryDirectory(prefix="keras_mt_") as private:
        settings = Settings(Path(private), keys, **limits)
        pools = {"workers": workers, "max_waiting": waiting, "patience": 2 * settings.timeout}
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # While models load.
        grace = settings.timeout + 1
        asyncio.run(serve(models, stored, settings, host, port, grace, **pools))


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

"""What people see at a terminal, a pseudo-terminal here, and what programs get."""

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import pytest
from conftest import ROOT

from keras_mt.cli.progress import suggest

# The command, with a translator that is busy in native code, where Python cannot heed a signal.
BUSY = """
import hashlib, importlib.util, sys, tempfile
from concurrent.futures import ThreadPoolExecutor

import keras_mt_command

spec = importlib.util.find_spec("keras_mt")
sys.modules["keras_mt"] = importlib.util.module_from_spec(spec)  # Without Keras.
from keras_mt.cli import command, input, main, translate

class Results(list):
    refusals = {}

class Busy:
    supports_confidence = False
    options = type("Options", (), {"n_best": 1})

    def hypotheses(self, texts, **_):
        if "long" in texts:
            half_a_minute = "sha256", b"", b"", 100_000_000
            busy = ThreadPoolExecutor().submit(hashlib.pbkdf2_hmac, *half_a_minute)
            open("busy", "w").close()
            busy.result()
        return Results([type("Hypothesis", (), {"text": text.upper()})] for text in texts)

command.kind_of = lambda _: "litert"  # Without TensorFlow.
input._BLOCK_BYTES = 18
translate.load_translator = lambda *_: Busy()
sys.argv = ["keras-mt", "translate", ".", *sys.argv[1:]]
temporary = tempfile.TemporaryDirectory(prefix="temporary", dir=".")
keras_mt_command.main()
"""


@contextlib.contextmanager
def command(folder, *options, **streams):
    """A process of the command in a folder, whose translations go to its file `out`."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": ""}
    start = [sys.executable, "-c", BUSY, *options]
    with open(folder / "out", "wb") as out:
        streams = {"stdout": out, **streams}
        with subprocess.Popen(start, cwd=folder, env=environ, **streams) as process:
            yield process
    assert not list(folder.glob("temporary*"))


@contextlib.contextmanager
def terminal():
    """A pseudo-terminal: where a process writes, and a function that gives all that it shows."""
    ours, theirs = pty.openpty()

    def shown():
        written.close()
        parts = []
        with contextlib.suppress(OSError):  # Of its end.
            while part := screen.read(1000):
                parts.append(part)
        return b"".join(parts).decode().replace("\r\n", "\n")

    with open(ours, "rb", buffering=0) as screen, open(theirs, "wb", buffering=0) as written:
        yield written, shown


def test_an_interrupt_ends_it_at_once_and_leaves_what_was_done(tmp_path):
    with (
        terminal() as (written, shown),
        command(tmp_path, stdin=subprocess.PIPE, stderr=written) as process,
    ):
        process.stdin.write(b"short\n" * 3 + b"long\nshort\n")
        process.stdin.close()
        while not (tmp_path / "busy").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == -signal.SIGINT
        assert re.search(r"\x1b\[K3 lines, [\d,.]+ a second\nError: interrupted.\n$", shown())
    assert (tmp_path / "out").read_bytes() == b"SHORT\n" * 3


def test_a_program_that_waits_for_its_answer_gets_it(tmp_path):
    """And when it reads no more answers, the command ends without a word."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with command(tmp_path, **pipes) as process:
        for text in (b"short\n", b"next\n"):
            process.stdin.write(text)
            process.stdin.flush()
            assert select.select([process.stdout], [], [], 60)[0]
            assert process.stdout.readline() == text.upper()
        process.stdout.close()
        process.stdin.write(b"last\n")
        process.stdin.close()
        assert process.wait(60) == 1 and process.stderr.read() == b""


SKIPPED = "line 4 skipped: not UTF-8 at byte 1\n"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("file", f"(0 of 4 lines|[34] of 4 lines, RATE, 0:00:0[01] left|{SKIPPED})+"),
        ("pipe", f"(0 lines|[34] lines, RATE|{SKIPPED})+"),
        ("quiet", SKIPPED),
        ("no terminal", SKIPPED),
        ("seen", f"(SHORT\n){{3}}{SKIPPED}\n"),
    ],
)
def test_progress_is_shown_at_a_terminal_where_no_lines_are_seen(where, expected, tmp_path):
    text, options = b"short\n" * 3 + b"\xff\n", ["--quiet"] * (where == "quiet")
    (tmp_path / "in").write_bytes(text)
    with open(tmp_path / "in", "rb") as file, terminal() as (written, shown):
        streams = {
            "stdin": subprocess.PIPE if where == "pipe" else file,
            "stderr": subprocess.PIPE if where == "no terminal" else written,
            **({"stdout": written} if where == "seen" else {}),
        }
        with command(tmp_path, *options, **streams) as process:
            _, error = process.communicate(text if where == "pipe" else None)
        assert process.returncode == 0
        error = shown() if error is None else error.decode()
    if where != "seen":
        assert (tmp_path / "out").read_bytes() == b"SHORT\n" * 3 + b"\n"
    else:
        assert error.startswith("\r\x1b[Kstarting, 0 s\r\x1b[K")
    plain = error.replace("\r\x1b[K", "").removeprefix("starting, 0 s")
    expected = expected.replace("RATE", r"[\d,.]+ a second")
    end = "\n" * (where in ("file", "pipe")) + "1 of 4 lines skipped\n"
    assert re.fullmatch(expected + end, plain), repr(error)
    assert ("\r" in error) == (where in ("file", "pipe", "seen"))


@pytest.mark.parametrize(
    ("pairs", "defaults", "direction"),
    [
        (["de-en", "fr-en"], (), "de en"),
        (["de-en", "en-fr"], ("en",), "en fr"),
        (["nl-en", "de-en"], (), "de en"),  # Its pieces for `nl` were trimmed.
        ([], (), "de fr"),
    ],
)
def test_the_next_command_has_a_direction_that_the_model_learned(
    pairs, defaults, direction, capsys
):
    suggest("run", {"pairs": pairs}, ["de", "en", "fr"], *defaults)
    source, target = direction.split()
    expected = f"--source-language {source} --target-language {target}"
    assert capsys.readouterr().err == f"next: keras-mt translate run {expected}\n"

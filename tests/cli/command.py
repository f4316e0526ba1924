"""Runs the command in the process of the tests."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from keras_mt.cli import main


def keras_mt(*arguments, stdin=b"", check=True, exit_code=0):
    """Runs the command in this process, which spares TensorFlow's start; checks how it ends."""
    result = CliRunner().invoke(main, [*map(str, arguments)], input=stdin, catch_exceptions=False)
    if check:
        assert result.exit_code == exit_code, result.stderr
    return result


def run_line(line):
    """Runs a line of a shell, with what it reads and writes; gives what it prints."""
    command, _, output = line.partition(" > ")
    command, _, read = command.partition(" < ")
    stdin = Path(read).read_bytes() if read else b""
    if command.startswith("echo "):
        text, command = command.removeprefix("echo ").split(" | ")
        stdin = (shlex.split(text)[0] + "\n").encode()
    name, *words = shlex.split(command)
    if name == "sacrebleu":
        words = [sys.executable, "-m", "sacrebleu", *words]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert name == "keras-mt"
    printed = keras_mt(*words, stdin=stdin).stdout
    if output:
        Path(output).write_text(printed, encoding="utf-8")
    return printed


def strict(line):
    """What a line of JSON holds; NaN and Infinity, which Python would take, are no JSON."""

    def refuse(constant):
        raise ValueError(constant)

    return json.loads(line, parse_constant=refuse)

"""Runs the command in the process of the tests."""

import json

from click.testing import CliRunner

from keras_mt.cli import main


def keras_mt(*arguments, stdin=b"", check=True):
    """Runs the command in this process, which spares TensorFlow's start."""
    result = CliRunner().invoke(main, [*map(str, arguments)], input=stdin, catch_exceptions=False)
    if check:
        assert result.exit_code == 0, result.stderr
    return result


def strict(line):
    """What a line of JSON holds; NaN and Infinity, which Python would take, are no JSON."""

    def refuse(constant):
        raise ValueError(constant)

    return json.loads(line, parse_constant=refuse)

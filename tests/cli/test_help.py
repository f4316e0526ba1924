import re
import shlex

import click
import pytest
from command import keras_mt
from conftest import ROOT

from keras_mt.cli import main


@pytest.mark.parametrize("name", main.list_commands(None))
def test_help_teaches(name):
    """It shows examples that the command takes, and all its options."""
    command = main.get_command(None, name)
    text = keras_mt(name, "--help").output
    examples = re.findall(r"keras-mt (.+)$", text.split("Options:")[0], re.MULTILINE)
    assert examples
    for example in examples:
        called, *arguments = shlex.split(re.split(" [<>] ", example)[0])
        assert called == name
        for i, argument in enumerate(arguments):  # What it names shall be there.
            if re.match(r"runs/|saved_models/|\w+\.txt", argument):
                arguments[i] = str(ROOT / "README.md" if argument.endswith("txt") else ROOT)
        command.make_context(name, arguments)  # Parses; does not invoke.
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.opts[0] in text, option.name
    assert f"  {name} " in keras_mt("--help").output

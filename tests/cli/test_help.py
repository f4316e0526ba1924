import re
import shlex

import click
import pytest
from command import keras_mt
from conftest import ROOT

from keras_mt.cli import main
from keras_mt.cli.help import GROUPS


@pytest.mark.parametrize("name", main.list_commands(None))
def test_help_teaches(name):
    """It is short, shows all options in one group each, and ends with examples that parse."""
    command = main.get_command(None, name)
    short, everything = (keras_mt(name, flag).output for flag in ("--help", "--help-all"))
    assert len(short.splitlines()) <= 40
    assert all(len(line) <= 80 for line in everything.splitlines())
    lists = (text.split("\nOptions:\n")[1] for text in (short, everything))
    shown, all_shown = (re.findall(r"^  (--(?!help ).+?)\s", text, re.MULTILINE) for text in lists)
    options = {x.opts[0]: x for x in command.params if isinstance(x, click.Option)}
    assert sorted(all_shown) == sorted([*options, *{"--help-all"} & {*shown}])
    assert len(shown) <= 14 and (shown == all_shown) == ("--help-all" not in shown)
    for option in options.values():
        sentence = option.help.split("  [default: ")[0]
        assert re.findall(r"\.(?= |$)", sentence) == ["."], "One sentence."

    examples = short.split("\nExamples:\n")[1].replace("\\\n", "")
    called = re.findall("keras-mt (.+)$", examples, re.MULTILINE)
    assert called and everything.endswith(short.split("\nExamples:\n")[1])
    for example in called:
        word, *arguments = shlex.split(re.split(" [<>] ", example)[0])
        assert word == name
        for i, argument in enumerate(arguments):  # What it names shall be there.
            if re.match(r"runs/|saved_models/|\w+\.txt", argument):
                arguments[i] = str(ROOT / "README.md" if argument.endswith("txt") else ROOT)
        command.make_context(name, arguments)  # Parses; does not invoke.


def test_the_list_of_commands_shows_each_summary_whole():
    text = keras_mt("--help").output
    for name, command in main.commands.items():
        assert re.search(f"^  {name} +{re.escape(command.help.splitlines()[0])}$", text, re.M), name


def test_each_name_in_the_table_of_groups_is_an_option_and_stands_once():
    names = " ".join(GROUPS.values()).split()
    assert len(names) == len({*names})
    assert {*names} <= {
        param.name for command in main.commands.values() for param in command.params
    }

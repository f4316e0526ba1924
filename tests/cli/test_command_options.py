import dataclasses

import click
from click.testing import CliRunner

from keras_mt.cli.errors import Command
from keras_mt.cli.options import options_of
from keras_mt.options.fields import option


@dataclasses.dataclass
class Options:
    rank: int | None = option("The rank.", formerly="lora")
    sizes: int | None = option("A size.", flag="--size", formerly="weights", former_flag="--weight")
    fast: bool = option("Whether to be fast.", False, formerly="quick")
    epochs: int | None = option("Epochs.")


@click.command(cls=Command)
@options_of(Options)
def command(**options):
    click.echo(options)


def test_a_renamed_flag_still_works_and_one_line_names_the_new_one():
    old = CliRunner().invoke(command, ["--lora", "4", "--weight=2", "--quick", "--epochs", "1"])
    new = CliRunner().invoke(command, ["--rank", "4", "--size=2", "--fast", "--epochs", "1"])
    assert old.exit_code == new.exit_code == 0 and old.stdout == new.stdout
    assert new.stderr == ""
    assert old.stderr.splitlines() == [
        "--lora is now --rank.",
        "--weight is now --size.",
        "--quick is now --fast.",
    ]
    help = CliRunner().invoke(command, ["--help"]).stdout
    assert "--rank" in help and "--lora" not in help and "--quick" not in help

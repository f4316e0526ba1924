"""What is the user's to mend is one message; all else says that it is a bug."""

import json
import os
import shutil
import signal
import time
import zipfile

import click
import pytest
import tensorflow as tf
from click.testing import CliRunner

from keras_mt.cli import main
from keras_mt.cli.command import Command
from keras_mt.cli.options import as_typed
from keras_mt.errors import InputError

WHERE = "Graph execution error:\n\nDetected at node Gather defined at (most recent call last):\n"


def ends_with(error, **params):
    """How a command ends whose body raises an error."""

    @click.command(cls=Command)
    @click.option("--architecture", multiple=True)
    def command(architecture):
        raise error

    return CliRunner().invoke(command, [f"--{n}={value}" for n, value in params.items()])


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (InputError("beam_size must be 1."), 1, "beam_size must be 1."),
        (FileNotFoundError("There is no x."), 1, "There is no x."),
        (FloatingPointError("The loss is not finite."), 1, "The loss is not finite."),
        (click.UsageError("Give a run."), 2, "Give a run."),
        (KeyboardInterrupt(), 130, "interrupted."),
        (MemoryError(), 1, "there is not enough memory."),
        (
            tf.errors.DataLossError(None, None, f"{WHERE}the file is damaged\n [[{{node G}}]]"),
            1,
            "the file is damaged",
        ),
        (tf.errors.ResourceExhaustedError(None, None, "OOM"), 1, "OOM"),
    ],
)  # fmt: skip
def test_what_the_user_can_mend_is_one_message(error, status, message):
    result = ends_with(error)
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (status, f"Error: {message}")
    assert "Traceback" not in result.stderr


def test_an_interrupt_that_became_another_error_is_one():
    @click.command(cls=Command)
    def command():
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        except KeyboardInterrupt:  # As TensorFlow and Keras do while they trace a layer.
            raise RuntimeError("Exception encountered when calling Layer.call().") from None

    result = CliRunner().invoke(command)
    assert (result.exit_code, result.stderr) == (130, "Error: interrupted.\n")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no such axis"),
        RuntimeError("no such axis"),
        KeyError("no such axis"),
        tf.errors.InvalidArgumentError(None, None, f"{WHERE}no such axis"),
    ],
)
def test_all_else_is_a_bug_that_says_how_to_see_its_trace(error, monkeypatch):
    result = ends_with(error)
    (line,) = result.stderr.splitlines()
    assert result.exit_code == 70
    assert f"this is a bug in keras_mt: {type(error).__name__}: " in line
    assert "no such axis" in line and "KERAS_MT_DEBUG=1" in line
    monkeypatch.setenv("KERAS_MT_DEBUG", "1")
    assert ends_with(error).exception is error


def test_options_in_a_message_stand_as_users_type_them():
    message = "seed must be 1. Received: seed=2. See `seed`, n_best; a seed, n_best.txt, /a/n_best"

    @click.command(cls=Command)
    @click.option("--seed")
    @click.option("--n-best")
    def command(**options):
        raise InputError(message)

    assert CliRunner().invoke(command).stderr == (
        "Error: --seed must be 1. Received: --seed=2. See --seed, --n-best; a seed, n_best.txt, "
        "/a/n_best\n"
    )
    assert as_typed(message) == message  # No command is running.


def test_a_class_of_ones_own_may_be_at_fault_too():
    line = ends_with(ValueError("x"), architecture="my_model:Model").stderr
    assert "a bug in keras_mt or my_model:Model: ValueError: x;" in line


def test_a_damaged_model_is_named(run_dir, tmp_path):
    """Of each part that Keras reads: what it says of it is no bug of ours."""
    shutil.copytree(run_dir, tmp_path / "run")
    with zipfile.ZipFile(run_dir / "model.keras") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(parts["config.json"])
    config["config"]["num_heads"] = 7
    other = json.loads(parts["config.json"])
    other["config"]["d_ff"] = 8
    for name, damaged in (
        ("config.json", json.dumps(config).encode()),
        ("config.json", json.dumps(other).encode()),
        ("model.weights.h5", b"none"),
    ):
        with zipfile.ZipFile(tmp_path / "run" / "model.keras", "w") as archive:
            for part, content in {**parts, name: damaged}.items():
                archive.writestr(part, content)
        result = CliRunner().invoke(main, ["translate", str(tmp_path / "run")], input="Oi.\n")
        assert result.exit_code == 1, result.stderr
        assert f"{tmp_path}/run/model.keras cannot be read: " in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train --data /nowhere --source en --target de", "There is no corpus '/nowhere'"),
        ("train --data phrasebook --source en --target de", "no language 'de'; it has pt, en"),
        ("train --data phrasebook --source pt --target en --init /nowhere",
         "/nowhere is not a finished run folder"),
        ("train --data phrasebook --source pt --target en --set num_heads=3",
         "The width of the query must be divisible by num_heads"),
        ("train --data phrasebook --source pt --target en --architecture lstm",
         "Unknown architecture 'lstm'"),
        ("train --data x --pair de-en=y",
         "Give --data, --source and --target, or --pair in place of all three. Received: --data="),
        ("train --data phrasebook --source pt --target en --lora-rank 4",
         "Error: --lora-rank needs --init, the run whose model gets the adapters."),
        ("train --data phrasebook --source pt --target en --dropout 0.1 --set dropout=0.2",
         "Error: --dropout was given twice: 0.1, and 0.2 for the model."),
        ("translate .", "neither a run folder nor an export"),
        ("export . new", "not a finished run folder"),
        ("import . new", "is not a folder to import: it has no config.json"),
        ("average . new", "has no checkpoints to average: it must have config.json"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_in_one_line(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = arguments.split()
    if arguments[0] == "train":
        arguments += ["--output", "new"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1 and message in result.stderr
    assert len(result.stderr.splitlines()) == 1

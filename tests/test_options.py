import dataclasses
import inspect

import click
import pytest
from conftest import ROOT

from keras_mt import cli
from keras_mt.cli.options import option_of
from keras_mt.options import SearchOptions, TrainingOptions, TranslationOptions
from keras_mt.options.fields import signature
from keras_mt.training import train

NAMES = [field.name for field in dataclasses.fields(TrainingOptions)]


def of_command(name):
    """The options of a command by their names in Python."""
    return {p.name: p for p in cli.main.commands[name].params if isinstance(p, click.Option)}


def test_python_and_the_command_have_every_option_of_the_declaration():
    own = {"data", "source", "target", "output", "pairs"}
    parameters = inspect.signature(train).parameters
    assert set(parameters) == {*own, "report", *NAMES}
    assert set(of_command("train")) == {*own, *NAMES}
    for field in dataclasses.fields(TrainingOptions):
        assert parameters[field.name].default == field.default
        help, words = of_command("train")[field.name].help, field.metadata["help"]
        assert help.startswith(words) and (field.default is False or "[default: " in help)
        assert f"\n    {field.name}: " in train.__doc__
        assert words.split(".")[0] in " ".join(train.__doc__.split())
    searches = {field.name for field in dataclasses.fields(TranslationOptions)}
    for name in ("translate", "export"):
        assert searches <= set(of_command(name))
    for name in ("translate-files", "evaluate"):  # One translation of each text.
        assert searches - set(of_command(name)) == {"n_best"}
    for name in ("top_p", "no_repeat_ngram_size"):
        assert f"\n    {name}: " in SearchOptions.__doc__


def test_the_command_gives_a_search_what_python_does():
    for words, value in (("true", True), ("False", False), ("never", "never")):
        arguments = [str(ROOT), "--early-stopping", words, "--patience", "2", "--no-force-end"]
        found = cli.main.commands["translate"].make_context("translate", arguments).params
        assert found["early_stopping"] is value or found["early_stopping"] == value == "never"
        assert found["patience"] == 2.0 and found["force_end"] is False
    assert SearchOptions(early_stopping=1).early_stopping is True


def test_a_signature_keeps_what_is_not_an_option():
    def function(a, *, report=print, **options): ...

    names = list(signature(function, SearchOptions).parameters)
    assert names[:2] == ["a", "report"] and "beam_size" in names and "options" not in names


def test_an_unknown_option_gets_the_nearest_name():
    with pytest.raises(TypeError, match=r"train\(\) has no option 'warmup'; did you mean 'warmup"):
        train("phrasebook", "pt", "en", "nowhere", warmup=1)
    with pytest.raises(TypeError, match="has no option 'zzz'; there are source_language, "):
        train("phrasebook", "pt", "en", "nowhere", zzz=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": True}, "steps must be an integer. Received: steps=True"),
        ({"steps": 1.5}, "steps must be an integer. Received: steps=1.5"),
        ({"seed": None}, "seed must be an integer"),
        ({"dropout": "much"}, "dropout must be a number"),
        ({"learning_rate": float("inf")}, "learning_rate must be finite"),
        ({"learning_rate": float("nan")}, "learning_rate must be finite"),
        ({"clean": "yes"}, "clean must be True or False"),
        ({"dtype": "int7"}, "dtype must be one of float32, mixed_bfloat16, mixed_float16"),
        ({"init": "a", "tokenizer": "b"}, "`init` or `tokenizer`"),
        ({"lora_rank": 4}, "lora_rank needs `init`"),
        ({"init": "a", "lora_rank": 0}, "lora_rank must be at least 1. Received: lora_rank=0"),
        ({"init": "a", "model": {"d_model": 2}}, "`init` or `model`"),
        ({"dropout": 0.1, "model": {"dropout": 0.2}}, "dropout was given twice: 0.1, and 0.2"),
    ],
)
def test_impossible_options_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        TrainingOptions(**options)


def test_an_argument_of_the_model_that_has_an_option_of_its_own_is_that_option():
    options = TrainingOptions(model={"dropout": 0.25, "d_ff": 8})
    assert options.dropout == 0.25 and options.model == {"d_ff": 8}


def test_settings_are_json_or_else_strings():
    @click.command()
    @option_of(TrainingOptions.__dataclass_fields__["model"])
    def command(model):
        return dict(model)

    arguments = ["--set", "a=1", "--set", "b=true", "--set", "c=gelu", "--set", 'd={"e": [0.5]}']
    found = command.main([*arguments, "--set", "f=x=y"], standalone_mode=False)
    assert found == {"a": 1, "b": True, "c": "gelu", "d": {"e": [0.5]}, "f": "x=y"}
    with pytest.raises(click.UsageError, match="KEY=VALUE"):
        command.main(["--set", "a"], standalone_mode=False)

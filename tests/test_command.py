import os
import subprocess
import sys

import pytest
from conftest import ROOT

from keras_mt.cli import main

LIGHT = """
import sys, keras_mt_command
for arguments in {arguments}:
    sys.argv = ["keras-mt", *arguments]
    try:
        keras_mt_command.main()
    except SystemExit as end:
        assert end.code == {status}, end.code
    for name in [name for name in sys.modules if name.startswith("keras_mt.")]:
        del sys.modules[name]
heavy = {{"keras", "tensorflow", "numpy", "sacrebleu"}} & set(sys.modules)
assert not heavy, heavy
"""


COMMANDS = sorted(main.commands)


def test_both_ways_to_start_the_command_are_one():
    def run(*start):
        script = [sys.executable, "-X", "importtime", *start, "train", "--help-all"]
        result = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=True)
        imported = {line.split("|")[-1].strip() for line in result.stderr.splitlines()}
        assert "click" in imported and not {"keras", "tensorflow"} & imported
        assert all(line.startswith("import time:") for line in result.stderr.splitlines())
        return result.stdout

    command = run("keras_mt_command.py")
    assert "--warmup-steps" in command and run("-m", "keras_mt") == command


def test_a_command_is_imported_without_the_others():
    script = LIGHT.format(arguments=[["train", "--help"]], status=0)
    script = script.replace("    for name in [", "    print(*sys.modules)\n    for name in [")
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    imported = set(result.stdout.splitlines()[-1].split())
    assert "keras_mt.cli.train" in imported and "keras_mt.cli.translate" not in imported


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ([["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)], 0),
        (
            [
                ["nonsense"],
                ["translate", "/nowhere"],
                ["train", "--data", "phrasebook"],
                ["train", "--dtype", "int7"],
                ["translate", ".", "--beam-size", "many"],
            ],
            2,
        ),
    ],
)
def test_help_and_usage_errors_import_neither_keras_nor_tensorflow(arguments, status):
    script = LIGHT.format(arguments=arguments, status=status)
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    if status == 0:
        assert all(f"Usage: keras-mt {name} " in result.stdout for name in COMMANDS)


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "text", "translation"),
    [
        ("tests/fixture/pt_en", "O livro é novo.", "The book is new."),
        ("saved_models/multi30k_en_de", "A man is reading a book.", "Ein Mann liest ein Buch."),
    ],
)
def test_the_command_translates_without_a_word_whatever_backend_scripts_are_on(
    model, text, translation
):
    quiet = {name: x for name, x in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    result = subprocess.run(
        [sys.executable, "keras_mt_command.py", "translate", model],
        cwd=ROOT, env={**quiet, "KERAS_BACKEND": "numpy", "CUDA_VISIBLE_DEVICES": ""},
        input=text + "\n", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (result.stdout, result.stderr) == (translation + "\n", "")
